"""Jobs of trainers against the plans that adapters make of them, before anything runs.

    python benchmarks/trainers/conformance.py

The plan comes from the model or the schedule alone. The job runs on two real gloo processes under
``dryrun --plan``: as it was planned, and with a change made on all ranks, which communicates well
and yet departs from the plan: the verdict must stay SAFE, and the conformance must tell it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from measure import HERE, planguard, run, verdict_of

import planguard as pg

if TYPE_CHECKING:
    from collections.abc import Callable

sys.path.insert(0, str(HERE / "jobs"))


@dataclass(frozen=True)
class Planned:
    """A job with a plan.

    Attributes:
        name: As the table names it.
        job: Script in ``jobs``.
        plan: Makes its plan.
        change: What all its ranks do otherwise.
    """

    name: str
    job: str
    plan: Callable[[], pg.Plan]
    change: str


def ddp() -> pg.Plan:
    """Return the plan of three steps of DDP."""
    import plain_ddp
    from common import net

    options = {"bucket_cap_mb": plain_ddp.CAP_MB, "steps": plain_ddp.STEPS}
    return pg.load(net(), planner="ddp", world_size=2, **options)


def pipeline() -> pg.Plan:
    """Return the plan of a 1F1B schedule, which only computes with numbers of stages."""
    import one_f_one_b as job
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    stage = PipelineStage(torch.nn.Linear(job.WIDTH, job.WIDTH), 0, 2, torch.device("cpu"))
    schedule = Schedule1F1B(stage, job.BATCHES, loss_fn=torch.nn.functional.mse_loss)
    found = pg.load(schedule, planner="pipelining", bytes=4 * job.ROWS * job.WIDTH)
    dist.destroy_process_group()
    return found


JOBS = (
    Planned("DDP", "plain_ddp", ddp, "one step fewer on all ranks"),
    Planned("pipeline, 1F1B", "one_f_one_b", pipeline, "fewer micro-batches on all ranks"),
)


def measured(job: Planned, plan: Path, change: str, place: Path) -> dict[str, object]:
    """Run a job beside its plan; return what was said."""
    place.mkdir()
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    words = [*launch, "--nproc-per-node", "2", str(HERE / "jobs" / f"{job.job}.py")]
    command = planguard("dryrun", "--witness", "--plan", str(plan), "-o", "run", "--", *words)
    ended = run(command, {"TRAINERS_SLIP": change, "TRAINERS_OUT": str(place)}, 120, place)
    outcome, why = verdict_of(ended)
    said = re.search(r"^conformance: (.*)$", ended.out, re.MULTILINE)
    return {
        "job": job.name, "change": change, "verdict": outcome, "why": why, "code": ended.code,
        "conformance": said.group(1) if said else "", "told": "error[PG503]" in ended.out,
    }  # fmt: skip


def problems(row: dict[str, object]) -> list[str]:
    """Return what a row must not say."""
    is_equal = re.match(r"\d+ EQUAL \(", str(row["conformance"])) is not None
    found = [] if row["verdict"] == "SAFE" else [f"the verdict is {row['verdict']}: {row['why']}"]
    if is_equal == bool(row["change"]) or row["told"] != bool(row["change"]):
        found.append(f"conformance: {row['conformance'] or 'none'}, PG503: {row['told']}")
    return found


def main() -> int:
    """Run all jobs; 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one line of JSON for each run")
    args = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, job in enumerate(JOBS):
            plan = Path(folder) / f"{job.job}.plan.json"
            plan.write_bytes(job.plan().source)
            for change in ("", job.change):
                place = Path(folder) / f"{number}{bool(change):d}"
                row = measured(job, plan, change, place)
                print(
                    json.dumps(row)
                    if args.json
                    else f"| {row['job']} | {change or 'as planned'} | {row['verdict']} | "
                    f"{row['conformance']} |",
                    flush=True,
                )
                for problem in problems(row):
                    bad += 1
                    print(f"    {problem}", flush=True)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
