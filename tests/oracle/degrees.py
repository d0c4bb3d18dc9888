"""Between whom data flows in a collective: the degree table, measured on gloo with 2-4 ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oracle.program import Action

Ranks = tuple[int, ...]


def parent(rank: int, root: int, members: Ranks) -> int | None:
    """Give the rank from which a broadcast reaches this one (the highest bit cleared)."""
    size = len(members)
    start = members.index(root)
    relative = (members.index(rank) - start) % size
    if relative == 0:
        return None
    above = relative - (1 << (relative.bit_length() - 1))
    return members[(above + start) % size]


def ancestors(rank: int, root: int, members: Ranks) -> Ranks:
    """Give everybody on the way from the root of a broadcast down to a rank."""
    above = parent(rank, root, members)
    return () if above is None else (above, *ancestors(above, root, members))


def flows(action: Action, rank: int, members: Ranks) -> tuple[Ranks, Ranks]:
    """Give the ranks that a member receives from and those it sends to, by its own arguments.

    All kinds but broadcast, gather and scatter move data between all members before any of them
    leaves.
    """
    others = tuple(member for member in members if member != rank)
    root = action.root
    if root is None or action.degree not in {"broadcast", "gather", "scatter"}:
        return others, others
    if action.degree == "broadcast":
        above = parent(rank, root, members)
        below = tuple(member for member in others if parent(member, root, members) == rank)
        return () if above is None else (above,), below
    inward = action.degree == "gather"
    if rank == root:
        return (others, ()) if inward else ((), others)
    return ((), (root,)) if inward else ((root,), ())
