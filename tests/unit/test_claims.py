"""What a SAFE answer claims: every word has a plan of which it would be false, and is missing."""

from __future__ import annotations

import pytest

import planguard
from planguard.execution.findings.claims import PROVED, ROUNDS
from planguard.explain.answer import ASSUMES, explain_text
from planguard.explain.answer import PROVED as SAID

SUM = {"op": "all_reduce", "bytes": 8}
SEND = {"op": "send", "peer": 1, "bytes": 4}
RECV = {"op": "recv", "peer": 0, "bytes": 4}


def plan(*programs, **more):
    """A plan of explicit programs."""
    ranks = {str(rank): {"actions": list(actions)} for rank, actions in enumerate(programs)}
    world = {"schema": "planguard.plan/1", "world_size": len(programs)}
    return {**world, "ranks": ranks, **more}


def coalesced(*parts):
    """A coalesced all_reduce."""
    return {"op": "coalesced", "kind": "all_reduce", "ops": list(parts)}


def gathered(**fields):
    """An uneven gather to rank 0 without a number of elements."""
    return {"op": "gather", "root": 0, **fields}


FALSE = {
    "matching": [
        ("gloo", plan([{"op": "all_reduce"}], [SUM])),
        ("gloo", plan([{"op": "all_reduce"}], [{"op": "all_reduce"}])),
        ("mpi-eager", plan([{"op": "send", "peer": 1}], [RECV])),
        ("nccl", plan([coalesced({"bytes": 4}, {})], [coalesced({"bytes": 4}, {"bytes": 8})])),
        ("gloo", plan([gathered(bytes=8, out_splits=[2, 3])], [gathered(bytes=12)])),
        ("gloo", plan([{"op": "repeat", "times": 2, "body": [{"op": "all_gather"}]}] * 2)),
        ("gloo", plan(*[[{"op": "batch", "ops": [{"op": "all_reduce"}]}]] * 2)),
    ],
    "p2p-order": [
        ("mpi-sync", plan([SEND], [{**RECV, "peer": "any"}])),
        ("mpi-sync", plan([SEND], [{**RECV, "tag": "any"}])),
    ],
    "collective-order": [
        ("gloo", plan([SUM], [])),
        ("gloo", plan([SUM, {"op": "barrier"}], [{"op": "barrier"}, SUM])),
    ],
    ROUNDS: [
        ("gloo", plan([SUM], [SUM])),
        ("gloo", plan([{**SUM, "label": "x"}], [SUM])),
        ("gloo", plan([{**SUM, "label": "x"}, SUM], [{**SUM, "label": "x"}, SUM])),
        ("gloo", plan([SEND], [RECV])),
    ],
    "fusion-order": [("gloo", plan([SUM], [SUM]))],
    "no-send-buffering": [
        ("mpi-sync", plan([{**SEND, "mode": "buffered"}], [RECV])),
        ("mpi-eager", plan([{**SEND, "mode": "buffered"}], [RECV])),
        ("mpi-eager", plan([SEND, RECV | {"peer": 1}], [SEND | {"peer": 0}, RECV])),
    ],
}
"""Of every word plans under a model of which it is false, or of which nobody could know."""


@pytest.mark.parametrize("word", SAID)
def test_a_claim_is_missing_where_it_could_be_false(word):
    """No word is said of a plan that does not say what the word is about."""
    for model, document in FALSE[word]:
        verdict = planguard.check(document, model=model)
        assert word not in verdict.proved, (word, model, document)
        assert f"{SAID[word]}," not in explain_text(verdict)


def test_every_word_is_explained_and_tested():
    """The words that can be said are those that are explained, and each has its plans."""
    assert {*PROVED, ROUNDS, "fusion-order"} == set(SAID) == set(FALSE)


def test_sizes_that_were_not_compared_are_an_assumption():
    """Where a size is missing, the answer rests on it; where all are there, it does not say so."""
    for model, document in FALSE["matching"]:
        verdict = planguard.check(document, model=model)
        assert verdict.safe
        assert "sizes-not-compared" in verdict.assumptions
        assert ASSUMES["sizes-not-compared"] in " ".join(explain_text(verdict).split())
    sized = [gathered(count=count, dtype="i32") for count in (2, 3)]
    sized[0]["out_splits"] = [2, 3]
    for programs in (
        [[SUM], [SUM]],
        [[{"op": "barrier"}], [{"op": "barrier"}]],
        [[sized[0]], [sized[1]]],
    ):
        verdict = planguard.check(plan(*programs), model="gloo")
        assert "matching" in verdict.proved
        assert "sizes-not-compared" not in verdict.assumptions


def test_rounds_are_said_where_labels_were_compared():
    """With a label on every collective but barriers the answer speaks of rounds."""
    labeled = [{**SUM, "label": "x"}, {"op": "barrier"}]
    assert ROUNDS in planguard.check(plan(labeled, labeled), model="gloo").proved
    parts = coalesced({"bytes": 4, "label": "a"}, {"bytes": 4, "label": "b"})
    assert ROUNDS in planguard.check(plan([parts], [parts]), model="gloo").proved
