# ruff: noqa: ARG001, ARG005 - every form is called with the rank and the world size
"""Every call form of torch.distributed's public API, on two gloo ranks; prints what each returns.

    python api_worker.py FOLDER [recorded]

With ``recorded`` the recorder sits between. A form that raises is written down as its exception.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import warnings
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed import _functional_collectives as fc
from torch.distributed.nn import functional as nnf

warnings.simplefilter("ignore")
WORLD = 2


def ones(*shape):
    """Ones times the rank and one: ranks can be told apart."""
    return torch.ones(*shape) * (dist.get_rank() + 1)


def empties():
    """A tensor for every rank."""
    return [torch.zeros(4) for _ in range(WORLD)]


def at(rank, value):
    """A value on one rank, None elsewhere."""
    return value if dist.get_rank() == rank else None


def filled(call):
    """Run a call with an output of four elements a rank, and return that."""

    def form(rank, world):
        out = torch.zeros(4 * WORLD)
        call(out)
        return out

    return form


def parts(call):
    """Run a call with a list of outputs, and return that."""

    def form(rank, world):
        out = empties()
        call(out)
        return out

    return form


def waited(call):
    """Run a call that gives a handle; use the handle in all ways, and return the tensor."""

    def form(rank, world):
        x = ones(4)
        work = call(x)
        said = [type(work) is not None, work.wait(), work.is_completed(), work.is_success()]
        return [x, said, work.exception() is None]

    return form


def changed(call):
    """Run a call that changes its tensor, and return that."""

    def form(rank, world):
        x = ones(4)
        call(x)
        return x

    return form


def exchange(rank, world):
    """Blocking messages, tags, a receive from anyone and its source."""
    x = ones(4)
    if rank == 0:
        dist.send(x, 1, tag=3)
        dist.send(x * 2, 1)
        return [x]
    first, second = torch.zeros(4), torch.zeros(4)
    dist.recv(first, 0, tag=3)
    return [first, dist.recv(second), second]


def handles(rank, world):
    """Handles of messages, with the group's numbering of ranks."""
    out = torch.zeros(4)
    works = [dist.isend(ones(4), 1 - rank), dist.irecv(out, group_src=1 - rank)]
    return [[work.wait() for work in works], out]


