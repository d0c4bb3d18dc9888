"""Played programs of all ranks -> the plan in which every flush is one collective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.plan.fixed import FixedPlan, written
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

    ordered: FixedPlan
    unflushed: tuple[tuple[int, Leaf], ...]
    stuck: tuple[tuple[int, int], ...] = ()
    flushes: tuple[Flushed, ...] = ()


def merge(flat: dict[str, Any], played: Sequence[Played]) -> Merged:
    """Return the plan that the programs of all ranks make."""
    head = {key: value for key, value in flat.items() if key != "fusion"}
    groups = {**head.get("groups", {})}
    for program in played:
        groups |= {name: {"ranks": ranks} for name, ranks in program.groups.items()}
    if groups:
        head["groups"] = groups
    ranks = {str(rank): program.actions for rank, program in enumerate(played)}
    return Merged(
        written(head, ranks, [program.origins for program in played]),
        tuple((rank, leaf) for rank, program in enumerate(played) for leaf in program.unflushed),
        tuple((rank, action) for rank, program in enumerate(played) for action in program.stuck),
        tuple(
            Flushed(rank, *one) for rank, program in enumerate(played) for one in program.flushes
        ),
    )
