"""Plans of the deepspeed and megatron adapters, right and edited, as real gloo processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gloo_runner import GlooPool

import planguard
from planguard.replay import replay

pytestmark = pytest.mark.processes
SAMPLES = Path(__file__).resolve().parents[2] / "tests" / "samples"


def deepspeed(name, stage=0, **edit):
    """Return the plan of a dump in which commands of a stage are dropped, moved or put in."""
    data = json.loads((SAMPLES / "deepspeed" / f"{name}.deepspeed.json").read_text())
    steps = data["commands"][stage]
    if "drop" in edit:
        step = next(s for s in steps if edit["drop"] in s)
        step.remove(edit["drop"])
    if "repeat" in edit:
        step = next(s for s in steps if edit["repeat"] in s)
        step.insert(0, edit["repeat"])
    if "late" in edit:
        step = next(s for s in steps if edit["late"] in s)
        step.remove(edit["late"])
        step.append(edit["late"])
    return planguard.load(data)


def megatron(name, **edit):
    """Return the plan of a recording in which one call of the first rank is edited."""
    data = json.loads((SAMPLES / "megatron" / f"{name}.megatron.json").read_text())
    events = data["ranks"][0]
    sends = [n for n, e in enumerate(events) if e["op"] in {"isend", "batch"}]
    place = sends[-1] if edit.keys() & {"drop", "again"} else sends[0]
    if "drop" in edit:
        handle = events[place]["work"]
        events[:] = [event for event in events if event.get("work") != handle]
    if "peer" in edit:
        events[place].get("ops", [events[place]])[0]["peer"] = edit["peer"]
    if "group" in edit:
        events[place].get("ops", [events[place]])[0]["group"] = edit["group"]
    if "again" in edit:
        copied = [{**events[place], "work": 999}, {"op": "wait", "work": 999}]
        events[place:place] = copied
    return planguard.load(data)


def test_real_processes_end_as_the_verdicts_say() -> None:
    """SAFE plans run to their end on gloo; DEADLOCK plans hang."""
    plans = [
        deepspeed("pp2-train"),
        deepspeed("dp2-zero3"),
        deepspeed("pp3-eval"),
        megatron("1f1b-pp2-world-group"),
        megatron("1f1b-pp2dp2"),
        megatron("interleaved-pp2-overlap"),
        deepspeed("pp2-train", drop="SendActivation(buffer_id=1)"),
        deepspeed("pp2-train", stage=1, late="SendGrad(buffer_id=0)"),
        deepspeed("pp3-eval", stage=2, repeat="RecvActivation(buffer_id=0)"),
        deepspeed("pp2dp2-tied", stage=1, drop="ReduceTiedGrads()"),
        deepspeed("pp2dp2-tied", drop="ReduceTiedGrads()"),
        megatron("1f1b-pp2-world-group", drop=True),
        megatron("1f1b-pp2-world-group", group="world"),
        megatron("1f1b-pp2-world-group", again=True),
        megatron("forward-pp3", peer=2),
        megatron("forward-pp3", drop=True),
    ]
    outcomes = [planguard.check(plan, model="gloo").outcome.value for plan in plans]
    with GlooPool(parallel=2) as pool:
        results = pool.run_many([json.loads(plan.source) for plan in plans])
    seen = [
        {"ok": "SAFE", "hang": "DEADLOCK"}.get(result.outcome, result.outcome) for result in results
    ]
    assert outcomes == seen
    assert outcomes == ["SAFE"] * 6 + ["DEADLOCK"] * 10


def test_two_stages_of_megatron_get_each_others_gradients() -> None:
    """NVIDIA/Megatron-LM#1450 on real processes: a batch delivers a gradient as an activation."""
    plan = planguard.load(SAMPLES / "megatron" / "interleaved-pp2-batched.megatron.json")
    witness = planguard.check(plan, model="gloo").witness
    result = replay(plan, witness, model="gloo")
    assert result.reproduced
    assert any(state.mismatches for state in result.ranks)
