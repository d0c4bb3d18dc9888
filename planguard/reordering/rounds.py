"""Out-of-round is polynomial: is each rank's order on a communicator a chain?

No execution mixes rounds iff on every communicator (and on every point-to-point channel) the
actions of each member are totally ordered; two unordered ones can always be swapped by one rank
alone (docs/explanation/theorems.md, T1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.plan.actions import COLLECTIVE_KIND
from planguard.reordering.blocks import reaches

if TYPE_CHECKING:
    from planguard.reordering.blocks import Block, Leaf, RankOrder

POINT_TO_POINT = {"send", "recv", "isend", "irecv"}
Queue = tuple[Any, ...]


def queues_of(leaf: Leaf, *, use_tags: bool) -> set[Queue]:
    """Return the communicators and channels on which a leaf takes a position."""
    found: set[Queue] = set()
    for part in leaf.fields["ops"] if leaf.fields["op"] == "batch" else [leaf.fields]:
        op = part["op"]
        group = part.get("group", leaf.fields.get("group", "world"))
        if op in POINT_TO_POINT:
            tag = part.get("tag", 0) if use_tags else 0
            found.add((group, op.lstrip("i"), part["peer"], tag))
        elif op in COLLECTIVE_KIND or op == "coalesced":
            found.add((group,))
    return found


def movable(block: Block) -> list[int]:
    """Return the leaves that may change places with another leaf of one of their queues."""
    queues = [queues_of(leaf, use_tags=False) for leaf in block.leaves]
    closed = reaches(block)
    found: set[int] = set()
    for later in range(len(block.leaves)):
        for earlier in range(later):
            ordered = earlier in closed[later] or later in closed[earlier]
            if not ordered and queues[earlier] & queues[later]:
                found |= {earlier, later}
    return sorted(found)


def swappable(order: RankOrder, *, use_tags: bool) -> tuple[Block, int, int] | None:
    """Return two leaves of one queue that a rank may issue in either order, or None."""
    for block in order.blocks:
        queues = [queues_of(leaf, use_tags=use_tags) for leaf in block.leaves]
        closed = reaches(block)
        for later in range(len(block.leaves)):
            for earlier in range(later):
                ordered = earlier in closed[later] or later in closed[earlier]
                if not ordered and queues[earlier] & queues[later]:
                    return block, earlier, later
    return None
