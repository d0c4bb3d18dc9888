"""Trials of a made-up experiment: plans of six adapters with varied parameters and planted faults.

What a trial communicates is decided by its parameters alone; a fault is planted where they say so:

* pipelining: ``defer_recv`` with any schedule that sends both ways in one step (pytorch#172668);
* ddp: ``drop_last=False`` with a batch that does not divide, so the last rank has a step less;
* fsdp: ``reshard="by-memory"``, one rank that keeps its parameters and gathers less often;
* horovod: ``freeze="rank-local"``, one rank that never submits a gradient;
* xla: a program in which one rank skips a collective; nnscaler: a pipeline with a broken order.
"""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path

import planguard

SAMPLES = Path(__file__).resolve().parents[1] / "tests" / "samples"
BOTH_WAYS = ("interleaved1f1b", "interleavedzb", "loopedbfs", "zbv")
SCHEDULES = ("gpipe", *BOTH_WAYS)
XLA = ("mlp", "fsdp", "ring", "pipeline", "moe", "stages")
NNSCALER = ("mlp-dp4", "mlp-dp4-zero2", "mlp-pp4-1f1b", "mlp-pp4-gpipe", "mlp-pp4-infer")


def pipelining(rng, fault):
    """A schedule of torch.distributed.pipelining."""
    schedule = rng.choice(BOTH_WAYS if fault else SCHEDULES)
    defer = fault or (schedule == "gpipe" and rng.random() < 0.5)
    params = {
        "schedule": schedule,
        "defer_recv": defer,
        "size": rng.choice(("2x4", "2x4", "4x8")),
        "activation_kb": rng.choice((64, 128, 256, 512)),
    }
    return params, (params["schedule"], params["size"], defer, params["activation_kb"])


def ddp(rng, fault):
    """Data parallelism with buckets."""
    world = rng.choice((2, 4, 8))
    batch = rng.choice((48, 72, 104)) if fault else rng.choice((32, 64, 128, 48, 72))
    params = {
        "module": rng.choice(("mlp", "norms", "find-unused")),
        "world": world,
        "bucket_mb": rng.choice((0.05, 0.1, 0.25, 0.5, 1, 25)),
        "batch": batch,
        "drop_last": not fault and (batch not in {32, 64, 128} or rng.random() < 0.5),
    }
    return params, (params["module"], world, params["bucket_mb"], fault)


def fsdp(rng, fault):
    """Fully sharded data parallelism."""
    params = {
        "module": rng.choice(("mlp", "bf16", "frozen")),
        "world": rng.choice((2, 4, 8)),
        "prefetch": rng.choice((0, 1, 2)),
        "reshard": "by-memory" if fault else rng.choice(("always", "never")),
    }
    return params, (params["module"], params["world"], params["prefetch"], params["reshard"])


def horovod(rng, fault):
    """Data parallelism with negotiated fusion."""
    params = {
        "module": rng.choice(("mlp", "fp16")),
        "world": rng.choice((2, 4)),
        "fusion_kb": rng.choice((0, 1, 64, 4096)),
        "freeze": "rank-local" if fault else rng.choice(("none", "resumed")),
    }
    return params, (params["module"], params["world"], params["fusion_kb"], params["freeze"])


def xla(rng, fault):
    """A program of XLA after partitioning."""
    params = {"program": "skipped" if fault else rng.choice(XLA)}
    return params, (params["program"],)


def nnscaler(rng, fault):
    """Generated code of nnScaler."""
    params = {"plan": "gpt-pp4" if fault else rng.choice(NNSCALER)}
    return params, (params["plan"],)


FAMILIES = (pipelining, pipelining, ddp, ddp, fsdp, horovod, xla, nnscaler)


@cache
def plan_of(planner, key):
    """The bytes of the plan that an adapter makes of a choice of parameters."""
    return _load(planner, *key).source


def _load(planner, *key):
    if planner == "pipelining":
        schedule, size, defer, kb = key
        path = SAMPLES / planner / f"{schedule}-{size}.csv"
        return planguard.load(path, planner=planner, defer_recv=defer, bytes=kb << 10)
    if planner == "xla":
        return planguard.load(SAMPLES / planner / f"{key[0]}.hlo", planner=planner)
    if planner == "nnscaler":
        return planguard.load(SAMPLES / planner / key[0], planner=planner)
    module, world, size, choice = key
    document = json.loads((SAMPLES / planner / f"{module}.{planner}.json").read_text("utf-8"))
    document["world_size"] = world
    options = document.setdefault("options", {})
    options["steps"] = 2
    given = {}
    if planner == "ddp":
        options["bucket_cap_mb"] = size
        if choice:
            given = {world - 1: {"steps": 1}}
    elif planner == "fsdp":
        options.update(forward_prefetch=size, reshard_after_forward=choice != "never")
        if choice == "by-memory":
            given = {1: {"reshard_after_forward": False}}
    else:
        last = document["parameters"][-1]["name"]
        options["fusion_threshold"] = size << 10
        options["broadcast_parameters"] = choice != "resumed"
        if choice == "rank-local":
            given = {1: {"missing": [last]}}
    return planguard.load(document, planner=planner, rank_options=given or None)


def trials(count, seed=0, faults=0.07):
    """Yield ``(name, plan bytes, parameters, whether a fault was planted)``."""
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        family = rng.choice(FAMILIES)
        fault = rng.random() < faults
        params, key = family(rng, fault)
        extra = {"planner": family.__name__, "lr": rng.choice((1e-4, 3e-4, 1e-3)), "seed": number}
        yield f"trial-{number:05}", plan_of(family.__name__, key), {**params, **extra}, fault


def write_lines(path, count, seed=0):
    """Write a JSONL file of trials, no two plans equal bytes; return the names of the planted."""
    planted = set()
    with Path(path).open("wb") as file:
        for name, plan, params, fault in trials(count, seed):
            head = json.dumps({"name": name, "params": params})[:-1].encode()
            own = b'{"x-trial": "%s", ' % name.encode() + plan.replace(b"\n", b" ").lstrip()[1:]
            file.write(head + b', "plan": ' + own + b"}\n")
            if fault:
                planted.add(name)
    return planted
