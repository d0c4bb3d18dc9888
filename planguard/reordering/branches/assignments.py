"""Data-dependent branches: their variables, and the plan of every assignment.

A `choice` is a variable over its branches. Equal names are one variable: of all ranks if every
occurrence is `uniform`, else one for each rank. An assignment replaces every `choice` by the branch
it takes; what is left is decided like any other plan.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.plan.actions import KIND_MASK, MEMBER, Kind
from planguard.plan.fixed import AT, FixedPlan, written
from planguard.plan.flatten import flatten
from planguard.plan.vocabulary import OPEN_BLOCKS
from planguard.words import name_ranks, plural, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from planguard.plan.plan import Plan

VARIABLE = "x-variable"

_SHOWN_MARKERS = {Kind.CHOICE_BEGIN, Kind.THREADS_BEGIN, Kind.UNORDERED_BEGIN}

Key = tuple[str, int]
"""A variable: its name, and its rank or -1 for all ranks."""
Assignment = dict[Key, int]


_NAMED = 3


class UnclearError(Exception):
    """The plan does not say which branches belong together."""


@dataclass(frozen=True)
class Variables:
    """The branch variables of a plan.

    Attributes:
        sizes: Number of branches of every variable.
        names: Names whose branch may differ between ranks.
    """

    sizes: dict[Key, int]
    names: tuple[str, ...]

    def count(self, limit: int) -> int:
        """Return the number of assignments, or ``limit`` when there are at least as many."""
        total = 1
        for size in self.sizes.values():
            total *= size
            if total >= limit:
                return limit
        return total

    def assignments(self) -> Iterator[Assignment]:
        """Yield every assignment: equal branches on all ranks first, then few differences."""
        keys = sorted(self.sizes)
        ranges = [range(self.sizes[key]) for key in keys]
        found = [dict(zip(keys, values, strict=True)) for values in itertools.product(*ranges)]
        return iter(sorted(found, key=differences))


def differences(assignment: Assignment) -> tuple[int, int]:
    """Return how many names differ between ranks, and how many ranks stand against the rest."""
    by_name: dict[str, list[int]] = {}
    for (name, _), branch in assignment.items():
        by_name.setdefault(name, []).append(branch)
    minority = [len(taken) - max(Counter(taken).values()) for taken in by_name.values()]
    return sum(1 for few in minority if few), sum(minority)


def flat_tree(plan: Plan, columns: Any) -> dict[str, Any]:
    """Return the flat plan with the action index in every action and block."""
    flat = flatten(plan)
    ranks: dict[str, Any] = {}
    for rank in range(plan.world_size):
        places = _places(columns, rank)
        ranks[str(rank)] = {"actions": _annotated(flat["ranks"][str(rank)]["actions"], places)}
    return {**flat, "ranks": ranks}


def _places(columns: Any, rank: int) -> Iterator[int]:
    """Yield the action index of every action and of the begin of every block, as written."""
    index = -1
    for at in range(columns.rank_off[rank], columns.rank_off[rank + 1]):
        kind = columns.op[at] & KIND_MASK
        index += not columns.op[at] & MEMBER
        is_marker = Kind.REPEAT <= kind < 60
        if not columns.op[at] & MEMBER and (not is_marker or kind in _SHOWN_MARKERS):
            yield index


def _annotated(actions: Iterable[Any], places: Iterator[int]) -> list[Any]:
    out: list[Any] = []
    for item in actions:
        if isinstance(item, list):
            out.append(_annotated(item, places))
            continue
        marked = {**item, AT: next(places)}
        inner = OPEN_BLOCKS.get(item["op"])
        if inner:
            marked[inner] = _annotated(item[inner], places)
        out.append(marked)
    return out


def leaves(actions: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the actions that are issued, in the order in which they are written."""
    for item in actions:
        if isinstance(item, list):
            yield from leaves(item)
        elif item["op"] in OPEN_BLOCKS:
            yield from leaves(item[OPEN_BLOCKS[item["op"]]])
        else:
            yield item


