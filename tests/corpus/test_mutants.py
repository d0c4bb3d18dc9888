from __future__ import annotations

import mutants
import pytest

# Small samples of nine adapters; `python tests/campaigns/mutants.py` takes those of all.
FEW = (
    "chakra/data-parallel",
    "deepspeed/dp2-zero2.deepspeed.json",
    "fx/tp-mlp.fx.json",
    "hiccl/composed-2x2.hiccl.json",
    "megatron/1f1b-pp2-world-group.megatron.json",
    "msccl/allgather-ring-4.xml",
    "mscclpp/allgather-groups-2.json",
    "pipelining/gpipe-2x4.csv",
    "xla/fsdp.hlo",
)
EACH = 2
"""Mutants per sample and edit: about a hundred in all."""


@pytest.mark.parametrize("name", FEW)
def test_mutants_of_a_sample_are_found_and_named(name):
    """Two mutants per edit: found where the enumerator finds them, silent where equivalent, with
    the enumerator's outcome, and the rank and action named.
    """
    found = mutants.base(mutants.SAMPLES / name)
    assert found is not None
    jobs = [
        (name, edit, f"{name}/{edit}/{n}", *found) for edit in mutants.EDITS for n in range(EACH)
    ]
    lines = [line for line in map(mutants.judge, jobs) if line["truth"] != "none"]
    assert len(lines) >= 3 * EACH
    for line in lines:
        if line["truth"] == "invalid":
            assert line["outcome"].startswith("refused"), line
        else:
            assert line["outcome"] == line["truth"], line
        if line["outcome"] not in {"SAFE", "UNKNOWN"} or line["open"]:
            assert line["right"], line


def test_a_missing_wait_is_scored_at_the_call_that_starts_the_handle():
    """PG301 names the start, where the wait has to be added: right, though not at the edit's place;
    one that the sample has already is no answer.
    """
    name = "pipelining/gpipe-2x4.csv"
    line = mutants.judge((name, mutants.WAIT, "any", *mutants.base(mutants.SAMPLES / name)))
    assert (line["open"], line["code"], line["outcome"]) == (True, "PG301", "SAFE")
    assert (line["right"], line["exact"], line["strict"]) == (True, True, False)
    name = "nnscaler/mlp-pp4-async-p2p"
    line = mutants.judge((name, mutants.WAIT, "any", *mutants.base(mutants.SAMPLES / name)))
    assert (line["open"], line["errors"], line["right"]) == (True, 1, True)


def test_a_handle_is_open_until_its_name_is_waited_for():
    """A second call under the same name gives the first handle away."""
    start, wait = {"op": "isend", "work": "a"}, {"op": "wait", "work": ["b", "a"]}
    assert not mutants.is_open([start, wait], [0])
    assert mutants.is_open([start, start, wait], [0])
    assert mutants.is_open([start, {"op": "wait", "work": "b"}], [0])


def test_an_edit_is_of_one_rank_only():
    """Ranks of one template are edited apart."""
    flat, _ = mutants.base(mutants.SAMPLES / "fx" / "tp-mlp.fx.json")
    plan, rank, _ = mutants.mutant(flat, "dtype", "any")
    changed = [r for r in flat["ranks"] if plan["ranks"][r] != flat["ranks"][r]]
    assert changed == [str(rank)]
