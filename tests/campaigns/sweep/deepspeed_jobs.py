"""Jobs of four ranks that train with DeepSpeed's engine on gloo; torch_sweep.py runs them."""

from __future__ import annotations

import functools
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


def mics(rank: int, world: int, given: Options) -> None:
    """Train layers whose parameters are sharded within parts of the ranks."""
    ready(rank, world)
    told = settings(given)
    with deepspeed.zero.MiCS_Init(config_dict_or_path=told):
        model = nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)])
    engine = deepspeed.initialize(
        model=model, config=told, model_parameters=list(model.parameters())
    )[0]
    train(engine, given, rank)


class Branches(nn.Module):
    """Two branches of one shape; the ranks of one kind use one, the others the other."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.even, self.odd = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.last, self.rank = nn.Linear(WIDTH, WIDTH), rank

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Use one of the branches."""
        branch = self.odd if self.rank % 2 else self.even
        return self.last(branch(x))  # type: ignore[no-any-return]


def branches(rank: int, world: int, given: Options) -> None:
    """Train a network of which every rank uses another part."""
    ready(rank, world)
    model = Branches(rank)
    if given.get("leaf"):
        from deepspeed.utils import set_z3_leaf_modules  # type: ignore[import-not-found]

        set_z3_leaf_modules(model, [Branches])
    engine = deepspeed.initialize(
        model=model, config=settings(given), model_parameters=list(model.parameters())
    )[0]
    train(engine, given, rank)


class Sequences(nn.Module):
    """Attention over a sequence that is spread over ranks."""

    def __init__(self, group: Any, heads: int, stream: Any) -> None:
        super().__init__()
        from deepspeed.sequence.layer import (  # type: ignore[import-not-found]
            DistributedAttention,
        )

        self.heads = heads
        self.projections = nn.ModuleList(nn.Linear(WIDTH, 2 * heads) for _ in range(3))
        self.last = nn.Linear(2 * heads, WIDTH)
        self.attention = DistributedAttention(_attend, group, 2, 1, sp_stream=stream)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Take a part of a sequence: batch, length, width."""
        parts = [one(x).view(*x.shape[:2], self.heads, 2) for one in self.projections]
        found = self.attention(*parts, batch_dim_idx=0)
        return self.last(found.reshape(*x.shape[:2], -1))  # type: ignore[no-any-return]


def _attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Attend; batch, length, heads, width of a head."""
    query, key, value = (one.transpose(1, 2) for one in (query, key, value))
    found = nn.functional.scaled_dot_product_attention(query, key, value)
    return found.transpose(1, 2).contiguous()


