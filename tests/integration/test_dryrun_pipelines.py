"""Ranks played together: the control plane is real, classes stand for ranks, no value is silent."""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import planguard
from planguard import Outcome

pytestmark = [
    pytest.mark.processes,
    pytest.mark.wheel,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(300),
]
torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

from planguard.capture.play.ranks import Play  # noqa: E402
from planguard.capture.play.script import Script  # noqa: E402

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "dryrun"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
SCHEDULES = ("Schedule1F1B", "ScheduleInterleaved1F1B", "ScheduleZBVZeroBubble")


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run ``planguard dryrun`` in a folder."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    return subprocess.run(
        [sys.executable, "-m", "planguard", "dryrun", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def recorded_and_stubbed(folder: Path, world: int, *script: str) -> list[dict]:
    """Return the plan of the recorded run of a script, and of its dry run with stubs."""
    job = [*TORCHRUN, "--nproc-per-node", str(world), *script]
    for name, options in (("run", []), ("stub", ["--stub", "--model", "gloo"])):
        done = command(folder, *options, "-o", name, "--", *job)
        assert done.returncode == 0, done.stdout + done.stderr
    files = (folder / "run", folder / "stub" / "captured.plan.json")
    return [json.loads(planguard.load(file).source) for file in files]


def played(body, world: int, **options) -> tuple[Play, planguard.Verdict]:
    """Play a body and decide its plan on gloo."""
    play = Play(world, timeout=100, **options)
    play.run(lambda _: body())
    return play, planguard.check(play.plan(model="gloo"))


def started(body):
    """Return a body that initializes torch.distributed first, as a script does."""

    def job():
        dist.init_process_group("gloo")
        body()

    return job


def test_the_stubbed_plan_of_a_pipeline_is_that_of_the_recorded_run(tmp_path):
    """1F1B, interleaved 1F1B and ZBV: action for action, with votes, shapes and call sites."""
    script = (str(EXAMPLES / "pipeline.py"), "4", *SCHEDULES)
    recorded, stubbed = recorded_and_stubbed(tmp_path, 2, *script)
    assert stubbed["ranks"] == recorded["ranks"]
    assert len(recorded["ranks"]["0"]["actions"]) > 100
    kinds = {action["op"] for action in recorded["ranks"]["0"]["actions"]}
    assert {"send", "recv", "batch"} <= kinds


@pytest.mark.slow
def test_the_stubbed_plan_of_sharded_tensor_parallelism_is_that_of_the_recorded_run(tmp_path):
    """fully_shard over tensor parallelism on 2 x 2 ranks, optimizer step included."""
    script = (str(EXAMPLES / "sharded_tensor_parallel.py"), "2", "2", "2", "64")
    recorded, stubbed = recorded_and_stubbed(tmp_path, 4, *script)
    assert stubbed["ranks"] == recorded["ranks"]


def test_a_played_call_names_its_operator_and_phase():
    """In the forward pass the module on the stack, in DDP's backward pass the parameter's."""

    class Summed(torch.nn.Module):
        def forward(self, x):
            dist.all_reduce(x.detach().clone())
            return x

    def body():
        net = torch.nn.Sequential(torch.nn.Linear(4, 4), Summed())
        model = torch.nn.parallel.DistributedDataParallel(net)
        model(torch.ones(1, 4)).sum().backward()
        dist.barrier()

    play, verdict = played(started(body), 2)
    assert verdict.safe
    actions = play.logs[0].actions
    placed = [(a["op"], a.get("ns"), a.get("phase")) for a in actions if a["op"] != "wait"]
    assert ("all_reduce", "module.1", "forward") in placed
    assert ("all_reduce", "module.0", "backward") in placed
    assert placed[-1] == ("barrier", None, None)


def test_representatives_give_the_plan_that_all_ranks_give():
    """A pipeline of two stages, replicated six times: eight ranks stand for twelve, and say so."""
    script = str(EXAMPLES / "replicated_pipeline.py")
    job = Script(script, is_module=False, arguments=("6", "2", "4", "16"))
    mesh = (("dp", 6), ("pp", 2))
    every, verdict = played(job, 12, mesh=mesh)
    assert verdict.safe
    assert every.coverage == "12 of 12 ranks, 2 classes"
    few, verdict = played(job, 12, mesh=mesh, samples=1)
    assert verdict.safe
    assert few.coverage == "8 of 12 ranks, 2 classes"
    plans = [json.loads(play.plan(model="gloo").source) for play in (every, few)]
    flat = [[plan["ranks"][str(rank)] for rank in range(12)] for plan in plans]
    assert flat[0] == flat[1]
    kinds = [note["kind"] for note in plans[1]["approximations"]]
    assert "spmd-substitution" in kinds


def test_a_sample_that_differs_dissolves_its_class():
    """Odd ranks skip a call: the sample of the inner ranks shows it, and all of them are played."""

    def odd():
        if dist.get_rank() % 2 == 0:
            dist.barrier()
        dist.all_reduce(torch.ones(4))

    play, verdict = played(started(odd), 8, samples=1)
    assert len(play.logs) == 8
    assert play.classes == 2
    assert verdict.outcome is Outcome.MISMATCH


def exchanges():
    """Send objects and whole numbers in every way; each rank checks what arrives."""
    rank, world = dist.get_rank(), dist.get_world_size()
    everyone = list(range(world))
    found = [None] * world
    dist.all_gather_object(found, {"rank": rank, "text": "x" * rank})
    assert [one["rank"] for one in found] == everyone
    told = [{"seed": 7}] if rank == 0 else [None]
    dist.broadcast_object_list(told, src=0)
    assert told == [{"seed": 7}]
    mine = [None]
    dist.scatter_object_list(mine, [{"n": n} for n in everyone] if rank == 1 else None, src=1)
    assert mine == [{"n": rank}]
    gathered = [None] * world if rank == 0 else None
    dist.gather_object(rank * 2, gathered)
    assert rank or gathered == [2 * n for n in everyone]
    total = torch.tensor([rank, 1])
    dist.all_reduce(total)
    assert total.tolist() == [sum(everyone), world]
    most = torch.tensor([rank])
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    assert most.item() == world - 1
    part = torch.empty(2, dtype=torch.long)
    dist.reduce_scatter_tensor(part, torch.arange(world * 2) + rank)
    assert part.tolist() == [world * (2 * rank + n) + sum(everyone) for n in range(2)]
    crossed = torch.empty(world, dtype=torch.long)
    dist.all_to_all_single(crossed, torch.arange(world) * 10 + rank)
    assert crossed.tolist() == [rank * 10 + n for n in everyone]
    ones = np.ones(world, dtype=int)
    dist.all_to_all_single(crossed, torch.arange(world) + rank, ones, ones)
    assert crossed.tolist() == [rank + n for n in everyone]
    before, after = (rank - 1) % world, (rank + 1) % world
    posted = dist.irecv(arrived := torch.zeros(3, dtype=torch.long), before)
    dist.send(torch.full((3,), rank), after)
    posted.wait()
    assert arrived.tolist() == [before] * 3
    ops = [
        dist.P2POp(dist.isend, torch.tensor([rank]), after),
        dist.P2POp(dist.irecv, arrived := torch.tensor([0]), before),
    ]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert arrived.tolist() == [before]


def test_objects_and_whole_numbers_really_travel():
    """Every kind of exchange brings what the other ranks sent, and deciding on it is no guess."""
    play, verdict = played(started(exchanges), 3)
    assert verdict.safe
    assert not play.stuck
    assert play.classes == 1, "peers count by their distance, roots by their place"


def test_ranks_that_wait_for_each_other_are_found_stuck():
    """Both ask for an object first: the play ends at once, and the plan is the deadlock."""

    def both_ask():
        dist.all_reduce(torch.ones(8))
        with contextlib.suppress(Exception):  # as a job would that hides errors
            dist.recv_object_list([None], src=1 - dist.get_rank())
        dist.barrier()

    play, verdict = played(started(both_ask), 2)
    assert list(play.stuck) == [0, 1]
    assert verdict.outcome is Outcome.DEADLOCK


def product():
    """Return a result that was left undone, reduced over the ranks."""
    x = torch.ones(128, 128)
    y = x @ x
    dist.all_reduce(y)
    return y


MADE_UP = {
    "item": lambda y: y.sum().item() > 3,
    "arithmetic": lambda y: y.sum().item() / 3 - 1 > 3,
    "isnan": lambda y: math.isnan(y.sum().item()),
    "truth": lambda y: bool(y.sum() > 3),
    "int": lambda y: int(y.sum()),
    "equal": lambda y: torch.equal(y, y + 1),
    "numpy": lambda y: y.numpy().sum() > 3,
    "nonzero": lambda y: (y > 1).nonzero().shape[0],
    "mask": lambda y: y[y > 1].numel(),
    "sent on": lambda y: _sent(y.argmax().reshape(1)).item() > 3,
}


def _sent(number):
    dist.all_reduce(number)
    return number


@pytest.mark.parametrize("reading", MADE_UP)
def test_no_reading_of_a_made_up_value_is_silent(reading):
    """Whatever way a value is read on which the script decides, the plan is undecided (PG505)."""

    def body():
        if MADE_UP[reading](product()):
            dist.barrier()

    play, verdict = played(started(body), 2)
    assert verdict.unknown
    notes = [note for note in play.plan().approximations if note.kind == "data-dependent-value"]
    assert any("test_dryrun_pipelines.py" in note.message for note in notes)


def _shown(y):
    print(f"{y.sum().item():.3f}")


def _adam(y):
    layer = torch.nn.Linear(128, 128)
    optimizer = torch.optim.AdamW(layer.parameters())
    layer(y).sum().backward()
    optimizer.step()


KNOWN = {
    "printed": _shown,
    "own number": lambda _: torch.tensor([3]).item() > 3,
    "optimizer": _adam,
    "counted": lambda _: _sent(torch.tensor([1])).item() != 2,
}


@pytest.mark.parametrize("reading", KNOWN)
def test_values_that_are_real_decide_nothing_by_accident(reading):
    """Printing, constants, an optimizer's own counter and exchanged whole sums are no guesses."""

    def body():
        if KNOWN[reading](product()):
            dist.barrier()

    _, verdict = played(started(body), 2)
    assert verdict.safe


def sharded():
    """One step of fully_shard."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    module = torch.nn.Sequential(*[torch.nn.Linear(128, 128) for _ in range(2)])
    for layer in module:
        fully_shard(layer, mesh=mesh)
    fully_shard(module, mesh=mesh)
    module(torch.ones(2, 128)).sum().backward()


def test_fake_tensors_give_the_same_plan_where_they_do():
    """FSDP2 runs without storage; the plan is that of the stubs with storage."""
    plans = []
    for compute in ("auto", "zeros"):
        play, verdict = played(started(sharded), 2, compute=compute)
        assert verdict.safe
        plans.append(json.loads(play.plan().source)["ranks"])
        assert play.computed == ("fake tensors" if compute == "auto" else "")
    assert plans[0] == plans[1]


def test_a_job_that_needs_values_falls_back_to_storage():
    """Exchanged objects have none on fake tensors: they are played with storage, and it says so."""
    play, verdict = played(started(exchanges), 3, compute="auto")
    assert verdict.safe
    assert play.computed.startswith("real storage, since fake tensors do not do: ")


def test_the_end_of_a_rank_is_data():
    """A rank that raises leaves its peers waiting: that is the verdict, and why is kept."""

    def raises():
        if dist.get_rank() == 1:
            raise ValueError("bad shard")
        dist.recv_object_list([None], src=1)

    play, verdict = played(started(raises), 2)
    assert verdict.outcome is Outcome.DEADLOCK
    assert "rank 1 could not be captured: ValueError: bad shard" in str(play.failure())
