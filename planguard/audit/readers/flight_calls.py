"""Calls of a Flight Recorder dump: what the fields of an entry say, each distinct call once."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from itertools import count
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from planguard.audit.readers.names import element_type, operation, program_frames
from planguard.audit.readers.part import PartGroup
from planguard.plan.vocabulary import MESSAGES, SPELLINGS
from planguard.recording import Call

if TYPE_CHECKING:
    from planguard.audit.readers.part import Part
    from planguard.verdict import Source

FIELDS = (
    "profiling_name",
    "process_group",
    "frames",
    "input_sizes",
    "output_sizes",
    "input_dtypes",
    "output_dtypes",
)
"""Fields of an entry that say what was called."""
PROCESS_GROUP = FIELDS.index("process_group")
SAID = FIELDS[:PROCESS_GROUP] + FIELDS[PROCESS_GROUP + 1 :]
"""Those of them that say the same on every group."""
END = -1
"""Place of an entry that ends a launch of several calls and is none itself."""
MAX_FRAMES = 64
MAX_COMPARED = 4096
"""Longest list of frames, sizes or element types that is compared with that of another entry."""
MOST_KEPT = 4096
"""Distinct calls, and distinct stacks, that are kept from one dump to the next."""

Row = tuple[Any, ...]
"""Values of ``FIELDS`` of one entry."""
Rows = tuple[tuple[str, int, str], ...]
Stack = tuple["tuple[Source, ...]", str]
"""The program's frames, and the innermost functions of torch in one string."""
_PAIR = re.compile(r"(send|recv) (\d{1,9})(->|<-)(\d{1,9})")
_COALESCED = frozenset({"coalesced", "ALLGATHER_coalesced", "REDUCE_SCATTER_coalesced"})
_FRAME = itemgetter("filename", "line", "name")
_PLAIN = frozenset({str, int, type(None)})
_known: dict[bytes, Said] = {}
_keys: dict[tuple[Any, ...], int] = {}
_numbers = count(1)
"""Never given twice, whoever reads in other threads."""
_stacks: dict[Rows, Stack] = {}
_calls: dict[tuple[int, str, int | None], Call] = {}


class Said(NamedTuple):
    """What an entry says of its call, whatever group it is on.

    Attributes:
        backend: ``nccl``, ``gloo``, ...
        title: Operation as the recorder writes it, with the peer of a message.
        is_end: It ends a launch of several calls and is none itself; the rest is not read then.
        size: Members of the group, where the shapes show it.
        call: The call without group and peer.
        key: Number that tells it from others of the same group and peer.
    """

    backend: str
    title: str
    is_end: bool
    size: int | None = None
    call: Call = Call("")
    key: int = 0


def known_calls() -> dict[bytes, Said]:
    """Return what calls of earlier dumps say; never so many that it matters."""
    if max(len(_known), len(_keys), len(_stacks), len(_calls)) > MOST_KEPT:
        # Together: what is kept names equal stacks by one object.
        _known.clear()
        _keys.clear()
        _stacks.clear()
        _calls.clear()
    return _known


class Calls:
    """The distinct calls of one dump.

    Attributes:
        part: Where the calls and their groups are kept.
        is_gloo: Some call was made on gloo.
    """

    def __init__(self, part: Part) -> None:
        self.part = part
        self.is_gloo = False
        self._places: dict[tuple[int, str, int | None], int] = {}
        self._groups: dict[int, tuple[Any, str, PartGroup]] = {}
        self._totals: dict[int, int | None] = {}

    def place(self, row: Row) -> int:
        """Return the place of an entry's call among those of the track, or ``END``.

        Raises:
            TypeError, ValueError, KeyError: A field is missing or of a wrong type.
        """
        pair = row[PROCESS_GROUP]
        return self._place(pair, self._said(row[:PROCESS_GROUP] + row[PROCESS_GROUP + 1 :]))

    def place_kept(self, row: Row) -> int:
        """Return the same for a call as ``kernels.twin_dump`` describes it.

        Raises:
            TypeError, ValueError, KeyError: A field is missing or of a wrong type.
        """
        pair, said, values, key = row
        if said is None:
            said = self._said(values)
            if key is not None:
                _known[key] = said
        return self._place(pair, said)

    def _place(self, pair: Any, said: Said) -> int:
        part = self.part
        part.backend = part.backend or said.backend
        self.is_gloo = self.is_gloo or said.backend == "gloo"
        # By identity, of what is held here: most calls of a dump share the few pairs that it has.
        found = self._groups.get(id(pair))
        if found is None:
            found = self._groups[id(pair)] = (pair, *self._group(pair))
        _, group, known = found
        known.backend = known.backend or said.backend
        if said.is_end:
            return END
        if known.size is None:
            known.size = said.size
        call = said.call
        peer = _peer(said.title, group, known.ranks) if call.op in MESSAGES else None
        key = (said.key, group, peer)
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = len(part.track.calls)
            part.track.calls.append(_on(call, group, peer, key))
        return place

    def _group(self, pair: Any) -> tuple[str, PartGroup]:
        """Return a group by its name and description, with the description noted."""
        group = group_name(pair)
        known = self.part.groups.get(group)
        if known is None:
            known = self.part.groups[group] = PartGroup()
        description = pair[1] if len(pair) > 1 else ""
        if not known.description and description not in ("undefined", "default_pg"):
            known.description = text(description, 200)
        return group, known

    def _said(self, values: Row) -> Said:
        """Return what the values of ``SAID`` say.

        Raises:
            TypeError, ValueError, KeyError: A field is missing or of a wrong type.
        """
        name, frames, into, out, types, out_types = values
        backend, title, op, is_end = _title(text(name, 1000))
        if is_end:
            return Said(backend, title, is_end)
        stack, inner = self._stack(frames)
        if backend == "gloo" and op == "all_reduce" and "reduce_scatter" in inner:
            op = "reduce_scatter_tensor"
        sizes = self.elements(into), self.elements(out)
        elements, shape = element_count(op, *sizes, is_gloo=backend == "gloo")
        dtype = element_type(text((types or out_types or [""])[0], 200))
        if op == "all_reduce" and types and out_types and types[0] != out_types[0]:
            # No all_reduce has two types: whoever says one disagrees with it.
            dtype = f"{dtype} to {element_type(text(out_types[0], 200))}"
        call = Call(op, count=elements, dtype=dtype, shape=shape, stack=stack)
        key = _keys.setdefault((op, elements, dtype, shape, id(stack)), next(_numbers))
        return Said(backend, title, is_end, group_size(op, *sizes), call, key)

    def elements(self, sizes: Any) -> int | None:
        """Return the number of elements of a list of shapes; None when it is none."""
        # By identity: a pickle may name one long list in each of a million entries.
        found = self._totals.get(id(sizes), -1)
        if found == -1:
            found = self._totals[id(sizes)] = _elements(sizes)
        return found

    def is_plain(self, row: Row) -> bool:
        """Tell whether comparing other entries with this one takes a bounded time.

        Lists that hold each other ten times, thirty levels deep, take a few bytes of a pickle and
        10^30 steps to compare.
        """
        name, pair, frames, into, out, types, out_types = row
        return (
            type(name) is str
            and isinstance(pair, (tuple, list))
            and len(pair) <= 4
            and _PLAIN.issuperset(map(type, pair))
            and all(
                not sizes or (self.elements(sizes) is not None and _is_short(sizes))
                for sizes in (into, out)
            )
            and all(
                not names
                or (type(names) is list and len(names) <= MAX_COMPARED and _are_plain(names))
                for names in (types, out_types)
            )
            and (not frames or (type(frames) is list and _are_frames(frames)))
        )

    def _stack(self, frames: Any) -> Stack:
        rows = tuple(
            (text(file, -1000), int(line), text(name, 200))
            for file, line, name in map(_FRAME, (frames or ())[:MAX_FRAMES])
        )
        found = _stacks.get(rows)
        if found is None:
            inner = " ".join(name for file, _, name in rows[:4] if "distributed_c10d" in file)
            found = _stacks[rows] = program_frames(list(rows)), inner
        return found


