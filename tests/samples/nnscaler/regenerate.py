"""Write the generated code of this folder with nnScaler itself, without a GPU.

    git clone https://github.com/microsoft/nnscaler && git -C nnscaler checkout 1585c15
    pip install torch==2.13.0 dill matplotlib more-itertools numpy psutil pulp "pybind11<3" \
        pyyaml tqdm scipy
    python tests/samples/nnscaler/regenerate.py --source nnscaler [--out FOLDER] [NAME ...]

nnScaler 0.8 asks for torch 2.6 at most and for CUDA. This script copies its sources, changes two
lines so that they run with torch 2.13 on a CPU and a third so that the plans whose name ends in
``async-p2p`` communicate asynchronously (``parallelize`` fixes that setting to False), and compiles
its one extension with ``c++``. Nothing of nnScaler is kept here. Of each output directory only the
generated code is kept; the pickles beside it are not read by PlanGuard. The in-memory
``ExecutionPlan`` of some plans is written field by field to ``objects/<name>.json.gz``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def _pipeline(stages: int, scheduler: str, ranks: int) -> dict[str, Any]:
    return {
        "pipeline_nmicros": 4, "pipeline_nstages": stages, "pp_size": ranks,
        "pipeline_scheduler": scheduler,
    }  # fmt: skip


AUTODIST: dict[str, Any] = {"mem_constraint": 1, "parallel_profile": False, "update_freq": 4}
"""What the solver takes for granted; its memory in GB."""

SAMPLES: dict[str, tuple[str, str, int, int, dict[str, Any]]] = {
    "mlp-tp4": ("mlp", "tp", 4, 4, {}),
    "mlp-tp2dp2": ("mlp", "tp", 2, 4, {}),
    "mlp-tp2dp2-async-reducer": (
        "mlp", "tp", 2, 4, {"use_async_reducer": True, "reducer_bucket_cap_mb": 0.002},
    ),
    "mlp-dp4": ("mlp", "dp", 1, 4, {}),
    "mlp-dp4-zero2": ("mlp", "dp", 1, 4, {"use_zero": True, "zero_ngroups": 2}),
    "mlp-dp4-zero-scatter": (
        "mlp", "dp", 1, 4, {
            "use_zero": True, "zero_use_reduce_scatter": True, "use_async_reducer": True,
            "reducer_bucket_cap_mb": 0.004,
        },
    ),
    "mlp-pp4-1f1b": ("mlp", "pp", 4, 4, {"pas_config": _pipeline(4, "1f1b", 4)}),
    "mlp-pp4-gpipe": ("mlp", "pp", 4, 4, {"pas_config": _pipeline(4, "gpipe", 4)}),
    "mlp-pp2v2dp2-interleaved": (
        "mlp", "hybrid", 2, 4, {"pas_config": _pipeline(4, "1f1b_interleaved", 2)},
    ),
    "mlp-pp2dp2-async-reducer": (
        "mlp", "pp", 2, 4, {
            "pas_config": _pipeline(2, "1f1b", 2), "use_async_reducer": True,
            "reducer_bucket_cap_mb": 0.002,
        },
    ),
    "mlp-pp2tp2dp2": ("mlp", "hybrid", 4, 8, {"pas_config": _pipeline(2, "1f1b", 2)}),
    "mlp-pp4-infer": (
        "mlp", "pp", 4, 4, {"pas_config": _pipeline(4, "infer_pipe", 4), "inference_only": True},
    ),
    "mlp-tp4-forward": ("mlp", "tp", 4, 4, {"use_end2end": False}),
    "mlp-pp4-async-p2p": ("mlp", "pp", 4, 4, {"pas_config": _pipeline(4, "1f1b", 4)}),
    "mlp-pp2tp2-async-p2p": ("mlp", "hybrid", 4, 4, {"pas_config": _pipeline(2, "1f1b", 2)}),
    "gpt1-tp2dp2": ("gpt1", "tp", 2, 4, {}),
    "gpt-data4": ("gpt1", "data", 4, 4, {}),
    "gpt-pp4": ("gpt", "pp", 4, 4, {"pas_config": _pipeline(4, "1f1b", 4)}),
    "llama-tp4": ("llama", "tp", 4, 4, {}),
    "llama-tp2dp2": ("llama", "tp", 2, 4, {}),
    "llama-dp2-async-reducer": (
        "llama", "dp", 1, 2, {"use_async_reducer": True, "reducer_bucket_cap_mb": 0.002},
    ),
    "llama-pp2-1f1b": ("llama", "pp", 2, 2, {"pas_config": _pipeline(2, "1f1b", 2)}),
    "llama-pp2dp2-gpipe": ("llama", "pp", 2, 4, {"pas_config": _pipeline(2, "gpipe", 2)}),
    "llama-pp2tp2-1f1b": ("llama", "hybrid", 4, 4, {"pas_config": _pipeline(2, "1f1b", 2)}),
    "vision-tp2": ("vision", "tp", 2, 2, {}),
    "vision-dp4-zero": ("vision", "dp", 1, 4, {"use_zero": True}),
    "vision-pp2-infer": (
        "vision", "pp", 2, 2, {"pas_config": _pipeline(2, "infer_pipe", 2), "inference_only": True},
    ),
    "vision-data4": ("vision", "data", 4, 4, {}),
    "translator-tp2dp2": ("translator", "tp", 2, 4, {}),
    "translator-data2": ("translator", "data", 2, 2, {}),
    "translator-tp4-forward": ("translator", "tp", 4, 4, {"use_end2end": False}),
    "mixture-tp4": ("mixture", "tp", 4, 4, {}),
    "mixture-dp4-zero2": ("mixture", "dp", 1, 4, {"use_zero": True, "zero_ngroups": 2}),
    "wide-autodist2": ("wide", "autodist", 2, 2, {"pas_config": AUTODIST}),
    "wide-autodist4dp2": ("wide", "autodist", 4, 8, {"pas_config": AUTODIST}),
    "wide-autodist2-zero": (
        "wide", "autodist", 2, 4, {"pas_config": AUTODIST, "use_zero": True},
    ),
    "big-autodist4": ("big", "autodist", 4, 4, {"pas_config": AUTODIST}),
    "big-autodist2dp2-async-reducer": (
        "big", "autodist", 2, 4, {"pas_config": AUTODIST, "use_async_reducer": True},
    ),
}  # fmt: skip
"""Name -> model, policy, devices of the plan, ranks, further fields of ComputeConfig."""

OBJECTS = ("mlp-tp2dp2", "mlp-pp2tp2dp2", "mlp-dp4-zero2", "gpt-pp4", "gpt1-tp2dp2")
"""Plans whose ExecutionPlan is kept too."""

PATCHES = {
    "graph/tracer/concrete_tracer.py": [
        (
            "path = getattr(path, func.__qualname__.split('.')[0])\n",
            "path = getattr(path, func.__qualname__.split('.')[0], None)\n"  # noqa: ISC004
            "                        if path is None: continue\n",
        )
    ],
    "graph/tracer/torch_fx_patcher.py": [
        (
            "def is_impure_new(node: fx_node.Node):",
            "def is_impure_new(node: fx_node.Node, *a, **k):",
        )
    ],
    "parallel.py": [
        ("async_comm=False,", "async_comm=os.environ.get('NNSCALER_ASYNC_COMM') == '1',")
    ],
}


def prepare(source: Path, folder: Path) -> None:
    """Copy nnScaler's package, patch it and compile its extension."""
    package = folder / "nnscaler"
    shutil.copytree(source / "nnscaler", package)
    for name, edits in PATCHES.items():
        text = (package / name).read_text()
        for old, new in edits:
            if text.count(old) != 1:
                sys.exit(f"{name}: {old.strip()!r} is not there once; is it revision 1585c15?")
            text = text.replace(old, new)
        (package / name).write_text(text)
    flags = subprocess.check_output([sys.executable, "-m", "pybind11", "--includes"], text=True)
    target = package / "autodist" / f"dp_solver{sysconfig.get_config_var('EXT_SUFFIX')}"
    command = ["c++", "-O1", "-fPIC", "-shared", "-std=c++11", *flags.split()]
    command += [str(package / "autodist" / "dp_solver.cpp"), "-o", str(target), "-lpthread"]
    subprocess.run(command, check=True)


