"""RQ1: deadlocks in the training of five models; 32 instances for 2, 4, 6 and 8 ranks each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dl2.draw import drawn
from dl2.job import Config

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from dl2.campaign import Case

SUBJECTS = ("mlp", "gpt2", "mbart", "swin", "openfold")
LARGE = ("gpt2", "mbart", "openfold")
"""Models that take long to record."""
REPORTS = ("send", "reduce", "gather")
"""How losses come to rank 0, by kind of job."""
_ALL = {2: (0, 1, 2), 4: (0, 1, 2), 6: (0, 1, 2), 8: (0, 1, 2)}
_ONE = {2: (0,), 4: (2,), 6: (1,), 8: (0,)}
RECORDED = {"mlp": _ALL, "swin": {**_ALL, 8: (0, 1)}, **dict.fromkeys(LARGE, _ONE)}
"""Kinds of jobs that are recorded, by model and number of ranks."""
SIZES = (2, 4, 6, 8)
INSTANCES = 32
MUTATED = 0.8
"""Share of mutated jobs; of dl2's 640 jobs, 79 % were positive."""
MESHES = {2: ((2, 1), (1, 2)), 4: ((2, 2), (4, 1)), 6: ((3, 2),), 8: ((4, 2),)}
"""Data and tensor parallelism by number of ranks."""


def configs(subject: str, size: int) -> list[Config]:
    """Return the jobs that the instances of a size are drawn from; fewer of large models."""
    found = []
    for turn in RECORDED[subject][size]:
        dp, tp = MESHES[size][turn % len(MESHES[size])]
        steps = 1 + (turn + size // 2) % 2
        passes = 1 + turn % 2
        if subject in LARGE and size > 2:
            steps = passes = 1
        found.append(
            Config(
                subject, dp, tp, steps=steps, accumulate=passes, report=REPORTS[turn],
                bucket_mb=(25.0, 5.0, 1.0)[turn], clip=turn != 1,
            )
        )  # fmt: skip
    return found


def cases(
    subject: str, plans: Path, per_size: int = INSTANCES, sizes: Sequence[int] = SIZES
) -> Iterator[Case]:
    """Yield the jobs of one model; the plans that they change are recorded once."""
    for size in sizes:
        yield from drawn(subject, size, configs(subject, size), plans, per_size, MUTATED)
