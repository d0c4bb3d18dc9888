"""Where the samples of the others make no difference to a rank: nothing is left to be played.

A rank is a function of its sample and of what it hears from the others. Every sample is played on
every rank, whatever the others have. If each rank then says the same to the others, word for word,
whichever sample it has (what it contributes, sends, sets and asks for, in order), then by induction
over the messages it hears the same, too, whichever samples the others have: no rank can tell
assignments apart. If it also issues the same calls for every sample, then each assignment has the
plan that was played.

That needs that nothing but messages and the store reaches a rank (``play/hidden`` notes the rest),
that no reading of the store depends on who comes first, and that no value is made up that decides
(such a play is no SAFE one). Where any of that is not so, assignments are played as before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planguard.capture.restarts import START
from planguard.capture.values.own_answers import FILE, STATE
from planguard.capture.values.own_folders import FOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planguard.capture.batches.samples import Assignment
    from planguard.capture.play.logs import RankLog
    from planguard.capture.play.ranks import Play

_DISK = (FILE, FOLDER, STATE, START)

Told = tuple[bytes, ...]
"""What each rank did and said, by rank."""


def told_in(play: Play) -> Told | None:
    """Return what the ranks of a play did and said; None where that is no argument."""
    logs = [log for _, log in sorted(play.logs.items())]
    if play.stuck or play.is_doubted or len(logs) != play.world_size:
        return None
    if any(map(_is_open, logs)):
        return None
    return tuple(replace(log, imported=[], parsed=[]).to_json() for log in logs)


def _is_open(log: RankLog) -> bool:
    """Tell whether something else than its sample and its messages may decide what a rank does."""
    asks_disk = any(kind in _DISK for kind, _ in log.sites)
    return bool(not log.said or log.end or log.hidden or log.store_races or log.waits or asks_disk)


def cannot_tell(told: Mapping[Assignment, Told | None]) -> bool:
    """Tell whether every rank did and said the same in all of these plays."""
    found = set(told.values())
    return len(found) == 1 and None not in found
