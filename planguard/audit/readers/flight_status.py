"""What a Flight Recorder dump counts beyond its entries: ``pg_status``, by process group.

The recorder of NCCL writes down the number of the last call that each process group enqueued,
started and completed, beside the entries (``FlightRecorder.hpp`` of torch 2.13). An entry is made
before its call is enqueued, so a number that is ahead of the entries is of one that was lost. The
watchdog counts as completed what ended with an error, too: that a call completed is taken from its
entry only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from planguard.recording import UNNAMED, Call, Progress
from planguard.words import clean, shown

if TYPE_CHECKING:
    from planguard.audit.readers.flight_entries import Entries, Newest
    from planguard.audit.readers.part import Part

MAX_GROUPS = 100_000

AHEAD = (
    "{}: its status says that #{} was enqueued on group {}, and its entries of that group end at "
    "#{}: what it did last is missing"
)
UNSEEN = (
    "{}: its status says that process group {} enqueued #{}, and it has no entry of that group: "
    "what was called there is missing"
)
BEHIND = (
    "{}: its status says that #{} was the last to complete on group {}, and #{} was enqueued, "
    "against entries that all ended: one of the two is of an earlier moment"
)


class Status(NamedTuple):
    """Numbers of the last calls of one process group, 0 for none."""

    enqueued: int
    completed: int


def compare_status(value: Any, found: Entries) -> None:
    """Note in a part what its status counts and its entries do not show.

    Args:
        value: ``pg_status`` of the dump, of any form; what is none is left out.
        found: Its entries.
    """
    statuses = _statuses(value)
    if not statuses:
        return
    part, newest = found.part, found.newest
    numbered = any(own >= 0 for own, _ in newest)
    for key, status in statuses.items():
        # Where entries do not number their process group, its name is all there is.
        own = [one for (n, name), one in newest.items() if key == (str(n) if numbered else name)]
        own = own or [one for (_, name), one in newest.items() if key == name]
        if not own:
            if status.enqueued > 0 and not part.dropped:
                part.lost = part.lost or UNSEEN.format(
                    clean(part.file), shown(key), status.enqueued
                )
            continue
        _compare(part, own[-1], status)


def _compare(part: Part, newest: Newest, status: Status) -> None:
    file, group = clean(part.file), shown(newest.group)
    if status.enqueued > newest.number:
        said = AHEAD.format(file, status.enqueued, group, newest.number)
        part.lost = part.lost or said
        if not newest.has_pairs:
            _add_counted(part, newest.group, status)
        return
    # Messages and collectives have numbers of their own, and the status is of either.
    if newest.has_pairs or status.completed >= status.enqueued:
        return
    track = part.track
    if all(
        state == Progress.COMPLETED
        for place, state in zip(track.call, track.progress, strict=True)
        if track.calls[place].group == newest.group
    ):
        said = BEHIND.format(file, status.completed, group, status.enqueued)
        part.trouble = part.trouble or said


def _add_counted(part: Part, group: str, status: Status) -> None:
    """Append the last call that the status counts: its rank came to it, whichever it is."""
    track = part.track
    track.calls.append(Call(UNNAMED, group))
    is_done = status.completed >= status.enqueued
    progress = Progress.COMPLETED if is_done else Progress.STARTED
    track.add(len(track.calls) - 1, status.enqueued, progress)


def _statuses(value: Any) -> dict[str, Status]:
    """Return the status of each process group by its number, as text."""
    found: dict[str, Status] = {}
    if not isinstance(value, dict) or len(value) > MAX_GROUPS:
        return found
    for key, one in value.items():
        if type(key) not in (str, int) or not isinstance(one, dict):
            continue
        enqueued = _number(one.get("last_enqueued_collective"))
        completed = _number(one.get("last_completed_collective"))
        if enqueued > 0:
            found[str(key)[:200]] = Status(enqueued, completed)
    return found


def _number(value: Any) -> int:
    """Return a number as pickles and JSON write it; 0 where it is none."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        value = int(value)
    return value if type(value) is int and 0 <= value < 1 << 62 else 0
