"""Recorded runs against the plans that adapters make of the same jobs, and against wrong plans."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import planguard
from planguard.recording.compare import Status, compare
from planguard.simulate.matrix import matrix
from planguard.simulate.traffic import traffic

pytestmark = [pytest.mark.processes, pytest.mark.wheel]
torch = pytest.importorskip("torch")

import ddp_worker  # noqa: E402
import fsdp_worker  # noqa: E402
from recorder_worker import record_jobs  # noqa: E402

from planguard.capture.nccl.preload import read_logs  # noqa: E402
from planguard.capture.run.reading import recording_of_run, without_prologue  # noqa: E402
from planguard.capture.run.times import schedule_of_run  # noqa: E402

SAMPLES = Path(__file__).resolve().parents[2] / "tests" / "samples" / "pipelining"


def ddp_plan() -> planguard.Plan:
    """Return the plan of the job ``ddp``."""
    module = ddp_worker.make("linears")
    return planguard.load(module, planner="ddp", world_size=2, bucket_cap_mb=0.005, steps=3)


def fsdp_plan() -> planguard.Plan:
    """Return the plan of the job ``fsdp2``."""
    module = fsdp_worker.make("model")
    return planguard.load(module, planner="fsdp", world_size=2, units=["blocks.*"])


def tensor_parallel_plan() -> planguard.Plan:
    """Trace the job ``tensor_parallel``."""
    from torch import nn

    import planguard.capture

    def prepare(module, mesh):
        from torch.distributed.tensor import parallel as tp

        plan = {"0": tp.ColwiseParallel(), "1": tp.RowwiseParallel()}
        return tp.parallelize_module(module, mesh["tp"], plan)

    model = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 8))
    inputs = (torch.ones(2, 8, requires_grad=True),)
    bundle = planguard.capture.fx(model, inputs, 2, mesh={"tp": 2}, prepare=prepare, ranks="all")
    return planguard.load(bundle)


def pipeline_plan(short: str) -> planguard.Plan:
    """Return the plan of a schedule of two ranks and four microbatches."""
    spec = importlib.util.spec_from_file_location("regenerate", SAMPLES / "regenerate.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["regenerate"] = module
    spec.loader.exec_module(module)
    return planguard.load(module.make_schedule(short, 2, 4), planner="pipelining", bytes=2 * 16 * 4)


PLANS = {
    "ddp": ddp_plan,
    "fsdp2": fsdp_plan,
    "tensor_parallel": tensor_parallel_plan,
    "pipeline": lambda: pipeline_plan("Schedule1F1B"),
    "interleaved": lambda: pipeline_plan("interleaved1f1b"),
    "zbv": lambda: pipeline_plan("zbv"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Run every job once."""
    folder = tmp_path_factory.mktemp("runs")
    record_jobs(folder, list(PLANS))
    return folder


@pytest.fixture(scope="module")
def plans() -> dict[str, planguard.Plan]:
    """Make every plan once, from the model or the schedule alone."""
    return {name: make() for name, make in PLANS.items()}


@pytest.mark.parametrize("name", PLANS)
def test_a_run_conforms_to_the_plan_of_its_adapter(runs, plans, name):
    """Every rank issued what the plan says, call for call, on every group."""
    found = compare(recording_of_run(runs / name), plans[name])
    assert found.is_equal, found
    assert not found.is_limited
    assert len(found.ranks) == 2
    assert {status for one in found.ranks for status in one.groups.values()} == {Status.EQUAL}


@pytest.mark.parametrize("name", PLANS)
def test_the_communication_matrix_of_the_plan_is_that_of_the_run(runs, plans, name):
    """Bytes and messages of every pair of ranks are equal, the framework's start left out where
    the plan has none.
    """
    recording = recording_of_run(runs / name)
    recording = recording if name == "ddp" else without_prologue(recording)
    planned, recorded = matrix(traffic(plans[name])), matrix(traffic(recording.to_plan()))
    assert planned.total_bytes > 0
    assert planned.bytes.tobytes() == recorded.bytes.tobytes()
    assert planned.counts.tobytes() == recorded.counts.tobytes()


NCCL_TYPES = ("i8", "u8", "i32", "u32", "i64", "u64", "f16", "f32", "f64", "bf16")
TOKENS = {"all_reduce": "ar", "all_gather": "ag", "reduce_scatter": "rs", "broadcast": "bc",
          "reduce": "rd", "send": "s", "recv": "r"}  # fmt: skip


def tokens(record) -> list[str]:
    """Return the calls of a recorded rank as arguments of the job that calls NCCL."""
    out: list[str] = []
    batch = None
    for one in record.actions:
        call = one.call
        if call.op == "wait":
            continue
        if one.batch != batch:
            out += ["ge"] if batch is not None else []
            out += ["gs"] if one.batch is not None else []
            batch = one.batch
        out.append(f"dt:{NCCL_TYPES.index(call.dtype)}")
        name = TOKENS[call.family]
        if call.is_point_to_point:
            out.append(f"{name}:{call.peer}:{call.count}")
        else:
            out.append(f"{name}:{call.count}" + ("" if call.root is None else f":{call.root}"))
    return out + (["ge"] if batch is not None else [])