def launch(rank, world):
    """A batch of messages."""
    out = torch.zeros(4)
    ops = [dist.P2POp(dist.isend, ones(4), 1 - rank), dist.P2POp(dist.irecv, out, 1 - rank)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    return out


def objects(rank, world):
    """Objects to all, from one, to one, between two."""
    gathered, gathered_at, scattered = [None] * WORLD, at(0, [None] * WORLD), [None]
    dist.all_gather_object(gathered, {"rank": rank})
    dist.gather_object(("x", rank), gathered_at)
    dist.scatter_object_list(scattered, at(1, ["a", "b"]), src=1)
    told = [rank, "word"]
    dist.broadcast_object_list(told, 1)
    passed = [f"from {rank}"]
    if rank == 0:
        dist.send_object_list(passed, 1)
    else:
        dist.recv_object_list(passed, 0)
    return [gathered, gathered_at, scattered, told, passed]


def coalesced(rank, world):
    """The coalescing manager, on tensors that are reduced."""
    x, y = ones(4), ones(2)
    with dist.distributed_c10d._coalescing_manager():
        dist.all_reduce(x)
        dist.all_reduce(y)
    return [x, y]


def gathered_together(rank, world):
    """all_gather_coalesced: a list for every rank."""
    out = [[torch.zeros(4), torch.zeros(2)] for _ in range(WORLD)]
    dist.all_gather_coalesced(out, [ones(4), ones(2)])
    return out


def gathered_later(rank, world):
    """The same, by its handle."""
    out = [[torch.zeros(4), torch.zeros(2)] for _ in range(WORLD)]
    dist.all_gather_coalesced(out, [ones(4), ones(2)], async_op=True).wait()
    return out


def groups(rank, world):
    """Groups of every making, and what is asked of them."""
    pair = dist.new_group([0, 1], group_desc="a pair")
    alone = dist.new_group([0])
    local, all_ = dist.new_subgroups(1)
    by, _ = dist.new_subgroups_by_enumeration([[0], [1]])
    x = ones(4)
    dist.all_reduce(x, group=pair)
    asked = [
        dist.get_rank(pair), dist.get_world_size(pair), dist.get_process_group_ranks(pair),
        dist.get_backend(pair), dist.get_backend(), dist.get_rank(alone), len(all_),
        dist.get_group_rank(pair, 1), dist.get_global_rank(pair, 0), pair.size(), pair.rank(),
        dist.get_world_size(local), dist.get_world_size(by), pair.group_desc,
        str(dist.get_backend_config(pair)), dist.distributed_c10d.get_pg_count(),
        pair.name() if hasattr(pair, "name") else "",
    ]  # fmt: skip
    dist.destroy_process_group(pair)
    return [x, asked]


def split(rank, world):
    """A group that is split."""
    part = dist.split_group(split_ranks=[[0], [1]])
    return dist.get_world_size(part)


def functional(call):
    """A functional collective: its result, waited for."""

    def form(rank, world):
        found = call(ones(4))
        many = found if isinstance(found, list | tuple) else [found]
        return [fc.wait_tensor(one) if isinstance(one, torch.Tensor) else one for one in many]

    return form


def differentiable(call):
    """A collective of torch.distributed.nn, with its backward pass."""

    def form(rank, world):
        x = ones(4).requires_grad_()
        found = call(x)
        many = found if isinstance(found, list | tuple) else [found]
        sum(one.sum() for one in many).backward()
        return [[one.detach() for one in many], x.grad]

    return form


MAX = dist.ReduceOp.MAX
FORMS = {
    "all_gather": parts(lambda out: dist.all_gather(out, ones(4))),
    "all_gather_coalesced": gathered_together,
    "all_gather_coalesced async": gathered_later,
    "all_gather_object gather_object scatter_object_list broadcast_object_list send_object_list "
    "recv_object_list": objects,
    "all_reduce": changed(dist.all_reduce),
    "all_reduce max": changed(lambda x: dist.all_reduce(x, op=MAX)),
    "all_reduce async": waited(lambda x: dist.all_reduce(x, async_op=True)),
    "all_reduce future": changed(
        lambda x: dist.all_reduce(x, async_op=True).get_future().wait() and None
    ),
    "all_reduce_coalesced": changed(lambda x: dist.all_reduce_coalesced([x])),
    "all_reduce_coalesced two": changed(lambda x: dist.all_reduce_coalesced([x, ones(2)])),
    "all_to_all": parts(lambda out: dist.all_to_all(out, [ones(4), ones(4)])),
    "all_to_all_single": filled(lambda out: dist.all_to_all_single(out, ones(8))),
    "all_to_all_single splits": filled(
        lambda out: dist.all_to_all_single(out, ones(8), [4, 4], [4, 4])
    ),
    "barrier": lambda rank, world: dist.barrier(),
    "barrier async": lambda rank, world: dist.barrier(async_op=True).wait(),
    "batch_isend_irecv": launch,
    "broadcast": changed(lambda x: dist.broadcast(x, 1)),
    "broadcast group_src": changed(lambda x: dist.broadcast(x, group_src=0)),
    "gather": lambda rank, world: (o := at(0, empties()), dist.gather(ones(4), o))[0],
    "isend irecv": handles,
    "send recv": exchange,
    "monitored_barrier": lambda rank, world: dist.monitored_barrier(
        timeout=timedelta(seconds=30), wait_all_ranks=True
    ),
    "new_group new_subgroups new_subgroups_by_enumeration get_rank get_world_size get_backend "
    "get_backend_config get_process_group_ranks get_group_rank get_global_rank get_pg_count "
    "destroy_process_group": groups,
    "reduce": changed(lambda x: dist.reduce(x, 1) or (x.zero_() if dist.get_rank() == 0 else x)),
    "reduce_scatter": changed(lambda x: dist.reduce_scatter(x, [ones(4), ones(4) * 2])),
    "all_gather_single": filled(
        lambda out: getattr(dist, "all_gather_single", dist.all_gather_into_tensor)(out, ones(4))
    ),
    "all_gather_into_tensor": filled(lambda out: dist.all_gather_into_tensor(out, ones(4))),
    "reduce_scatter_single": changed(
        lambda x: getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)(x, ones(8))
    ),
    "reduce_scatter_tensor": changed(lambda x: dist.reduce_scatter_tensor(x, ones(8))),
    "scatter": changed(lambda x: dist.scatter(x, at(1, [ones(4), ones(4) * 3]), src=1)),
    "split_group": split,
    "coalescing": coalesced,
    "functional all_reduce": functional(lambda x: fc.all_reduce(x, "sum", dist.group.WORLD)),
    "functional broadcast": functional(lambda x: fc.broadcast(x, 1, dist.group.WORLD)),
    "functional all_gather": functional(lambda x: fc.all_gather_tensor(x, 0, dist.group.WORLD)),
    "functional reduce_scatter": functional(
        lambda x: fc.reduce_scatter_tensor(x, "sum", 0, dist.group.WORLD)
    ),
    "functional all_reduce_coalesced": functional(
        lambda x: fc.all_reduce_coalesced([x, x * 2], "sum", dist.group.WORLD)
    ),
    "functional all_gather_coalesced": functional(
        lambda x: fc.all_gather_into_tensor_coalesced([x, x * 2], dist.group.WORLD)
    ),
    "functional reduce_scatter_coalesced": functional(
        lambda x: fc.reduce_scatter_tensor_coalesced([x, x], "sum", [0, 0], dist.group.WORLD)
    ),
    "functional all_to_all_single": functional(
        lambda x: fc.all_to_all_single(x, None, None, dist.group.WORLD)
    ),
    "functional permute": functional(lambda x: fc.permute_tensor(x, [1, 0], dist.group.WORLD)),
    "nn all_reduce": differentiable(nnf.all_reduce),
    "nn all_gather": differentiable(nnf.all_gather),
    "nn broadcast": differentiable(lambda x: nnf.broadcast(x, 1)),
    "nn all_to_all": differentiable(lambda x: nnf.all_to_all(empties(), [x, x * 2])),
    "nn reduce_scatter": differentiable(lambda x: nnf.reduce_scatter(torch.zeros(4), [x, x * 2])),
}
"""Every form; the first words of a name are the functions that it asks."""


def plain(value):
    """A result as JSON holds it."""
    if isinstance(value, torch.Tensor):
        return value.detach().tolist()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value if isinstance(value, int | float | str | bool | dict | None) else str(type(value))


def run(rank, folder, is_recorded, port):
    """Run every form on one rank."""
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=port)
    if is_recorded:
        from planguard.capture import start

        start(folder / "logs")
    dist.init_process_group("gloo", rank=rank, world_size=WORLD, timeout=timedelta(seconds=30))
    found = {}
    for name, form in FORMS.items():
        torch.manual_seed(0)
        try:
            found[name] = plain(form(rank, WORLD))
        except Exception as error:  # noqa: BLE001 - what it raises is its answer
            found[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:150]}"
    with contextlib.suppress(Exception):
        dist.destroy_process_group()
    Path(folder, f"{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    where = Path(sys.argv[1])
    where.mkdir(parents=True, exist_ok=True)
    mp.start_processes(
        run, (where, "recorded" in sys.argv, sys.argv[2]), nprocs=WORLD, start_method="fork"
    )
