"""What the MPI models say of rooted collectives; the enumerator agrees."""

from __future__ import annotations

from typing import Any

import pytest
from oracle.enumerator import enumerate_plan

import planguard

ROOTED = ["broadcast", "gather", "reduce", "scatter"]
POSSIBLE, CERTAIN = "POTENTIAL_DEADLOCK", "DEADLOCK"


def one_after_the_other(kind: str, count: int) -> dict[str, Any]:
    """Rank 2 enters a rooted collective only after rank 1, which is not the root, has left it."""
    size = {"count": count, "dtype": "f32"}
    call = {"op": kind, "root": 0, **size}
    programs: list[list[dict[str, Any]]] = [
        [call],
        [call, {"op": "send", "peer": 2, **size}],
        [{"op": "recv", "peer": 1, **size}, call],
    ]
    ranks = {str(rank): {"actions": actions} for rank, actions in enumerate(programs)}
    return {"schema": "planguard.plan/1", "world_size": 3, "ranks": ranks}


@pytest.mark.parametrize("count", [1, 1 << 20])
@pytest.mark.parametrize("kind", ROOTED)
@pytest.mark.parametrize(
    ("model", "outcome"), [("mpi-eager", POSSIBLE), ("mpi-sync", CERTAIN), ("mpi-pg", POSSIBLE)]
)
def test_a_member_may_need_another_that_is_not_the_root(
    kind: str, count: int, model: str, outcome: str
) -> None:
    """MPI libraries move rooted collectives along trees (measured: MPICH 5.0.2 leaves rank 3 of 4
    stuck in a scatter by rank 0 while rank 2 stays away), so such a plan is never SAFE.
    """
    plan = one_after_the_other(kind, count)
    assert planguard.check(plan, model=model).outcome.value == outcome
    assert enumerate_plan(plan, model).outcome == outcome


@pytest.mark.parametrize("kind", ["gather", "scatter"])
@pytest.mark.parametrize("model", ["gloo", "nccl", "nccl-eager", "nccl-serialized"])
def test_elsewhere_a_member_needs_the_root_alone(kind: str, model: str) -> None:
    """On gloo (measured) and NCCL (sends and receives) the other members do not matter."""
    plan = one_after_the_other(kind, 1)
    assert planguard.check(plan, model=model).outcome.value == "SAFE"
    assert enumerate_plan(plan, model).outcome == "SAFE"
