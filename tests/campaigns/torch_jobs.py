# ruff: noqa: ARG001 - every job is called with its rank and the world size
"""Jobs of four ranks that use what torch ships for distributed training; torch_sweep.py runs them.

A job is a function of rank and world size. The models are as small as they can be: what counts is
which calls an option makes, and in which order.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

if TYPE_CHECKING:
    from collections.abc import Callable

Job = Any
JOBS: dict[str, Job] = {}


def job(name: str) -> Callable[[Job], Job]:
    """Register a job under a name, family first."""

    def add(function: Job) -> Job:
        JOBS[name] = function
        return function

    return add


def mlp(width: int = 8, depth: int = 3) -> nn.Module:
    """Equal layers with equal weights on every rank."""
    torch.manual_seed(0)
    layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*layers)


class TwoBranches(nn.Module):
    """A model of two branches, of which one is used."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, *, both: bool = False) -> torch.Tensor:
        """Use the second branch if told."""
        y = self.used(x)
        return self.head(y + self.unused(x) if both else y)  # type: ignore[no-any-return]


def steps(model: Any, count: int = 3, optimizer: Any = None) -> None:
    """Train on random data."""
    for _ in range(count):
        model(torch.randn(4, 8)).sum().backward()
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad()


# --- DistributedDataParallel ----------------------------------------------------------------------


def ddp(model: nn.Module | None = None, **options: Any) -> Any:
    """Wrap a model, with buckets smaller than it."""
    return nn.parallel.DistributedDataParallel(
        model or mlp(), **({"bucket_cap_mb": 0.0005} | options)
    )


def ddp_job(options: dict[str, Any]) -> Job:
    """Make a job of plain training with these options."""

    def run(rank: int, world: int) -> None:
        steps(ddp(**options))

    return run


for _name, _options in {
    "default": {}, "static_graph": {"static_graph": True},
    "gradient_as_bucket_view": {"gradient_as_bucket_view": True},
    "no init_sync": {"init_sync": False}, "no broadcast_buffers": {"broadcast_buffers": False},
    "skip_all_reduce_unused_params": {"skip_all_reduce_unused_params": True,
                                      "find_unused_parameters": True},
}.items():  # fmt: skip
    JOBS[f"ddp: {_name}"] = ddp_job(_options)


@job("ddp: find_unused_parameters, ranks differ")
def ddp_unused(rank: int, world: int) -> None:
    """Odd ranks use both branches."""
    model = ddp(TwoBranches(), find_unused_parameters=True)
    for _ in range(3):
        model(torch.randn(4, 8), both=rank % 2 == 1).sum().backward()


@job("ddp: no_sync")
def ddp_no_sync(rank: int, world: int) -> None:
    """Two of three backward passes accumulate."""
    model = ddp()
    with model.no_sync():
        steps(model, 2)
    steps(model, 1)


def hooked(name: str) -> Job:
    """Make a job of a communication hook of torch's own."""

    def run(rank: int, world: int) -> None:
        from torch.distributed.algorithms.ddp_comm_hooks import (
            debugging_hooks,
            default_hooks,
            post_localSGD_hook,
            powerSGD_hook,
            quantization_hooks,
        )

        state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=3)
        local = post_localSGD_hook.PostLocalSGDState(None, None, start_localSGD_iter=2)
        state, hook = {
            "allreduce": (None, default_hooks.allreduce_hook),
            "fp16_compress": (None, default_hooks.fp16_compress_hook),
            "bf16_compress": (None, default_hooks.bf16_compress_hook),
            "fp16 over powerSGD": (state, default_hooks.fp16_compress_wrapper(
                powerSGD_hook.powerSGD_hook)),
            "powerSGD": (state, powerSGD_hook.powerSGD_hook),
            "batched_powerSGD": (state, powerSGD_hook.batched_powerSGD_hook),
            "post_localSGD": (local, post_localSGD_hook.post_localSGD_hook),
            "quantization": (None, quantization_hooks.quantization_pertensor_hook),
            "noop": (None, debugging_hooks.noop_hook),
        }[name]  # fmt: skip
        model = ddp()
        model.register_comm_hook(state, hook)
        steps(model, 5)

    return run


