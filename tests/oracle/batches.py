"""Calls of one launch on several communicators: NCCL wants one order of them on all ranks."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oracle.host import Key
    from oracle.state import State, System


def crossed(system: System, state: State) -> dict[Key, str]:
    """Find the rounds that two ranks launch together, in opposite order.

    Inside a group the order of calls matters, also across communicators (NCCL, usage/groups, which
    shows both wrong). Calls that one of the ranks launches apart are ordered by their queues.
    """
    if not system.model.ordered_batch:
        return {}
    launched = []
    for launch in system.lowered.launches:
        rounds = [one for one in launch if one.is_collective]
        if len(rounds) > 1 and system.view(state, rounds[0].rank).issued & rounds[0].bit:
            launched.append((rounds[0].rank, [system.key(state, one) for one in rounds]))
    found: dict[Key, str] = {}
    for (rank, keys), (other, others) in combinations(launched, 2):
        if rank == other:
            continue
        shared = [key for key in keys if key in others]
        for first, second in combinations(shared, 2):
            if others.index(first) > others.index(second):
                found |= {first: "order", second: "order"}
    return found
