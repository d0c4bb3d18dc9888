from __future__ import annotations

from dataclasses import replace

import pytest

from planguard.capture import inductor_guard
from planguard.capture.passes import asked
from planguard.capture.passes.asked import Call, disagreements
from planguard.capture.passes.sides import Talk
from planguard.errors import UsageError

GATHERS = [Call("all_gather_into_tensor", f"all_gather_into_tensor_{n}", "64") for n in range(3)]


def messages(orders, rank):
    """Return what a rank is told."""
    return [violation.message for violation in disagreements(orders, rank)]


def test_equal_orders_are_no_violation():
    """Ranks that make the same calls agree, and calls on other groups are not compared."""
    pair = {"0,1": GATHERS}
    assert messages({0: pair, 1: pair | {"1,2": GATHERS[:1]}, 2: {"1,2": GATHERS[:1]}}, 0) == []


def test_another_order_is_said_with_place_and_rank():
    """Gathers of equal size in another order would hand one layer's weight to the next."""
    found = list(disagreements({0: {"0,1": GATHERS}, 1: {"0,1": [*GATHERS[1:], GATHERS[0]]}}, 1))
    assert [violation.kind for violation in found] == ["order"]
    assert found[0].message == (
        "call 0 on the group of ranks [0,1] is all_gather_into_tensor_1 of 64 elements here and "
        "all_gather_into_tensor_0 of 64 elements on rank 0"
    )
    assert found[0].node == "all_gather_into_tensor_1"


def test_a_missing_call_and_another_size_are_said():
    """A bucket that holds more on one rank, and a call that another rank lacks."""
    orders = {0: {"0,1": GATHERS}, 1: {"0,1": GATHERS[:2]}}
    assert messages(orders, 0)[0].endswith("here and missing on rank 1")
    assert "is missing here" in messages(orders, 1)[0]
    bucket = [Call("all_gather_into_tensor", "bucket", size) for size in ("64", "128")]
    assert (
        "bucket of 128 elements on rank 1"
        in messages({0: {"0,1": bucket[:1]}, 1: {"0,1": bucket[1:]}}, 0)[0]
    )


def test_a_group_that_only_another_rank_calls_on_is_a_difference():
    """A rank that makes no call on a group learns that another member does."""
    orders = {0: {"0,1,2": GATHERS}, 1: {"0,1,2": GATHERS, "0,1": GATHERS[:1]}}
    assert messages(orders, 0)[0].startswith("call 0 on the group of ranks [0,1] is missing here")
    assert messages({0: {"0,2": GATHERS}, 1: {"1,2": GATHERS}}, 0) == []


def test_messages_and_unknown_calls_are_no_collectives():
    """A send meets a receive, so ranks rightly differ there; what is unknown has no group."""
    talk = Talk("n", "isend", ((), "0"), ((),), None, (), None)
    assert not talk.is_collective
    assert not replace(talk, op="unknown").is_collective
    assert replace(talk, op="all_reduce").is_collective
    assert asked.order_of([talk, replace(talk, op="unknown")], {}) == {}


def test_who_did_not_answer_is_not_compared():
    """A rank whose order is not known is no difference."""
    assert messages({0: {"0,1": GATHERS}}, 0) == []


def test_without_a_process_group_there_is_nobody_to_ask():
    """The choice is refused at once, and so is one that does not exist."""
    with pytest.raises(UsageError, match="no process group"), inductor_guard(others="ask"):
        pass
    with pytest.raises(UsageError, match="others is 'all'"), inductor_guard(others="all"):
        pass
