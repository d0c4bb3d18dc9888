"""What the campaigns left open, one by one: exits, crossed creations, turns, empty blocks."""

from __future__ import annotations

import json

import pytest
from oracle.enumerator import enumerate_plan

import planguard
from planguard.certificate.agreement import RejectedError
from planguard.certificate.verify import verify
from planguard.engine import check_plan
from planguard.execution.certifying.certify import certify
from planguard.execution.running.expand import expand
from planguard.options import MODEL_NAMES, CheckOptions
from planguard.plan.flatten import flat_lines
from planguard.semantics.model import find_model


def act(op, **fields):
    """An action."""
    return {"op": op, **fields}


def reduce(label=None, **fields):
    """An all_reduce of four bytes."""
    said = {} if label is None else {"label": label}
    return act("all_reduce", bytes=4, **said, **fields)


def document(*programs, **groups):
    """A plan of one program for each rank."""
    return {
        "schema": "planguard.plan/1",
        "world_size": len(programs),
        "groups": {name: {"ranks": ranks} for name, ranks in groups.items()},
        "ranks": {str(rank): {"actions": list(body)} for rank, body in enumerate(programs)},
    }


def outcome(plan, model):
    """The outcome under a model."""
    return planguard.check(plan, model=model).outcome.value


def certified(plan, model):
    """The verdict with a certificate where there is one: verdict, and why there is none."""
    return check_plan(planguard.load(plan), CheckOptions(model=model, certificate=True))


# --- behind an exit -------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODEL_NAMES)
def test_what_stands_behind_an_exit_agrees_with_nobody_and_is_no_leftover(model):
    """Neither its label nor its message is told: it is never issued."""
    plan = document([reduce("a"), act("send", peer=1, bytes=4)], [act("exit"), reduce("b")])
    found = planguard.check(plan, model=model)
    assert found.outcome.value == "DEADLOCK"
    assert not {f.code for f in found.findings} & {"PG212", "PG202"}
    left = document([reduce()], [reduce(), act("exit"), act("isend", peer=0, bytes=4)])
    assert planguard.check(left, model=model).findings == ()


@pytest.mark.parametrize("model", ["nccl", "gloo", "mpi-pg"])
def test_a_group_made_behind_an_exit_has_no_place_in_the_order(model):
    """PG406 compares what is created, and nothing is behind an exit."""
    make = [act("new_group", group=name) for name in "ab"]
    plan = document([*make], [*make, act("exit"), make[0]], a=[0, 1], b=[0, 1])
    assert outcome(plan, model) == "SAFE"


# --- turns at MPI ---------------------------------------------------------------------------------


LATER = reduce(**{"async": True, "work": "h"})
WAIT = act("wait", work="h")
SEND, RECV = act("send", peer=0, bytes=4), act("recv", peer=1, bytes=4)
ISEND = [act("isend", peer=peer, bytes=4, work="s") for peer in (1, 0)]


@pytest.mark.parametrize(
    ("mine", "other", "expected"),
    [
        ([LATER, RECV, WAIT], [reduce(), SEND], "POTENTIAL_DEADLOCK"),
        ([LATER, WAIT, RECV], [reduce(), SEND], "SAFE"),
        ([RECV, LATER, WAIT], [SEND, reduce()], "SAFE"),
        ([LATER, act("test", work="h"), RECV, WAIT], [reduce(), SEND],
         "POTENTIAL_DEADLOCK"),
        ([LATER, act("drop", work="h"), RECV], [reduce(), SEND], "POTENTIAL_DEADLOCK"),
        ([LATER, reduce(), RECV, WAIT], [reduce(), reduce(), SEND], "SAFE"),
        ([LATER, reduce(group="g"), WAIT], [reduce(), reduce(group="g")],
         "POTENTIAL_DEADLOCK"),
        ([LATER, reduce(), WAIT], [reduce(), reduce()], "SAFE"),
        ([ISEND[0], act("recv", peer=1, bytes=4), act("wait", work="s")],
         [ISEND[1], act("recv", peer=0, bytes=4), act("wait", work="s")], "SAFE"),
        ([ISEND[0], reduce(), act("wait", work="s")],
         [act("recv", peer=0, bytes=4), reduce()], "SAFE"),
        ([ISEND[0], LATER, act("wait", work=["s", "h"])],
         [act("recv", peer=0, bytes=4), reduce()], "SAFE"),
        ([LATER, RECV, WAIT], [SEND, RECV | {"peer": 0}, reduce()], "DEADLOCK"),
    ],
)  # fmt: skip
def test_threads_of_torchs_mpi_take_turns(mine, other, expected):
    """Host and workers call MPI under one lock: all orders in which they get it are decided."""
    plan = document(mine, other, g=[0, 1])
    assert outcome(plan, "mpi-pg") == expected
    assert enumerate_plan(plan, "mpi-pg").outcome == expected


