"""PyTorch Flight Recorder dumps, versions 2.x: pickles and JSON, of NCCL and of gloo.

What a gloo dump does not say, and what is done about it:

* sends and receives are counted in ``op_id`` and not written down: a placeholder stands for each;
* ``state`` stays ``scheduled``: an operation has completed when it is ``retired``. An operation
  that ended with an error is retired as well; ``rounds`` finds those;
* ``reduce_scatter`` is written as ``all_reduce``: the call stack tells them apart;
* ``pg_config`` names no members; ``assemble`` concludes them from who took part.

In JSON, tuples are lists, None is 0 and numbers of ``pg_status`` are strings.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from planguard.audit.names import element_type, operation, program_frames
from planguard.audit.part import Part, PartGroup
from planguard.audit.safe import decode_json, load_pickle
from planguard.errors import PlanError
from planguard.recording import UNRECORDED, Call, Progress

if TYPE_CHECKING:
    from planguard.verdict import Source

MAX_ENTRIES = 20_000_000
MAX_MEMBERS = 1_000_000
MAX_HIDDEN = 1_000_000
"""Most calls of one rank that were counted and not written down."""
LARGEST = 1 << 62
_MEMBERS = re.compile(r"\s*\[\s*(?:\d{1,9}(?:\s*,\s*\d{1,9})*)?\s*\]\s*")
_PAIR = re.compile(r"(send|recv) (\d{1,9})(->|<-)(\d{1,9})")
_STATES: dict[Any, Progress] = {
    "scheduled": Progress.ISSUED,
    "started": Progress.STARTED,
    "completed": Progress.COMPLETED,
}
_CALL = (
    "profiling_name",
    "process_group",
    "frames",
    "input_sizes",
    "output_sizes",
    "input_dtypes",
)
_NUMBERS = ("record_id", "time_created_ns", "p2p_seq_id", "collective_seq_id")
_COALESCED = frozenset({"coalesced", "ALLGATHER_coalesced", "REDUCE_SCATTER_coalesced"})


def read_flight_recorder(data: bytes, file: str) -> Part:
    """Return what a dump says.

    Raises:
        PlanError: Not a dump, of an unsupported version (PG913), or not safe to read (PG905).
    """
    is_json = data.lstrip()[:1] == b"{"
    dump = decode_json(data, dict[str, Any], file) if is_json else load_pickle(data, file)
    if not isinstance(dump, dict):
        raise PlanError("not a Flight Recorder dump: no table at its top", file=file)
    version = dump.get("version")
    if not isinstance(version, str) or not re.fullmatch(r"2\.\d{1,4}", version):
        raise PlanError(
            "version of the dump is not supported",
            code="PG913",
            file=file,
            path="$.version",
            value=version if isinstance(version, str) else type(version).__name__,
            hint="supported: 2.x",
        )
    entries = dump.get("entries", [])
    if not isinstance(entries, list) or len(entries) > MAX_ENTRIES:
        raise PlanError("entries are no list", file=file, path="$.entries")
    part = Part("flight-recorder", file, version=version)
    library = dump.get("comm_lib_version")
    part.library = library[:80] if isinstance(library, str) and library else None
    _Reader(part, dump).read(entries)
    return part


class _Reader:
    """Turns the entries of one dump into a track."""

    def __init__(self, part: Part, dump: dict[str, Any]) -> None:
        self.part, self.file = part, part.file
        self.config = _configuration(dump.get("pg_config"), part.file)
        self.status = dump.get("pg_status")
        self.calls: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self.rare: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
        self.placeholders: dict[str, int] = {}
        self.stacks: dict[tuple[int, ...], tuple[tuple[Source, ...], str]] = {}
        self.op_ids: dict[str, int] = {}
        self.open: dict[str, list[int]] = defaultdict(list)
        self.is_gloo = False
        self.hidden = 0

    def read(self, entries: list[Any]) -> None:
        """Read all entries, oldest first."""
        self.part.groups |= self.config
        if not set(map(type, entries)) <= {dict}:
            raise PlanError("an entry is no table", file=self.file, path="$.entries")
        try:
            self._read(entries)
        except (TypeError, ValueError, KeyError, AttributeError, IndexError, RecursionError):
            raise PlanError(
                "an entry lacks a field, or has a value of a wrong type",
                file=self.file,
                path="$.entries",
            ) from None
        if self.is_gloo:
            self.part.lacks = ("point-to-point",)

    def _read(self, entries: list[Any]) -> None:
        """Read the fields of all entries as columns: dumps are long and their entries alike."""
        if not entries:
            return
        numbers = [entry["record_id"] for entry in entries]
        if numbers != sorted(numbers):
            entries.sort(key=itemgetter("record_id"))
        columns = [list(map(itemgetter(name), entries)) for name in _NUMBERS]
        for column in columns:
            if set(map(type, column)) != {int} or min(column) < -1 or max(column) >= LARGEST:
                raise ValueError
        self.part.dropped = max(0, columns[0][0])
        created, positions = columns[1], columns[3]
        places: list[int] = []
        known = self.calls
        for row, fields in enumerate(_fields(entries)):
            name, group, frames, into, out, types = fields
            key = (name, group[0], group[-1], *map(id, frames or ()))
            found = known.get(key)
            if found is None or found[0] != into or found[1] != out or found[2] != types:
                found = self._other(key, (into, out, types), entries[row], frames or ())
            places.append(found[3])
            if found[4]:
                positions[row] = columns[2][row]
        if self.is_gloo:
            states = bytes(map(self._progress, entries))
        else:
            states = bytes([_STATES.get(entry.get("state"), 0) for entry in entries])
        if self.is_gloo or min(places) < 0:
            self._one_by_one(entries, places, states, columns)
            return
        track = self.part.track
        track.call.extend(places)
        track.position.extend(positions)
        track.progress += states
        track.created.extend(created)
        track.number.extend(columns[0])

    def _one_by_one(
        self, entries: list[Any], places: list[int], states: bytes, columns: list[list[Any]]
    ) -> None:
        """Append entries among which placeholders belong, or ends of launches of several calls."""
        track = self.part.track
        rows = zip(entries, places, states, *columns, strict=True)
        for entry, place, state, number, created, _, position in rows:
            if place < 0:
                self._coalesce(entry)
                continue
            group = track.calls[place].group or "world"
            if self.is_gloo:
                self._hidden(group, entry)
            self.open[group].append(len(track))
            track.add(place, position, state, created, number)

    def _other(
        self, key: tuple[Any, ...], sizes: tuple[Any, ...], entry: dict[str, Any], frames: Any
    ) -> tuple[Any, ...]:
        """Return sizes, place and kind of a call that is not the usual one of its site."""
        for one in self.rare.get(key, ()):
            if one[:3] == sizes:
                return one
        place = self._call(entry, frames)
        is_pair = place >= 0 and self.part.track.calls[place].is_point_to_point
        one = (*sizes, place, is_pair)
        self.calls.setdefault(key, one)
        self.rare.setdefault(key, []).append(one)
        return one

    def _progress(self, entry: dict[str, Any]) -> Progress:
        if self.is_gloo:
            return Progress.COMPLETED if entry.get("retired") else Progress.ISSUED
        return _STATES.get(entry.get("state"), Progress.UNKNOWN)

    def _hidden(self, group: str, entry: dict[str, Any]) -> None:
        """Put placeholders where the numbers of a group leave out calls."""
        number = _int(entry, "op_id")
        known = self.op_ids.get(group)
        if known is None:
            known = number - 1 if self.part.dropped else 0
        self.hidden += max(0, number - known - 1)
        if self.hidden > MAX_HIDDEN:
            raise PlanError("operation numbers leap", file=self.file, path="$.entries")
        for _ in range(number - known - 1):
            self.part.track.add(self._placeholder(group), 0, Progress.COMPLETED)
        self.op_ids[group] = max(number, known)

    def _placeholder(self, group: str) -> int:
        place = self.placeholders.get(group)
        if place is None:
            place = self.placeholders[group] = len(self.part.track.calls)
            self.part.track.calls.append(Call(UNRECORDED, group))
        return place

    def _coalesce(self, entry: dict[str, Any]) -> None:
        """Let a launch of several calls pass its state to them: their own is never updated."""
        track, group = self.part.track, _group_name(entry["process_group"])
        number, progress = _int(entry, "record_id"), self._progress(entry)
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

    def _call(self, entry: dict[str, Any], frames: Any) -> int:
        """Return the place of a new call, or -1 for the end of a launch of several calls."""
        backend, _, title = str(entry["profiling_name"]).partition(":")
        self.part.backend = self.part.backend or backend[:40]
        self.is_gloo = self.is_gloo or backend == "gloo"
        group = _group_name(entry["process_group"])
        known = self.part.groups.setdefault(group, PartGroup())
        known.backend = backend[:40]
        description = entry["process_group"][1] if len(entry["process_group"]) > 1 else ""
        if description not in ("undefined", "default_pg") and not known.description:
            known.description = str(description)[:200]
        name = title.partition(" ")[0]
        if name in _COALESCED:
            return -1
        stack, innermost = self._stack(frames)
        op = operation(name)
        if backend == "gloo" and op == "all_reduce" and "reduce_scatter" in innermost:
            op = "reduce_scatter_tensor"
        peer = self._peer(title, group)
        count, shape = _count(op, entry, is_gloo=backend == "gloo")
        size = _group_size(op, entry)
        if size and known.size is None:
            known.size = size
        dtypes = entry.get("input_dtypes") or entry.get("output_dtypes") or [""]
        call = Call(
            op,
            group,
            peer=peer,
            count=count,
            dtype=element_type(str(dtypes[0])),
            shape=shape,
            stack=stack,
        )
        self.part.track.calls.append(call)
        return len(self.part.track.calls) - 1

    def _peer(self, title: str, group: str) -> int | None:
        """Return the global rank of the other side; titles name places in the group."""
        match = _PAIR.fullmatch(title)
        if match is None:
            return None
        place = int(match[4])
        ranks = self.part.groups[group].ranks
        if ranks is None:
            return place if group == "world" else None
        return ranks[place] if place < len(ranks) else None

    def _stack(self, frames: Any) -> tuple[tuple[Source, ...], str]:
        """Return the program's frames, and the innermost functions of torch in one string."""
        key = tuple(map(id, frames))
        found = self.stacks.get(key)
        if found is None:
            rows = [
                (str(f["filename"])[-1000:], int(f["line"]), str(f["name"])[:200])
                for f in frames[:64]
            ]
            inner = " ".join(name for file, _, name in rows[:4] if "distributed_c10d" in file)
            found = self.stacks[key] = program_frames(rows), inner
        return found


