"""The plan file as edits see it: lists of actions, who runs them, and which the findings name."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from planguard.plan.vocabulary import BLOCKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.plan.plan import Plan
    from planguard.plan.pointers import Steps
    from planguard.verdict import Finding, Location, Verdict


@dataclass(frozen=True)
class Block:
    """A list of actions that run in their order.

    Attributes:
        steps: Its place in the document.
        items: The actions as they stand there.
        program: Index of the rank program it belongs to.
    """

    steps: Steps
    items: list[Any] = field(repr=False)
    program: int

    def at(self, index: int) -> Steps:
        """Return the place of one action."""
        return (*self.steps, index)


@dataclass(frozen=True)
class Bag:
    """An ``unordered`` action: its items may be issued in any order that ``after`` allows."""

    steps: Steps
    action: dict[str, Any] = field(repr=False)
    program: int

    @property
    def items(self) -> list[Any]:
        """The items as they stand there."""
        found: list[Any] = self.action["body"]
        return found

    def at(self, index: int) -> Steps:
        """Return the place of one item."""
        return (*self.steps, "body", index)


class PlanText:
    """A plan and the JSON document it was read from.

    Attributes:
        plan: The plan.
        document: Its text, decoded; ``x-`` names are kept.
    """

    def __init__(self, plan: Plan, document: Any = None) -> None:
        self.plan = plan
        self.document: dict[str, Any] = json.loads(plan.text) if document is None else document

    @cached_property
    def ranks(self) -> tuple[tuple[int, ...], ...]:
        """Ranks of every program."""
        found: list[list[int]] = [[] for _ in self.plan.code.programs]
        for rank, program in enumerate(self.plan.code.rank_program):
            found[program].append(rank)
        return tuple(map(tuple, found))

    @cached_property
    def parts(self) -> tuple[Block | Bag, ...]:
        """Every list of actions and every unordered block, outermost first, program by program."""
        found: list[Block | Bag] = []
        for number, program in enumerate(self.plan.code.programs):
            if self.ranks[number]:
                node = self.document
                for step in program.steps:
                    node = node[step]  # type: ignore[index]
                found += _inside(program.steps, node, number)  # type: ignore[arg-type]
        return tuple(found)

    def core(self, verdict: Verdict) -> frozenset[Steps]:
        """Return the places of all actions that the errors of a verdict name."""
        places = {
            (at.rank, at.action)
            for finding in verdict.findings
            if finding.severity == "error"
            for at in named(finding)
        }
        return frozenset(self.place(rank, action) for rank, action in places)

    def place(self, rank: int, action: int) -> Steps:
        """Return the place of an action of a rank."""
        return self.plan.action_at(rank, action).steps

    def program_of(self, steps: Steps) -> int:
        """Return the program that a place belongs to; -1 for what is outside of all."""
        for number, program in enumerate(self.plan.code.programs):
            if steps[: len(program.steps)] == program.steps:
                return number
        return -1

    def number(self, steps: Steps) -> int | None:
        """Return the action index of a place; None where a loop makes several of it."""
        number = self.program_of(steps)
        if number < 0 or not self.ranks[number]:
            return None
        program = self.plan.code.programs[number]
        items = self.document
        for step in program.steps:
            items = items[step]  # type: ignore[index]
        at = steps[-1]
        if len(steps) == len(program.steps) + 1 and isinstance(at, int):
            before: Any = items[:at]  # type: ignore[index]
            if at < len(items) and not any(item["op"] in BLOCKS for item in before):
                return at
        return self._numbers(number).get(steps)

    def _numbers(self, program: int) -> dict[Steps, int]:
        known = self._numbered.get(program)
        if known is None:
            known = self._numbered[program] = {}
            rank, length = self.ranks[program][0], self.plan.code.programs[program].length
            for index in range(length if length <= MAX_NUMBERED else 0):
                view = self.plan.action_at(rank, index)
                if view.steps not in known and not view.iterations:
                    known[view.steps] = index
        return known

    @cached_property
    def _numbered(self) -> dict[int, dict[Steps, int]]:
        return {}

    def names(self, program: int, field_name: str) -> frozenset[str]:
        """Return the handles (``work``) or ids (``id``) of a program."""
        found: set[str] = set()
        for part in self._of_program.get(program, ()):
            for item in part.items:
                name = item.get(field_name, ()) if isinstance(item, dict) else ()
                found.update([name] if isinstance(name, str) else name)
        return frozenset(found)

    @cached_property
    def _of_program(self) -> dict[int, list[Block | Bag]]:
        found: dict[int, list[Block | Bag]] = {}
        for part in self.parts:
            found.setdefault(part.program, []).append(part)
        return found


MAX_NUMBERED = 300
"""Longest program whose actions inside of blocks are numbered in the words of a repair."""


def named(finding: Finding) -> Iterator[Location]:
    """Yield the actions that a finding names, those behind which others wait included."""
    if finding.primary is not None:
        yield finding.primary
    yield from finding.related_actions
    for edge in finding.cycle:
        yield from (at for at in (edge.at, edge.waits_for, edge.behind) if at is not None)


def _inside(steps: Steps, items: list[Any], program: int) -> Iterator[Block | Bag]:
    yield Block(steps, items, program)
    for index, item in enumerate(items):
        yield from _within((*steps, index), item, program)


def _within(steps: Steps, item: Any, program: int) -> Iterator[Block | Bag]:
    """Yield the lists inside one action, or inside one item of an unordered block."""
    if isinstance(item, list):
        yield from _inside(steps, item, program)
        return
    name = BLOCKS.get(item["op"])
    if name is None:
        return
    place, inner = (*steps, name), item[name]
    if item["op"] == "repeat":
        yield from _inside(place, inner, program)
        return
    if item["op"] == "unordered":
        yield Bag(steps, item, program)
    for index, one in enumerate(inner):
        yield from _within((*place, index), one, program)
