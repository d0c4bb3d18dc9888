# ruff: noqa: ARG001 - every job is called with its rank and the world size
"""Jobs for the recorder on real gloo processes; ``record_jobs`` starts them.

    python recorder_worker.py FOLDER WORLD JOB...

Every rank is a fork of one process that has imported torch. It records itself into FOLDER/JOB, with
torch's dispatcher as the second witness.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

TIMEOUT = 60
LIMIT = 500
"""Seconds that all jobs of one call may take together, where other work keeps the machine busy."""
HERE = Path(__file__).parent


def record_jobs(folder: Path, jobs: list[str], *, world: int = 2) -> None:
    """Run jobs on real processes; their logs are in a folder of each job's name."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parents[1])]),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, str(Path(__file__)), str(folder), str(world), *jobs]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]


def plain(rank, world):
    """Calls of torch.distributed, blocking and not, on two groups."""
    pair = dist.new_group([0, 1])
    x = torch.ones(4)
    dist.all_reduce(x)
    first = dist.all_reduce(x, async_op=True)
    second = dist.all_reduce(x * 2, op=dist.ReduceOp.MAX, group=pair, async_op=True)
    second.wait()
    first.wait()
    if rank == 0:
        dist.send(x, 1, tag=3)
    elif rank == 1:
        dist.recv(x, 0, tag=3)
    dist.barrier()
    dist.broadcast(x, 1)
    dist.all_gather_into_tensor(torch.empty(4 * world), x)
    dist.reduce_scatter_tensor(torch.empty(4), torch.ones(4 * world))
    dist.all_to_all_single(torch.empty(4), torch.ones(4))
    halves = np.full(world, 4 // world)  # Megatron-core's dispatcher of tokens gives arrays
    dist.all_to_all_single(torch.empty(4), torch.ones(4), halves, halves)
    dist.all_gather([torch.empty(4) for _ in range(world)], x)
    dist.reduce(x, 0)
    dist.gather(x, [torch.empty(4) for _ in range(world)] if rank == 0 else None)
    dist.scatter(x, [torch.ones(4) for _ in range(world)] if rank == 1 else None, src=1)


def ddp(rank, world):
    """Two steps of DistributedDataParallel; its reducer is C++."""
    from ddp_worker import make

    model = nn.parallel.DistributedDataParallel(make("linears"), bucket_cap_mb=0.005)
    for _ in range(3):
        model(torch.randn(4, 32)).sum().backward()


def fsdp2(rank, world):
    """One step of fully_shard."""
    from fsdp_worker import make, shard

    model = make("model")
    shard(model, {"units": ["blocks.*"]}, world)
    model(torch.randn(4, 30)).sum().backward()


def tensor_parallel(rank, world):
    """One step of a DTensor module."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import parallel as tp

    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
    model = mlp()
    plan = {"0": tp.ColwiseParallel(), "1": tp.RowwiseParallel()}
    tp.parallelize_module(model, mesh["tp"], plan)
    model(torch.ones(2, 8, requires_grad=True)).sum().backward()


def mlp():
    """Two linear layers, with equal weights on every rank."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 8))


def functional(rank, world):
    """Functional collectives, eager and waited for."""
    from torch.distributed import _functional_collectives as fc

    x = torch.ones(4)
    y = fc.all_reduce(x, "sum", dist.group.WORLD)
    z = fc.all_gather_tensor(y * 2, 0, dist.group.WORLD)
    w = fc.reduce_scatter_tensor(z + 1, "sum", 0, dist.group.WORLD)
    fc.wait_tensor(fc.all_to_all_single(w, None, None, dist.group.WORLD))


def batch(rank, world):
    """Both directions of a ring in one batch."""
    x = torch.ones(4) * rank
    ops = [
        dist.P2POp(dist.isend, x, (rank + 1) % world),
        dist.P2POp(dist.irecv, torch.ones(4), (rank - 1) % world),
    ]
    for work in dist.batch_isend_irecv(ops):
        work.wait()


def pipeline(rank, world):
    """One step of 1F1B with four microbatches."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    torch.manual_seed(0)
    layers = [nn.Linear(16, 16) for _ in range(world)]
    stage = PipelineStage(layers[rank], rank, world, torch.device("cpu"))
    schedule = Schedule1F1B(stage, 4, loss_fn=nn.functional.mse_loss)
    if rank == 0:
        schedule.step(torch.randn(8, 16))
    elif rank == world - 1:
        schedule.step(target=torch.randn(8, 16))
    else:
        schedule.step()


def interleaved(rank, world):
    """One step of interleaved 1F1B with two stages on every rank."""
    _runtime_step("ScheduleInterleaved1F1B", "loop", rank, world)


def zbv(rank, world):
    """One step of the zero-bubble schedule in the form of a V."""
    _runtime_step("ScheduleZBVZeroBubble", "v", rank, world)


def _runtime_step(name, style, rank, world):
    from torch.distributed.pipelining import PipelineStage, schedules
    from torch.distributed.pipelining._utils import generate_stage_to_rank_mapping

    torch.manual_seed(0)
    count = 2 * world
    rank_of = generate_stage_to_rank_mapping(world, count, style)
    layers = [nn.Linear(16, 16) for _ in range(count)]
    mine = [stage for stage in range(count) if rank_of[stage] == rank]
    stages = [PipelineStage(layers[s], s, count, torch.device("cpu")) for s in mine]
    schedule = getattr(schedules, name)(stages, 4, loss_fn=nn.functional.mse_loss)
    inputs = (torch.randn(8, 16),) if 0 in mine else ()
    last = {"target": torch.randn(8, 16), "losses": []} if count - 1 in mine else {}
    schedule.step(*inputs, **last)


def objects(rank, world):
    """Object collectives, which exchange sizes first."""
    found = [None] * world
    dist.all_gather_object(found, {"rank": rank, "text": "x" * rank})
    assert [one["rank"] for one in found] == list(range(world))
    told = [{"seed": 7}] if rank == 0 else [None]
    dist.broadcast_object_list(told, src=0)
    assert told == [{"seed": 7}]


def zero1(rank, world):
    """Two steps of the ZeRO-1 optimizer."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = mlp()
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    for _ in range(2):
        model(torch.ones(1, 8)).sum().backward()
        optimizer.step()


def compiled(rank, world):
    """A compiled function with collectives in its graph."""

    def step(x):
        dist.all_reduce(x)
        y = torch.empty(4 * world)
        dist.all_gather_into_tensor(y, x * 2)
        return y.sum()

    torch.compile(step, backend="aot_eager", fullgraph=True)(torch.ones(4))


def crossed(rank, world):
    """Both ranks send before they receive, without waiting: ends, whatever buffers there are."""
    x = torch.ones(4)
    work = dist.isend(x, 1 - rank)
    dist.recv(torch.empty(4), 1 - rank)
    work.wait()


def opposite(rank, world):
    """Two groups in opposite order, overlapped: ends on gloo, hangs where launches are serial."""
    other = dist.new_group([0, 1])
    groups = [dist.group.WORLD, other]
    first, second = groups if rank == 0 else groups[::-1]
    works = [dist.all_reduce(torch.ones(4), group=g, async_op=True) for g in (first, second)]
    for work in works:
        work.wait()


def members_alone(rank, world):
    """Every pair makes its group alone, under a name made of its members."""
    pair = [rank - rank % 2, rank - rank % 2 + 1]
    own = dist.new_group(pair, use_local_synchronization=True)
    everybody = dist.new_group()
    for group in (own, everybody):
        dist.all_reduce(torch.ones(4), group=group)
    other = [one for one in range(world) if one not in pair]
    outside = dist.new_group(other, use_local_synchronization=True)
    assert outside in (None, dist.GroupMember.NON_GROUP_MEMBER)  # None up to torch 2.13


def towers(bias):
    """Two towers that share nothing but their input, and a layer on top."""

    class Towers(nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = nn.Linear(4, 3, bias=bias), nn.Linear(4, 5, bias=bias)
            self.top = nn.Linear(8, 2, bias=bias)

        def forward(self, x):
            return self.top(torch.cat([self.left(x), self.right(x)], 1))

    return Towers()


def send_gradients(model, group_of, *, asynchronous, fill=False):
    """One backward pass in which a hook on every gradient sends it: uncoordinated data parallel."""
    works = []

    def send(name, parameter):
        gradient = torch.ones(64) if fill else parameter.grad
        group = group_of.get(name.split(".")[0])
        works.append(dist.all_reduce(gradient, group=group, async_op=asynchronous))

    for name, parameter in model.named_parameters():
        parameter.register_post_accumulate_grad_hook(functools.partial(send, name))
    model(torch.ones(2, 4)).sum().backward()
    for work in works if asynchronous else []:
        work.wait()


def ready(rank, world):
    """Gradients in the order of readiness, all on one group, overlapped."""
    send_gradients(towers(bias=True), {}, asynchronous=True)


def ready_chain(rank, world):
    """Layers in a row with one gradient each: the data flow leaves one order."""
    layers = [nn.Linear(4, 4, bias=False), nn.ReLU(), nn.Linear(4, 4, bias=False)]
    send_gradients(nn.Sequential(*layers), {}, asynchronous=True)


def ready_blocking(rank, world):
    """A group for every tower; every hook waits."""
    groups = {"left": dist.new_group([0, 1]), "right": dist.new_group([0, 1])}
    send_gradients(towers(bias=False), groups, asynchronous=False)


def ready_overlapped(rank, world):
    """A group for every tower; nobody waits before the end of the pass."""
    groups = {"left": dist.new_group([0, 1]), "right": dist.new_group([0, 1])}
    send_gradients(towers(bias=False), groups, asynchronous=True)


def sent(value):
    """Apply an operator that sends its gradient in its backward, which is no hook."""

    class Sent(torch.autograd.Function):
        @staticmethod
        def forward(_, x):
            return x.clone()

        @staticmethod
        def backward(_, gradient):
            dist.all_reduce(gradient)
            return gradient

    return Sent.apply(value)


def ready_apart(rank, world):
    """``ready_blocking``, and the left tower sends something of its own in its backward."""
    groups = {"left": dist.new_group([0, 1]), "right": dist.new_group([0, 1])}
    model = towers(bias=False)
    model.left.register_forward_hook(lambda _module, _inputs, output: sent(output))
    send_gradients(model, groups, asynchronous=False)


def ready_twice(rank, world):
    """Two hooks, a call of an operator's backward, and two more hooks, in one pass."""
    first, last = nn.Linear(4, 4), nn.Linear(4, 4)
    first.register_forward_hook(lambda _module, _inputs, output: sent(output))
    send_gradients(nn.Sequential(first, last), {}, asynchronous=True)


def ready_sends(rank, world):
    """Hooks of one pass that exchange something in a launch, and a launch of none of them."""
    peer = 1 - rank

    def swap(_parameter=None):
        ops = [
            dist.P2POp(dist.isend, torch.ones(4), peer),
            dist.P2POp(dist.irecv, torch.ones(4), peer),
        ]
        for work in dist.batch_isend_irecv(ops):
            work.wait()

    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(swap)
    model(torch.ones(2, 4)).sum().backward()
    swap()


def ready_buffers(rank, world):
    """Hooks that send something else than their gradient."""
    send_gradients(towers(bias=True), {}, asynchronous=True, fill=True)


def decides(rank, world):
    """A value that is printed, one that is stored and compared, and the truth of a tensor."""
    x = torch.full((1,), 2.0)
    print("loss", x.item(), file=sys.stderr)
    total = x.item()
    if total > 1 and (x > 0).all():
        dist.all_reduce(x)


def agrees(rank, world):
    """Values that all ranks share, as they are and computed further; one changed afterwards."""
    x, flags, kept = torch.ones(1), torch.zeros(world), torch.ones(1)
    dist.all_reduce(x)
    dist.all_gather_into_tensor(flags, torch.full((1,), float(rank)))
    if (x / world).mean().item() > 0.5 and (flags < world).all():
        dist.broadcast(kept, 0)
    if kept:
        dist.barrier()
    pair = torch.ones(1)
    dist.all_reduce(pair, group=dist.new_group([rank]))
    if pair.item() > 0:  # agreed with nobody
        dist.barrier()
    x += rank
    if x > 0:  # no longer shared
        dist.barrier()


def threads_between(rank, world):
    """A checkpoint thread with a group of its own beside the steps; a task of a pool after it."""
    group = dist.new_group()
    dist.all_reduce(torch.ones(4))

    def save():
        dist.barrier(group)
        dist.all_reduce(torch.ones(2), group=group)

    thread = threading.Thread(target=save)
    thread.start()
    dist.all_reduce(torch.ones(4))
    thread.join()
    thread.join()
    dist.all_reduce(torch.ones(3), group=group)
    with ThreadPoolExecutor(1) as pool:
        task = pool.submit(save)
        dist.all_reduce(torch.ones(4))
        task.result()
        dist.barrier(group)


def threads(rank, world):
    """Two threads, each on a group of its own."""
    groups = [dist.new_group([0, 1]), dist.new_group([0, 1])]

    def work(group):
        for _ in range(2):
            dist.all_reduce(torch.ones(4), group=group)

    both = [threading.Thread(target=work, args=(group,)) for group in groups]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()


def threads_shared(rank, world):
    """Two threads that take turns on one group: which comes first is nobody's choice."""
    turn = threading.Event()

    def work(count, first):
        if not first:
            turn.wait()
        dist.all_reduce(torch.ones(count))
        turn.set()

    both = [threading.Thread(target=work, args=(n + 1, n == 0)) for n in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()


def killed(rank, world):
    """Rank 1 is killed somewhere among its calls."""
    x = torch.ones(4)
    if rank == 1:
        after = random.random() / 5
        threading.Timer(after, os.kill, (os.getpid(), signal.SIGKILL)).start()
    while True:
        dist.all_reduce(x)


def hangs(rank, world):
    """Rank 1 leaves an all_reduce out and stands in a barrier; both are killed there."""
    threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGKILL)).start()
    for _ in range(2 + (rank == 0)):
        dist.all_reduce(torch.ones(4))
    dist.barrier()


def skips(rank, world):
    """Rank 1 raises between two calls that rank 0 makes."""
    dist.all_reduce(torch.ones(4))
    if rank == 1:
        raise ValueError("bad shard")
    dist.all_reduce(torch.ones(4))


FAIL = ("killed", "hangs", "skips")
"""Jobs that end badly."""


def be_rank(job: str, rank: int, world: int, folder: Path) -> None:
    """Run one rank in a forked process; never returns."""
    from planguard.capture import start, stop

    code = 1
    try:
        warnings.simplefilter("ignore")
        add = dist.Store.add  # as it is before the recording: that ranks stay is not of the job
        start(folder, witness=job not in ("killed", "hangs"))
        store = dist.FileStore(str(folder.with_suffix(".store")), world)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
        globals()[job](rank, world)
        add(store, "done", 1)
        while add(store, "done", 0) < world:  # stay until all are through, as a rank of a job does
            time.sleep(0.005)
        dist.destroy_process_group()
        stop()
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it is, it ends the rank
        traceback.print_exc()
    finally:
        os._exit(code)


def main() -> int:
    """Run every job and say how many ranks failed."""
    folder, world, jobs = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    failed = 0
    for job in jobs:
        (folder / job).mkdir(parents=True)
        pids = []
        for rank in range(world):
            pids.append(os.fork())
            if not pids[-1]:
                be_rank(job, rank, world, folder / job)
        left, deadline = set(pids), time.monotonic() + TIMEOUT
        while left and time.monotonic() < deadline:
            for pid in list(left):
                found, status = os.waitpid(pid, os.WNOHANG)
                if found:
                    left.discard(pid)
                    failed += status != 0 and job not in FAIL
            time.sleep(0.005)
        for pid in left:
            failed += 1
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        if failed:
            print(f"{job} failed", file=sys.stderr)
            break
    return failed


if __name__ == "__main__":
    import torch
    import torch._dynamo
    import torch.distributed as dist
    import torch.distributed.fsdp
    import torch.distributed.optim
    import torch.distributed.pipelining
    import torch.distributed.tensor.parallel
    from torch import nn

    torch.set_num_threads(1)  # a forked rank must not enter the parent's pool of threads
    sys.exit(main())