def _fields(entries: list[Any]) -> list[tuple[Any, ...]]:
    """Return the fields that tell calls apart; dumps without stacks lack some."""
    try:
        return list(map(itemgetter(*_CALL), entries))
    except KeyError:
        return [tuple(entry.get(name) for name in _CALL) for entry in entries]


def _configuration(config: Any, file: str) -> dict[str, PartGroup]:
    """Return the groups of ``pg_config``, under the names that entries use.

    Raises:
        PlanError: The members of a group are no list of ranks.
    """
    groups: dict[str, PartGroup] = {}
    if not isinstance(config, dict):
        return groups
    for name, spec in config.items():
        if not isinstance(spec, dict) or not isinstance(name, str):
            continue
        ranks = _members(spec.get("ranks"))
        if ranks is None:
            raise PlanError(
                "members of a group are no list of ranks",
                file=file,
                path="$.pg_config",
                hint=f"at most {MAX_MEMBERS:,} ranks, each below that",
            )
        if not ranks:
            continue  # gloo writes '' and no members
        description = str(spec.get("desc", ""))[:200]
        key = "world" if description == "default_pg" else name[:200]
        groups[key] = PartGroup(ranks, description if key != "world" else "", len(ranks))
    return groups


def _members(ranks: Any) -> tuple[int, ...] | None:
    """Return members written as a list, or as the text of one; the text is never evaluated."""
    if isinstance(ranks, str):
        return _members_text(ranks)
    if ranks is None:
        return ()
    if not isinstance(ranks, list) or len(ranks) > MAX_MEMBERS:
        return None
    if not all(type(rank) is int and 0 <= rank < MAX_MEMBERS for rank in ranks):
        return None
    return tuple(ranks)


