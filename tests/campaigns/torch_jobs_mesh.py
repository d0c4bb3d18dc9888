# ruff: noqa: ARG001 - every job is called with its rank and the world size
"""More jobs of four ranks: DTensor, tensor and context parallelism, checkpoints, pipelines."""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch_jobs import JOBS, Job, fsdp, job, mesh_2d, mlp, shared_folder, steps

# --- DTensor and tensor parallelism ---------------------------------------------------------------


def redistribute(size: int, *, two: bool) -> Job:
    """Make a job of every pair of placements, over one dimension of the mesh or two."""

    def run(rank: int, world: int) -> None:
        from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

        mesh = mesh_2d() if two else init_device_mesh("cpu", (world,))
        one = [Replicate(), Shard(0), Shard(1)]
        places = list(itertools.product(one, repeat=2)) if two else [(place,) for place in one]
        full = torch.arange(size * size, dtype=torch.float32).reshape(size, size)
        for source, target in itertools.product(places, places):
            moved = distribute_tensor(full, mesh, source).redistribute(mesh, target)
            assert torch.equal(moved.full_tensor(), full), (source, target)
        for target in places:
            part = DTensor.from_local(full, mesh, [Partial()] * len(target), run_check=False)
            assert torch.equal(part.redistribute(mesh, target).full_tensor(), full * world)

    return run


JOBS["dtensor: every redistribution"] = redistribute(8, two=False)
JOBS["dtensor: every redistribution, uneven"] = redistribute(6, two=False)
JOBS["dtensor: every redistribution, two dimensions"] = redistribute(8, two=True)
JOBS["dtensor: every redistribution, two dimensions, uneven"] = redistribute(5, two=True)


def parallel(name: str) -> Job:
    """Make a job of one plan of `parallelize_module`."""

    def run(rank: int, world: int) -> None:
        from torch.distributed.tensor import Replicate, Shard
        from torch.distributed.tensor import parallel as tp

        mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
        model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 8))
        plan: dict[str, Any] = {
            "colwise, rowwise": {"0": tp.ColwiseParallel(output_layouts=Replicate()),
                                 "2": tp.RowwiseParallel(input_layouts=Replicate())},
            "sequence": {"0": tp.ColwiseParallel(input_layouts=Shard(0), output_layouts=Shard(0)),
                         "1": tp.SequenceParallel(sequence_dim=0),
                         "2": tp.RowwiseParallel(input_layouts=Shard(0), output_layouts=Shard(0))},
            "prepared": {"": tp.PrepareModuleInputOutput(
                             input_layouts=(Shard(0),), desired_input_layouts=(Replicate(),),
                             output_layouts=(Replicate(),), desired_output_layouts=(Shard(0),),
                         ), "0": tp.ColwiseParallel(output_layouts=Replicate())},
        }[name]  # fmt: skip
        tp.parallelize_module(model, mesh, plan)
        for _ in range(2):
            model(torch.randn(4, 8, requires_grad=True)).sum().backward()

    return run


for _name in ("colwise, rowwise", "sequence", "prepared"):
    JOBS[f"tensor parallel: {_name}"] = parallel(_name)


@job("tensor parallel: loss_parallel")
def loss_parallel(rank: int, world: int) -> None:
    """A sharded cross entropy."""
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor import parallel as tp

    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
    model = nn.Sequential(nn.Linear(8, 16))
    style = tp.ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)
    tp.parallelize_module(model, mesh, {"0": style})
    with tp.loss_parallel():
        logits = model(torch.ones(4, 8))
        nn.functional.cross_entropy(logits, torch.zeros(4, dtype=torch.long)).backward()