def text(value: Any, limit: int) -> str:
    """Return the first characters of a value, the last ones of a negative limit.

    Raises:
        TypeError: Neither text nor a number: writing a structure out may take forever.
    """
    if type(value) not in (str, int, float, bool):
        raise TypeError
    said = str(value)
    return said[:limit] if limit >= 0 else said[limit:]


def group_name(pair: Any) -> str:
    """Return the name of a group from its name and description."""
    name, *rest = pair
    return "world" if rest and rest[0] == "default_pg" else text(name, 200)


def _on(call: Call, group: str, peer: int | None, key: tuple[int, str, int | None]) -> Call:
    """Return a call on a group: one object for all dumps in which it is the same."""
    known = _calls.get(key)
    if known is None:
        known = _calls[key] = Call(
            call.op,
            group,
            peer=peer,
            count=call.count,
            dtype=call.dtype,
            shape=call.shape,
            stack=call.stack,
        )
    return known


def _are_plain(names: list[Any]) -> bool:
    return _PLAIN.issuperset(map(type, names))


def _is_short(sizes: list[Any]) -> bool:
    return len(sizes) <= MAX_COMPARED and sum(map(len, sizes)) <= MAX_COMPARED


def _are_frames(frames: list[Any]) -> bool:
    return len(frames) <= 4 * MAX_FRAMES and all(
        type(frame) is dict
        and len(frame) <= 8
        and _PLAIN.issuperset(map(type, frame))
        and _PLAIN.issuperset(map(type, frame.values()))
        for frame in frames
    )


@lru_cache(maxsize=1024)
def _title(name: str) -> tuple[str, str, str, bool]:
    """Return backend, title and operation, and whether it ends a launch of several calls."""
    backend, _, title = name.partition(":")
    first = title.partition(" ")[0]
    return backend[:40], title, operation(first), first in _COALESCED


def _peer(title: str, group: str, ranks: tuple[int, ...] | None) -> int | None:
    """Return the global rank of the other side; titles name places in the group."""
    match = _PAIR.fullmatch(title)
    if match is None:
        return None
    place = int(match[4])
    if ranks is None:
        return place if group == "world" else None
    return ranks[place] if place < len(ranks) else None


def _elements(sizes: Any) -> int | None:
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


def element_count(
    op: str, into: int | None, out: int | None, *, is_gloo: bool = False
) -> tuple[int | None, tuple[Any, ...] | None]:
    """Return the count of the plan format's rule, and what members of a round must have equal."""
    if op == "barrier" or op.startswith("all_to_all"):
        return (None, None) if op == "barrier" else (into, (into, out))
    if op in ("scatter", "recv"):
        return out, None
    if op.startswith("reduce_scatter"):
        # gloo writes the input twice; the output is a share of it that the dump does not tell.
        return (None, (into,)) if is_gloo else (out, None)
    if op == "all_reduce" and not is_gloo and None not in (into, out):
        return into, (into, out)  # one tensor is both, so these are equal
    return into, None


def group_size(op: str, into: int | None, out: int | None) -> int | None:
    """Return the size of the group where shapes show it: an all_gather gathers from all."""
    if SPELLINGS.get(op, op) != "all_gather":
        return None
    if not into or not out or out % into:
        return None
    return out // into
