"""A rank's actions as columns: a long run costs a few machine words per action."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import overload

from planguard.recording.observed import Call, Observed, Progress

ABSENT = -1
_PROGRESS = tuple(Progress)


class Track(Sequence[Observed]):
    """A sequence of observed actions, kept in columns and made into objects when looked at.

    Attributes:
        calls: The distinct calls.
        call: Index into ``calls``, per action.
        position: See ``Observed.position``.
        progress: ``Progress`` values.
        created: Nanoseconds, ``ABSENT`` where not recorded.
        number: The recorder's own number, ``ABSENT`` where it has none.
        batch: Number of the launch, ``ABSENT`` outside of one; empty when there is none at all.
        more: Index to ``(is_async, work)`` of the actions for which either is known.
    """

    __slots__ = ("batch", "call", "calls", "created", "more", "number", "position", "progress")

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.call = array("I")
        self.position = array("q")
        self.progress = bytearray()
        self.created = array("q")
        self.number = array("q")
        self.batch = array("q")
        self.more: dict[int, tuple[bool | None, str | None]] = {}

    @classmethod
    def of(cls, actions: Iterable[Observed]) -> Track:
        """Return actions as columns."""
        if isinstance(actions, Track):
            return actions
        track, places = cls(), dict[Call, int]()
        for one in actions:
            place = places.setdefault(one.call, len(places))
            if place == len(track.calls):
                track.calls.append(one.call)
            track.add(
                place,
                one.position,
                one.progress,
                ABSENT if one.created_ns is None else one.created_ns,
                ABSENT if one.number is None else one.number,
            )
            if one.is_async is not None or one.work is not None:
                track.more[len(track) - 1] = (one.is_async, one.work)
            if one.batch is not None:
                track.set_batch(len(track) - 1, one.batch)
        return track

    def add(
        self, call: int, position: int, progress: int, created: int = ABSENT, number: int = ABSENT
    ) -> None:
        """Append one action; what has more than 63 bits counts and times nothing."""
        self.call.append(call)
        self.position.append(position)
        self.progress.append(progress)
        self.created.append(created if -1 <= created < 1 << 63 else ABSENT)
        self.number.append(number if -1 <= number < 1 << 63 else ABSENT)

    def set_batch(self, action: int, batch: int) -> None:
        """Say that an action was part of a launch."""
        if len(self.batch) < len(self.call):
            self.batch.extend([ABSENT] * (len(self.call) - len(self.batch)))
        self.batch[action] = batch

    def __len__(self) -> int:
        return len(self.call)

    @overload
    def __getitem__(self, index: int) -> Observed: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Observed]: ...
    def __getitem__(self, index: int | slice) -> Observed | Sequence[Observed]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        is_async, work = self.more.get(index, (None, None))
        batch = self.batch[index] if index < len(self.batch) else ABSENT
        created, number = self.created[index], self.number[index]
        return Observed(
            self.calls[self.call[index]],
            self.position[index],
            _PROGRESS[self.progress[index]],
            is_async,
            work,
            None if batch == ABSENT else batch,
            None if created == ABSENT else created,
            None if number == ABSENT else number,
        )

    def call_at(self, action: int) -> Call:
        """Return the call of an action."""
        return self.calls[self.call[action]]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[object, ...]:
        # As bytes: an array by itself is written with its type, and how that looks in memory.
        columns = [getattr(self, name).tobytes() for name in _COLUMNS]
        return (_restore, (self.calls, self.progress, self.more, *columns))


_COLUMNS = {"call": "I", "position": "q", "created": "q", "number": "q", "batch": "q"}


def _restore(
    calls: list[Call],
    progress: bytearray,
    more: dict[int, tuple[bool | None, str | None]],
    *columns: bytes,
) -> Track:
    track = Track()
    track.calls, track.progress, track.more = calls, progress, more
    for (name, code), column in zip(_COLUMNS.items(), columns, strict=True):
        setattr(track, name, array(code, column))
    return track
