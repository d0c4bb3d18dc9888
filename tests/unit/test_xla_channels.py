"""Channels, pairs, groups and bounded sizes: what tells collectives apart is not folded away."""

# ruff: noqa: E501 - instructions of HLO are long lines

from __future__ import annotations

import random

import hlo_programs as hlo
import pytest
from oracle.enumerator import Effort, enumerate_plan

import planguard
from planguard import registry

registry.find("xla")  # mounts planguard.planners where it is not installed

from planguard.planners.xla import alike  # noqa: E402

MODELS = ("gloo", "nccl-serialized")
SAFE = "SAFE"
IDLE = {104}
"""Seeds of programs whose arms permute from a device to itself: the arms differ, nothing meets."""


def outcome(source, model="nccl"):
    """Return the outcome of a program, and the kinds in its ledger."""
    verdict = planguard.check(source, model=model)
    return verdict.outcome.value, {entry.kind for entry in verdict.approximations}


def written(folder, **texts):
    """Write programs, and return their paths by name."""
    for name, text in texts.items():
        (folder / f"{name}.hlo").write_text(text)
    return {name: str(folder / f"{name}.hlo") for name in texts}


@pytest.mark.parametrize("seed", range(100, 120))
def test_one_program_is_judged_by_channel_and_members(seed, tmp_path, monkeypatch):
    """Random programs of replicas and partitions: what the enumerator says of XLA's own rules.

    Folded into one program for all devices, and not.
    """
    program = hlo.source(random.Random(seed))
    path = written(tmp_path, one=hlo.text(program))["one"]
    for many in (2, 64):
        monkeypatch.setattr(alike, "MANY", many)
        plan = planguard.load(path)
        for model in MODELS:
            truth = enumerate_plan(hlo.plan([program] * program.devices), model, Effort(verify=0))
            ours = planguard.check(plan, model=model).outcome.value
            if truth.outcome == SAFE and seed not in IDLE:
                assert ours in {SAFE, "UNKNOWN"}
            elif truth.outcome != SAFE:
                assert ours != SAFE


@pytest.mark.parametrize("seed", range(200, 215))
def test_programs_that_were_compiled_apart_are_compared(seed, tmp_path):
    """Half of the ranks run a program with one other call: never SAFE where the enumerator is not.

    Between processes XLA joins collectives by their order, whatever their channels: two processes
    of jax 0.10.2 on the CPU, whose programs differ in channels only, or have them swapped, end.
    """
    rng = random.Random(seed)
    program = hlo.source(rng)
    other, size = hlo.edited(rng, program), program.devices
    half = (size + 1) // 2
    paths = written(tmp_path, one=hlo.text(program), other=hlo.text(other))
    plan = planguard.load({f"0-{half - 1}": paths["one"], f"{half}-{size - 1}": paths["other"]})
    ranks = [program if rank < half else other for rank in range(size)]
    for model in MODELS:
        truth = enumerate_plan(hlo.plan(ranks, labels=False), model, Effort(verify=0)).outcome
        ours = planguard.check(plan, model=model).outcome.value
        assert truth == SAFE or ours != SAFE


def call(name, channel=1, groups=((0, 1),), opcode="all-reduce", **more):
    """Return a call of two partitions."""
    is_global = opcode in hlo.FLAT
    return hlo.Call(name, opcode, 48, channel, is_global, groups, **more)


@pytest.mark.parametrize(("channel", "expected"), [(1, "SAFE"), (2, "MISMATCH")])
def test_branches_that_differ_in_the_channel_are_two(channel, expected, tmp_path):
    """XLA's CPU runtime joins the arms of one channel and hangs where they have two.

    Measured with jax 0.10.2 on four devices: ``op_id=1`` and ``op_id=2`` wait for each other.
    """
    arms = (call("one"),), (call("other", channel),)
    program = hlo.Source(1, 2, (hlo.Branch("cond", None, arms),))
    path = written(tmp_path, one=hlo.text(program))["one"]
    assert outcome(path)[0] == expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (call("x"), call("x", 2), {"SAFE"}),
        (call("x"), call("x", groups=((0,), (1,))), {"DEADLOCK"}),
        (call("x"), call("x", groups=((1, 0),)), {"DEADLOCK"}),
        (
            hlo.Call("x", "collective-permute", 48, 1, pairs=((0, 1),)),
            hlo.Call("x", "collective-permute", 48, 1, pairs=((1, 0),)),
            {"DEADLOCK"},
        ),
        (
            hlo.Call("x", "collective-permute", 48, 1, pairs=((0, 1),)),
            hlo.Call("x", "collective-permute", 48, 1, pairs=()),
            {"DEADLOCK"},
        ),
    ],
    ids=["channel", "groups", "order of members", "turned pair", "no pair"],
)
def test_two_modules_that_differ_in_one_field(one, other, expected, tmp_path):
    """Members and pairs decide; channels do not, since every rank is a process of its own."""
    texts = {name: hlo.text(hlo.Source(1, 2, (made,))) for name, made in (("a", one), ("b", other))}
    paths = written(tmp_path, **texts)
    for model in ("gloo", "nccl"):
        assert outcome({"0": paths["a"], "1": paths["b"]}, model)[0] in expected


