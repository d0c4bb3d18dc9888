from __future__ import annotations

import pytest

import planguard
from planguard.reordering.branches import decide as branches_decide
from planguard.reordering.branches import solver as branches_solver


@pytest.fixture(autouse=True)
def by_clauses(request, monkeypatch):
    """Leave out the shorter proof by stretches, which answers most of these without clauses."""
    if "stretches" not in request.node.name:
        monkeypatch.setattr(branches_decide, "STRETCHES", -1)


REDUCE = {"op": "all_reduce", "bytes": 8}


def layers(count, *, odd=None, ranks=4):
    """A plan of reductions with a uniform exchange behind each; ``odd`` is not uniform."""
    body = []
    for at in range(count):
        exchange = [{"op": "all_to_all", "bytes": 4}]
        choice = {"op": "choice", "name": f"n{at}", "branches": [exchange, []]}
        body += [{**REDUCE, "label": f"a{at}"}, {**choice, "uniform": at != odd}]
    ranks = {f"0-{ranks - 1}": {"actions": body}}
    return {"schema": "planguard.plan/1", "world_size": 4, "ranks": ranks}


def relay(count, *, uniform):
    """Sends begin in branches and are waited for in later ones: no stretch is closed."""
    programs = {"0": [], "1": []}
    for part in ("start", "end"):
        for at in range(count):
            head = {"op": "choice", "name": f"n{at}", "uniform": uniform}
            ends = {"tag": at, "bytes": 4}
            send = {"op": "isend", "peer": 1, "work": f"w{at}", **ends}
            receive = {"op": "recv", "peer": 0, **ends}
            wait = {"op": "wait", "work": f"w{at}"}
            mine, other = (send, None) if part == "start" else (wait, receive)
            programs["0"].append({**head, "branches": [[mine], []]})
            programs["1"].append({**head, "branches": [[other] if other else [], []]})
    ranks = {rank: {"actions": actions} for rank, actions in programs.items()}
    return {"schema": "planguard.plan/1", "world_size": 2, "ranks": ranks}


def check(document, model="gloo", **options):
    """The verdict of a document."""
    return planguard.check(planguard.load(document), model=model, **options)


@pytest.mark.parametrize("model", ["gloo", "nccl", "mpi-sync"])
def test_many_uniform_branches_are_safe_by_clauses(model):
    """2^30 combinations are SAFE, proved by clauses, a handful of them decided beside."""
    verdict = check(layers(30), model)
    assert verdict.safe
    assert verdict.complete
    assert verdict.evidence.route == ("smt",)
    assert verdict.evidence.schedules < 20


def test_the_one_branch_that_has_to_be_uniform_is_named():
    """Of 30 branches, one may differ between ranks: a MISMATCH, safe iff that one is uniform."""
    verdict = check(layers(30, odd=7))
    assert verdict.outcome.value == "MISMATCH"
    assert verdict.complete
    assert [c.branches for c in verdict.safe_iff if c.kind == "uniform-branch"] == [("n7",)]
    assert any(finding.witness for finding in verdict.findings)


def test_branches_that_reach_over_stretches_are_decided():
    """A message sent in one branch and received in another of the same variable is SAFE."""
    verdict = check(relay(24, uniform=True))
    assert verdict.safe
    assert verdict.evidence.route == ("smt",)
    verdict = check(relay(12, uniform=False))
    assert verdict.outcome.value == "POTENTIAL_DEADLOCK"
    assert verdict.complete


def test_a_budget_that_ends_says_what_was_decided():
    """Without time the answer is UNKNOWN and names how many combinations were decided."""
    verdict = check(layers(60), budget=0.2)
    assert verdict.unknown
    assert "budget exhausted" in verdict.reasons[0]


def test_what_the_clauses_do_not_settle_is_not_safe(monkeypatch):
    """A plan whose samples are all SAFE is UNKNOWN while it is open whether calls disagree."""
    monkeypatch.setattr(branches_solver, "TRIES", 0)
    verdict = check(relay(24, uniform=True))
    assert verdict.unknown
    assert "whether calls that disagree meet" in " ".join(f.message for f in verdict.findings)


@pytest.mark.parametrize("model", ["gloo", "nccl", "nccl-lazy", "nccl-eager", "nccl-serialized"])
def test_a_creation_in_front_of_the_branches_is_one_more_rendezvous(model):
    """2^30 combinations behind an `init` are SAFE by clauses; one rank without it is a deadlock."""
    document = layers(30)
    (program,) = (body["actions"] for body in document["ranks"].values())
    made = [{"op": "init", "group": "world"}, *program]
    document["ranks"] = {"0-3": {"actions": made}}
    verdict = check(document, model)
    assert verdict.safe
    assert verdict.evidence.route == ("smt",)
    document["ranks"] = {"0-2": {"actions": made}, "3": {"actions": program}}
    verdict = check(document, model)
    # Under nccl-lazy the first use of rank 3 creates as well, which clauses do not follow.
    assert verdict.safe if model == "nccl-lazy" else verdict.unsafe


def test_a_creation_whose_place_is_open_is_not_read_as_a_rendezvous():
    """An `init` in a branch, or of what exists already, is left to the other routes."""
    create = {"op": "init", "group": "world"}
    for extra in ([{"op": "choice", "name": "c", "branches": [[create], []]}], [create, create]):
        document = layers(30)
        (program,) = (body["actions"] for body in document["ranks"].values())
        document["ranks"] = {"0-3": {"actions": [*extra, *program]}}
        verdict = check(document, "nccl")
        assert verdict.evidence.route != ("smt",)


def test_stretches_that_are_safe_by_themselves_need_no_clauses():
    """A sum of assignments in place of a product; the condition of the odd one out is named too."""
    verdict = check(layers(60))
    assert verdict.safe
    assert verdict.evidence.z3_ms == 0
    assert verdict.evidence.schedules < 200
    assert verdict.evidence.kind == "proof"
    odd = check(layers(60, odd=7))
    assert odd.outcome.value == "MISMATCH"
    assert odd.complete
    assert [one.branches for one in odd.safe_iff] == [("n7",)]


def test_stretches_that_are_not_closed_are_left_to_clauses():
    """A send of one stretch whose receive is in another one proves nothing by itself."""
    verdict = check(relay(10, uniform=True), "mpi-sync")
    assert verdict.evidence.route == ("smt",)