def test_a_certificate_says_nothing_of_turns():
    """What takes turns is outside of the checker, too, also where the order of it completes."""
    plan = planguard.load(document([LATER, RECV, WAIT], [reduce(), SEND]))
    made = certify(plan, expand(plan), find_model("mpi-pg"))
    assert made.certificate is None
    assert "two of its threads" in made.reason
    flat = b"".join(flat_lines(plan))
    eager = json.dumps({"schema": "planguard.certificate/1", "kind": "order", "model": "mpi-pg",
                        "plan_sha256": "0", "order": []}).encode()  # fmt: skip
    with pytest.raises(RejectedError):
        verify(flat, eager)


# --- certificates of batches, and empty blocks ----------------------------------------------------


def batch(*groups):
    """A batch of all_reduces, one in each group."""
    return act("batch", ops=[reduce(group=group) for group in groups])


def forged(plan, model):
    """An order that completes the plan if a batch were one launch."""
    loaded = planguard.load(plan)
    flat = b"".join(flat_lines(loaded))
    from planguard.certificate.format import digest

    order = [[rank, 0, member] for member in (0, 1) for rank in (0, 1)]
    proof = {"schema": "planguard.certificate/1", "kind": "order", "model": model}
    return flat, json.dumps({**proof, "plan_sha256": digest(flat), "order": order}).encode()


@pytest.mark.parametrize("model", ["nccl", "nccl-eager", "nccl-serialized"])
def test_a_batch_over_two_communicators_is_proved_launch_by_launch(model):
    """ADR 0030: in one queue its kernels start in the order of first use, in the checker, too."""
    same = document([batch("a", "b")], [batch("a", "b")], a=[0, 1], b=[0, 1])
    assert certified(same, model).certificate is not None
    crossed = document([batch("a", "b")], [batch("b", "a")], a=[0, 1], b=[0, 1])
    assert outcome(crossed, model) != "SAFE"
    with pytest.raises(RejectedError, match="before"):
        verify(*forged(crossed, model))
    loose = document([act("unordered", body=[batch("a", "b")])], [batch("a", "b")],
                     a=[0, 1], b=[0, 1])  # fmt: skip
    found = certified(loose, model)
    assert (found.outcome.value, found.certificate) == ("SAFE", None)
    assert "a batch over several communicators in open order" in found.reasons[0]


EMPTY = (
    act("unordered", body=[]),
    act("unordered", body=[[]]),
    act("choice", name="c", uniform=True, branches=[[], []]),
)


@pytest.mark.parametrize("empty", EMPTY)
@pytest.mark.parametrize("model", ["gloo", "nccl", "mpi-sync"])
def test_an_empty_block_passes_its_order_on(empty, model):
    """X, an empty block after X, Y after the block: Y comes after X, and without `after` of the
    block it does not. A certificate is not given, with the reason.
    """
    body = [reduce("x", id="X"), {**empty, "id": "f", "after": ["X"]}, reduce("y", after=["f"])]
    plan = document([act("unordered", body=body)], [reduce("x"), reduce("y")])
    assert outcome(plan, model) == "SAFE"
    found = certified(plan, model)
    assert found.certificate is not None or "`after`" in found.reasons[0]
    body[1] = {**empty, "id": "f"}
    assert outcome(plan, model) == "MISMATCH"


# --- one error ------------------------------------------------------------------------------------


def test_members_of_different_groups_in_one_branch_are_a_mismatch():
    """PG406 of a branch that gets stuck, too, beside one that does not: MISMATCH, as of any match
    whose members disagree.
    """
    groups = {"a": [0, 1, 2], "b": [1, 2]}
    make = [act("new_group", group=name) for name in "ab"]
    plan = document(
        [reduce()],
        [make[1], reduce()],
        [act("choice", name="c", branches=[[make[1]], [make[0]]]), reduce()],
        **groups,
    )
    assert outcome(plan, "nccl") == "MISMATCH"
    assert "PG406" in {f.code for f in planguard.check(plan, model="nccl").findings}