BOUNDED = """HloModule m, is_scheduled=true, num_partitions=2

%add (x: f32[], y: f32[]) -> f32[] {{
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y)
}}

ENTRY %main (a: f32[{size}]) -> f32[{size}] {{
  %a = f32[{size}]{{0}} parameter(0)
  ROOT %r = f32[{size}]{{0}} all-reduce(%a), channel_id=1, replica_groups={{{{0,1}}}}, use_global_device_ids=true, to_apply=%add
}}
"""


@pytest.mark.parametrize(("one", "other"), [("<=8", "<=8"), ("<=8", "<=16"), ("8", "<=16")])
def test_bounded_sizes_are_not_compared(one, other, tmp_path):
    """A dimension ``<=8`` is as long as each device's data say: UNKNOWN, whatever the bounds are."""
    paths = written(tmp_path, a=BOUNDED.format(size=one), b=BOUNDED.format(size=other))
    found, kinds = outcome({"0": paths["a"], "1": paths["b"]})
    assert found == "UNKNOWN"
    assert "unknown-size" in kinds
    fixed = written(tmp_path, c=BOUNDED.format(size=8))["c"]
    assert outcome(fixed) == (SAFE, set())


FUSIONS = """HloModule m, is_scheduled=true, num_partitions=2

%one (p: f32[8]) -> (f32[8], f32[16]) {{
  %p = f32[8]{{0}} parameter(0)
  %gather.1 = f32[16]{{0}} all-gather(%p), channel_id=1, replica_groups={{{{0,1}}}}, dimensions={{0}}, use_global_device_ids=true
  ROOT %start.1 = (f32[8]{{0}}, f32[16]{{0}}) custom-call(%p, %gather.1), custom_call_target="AsyncCollectiveStart"
}}

%two (p: f32[8]) -> (f32[8], f32[16]) {{
  %p = f32[8]{{0}} parameter(0)
  %gather.2 = f32[16]{{0}} all-gather(%p), channel_id={channel}, replica_groups={{{{0,1}}}}, dimensions={{0}}, use_global_device_ids=true
  ROOT %start.2 = (f32[8]{{0}}, f32[16]{{0}}) custom-call(%p, %gather.2), custom_call_target="AsyncCollectiveStart"
}}

%done (p: f32[8]) -> f32[16] {{
  %p = f32[8]{{0}} parameter(0)
  %gather.3 = f32[16]{{0}} all-gather(%p), channel_id=1, replica_groups={{{{0,1}}}}, dimensions={{0}}, use_global_device_ids=true
  ROOT %done.1 = f32[16]{{0}} custom-call(%p, %gather.3), custom_call_target="AsyncCollectiveDone"
}}

ENTRY %main (p: f32[8]) -> f32[16] {{
  %p = f32[8]{{0}} parameter(0)
  %a = (f32[8]{{0}}, f32[16]{{0}}) fusion(%p), kind=kCustom, calls=%one
  %b = (f32[8]{{0}}, f32[16]{{0}}) fusion(%p), kind=kCustom, calls=%two
  ROOT %c = f32[16]{{0}} fusion(%p), kind=kCustom, calls=%done
}}
"""


@pytest.mark.parametrize(("channel", "expected"), [(1, "UNKNOWN"), (2, "SAFE")])
def test_a_second_start_on_a_channel_is_no_continuation(channel, expected, tmp_path):
    """Two fusions that each begin a collective on one channel: one of the two is not dropped."""
    path = written(tmp_path, one=FUSIONS.format(channel=channel))["one"]
    assert outcome(path)[0] == expected
