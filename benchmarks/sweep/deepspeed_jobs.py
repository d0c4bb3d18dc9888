"""Jobs of four ranks that train with DeepSpeed's engine on gloo; torch_sweep.py runs them."""

from __future__ import annotations

import itertools
import os
import sys
from typing import Any

os.environ["DS_ACCELERATOR"] = "cpu"

import deepspeed  # type: ignore[import-not-found]
import torch
from deepspeed.moe.layer import MoE  # type: ignore[import-not-found]
from deepspeed.moe.utils import (  # type: ignore[import-not-found]
    split_params_into_different_moe_groups_for_optimizer,
)
from torch import nn

# all-reduces over shared memory would pass torch.distributed by
sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # type: ignore[attr-defined]

WIDTH, LAYERS, BATCH = 8, 4, 4
Options = dict[str, Any]


def version() -> str:
    """Name the planner and its version."""
    return f"DeepSpeed {deepspeed.__version__}"


class Experts(nn.Module):
    """A network with a layer of experts in the middle."""

    def __init__(self, experts: Options) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.experts = MoE(
            hidden_size=WIDTH, expert=nn.Linear(WIDTH, WIDTH), num_experts=4, **experts
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output of the last layer."""
        y, *_ = self.experts(self.first(x))
        return self.last(y)  # type: ignore[no-any-return]


class Grid:
    """What DeepSpeed asks of a model parallel unit: ranks of one model are neighbors."""

    def __init__(self, rank: int, world: int, model: int) -> None:
        import torch.distributed as dist

        self.model, self.rank, self.world = model, rank, world
        models = [list(range(n, n + model)) for n in range(0, world, model)]
        self.models = [dist.new_group(ranks) for ranks in models]
        self.data = [dist.new_group(list(range(n, world, model))) for n in range(model)]

    def get_model_parallel_group(self) -> Any:
        """Return the group of this rank's model."""
        return self.models[self.rank // self.model]

    def get_data_parallel_group(self) -> Any:
        """Return the group of this rank's replicas."""
        return self.data[self.rank % self.model]

    def get_model_parallel_world_size(self) -> int:
        """Return how many ranks share a model."""
        return self.model

    def get_data_parallel_world_size(self) -> int:
        """Return how many replicas there are."""
        return self.world // self.model

    def get_model_parallel_rank(self) -> int:
        """Return this rank's place in its model."""
        return self.rank % self.model

    def get_data_parallel_rank(self) -> int:
        """Return this rank's replica."""
        return self.rank // self.model


def ready(rank: int, world: int) -> None:
    """Tell DeepSpeed which rank this is; the process group is made already."""
    said = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_SIZE": world}
    os.environ |= {name: str(value) for name, value in said.items()}
    deepspeed.init_distributed("gloo", verbose=False)
    torch.manual_seed(0)


def settings(given: Options) -> Options:
    """Return DeepSpeed's configuration for a job."""
    told: Options = {
        "train_micro_batch_size_per_gpu": BATCH, "steps_per_print": 1_000_000,
        "gradient_accumulation_steps": given.get("accumulate", 1),
        "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
        "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False,
    }  # fmt: skip
    if "zero" in given:
        told["zero_optimization"] = {"reduce_bucket_size": 150, "allgather_bucket_size": 150,
                                     **given["zero"]}  # fmt: skip
    return told | given.get("config", {})


def train(engine: Any, given: Options, rank: int) -> None:
    """Run three steps; every rank has its own data."""
    source = torch.Generator().manual_seed(rank)
    for _ in range(given.get("steps", 3) * given.get("accumulate", 1)):
        inputs = torch.randn(BATCH, WIDTH, generator=source)
        kind = next(engine.module.parameters()).dtype
        engine.backward(engine(inputs.to(kind)).square().mean())
        engine.step()


def dense(rank: int, world: int, given: Options) -> None:
    """Train layers under ZeRO."""
    ready(rank, world)
    model = nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)])
    engine = deepspeed.initialize(
        model=model, config=settings(given), model_parameters=list(model.parameters())
    )[0]
    train(engine, given, rank)


def sparse(rank: int, world: int, given: Options) -> None:
    """Train experts."""
    ready(rank, world)
    grid = Grid(rank, world, given["model"]) if "model" in given else None
    if grid is not None:
        from deepspeed.utils import groups  # type: ignore[import-not-found]

        groups.mpu = grid
    model = Experts(given["experts"])
    named = {"params": list(model.parameters()), "name": "parameters"}
    engine = deepspeed.initialize(
        model=model, config=settings(given), mpu=grid,
        model_parameters=split_params_into_different_moe_groups_for_optimizer(named),
    )[0]  # fmt: skip
    train(engine, given, rank)


def zeros() -> dict[str, Options]:
    """Return every stage of ZeRO with its switches."""
    found: dict[str, Options] = {}
    switches = ("overlap_comm", "contiguous_gradients", "reduce_scatter", "round_robin_gradients")
    for stage, *values in itertools.product((1, 2), *[(False, True)] * len(switches)):
        on = [name for name, value in zip(switches, values, strict=True) if value]
        zero = {"stage": stage, **dict(zip(switches, values, strict=True))}
        found[f"zero{stage} {' '.join(on) or 'plain'}"] = {"zero": zero, "accumulate": 2}
    return found


JOBS: dict[str, Any] = {}
for _name, _given in zeros().items():
    JOBS[f"deepspeed: {_name}"] = lambda rank, world, given=_given: dense(rank, world, given)
MOE: dict[str, Options] = {
    "ep2": {"experts": {"ep_size": 2}},
}
for _name, _given in MOE.items():
    JOBS[f"deepspeed moe: {_name}"] = lambda rank, world, given=_given: sparse(rank, world, given)
