"""The passes of torchtitan's GraphTrainer, each judged on the graphs of all ranks. No GPU.

    pip install --no-deps torchtitan==0.3.0     # its page says what else
    python tests/campaigns/graph_trainer.py                      # every model, mesh and pipeline
    python tests/campaigns/graph_trainer.py --only "qwen3 moe" --pipelines default --rows rows.jsonl

torchtitan builds the model, shards it and traces the whole step, as its trainer does; then
``validate_pipeline`` runs its passes. Stand-ins, for what has no CPU form: torchtitan takes a
machine without CUDA for one with CUDA (``device_type``); attention is the mathematical form, since
FlexAttention has no backward pass on CPUs and flash attention draws numbers there; the speed that
the schedulers ask a GPU for is filled in, the same on all ranks. Models are debug models of two
layers. docs/planners/graphtrainer.md has the table.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import importlib
import json
import logging
import sys
import time
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torchtitan.tools.utils

from planguard.capture import validate_pipeline

torchtitan.tools.utils.device_type = "cpu"  # before anything of torchtitan copies it
torchtitan.tools.utils.device_module = torch.cpu

TITAN = "torchtitan.experiments.graph_trainer"
SPEED = {"get_gpu_dram_gbps": lambda *_: 1000.0, "get_device_tflops": lambda *_: 100.0}
"""What the schedulers ask a GPU for."""


@dataclasses.dataclass(frozen=True)
class Model:
    """A debug model: its package, its configuration, and whether it has experts."""

    package: str
    config: str
    experts: bool = False


MODELS = {
    "llama3": Model("llama3", "graph_trainer_llama3_debugmodel"),
    "qwen3 moe": Model("qwen3", "graph_trainer_qwen3_debugmodel_moe", experts=True),
    "deepseek_v3": Model("deepseek_v3", "graph_trainer_deepseek_v3_debugmodel", experts=True),
}
MESHES = {
    "shard 2": {"dp_shard": 2},
    "tensor 2": {"tp": 2},
    "shard 2 x tensor 2": {"dp_shard": 2, "tp": 2},
    "replicate 2 x shard 2": {"dp_replicate": 2, "dp_shard": 2},
}
PIPELINES: dict[str, dict[str, Any]] = {
    "default": {"numerics_changing_optim": True},
    "overlap": {"enable_fsdp_ag_rs_overlap": True, "enable_fsdp_dense_region_overlap": True},
    "full recomputation": {"memory_policy": "full", "enable_fsdp_ag_rs_overlap": True},
    "eager recomputation": {"memory_policy": "eager"},
    "expert overlap": {"ep_overlap": True, "enable_fsdp_ag_rs_overlap": True},
    "asynchronous tensor parallelism": {"enable_async_tensor_parallel": True},
    "automatic buckets": {},
    "buckets of blocks": {},
}
"""Settings of the compile configuration; the last two are the passes of the older mode."""
LAYERS, BATCH, SEQUENCE = 2, 2, 128


def build(model: Model, mesh: dict[str, int], pipeline: str, _: Any) -> tuple[Any, ...]:
    """Trace the step of this rank; return its graph, the passes and the example inputs."""
    _stand_in()
    config = _config(model, mesh, pipeline)
    dims, module = _module(config, mesh)
    traced = _traced(config, dims, module)
    return traced.gm, _passes(pipeline, traced, config, dims, module), traced.example_inputs


def _stand_in() -> None:
    """Fill in what only a GPU says, for the life of this process."""
    from torch._inductor.fx_passes import overlap_manual_scheduling  # noqa: F401 - patched below
    from torch.nn.attention import SDPBackend
    from torchtitan.models.common.attention import ScaledDotProductAttention

    ScaledDotProductAttention.sdpa_backends = [SDPBackend.MATH]
    for module in list(sys.modules.values()):
        for name, known in SPEED.items():
            if getattr(module, "__name__", "").startswith("torch.") and name in vars(module):
                mock.patch.object(module, name, known).start()


def _config(model: Model, mesh: dict[str, int], pipeline: str) -> Any:
    config = getattr(importlib.import_module(f"{TITAN}.{model.package}.config_registry"),
                     model.config)()  # fmt: skip
    registry = importlib.import_module(f"{TITAN}.{model.package}").model_registry
    config.model_spec = registry(config.model_spec.flavor, attn_backend="sdpa")
    config.model_spec.model.layers = config.model_spec.model.layers[-LAYERS:]
    settings = dict(PIPELINES[pipeline])
    if settings.pop("ep_overlap", False):
        config.compile.ep_overlap.enabled = True
    for name, value in settings.items():
        setattr(config.compile, name, value)
    p = config.parallelism
    p.data_parallel_shard_degree = mesh.get("dp_shard", 1)
    p.data_parallel_replicate_degree = mesh.get("dp_replicate", 1)
    p.tensor_parallel_degree = mesh.get("tp", 1)
    p.expert_parallel_degree = 2 if model.experts else 1
    config.training.seq_len = SEQUENCE
    return config


def _module(config: Any, mesh: dict[str, int]) -> tuple[Any, Any]:
    from torchtitan.config import TORCH_DTYPE_MAP
    from torchtitan.distributed import ParallelDims
    from torchtitan.distributed import utils as dist_utils
    from torchtitan.tools import utils

    p = config.parallelism
    dist_utils.set_spmd_backend(p.spmd_backend)
    sizes = {"dp_shard": 1, "dp_replicate": 1, "tp": 1, **mesh}
    dims = ParallelDims(
        **sizes, cp=1, pp=1, ep=p.expert_parallel_degree, world_size=_world(mesh),
        spmd_backend=p.spmd_backend,
    )  # fmt: skip
    dims.build_mesh()
    spec = config.model_spec
    spec.model.update_from_config(config=config)
    with torch.device("meta"), utils.set_default_dtype(TORCH_DTYPE_MAP[config.training.dtype]):
        module = spec.model.build()
    module = spec.parallelize_fn(
        module, parallel_dims=dims, training=config.training, parallelism=p,
        compile_config=config.compile, ac_config=config.activation_checkpoint, dump_folder="",
    )  # fmt: skip
    module.to_empty(device="cpu")
    return dims, module.train()


def _traced(config: Any, dims: Any, module: Any) -> Any:
    from torchtitan.experiments.graph_trainer import precompile_main, registry
    from torchtitan.experiments.graph_trainer.configs import trace_input_preparer_keys
    from torchtitan.experiments.graph_trainer.make_fx_tracer import minimal_fx_tracer
    from torchtitan.experiments.graph_trainer.trainer import make_fwd_bwd_step

    loss = config.loss.build(compile_config=config.compile)
    precompile_main._prepare_loss_for_precompile(module, loss)
    keys = trace_input_preparer_keys(config.compile)

    def prepare(args: Any, kwargs: Any) -> None:
        for key in keys:
            registry.TRACE_INPUT_PREPARERS.get(key, lambda *_: None)(config.compile, args, kwargs)

    def prepare_call(args: Any, kwargs: Any) -> Any:
        for key in keys:
            hook = registry.TRACE_CALL_INPUT_PREPARERS.get(key, lambda *_: None)
            args, kwargs = hook(config.compile, args, kwargs) or (args, kwargs)
        return args, kwargs

    tokens = torch.randint(0, config.model_spec.model.vocab_size, (2, BATCH, SEQUENCE))
    places = torch.arange(SEQUENCE, dtype=torch.int32).expand(BATCH, SEQUENCE)
    parallel = torch.distributed.tensor.parallel.loss_parallel
    with parallel() if dims.tp_enabled else contextlib.nullcontext():
        return minimal_fx_tracer(
            make_fwd_bwd_step(module, loss), module=module, prepare_inputs=prepare,
            prepare_call_inputs=prepare_call,
        )(tokens[0], tokens[1], torch.tensor(BATCH * SEQUENCE), {"positions": places})  # fmt: skip


def _passes(pipeline: str, traced: Any, config: Any, dims: Any, module: Any) -> list[Any]:
    from torchtitan.experiments.graph_trainer import fsdp_passes, passes
    from torchtitan.experiments.graph_trainer import remove_noop_passes as noop
    from torchtitan.experiments.graph_trainer.common_utils import get_transformer_block_buckets

    clean = [
        noop.eliminate_dead_code_pass, noop.remove_detach_pass, noop.remove_identity_view_pass,
        noop.remove_identity_slice_pass, fsdp_passes.deduplicate_fsdp_unshard_chains_pass,
    ]  # fmt: skip
    if pipeline == "automatic buckets":
        return [*clean, fsdp_passes.autobucketing_reordering_pass]
    if pipeline == "buckets of blocks":
        blocks = functools.partial(
            fsdp_passes.transformer_block_bucketing_reordering_pass,
            fsdp_manual_buckets=get_transformer_block_buckets(module),
        )
        return [*clean, blocks]
    return passes.construct_default_graph_passes(traced, config, parallel_dims=dims)


def _world(mesh: dict[str, int]) -> int:
    return functools.reduce(lambda x, y: x * y, mesh.values())


def judge(model: str, mesh: str, pipeline: str, jobs: int) -> list[dict[str, Any]]:
    """Run one pipeline on one model and mesh; return a row for every pass."""
    case = functools.partial(build, MODELS[model], MESHES[mesh], pipeline)
    start = time.perf_counter()
    where = {"model": model, "mesh": mesh, "pipeline": pipeline}
    try:
        report = validate_pipeline(
            case, _world(MESHES[mesh]), on_failure="skip", jobs=jobs, timeout=1800
        )
    except Exception as error:  # noqa: BLE001 - a row says so
        return [{**where, "pass": "(tracing)", "failed": f"{type(error).__name__}: {error}"}]
    rows = [
        {**where, "pass": verdict.name, "valid": verdict.valid,
         "outcome": None if verdict.verdict is None else verdict.verdict.outcome.value,
         "moved": len(verdict.moved.get(0, ())), "fused": len(verdict.fused.get(0, ())),
         "reordered": len(verdict.reordered.get(0, ())), "text": str(verdict)[:4000],
         "seconds": round(time.perf_counter() - start, 1)}
        for verdict in report.passes
    ]  # fmt: skip
    return rows + [{**where, "pass": name, "failed": why} for name, why in report.failed]


def main() -> int:
    """Judge what was asked for and print a line for each pass."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--meshes", nargs="+", choices=MESHES, default=list(MESHES))
    parser.add_argument("--pipelines", nargs="+", choices=PIPELINES, default=list(PIPELINES))
    parser.add_argument("--rows", type=Path, help="write every row as a line of JSON")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    for model in given.only:
        importlib.import_module(f"{TITAN}.{MODELS[model].package}.config_registry")  # before forks
    importlib.import_module(f"{TITAN}.passes")
    bad = 0
    for pipeline in given.pipelines:
        for model in given.only:
            for mesh in given.meshes:
                # Rows come when a cell is done, after minutes: what is stopped before has none.
                print(pipeline, model, mesh, "begins", sep=" | ", file=sys.stderr, flush=True)
                rows = judge(model, mesh, pipeline, given.jobs)
                if not rows:
                    print(pipeline, model, mesh, "(no pass)", "none ran", sep=" | ", flush=True)
                bad += sum(row.get("valid") is False for row in rows)
                for row in rows:
                    said = row.get("failed") or f"{row['valid']} {row['outcome']}"
                    print(pipeline, model, mesh, row["pass"], said.splitlines()[0][:120], sep=" | ",
                          flush=True)  # fmt: skip
                if given.rows:
                    with given.rows.open("a") as file:
                        file.writelines(json.dumps(row) + "\n" for row in rows)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
