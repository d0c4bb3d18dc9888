"""The jobs of a subject, drawn from the plans of a few configurations."""

from __future__ import annotations

import random
import zlib
from typing import TYPE_CHECKING

from dl2.campaign import Case
from dl2.mutate import mutant
from dl2.record import recorded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from dl2.job import Config


def drawn(
    subject: str, size: int, configs: Iterable[Config], plans: Path, count: int, share: float
) -> Iterator[Case]:
    """Yield jobs of one size, a share of them changed; the number of a job is its seed."""
    written = [(config.name, recorded(config, plans)) for config in configs]
    for instance in range(count):
        seed = zlib.crc32(f"{subject}/{size}/{instance}".encode())
        rng = random.Random(seed)
        name, original = written[rng.randrange(len(written))]
        document, mutation = original, None
        if rng.random() < share:
            document, mutation = mutant(original, seed)
        yield Case(subject, size, instance, name, document, original, mutation)