def generate(name: str, folder: Path) -> None:
    """Let nnScaler parallelize one sample (runs in a process of its own)."""
    os.environ["TRACE_STRATEGY"] = "cpu"
    import torch

    torch.cuda.current_device = lambda: 0
    torch.manual_seed(0)
    sys.path[:0] = [str(folder), str(HERE)]
    import models
    from nnscaler import parallel
    from nnscaler.flags import CompileFlag

    CompileFlag.trace_strategy = "cpu"
    kind, policy, devices, ranks, fields = SAMPLES[name]
    model = {
        "mlp": models.MLP, "wide": lambda: models.MLP(1024), "gpt": models.GPT,
        "gpt1": lambda: models.GPT(1), "llama": models.Llama,
        "big": lambda: models.Llama(2, 8192, 512), "vision": models.Vision,
        "translator": models.Translator, "mixture": models.Mixture,
    }[kind]  # fmt: skip
    if policy == "autodist":
        _stand_in(folder)
    config = parallel.ComputeConfig(
        devices, ranks, **{"use_end2end": True, "trace_strategy": "cpu", **fields}
    )
    if name in OBJECTS:
        _keep_objects(parallel, folder / f"{name}.json.gz")
    parallel.parallelize(
        model(), {"data": models.sample(kind)}, policy, config,
        gen_savedir=str(folder / "out" / name),
        load_module=False, reuse="override",
    )  # fmt: skip


