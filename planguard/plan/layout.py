"""Where the actions of a symbolic program are: lengths of loops and action indices."""

from __future__ import annotations

import operator
from bisect import bisect_right
from typing import TYPE_CHECKING

from planguard.errors import UsageError, shorten
from planguard.plan.actions import MEMBER, Kind
from planguard.plan.code import WORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.plan.code import Program

Block = tuple[list[int], list[int], int]
"""First action index and instruction of every item of a block, and its number of actions."""


def lay_out(words: Sequence[int], start: int, end: int, blocks: dict[int, Block]) -> Block:
    """Return the layout of a block of instructions, and note it and its loops in ``blocks``."""
    firsts: list[int] = []
    instructions: list[int] = []
    total, place = 0, start
    while place < end:
        op, a, b = words[place * WORDS : place * WORDS + 3]
        if op == Kind.REPEAT:
            firsts.append(total)
            instructions.append(place)
            total += a * lay_out(words, place + 1, place + 1 + b, blocks)[2]
            place += b
        elif op != Kind.BIND and not op & MEMBER:
            firsts.append(total)
            instructions.append(place)
            total += 1
        place += 1
    blocks[start] = firsts, instructions, total
    return blocks[start]


class Layout:
    """Where the actions of one program are: lengths of loops and action indices.

    Only the blocks that are asked for are laid out, so a lookup costs the instructions of the
    enclosing blocks once and a binary search afterwards.
    """

    def __init__(self, program: Program) -> None:
        self._words = program.code
        self._size = len(program)
        self._length = program.length
        self._blocks: dict[int, Block] = {}

    @property
    def length(self) -> int:
        """Number of actions of the program."""
        return self._length

    def _block(self, start: int, end: int) -> Block:
        """Return first action index and instruction of every item, and the number of actions."""
        found = self._blocks.get(start)
        if found is None:
            found = lay_out(self._words, start, end, self._blocks)
        return found

    def find(self, index: int) -> tuple[int, tuple[int, ...]]:
        """Return the instruction of an action and the iterations around it.

        Raises:
            UsageError: The program has no such action.
        """
        try:
            known = 0 <= operator.index(index) < self.length
        except TypeError:
            known = False
        if not known:
            hint = f"its rank has {self.length} actions, counted from 0"
            raise UsageError(f"the program has no action {shorten(index)}", hint=hint)
        start, end = 0, self._size
        iterations: tuple[int, ...] = ()
        while True:
            firsts, instructions, _ = self._block(start, end)
            item = bisect_right(firsts, index) - 1
            place = instructions[item]
            op, _, b = self._words[place * WORDS : place * WORDS + 3]
            if op != Kind.REPEAT:
                return place, iterations
            start, end = place + 1, place + 1 + b
            iteration, index = divmod(index - firsts[item], self._block(start, end)[2])
            iterations += (iteration,)

    def members(self, instruction: int) -> range:
        """Return the instructions of the members of a batch."""
        count = self._words[instruction * WORDS + 1]
        return range(instruction + 1, instruction + 1 + count)