def sequences(rank: int, world: int, given: Options) -> None:
    """Train attention with Ulysses, replicated where fewer ranks than all share a sequence."""
    ready(rank, world)
    size = given["sequence"]
    mesh = deepspeed.comm.initialize_mesh_device(
        (world // size, size), ("data_parallel", "sequence_parallel")
    )
    group = mesh.get_group(mesh_dim="sequence_parallel")
    model = Sequences(group, given.get("heads", 4), _stream() if given.get("overlap") else None)
    told = {**settings(given), "sequence_parallel_size": size, "data_parallel_size": world // size}
    engine = deepspeed.initialize(
        model=model, config=told, model_parameters=list(model.parameters()),
        mesh_param=(world // size, size),
    )[0]  # fmt: skip
    source = torch.Generator().manual_seed(rank)
    for _ in range(3):
        inputs = torch.randn(2, 4, WIDTH, generator=source)
        engine.backward(engine(inputs).square().mean())
        engine.step()


def _stream() -> Any:
    """Return a stand-in for the stream that overlaps communication; there is none on a CPU."""
    from deepspeed.accelerator import get_accelerator  # type: ignore[import-not-found]

    from sweep.on_cpu import Stream

    stream, accelerator = Stream(), get_accelerator()
    accelerator.current_stream = accelerator.default_stream = lambda *_: stream
    return stream


def loader(rank: int, world: int, given: Options) -> None:
    """Share out the samples of a loader over a sequence group."""
    ready(rank, world)
    import torch.distributed as dist
    from deepspeed.runtime.sequence_parallel import (  # type: ignore[import-not-found]
        ulysses_sp,
    )

    names = ("input_ids", "position_ids", "labels")
    count = given["batches"] - (rank == world - 1 and given.get("uneven", False))
    length = 8 if not given.get("variable") else 4 * (rank + 1)
    kept = [{name: torch.zeros(2, length, dtype=torch.long) for name in names}] * count
    adapted = ulysses_sp.UlyssesSPDataLoaderAdapter(kept, rank, dist.group.WORLD, world, "cpu")
    for batch in adapted:
        print(batch["input_ids"].shape)


def zeros() -> dict[str, Options]:
    """Return every stage of ZeRO with its switches."""
    found: dict[str, Options] = {}
    switches = ("overlap_comm", "contiguous_gradients", "reduce_scatter", "round_robin_gradients")
    for stage, *values in itertools.product((1, 2), *[(False, True)] * len(switches)):
        on = [name for name, value in zip(switches, values, strict=True) if value]
        zero = {"stage": stage, **dict(zip(switches, values, strict=True))}
        found[f"zero{stage} {' '.join(on) or 'plain'}"] = {"zero": zero, "accumulate": 2}
    for overlap, contiguous, scatter in itertools.product((False, True), repeat=3):
        zero = {
            "stage": 3,
            "overlap_comm": overlap,
            "contiguous_gradients": contiguous,
            "reduce_scatter": scatter,
            **SMALL,
        }
        on = [name for name, value in zero.items() if value is True]
        found[f"zero3 {' '.join(on) or 'plain'}"] = {"zero": zero, "accumulate": 2}
    for name, zero in ONLY_3.items():
        found[f"zero3, {name}"] = {"zero": {"stage": 3, **SMALL, **zero}}
    for stage, kind in itertools.product((0, 1, 2, 3), ("bf16", "fp16")):
        config = {kind: {"enabled": True}}
        found[f"zero{stage}, {kind}"] = {"zero": {"stage": stage}, "config": config}
    for name, config in PLAIN.items():
        found[f"zero0, {name}"] = {"accumulate": 2, "config": config}
    return found  # fmt: skip


SMALL = {"stage3_param_persistence_threshold": 0}
EAGER = {"stage3_prefetch_bucket_size": 0, "stage3_max_reuse_distance": 0,
         "stage3_max_live_parameters": 0}  # fmt: skip
ONLY_3: dict[str, Options] = {
    "no prefetch": EAGER, "kept parameters": {"stage3_param_persistence_threshold": 100},
    "fetched by all-reduce": {"stage3_use_all_reduce_for_fetch_params": True},
    "small groups": {"sub_group_size": 100},
    "coarse modules": {"stage3_module_granularity_threshold": 1000},
    "hpz": {"zero_hpz_partition_size": 2},
    "hpz, overlapped": {"zero_hpz_partition_size": 2, "overlap_comm": True},
    "hpz, no prefetch": {"zero_hpz_partition_size": 2, **EAGER},
    "hpz of all": {"zero_hpz_partition_size": 4},
    "quantized weights": {"zero_quantized_weights": True},
    "quantized gradients": {"zero_quantized_gradients": True},
}  # fmt: skip
PLAIN: dict[str, Options] = {
    "": {},
    "prescaled": {"prescale_gradients": True, "gradient_predivide_factor": 2.0},
    "sent as fp16": {"communication_data_type": "fp16"},
    "sent as bf16": {"communication_data_type": "bf16"},
    "clipped": {"gradient_clipping": 1.0},
}
MICS: dict[str, Options] = {
    "shards of 2": {"mics_shard_size": 2},
    "shards of 2, overlapped": {"mics_shard_size": 2, "overlap_comm": True},
    "shards of 4": {"mics_shard_size": 4},
    "shards of 4, hierarchical": {"mics_shard_size": 4, "mics_hierarchical_params_gather": True},
}
MOE: dict[str, Options] = {
    "ep2": {"ep_size": 2},
    "ep4": {"ep_size": 4},
    "ep1": {"ep_size": 1},
    "ep2, top 2": {"ep_size": 2, "k": 2},
    "ep2, top 3": {"ep_size": 2, "k": 3},
    "ep2, all kept": {"ep_size": 2, "drop_tokens": False},
    "ep2, top 2, all kept": {"ep_size": 2, "k": 2, "drop_tokens": False},
    "ep4, top 3, all kept": {"ep_size": 4, "k": 3, "drop_tokens": False},
    "ep2, no random selection": {"ep_size": 2, "use_rts": False},
    "ep2, jitter": {"ep_size": 2, "noisy_gate_policy": "Jitter"},
    "ep2, residual": {"ep_size": 2, "use_residual": True},
}
UNUSED: dict[str, Options] = {
    **{f"zero{stage}, overlapped {overlap}": {"zero": {"stage": stage, "overlap_comm": overlap}}
       for stage, overlap in itertools.product((1, 2), (False, True))},
    "zero0": {},
    "zero2, none ignored": {"zero": {"stage": 2, "ignore_unused_parameters": False}},
    "zero3": {"zero": {"stage": 3, **SMALL}},
    "zero3, one leaf": {"zero": {"stage": 3, **SMALL}, "leaf": True},
}  # fmt: skip


def moes() -> dict[str, Options]:
    """Return jobs of experts."""
    found = {name: {"experts": experts} for name, experts in MOE.items()}
    for stage, overlap, ep in itertools.product((0, 1, 2), (False, True), (2, 4)):
        zero = {"stage": stage, "overlap_comm": overlap}
        found[f"ep{ep}, zero{stage}, overlapped {overlap}"] = {
            "experts": {"ep_size": ep},
            "zero": zero,
            "accumulate": 2,
        }
    found["ep2, zero3"] = {"experts": {"ep_size": 2}, "zero": {"stage": 3}}
    for ep, split, stage in itertools.product((1, 2), (False, True), (0, 1, 2)):
        found[f"ep{ep} tp2{', split experts' if split else ''}, zero{stage}"] = {
            "experts": {
                "ep_size": ep,
                "enable_expert_tensor_parallelism": split,
                "drop_tokens": stage != 0,
            },
            "model": 2,
            "zero": {"stage": stage},
        }
    found["ep2, data before experts"] = {
        "experts": {"ep_size": 2},
        "config": {"use_data_before_expert_parallelism": True},
    }
    return found  # fmt: skip


def ulysses() -> dict[str, Options]:
    """Return jobs of sequence parallelism."""
    found: dict[str, Options] = {}
    for size, stage in itertools.product((2, 4), (0, 1, 2, 3)):
        found[f"sp{size}, zero{stage}"] = {"sequence": size, "zero": {"stage": stage}}
        found[f"sp{size}, zero{stage}, overlapped"] = {
            "sequence": size,
            "overlap": True,
            "zero": {"stage": stage, "overlap_comm": True},
        }
    for size, heads in ((2, 3), (4, 6), (4, 5)):
        found[f"sp{size}, {heads} heads"] = {"sequence": size, "heads": heads}
    return found  # fmt: skip


KINDS: dict[str, tuple[Any, dict[str, Options]]] = {
    "": (dense, zeros()), " moe": (sparse, moes()), " mics": (mics, {
        name: {"zero": {"stage": 3, **SMALL, **zero}} for name, zero in MICS.items()}),
    " ranks differ": (branches, UNUSED), " ulysses": (sequences, ulysses()),
    " ulysses loader": (loader, {
        "equal": {"batches": 2}, "variable": {"batches": 2, "variable": True},
        "one batch less": {"batches": 2, "uneven": True}}),
}  # fmt: skip
JOBS: dict[str, Any] = {
    f"deepspeed{kind}: {name}": functools.partial(run, given=given)
    for kind, (run, jobs) in KINDS.items()
    for name, given in jobs.items()
}
