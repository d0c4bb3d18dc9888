"""Write what a DeepSpeed pipeline intends to run as JSON: for use next to DeepSpeed.

Copy this file next to your training script (it needs Python 3.8 and DeepSpeed, not PlanGuard).
``dump`` writes the commands of a schedule class and what you tell it about sizes::

    import hook
    from deepspeed.runtime.pipe.schedule import TrainSchedule

    hook.dump("plan.deepspeed.json", TrainSchedule, stages=4, micro_batches=8,
              boundaries=[[{"shape": [2, 64], "dtype": "float32"}]] * 3)

``dump_engine(engine, "plan.deepspeed.json")`` reads stages, microbatches, grid and ZeRO from an
engine that ``deepspeed.initialize`` returned; call it on one rank.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SCHEMA = "planguard.deepspeed/1"


def commands(schedule: Any, stages: int, micro_batches: int) -> list[list[list[str]]]:
    """Return the commands of a schedule class: per stage, per step, each as its ``repr``."""
    return [
        [
            [repr(command) for command in step]
            for step in schedule(micro_batches=micro_batches, stages=stages, stage_id=stage)
        ]
        for stage in range(stages)
    ]


def describe(schedule: Any, stages: int, micro_batches: int, **fields: Any) -> dict[str, Any]:
    """Return a schedule and further fields of the dump as plain dicts and lists."""
    return {
        "schema": SCHEMA,
        "deepspeed": _version(),
        "schedule": schedule.__name__,
        "micro_batches": micro_batches,
        "stages": stages,
        **fields,
        "commands": commands(schedule, stages, micro_batches),
    }


def dump(path: str, schedule: Any, stages: int, micro_batches: int, **fields: Any) -> None:
    """Write the commands of a schedule class and further fields of the dump."""
    document = describe(schedule, stages, micro_batches, **fields)
    # Aside first: what is there is a whole file or the one before. This file stands alone.
    beside = Path(f"{path}.tmp")
    beside.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    beside.replace(path)


def dump_engine(engine: Any, path: str, schedule: Any = None, **fields: Any) -> None:
    """Write the schedule, the grid and the ZeRO configuration of a live engine.

    Parameters are those of this rank's stage when there is one stage only; pass ``parameters`` and
    ``boundaries`` otherwise.
    """
    from deepspeed.runtime.pipe import schedule as module  # type: ignore[import-not-found]

    grid = getattr(engine, "grid", None)
    stages = grid.pipe_parallel_size if grid is not None else 1
    found: dict[str, Any] = {
        "data_parallel": engine.dp_world_size,
        "model_parallel": grid.model_parallel_size if grid is not None else 1,
        "loss": grid is not None,
        "zero": {
            "stage": int(engine.zero_optimization_stage()),
            "reduce_bucket_size": int(engine.zero_reduce_bucket_size()),
            "overlap_comm": bool(engine.zero_overlap_comm()),
        },
    }
    if grid is not None:
        found["partitioned"] = {
            "activations": bool(engine.is_pipe_partitioned),
            "gradients": bool(engine.is_grad_partitioned),
        }
        found["dynamic_shape"] = bool(engine.dynamic_shape)
    if stages == 1:
        found.update(_parameters(engine.module))
    chosen = schedule or (module.TrainSchedule if grid else module.DataParallelSchedule)
    micro_batches = engine.gradient_accumulation_steps()
    dump(path, chosen, stages, micro_batches, **{**found, **fields})


def _parameters(module: Any) -> dict[str, Any]:
    """Describe the parameters of a module, and the modules that own some, in their order."""
    modules = []
    for name, part in module.named_modules():
        own = [_tensor(f"{name}.{n}", p) for n, p in part.named_parameters(recurse=False)]
        if own:
            modules.append({"name": name, "parameters": own})
    flat = [tensor for one in modules for tensor in one["parameters"]]
    return {"parameters": [flat], "modules": modules}


def _tensor(name: str, tensor: Any) -> dict[str, Any]:
    shape = getattr(tensor, "ds_shape", tensor.shape)  # what ZeRO-3 took apart is empty
    return {"name": name, "shape": list(shape), "dtype": str(tensor.dtype).removeprefix("torch.")}


def _version() -> str:
    try:
        from deepspeed import __version__  # type: ignore[import-not-found]
    except ImportError:
        return "unknown"
    return str(__version__)
