"""A played rank whose script starts the ranks by itself, with ``torch.multiprocessing``.

Started for real they would communicate for real, unseen. The rank that is being played is the one
that would have been started, so it runs the target here.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from planguard.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Started:
    """Stands for the processes that ``join=False`` gives: they have come to their end."""

    processes: tuple[Any, ...] = ()

    def join(self, *_: Any, **__: Any) -> bool:
        return True

    def pids(self) -> list[int]:
        return []


@contextmanager
def ranks_started_here() -> Iterator[None]:
    """Let ``torch.multiprocessing`` start the one rank that this process plays."""
    import torch.multiprocessing as mp

    homes: tuple[Any, ...] = (mp, sys.modules["torch.multiprocessing.spawn"])
    originals = [home.start_processes for home in homes]
    for home in homes:
        home.start_processes = _start_processes
    try:
        yield
    finally:
        for home, original in zip(homes, originals, strict=True):
            home.start_processes = original


def _start_processes(
    fn: Any,
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,  # noqa: FBT001, FBT002 - torch's own signature
    *_: Any,
    **__: Any,
) -> Any:
    played = int(os.environ["LOCAL_WORLD_SIZE"])
    if nprocs != played:
        raise UsageError(
            f"the script starts {nprocs} processes by itself, and {played} ranks of a node are "
            "played",
            hint=f"play as many: --nproc-per-node {nprocs}, or precheck({nprocs})",
        )
    fn(int(os.environ["LOCAL_RANK"]), *args)
    return None if join else _Started()
