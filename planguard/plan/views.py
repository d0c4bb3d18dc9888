"""Views of single actions: found by ``(rank, action index)`` in the symbolic plan, never stored."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.plan.actions import MEMBER, Kind
from planguard.plan.code import WORDS

if TYPE_CHECKING:
    from planguard.plan.code import Program
    from planguard.plan.nodes import Action
    from planguard.plan.pointers import Steps
    from planguard.verdict import Source


@dataclass(frozen=True, slots=True)
class ActionView:
    """One action of one rank, with everything a person may want to see of it.

    Attributes:
        rank: Global rank.
        index: 0-based action index: ``repeat`` unrolled, a batch counts once, the begin and end
            of a block of undecided order count one each.
        member: Index inside a batch, or None.
        op: Operation name in torch spelling.
        kind: Instruction kind.
        action: The action as it stands in the plan.
        instruction: Index of its instruction in the program.
        iterations: Iteration of every enclosing ``repeat``, outermost first.
        id: Its id, ``{i}`` substituted.
        label: Its label, ``{i}`` substituted.
        src: Where the planner made it.
        steps: Its place in the plan.
        pointer: The same as a JSON path.
    """

    rank: int
    index: int
    member: int | None
    op: str
    kind: Kind
    action: Action
    instruction: int
    iterations: tuple[int, ...]
    id: str | None
    label: str | None
    src: Source | None
    steps: Steps
    pointer: str

    @property
    def fields(self) -> dict[str, Any]:
        """The fields as they stand in the plan, without ``op``."""
        import msgspec

        plain: dict[str, Any] = msgspec.to_builtins(self.action)
        plain.pop("op")
        return plain


class Layout:
    """Where the actions of one program are: lengths of loops and action indices.

    Only the blocks that are asked for are laid out, so a lookup costs the instructions of the
    enclosing blocks once and a binary search afterwards.
    """

    def __init__(self, program: Program) -> None:
        self._words = program.code
        self._size = len(program)
        self._blocks: dict[int, tuple[list[int], list[int], int]] = {}

    @property
    def length(self) -> int:
        """Number of actions of the program."""
        return self._block(0, self._size)[2]

    def _block(self, start: int, end: int) -> tuple[list[int], list[int], int]:
        """Return first action index and instruction of every item, and the number of actions."""
        found = self._blocks.get(start)
        if found is None:
            found = self._blocks[start] = self._lay_out(start, end)
        return found

    def _lay_out(self, start: int, end: int) -> tuple[list[int], list[int], int]:
        firsts: list[int] = []
        instructions: list[int] = []
        total, place = 0, start
        while place < end:
            op, a, b = self._words[place * WORDS : place * WORDS + 3]
            if op == Kind.REPEAT:
                firsts.append(total)
                instructions.append(place)
                total += a * self._block(place + 1, place + 1 + b)[2]
                place += b
            elif op != Kind.BIND and not op & MEMBER:
                firsts.append(total)
                instructions.append(place)
                total += 1
            place += 1
        return firsts, instructions, total

    def find(self, index: int) -> tuple[int, tuple[int, ...]]:
        """Return the instruction of an action and the iterations around it.

        Raises:
            IndexError: The program has no such action.
        """
        if not 0 <= index < self.length:
            raise IndexError(f"action {index} of a program of {self.length}")
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