@pytest.mark.parametrize("name", PLANS)
def test_the_matrix_of_the_plan_is_that_of_nccl_calls_seen_by_the_interposer(
    runs, plans, built, tmp_path, name
):
    """The calls of the recorded job, made again on a stand-in for libnccl, are seen by the
    interposer: bytes and messages are those of the plan, for all traffic and for each primitive.
    """
    recording = recording_of_run(runs / name)
    recording = recording if name == "ddp" else without_prologue(recording)
    environment = {
        **os.environ,
        "LD_PRELOAD": str(built / "libplanguard_preload.so"),
        "PLANGUARD_PRELOAD_LOG": str(tmp_path),
        "PLANGUARD_PRELOAD_RECORDS": "4096",
    }
    ranks = [
        subprocess.Popen(
            [str(built / "job"), str(rank), "2", *tokens(record)],
            env={**environment, "RANK": str(rank), "WORLD_SIZE": "2"},
            stdout=subprocess.DEVNULL,
        )
        for rank, record in recording.ranks.items()
    ]
    assert [rank.wait(timeout=30) for rank in ranks] == [0, 0]
    moved = traffic(read_logs([tmp_path]).to_plan())
    planned = traffic(plans[name])
    assert moved.primitives() == planned.primitives()
    for wanted in ({}, *({"primitive": primitive} for primitive in planned.primitives())):
        seen, known = matrix(moved, **wanted), matrix(planned, **wanted)
        assert known.counts.sum() > 0
        assert seen.bytes.tobytes() == known.bytes.tobytes()
        assert seen.counts.tobytes() == known.counts.tobytes()


@pytest.mark.parametrize("name", PLANS)
def test_measured_times_of_a_run_keep_cause_before_effect(runs, name):
    """Every call of a recorded run has a start and an end; once clocks are aligned, no message
    arrives before it was sent and nobody leaves a collective before everyone has come.
    """
    found = schedule_of_run(runs / name)
    assert found.basis == "measured"
    assert found.complete
    talks = [s for s in found.spans if s.kind in {"collective", "send", "recv"}]
    calls = sum(one.call.is_communication for record in recording_of_run(runs / name).ranks.values()
                for one in record.actions)  # fmt: skip
    assert len(talks) == calls
    met: dict[int, list] = {}
    for span in talks:
        met.setdefault(span.match, []).append(span)
    assert all(len(spans) == 2 for spans in met.values())
    slack = 5e4  # microseconds: when a rank of a busy machine gets to look at its clock
    for spans in met.values():
        for span in spans:
            if span.kind != "send":
                assert span.end + slack >= max(s.start for s in spans)


def changed(plan: planguard.Plan, change) -> planguard.Plan:
    """Return a flat plan whose every program was changed."""
    from planguard.plan.flatten import flatten

    document = json.loads(json.dumps(flatten(plan)))  # ranks share their actions
    for program in document["ranks"].values():
        change(program["actions"])
    return planguard.load(document)


def reductions(actions):
    """Return the all_reduces of a program."""
    return [action for action in actions if action["op"] == "all_reduce"]


def drop_third(actions):
    """Leave the third all_reduce out, and the wait for it."""
    third = reductions(actions)[2]
    actions.remove(third)
    for action in [a for a in actions if a["op"] == "wait"]:
        works = action["work"] if isinstance(action["work"], list) else [action["work"]]
        action["work"] = [work for work in works if work != third["work"]]
        if not action["work"]:
            actions.remove(action)


def halve_third(actions):
    """Let the third all_reduce be half as large."""
    reductions(actions)[2]["count"] //= 2


def swap(actions):
    """Let the first two all_reduces change places."""
    first, second = reductions(actions)[:2]
    assert first["count"] != second["count"]
    first["count"], second["count"] = second["count"], first["count"]


def add(actions):
    """Plan an all_reduce more at the end."""
    actions.append({"op": "all_reduce", "count": 3, "dtype": "f32"})


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (drop_third, Status.EXTRA),
        (halve_third, Status.DIFFERENT),
        (swap, Status.REORDERED),
        (add, Status.MISSING),
    ],
)
def test_a_wrong_plan_is_reported_where_the_run_first_leaves_it(runs, plans, change, status):
    """A changed plan differs on both ranks, in the class of the change, with both call sites."""
    found = compare(recording_of_run(runs / "ddp"), changed(plans["ddp"], change))
    assert [one.groups["world"] for one in found.ranks] == [status, status]
    for one in found.ranks:
        assert one.first is not None
        if one.first.recorded is not None:
            assert one.first.recorded.call.source.file.endswith("recorder_worker.py")
