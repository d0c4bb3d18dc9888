"""Played programs of all ranks -> the plan in which every flush is one collective."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from planguard.execution.findings.reason import UndecidedError
from planguard.plan.fixed import FixedPlan, written
from planguard.reordering.buffers.beside import nested
from planguard.verdict import Flushed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from planguard.reordering.blocks import Leaf
    from planguard.reordering.buffers.play import Played
    from planguard.reordering.buffers.ranks import Ranks


class EveryRankError(Exception):
    """Ranks that run one program do not stand for each other here."""


@dataclass(frozen=True)
class Merged:
    """A plan without fused buffers.

    Attributes:
        ordered: The plan, with the original index of every action.
        ranks: The ranks of the plan that it is made of.
        played: Their programs.
    """

    ordered: FixedPlan
    ranks: Ranks
    played: tuple[Played, ...]

    @property
    def unflushed(self) -> list[tuple[int, Leaf]]:
        """Rank and member action that stay in a buffer when the program ends."""
        return [(rank, leaf) for rank, one in enumerate(self.played) for leaf in one.unflushed]

    @property
    def stuck(self) -> list[tuple[int, int]]:
        """Rank and action that wait for a member which is never launched."""
        return [(rank, action) for rank, one in enumerate(self.played) for action in one.stuck]

    @cached_property
    def flushes(self) -> tuple[Flushed, ...]:
        """The flushes of every rank, in order."""
        return tuple(
            Flushed(rank, self.ranks[rank].held[number].buffer.id, members)
            for rank, program in enumerate(self.played)
            for number, members in program.flushes
        )


def merge(ranks: Ranks, played: Sequence[Played]) -> Merged:
    """Return the plan that the programs of all ranks make.

    It is made of the rows of the plan. Where ranks wait for what never leaves, are matched by
    names, or issue calls in open order, it has groups or blocks of its own, and is written.

    Raises:
        EveryRankError: It has to be written, and ranks stand for others of their program.
        OrderError: The programs are no valid plan.
    """
    taken = [program.taken for program in played if program.taken is not None]
    if len(taken) == len(played) and not any(program.groups for program in played):
        return Merged(ranks.taking.fixed(taken, ranks.labels), ranks, tuple(played))
    if not ranks.is_apart:
        raise EveryRankError
    return Merged(write(ranks, played), ranks, tuple(played))


def write(ranks: Ranks, played: Sequence[Played]) -> FixedPlan:
    """Return the plan that the programs of all ranks make, by writing and reading it.

    Raises:
        OrderError: The programs are no valid plan.
    """
    groups = with_groups(ranks, [program.groups for program in played])
    head = {**ranks.head, "groups": groups} if groups else ranks.head
    programs = {str(rank): nested(program.actions) for rank, program in enumerate(played)}
    return written(head, programs, [program.origins for program in played])


def with_groups(ranks: Ranks, more: Iterable[Mapping[str, list[int]]]) -> dict[str, Any]:
    """Return the groups of the plan with those that rewritten programs need.

    Raises:
        UndecidedError: The plan has a group of such a name, which is another communicator.
    """
    groups = dict(ranks.head.get("groups", {}))
    for name, mine in itertools.chain.from_iterable(one.items() for one in more):
        if name in ranks.head.get("groups", {}):
            raise UndecidedError(f"the group name {name!r}, which stands for launches")
        groups[name] = {"ranks": mine}
    return groups
