"""Which rank holds which stage, and what no rank could ever run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, NoReturn

from .actions import COMPUTE, SHARED, TRANSFER, Action, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .order import Cell, Order


@dataclass(frozen=True)
class Placement:
    """Where the stages are.

    Attributes:
        rank_of: Pipeline rank of every stage.
        stages: Number of stages.
    """

    rank_of: Mapping[int, int]
    stages: int

    def crosses(self, stage: int, neighbor: int) -> bool:
        """Tell whether a neighboring stage exists and is on another rank."""
        return neighbor in self.rank_of and self.rank_of[neighbor] != self.rank_of[stage]


def place(order: Order) -> Placement:
    """Derive the rank of every stage from the cells that name it.

    Raises:
        PlanError: A stage is on two ranks, or a stage between two others is on none.
    """
    seen: dict[int, Cell] = {}
    for row in order.leaves:
        for leaf, cell in row:
            first = seen.setdefault(leaf.stage, cell)
            if first.rank != cell.rank:
                raise order.error(
                    cell,
                    f"stage {leaf.stage} is on rank {cell.rank} here "
                    f"and on rank {first.rank} in {first}",
                    "a stage belongs to one rank; check the order of the rows",
                )
    if not seen:
        raise order.error(None, "the schedule has no action")
    for expected, stage in enumerate(sorted(seen)):
        if stage != expected:
            raise order.error(
                seen[stage],
                f"stage {expected} is on no rank",
                "stages are numbered from 0 without gaps",
            )
    return Placement({stage: cell.rank for stage, cell in seen.items()}, len(seen))


def input_of(leaf: Action, placement: Placement) -> tuple[Action, ...]:
    """Name the actions of the same rank, any one of which gives a computation its input.

    Empty where no input from a neighbor is needed: the first forward and the last backward.
    """
    if leaf.kind is Kind.F and leaf.stage > 0:
        return _input(leaf, crosses=placement.crosses(leaf.stage, leaf.stage - 1))
    if leaf.kind in (Kind.B, Kind.I) and leaf.stage < placement.stages - 1:
        return _input(leaf, crosses=placement.crosses(leaf.stage, leaf.stage + 1))
    return ()


@lru_cache(maxsize=2 * SHARED)
def _input(leaf: Action, *, crosses: bool) -> tuple[Action, ...]:
    stage, mb = leaf.stage, leaf.mb
    if leaf.kind is Kind.F:
        return (Action(Kind.RECV_F, stage, mb) if crosses else Action(Kind.F, stage - 1, mb),)
    if crosses:
        return (Action(Kind.RECV_B, stage, mb),)
    return (Action(Kind.B, stage + 1, mb), Action(Kind.I, stage + 1, mb))


@lru_cache(maxsize=SHARED)
def forward_of(leaf: Action) -> tuple[Action, ...]:
    """Name the earlier computations of the same stage and microbatch that a computation needs."""
    if leaf.kind in (Kind.B, Kind.I):
        return (Action(Kind.F, leaf.stage, leaf.mb),)
    if leaf.kind is Kind.W:
        return (Action(Kind.I, leaf.stage, leaf.mb),)
    return ()


@lru_cache(maxsize=SHARED)
def source_of(leaf: Action) -> tuple[Action, ...]:
    """Name the computations, any one of which produces what a send sends."""
    if leaf.kind is Kind.SEND_F:
        return (Action(Kind.F, leaf.stage, leaf.mb),)
    if leaf.kind is Kind.SEND_B:
        return (Action(Kind.B, leaf.stage, leaf.mb), Action(Kind.I, leaf.stage, leaf.mb))
    return ()


def refuse_impossible(order: Order, placement: Placement) -> None:
    """Refuse what one rank alone makes impossible, whatever the others do.

    An action that consumes what the same rank produces later, or never, cannot run; a computation
    that occurs twice has no meaning. torch raises in each of these cases, when it loads the order
    or in the middle of the step. An order whose ranks wait for each other is no error here: it is
    a plan, and a deadlock.

    Raises:
        PlanError: Names both cells, or the one whose input never comes.
    """
    has_compute, has_transfers = order.has_compute, order.has_transfers
    for row in order.leaves:
        places = _first_places(row, order)
        for leaf, cell in row:
            if leaf.kind in TRANSFER:
                _refuse_transfer(order, placement, cell, leaf)
            if not has_compute:
                continue
            at = places[leaf][0]
            for producers in _needs(leaf, placement, has_transfers=has_transfers):
                for producer in producers:
                    there = places.get(producer)
                    if there is not None and there[0] <= at:
                        break
                else:
                    if producers:
                        _refuse_order(order, places, cell, leaf, producers)


def expect_microbatches(order: Order, placement: Placement, microbatches: int) -> None:
    """Require that every stage runs a given number of forwards.

    Raises:
        PlanError: Names the first stage with another number.
    """
    counts = dict.fromkeys(range(placement.stages), 0)
    for row in order.leaves:
        for leaf, _ in row:
            counts[leaf.stage] += leaf.kind is Kind.F
    for stage, count in counts.items():
        if count != microbatches:
            raise order.error(
                None,
                f"stage {stage} runs {count} forwards, expected {microbatches}",
                "torch refuses such a schedule: 'Got ... F microbatches for stage ...'",
            )


def _first_places(
    row: tuple[tuple[Action, Cell], ...], order: Order
) -> dict[Action, tuple[int, Cell]]:
    """Give the position of the first occurrence of every action; parts of an overlap in turn."""
    places: dict[Action, tuple[int, Cell]] = {}
    for position, (leaf, cell) in enumerate(row):
        first = places.setdefault(leaf, (position, cell))
        if first[0] != position and leaf.kind in COMPUTE:
            raise order.error(cell, f"{leaf} runs twice: {first[1]} and {cell}")
    return places


def _needs(
    leaf: Action, placement: Placement, *, has_transfers: bool
) -> tuple[tuple[Action, ...], ...]:
    """Name what an action needs: of every group one; an empty one needs nothing."""
    if leaf.kind in TRANSFER:
        return (source_of(leaf),)
    local = input_of(leaf, placement)
    if local and not has_transfers and local[0].kind not in COMPUTE:
        local = ()
    return forward_of(leaf), local


def _refuse_order(
    order: Order,
    places: Mapping[Action, tuple[int, Cell]],
    cell: Cell,
    leaf: Action,
    producers: tuple[Action, ...],
) -> NoReturn:
    found = [(*places[producer], producer) for producer in producers if producer in places]
    if not found:
        raise order.error(
            cell,
            f"{leaf} needs {' or '.join(map(str, producers))}, which rank {cell.rank} never runs",
            "add the missing action, or drop the one that needs it",
        )
    _, there, producer = min(found, key=itemgetter(0))
    raise order.error(
        cell,
        f"{leaf} in {cell.where} needs {producer} of {there.where}, "
        f"which rank {cell.rank} runs only later",
        f"run {producer} before {leaf}; torch raises at this action too",
    )


def _refuse_transfer(order: Order, placement: Placement, cell: Cell, leaf: Action) -> None:
    neighbor = leaf.stage + (1 if leaf.kind in (Kind.SEND_F, Kind.RECV_B) else -1)
    if neighbor not in placement.rank_of:
        raise order.error(
            cell,
            f"{leaf} has no peer: there is no stage {neighbor}",
            f"the schedule has the stages 0 to {placement.stages - 1}",
            code="PG402",
        )
    if not placement.crosses(leaf.stage, neighbor):
        raise order.error(
            cell,
            f"{leaf} would exchange with its own rank: "
            f"stages {leaf.stage} and {neighbor} are both on rank {cell.rank}",
            "neighboring stages of one rank pass tensors locally; drop the send and the receive",
            code="PG010",
        )
