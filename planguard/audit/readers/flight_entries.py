"""Entries of a Flight Recorder dump as columns.

Dumps are long and their entries alike: a program makes the same calls in the same order, step
after step. Every entry is therefore compared first with the one that followed its predecessor
before; what differs is looked up, and only what is new is taken apart.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from planguard.audit.readers.flight_calls import END, FIELDS, Calls, group_name, text
from planguard.errors import PlanError
from planguard.recording import UNRECORDED, Call, Progress

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planguard.audit.readers.flight_calls import Row
    from planguard.audit.readers.part import Part

MAX_HIDDEN = 1_000_000
"""Most calls of one rank that were counted and not written down."""
LARGEST = 1 << 62
CANDIDATES = 8
"""Entries of one call site that are compared with a new one before it is taken apart."""
NUMBERS = ("record_id", "collective_seq_id", "p2p_seq_id", "op_id", "time_created_ns", "pg_id")
"""Fields that are numbers, and text in the JSON that some versions write."""
_STATES = {
    "scheduled": int(Progress.ISSUED),
    "started": int(Progress.STARTED),
    "completed": int(Progress.COMPLETED),
}
_BY_NUMBER = bytes(_STATES.values()) + bytes(253)
"""Progress of a state by its number among those, 0 of any other; ``native/src/dump.cpp``."""
_RETIRED = bytes([Progress.ISSUED, Progress.COMPLETED]) + bytes(254)
"""Progress of a gloo call, by whether it is retired."""


_WRONG = (
    TypeError, ValueError, KeyError, AttributeError, IndexError, OverflowError, RecursionError,
)  # fmt: skip
"""What is raised where something that is read is no table of entries."""


class _Told:
    """Says in one sentence what may be wrong with entries, and notes what a backend leaves out."""

    def __init__(self, entries: Entries) -> None:
        self.entries = entries

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        part = self.entries.part
        if kind is None:
            if self.entries.calls.is_gloo:
                part.lacks = ("point-to-point",)
        elif issubclass(kind, _WRONG):
            said = "an entry lacks a field, or has a value of a wrong type"
            raise PlanError(said, file=part.file, path="$.entries") from None


class Newest(NamedTuple):
    """The last numbers that the entries of one process group have.

    Attributes:
        group: Name of the group.
        number: Number of the last collective, or of a last send or receive if that is larger.
        has_pairs: Some entry is a send or receive.
    """

    group: str
    number: int
    has_pairs: bool


class Entries:
    """Turns the entries of one dump into the track of its part.

    Attributes:
        part: The part.
    """

    def __init__(self, part: Part) -> None:
        self.part = part
        self.calls = Calls(part)
        self.known: list[Row | None] = []
        self.places: list[int] = []
        self.sites: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        self.placeholders: dict[str, int] = {}
        self.op_ids: dict[str, int] = {}
        self.open: dict[str, list[int]] = defaultdict(list)
        self.hidden = 0
        self._last: dict[tuple[int, str, bool], Newest] = {}
        self._columns: tuple[Any, ...] = ()

    @property
    def newest(self) -> dict[tuple[int, str], Newest]:
        """The last numbers of each process group, by its ``pg_id`` (-1: none) and its own name."""
        if self._columns:
            with _Told(self):
                self._count_columns(*self._columns)
            self._columns = ()
        found: dict[tuple[int, str], Newest] = {}
        for (own, name, is_pair), one in self._last.items():
            other = found.pop((own, name), one)
            number, has_pairs = max(one.number, other.number), is_pair or other.has_pairs
            found[own, name] = Newest(one.group, number, has_pairs)
        return found

    def _count(self, own: int, pair: Any, number: int, *, is_pair: bool) -> None:
        """Note the numbers of an entry behind those of its process group."""
        key = own, text(pair[0], 200), is_pair
        self._last.pop(key, None)  # in the order of their last entries
        self._last[key] = Newest(group_name(pair), number, is_pair)

    def _count_columns(
        self,
        rows: list[Row],
        slots: array[int],
        position: array[int],
        pair: array[int],
        own: array[int],
        is_pair: bytes,
    ) -> None:
        last = dict(zip(zip(own, slots, is_pair, strict=True), range(len(own)), strict=True))
        for (one, row, is_two), n in sorted(last.items(), key=itemgetter(1)):
            self._count(one, rows[row][0], max(position[n], pair[n]), is_pair=bool(is_two))

    def read(self, entries: list[Any]) -> None:
        """Read all entries, oldest first.

        Raises:
            PlanError: Entries are no tables, lack a field or hold a value of a wrong type.
        """
        if not set(map(type, entries)) <= {dict}:
            raise PlanError("an entry is no table", file=self.part.file, path="$.entries")
        with _Told(self):
            if entries and any(type(entries[0].get(name)) is str for name in NUMBERS):
                entries = [_numbered(entry) for entry in entries]
            self._read(entries)

    def read_columns(self, rows: list[Row], *columns: bytes) -> None:
        """Read what ``kernels.twin_dump.dump_columns`` describes.

        Raises:
            PlanError: A call lacks a field, or holds a value of a wrong type.
        """
        if rows:
            with _Told(self):
                self._read_columns(rows, *columns)

    def _read_columns(self, rows: list[Row], slot: bytes, *columns: bytes) -> None:
        place_of = list(map(self.calls.place_kept, rows))
        slots = array("I", slot)
        number, created, position, pair, op, own = (array("q", column) for column in columns[:6])
        state, is_retired, is_pair = columns[6:]
        self._columns = rows, slots, position, pair, own, is_pair
        self.part.dropped = max(0, number[0])
        # Most often every row is a call of its own, and the columns are there already.
        is_same = place_of == list(range(len(rows)))
        places = slots if is_same else list(map(place_of.__getitem__, slots))
        pairs = {n for n, call in enumerate(self.part.track.calls) if call.is_point_to_point}
        if pairs:
            position = array(
                "q",
                (
                    two if place in pairs else one
                    for place, one, two in zip(places, position, pair, strict=True)
                ),
            )
        progress = (is_retired if self.calls.is_gloo else state).translate(
            _RETIRED if self.calls.is_gloo else _BY_NUMBER
        )
        if self.calls.is_gloo or END in place_of:
            entries = [
                {
                    "process_group": rows[row][0],
                    "record_id": record,
                    "collective_seq_id": collective,
                    "p2p_seq_id": two,
                    "op_id": counted,
                    "is_p2p": is_two,
                }
                for row, record, collective, two, counted, is_two in zip(
                    slots, number, array("q", columns[2]), pair, op, is_pair, strict=True
                )
            ]
            self._one_by_one(entries, places, progress, (number, created, position))
            return
        track = self.part.track
        track.call = places if isinstance(places, array) else array("I", places)
        track.position, track.progress = position, bytearray(progress)
        track.created, track.number = created, number

    def _read(self, entries: list[Any]) -> None:
        if not entries:
            return
        numbers = [entry["record_id"] for entry in entries]
        ordered = sorted(numbers)
        if numbers != ordered:
            entries.sort(key=itemgetter("record_id"))
        number = _column(ordered)
        created = _column(list(map(itemgetter("time_created_ns"), entries)))
        positions = list(map(itemgetter("collective_seq_id"), entries))
        self.part.dropped = max(0, number[0])
        for entry in entries:
            one = _int(entry, "pg_id") if "pg_id" in entry else -1
            newest = max(_int(entry, "collective_seq_id"), _int(entry, "p2p_seq_id"))
            is_two = bool(entry.get("is_p2p"))
            self._count(one, entry["process_group"], newest, is_pair=is_two)
        slots = self._slots(_rows(entries))
        places = list(map(self.places.__getitem__, slots))
        pairs = {n for n, call in enumerate(self.part.track.calls) if call.is_point_to_point}
        if pairs:
            for row, place in enumerate(places):
                if place in pairs:
                    positions[row] = entries[row]["p2p_seq_id"]
        position = _column(positions)
        if self.calls.is_gloo or min(places) == END:
            states = bytes(map(self._progress, entries))
            self._one_by_one(entries, places, states, (number, created, position))
            return
        track = self.part.track
        track.call, track.position = array("I", places), position
        track.progress = bytearray([_STATES.get(entry.get("state"), 0) for entry in entries])
        track.created, track.number = created, number

    def _slots(self, rows: list[Row]) -> list[int]:
        """Return for each row the index of an equal one among the known ones."""
        known, after, slot = self.known, dict[int, int](), -1
        slots: list[int] = []
        add, expected = slots.append, after.get
        for row in rows:
            guess = expected(slot, 0)
            if not known or row != known[guess]:
                guess = self._slot(row)
            after[slot] = slot = guess
            add(guess)
        return slots

    def _slot(self, row: Row) -> int:
        """Return the index of a row that is not the expected one."""
        if not self.calls.is_plain(row):
            self.known.append(None)
            self.places.append(self.calls.place(row))
            return len(self.known) - 1
        name, pair, frames, *_ = row
        alike = self.sites[name, *pair, *map(id, frames or ())]
        for slot in alike[-CANDIDATES:]:
            if row == self.known[slot]:
                return slot
        place = self.calls.place(row)
        alike.append(len(self.known))
        self.known.append(row)
        self.places.append(place)
        return len(self.known) - 1

    def _one_by_one(
        self,
        entries: list[Any],
        places: Iterable[int],
        states: bytes,
        columns: tuple[array[int], array[int], array[int]],
    ) -> None:
        """Append entries among which placeholders belong, or ends of launches of several calls."""
        track = self.part.track
        rows = zip(entries, places, states, *columns, strict=True)
        for entry, place, state, number, created, position in rows:
            if place == END:
                self._coalesce(entry, state)
                continue
            group = track.calls[place].group or "world"
            if self.calls.is_gloo:
                self._hidden(group, entry)
            self.open[group].append(len(track))
            track.add(place, position, state, created, number)

    def _progress(self, entry: dict[str, Any]) -> int:
        if self.calls.is_gloo:
            return Progress.COMPLETED if entry.get("retired") else Progress.ISSUED
        return _STATES.get(entry.get("state", ""), 0)

    def _hidden(self, group: str, entry: dict[str, Any]) -> None:
        """Put placeholders where the numbers of a group leave out calls."""
        number = _int(entry, "op_id")
        known = self.op_ids.get(group)
        if known is None:
            known = number - 1 if self.part.dropped else 0
        self.hidden += max(0, number - known - 1)
        if self.hidden > MAX_HIDDEN:
            raise PlanError("operation numbers leap", file=self.part.file, path="$.entries")
        for _ in range(number - known - 1):
            self.part.track.add(self._placeholder(group), 0, Progress.COMPLETED)
        self.op_ids[group] = max(number, known)

    def _placeholder(self, group: str) -> int:
        place = self.placeholders.get(group)
        if place is None:
            place = self.placeholders[group] = len(self.part.track.calls)
            self.part.track.calls.append(Call(UNRECORDED, group))
        return place

    def _coalesce(self, entry: dict[str, Any], progress: int) -> None:
        """Let a launch of several calls pass its state to them: their own is never updated."""
        track, group = self.part.track, group_name(entry["process_group"])
        number = _int(entry, "record_id")
        is_pair = bool(entry.get("is_p2p"))
        sequence = _int(entry, "p2p_seq_id" if is_pair else "collective_seq_id")
        members = []
        for action in reversed(self.open.get(group, [])):
            if track.call_at(action).is_point_to_point != is_pair:
                break
            if track.position[action] != sequence or action < len(track.batch):
                break
            members.append(action)
        for action in reversed(members):
            track.progress[action] = progress
            if is_pair:
                track.set_batch(action, number)


def _rows(entries: list[Any]) -> list[Row]:
    """Return the fields that tell calls apart; dumps without stacks lack some."""
    try:
        return list(map(itemgetter(*FIELDS), entries))
    except KeyError:
        return [tuple(map(entry.get, FIELDS)) for entry in entries]


def _numbered(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry whose numbers are numbers, however they were written."""
    texts = {name: entry[name] for name in NUMBERS if type(entry.get(name)) is str}
    return entry | {name: int(text) for name, text in texts.items() if len(text) < 20}


def _column(values: list[Any]) -> array[int]:
    """Return numbers of a dump as a column.

    Raises:
        TypeError, ValueError, OverflowError: A value is no number, or out of range.
    """
    column = array("q", values)
    if min(values) < -1 or max(values) >= LARGEST:
        raise ValueError
    return column


def _int(entry: dict[str, Any], name: str) -> int:
    value = entry.get(name)
    return value if type(value) is int and -1 <= value < 1 << 62 else 0
