"""RQ2: synthesized plans: five hierarchical collectives, and Inception with branches reordered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dl2 import hierarchical
from dl2.campaign import Case
from dl2.draw import drawn
from dl2.job import Config
from dl2.record import recorded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

SUBJECTS = (*hierarchical.COLLECTIVES, "inception", "inception-blocking")
EXCHANGES = ("branch", "message")
INSTANCES = 16
MUTATED = 0.5
MESHES = {2: (1, 2), 4: (2, 2), 6: (3, 2), 8: (4, 2)}


def cases(
    subject: str, plans: Path, per_size: int = INSTANCES, sizes: Sequence[int] = tuple(MESHES)
) -> Iterator[Case]:
    """Yield the jobs of one collective, or those of Inception."""
    if subject.startswith("inception"):
        ways = EXCHANGES if subject == "inception-blocking" else ("shared",)
        yield from _schedules(subject, ways, plans, per_size, sizes)
        return
    for size in sizes:
        configs = hierarchical.configs(subject, size)
        yield from drawn(subject, size, configs, plans, per_size, MUTATED)


def _schedules(
    subject: str, exchanges: Sequence[str], plans: Path, per_size: int, sizes: Sequence[int]
) -> Iterator[Case]:
    """Yield Inception's jobs: nothing is mutated, the orders of the branches are drawn."""
    for size in sizes:
        dp, tp = MESHES[size]
        for instance in range(per_size):
            config = Config(
                "inception", dp, tp, report="reduce", schedule=100 * size + instance,
                exchange=exchanges[instance % len(exchanges)],
            )  # fmt: skip
            document = recorded(config, plans)
            yield Case(subject, size, instance, config.name, document, document, None)
