"""Callbacks of futures communicate beside the thread that added them: on gloo, not on NCCL."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook  # noqa: E402 - torch first
from torch.nn.parallel import DistributedDataParallel  # noqa: E402 - same

from planguard.capture import precheck  # noqa: E402 - same
from planguard.verdict import Outcome  # noqa: E402 - same

pytestmark = [pytest.mark.processes, pytest.mark.wheel]


def decide(job, model="gloo"):
    """What precheck says of a job of two ranks."""
    return precheck(2, model=model, on_unsafe="return", timeout=100).run(job)


def after(count, *counts):
    """A call, and calls that follow on it one by one; returns the last one's future."""
    future = dist.all_reduce(torch.ones(count), async_op=True).get_future()
    for one in counts:
        future = future.then(lambda _, one=one: dist.all_reduce(torch.ones(one)))
    return future


def beside(backend, late):
    """A job whose callback runs beside an all_reduce, or in front of it."""

    def job():
        dist.init_process_group(backend)
        future = after(64, 4)
        if not late:
            future.wait()
        dist.all_reduce(torch.ones(8))
        if late:
            future.wait()
        dist.barrier()

    return job


def test_a_callback_beside_another_call_comes_in_any_order():
    """Gloo completes the first call in a thread of its own, and the callback's all_reduce comes
    before or behind the main thread's: their sizes then meet. Waited for before, it does not.
    NCCL runs the callback where it is added.
    """
    assert decide(beside("gloo", late=True)).unsafe
    assert decide(beside("gloo", late=False)).outcome is Outcome.SAFE
    assert decide(beside("nccl", late=True), "nccl").outcome is Outcome.SAFE


def test_a_callback_of_what_is_done_runs_where_it_is_added():
    """Whoever waited for the handle, or for its future, before: then there is one order."""

    def job(first):
        def run():
            dist.init_process_group("gloo")
            work = dist.all_reduce(torch.ones(64), async_op=True)
            future = work.get_future()
            (work if first == "work" else future).wait()
            after = future.then(lambda _: dist.all_reduce(torch.ones(4)))
            dist.all_reduce(torch.ones(8))
            after.wait()

        return run

    for first in ("work", "future"):
        assert decide(job(first)).outcome is Outcome.SAFE


RECORDED = """
import sys
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
future = dist.all_reduce(torch.ones(4), async_op=True).get_future()
if sys.argv[1:]:
    future.wait()
after = future.then(lambda _: dist.all_reduce(torch.ones(4)))
after.wait()
dist.barrier()
"""


@pytest.mark.parametrize("words", [(), ("complete",)])
def test_a_recorded_callback_is_not_safe_by_luck(tmp_path, words):
    """Whether gloo's thread ran it, or the one that added it: UNKNOWN. The latter says what to do;
    of the former the calls carry no labels, which is told first.
    """
    (tmp_path / "job.py").write_text(RECORDED)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [sys.executable, "-m", "planguard", "dryrun", "--witness", "-o", "run", "--"]
    done = subprocess.run(
        [*command, *launch, "job.py", *words],
        cwd=tmp_path, capture_output=True, text=True, timeout=110, check=False,
        env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 3, done.stdout + done.stderr
    assert "calls seen by both, and no other" in done.stdout  # also in threads of the backend
    if words:
        assert "communicates in a callback of a future" in " ".join(done.stdout.split())


def test_callbacks_of_one_chain_keep_their_order():
    """What follows on a callback's own future comes behind it."""

    def job():
        dist.init_process_group("gloo")
        after(64, 4, 9, 3).wait()
        dist.all_reduce(torch.ones(8))

    assert decide(job).outcome is Outcome.SAFE


def test_a_callback_that_is_only_added_is_not_waited_for():
    """``add_done_callback`` gives nothing to wait for: its call is open to the end."""

    def job():
        dist.init_process_group("gloo")
        future = dist.all_reduce(torch.ones(64), async_op=True).get_future()
        future.add_done_callback(lambda _: dist.all_reduce(torch.ones(4)))
        future.wait()
        dist.all_reduce(torch.ones(8))

    assert decide(job).unsafe


@pytest.mark.parametrize(("cap", "safe"), [(25, True), (0.02, False)])
def test_powersgd_of_several_buckets_is_not_safe_on_gloo(cap, safe):
    """Every bucket's two all_reduces follow on one that the reducer issued. With one bucket there
    is one order. With several the buckets' orders are open: the real job of two gloo ranks hangs
    or reduces other buckets' matrices.
    """

    def job():
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        net = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(3)))
        model = DistributedDataParallel(net, bucket_cap_mb=cap)
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=2, start_powerSGD_iter=2, min_compression_rate=0.5
        )
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        for _ in range(3):
            model(torch.ones(4, 64)).sum().backward()

    verdict = decide(job)
    assert verdict.outcome is (Outcome.SAFE if safe else Outcome.MISMATCH), verdict
