"""One fixed plan for a picture: what a plan leaves open is taken as written, and noted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.execution.running.expand import expand
from planguard.plan.actions import MARKERS, MEMBER, Kind
from planguard.plan.code import WORDS
from planguard.plan.flatten import flatten
from planguard.plan.format import read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.plan.plan import Plan

_OPEN = frozenset({Kind.UNORDERED_BEGIN, Kind.THREADS_BEGIN, Kind.CHOICE_BEGIN})


@dataclass(frozen=True)
class Settled:
    """A fixed plan and the way back.

    Attributes:
        plan: The plan without open order, branches, threads and fused buffers.
        actions: Action index in the original plan of every action, per rank; None: unchanged.
        notes: What was settled, in words.
    """

    plan: Plan
    actions: tuple[tuple[int, ...], ...] | None = None
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
    notes: set[str] = set()
    if not plan.fusion and not _has_blocks(plan):
        return Settled(plan)
    if plan.fusion:
        notes.add("members of fused buffers are drawn one by one")
    columns = expand(plan)
    flat = flatten(plan)
    flat.pop("fusion", None)
    places = []
    for rank in range(plan.world_size):
        use = flat["ranks"][str(rank)]
        leaves = list(_leaves(use["actions"], notes, kept=True))
        indices = _issued(columns, rank)
        use["actions"] = [_bare(action) for action, kept in leaves if kept]
        places.append(tuple(i for (_, kept), i in zip(leaves, indices, strict=True) if kept))
    return Settled(read(flat), tuple(places), tuple(sorted(notes)))


def _has_blocks(plan: Plan) -> bool:
    return any(
        op & (MEMBER - 1) in _OPEN for program in plan.code.programs for op in program.code[::WORDS]
    )


def _bare(action: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in action.items() if key != "after"}


def _issued(columns: Any, rank: int) -> Iterator[int]:
    """Yield the action index of everything that is issued, in written order."""
    index = -1
    for at in range(columns.rank_off[rank], columns.rank_off[rank + 1]):
        op = columns.op[at]
        if not op & MEMBER:
            index += 1
            if op & (MEMBER - 1) not in MARKERS:
                yield index


def _leaves(
    actions: list[Any], notes: set[str], *, kept: bool
) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield the actions of nested blocks in written order, and whether they are drawn."""
    for action in actions:
        if isinstance(action, list):
            yield from _leaves(action, notes, kept=kept)
        elif action["op"] == "unordered":
            notes.add("open orders are drawn as written")
            yield from _leaves(action["body"], notes, kept=kept)
        elif action["op"] == "threads":
            notes.add("host threads are drawn one after the other")
            yield from _leaves(action["threads"], notes, kept=kept)
        elif action["op"] == "choice":
            notes.add("the first branch of every choice is drawn")
            for number, branch in enumerate(action["branches"]):
                yield from _leaves(branch, notes, kept=kept and number == 0)
        else:
            yield action, kept