def choices(actions: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield every `choice`, outer ones first."""
    for item in actions:
        if isinstance(item, list):
            yield from choices(item)
        elif item["op"] in OPEN_BLOCKS:
            if item["op"] == "choice":
                yield item
            yield from choices(item[OPEN_BLOCKS[item["op"]]])


def variables_of(plan: Plan, flat: dict[str, Any]) -> Variables:
    """Return the variables of a flat plan and name its choices after them.

    Raises:
        UnclearError: Choices of one name have different numbers of branches, or a uniform one
            without a name is shared by ranks with different programs.
    """
    uses = []
    for rank in range(plan.world_size):
        for number, choice in enumerate(choices(flat["ranks"][str(rank)]["actions"])):
            use = Use.of(plan, rank, number, choice)
            choice[VARIABLE] = use.name
            uses.append(use)
    return variables_of_uses(uses)


@dataclass(frozen=True)
class Use:
    """One `choice` of a rank.

    Attributes:
        name: The name of its variable.
        rank: The rank.
        number: Its place among all choices of the program, outer ones first.
        branches: Number of branches.
        uniform: Whether it says that all ranks take the same one.
    """

    name: str
    rank: int
    number: int
    branches: int
    uniform: bool

    @staticmethod
    def of(plan: Plan, rank: int, number: int, choice: Mapping[str, Any]) -> Use:
        """Return a choice under the name of its variable.

        Raises:
            UnclearError: It is uniform and without a name, on ranks with different programs.
        """
        programs = plan.code.rank_program
        uniform = choice.get("uniform") is True
        name = choice.get("name")
        if name is None and uniform and len(set(programs)) > 1:
            raise UnclearError("a uniform choice without a name, on ranks with different programs")
        # Of one program of all ranks the flat form names it (``flatten.named``).
        program = 0 if uniform else programs[rank]
        name = name or f"choice {number} of program {program}"
        return Use(name, rank, number, len(choice["branches"]), uniform)


def variables_of_uses(uses: Iterable[Use]) -> Variables:
    """Return the variables of all choices of a plan.

    Raises:
        UnclearError: Choices of one name have different numbers of branches.
    """
    found: dict[str, list[Use]] = {}
    for use in uses:
        found.setdefault(use.name, []).append(use)
    sizes: dict[Key, int] = {}
    free = []
    for name, mine in found.items():
        if len({use.branches for use in mine}) > 1:
            raise UnclearError(f"choices named {name} have different numbers of branches")
        uniform = all(use.uniform for use in mine)
        free += [] if uniform else [name]
        for use in mine:
            sizes[name, -1 if uniform else use.rank] = use.branches
    return Variables(sizes, tuple(free))


def resolve(actions: Iterable[Any], rank: int, assignment: Assignment) -> list[Any]:
    """Return the actions of a rank with every `choice` replaced by the branch it takes."""
    out: list[Any] = []
    for item in actions:
        if item["op"] == "choice":
            out += resolve(_taken(item, rank, assignment), rank, assignment)
        elif item["op"] == "unordered":
            body = [_item(entry, rank, assignment) for entry in item["body"]]
            out.append({**item, "body": [entry for entry in body if entry != []]})
        elif item["op"] == "threads":
            threads = [resolve(thread, rank, assignment) for thread in item["threads"]]
            out.append({**item, "threads": threads})
        else:
            out.append(item)
    return out


def _item(entry: Any, rank: int, assignment: Assignment) -> Any:
    """Return an item of an unordered block; the actions of a branch keep their order."""
    if isinstance(entry, list):
        return resolve(entry, rank, assignment)
    found = resolve([entry], rank, assignment)
    if entry["op"] != "choice":
        return found[0]
    named = {key: entry[key] for key in ("id", "after") if key in entry}
    if not named:
        return found
    # An empty branch, too, passes its order on: what comes after the choice comes after all that
    # the choice comes after.
    return {"op": "unordered", "body": [found] if found else [], **named}


def _taken(choice: dict[str, Any], rank: int, assignment: Assignment) -> Any:
    name = choice[VARIABLE]
    branch = assignment.get((name, rank), assignment.get((name, -1), 0))
    return choice["branches"][branch]


def assigned(flat: dict[str, Any], assignment: Assignment) -> FixedPlan:
    """Return the plan of one assignment.

    Raises:
        OrderError: Its programs are no valid plan: a wait, for example, for what was never started.
    """
    ranks = {
        rank: resolve(body["actions"], int(rank), assignment)
        for rank, body in flat["ranks"].items()
    }
    return written(flat, ranks)


def notes_of(assignment: Assignment) -> tuple[str, ...]:
    """Return which branch is taken where: differences first, then the first few names."""
    by_name: dict[str, dict[int, list[int]]] = {}
    for (name, rank), branch in assignment.items():
        by_name.setdefault(name, {}).setdefault(branch, []).append(rank)
    differ = [name for name, taken in by_name.items() if len(taken) > 1]
    named = differ or list(by_name)
    notes = [_note(name, by_name[name]) for name in named[:_NAMED]]
    rest = len(by_name) - len(notes)
    if rest and differ:
        notes.append(f"{plural(rest, 'other choice')} not shown")
    return tuple(notes)


def plain_name(name: str) -> str:
    """Return the name of a choice as the plan has it, without iterations."""
    return re.sub(r"(@\d+)+$", "", name)


def _note(name: str, taken: dict[int, list[int]]) -> str:
    parts = []
    for branch, ranks in sorted(taken.items()):
        who = "every rank takes" if -1 in ranks else _takes(ranks)
        parts.append(f"{who} branch {branch}")
    return f"at {shown(name)} {', '.join(parts)}"


def _takes(ranks: list[int]) -> str:
    return f"{name_ranks(ranks)} {'takes' if len(ranks) == 1 else 'take'}"
