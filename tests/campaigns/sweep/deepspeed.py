"""DeepSpeed's pipeline schedules over grids, transports and ZeRO, and ZeRO without a pipeline."""

from __future__ import annotations

import itertools
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import planguard

from .cases import Case

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[3]
WAYS: dict[str, dict[str, Any]] = {
    "messages": {},
    "broadcasts": {"transport": "broadcast"},
    "shapes every time": {"dynamic_shape": True},
    "from the start": {"startup": True},
    "parts of both": {"partitioned": {"activations": True, "gradients": True}},
    "parts of activations": {"partitioned": {"activations": True, "gradients": False}},
}
"""Ways in which a pipeline sends, and what the dump says about each."""


def layer(name: str, width: int = 8) -> list[dict[str, Any]]:
    """Return the parameters of a linear layer."""
    shapes = (("weight", [width, width]), ("bias", [width]))
    return [{"name": f"{name}.{n}", "shape": s, "dtype": "float32"} for n, s in shapes]


def pipelines(*, quick: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield pipelines: kind, and the fields of the dump."""
    for schedule, stages, times, (way, said), data, model, zero, tied in itertools.product(
        ("TrainSchedule", "InferenceSchedule"), (2, 4) if quick else range(2, 9), (1, 2, 3),
        WAYS.items(), (1, 2), (1, 2), (0, 1), (False, True),
    ):  # fmt: skip
        if "partitioned" in said and model == 1:
            continue
        own = [layer(f"{stage}") for stage in range(stages)]
        fields: dict[str, Any] = {
            "data_parallel": data, "model_parallel": model, "loss": True, **said,
            "boundaries": [[{"shape": [2, 8], "dtype": "float32"}]] * (stages - 1),
            "parameters": own, "zero": {"stage": zero, "reduce_bucket_size": 150},
        }  # fmt: skip
        if tied:
            own[0] += layer("ends")
            own[-1] += layer("ends")
            ends = {"key": "ends", "stages": [0, stages - 1], "parameters": layer("ends")[:1]}
            fields["tied"] = [ends]
        fields |= {"stages": stages, "micro_batches": max(1, stages * times // 2)}
        yield f"{schedule}, {way}", {"schedule": schedule, **fields}


def zeros(*, quick: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield jobs without a pipeline: ZeRO's stages, buckets and overlap."""
    for stage, overlap, bucket, ranks, micro_batches in itertools.product(
        (0, 1, 2, 3), (False, True), (50, 150, 10**9), (2, 4) if quick else (2, 4, 8), (1, 3)
    ):
        modules = [{"name": f"{n}", "parameters": layer(f"{n}")} for n in range(6)]
        yield f"ZeRO-{stage}{', overlap_comm' if overlap else ''}", {
            "schedule": "DataParallelSchedule", "stages": 1, "data_parallel": ranks,
            "micro_batches": micro_batches, "modules": modules,
            "parameters": [[p for module in modules for p in module["parameters"]]],
            "zero": {"stage": stage, "reduce_bucket_size": bucket, "overlap_comm": overlap},
        }  # fmt: skip


def made(fields: dict[str, Any]) -> Any:
    """Let DeepSpeed's schedule class write its commands, and read them."""
    import hook  # type: ignore[import-not-found]
    from deepspeed.runtime.pipe import schedule  # type: ignore[import-not-found]

    rest = {name: value for name, value in fields.items() if name != "schedule"}
    document = hook.describe(getattr(schedule, fields["schedule"]), **rest)
    return planguard.load(document, planner="deepspeed")


def cases(*, quick: bool) -> Iterator[Case]:
    """Yield every pipeline and every stage of ZeRO."""
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    sys.path.insert(0, str(ROOT / "planners" / "deepspeed"))
    for kind, fields in itertools.chain(zeros(quick=quick), pipelines(quick=quick)):
        shown = {name: fields[name] for name in ("stages", "micro_batches", "data_parallel")}
        shown |= {"model": fields.get("model_parallel", 1), **fields["zero"]}
        text = " ".join(f"{name}={value}" for name, value in shown.items())
        yield Case(kind, f"{text}{' tied' if 'tied' in fields else ''}", partial(made, fields))


def version() -> str:
    """Name the planner and its version."""
    import deepspeed  # type: ignore[import-not-found]

    return f"DeepSpeed {deepspeed.__version__}"
