"""Plans of jobs, recorded by PlanGuard's dry run: every rank played, computation left undone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import torch._dynamo  # noqa: F401  optimizers import it: once here, not in every rank's process

from dl2 import hierarchical, job
from planguard.capture import precheck
from planguard.plan.flatten import flatten

if TYPE_CHECKING:
    from pathlib import Path


Config = job.Config | hierarchical.Config


def record(config: Config) -> dict[str, Any]:
    """Return the flat plan of a job, recorded without communication or large computation."""
    is_job = isinstance(config, job.Config)
    is_shared = is_job and config.model == "inception" and config.exchange == "shared"
    is_small = not is_job or is_shared  # the pictures of Inception are small
    check = precheck(
        config.dp * config.tp if is_job else config.nodes * config.local,
        ranks="all",
        compute="real" if is_small else "stub",
        jobs=8 if is_small else None,
        on_unsafe="return",
        model="gloo",
        name=config.name,
        timeout=600.0,
    )
    check.run(job.train if is_job else hierarchical.train, config)
    assert check.plan is not None
    return flatten(check.plan)


def recorded(config: Config, folder: Path) -> dict[str, Any]:
    """Return the plan of a job from a folder of plans, recorded into it the first time."""
    file = folder / f"{config.name}.plan.json"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(record(config))
        file.write_text(text, encoding="utf-8")
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found