@job("tensor parallel: embedding")
def embedding(rank: int, world: int) -> None:
    """A table that is sharded by rows."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor import parallel as tp

    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
    model = nn.Sequential(nn.Embedding(10, 8))
    tp.parallelize_module(model, mesh, {"0": tp.RowwiseParallel(input_layouts=Replicate())})
    model(torch.arange(4)).sum().backward()


@job("dtensor: matmul, sum, norm, softmax")
def operators(rank: int, world: int) -> None:
    """Operators that move data inside."""
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (world,))
    a = distribute_tensor(torch.arange(64.0).reshape(8, 8), mesh, [Shard(0)])
    b = distribute_tensor(torch.ones(8, 8), mesh, [Shard(1)])
    for value in (a @ b, a.sum(), a.norm(), a.max(), (a + 1).mean(0), a.t() @ b, a.softmax(0)):
        value.full_tensor()


def context(method: str) -> Job:
    """Make a job of ring attention."""

    def run(rank: int, world: int) -> None:
        from torch.distributed.tensor.experimental import _attention, context_parallel

        options = getattr(_attention, "_cp_options", None)
        if options is not None and hasattr(_attention, "_RotateMethod"):
            options.rotate_method = _attention._RotateMethod[method]
        mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("cp",))
        q, k, v = (torch.randn(1, 2, 16, 8, requires_grad=True) for _ in range(3))
        with context_parallel(mesh, buffers=(q.data, k.data, v.data), buffer_seq_dims=(2, 2, 2)):
            nn.functional.scaled_dot_product_attention(q, k, v).sum().backward()

    return run


JOBS["context parallel: all-to-all"] = context("ALL_TO_ALL")
JOBS["context parallel: all-gather"] = context("ALL_GATHER")

# --- checkpoints ----------------------------------------------------------------------------------


def checkpoint(kind: str) -> Job:
    """Make a job that saves and loads a sharded model."""

    def run(rank: int, world: int) -> None:
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint import state_dict as sd

        model = fsdp(**({"mesh": mesh_2d()} if kind == "hybrid" else {}))
        optimizer = torch.optim.AdamW(model.parameters())
        steps(model, 1, optimizer)
        if kind == "full":
            options = sd.StateDictOptions(full_state_dict=True, cpu_offload=True)
            full = sd.get_model_state_dict(model, options=options)
            options = sd.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
            sd.set_model_state_dict(model, full if rank == 0 else {}, options=options)
            return
        with shared_folder(rank) as folder:
            state = dict(zip(("model", "optimizer"), sd.get_state_dict(model, optimizer),
                             strict=True))  # fmt: skip
            if kind == "async":
                dcp.async_save(state, checkpoint_id=folder).result()
            else:
                dcp.save(state, checkpoint_id=folder)
            dcp.load(state, checkpoint_id=folder)

    return run


for _name in ("plain", "hybrid", "full", "async"):
    JOBS[f"checkpoint: {_name}"] = checkpoint(_name)

# --- pipelines with data parallelism --------------------------------------------------------------


def pipeline(class_name: str, data: str, *, count: int = 2) -> Job:
    """Make a job of two stages a rank where the class has them, two ranks each of pp and dp."""

    def run(rank: int, world: int) -> None:
        from torch.distributed import pipelining as pp
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.pipelining._utils import generate_stage_to_rank_mapping

        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp"))
        single = class_name in ("Schedule1F1B", "ScheduleGPipe")
        stages = 2 if single else 4
        style = "v" if class_name in ("ScheduleZBVZeroBubble", "ScheduleDualPipeV") else "loop"
        rank_of = generate_stage_to_rank_mapping(2, stages, style)
        me, own = mesh["pp"].get_local_rank(), []
        for index in range(stages):
            torch.manual_seed(index)
            part: Any = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
            if rank_of[index] != me:
                continue
            if data == "ddp":
                part = nn.parallel.DistributedDataParallel(
                    part, process_group=mesh["dp"].get_group()
                )
            elif data == "fsdp":
                part = fully_shard(part, mesh=mesh["dp"])
            device = torch.device("cpu")
            own.append(pp.PipelineStage(part, index, stages, device, group=mesh["pp"].get_group()))
        make = getattr(pp, class_name)
        schedule = make(own[0] if single else own, 4, loss_fn=lambda y, t: (y - t).square().mean())
        torch.manual_seed(10 + mesh["dp"].get_local_rank())
        x, target = torch.randn(8, 8), torch.randn(8, 8)
        first, last = rank_of[0] == me, rank_of[stages - 1] == me
        for _ in range(count):
            schedule.step(*([x] if first else []), **({"target": target} if last else {}))
        if data == "ddp":
            agree(own, mesh["dp"].get_group())

    return run


def agree(stages: list[Any], group: Any) -> None:
    """Raise where data-parallel ranks hold different gradients, which DDP is there to prevent.

    The gradients are compared on a group that the recorder does not see as the job's own.
    """
    found = [parameter.grad for stage in stages for parameter in stage.submod.parameters()]
    mine = torch.cat([one.flatten() if one is not None else torch.zeros(1) for one in found])
    other = [torch.empty_like(mine) for _ in range(2)]
    dist.all_gather(other, mine, group=group)
    if not torch.allclose(*other):
        names = [stage.stage_index for stage in stages]
        print(f"stages {names}: gradients differ between data-parallel ranks", flush=True)


for _name, _data in itertools.product(
    ("GPipe", "1F1B", "LoopedBFS", "Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble",
     "DualPipeV"),
    ("ddp", "fsdp"),
):  # fmt: skip
    JOBS[f"pipeline x {_data}: {_name}"] = pipeline(f"Schedule{_name}", _data)


@job("functional: every collective, two groups")
def functional(rank: int, world: int) -> None:
    """Functional collectives that overlap on two groups."""
    from torch.distributed import _functional_collectives as fc

    mesh = mesh_2d()
    for group in (dist.group.WORLD, mesh["shard"], mesh["replicate"]):
        x = torch.ones(8, 8)
        size = world if group is dist.group.WORLD else 2
        y = fc.all_reduce(x, "sum", group)
        z = fc.all_gather_tensor(y, 0, group)
        w = fc.reduce_scatter_tensor(z, "sum", 0, group)
        fc.wait_tensor(fc.all_to_all_single(w, None, None, group))
        many = fc.all_reduce_coalesced([x, x * 2], "sum", group)
        fc.all_gather_into_tensor_coalesced(many, group)
        fc.reduce_scatter_tensor_coalesced([x, x], "sum", [0, 0], group)
        assert z.shape[0] == 8 * size


__all__ = ["JOBS", "mlp"]