@lru_cache(maxsize=256)
def _members_text(text: str) -> tuple[int, ...] | None:
    """Return members written as text: every dump of a run repeats those of the default group."""
    if len(text) > 11 * MAX_MEMBERS or not _MEMBERS.fullmatch(text):
        return None
    ranks = tuple(map(int, re.findall(r"\d+", text)))
    return ranks if len(ranks) <= MAX_MEMBERS and max(ranks, default=0) < MAX_MEMBERS else None


def _group_name(pair: Any) -> str:
    name, *rest = pair
    return "world" if rest and rest[0] == "default_pg" else str(name)[:200]


def _int(entry: dict[str, Any], name: str) -> int:
    value = entry.get(name)
    return value if type(value) is int and -1 <= value < 1 << 62 else 0


def _elements(sizes: Any) -> int | None:
    """Return the number of elements of a list of shapes; None when it is none."""
    if not isinstance(sizes, list) or not sizes or len(sizes) > 100_000:
        return None
    total = 0
    for shape in sizes:
        if not isinstance(shape, (list, tuple)) or len(shape) > 64:
            return None
        if not all(type(size) is int and 0 <= size < 1 << 48 for size in shape):
            return None
        total += math.prod(shape)
        if total >= 1 << 62:
            return None
    return total


def _count(
    op: str, entry: dict[str, Any], *, is_gloo: bool
) -> tuple[int | None, tuple[Any, ...] | None]:
    """Return the count of the plan format's rule, and what members of a round must have equal."""
    into, out = _elements(entry.get("input_sizes")), _elements(entry.get("output_sizes"))
    if op == "barrier" or op.startswith("all_to_all"):
        return (None, None) if op == "barrier" else (into, (into, out))
    if op in ("scatter", "recv"):
        return out, None
    if op.startswith("reduce_scatter"):
        # gloo writes the input twice; the output is a share of it that the dump does not tell.
        return (None, (into,)) if is_gloo else (out, None)
    return into, None


def _group_size(op: str, entry: dict[str, Any]) -> int | None:
    """Return the size of the group where shapes show it: an all_gather gathers from all."""
    if op not in ("all_gather", "all_gather_into_tensor"):
        return None
    into, out = _elements(entry.get("input_sizes")), _elements(entry.get("output_sizes"))
    if not into or not out or out % into:
        return None
    return out // into
