from __future__ import annotations

import json

import pytest

import planguard
from planguard.cli import main
from planguard.simulate.rules import DEFAULTS, NEEDS_TRACE, advise


def codes(document, thresholds=None):
    """Return the codes of the advice on a plan."""
    return [finding.code for finding in advise(planguard.load(document), thresholds)]


def stages(*flops):
    """Return a plan of one rank per stage."""
    return {
        "schema": "planguard.plan/1",
        "world_size": len(flops),
        "ranks": {
            str(rank): {
                "actions": [
                    {"op": "compute", "op_name": "f", "flops": value, "stage": rank},
                    {"op": "barrier"},
                ]
            }
            for rank, value in enumerate(flops)
        },
    }


def test_exactly_the_threshold_does_not_fire():
    """A stage at 1.20 times the mean is fine; a hair above is not (Visual Diagnostics)."""
    assert "PG610" not in codes(stages(80, 120, 100))
    assert "PG610" in codes(stages(80, 121, 99))


def test_a_threshold_can_be_set():
    """Settings override one threshold and leave the others."""
    assert "PG610" not in codes(stages(50, 150), {"PG610": {"threshold": 0.6}})


def test_the_unpartitioned_table_of_pangu_alpha_is_found_alone():
    """Case study 1 of Visual Diagnostics: a 40000 x 2560 parameter that no device cuts, on 16
    devices of one stage; nothing else fires.
    """
    plan = {
        "schema": "planguard.plan/1",
        "world_size": 16,
        "tensors": {
            "word_embedding": {"shape": [40000, 2560], "dtype": "f32", "strategy": [1, 1]},
            "tokens": {"shape": [64, 1024], "dtype": "i32", "strategy": [8, 1]},
            "hidden": {"shape": [65536, 2560], "dtype": "f16", "strategy": [8, 1]},
            "weight": {"shape": [2560, 10240], "dtype": "f16", "strategy": [1, 2]},
        },
        "mesh": {"dims": [["dp", 8], ["mp", 2]]},
        "groups": {"dp": {"mesh_dims": ["dp"]}, "mp": {"mesh_dims": ["mp"]}},
        "templates": {
            "step": [
                {
                    "op": "compute",
                    "op_name": "Gather",
                    "ns": "word_embedding-VocabEmbedding",
                    "reads": ["word_embedding", "tokens"],
                    "writes": ["hidden"],
                    "flops": 1e9,
                },
                {
                    "op": "compute",
                    "op_name": "MatMul",
                    "reads": ["hidden", "weight"],
                    "flops": 4e13,
                },
                {"op": "all_reduce", "group": "mp", "count": 20971520, "dtype": "f16"},
                {"op": "all_reduce", "group": "dp", "count": 13107200, "dtype": "f16"},
            ]
        },
        "ranks": {"0-15": {"template": "step"}},
    }
    found = advise(planguard.load(plan))
    assert [finding.code for finding in found] == ["PG621"]
    assert "Gather" in found[0].message
    assert "word_embedding-VocabEmbedding" in found[0].message
    assert "[40000, 2560]" in found[0].message


def test_a_healthy_pipeline_gets_no_advice():
    """Equal stages, large messages, nothing local: no rule fires."""
    body = {"op": "compute", "op_name": "f", "flops": 1e12, "stage": 0}
    plan = {
        "schema": "planguard.plan/1",
        "world_size": 4,
        "templates": {
            "step": [
                {"op": "repeat", "times": 8, "body": [body]},
                {"op": "all_reduce", "bytes": 2**24},
            ]
        },
        "ranks": {"0-3": {"template": "step"}},
    }
    assert codes(plan) == []


def test_rules_on_measured_rates_are_not_answered_from_a_plan():
    """PG605 and PG611 compare GPU measurements; a plan alone never yields them."""
    assert not set(NEEDS_TRACE) & set(DEFAULTS)


@pytest.mark.parametrize(
    ("options", "code", "shown"),
    [([], 0, False), (["--rules"], 0, True), (["--select", "PG610", "--fail-on", "note"], 1, True)],
)
def test_advice_is_given_when_asked_and_gates_when_named(tmp_path, capsys, options, code, shown):
    """Advice needs --rules or a selector that names it; only a named rule can fail the gate."""
    file = tmp_path / "stages.plan.json"
    file.write_text(json.dumps(stages(50, 150)))
    assert main(["check", str(file), "--no-config", *options]) == code
    assert ("PG610" in capsys.readouterr().out) is shown
