"""Audits the dumps of a live job whenever they change, and waits before it says stuck.

A dump of a job that moves shows ranks inside communications as well. A finding is therefore told
only when the dumps changed and the same ranks still stand in the same actions, or when nothing was
written between two looks.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


T = TypeVar("T")


@dataclass(frozen=True)
class Look(Generic[T]):
    """One look at a folder.

    Attributes:
        result: What the audit said, when it is worth telling.
        message: What happened, for the log.
        is_final: The same answer was seen twice: nothing will change any more.
    """

    result: T | None
    message: str
    is_final: bool = False


def watch(
    folder: str, audit: Callable[[], T], *, interval: float, looks: int | None
) -> Iterator[Look[T]]:
    """Yield a look at a folder every ``interval`` seconds.

    Args:
        folder: Where dumps appear.
        audit: Reads the folder and judges it.
        interval: Seconds between two looks.
        looks: Number of looks; without end if None.
    """
    seen: dict[str, tuple[int, int]] | None = None
    suspect: object = None
    number = 0
    while looks is None or number < looks:
        if number:
            time.sleep(interval)
        number += 1
        now = _state(Path(folder))
        if not now:
            yield Look(None, f"{folder}: no dump yet")
            continue
        if now == seen and suspect is None:
            yield Look(None, f"{folder}: nothing new")
            continue
        result = audit()
        standing = _standing(result)
        is_same = standing is not None and standing == suspect
        seen, suspect = now, standing
        if standing is None:
            yield Look(result, "nothing is stuck")
        elif is_same or looks == 1:
            yield Look(result, "stuck in the same actions as before", is_final=True)
        else:
            yield Look(None, f"{folder}: ranks wait; looking again in {interval:g} s")


def _state(folder: Path) -> dict[str, tuple[int, int]]:
    state = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            known = path.stat()
            state[str(path)] = (known.st_size, known.st_mtime_ns)
    return state


def _standing(result: object) -> object:
    """Return what identifies a stuck state: codes, ranks and actions; None when there is none."""
    verdict = getattr(result, "verdict", None)
    if verdict is None or not verdict.unsafe:
        return None
    return tuple(
        (
            f.code,
            f.ranks,
            tuple((p.rank, p.action, p.text) for p in (f.primary, *f.related_actions) if p),
        )
        for f in verdict.errors
    )
