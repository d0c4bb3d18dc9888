"""Write the plans of this folder with Alpa's own planner code, without Ray, GPUs or its jaxlib.

    git clone https://github.com/alpa-projects/alpa
    python tests/samples/alpa/regenerate.py --alpa alpa [NAME ...]

Real, run from Alpa's source (commit b8078a9, release 0.2.3): the pipeline schedules
(``schedules.py``), tiles and their slices (``resharding_tensor.py``), resharding specs, strategies,
load balancing and tasks (``cross_mesh_resharding.py``), and the instruction emitters
(``runtime_emitter.py``). Reconstructed here, because Alpa pins jax 0.3.22 and a jaxlib of its own:
jax's ``ShardingSpec``, the stages (a chain of two-layer MLPs with their variables and shardings),
and hosts without processes. The modules of the stages come from today's jax (needs ``pip install
jax numpy``; made with 0.10.2): the same tensor-parallel MLP, compiled for one mesh.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from stand_ins import (
    Chunked,
    Mesh,
    MeshGroup,
    NoSharding,
    Replicated,
    ShardedAxis,
    ShardingSpec,
    Stage,
    Var,
)

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]


# --- loading Alpa ------------------------------------------------------------------------------


def load_alpa(folder: Path) -> Any:
    """Load Alpa's planner modules; everything below them is replaced by what stands above."""
    source = folder / "alpa"
    counter = itertools.count(1000)
    pxla = _module("jax.interpreters.pxla", NoSharding=NoSharding, Chunked=Chunked,
                   ShardedAxis=ShardedAxis, Replicated=Replicated, ShardingSpec=ShardingSpec,
                   spec_to_indices=lambda *_: ())  # fmt: skip
    _module("jax")
    _module("jax.core", Var=Var)
    _module("jax.interpreters", pxla=pxla)
    _module("ray", get=lambda value: value)
    _package("alpa", "alpa.pipeline_parallel", "alpa.shard_parallel")
    _module("alpa.version", __version__="0.2.3")
    _module("alpa.collective")
    names = {
        "ReshardingTileSpec": ["offset", "rank", "gpu_idx"],
        "ReshardingSendSpec": ["device_id", "tile_spec"],
        "ReshardingRecvSpec": ["device_id", "shape", "dtype", "tile_specs"],
        "ReshardingBroadcastSpec": [
            "comm_key", "world_size", "devices_ids", "devices_global_rank", "tensor_slices",
            "recv_tile_shape", "dtype",
        ],
    }  # fmt: skip
    _module("alpa.device_mesh", VirtualPhysicalMesh=Mesh,
            PhysicalDeviceMeshGroup=MeshGroup, DistributedArray=object, RemoteArrayRef=object,
            ReplicatedDistributedArray=object, _device_mesh_put_dummy=None,
            device_id_to_str=lambda ip, device: f"{ip}:{device}",
            **{name: _record(name, fields) for name, fields in names.items()})  # fmt: skip
    _module("alpa.mesh_executable", next_mesh_executable_uuid=lambda: next(counter),
            UtilMeshWorkerExecutable=object)  # fmt: skip
    _module("alpa.parallel_plan", PlacementSpec=lambda *fields: fields)
    _module("alpa.pipeline_parallel.computation", XlaShardedPipelineComputation=Stage,
            PipelineComputation=Stage)  # fmt: skip
    _module("alpa.pipeline_parallel.stage_construction", ManualStageOption=object)
    _module("alpa.shard_parallel.auto_sharding", AutoShardingOption=object)
    _module("alpa.util", **_classes(source / "util.py", {"OrderedSet", "DisjointDict"}),
            cached_property=lambda call: property(_cached(call)), compile_allgather=lambda *_: "",
            compile_concatenate=lambda *_: "", get_shard_shape=lambda aval, _: aval.shape,
            get_microbatch_sharding_spec=lambda spec, *_: spec)  # fmt: skip
    config = types.SimpleNamespace(
        resharding_mode="send_recv", resharding_loadbalance_mode="normal", use_local_allgather=True,
        eagerly_create_communicators=True, enable_overlapping=False,
        pipeline_use_signal_send_recv=False, debug_with_pipeshard_runtime=False,
        always_donate_micro_batch_vars=True,
    )  # fmt: skip
    _module("alpa.global_env", global_config=config)
    for name in ("schedules", "resharding_tensor", "cross_mesh_resharding", "runtime_emitter"):
        _load(f"alpa.pipeline_parallel.{name}", source / "pipeline_parallel" / f"{name}.py")
    return types.SimpleNamespace(
        config=config,
        schedules=sys.modules["alpa.pipeline_parallel.schedules"],
        resharding=sys.modules["alpa.pipeline_parallel.cross_mesh_resharding"],
        emitter=sys.modules["alpa.pipeline_parallel.runtime_emitter"],
    )


def _record(name: str, fields: list[str]) -> Any:
    return NamedTuple(name, [(each, Any) for each in fields])  # type: ignore[misc]