def _stand_in(folder: Path) -> None:
    """Let autodist measure operators without a GPU: no memory is taken there, costs are sizes.

    What an operator costs is its elements, forward and twice that backward, so that the plan does
    not depend on what else the machine does; the solver and what it weighs are nnScaler's own.
    """
    import torch
    from nnscaler.profiler import database

    torch.cuda.current_device = lambda: "cpu"
    torch.cuda.synchronize = torch.cuda.empty_cache = lambda *_: None
    torch.cuda.reset_peak_memory_stats = lambda *_: None
    torch.cuda.max_memory_allocated = lambda *_: 0
    os.environ["HOME"] = str(folder)  # where it keeps what it measured
    measure = database.profile

    def by_size(
        node: Any, func: Any, shapes: Any, dtypes: Any, grads: Any, values: Any, **kwargs: Any
    ) -> Any:
        quick = {"warmup_sec": 1e-3, "prof_times": 1, "max_prof_sec": 1e-3}
        _, _, *memory = measure(node, func, shapes, dtypes, grads, values, **quick, **kwargs)
        cost = sum(math.prod(shape) for shape in shapes if shape is not None) * 1e-6
        return cost, 2 * cost if any(grads) else 0.0, *memory

    database.profile = by_size


def _keep_objects(parallel: Any, path: Path) -> None:
    """Write the ExecutionPlan right before code is generated from it."""
    generator = parallel.ModuleCodeGen

    def keep(plan: Any, ranks: int) -> Any:
        text = json.dumps(Fields().plan(plan), separators=(",", ":"))
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
        return generator(plan, ranks)

    parallel.ModuleCodeGen = keep


class Fields:
    """The fields of an ExecutionPlan that the adapter reads, as plain data with references."""

    def __init__(self) -> None:
        self.cells: dict[int, dict[str, Any]] = {}
        self.objects: dict[int, dict[str, Any]] = {}
        self.alive: list[Any] = []

    def plan(self, plan: Any) -> dict[str, Any]:
        """Return the whole plan."""
        schedule = plan.graph.sched
        devices = {str(d): [self.cell(c) for c in plan.seq(d)] for d in plan.devices()}
        return {
            "nmicros": schedule.nmicros if schedule is not None else None,
            "inputs": self.value(plan.graph.inputs()),
            "outputs": self.value(plan.outputs()),
            "devices": devices,
            "cells": self.cells,
            "objects": self.objects,
        }

    def cell(self, cell: Any) -> int:
        """Return the reference of a cell."""
        key = id(cell)
        if key in self.cells:
            return key
        self.alive.append(cell)
        kinds = [cls.__name__ for cls in type(cell).__mro__ if cls is not object]
        entry = self.cells[key] = {
            "kinds": kinds, "cid": cell.cid, "device": list(cell.device), "fw": cell.isfw(),
            "inputs": self.value(cell.inputs()), "outputs": self.value(cell.outputs()),
        }  # fmt: skip
        if "ExeReuseCell" in kinds:
            entry["cell"] = self.cell(cell.cell)
        if "IRSegment" in kinds:
            entry["nodes"] = [self.cell(node) for node in cell.nodes()]
        if "IRAdapter" in kinds:
            entry["prims"] = [self.prim(prim) for prim in cell.prims]
        mirror = getattr(cell, "mirror", None)
        entry["mirror"] = self.cell(mirror) if hasattr(mirror, "cid") else None
        return key

    def prim(self, prim: Any) -> dict[str, Any]:
        """Return a primitive."""
        kwargs = {key: _plain(value) for key, value in prim.kwargs.items()}
        return {
            "signature": prim.signature, "device": list(prim.device), "kwargs": kwargs,
            "inputs": self.value(prim.inputs()), "outputs": self.value(prim.outputs()),
        }  # fmt: skip

    def value(self, value: Any) -> Any:
        """Return a value with its IR objects as references ``{"ref": n}``."""
        if isinstance(value, (tuple, list)):
            return [self.value(entry) for entry in value]
        if isinstance(value, dict):
            return {str(key): self.value(entry) for key, entry in value.items()}
        if isinstance(value, slice):
            return self.value([value.start, value.stop, value.step])
        return {"ref": self.object(value)} if hasattr(value, "tid") else None

    def object(self, obj: Any) -> int:
        """Return the reference of an IR object."""
        key = id(obj)
        if key not in self.objects:
            self.alive.append(obj)
            self.objects[key] = {}
            tensor = hasattr(obj, "origin_shape")
            kinds = [cls.__name__ for cls in type(obj).__mro__ if cls is not object]
            self.objects[key] |= {
                "kinds": kinds, "name": obj.name, "tid": obj.tid, "attr": bool(obj.is_attr()),
                "device": list(obj.device),
            }  # fmt: skip
            if tensor:
                parent = obj.parent
                self.objects[key] |= {
                    "shape": list(obj.origin_shape), "dtype": str(obj.dtype),
                    "param": bool(obj.is_param()), "requires_grad": bool(obj.requires_grad),
                    "grad": getattr(obj, "grad", None) is not None,
                    "loss": bool(hasattr(obj, "is_loss") and obj.is_loss()),
                    "parent": {"name": parent.name, "shape": list(parent.origin_shape)},
                }  # fmt: skip
        return key


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_plain(entry) for entry in value]
    return value if isinstance(value, (int, float, str, bool, type(None))) else str(value)