for _name in ("allreduce", "fp16_compress", "bf16_compress", "powerSGD", "batched_powerSGD",
              "fp16 over powerSGD", "post_localSGD", "noop"):  # fmt: skip
    JOBS[f"ddp hook: {_name}"] = hooked(_name)


@job("ddp: Join, uneven inputs")
def ddp_join(rank: int, world: int) -> None:
    """Rank r has r + 1 inputs."""
    model = ddp()
    with model.join():
        steps(model, rank + 1)


@job("ddp: Join, unused parameters, uneven inputs")
def ddp_join_unused(rank: int, world: int) -> None:
    """Rank r has r + 1 inputs, and the model has a branch that nobody uses."""
    model = ddp(TwoBranches(), find_unused_parameters=True)
    with model.join():
        steps(model, rank + 1)


@job("ddp: Join with ZeRO-1, uneven inputs")
def zero_join(rank: int, world: int) -> None:
    """Both are joined by one context."""
    from torch.distributed.algorithms.join import Join
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = ddp()
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    with Join([model, optimizer]):
        steps(model, rank + 1, optimizer)


def zero_overlap(name: str) -> Job:
    """Make a job of ZeRO-1 whose steps run in a hook of DDP."""

    def run(rank: int, world: int) -> None:
        from torch.distributed.algorithms.ddp_comm_hooks import ddp_zero_hook, default_hooks
        from torch.distributed.optim import ZeroRedundancyOptimizer

        model = ddp()
        optimizer = ZeroRedundancyOptimizer(
            model.parameters(), torch.optim.SGD, overlap_with_ddp=True, lr=0.1
        )
        make = getattr(ddp_zero_hook, name)
        model.register_comm_hook(None, make(default_hooks.allreduce_hook, model, optimizer))
        steps(model, 5)

    return run


JOBS["ddp: ZeRO-1 in a hook"] = zero_overlap("hook_with_zero_step")
JOBS["ddp: ZeRO-1 in a hook, interleaved"] = zero_overlap("hook_with_zero_step_interleaved")


@job("ddp: optimizer in backward")
def ddp_optimizer_in_backward(rank: int, world: int) -> None:
    """The optimizer runs as gradients arrive."""
    from torch.distributed.optim import _apply_optimizer_in_backward

    model = mlp()
    _apply_optimizer_in_backward(torch.optim.SGD, model.parameters(), {"lr": 0.1})
    steps(ddp(model))


# --- model averaging ------------------------------------------------------------------------------


@job("averaging: post-local SGD, periodic")
def periodic(rank: int, world: int) -> None:
    """Gradients at first, then models every second step."""
    from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as local
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from torch.distributed.optim import PostLocalSGDOptimizer

    groups = [dist.new_group([n, n + 1]) for n in range(0, world, 2)]
    model = ddp()
    state = local.PostLocalSGDState(None, groups[rank // 2], start_localSGD_iter=2)
    model.register_comm_hook(state, local.post_localSGD_hook)
    averager = PeriodicModelAverager(period=2, warmup_steps=2)
    steps(model, 6, PostLocalSGDOptimizer(torch.optim.SGD(model.parameters(), 0.1), averager))


@job("averaging: hierarchical")
def hierarchical(rank: int, world: int) -> None:
    """Pairs every second step, all ranks every fourth."""
    from collections import OrderedDict

    from torch.distributed.algorithms.model_averaging.hierarchical_model_averager import (
        HierarchicalModelAverager,
    )

    model = mlp()
    averager = HierarchicalModelAverager(OrderedDict([(2, 2), (4, world)]), warmup_steps=1)
    for _ in range(8):
        steps(model, 1)
        averager.average_parameters(model.parameters())


# --- FSDP2 ----------------------------------------------------------------------------------------


def fsdp(model: nn.Module | None = None, **options: Any) -> Any:
    """Shard every layer, then the model."""
    from torch.distributed.fsdp import fully_shard

    model = model or mlp()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, **options)
    return fully_shard(model, **options)


def fsdp_job(change: Callable[[Any], None] | None = None, **options: Any) -> Job:
    """Make a job of a model that is sharded with these options and then changed."""

    def run(rank: int, world: int) -> None:
        given = {key: value() if callable(value) else value for key, value in options.items()}
        model = fsdp(**given)
        if change is not None:
            change(model)
        steps(model, 2)

    return run


def layers_of(model: Any) -> list[Any]:
    """The sharded layers."""
    return [layer for layer in model if isinstance(layer, nn.Linear)]


def prefetch(direction: str) -> Callable[[Any], None]:
    """Make every layer gather the next two ahead."""

    def change(model: Any) -> None:
        layers = layers_of(model)[:: 1 if direction == "forward" else -1]
        for n, layer in enumerate(layers):
            getattr(layer, f"set_modules_to_{direction}_prefetch")(layers[n + 1 : n + 3])

    return change


def mesh_2d() -> Any:
    """Two replicas of two shards."""
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))


