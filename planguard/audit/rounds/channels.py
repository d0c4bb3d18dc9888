"""Channels: which recorded send meets which receive, and who is left waiting in one."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planguard.audit.rounds.rounds import unsaid
from planguard.audit.rounds.waits import Wait
from planguard.recording import UNRECORDED, Progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.recording import Recording

Key = tuple[str, int, int]
"""Group, sender, receiver."""
_OPEN = (Progress.ISSUED, Progress.STARTED, Progress.FAILED)


@dataclass
class Channel:
    """Sends and receives of one direction of one pair, as action indices in issue order."""

    sends: list[int] = field(default_factory=list)
    recvs: list[int] = field(default_factory=list)


class Channels:
    """All sends and receives of a recording.

    Attributes:
        channels: By group, sender and receiver.
        blind: The action of every rank that stands in a send or receive of unknown peer.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.channels: dict[Key, Channel] = defaultdict(Channel)
        self.blind: dict[int, int] = {}
        self._unsaid = unsaid(recording)
        for rank, record in recording.ranks.items():
            track = record.track
            pairs = [call.is_point_to_point or call.op == UNRECORDED for call in track.calls]
            if not any(pairs):
                continue
            for action, place in enumerate(track.call):
                if pairs[place]:
                    self._add(rank, action)

    def _add(self, rank: int, action: int) -> None:
        track = self.recording.ranks[rank].track
        call = track.call_at(action)
        if call.op == UNRECORDED or call.peer is None:
            if track.progress[action] in _OPEN:
                self.blind[rank] = action
            return
        group = call.group or "world"
        if call.family == "send":
            self.channels[group, rank, call.peer].sends.append(action)
        else:
            self.channels[group, call.peer, rank].recvs.append(action)

    def pairs(self) -> Iterator[tuple[Key, int, int]]:
        """Yield every channel's matched send and receive, by position; nothing of cut records."""
        for key in self.channels:
            yield from self._pairs_of(key)

    def _pairs_of(self, key: Key) -> Iterator[tuple[Key, int, int]]:
        channel = self.channels[key]
        if self._is_cut(key[1]) or self._is_cut(key[2]):
            return
        for send, recv in zip(channel.sends, channel.recvs, strict=False):
            yield key, send, recv

    def _is_cut(self, rank: int) -> bool:
        record = self.recording.ranks.get(rank)
        return record is None or record.dropped > 0

    def waits(self) -> Iterator[Wait]:
        """Yield every send or receive that a rank was left in, with the rank it waits for.

        Positions count from the start of the run. Where a record was cut they count among what has
        not completed instead: both sides of a pair complete together.
        """
        for (group, src, dst), channel in self.channels.items():
            is_cut = self._is_cut(src) or self._is_cut(dst)
            for rank, other, own, others, why in (
                (src, dst, channel.sends, channel.recvs, "send-unmatched"),
                (dst, src, channel.recvs, channel.sends, "recv-unmatched"),
            ):
                unclear = other in self._unsaid or other not in self.recording.ranks
                left = self._left(rank, own, len(own) if unclear else len(others))
                rest = [action for _, action in self._left(other, others, len(own))]
                for number, (place, action) in enumerate(left):
                    partners, index = (rest, number) if is_cut else (others, place)
                    partner = partners[index] if index < len(partners) else None
                    if partner is None:
                        yield Wait(rank, action, group, 0, other, why)
                    elif self._is_queued(rank, action, other, partner):
                        yield Wait(rank, action, group, 0, other, "queue", partner)

    def met(self) -> Iterator[tuple[Key, int, int]]:
        """Yield the first send of a channel that met its receive and did not end on both sides."""
        for key in self.channels:
            for _, send, recv in self._pairs_of(key):
                states = {self._state(key[1], send), self._state(key[2], recv)}
                if Progress.STARTED in states <= {Progress.STARTED, Progress.COMPLETED}:
                    yield key, send, recv
                    break

    def _state(self, rank: int, action: int) -> Progress:
        return Progress(self.recording.ranks[rank].track.progress[action])

    def _left(self, rank: int, actions: list[int], partners: int) -> list[tuple[int, int]]:
        """Return place and action of what did not complete."""
        record = self.recording.ranks.get(rank)
        if record is None:
            return []
        states = record.track.progress
        return [
            (place, action)
            for place, action in enumerate(actions)
            if states[action] in _OPEN or (states[action] == Progress.UNKNOWN and place >= partners)
        ]

    def _is_queued(self, rank: int, action: int, other: int, partner: int) -> bool:
        """Tell whether one side has started and the other was issued only."""
        states = self.recording.ranks[rank].track.progress
        theirs = self.recording.ranks[other].track.progress
        return states[action] == Progress.STARTED and theirs[partner] == Progress.ISSUED
