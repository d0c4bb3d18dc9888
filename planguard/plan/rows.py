"""Rows: which rows of words belong to an action of a compiled program, and its action numbers."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from planguard.plan.actions import KIND_MASK, MARKERS, MEMBER, Kind
from planguard.plan.code import WORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.plan.code import Program


class Rows:
    """The rows of one program without loops.

    Attributes:
        first: First row of every action, and the number of rows. What is bound when an action was
            issued, and the members of a batch, are rows of that action.
        kinds: Kind of every action.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        ops = program.code[::WORDS]
        self.first = [at for at, op in enumerate(ops) if not op & MEMBER and op != Kind.BIND]
        self.kinds = [ops[at] & KIND_MASK for at in self.first]
        self.first.append(len(ops))

    @cached_property
    def is_plain(self) -> bool:
        """Whether nothing of the program stands in a block."""
        return MARKERS.isdisjoint(self.kinds)

    @cached_property
    def tops(self) -> list[Any]:
        """Per action, what stands for it in a list of actions; None inside a block.

        A branch is a list of its own: what stands in no other block stands in its list.
        """
        found: list[Any] = []
        depth = 0
        for kind, row in zip(self.kinds, self.first, strict=False):
            depth -= kind in _ENDS
            plain = kind not in MARKERS or kind in _BEGINS
            found.append(self.program.nodes[row] if plain and not depth else None)
            depth += kind in _BEGINS
        return found

    @cached_property
    def spans(self) -> list[range]:
        """Actions of every item of the program, blocks as a whole; there are no branches."""
        found: list[range] = []
        depth = start = 0
        for action, kind in enumerate(self.kinds):
            start = start if depth else action
            depth += (kind in _BEGINS) - (kind in _ENDS)
            if not depth:
                found.append(range(start, action + 1))
        return found

    def node(self, action: int) -> Any:
        """Return an action as it was read."""
        return self.program.nodes[self.first[action]]


_BEGINS = frozenset({Kind.UNORDERED_BEGIN, Kind.THREADS_BEGIN})
_ENDS = frozenset({Kind.UNORDERED_END, Kind.THREADS_END})


def place_markers(origin: list[int], kinds: Sequence[int]) -> None:
    """Let the ends of blocks stand for the action in front of them, in place."""
    for at, action in enumerate(origin):
        if kinds[action] in MARKERS:
            origin[at] = origin[at - 1] if at else 0


def with_markers(program: Program, issued: Sequence[int]) -> tuple[int, ...]:
    """Return where all actions come from, if it is known of those that are issued."""
    rows = Rows(program)
    if rows.is_plain:
        return tuple(issued)
    origin = iter(issued)
    found: list[int] = []
    for kind in rows.kinds:
        found.append((found[-1] if found else 0) if kind in MARKERS else next(origin))
    return tuple(found)
