"""Recorded jobs with fused buffers against what they do on real processes.

A job is a small model whose blocks have branches, hooks that put gradients into buffers, and
asynchronous reductions. It is recorded once, with the same order of branches on every rank; then it
is run again without a recorder while every rank takes its branches in an order of its own, which is
what changes the order in which gradients become ready. A run that hangs, fails or ends with wrong
gradients is wrong.

    python tests/campaigns/fused_runs.py [jobs]      prints a line a job and the counts
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

RIGHT = ("drained", "chain", "whole", "blocks")
WRONG = ("dealt", "filled", "swapped", "short")
TRIES = 4
WIDTH = 8


@dataclass(frozen=True)
class Job:
    """A job.

    Attributes:
        seed: Its number.
        kind: How gradients go into buffers, see ``RIGHT`` and ``WRONG``.
        buffers: Buffers that gradients are dealt to.
        blocks: Blocks of the model.
        branches: Branches of a block, free of each other; 1 makes the model a chain.
    """

    seed: int
    kind: str
    buffers: int
    blocks: int
    branches: int

    @classmethod
    def draw(cls, seed: int) -> Job:
        """Draw a job; every other one is made wrong."""
        rng = random.Random(seed)
        kind = (RIGHT, WRONG)[seed % 2][seed // 2 % 4]
        branches = {"chain": 1, "filled": 3}.get(kind) or rng.randint(2, 3)
        return cls(seed, kind, rng.choice((2, 3, 8)), rng.randint(3, 4), branches)


def model_of(job: Job, order: random.Random | None) -> Any:
    """Return the model; ``order`` draws the order of the branches of every block."""
    import torch
    from torch import nn

    torch.manual_seed(job.seed)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ways = nn.ModuleList(
                nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(job.branches)
            )

        def forward(self, x: Any) -> Any:
            places = list(range(job.branches))
            if order is not None:
                order.shuffle(places)
            found = {place: torch.tanh(self.ways[place](x)) for place in places}
            return sum(found[place] for place in range(job.branches))

    return nn.Sequential(*(Block() for _ in range(job.blocks)))


def buckets_of(job: Job, names: list[str]) -> list[list[str]]:
    """Return the buckets of fixed contents, in the order of readiness of their buffers."""
    if job.kind == "whole":
        return [names]
    if job.kind == "blocks":
        return [[n for n in names if n.startswith(f"{b}.")] for b in range(job.blocks)]
    if job.kind == "chain":
        return [names[at : at + 2] for at in range(0, len(names), 2)]
    lanes = [names[at :: job.buffers] for at in range(job.buffers)]
    return [lane[at : at + 2] for lane in lanes for at in range(0, len(lane), 2)]


def step(job: Job, rank: int, order: random.Random | None, *, local: bool = False) -> list[Any]:
    """Run one step and return its gradients; ``local`` communicates nothing."""
    import torch
    import torch.distributed as dist

    model = model_of(job, order)
    parameters = dict(model.named_parameters())
    x = torch.full((2, WIDTH), 0.1 * (rank + 1))
    if local:
        model(x).sum().backward()
        return [one.grad for one in parameters.values()]
    buckets = buckets_of(job, list(parameters))
    if job.kind == "swapped" and rank == 1:
        whole = [one for one in buckets if len(one) == len(buckets[0])]
        at, to = buckets.index(whole[0]), buckets.index(whole[-1])
        buckets[at][0], buckets[to][0] = buckets[to][0], buckets[at][0]
    where = {name: (b, i) for b, names in enumerate(buckets) for i, name in enumerate(names)}
    size = WIDTH * WIDTH
    flats = [torch.zeros(len(names) * size) for names in buckets]
    left = [len(names) for names in buckets]
    works: list[tuple[Any, Any, list[str]]] = []
    filling: list[tuple[str, Any]] = []

    def send(flat: Any, names: list[str]) -> None:
        works.append((dist.all_reduce(flat, async_op=True), flat, names))

    def filled(name: str, parameter: Any) -> None:
        filling.append((name, parameter.grad.reshape(-1)))
        if len(filling) == 2:
            send(torch.cat([grad for _, grad in filling]), [one for one, _ in filling])
            filling.clear()

    def placed(name: str, parameter: Any) -> None:
        bucket, place = where[name]
        flats[bucket][place * size : (place + 1) * size].copy_(parameter.grad.reshape(-1))
        left[bucket] -= 1
        if left[bucket] == 0 and job.kind != "drained":
            send(flats[bucket], buckets[bucket])

    hook = filled if job.kind == "filled" else placed
    for name, parameter in parameters.items():
        if job.kind == "short" and rank == 1 and name == next(iter(parameters)):
            continue  # its bucket is never full
        parameter.register_post_accumulate_grad_hook(lambda p, name=name: hook(name, p))
    model(x).sum().backward()
    if job.kind == "drained":
        for flat, names in zip(flats, buckets, strict=True):
            send(flat, names)
    if filling:
        send(torch.cat([grad for _, grad in filling]), [one for one, _ in filling])
    for work, flat, names in works:
        work.wait()
        for place, name in enumerate(names):
            part = flat[place * size : (place + 1) * size]
            parameters[name].grad.copy_(part.view(WIDTH, WIDTH))
    return [one.grad for one in parameters.values()]


def ends(job: Job, rank: int, world: int, order: random.Random | None, store: str) -> str:
    """Run a job and say how it ended on this rank: ``right``, ``wrong`` or ``fails``."""
    import torch
    import torch.distributed as dist

    try:
        dist.init_process_group(
            "gloo",
            init_method=f"file://{store}",
            rank=rank,
            world_size=world,
            timeout=timedelta(seconds=6),
        )
        got = step(job, rank, order)
        own = [step(job, one, None, local=True) for one in range(world)]
        wanted = [sum(parts) for parts in zip(*own, strict=True)]
        same = all(torch.allclose(a, b, atol=1e-5) for a, b in zip(got, wanted, strict=True))
        return "right" if same else "wrong"
    except RuntimeError:
        return "fails"
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def forked(world: int, seconds: float, child: Callable[[int], None]) -> bool:
    """Run ``child`` on a forked process for each rank; whether all ended in time.

    gloo ends a process that receives more than it expects, so every run has processes of its own.
    """
    left = set()
    for rank in range(world):
        pid = os.fork()
        if pid == 0:
            try:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what gloo says when it ends one
                child(rank)
            finally:
                os._exit(0)
        left.add(pid)
    until = time.monotonic() + seconds
    while left and time.monotonic() < until:
        left = {pid for pid in left if os.waitpid(pid, os.WNOHANG)[0] == 0}
        time.sleep(0.01)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return not left


def run(job: Job, world: int, place: Path, number: int) -> list[str]:
    """Run a job, recorded if ``number`` is 0; say how each rank ended."""
    forked(world, 40, lambda rank: _in_child(job, rank, world, place, number))
    files = [place / f"end-{number}-{rank}" for rank in range(world)]
    return [file.read_text() if file.exists() else "fails" for file in files]


def _in_child(job: Job, rank: int, world: int, place: Path, number: int) -> None:
    """Run one rank and write how it ended."""
    from planguard import capture

    if not number:
        capture.start(place / "run")
    order = random.Random(job.seed * 1_000 + number * 10 + rank) if number else None
    found = ends(job, rank, world, order, f"{place}/store-{number}")
    capture.stop()
    (place / f"end-{number}-{rank}").write_text(found)


def judged(folder: Path, seed: int, world: int) -> dict[str, Any]:
    """Return what PlanGuard says of a recorded job beside what it did."""
    import planguard
    from planguard.capture.run.reading import plan_of_run

    job, place = Job.draw(seed), folder / str(seed)
    place.mkdir()
    found = [end for number in range(TRIES + 1) for end in run(job, world, place, number)]
    bad = sorted(set(found) - {"right"})
    start = time.process_time()
    plan = plan_of_run(
        place / "run", buffers="seen" if job.kind in ("filled", "chain") else "fixed"
    )
    verdict = planguard.check(plan, model="gloo")
    spent = time.process_time() - start
    said = verdict.outcome.value
    agrees = said == "SAFE" if not bad else said not in ("SAFE", "UNKNOWN")
    codes = sorted({one.code for one in verdict.errors})
    return {
        **asdict(job), "truth": bad or ["right"], "said": said, "codes": codes,
        "agrees": agrees, "seconds": round(spent, 3),
    }  # fmt: skip


def campaign(jobs: list[int], world: int = 2) -> list[dict[str, Any]]:
    """Record, run and judge jobs."""
    import torch

    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    with tempfile.TemporaryDirectory() as folder:
        return [judged(Path(folder), seed, world) for seed in jobs]


if __name__ == "__main__":
    rows = campaign(list(range(int(sys.argv[1]) if len(sys.argv) > 1 else 40)))
    for row in rows:
        print(json.dumps(row))
    good = sum(row["agrees"] for row in rows)
    wrong = sum(row["truth"] != ["right"] for row in rows)
    print(f"{len(rows)} jobs, {wrong} wrong, {good} judged as they are")
