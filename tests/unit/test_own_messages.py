"""Messages of a rank to itself: MPI has them, NCCL within one group call, gloo refuses them."""

from __future__ import annotations

import itertools

import pytest

import planguard
from planguard.certificate import checker
from planguard.certificate.agreement import OutsideError, RejectedError
from planguard.certificate.format import Certificate, digest, encode
from planguard.execution.findings.wait_for import wait_for_graph
from planguard.guard import Change, Incremental
from planguard.options import MODEL_NAMES, CheckOptions
from planguard.plan.flatten import flat_lines

SEND, RECV = ({"op": op, "peer": 0, "bytes": 4} for op in ("send", "recv"))
ISEND, IRECV = {**SEND, "op": "isend", "work": "s"}, {**RECV, "op": "irecv", "work": "r"}
BARRIER = {"op": "barrier"}
MEMBERS = [{key: value for key, value in one.items() if key != "work"} for one in (ISEND, IRECV)]
NCCL = [name for name in MODEL_NAMES if name.startswith("nccl")]


def wait(*works):
    """A wait for handles."""
    return {"op": "wait", "work": list(works)}


def plan(*actions):
    """Rank 0 does something and meets rank 1 in a barrier."""
    ranks = {"0": {"actions": [*actions, BARRIER]}, "1": {"actions": [BARRIER]}}
    return {"schema": "planguard.plan/1", "world_size": 2, "ranks": ranks}


def outcome(document, model):
    """Outcome and codes under a model, with the certificate that a SAFE verdict is asked for."""
    verdict = planguard.check(document, options=CheckOptions(model=model, certificate=True))
    return verdict.outcome.value, sorted({finding.code for finding in verdict.findings})


@pytest.mark.parametrize("model", ["mpi-eager", "mpi-sync"])
@pytest.mark.parametrize(
    "actions",
    [
        (ISEND, RECV, wait("s")),
        (IRECV, SEND, wait("r")),
        (ISEND, IRECV, wait("s", "r")),
        (IRECV, ISEND, wait("s", "r")),
        ({**SEND, "mode": "buffered"}, RECV),
        ({**IRECV, "peer": "any"}, SEND, wait("r")),
        ({"op": "threads", "threads": [[SEND], [RECV]]},),
    ],
)
def test_mpi_exchanges_with_oneself(actions, model):
    """Whoever posts one end without waiting, and then the other, completes."""
    assert outcome(plan(*actions), model) == ("SAFE", [])


@pytest.mark.parametrize(
    ("actions", "eager", "sync"),
    [
        ((SEND, RECV), "POTENTIAL_DEADLOCK", "DEADLOCK"),
        (({**SEND, "mode": "synchronous"}, RECV), "DEADLOCK", "DEADLOCK"),
        ((ISEND, wait("s"), RECV), "POTENTIAL_DEADLOCK", "DEADLOCK"),
        ((RECV, SEND), "DEADLOCK", "DEADLOCK"),
        ((IRECV, wait("r"), SEND), "DEADLOCK", "DEADLOCK"),
    ],
)
def test_who_waits_for_itself_hangs(actions, eager, sync):
    """The other end stands behind the wait: a cycle of one rank, PG010, and in the graph."""
    assert outcome(plan(*actions), "mpi-eager") == (eager, ["PG010"])
    assert outcome(plan(*actions), "mpi-sync") == (sync, ["PG010"])
    graph = wait_for_graph(planguard.load(plan(*actions)), "mpi-sync")
    assert any({a[0], b[0]} == {0} for a, b in graph.edges)


@pytest.mark.parametrize("model", NCCL)
def test_nccl_has_them_within_one_batch(model):
    """One launch of both ends completes, two launches never do, single calls are refused."""
    both = {"op": "batch", "ops": MEMBERS}
    assert outcome(plan(both), model) == ("SAFE", [])
    halves = [{"op": "batch", "ops": [one]} for one in MEMBERS]
    for one, other in itertools.permutations(halves):
        assert outcome(plan(one, other), model) == ("DEADLOCK", ["PG010"])
    assert outcome(plan(ISEND, IRECV, wait("s", "r")), model) == ("UNKNOWN", ["PG010"])


@pytest.mark.parametrize("model", ["gloo", "gloo-detail"])
@pytest.mark.parametrize(
    "actions",
    [
        (ISEND, RECV, wait("s")),
        (SEND,),
        ({"op": "batch", "ops": MEMBERS},),
        ({"op": "unordered", "body": [ISEND, IRECV]}, wait("s", "r")),
        ({"op": "choice", "name": "a", "branches": [[SEND], []]},),
        ({"op": "threads", "threads": [[SEND], [RECV]]},),
    ],
)
def test_gloo_refuses_them_in_every_construct(actions, model):
    """torch raises there: never SAFE, and PG010 says why."""
    assert outcome(plan(*actions), model) == ("UNKNOWN", ["PG010"])


