"""A receive whose handle dies takes along what was issued before it (gloo, measured)."""

from __future__ import annotations

import pytest

import planguard


def message(op, peer, work=None, **fields):
    """Return one message of four bytes."""
    return {"op": op, "peer": peer, "bytes": 4, **({"work": work} if work else {}), **fields}


def plan(first, second=None):
    """Return two ranks, the second of which sends and then receives."""
    answer = [message("send", 0), message("recv", 0)] if second is None else second
    ranks = {"0": {"actions": first}, "1": {"actions": answer}}
    return {"schema": "planguard.plan/1", "world_size": 2, "ranks": ranks}


SENT, ASKED = message("isend", 1, "s"), message("irecv", 1, "r")
WAIT, DROP = {"op": "wait", "work": "s"}, {"op": "drop", "work": "r"}
TOTAL = {"op": "all_reduce", "bytes": 4, "async": True, "work": "s"}


@pytest.mark.parametrize("model", ["gloo", "gloo-detail"])
def test_what_was_sent_before_may_never_leave(model):
    """Real ranks hang here: rank 0 no longer hears that its peer is ready."""
    verdict = planguard.check(plan([SENT, ASKED, DROP, WAIT]), model=model)
    assert verdict.unknown
    assert "drops the handle of an irecv" in " ".join(verdict.reasons)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([TOTAL, ASKED, DROP, WAIT], [message("send", 0), {**TOTAL}, WAIT]),
        ([SENT, {"op": "unordered", "body": [[ASKED, DROP]]}, WAIT], None),
    ],
    ids=["a collective", "in a block of open order"],
)
def test_so_do_collectives_and_blocks(first, second):
    """A collective of the group is stalled, and no order of a block is for certain."""
    assert not planguard.check(plan(first, second), model="gloo").safe


@pytest.mark.parametrize(
    "first",
    [[SENT, ASKED, WAIT, DROP], [SENT, WAIT, ASKED, DROP], [SENT, ASKED, {**DROP, "work": "s"}]],
    ids=["waited before the drop", "waited before the receive", "the send is dropped"],
)
def test_only_what_is_under_way_is_stalled(first):
    """The rule adds nothing where the send is over before the receive's handle dies."""
    found = planguard.check(plan(first), model="gloo")
    assert "drops the handle of an irecv" not in " ".join(found.reasons)
    assert planguard.check(plan([SENT, ASKED, DROP, WAIT]), model="nccl").reasons == ()
