"""What a job does when its launcher starts it anew (``torchrun --max-restarts``).

A play is the first start. A program that asks how often it was started (TORCHELASTIC_RESTART_COUNT)
may communicate otherwise when it is started again: load a checkpoint, skip what was done. So it is
played as the next start, too, on all ranks alike. What that start finds on disk is what lies there
now, not what the start before would have left; that is said.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from planguard.capture.values.own_answers import Site

P = TypeVar("P")
RESTARTS = "TORCHELASTIC_RESTART_COUNT"
"""How often torchrun has started this job anew."""
START = "how often the job was started anew"
"""What is asked: a kind of ``own_answers.Site``, answered alike on all ranks."""
KIND = "restarts"
"""Of the ledger's entries: what was made of it."""


def attempt() -> int:
    """Return how often the job was started anew before this process began."""
    text = os.environ.get(RESTARTS, "")
    return int(text) if text.isdecimal() else 0


def part(sites: Iterable[Site]) -> tuple[list[Site], list[Site]]:
    """Part what all ranks are told alike by their launcher from what each asks for itself."""
    found = list(sites)
    starts = [site for site in found if site[0] == START]
    return starts, [site for site in found if site[0] != START]


@contextmanager
def next_start() -> Iterator[None]:
    """Let what is played in this block be the start behind the one that was played."""
    before = os.environ.get(RESTARTS)
    os.environ[RESTARTS] = str(attempt() + 1)
    try:
        yield
    finally:
        if before is None:
            del os.environ[RESTARTS]
        else:
            os.environ[RESTARTS] = before


def note_start(play: P, again: P | None, how: str, starts: list[Site]) -> P:
    """Return the play that decides, with what the next start showed in its ledger.

    Args:
        play: The start that was played; it is safe.
        again: The next one; None where a rank raised, or it could not be played.
        how: How that ended: ``same``, ``safe``, ``unsafe``, or anything else.
        starts: Where the program asks which start it is.
    """
    places = ", ".join(place for _, place in starts[:3])
    asked = f"the program asks how often it was started ({RESTARTS} at {places})"
    number = attempt() + 1
    if how == "unsafe" and again is not None:
        _add(again, f"{asked}; this is what it does as start {number}", "exact")
        return again
    if how in ("same", "safe"):
        files = "; on disk it found what lies there now, not what the start before would leave"
        said = f"{asked}; it was played as start {number}, too, and agrees all the same"
        _add(play, said + (files if how == "safe" else ""), "exact")
        return play
    if again is not None:  # what it shows says more than that nothing is decided
        _add(again, f"{asked}; this is what it does as start {number}", "exact")
        return again
    message = (
        f"{asked}; as start {number} it could not be played to its end: play that start by itself, "
        f"with {RESTARTS}={number} in the environment, to see why"
    )
    for direction in ("under", "over"):
        _add(play, message, direction)
    return play


def _add(play: Any, message: str, direction: str) -> None:
    _, log = min(play.logs.items())
    log.notes.append((KIND, message, direction))