def test_the_mpi_of_torch_has_the_asynchronous_calls_alone():
    """`send` and `recv` of torch raise for the own rank, whatever the backend."""
    assert outcome(plan(ISEND, RECV, wait("s")), "mpi-pg") == ("UNKNOWN", ["PG010"])
    assert outcome(plan(ISEND, IRECV, wait("s", "r")), "mpi-pg") == ("SAFE", [])


def test_a_ring_of_one_is_a_message_to_oneself():
    """A relative peer that comes back to its rank is read, and decided as one that is named."""
    document = plan(*({**one, "peer": {"pp": 1, "wrap": True}} for one in (ISEND, IRECV)))
    document["mesh"] = {"dims": [["pp", 1], ["dp", 2]]}
    document["ranks"]["0"]["actions"].insert(2, wait("s", "r"))
    assert outcome(document, "mpi-sync") == ("SAFE", [])
    assert outcome(document, "gloo") == ("UNKNOWN", ["PG010"])


def test_every_order_beside_one_is_played():
    """Of two blocking ends in open order each order hangs; two that do not block never do."""
    assert outcome(plan({"op": "unordered", "body": [SEND, RECV]}), "mpi-sync")[0] == "DEADLOCK"
    free = plan({"op": "unordered", "body": [ISEND, IRECV]}, wait("s", "r"))
    assert outcome(free, "mpi-sync")[0] == "SAFE"
    half = plan({"op": "unordered", "body": [ISEND, {**RECV}]}, wait("s"))
    assert outcome(half, "mpi-sync")[0] == "POTENTIAL_DEADLOCK"


def test_many_branches_are_not_left_to_clauses():
    """Clauses speak of ranks that meet others: with too many branches to try, never SAFE."""
    choices = [
        {"op": "choice", "name": f"c{number}", "branches": [[SEND, RECV], []]}
        for number in range(12)
    ]
    assert outcome(plan(*choices), "mpi-sync")[0] != "SAFE"


def test_an_edit_that_makes_one_is_decided_in_full():
    """Neither the order of the base nor one run tells what gloo refuses."""
    document = plan({**SEND, "peer": 1})
    document["ranks"]["1"]["actions"].insert(0, {**RECV, "peer": 0})
    base = planguard.load(document)
    edits = Incremental(base, CheckOptions(model="gloo"))
    assert edits.verdict.safe
    pair = ({**ISEND, "work": "s"}, {**IRECV, "work": "r"}, wait("s", "r"))
    for change in (Change(0, 0, 0, pair), Change(0, 1, 1, pair)):
        assert edits.check(change).outcome.value == "UNKNOWN"
    edits = Incremental(base, CheckOptions(model="mpi-sync"))
    assert edits.check(Change(0, 0, 0, pair)).safe
    assert not edits.check(Change(0, 0, 0, (SEND, RECV))).safe
    base = planguard.load(plan(ISEND, RECV, wait("s")))
    edits = Incremental(base, CheckOptions(model="mpi-sync"))
    assert edits.verdict.safe
    assert not edits.check(Change(0, 1, 3, (2, 1))).safe


def order_of(document, model, *steps):
    """What the checker says of an order of completion of a plan."""
    flat = b"".join(flat_lines(planguard.load(document)))
    certificate = Certificate(model, digest(flat), steps)
    return checker.check(flat, encode(certificate.to_json()))


def test_the_checker_of_certificates_is_not_fooled():
    """An order that completes an end before the other is there is rejected, and so is every order
    under a model that refuses the message.
    """
    good = plan(ISEND, RECV, wait("s"))
    steps = ((0, 0), (0, 1), (0, 3), (1, 0))
    assert "complete" in order_of(good, "mpi-sync", *steps)
    for model in ("gloo", "gloo-detail", "mpi-pg", *NCCL):
        with pytest.raises(OutsideError):
            order_of(good, model, *steps)
    for bad in (plan(SEND, RECV), plan(RECV, SEND)):
        with pytest.raises(RejectedError):
            order_of(bad, "mpi-sync", (0, 0), (0, 1), (0, 2), (1, 0))
        with pytest.raises(RejectedError):
            order_of(bad, "mpi-sync", (0, 1), (0, 0), (0, 2), (1, 0))
