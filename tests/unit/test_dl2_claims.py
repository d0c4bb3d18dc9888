"""What the paper of dl2 says in figures and examples, asked of PlanGuard."""

from __future__ import annotations

import time
from typing import Any

import pytest

import planguard


def act(op: str, **fields: Any) -> dict[str, Any]:
    """An action of four bytes."""
    return {"op": op, **({} if op == "barrier" else {"bytes": 4}), **fields}


def plan_of(*ranks: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """Explicit rank programs as a plan."""
    programs = {str(rank): {"actions": actions} for rank, actions in enumerate(ranks)}
    return {"schema": "planguard.plan/1", "world_size": len(ranks), "ranks": programs, **fields}


TWO = {"groups": {"a": {"ranks": [0, 1]}, "b": {"ranks": [0, 1]}}}
A, B = act("all_reduce", group="a"), act("all_reduce", group="b")
CLASSES = {
    "point-to-point (figure 1)": (
        plan_of(
            [act("send", peer=1), act("recv", peer=1)], [act("send", peer=0), act("recv", peer=0)]
        ),
        "PG001",
    ),
    "collective": (plan_of([A, B], [B, A], **TWO), "PG004"),
    "hybrid": (
        plan_of([act("recv", peer=1), act("all_reduce")], [act("all_reduce"), act("send", peer=0)]),
        "PG003",
    ),
    "a barrier that is reached early": (
        plan_of([act("barrier")], [act("all_reduce"), act("barrier")]),
        "PG201",
    ),
}


@pytest.mark.parametrize("name", CLASSES)
def test_the_three_classes_of_deadlock_and_the_early_barrier_are_told_apart(name):
    """Point-to-point PG001, collective PG004, hybrid PG003, and PG201 for the barrier that one
    rank reaches while the others still reduce.
    """
    plan, code = CLASSES[name]
    found = planguard.check(plan, model="nccl")
    assert found.outcome.value in ("DEADLOCK", "MISMATCH")
    assert found.findings[0].code == code


def test_eight_thousand_events_take_a_tenth_of_dl2s_time_at_most():
    """dl2 needs 11.2 s for 8,328 events: 8 ranks with 1,041 events each, reductions on groups of
    two dimensions and messages around a ring, are decided in 1.1 s of processor time.
    """
    groups = {f"row{at}": {"ranks": [*range(4 * at, 4 * at + 4)]} for at in range(2)}
    groups |= {f"column{at}": {"ranks": [at, at + 4]} for at in range(4)}
    ranks = []
    for rank in range(8):
        ring = [act("send", peer=(rank + 1) % 8), act("recv", peer=(rank - 1) % 8)]
        step = [
            act("all_reduce", group=f"row{rank // 4}"),
            act("all_gather", group=f"column{rank % 4}"),
            *(ring if rank % 2 else ring[::-1]),
        ]
        ranks.append([*(one for _ in range(260) for one in step), act("all_reduce")])
    plan = planguard.load(plan_of(*ranks, groups=groups))
    assert sum(map(len, ranks)) == 8328
    took = []
    for _ in range(3):
        begin = time.process_time()
        found = planguard.check(plan, model="nccl")
        took.append(time.process_time() - begin)
    assert found.outcome.value == "SAFE"
    assert min(took) < 1.12
