"""The message queues of each rank where a run ends."""

from __future__ import annotations

import pytest

import planguard
from planguard.report.page import queues as page
from planguard.simulate.schedule import schedule


def plan_of(*ranks, world=None):
    """A plan of these programs."""
    programs = {str(rank): {"actions": actions} for rank, actions in enumerate(ranks)}
    document = {"schema": "planguard.plan/1", "world_size": world or len(ranks), "ranks": programs}
    return planguard.load(document)


def found(plan, model):
    """The rows, without call and line."""
    told = page.queues(plan, schedule(plan, model))
    assert told["more"] == 0
    return [(rank, queue, at, action, peer) for rank, queue, at, action, _, peer, _ in told["rows"]]


def send(peer, **more):
    """A message of 4 bytes."""
    return {"op": "send", "peer": peer, "count": 1, "dtype": "f32", **more}


def recv(peer, **more):
    """Where it is received."""
    return {"op": "recv", "peer": peer, "count": 1, "dtype": "f32", **more}


def test_two_sends_that_wait_for_each_other_lie_in_four_queues():
    """Each waits with its sender, and is nobody's with its receiver."""
    plan = plan_of([send(1), recv(1)], [send(0), recv(0)])
    assert found(plan, "gloo") == [
        (0, page.SENDS, 1, 0, 1),
        (0, page.UNEXPECTED, 1, 0, 1),
        (1, page.SENDS, 1, 0, 0),
        (1, page.UNEXPECTED, 1, 0, 0),
    ]


def test_what_was_received_lies_in_no_queue():
    """A plan that comes to its end leaves none."""
    plan = plan_of([send(1), recv(1)], [recv(0), send(0)])
    assert found(plan, "gloo") == []
    assert page.queues(plan, None) == {"rows": [], "more": 0}


def test_a_receive_that_nobody_sends_to_is_posted():
    """Where tags count, the message lies beside the receive that waits for another one."""
    plan = plan_of([send(1, tag=1)], [recv(0, tag=2)])
    assert found(plan, "mpi-sync") == [
        (0, page.SENDS, 1, 0, 1),
        (1, page.RECEIVES, 1, 0, 0),
        (1, page.UNEXPECTED, 1, 0, 0),
    ]


@pytest.mark.parametrize("count", [3, 5])
def test_a_queue_keeps_the_order_of_its_calls(count):
    """Messages of one batch and of several senders are counted from one, by when they came."""
    batch = {"op": "batch", "ops": [{**send(2), "op": "isend"} for _ in range(count)], "work": "w"}
    plan = plan_of([batch, {"op": "wait", "work": "w"}], [send(2)], [])
    rows = [row for row in found(plan, "gloo") if row[1] == page.UNEXPECTED]
    assert [row[2] for row in rows] == list(range(1, count + 2))
    assert [row[4] for row in rows].count(0) == count


def test_a_long_queue_is_cut_and_says_so(monkeypatch):
    """What is left out is counted."""
    monkeypatch.setattr(page, "SHOWN", 3)
    plan = plan_of([send(1), recv(1)], [send(0), recv(0)])
    told = page.queues(plan, schedule(plan, "gloo"))
    assert (len(told["rows"]), told["more"]) == (3, 1)