def low_precision() -> Any:
    """Parameters in half precision, gradients in single."""
    from torch.distributed.fsdp import MixedPrecisionPolicy

    return MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)


JOBS |= {
    "fsdp2: default": fsdp_job(),
    "fsdp2: reshard_after_forward=False": fsdp_job(reshard_after_forward=False),
    "fsdp2: reshard_after_forward=2": fsdp_job(reshard_after_forward=2),
    "fsdp2: hybrid": fsdp_job(mesh=mesh_2d),
    "fsdp2: hybrid, no reshard": fsdp_job(mesh=mesh_2d, reshard_after_forward=False),
    "fsdp2: mixed precision": fsdp_job(mp_policy=low_precision),
    "fsdp2: forward prefetch": fsdp_job(prefetch("forward")),
    "fsdp2: backward prefetch": fsdp_job(prefetch("backward")),
    "fsdp2: hybrid, both prefetches": fsdp_job(
        lambda model: [prefetch(way)(model) for way in ("forward", "backward")] and None,
        mesh=mesh_2d,
    ),
    "fsdp2: no gradient sync": fsdp_job(lambda model: model.set_requires_gradient_sync(False)),
    "fsdp2: hybrid, all-reduce left out": fsdp_job(
        lambda model: model.set_requires_all_reduce(False), mesh=mesh_2d
    ),
    "fsdp2: no reshard after backward": fsdp_job(
        lambda model: model.set_reshard_after_backward(False)
    ),
    "fsdp2: unshard in backward off": fsdp_job(
        lambda model: layers_of(model)[0].set_unshard_in_backward(False)
    ),
}  # fmt: skip


@job("fsdp2: explicit unshard")
def fsdp_explicit(rank: int, world: int) -> None:
    """The layers are gathered ahead by hand."""
    model = fsdp()
    for _ in range(2):
        handles = [layer.unshard(async_op=True) for layer in layers_of(model)]
        for handle in handles:
            handle.wait()
        steps(model, 1)


@job("fsdp2: clip_grad_norm_")
def fsdp_clip(rank: int, world: int) -> None:
    """The norm of sharded gradients."""
    model = fsdp()
    for _ in range(2):
        steps(model, 1)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).full_tensor()


@job("fsdp2: uneven shards, frozen layer")
def fsdp_uneven(rank: int, world: int) -> None:
    """Five rows over four ranks, and a layer without gradients."""
    model = nn.Sequential(nn.Linear(8, 5), nn.Linear(5, 5), nn.Linear(5, 3))
    model[1].requires_grad_(False)
    steps(fsdp(model), 2)


@job("fsdp2 x tensor parallel")
def fsdp_tp(rank: int, world: int) -> None:
    """Two by two."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import parallel as tp

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    model = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 8))
    tp.parallelize_module(model, mesh["tp"], {"0": tp.ColwiseParallel(), "1": tp.RowwiseParallel()})
    for layer in model:
        fully_shard(layer, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    steps(model, 2)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)


@job("replicate: composable")
def replicate_job(rank: int, world: int) -> None:
    """DDP as a function."""
    from torch.distributed._composable.replicate import replicate

    steps(replicate(mlp()))


# --- files and pieces -----------------------------------------------------------------------------


@contextlib.contextmanager
def shared_folder(rank: int) -> Any:
    """A folder that rank 0 makes and removes."""
    told = [tempfile.mkdtemp(prefix="torch-sweep-") if rank == 0 else None]
    dist.broadcast_object_list(told, src=0)
    try:
        yield Path(str(told[0]))
    finally:
        dist.barrier()
        if rank == 0:
            shutil.rmtree(str(told[0]), ignore_errors=True)
