"""Inductor's passes over graphs with collectives: the changed graphs of all ranks, decided and run.

Unlike the other planners, each case is also really run (``inductor_play``), and ``ran`` sets how it
ended beside the verdict.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import planguard

from .cases import Case, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .cases import Row
    from .inductor_play import Played

MODELS = ("gloo", "nccl", "nccl-lazy", "mpi-sync")
QUICK = ("default", "bucket both, default", "bucket reduces", "decompose", "overlap",
         "overlap and bucket", "ddp: fuse_ddp_with_concat_op + schedule_comm_wait")  # fmt: skip
PLAYED: dict[tuple[str, str], str] = {}
"""How a case really ended, by job and setting."""


class Job:
    """Plays a job once, setting by setting, in the order in which cases ask."""

    def __init__(self, name: str, settings: list[str]) -> None:
        self.name, self.settings, self.failed = name, settings, ""
        self.playing: Iterator[tuple[str, Played]] | None = None

    def plan(self, setting: str) -> Any:
        """Return the plan of one setting."""
        from .inductor_play import play

        if self.playing is None:
            self.playing = play(self.name, self.settings)
        while not self.failed:
            try:
                played = next(self.playing)
            except (RuntimeError, StopIteration) as error:
                self.failed = str(error) or "not played"
                break
            if played[0] == setting:
                return self._read(*played)
        raise RefusedError(self.failed)

    def _read(self, setting: str, played: Played) -> Any:
        from planguard.capture.planner import fx_planner

        from .inductor_models import MODELS as JOBS
        from .inductor_models import WORLD

        if len(played.dumps) < WORLD:
            said = "; ".join(sorted(set(played.refused.values())))
            raise RefusedError(said or "hangs in the pass")
        PLAYED[self.name, setting] = played.outcome
        planner = fx_planner()
        programs = {r: planner.read_bundle(d).programs[r] for r, d in sorted(played.dumps.items())}
        bundle = planner.FxBundle(WORLD, programs, mesh=tuple(JOBS[self.name][0].items()),
                                  name=f"{self.name}, {setting}")  # fmt: skip
        return planguard.load(bundle, planner="fx")


def cases(*, quick: bool) -> Iterator[Case]:
    """Yield every job under every setting."""
    from .inductor_models import MODELS as JOBS
    from .inductor_passes import settings_for

    for name in JOBS:
        settings = [one for one in settings_for(name) if not quick or one in QUICK]
        job = Job(name, settings)
        for setting in settings:
            yield Case(setting, name, partial(job.plan, setting), MODELS)


def ran(rows: list[Row]) -> str:
    """Set verdicts under gloo beside how the same graphs really ran."""
    seen = [(row, PLAYED[row.options, row.kind]) for row in rows if row.outcomes]
    counts = Counter((row.outcomes["gloo"], end.partition(",")[0]) for row, end in seen)
    lines = [f"{count:5} {verdict}: {end}" for (verdict, end), count in sorted(counts.items())]
    for row, end in seen:
        if (row.outcomes["gloo"] == "SAFE") != (end == "ended"):
            lines.append(f"      {row.outcomes['gloo']}, {end}: {row.options}, {row.kind}")
    return "\n".join(lines)


def version() -> str:
    """Name the planner and its version."""
    import torch

    return f"torch {torch.__version__}, Inductor"
