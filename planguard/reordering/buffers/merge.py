"""Played programs of all ranks -> the plan in which every flush is one collective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.execution.running.expand import expand
from planguard.plan.actions import KIND_MASK
from planguard.reordering.derived import derived
from planguard.reordering.explorer import Ordered
from planguard.verdict import Flushed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.reordering.blocks import Leaf
    from planguard.reordering.buffers.play import Played


@dataclass(frozen=True)
class Merged:
    """A plan without fused buffers.

    Attributes:
        ordered: The plan, with the original index of every action.
        unflushed: Rank and member action that stay in a buffer when the program ends.
        stuck: Rank and action that wait for a member which is never launched.
        flushes: The flushes of every rank, in order.
    """

    ordered: Ordered
    unflushed: tuple[tuple[int, Leaf], ...]
    stuck: tuple[tuple[int, int], ...] = ()
    flushes: tuple[Flushed, ...] = ()


def merge(flat: dict[str, Any], played: Sequence[Played]) -> Merged:
    """Return the plan that the programs of all ranks make."""
    skipped = {"ranks", "approximations", "fusion"}
    head = {key: value for key, value in flat.items() if key not in skipped}
    groups = {**head.get("groups", {})}
    for program in played:
        groups |= {name: {"ranks": ranks} for name, ranks in program.groups.items()}
    if groups:
        head["groups"] = groups
    ranks = {str(rank): {"actions": program.actions} for rank, program in enumerate(played)}
    plan = derived({**head, "ranks": ranks})
    columns = expand(plan)
    places = tuple(places_of(columns, rank, p.origins) for rank, p in enumerate(played))
    return Merged(
        Ordered(plan, places),
        tuple((rank, leaf) for rank, program in enumerate(played) for leaf in program.unflushed),
        tuple((rank, action) for rank, program in enumerate(played) for action in program.stuck),
        tuple(
            Flushed(rank, *one) for rank, program in enumerate(played) for one in program.flushes
        ),
    )


def places_of(columns: Any, rank: int, origins: list[int]) -> tuple[int, ...]:
    """Return the original action of every action; the ends of a block stand for what is in it."""
    found: list[int] = []
    issued = iter(origins)
    last = 0
    for at in range(columns.rank_off[rank], columns.rank_off[rank + 1]):
        op = columns.op[at]
        if op & 64:
            continue
        if op & KIND_MASK not in range(48, 60):
            last = next(issued)
        found.append(last)
    return tuple(found)
