"""A rank that leaves a rooted collective early brings about another meeting, or another order."""

from __future__ import annotations

from typing import Any

import pytest
from oracle.answers import outcome_of
from oracle.enumerator import Effort

import planguard
from planguard.certificate.agreement import OutsideError
from planguard.certificate.picks import explore

Item = dict[str, Any]
ROOTED = ("broadcast", "reduce", "gather", "scatter")


def send(peer: int, **more: Any) -> Item:
    """Return a send that ends when it is received."""
    return {"op": "send", "peer": peer, "bytes": 4, "mode": "synchronous", **more}


def recv(peer: int | str, **more: Any) -> Item:
    """Return a receive."""
    return {"op": "recv", "peer": peer, "bytes": 4, **more}


def plan_of(op: str, size: int, *last: list[Item]) -> Item:
    """Ranks 0 to 2 share a rooted collective; 2 has sent to 3 when it comes, 1 sends behind it."""
    rooted = {"op": op, "group": "g", "root": 0, "bytes": size}
    ahead = [send(3), send(3, tag=1)] if len(last) > 1 else [send(3)]
    programs = [[rooted], [rooted, send(3)], [*ahead, rooted], *last]
    return {
        "schema": "planguard.plan/1",
        "world_size": len(programs),
        "groups": {"g": {"ranks": [0, 1, 2]}},
        "ranks": {str(rank): {"actions": actions} for rank, actions in enumerate(programs)},
    }


def from_anybody(op: str, size: int) -> Item:
    """Rank 3 receives from anybody first: the message of 1, if that has left the collective."""
    return plan_of(op, size, [recv("any"), recv(1)])


def in_threads(op: str, size: int) -> Item:
    """Two threads of rank 3 hear from 1 and 2, and send to 4 in the order in which they do."""
    threads = [
        [recv(2), send(4, label="p", tag=9), recv(2, tag=1)],
        [recv(1), send(4, label="q", tag=9)],
    ]
    both = [recv(3, label="p", tag=9), recv(3, label="q", tag=9)]
    return plan_of(op, size, [{"op": "threads", "threads": threads}], both)


@pytest.mark.parametrize("size", [4, 1 << 20])
@pytest.mark.parametrize("op", ROOTED)
@pytest.mark.parametrize("make", [from_anybody, in_threads])
def test_who_leaves_early_is_no_other_ranks_affair(make: Any, op: str, size: int) -> None:
    """Where all wait for all the plan is safe; a member leaves as soon as the root is there, at any
    size, and then it is not. The finding says who left.
    """
    plan = make(op, size)
    assert planguard.check(plan, model="mpi-sync").safe
    truth = outcome_of(plan, "mpi-eager", Effort(50_000, 0, 0))
    assert truth in {"POTENTIAL_DEADLOCK", "MISMATCH"}
    verdict = planguard.check(plan, model="mpi-eager")
    assert verdict.outcome.value == truth
    assert any("leaves #0" in note for note in verdict.errors[0].notes)
    assert verdict.errors[0].witness is not None
    with pytest.raises(OutsideError, match=op):
        explore(plan, "mpi-eager", 4096)


@pytest.mark.parametrize(
    ("plan", "leaves"),
    [
        (from_anybody("broadcast", 4), True),
        ({"schema": "planguard.plan/1", "world_size": 3,
          "ranks": {"0": {"actions": [recv("any"), recv(1)]}, "1-2": {"actions": [send(0)]}}},
         False),
    ],
    ids=["a rank leaves early", "two senders"],
)  # fmt: skip
def test_the_advice_follows_what_was_picked(plan: Item, leaves: bool) -> None:
    """PG106 advises a barrier where somebody leaves early, and the sender where one is taken."""
    advice = planguard.check(plan, model="mpi-eager").errors[0].help
    assert "name the sender" in advice
    assert ("put a barrier of its group behind #0 broadcast" in advice) is leaves
