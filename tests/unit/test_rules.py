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
    """PG605 and PG611 compare measurements; a plan alone never yields them."""
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


# --- nothing is guessed ---------------------------------------------------------------------------


def replicas(world, *, computes=209, us=900.0, stated=True, **fields):
    """Return ranks that compute and then exchange: DDP with a message, no pipeline."""
    body = [{"op": "compute", "op_name": "f", "duration_us": us, **fields} for _ in range(computes)]
    tail = [{"op": "barrier"}]
    other = [{"op": "compute", "op_name": "f", **({"duration_us": 1.0} if stated else {})}]
    ranks = {f"0-{world - 2}": {"actions": other + tail}, str(world - 1): {"actions": body + tail}}
    return {"schema": "planguard.plan/1", "world_size": world, "ranks": ranks}


def pipeline(world, stage_of, batches, us):
    """Return ranks of stated stages and microbatches; the last stage takes longest."""
    return {
        "schema": "planguard.plan/1",
        "world_size": world,
        "ranks": {
            str(rank): {
                "actions": [
                    {"op": "compute", "op_name": "f", "duration_us": us(stage_of(rank)),
                     "stage": stage_of(rank), "mb": mb}
                    for mb in range(batches)
                ] + [{"op": "barrier"}]
            }
            for rank in range(world)
        },
    }  # fmt: skip


def test_a_rank_is_no_stage_and_a_computation_no_microbatch():
    """Without `stage` and `mb` there is no PG604, with only one of them neither."""
    assert "PG604" not in codes(replicas(4))
    assert "PG604" not in codes(replicas(4, stage=1))
    assert "PG604" not in codes(replicas(4, mb=1))


def test_stages_that_wait_are_told_once_for_all_their_ranks():
    """64 ranks in two stages of 32: one finding, of the stage that waits, with all its ranks."""
    plan = pipeline(64, lambda rank: rank // 32, 4, lambda stage: 900 if stage else 10)
    found = [f for f in advise(planguard.load(plan)) if f.code == "PG604"]
    assert [f.ranks for f in found] == [tuple(range(32))]
    assert "2 stages and 4 microbatches" in found[0].message
    assert "rank 0 of its 32 ranks" in found[0].message


def test_a_computation_of_no_known_time_says_nothing_about_waiting():
    """A model takes it for nothing; who waits for it is not known (PG602, PG603, PG604)."""
    told = {"PG602", "PG603"}
    assert told & set(codes(replicas(4)))
    assert not told & set(codes(replicas(4, stated=False)))
    plan = pipeline(4, lambda rank: rank, 4, lambda stage: 900 if stage else 10)
    del plan["ranks"]["2"]["actions"][0]["duration_us"]
    assert "PG604" not in codes(plan)


def test_rounds_that_wait_alike_are_told_once():
    """A straggler in 50 rounds is one finding that counts them."""
    late = {"op": "compute", "op_name": "f", "duration_us": 900.0}
    early = {"op": "compute", "op_name": "f", "duration_us": 1.0}
    plan = {
        "schema": "planguard.plan/1",
        "world_size": 3,
        "ranks": {
            "0-1": {"actions": [{"op": "repeat", "times": 50, "body": [early, {"op": "barrier"}]}]},
            "2": {"actions": [{"op": "repeat", "times": 50, "body": [late, {"op": "barrier"}]}]},
        },
    }
    limits = {"PG602": {"factor": 2.0, "share": 0.001}}
    found = {f.code: f for f in advise(planguard.load(plan), limits)}
    assert list(found).count("PG602") == 1
    assert "49 more rounds are like it" in found["PG603"].message


def test_the_flops_of_a_rank_of_several_stages_count_for_each_of_them():
    """Interleaved ranks: the work of a stage is what says so, not all the rank does."""

    def both(first, second):
        return {"actions": [{"op": "compute", "flops": first, "stage": 0},
                            {"op": "compute", "flops": second, "stage": 1}]}  # fmt: skip

    plan = {"schema": "planguard.plan/1", "world_size": 2,
            "ranks": {"0": both(100, 300), "1": both(100, 300)}}  # fmt: skip
    found = [f for f in advise(planguard.load(plan)) if f.code == "PG610"]
    assert [f.message.split(" computes")[0] for f in found] == ["stage 1"]


def test_ranks_that_send_and_state_no_stage_are_not_compared():
    """They may be stages of a pipeline; PG612 compares ranks of one stage."""

    def ranks(*, send):
        heavy = [{"op": "compute", "flops": 900.0}] + (
            [{"op": "send", "peer": 3, "bytes": 4}] * send
        )
        light = [{"op": "compute", "flops": 100.0}]
        end = light + [{"op": "recv", "peer": 0, "bytes": 4}] * send
        barrier = [{"op": "barrier"}]
        return {"schema": "planguard.plan/1", "world_size": 4, "ranks": {
            "0": {"actions": heavy + barrier}, "1-2": {"actions": light + barrier},
            "3": {"actions": end + barrier}}}  # fmt: skip

    assert "PG612" in codes(ranks(send=0))
    assert "PG612" not in codes(ranks(send=1))
