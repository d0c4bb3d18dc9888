"""Two calls of one size that changed places, in the training of the models of the first question.

A job is real data parallelism on gloo: replicas are made from one seed, average their parameters
before the first step, and add their gradients behind it. On rank 1 two parameters of one shape
change places in one of the two loops. Nothing fails, and sizes do not tell; every run is recorded
with a few values of what each call moves. Replicas see one batch (``same``) or each its own
(``own``): gradients of different samples have no value in common.

The models have the shapes of the first question; batch and sequence are short, since the work is
really done.
"""

from __future__ import annotations

import gc
import random
import resource
import tempfile
import time
import zlib
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fused_runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WHERE = ("none", "parameters", "gradients")
"""Where two calls of rank 1 change places."""
KINDS = (*((where, "same") for where in WHERE), ("parameters", "own"), ("gradients", "own"))
SECONDS = 240
WORLD = 2


def pair_of(model: str, shapes: Sequence[tuple[int, ...]]) -> tuple[int, int]:
    """Return two parameters of one shape, of those with more than one dimension."""
    alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for at, shape in enumerate(shapes):
        if len(shape) > 1:
            alike[shape].append(at)
    many = [places for places in alike.values() if len(places) > 1]
    rng = random.Random(zlib.crc32(model.encode()))
    first, second = sorted(rng.sample(rng.choice(many), 2))
    return first, second


def train(model: str, where: str, batches: str, rank: int, place: Path) -> None:
    """Run one rank of a job, recorded."""
    import torch
    import torch.distributed as dist

    from dl2 import models
    from planguard import capture

    models.BATCH, models.LENGTH = 1, 16
    capture.start(place / "run", values=True)
    dist.init_process_group(
        "gloo", init_method=f"file://{place}/store", rank=rank, world_size=WORLD
    )
    torch.manual_seed(0)
    one = models.MODELS[model]()
    module = one.build()
    parameters = list(module.parameters())
    first, second = pair_of(model, [tuple(p.shape) for p in parameters])
    plain = list(range(len(parameters)))
    changed = [{first: second, second: first}.get(at, at) for at in plain]
    swapped = {loop: changed if rank and where == loop else plain for loop in WHERE}
    for at in swapped["parameters"]:
        dist.all_reduce(parameters[at].data)
        parameters[at].data /= WORLD
    if batches == "own":
        torch.manual_seed(1 + rank)
    one.loss(module, *one.batch()).backward()
    for at in swapped["gradients"]:
        if parameters[at].grad is not None:
            dist.all_reduce(parameters[at].grad)
    dist.barrier()
    capture.stop()
    (place / f"ended-{rank}").write_text(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))
    dist.destroy_process_group()


def judged(model: str, where: str, batches: str) -> dict[str, Any]:
    """Run a job and return what PlanGuard says of the recording."""
    import torch

    import planguard

    torch.set_num_threads(1)
    gc.collect()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        fused_runs.forked(WORLD, SECONDS, lambda rank: train(model, where, batches, rank, place))
        ended = [(place / f"ended-{rank}").exists() for rank in range(WORLD)]
        started = time.process_time()
        verdict = planguard.check(place / "run", model="gloo") if all(ended) else None
        spent = time.process_time() - started
    return {
        "model": model, "swap": where, "batches": batches, "ended": all(ended),
        "said": verdict.outcome.value if verdict is not None else None,
        "codes": sorted({one.code for one in verdict.errors}) if verdict is not None else [],
        "found": verdict.errors[0].message if verdict is not None and verdict.errors else "",
        "seconds": round(spent, 3),
    }  # fmt: skip


def rows(
    models: Sequence[str], kinds: Sequence[tuple[str, str]] = KINDS
) -> Iterator[dict[str, Any]]:
    """Yield one row per model and job."""
    for model in models:
        for where, batches in kinds:
            yield judged(model, where, batches)


def expected(row: dict[str, Any]) -> bool:
    """Whether a swap is found where values are alike, and nothing where there is none."""
    unseen = row["swap"] == "none" or (row["swap"], row["batches"]) == ("gradients", "own")
    return bool(row["ended"]) and row["said"] == ("SAFE" if unseen else "MISMATCH")


def table(found: Sequence[dict[str, Any]]) -> str:
    """Return the rows in Markdown: a line per model, a column per job."""
    said = {(row["model"], row["swap"], row["batches"]): row for row in found}
    lines = ["| model |" + "".join(f" {where}, {batches} batch |" for where, batches in KINDS)]
    lines.append("|---" * (len(KINDS) + 1) + "|")
    for model in dict.fromkeys(row["model"] for row in found):
        cells = [
            " ".join([row["said"] or "did not end", *row["codes"]]) if row else "-"
            for kind in KINDS
            for row in [said.get((model, *kind))]
        ]
        lines.append(f"| {model} |" + "".join(f" {cell} |" for cell in cells))
    return "\n".join(lines)
