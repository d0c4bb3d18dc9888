"""Random orders of computations through the pipelining adapter and the engine."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planguard.planners.pipelining import adapter
from planguard.planners.pipelining.actions import Action, Kind
from planguard.planners.pipelining.lowering import add_send_recv, defer_recv
from planguard.planners.pipelining.objects import from_mapping
from planguard.planners.pipelining.placement import place, refuse_impossible

import planguard

MODELS = ("gloo", "nccl", "nccl-lazy", "mpi-sync")


def local_needs(action: str, local: set[int]) -> list[str]:
    """Name what must come before a computation on its own rank."""
    stage, kind, mb = int(action[0]), action[1], action[2:]
    if kind == "F":
        return [f"{stage - 1}F{mb}"] if stage - 1 in local else []
    needs = [f"{stage}F{mb}"]
    return needs + ([f"{stage + 1}B{mb}"] if stage + 1 in local else [])


@st.composite
def orders(draw) -> dict[int, list[str]]:
    """Draw an order that every rank could run if its inputs came: any placement of stages, any
    sequence that respects the rank's own data.
    """
    ranks = draw(st.integers(2, 3))
    per_rank = draw(st.integers(1, 2))
    microbatches = draw(st.integers(1, 3))
    stages = ranks * per_rank
    seats = draw(st.permutations([rank for rank in range(ranks) for _ in range(per_rank)]))
    rows = {}
    for rank in range(ranks):
        local = {stage for stage in range(stages) if seats[stage] == rank}
        left = {f"{s}{k}{m}" for s in local for k in "FB" for m in range(microbatches)}
        row: list[str] = []
        while left:
            ready = sorted(a for a in left if all(need in row for need in local_needs(a, local)))
            row.append(draw(st.sampled_from(ready)))
            left.remove(row[-1])
        rows[rank] = row
    return rows


@settings(max_examples=150)
@given(orders())
def test_an_order_is_safe_exactly_if_torch_can_lower_it(rows: dict[int, list[str]]) -> None:
    """Where torch's pass can place all sends and receives, the plan is SAFE under every model: the
    ranks agree on one order of messages. Where it gives up, the ranks wait for each other's data,
    and the plan is a DEADLOCK under every model.
    """
    order = from_mapping(rows, "random")
    placement = place(order)
    refuse_impossible(order, placement)
    stuck = add_send_recv(order, placement).stuck_at
    plan = adapter.adapt(rows, planguard.PlanBuilder)
    answers = {model: planguard.check(plan, model=model).outcome.value for model in MODELS}
    assert answers == dict.fromkeys(MODELS, "DEADLOCK" if stuck else "SAFE")


@settings(max_examples=60)
@given(orders(), st.booleans())
def test_lowering_loses_and_invents_nothing(rows: dict[int, list[str]], late: bool) -> None:
    """Whatever the order, deferred or not, every message between ranks is sent once and received
    once, before its consumer and after its producer.
    """
    order = from_mapping(rows, "random")
    placement = place(order)
    lowered = add_send_recv(order, placement).order
    if late:
        lowered = defer_recv(lowered, placement)
    refuse_impossible(lowered, placement)
    counts: dict[Action, int] = {}
    for cell in lowered.cells():
        counts[cell.action] = counts.get(cell.action, 0) + 1
    assert set(counts.values()) == {1}
    crossing = [
        Action(kind, stage, cell.action.mb)
        for cell in order.cells()
        for kind, stage in messages(cell.action, placement)
    ]
    transfers = [a for a in counts if a.kind.value.startswith(("SEND", "RECV"))]
    assert sorted(map(str, transfers)) == sorted(map(str, crossing))
    kept = [[str(c.action) for c in row if c.action.computes] for row in lowered.rows]
    assert kept == [rows[rank] for rank in range(len(rows))]


def messages(action: Action, placement) -> list[tuple[Kind, int]]:
    """Name send and receive that a computation causes."""
    up = action.kind is Kind.F
    neighbor = action.stage + (1 if up else -1)
    if not placement.crosses(action.stage, neighbor):
        return []
    send, recv = (Kind.SEND_F, Kind.RECV_F) if up else (Kind.SEND_B, Kind.RECV_B)
    return [(send, action.stage), (recv, neighbor)]


def test_both_answers_occur_among_the_random_orders() -> None:
    """The random orders contain such that torch lowers and such that it refuses."""
    for rows, stuck in (
        ({0: ["0F0", "0B0"], 1: ["1F0", "1B0"]}, False),
        ({0: ["0F0", "0B0", "0F1", "0B1"], 1: ["1F0", "1F1", "1B0", "1B1"]}, True),
    ):
        order = from_mapping(rows, "hand")
        assert bool(add_send_recv(order, place(order)).stuck_at) == stuck
    with pytest.raises(planguard.PlanError):
        adapter.adapt({0: ["0B0", "0F0"]}, planguard.PlanBuilder)
