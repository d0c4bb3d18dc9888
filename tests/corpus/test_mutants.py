from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import mutants

# Small samples of nine adapters; `python benchmarks/mutants.py` takes those of all.
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


@pytest.mark.parametrize("name", FEW)
def test_mutants_of_a_sample_are_found_and_named(name):
    """One mutant per edit: found where the enumerator finds it, silent where it is equivalent, with
    the enumerator's outcome, and the rank and action named.
    """
    found = mutants.base(mutants.SAMPLES / name)
    assert found is not None
    jobs = [(name, edit, f"{name}/{edit}/0", *found) for edit in mutants.EDITS]
    lines = [line for line in map(mutants.judge, jobs) if line["truth"] != "none"]
    assert len(lines) >= 3
    for line in lines:
        if line["truth"] == "invalid":
            assert line["outcome"].startswith("refused"), line
        else:
            assert line["outcome"] == line["truth"], line
        if line["outcome"] not in {"SAFE", "UNKNOWN"}:
            assert line["right"], line


def test_an_edit_is_of_one_rank_only():
    """Ranks of one template are edited apart."""
    flat, _ = mutants.base(mutants.SAMPLES / "fx" / "tp-mlp.fx.json")
    plan, rank, _ = mutants.mutant(flat, "dtype", "any")
    changed = [r for r in flat["ranks"] if plan["ranks"][r] != flat["ranks"][r]]
    assert changed == [str(rank)]