def collect(name: str, folder: Path, out: Path) -> None:
    """Keep the generated code of a sample, without the folder names in its comments."""
    target = out / name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for path in sorted((folder / "out" / name).rglob("gencode*.py")):
        text = re.sub(r'# File "[^"]*/([^"/]+)"', r'# File "\1"', path.read_text())
        (target / path.name).write_text(text)
    if name in OBJECTS:
        (out / "objects").mkdir(exist_ok=True)
        dump = json.loads(gzip.decompress((folder / f"{name}.json.gz").read_bytes()))
        text = json.dumps(_renumbered(dump), separators=(",", ":"))
        packed = gzip.compress(text.encode(), mtime=0)
        (out / "objects" / f"{name}.json.gz").write_bytes(packed)


def _renumbered(dump: dict[str, Any]) -> dict[str, Any]:
    """Number cells and objects by first appearance: addresses differ from run to run."""
    cells = {key: place for place, key in enumerate(dump["cells"])}
    objects = {key: place for place, key in enumerate(dump["objects"])}

    def change(value: Any, field: str = "") -> Any:
        if isinstance(value, list):
            return [change(entry, field) for entry in value]
        if isinstance(value, dict):
            if value.keys() == {"ref"}:
                return {"ref": objects[str(value["ref"])]}
            return {key: change(entry, key) for key, entry in value.items()}
        known = field in {"nodes", "cell", "mirror"} and value is not None
        return cells[str(value)] if known else value

    return {
        **{key: change(dump[key]) for key in ("nmicros", "inputs", "outputs")},
        "devices": {d: [cells[str(c)] for c in seq] for d, seq in dump["devices"].items()},
        "cells": [change(entry) for entry in dump["cells"].values()],
        "objects": list(dump["objects"].values()),
    }


def main() -> None:
    """Regenerate the samples that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SAMPLES))
    parser.add_argument("--source", type=Path, help="checkout of nnScaler 0.8")
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--generate", nargs=2, metavar=("NAME", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.generate:
        generate(options.generate[0], Path(options.generate[1]))
        return
    if options.source is None:
        parser.error("--source is needed")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(options.source, folder)
        for sample in options.names or SAMPLES:
            asynchronous = "1" if sample.endswith("async-p2p") else "0"
            done = subprocess.run(
                [sys.executable, __file__, "--generate", sample, name],
                cwd=name, env={**os.environ, "NNSCALER_ASYNC_COMM": asynchronous},
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode:
                print(f"{sample}: {done.stderr[-1500:]}", file=sys.stderr)
                continue
            collect(sample, folder, options.out)
            print(sample, flush=True)


if __name__ == "__main__":
    main()
