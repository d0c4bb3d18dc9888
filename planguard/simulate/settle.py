"""One fixed plan for a picture: what a plan leaves open is taken as written, and noted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planguard.plan.actions import MARKERS, Kind
from planguard.plan.taking import Taking

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.plan.plan import Plan
    from planguard.plan.rows import Rows

_NOTES = {
    Kind.UNORDERED_BEGIN: "open orders are drawn as written",
    Kind.THREADS_BEGIN: "host threads are drawn one after the other",
    Kind.CHOICE_BEGIN: "the first branch of every choice is drawn",
}


@dataclass(frozen=True)
class Settled:
    """A fixed plan and the way back.

    Attributes:
        plan: The plan without open order, branches, threads and fused buffers.
        actions: Action index in the original plan of every action, per rank; None: unchanged.
        notes: What was settled, in words.
    """

    plan: Plan
    actions: Sequence[Sequence[int]] | None = None
    notes: tuple[str, ...] = ()

    def original(self, rank: int, action: int) -> int:
        """Return the action index in the original plan."""
        return action if self.actions is None else self.actions[rank][action]


def settle(plan: Plan) -> Settled:
    """Return the plan with every `unordered` block in written order, and so on.

    Threads are taken one after the other and every `choice` takes its first branch. Members of a
    fused buffer leave one by one.

    Raises:
        PlanError: The plan is too large to be flattened.
    """
    if not plan.fusion and plan.kinds.isdisjoint(_NOTES):
        return Settled(plan)
    taking = Taking(plan, fused=False)
    rows = [taking.rows(rank) for rank in range(plan.world_size)]
    notes = {said for kind, said in _NOTES.items() if any(kind in one.kinds for one in rows)}
    if plan.fusion:
        notes.add("members of fused buffers are drawn one by one")
    fixed = taking.fixed([list(_written(one)) for one in rows])
    return Settled(fixed.plan, fixed.origin, tuple(sorted(notes)))


def _written(rows: Rows) -> Iterator[range]:
    """Yield the actions of a program in written order, without all branches but the first."""
    branch: list[int] = []
    for action, kind in enumerate(rows.kinds):
        if kind == Kind.CHOICE_BEGIN:
            branch.append(-1)
        elif kind == Kind.BRANCH_BEGIN:
            branch[-1] += 1
        elif kind == Kind.CHOICE_END:
            branch.pop()
        elif kind not in MARKERS and not any(branch):
            yield range(action, action + 1)