def _module(name: str, **members: Any) -> Any:
    module = types.ModuleType(name)
    module.__dict__.update(members)
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], child, module)
    return module


def _package(*names: str) -> None:
    for name in names:
        _module(name).__path__ = []


def _load(name: str, path: Path) -> None:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def _classes(path: Path, names: set[str]) -> dict[str, Any]:
    """Run some class definitions of a module and nothing else of it."""
    tree = ast.parse(path.read_text())
    tree.body = [
        node for node in tree.body if isinstance(node, ast.ClassDef) and node.name in names
    ]
    from collections import OrderedDict
    from collections.abc import Iterable

    space: dict[str, Any] = {"OrderedDict": OrderedDict, "Iterable": Iterable, "Any": Any}
    exec(compile(ast.unparse(tree), str(path), "exec"), space)  # noqa: S102
    return {name: space[name] for name in names}


def _cached(call: Any) -> Any:
    import functools

    return functools.lru_cache(None)(call)


# --- plans -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """A plan to make.

    Attributes:
        schedule: Alpa's name of the schedule.
        meshes, hosts, width: Meshes, hosts of each, devices of each host.
        microbatches: Number of microbatches.
        layout: Layout of activations where they are made, and where they are used.
        mode: ``send_recv`` or ``broadcast``.
        flags: Further settings of Alpa's global configuration.
    """

    schedule: str
    meshes: int
    hosts: int
    width: int
    microbatches: int
    layout: tuple[str, str] = ("rows", "rows")
    mode: str = "send_recv"
    flags: dict[str, Any] = field(default_factory=dict)


JOBS = {
    "gpipe-2x2": Job("gpipe", 2, 1, 2, 4, ("copy", "copy")),
    "1f1b-4x2": Job("1f1b", 4, 1, 2, 6),
    "1f1b-2x2x2": Job("1f1b", 2, 2, 2, 4),
    "broadcast-2x2": Job("gpipe", 2, 1, 2, 3, ("copy", "copy"), mode="broadcast"),
    "reshard-2x2": Job("1f1b", 2, 1, 2, 3, ("rows", "columns")),
    "inference-3x2": Job("inference", 3, 1, 2, 5, ("copy", "copy")),
    "overlap-3x1": Job(
        "1f1b_overlap_friendly", 3, 1, 1, 6, ("copy", "copy"), flags={"enable_overlapping": True}
    ),
    "lazy-3x2": Job("1f1b", 3, 1, 2, 4, flags={"eagerly_create_communicators": False}),
}


def layout(kind: str, devices: int) -> ShardingSpec:
    """Return a layout of a matrix over the devices of a mesh."""
    if kind == "copy" or devices == 1:
        return ShardingSpec((NoSharding(), NoSharding()), (Replicated(devices),))
    parts = (Chunked([devices]), NoSharding())
    return ShardingSpec(parts if kind == "rows" else parts[::-1], (ShardedAxis(0),))


def stages_of(job: Job, texts: list[str]) -> tuple[list[Stage], list[Stage], Any]:
    """Return compute stages, apply-gradient stages, and what the emitter wants to know of them."""
    devices, n = job.hosts * job.width, job.meshes
    made, used = (layout(kind, devices) for kind in job.layout)
    weight = layout("copy", devices)
    acts = [Var(f"act{i}", (8, 16)) for i in range(n + 1)]
    weights = [Var(f"w{i}", (16, 16)) for i in range(n)]
    forward = [
        Stage(texts[0], [(acts[i], used), (weights[i], weight)], [(acts[i + 1], made)])
        for i in range(n)
    ]
    about: dict[str, Any] = {"batch": acts[0], "weights": weights, "dummies": {}, "out": [acts[n]]}
    if job.schedule == "inference":
        return forward, [], about
    grads = [Var(f"dact{i}", (8, 16)) for i in range(n)]
    sums = [(Var(f"old{i}", (16, 16)), Var(f"dw{i}", (16, 16))) for i in range(n)]
    backward = []
    for i in reversed(range(n)):
        above = [(grads[i + 1], used)] if i + 1 < n else [(acts[n], made)]
        inputs = [(sums[i][0], weight), (acts[i], used), (weights[i], weight), *above]
        below = [(grads[i], made)] if i else []
        # A donated input gives its buffer to the output at the same place.
        outputs = [(sums[i][1], weight), *below]
        backward.append(Stage(texts[1], inputs, outputs, {sums[i][0]}))
    new = [Var(f"new{i}", (16, 16)) for i in range(n)]
    apply = [
        Stage(texts[2], [(weights[i], weight), (sums[i][1], weight)], [(new[i], weight)])
        for i in range(n)
    ]
    about |= {"dummies": dict(sums), "out": new}
    return forward + backward, apply, about


def make(alpa: Any, job: Job, texts: list[str]) -> dict[str, Any]:
    """Let Alpa plan a job and describe what it intends, with the hook that users run."""
    alpa.config.__dict__.update(
        resharding_mode=job.mode, enable_overlapping=False, eagerly_create_communicators=True
    )
    alpa.config.__dict__.update(job.flags)
    alpa.resharding.resharding_task_counter = 0
    compute, apply, about = stages_of(job, texts)
    meshes = MeshGroup(Mesh(number, job.hosts, job.width) for number in range(job.meshes))
    meshes.collective_groups = [
        [
            alpa.resharding.CollectiveGroup(a.device_strs + b.device_strs, a, b)
            if a is not b
            else None
            for b in meshes
        ]
        for a in meshes
    ]
    dependency, _ = alpa.schedules.gen_dependency_with_stages(compute, job.meshes, apply)
    schedule = alpa.schedules.create_pipeline_schedule(
        job.schedule,
        dependency=dependency,
        meshes=list(meshes),
        apply_grad_placement={len(compute) + i: i for i in range(len(apply))},
        num_batch=job.microbatches,
    )
    inputs = [about["batch"], *about["weights"]]
    arguments: dict[str, Any] = {
        "stages": compute + apply, "global_invars": inputs,
        "grad_dummy_invars": about["dummies"], "global_outvars": about["out"],
        "concat_vars_mapping": {}, "mesh_group": meshes, "schedule": schedule,
        "is_batch": [var is about["batch"] for var in inputs], "num_batch": job.microbatches,
        "default_auto_sharding_option": None, "manual_stage_option": None, "flop_count": 0,
        "allreduce_groups": ((), None),
    }  # fmt: skip
    if job.flags.get("enable_overlapping"):
        order = [stage.outvars for stage in compute + apply]
        emitter = alpa.emitter.OverlapFriendlyPipelineInstEmitter(
            **arguments, outvar_def_order=order
        )
    else:
        emitter = alpa.emitter.PipelineInstEmitter(**arguments)
    hook = _hook()
    config = emitter.compile()
    plan: dict[str, Any] = hook.describe(config, meshes)
    return plan


def _hook() -> Any:
    """Load the hook as a user does: a file of its own."""
    path = ROOT / "planners" / "alpa" / "hook.py"
    spec = importlib.util.spec_from_file_location("alpa_hook", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- texts of stages ---------------------------------------------------------------------------


def stage_texts(devices: int) -> list[str]:
    """Compile a tensor-parallel MLP for the devices of a mesh: forward, backward, update."""
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy as jnp
    from jax import lax
    from jax.sharding import PartitionSpec as P

    mesh = jax.make_mesh((devices,), ("tp",), axis_types=(jax.sharding.AxisType.Auto,))

    def forward(x: Any, up: Any, down: Any) -> Any:
        return lax.psum(jnp.tanh(x @ up) @ down, "tp")

    def backward(x: Any, up: Any, down: Any, above: Any) -> Any:
        hidden, pull_up = jax.vjp(lambda x, up: jnp.tanh(x @ up), x, up)
        below, d_up = pull_up(above @ down.T)
        return lax.psum(below, "tp"), d_up, hidden.T @ above

    def update(up: Any, down: Any, d_up: Any, d_down: Any) -> Any:
        return up - 0.1 * d_up, down - 0.1 * d_down

    x, col, row = P(), P(None, "tp"), P("tp", None)
    cases = [
        (forward, (x, col, row), x),
        (backward, (x, col, row, x), (x, col, row)),
        (update, (col, row, col, row), (col, row)),
    ]
    shapes = {x: (8, 16), col: (16, 32), row: (32, 16)}
    texts = []
    for call, into, out in cases:
        mapped = jax.shard_map(call, mesh=mesh, in_specs=into, out_specs=out, check_vma=False)
        arguments = [jax.ShapeDtypeStruct(shapes[part], "float32") for part in into]
        texts.append(jax.jit(mapped).lower(*arguments).compile().as_text())
    return [text.replace(str(ROOT) + "/", "") for text in texts]


def main() -> None:
    """Write what is named, or everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alpa", type=Path, help="checkout of alpa")
    parser.add_argument("--texts", type=int, help="print the texts of stages for so many devices")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    if arguments.texts:
        print(json.dumps(stage_texts(arguments.texts)))
        return
    names = arguments.names or JOBS
    # A process of its own: Alpa's modules must not see the real jax.
    command = [sys.executable, str(Path(__file__).resolve()), "--texts"]
    texts = {}
    for devices in {JOBS[name].hosts * JOBS[name].width for name in names}:
        printed = subprocess.run([*command, str(devices)], check=True, capture_output=True).stdout
        texts[devices] = json.loads(printed)
    alpa = load_alpa(arguments.alpa)
    for name in names:
        plan = make(alpa, JOBS[name], texts[JOBS[name].hosts * JOBS[name].width])
        lines = (
            json.dumps(plan, indent=None)
            .replace('{"op"', '\n{"op"')
            .replace('"tasks"', '\n"tasks"')
        )
        (HERE / f"{name}.alpa.json").write_text(lines + "\n")


if __name__ == "__main__":
    main()
