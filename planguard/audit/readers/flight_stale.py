"""States that a Flight Recorder wrote and never brought up to date.

What is captured into a CUDA graph, or went out of the watchdog's sight, keeps the state that it had
when it was made. The calls of one communicator run on a device in the order in which they were
made (NCCL's user guide, "Concurrency and ordering"; torch gives each communicator one stream): one
behind which a later call of the same communicator has completed has ended itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.recording import Progress

if TYPE_CHECKING:
    from collections.abc import Hashable

    from planguard.recording import Track

_OPEN = bytes([Progress.ISSUED, Progress.STARTED])


def complete_stale(track: Track) -> None:
    """Let calls complete behind which a later one of their communicator completed.

    Args:
        track: Calls of one rank on a backend that keeps the order of a communicator's calls.
    """
    last = track.progress.rfind(Progress.COMPLETED)
    before = track.progress[: last + 1]
    if len(before) == len(before.translate(None, _OPEN)):
        return
    done: dict[Hashable, int] = {}
    for action in range(last, -1, -1):
        key = _communicator(track, action)
        if track.progress[action] == Progress.COMPLETED:
            done.setdefault(key, track.position[action])
        elif track.progress[action] in _OPEN and track.position[action] < done.get(key, 0):
            track.progress[action] = Progress.COMPLETED


def _communicator(track: Track, action: int) -> Hashable:
    """Return what tells calls of one communicator: two ranks make one of their own for messages."""
    call = track.call_at(action)
    if not call.is_point_to_point:
        return call.group
    is_batched = action < len(track.batch) and track.batch[action] >= 0
    return call.group, call.peer, is_batched
