"""Views of single actions: found by ``(rank, action index)`` in the symbolic plan, never stored."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, to_builtins

from planguard.plan.actions import Kind
from planguard.plan.nodes import Action
from planguard.plan.pointers import Steps
from planguard.verdict import Source


class ActionView(Struct, frozen=True):
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
        plain: dict[str, Any] = to_builtins(self.action)
        plain.pop("op")
        return plain
