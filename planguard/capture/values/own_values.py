"""Numbers that a rank reads from a tensor of its own: another rank may read something else.

Ranks that are played have the data that this machine gives them, so that a test of a loss, a count
or a flag may go one way on all of them by luck. What the program's own lines read from tensors is
therefore kept, reading by reading. Where all ranks read the same, the value is taken to be common:
a collective, a seed or a checkpoint gave it to them. Where they read different ones, the job is
played again: there some ranks read a larger value and the others a smaller one, then the other way
round, then none and zero (``odd_plays``). A reading that a rank makes only then is as it is, so
that loops end.

Sizes that follow from data (``own_sizes``) are read the same way.

A number that peers know, too, would contradict what they have: an integer that was sent or
received (the splits of an uneven exchange, the length of a message), and what is computed from it,
keeps its value. So does a part that a rank received. Where several ranks read what each group of
them agreed on, groups may differ.
"""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from planguard.capture.names.walk_order import BETWEEN
from planguard.capture.values.made_up import storage_of
from planguard.capture.values.origins import (
    COMMON,
    FIRST,
    MOST_ELEMENTS,
    TOLD,
    content_of,
    is_common,
    is_whole,
    made_from,
)
from planguard.capture.values.other_values import PAIRS, Read, is_array, other_flag, other_value
from planguard.capture.values.sinks import is_shown_only
from planguard.sources import TEXT, is_program, is_standard

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import CodeType, FrameType

VALUE = "a value of a tensor"
"""Of the kinds of questions (``own_answers``)."""
DECIDING = frozenset(
    {
        "__bool__", "__int__", "__float__", "__index__", "__contains__", "equal", "allclose",
        "is_nonzero", "numpy", "__array__", "__format__", "__repr__",
    }
)  # fmt: skip
"""Methods and functions that give a value away on which a program may decide."""
_MOST = 4096
"""Readings of one line that are kept: a loop of a played job has far fewer."""
_NOBODY: frozenset[int] = frozenset()
_FOR_CALLERS = tuple(
    os.sep + os.path.join("torch", *parts)  # noqa: PTH118 - an end of a path
    for parts in (
        ("amp", "grad_scaler.py"),
        ("distributed", "fsdp", "sharded_grad_scaler.py"),
        ("optim", "lr_scheduler.py"),
    )
)
"""Files of torch's that read values for whoever called them, and keep what they decided."""


@dataclass(frozen=True)
class Sides:
    """Who reads something else, by line and reading: two sides each.

    Attributes:
        of: By line, for each reading, the ranks of one side and those of the other.
        pair: What each side reads.
        far: The largest number that a test compares with.
        is_partly: Of several readings of a line, and of the elements of a list, every second one
            is as it is: a rank may have some of either kind.
        turned: Lines on which each side begins with what the other one reads, where both change
            sides from reading to reading: a loss that falls on one rank and rises on the other.
            None where they do not.
    """

    of: Mapping[str, tuple[tuple[frozenset[int], frozenset[int]], ...]]
    pair: tuple[Read, Read] = PAIRS[0]
    far: float = 0.0
    is_partly: bool = False
    turned: frozenset[str] | None = None

    @property
    def ranks(self) -> frozenset[int]:
        """Every rank that reads something else somewhere."""
        rows = (two for row in self.of.values() for two in row)
        return frozenset(rank for one, other in rows for rank in (*one, *other))

    def readings(self) -> list[tuple[str, int]]:
        """Return the line and the place of each reading that differs, where there are several."""
        found = [
            (place, at) for place, row in self.of.items() for at, two in enumerate(row) if any(two)
        ]
        return found if len(found) > 1 else []

    def of_reading(self, place: str, at: int) -> Sides:
        """Return the same with one reading alone."""
        row = [(_NOBODY, _NOBODY)] * at
        return replace(self, of={place: (*row, self.of[place][at])})

    def of_one(self, side: int) -> Sides:
        """Return the same with one side alone that reads something else."""
        return replace(
            self,
            of={
                place: tuple((two[0], _NOBODY) if side == 0 else (_NOBODY, two[1]) for two in row)
                for place, row in self.of.items()
            },
        )


@dataclass
class Readings:
    """What one rank reads from its tensors.

    Attributes:
        rank: The rank.
        sides: Who reads something else; None for nobody.
        seen: Fingerprints of what was read, by line, in order.
    """

    rank: int
    sides: Sides | None = None
    seen: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    _places: dict[tuple[int, int], tuple[CodeType, str | None]] = field(default_factory=dict)

    def read(self, tensors: Sequence[Any], found: Any, frame: FrameType) -> Any:
        """Return what a line of the program reads from a tensor; it is kept.

        Args:
            tensors: The tensor, or those that are compared.
            found: Its value: a number, a truth value, a list of them, or an array of numpy.
            frame: Who reads.
        """
        tensor = tensors[0]
        place = self._place(frame)
        if place is None or (tensor.numel() > MOST_ELEMENTS and not isinstance(found, bool)):
            return found
        row = self.seen[place]
        at = len(row)
        if at >= _MOST:
            return found
        storage = storage_of(tensor)
        if storage is None:
            row.append(TOLD)
            return found
        value = found.tolist() if is_array(found) else found
        # A truth value is the same on two ranks by luck; what it was made of is not.
        made_of = list(map(made_from, tensors))
        print_of = zlib.crc32(repr((value, made_of)).encode())
        is_told = getattr(storage, "planguard_told", False)
        row.append(FIRST * print_of + TOLD * is_told + COMMON * all(map(is_common, tensors)))
        if is_whole(tensor):
            readings = getattr(storage, "planguard_readings", None)
            if readings is None:
                storage.planguard_readings = readings = []
            readings.append((row, at))
        # Who counts with a flag (``int(x > 0) + 1``) finds one or nothing, whatever it holds.
        is_counted = getattr(storage, "planguard_origin", None) is not None
        return self._other(found, place, at, str(tensor.dtype) == "torch.bool", is_counted)

    def size(self, deciding: Any, frame: FrameType) -> bool | None:
        """Keep that a line makes something of a size that follows from a tensor's values.

        Args:
            deciding: The tensor, or several.
            frame: Who makes it.

        Returns:
            Whether as much as can be is kept there, or as little; None for what there is.
        """
        place = self._place(frame)
        if place is None or len(self.seen[place]) >= _MOST:
            return None
        row = self.seen[place]
        # Masks may be alike by luck: what they were made of tells whether they are.
        given = deciding if isinstance(deciding, list) else [deciding]
        made_of = [(getattr(storage_of(o), "planguard_origin", None), content_of(o)) for o in given]
        print_of = zlib.crc32(repr(made_of).encode())
        row.append(FIRST * print_of + COMMON * all(map(is_common, given)))
        how = self._how(place, len(row) - 1, is_size=True)
        return None if how is None else how in (Read.MORE, Read.NONE, Read.NEXT)

    def _place(self, frame: FrameType) -> str | None:
        """Return the line that reads, None where it only shows what it reads, or is a library's.

        The standard library reads for whoever called it (``Counter(map(int, x))``), and so do the
        parts of torch that keep what they decide, and code without a file (``exec``).
        """
        inner = frame
        while _reads_for_caller(frame.f_code.co_filename) and frame.f_back is not None:
            frame = frame.f_back
        key = id(frame.f_code), frame.f_lasti
        known = self._places.get(key)
        if known is None:
            file = frame.f_code.co_filename
            is_one = is_program(file) and not is_shown_only(inner)
            known = frame.f_code, f"{file}:{frame.f_lineno}" if is_one else None
            self._places[key] = known  # the code is kept, so that no identity is used again
        return known[1]

    def _other(self, found: Any, place: str, at: int, is_flag: bool, is_counted: bool) -> Any:  # noqa: FBT001 - of one caller
        how = self._how(place, at)
        far = 0.0 if self.sides is None else self.sides.far
        if how is None:
            return found
        other = other_value(found, how, far, is_counted=is_counted)
        other = other_flag(found, how) if is_flag else other
        if self.sides is not None and self.sides.is_partly:
            if isinstance(found, list):
                other[1::2] = found[1::2]
            elif is_array(found):
                other.flat[1::2] = found.flat[1::2]
        return other

    def _how(self, place: str, at: int, *, is_size: bool = False) -> Read | None:
        """Return what this rank reads at the n-th reading of a line; None for what is there.

        Sizes take no turns: what two masks of one line keep belongs together.
        """
        row = () if self.sides is None else self.sides.of.get(place, ())
        if self.sides is None or at >= len(row) or (self.sides.is_partly and at % 2):
            return None
        turned = self.sides.turned
        is_turned = turned is not None and not is_size and (at + (place in turned)) % 2 == 1
        pair = self.sides.pair[::-1] if is_turned else self.sides.pair
        sides = zip(row[at], pair, strict=True)
        return next((how for ranks, how in sides if self.rank in ranks), None)


def _reads_for_caller(file: str) -> bool:
    return is_standard(file) or file in (TEXT, BETWEEN) or file.endswith(_FOR_CALLERS)


def sides_of(seen: Mapping[int, Mapping[str, list[int]]], bit: int = 0) -> Sides:
    """Return who reads something else: ranks that read the same stay on one side.

    Args:
        seen: Fingerprints by rank and line.
        bit: Of the number of those that read the same, what tells their side: every second one is
            on the other side, or every second pair of them, and so on.
    """
    places = dict.fromkeys(place for rows in seen.values() for place in rows)
    found = {}
    for place in places:
        rows = {rank: lines.get(place, []) for rank, lines in seen.items()}
        longest = max(map(len, rows.values()))
        sides = tuple(
            _sides({rank: row[at] if at < len(row) else None for rank, row in rows.items()}, bit)
            for at in range(longest)
        )
        if any(one or other for one, other in sides):
            found[place] = sides
    return Sides(found)


def _sides(values: Mapping[int, int | None], bit: int) -> tuple[frozenset[int], frozenset[int]]:
    classes: dict[int, set[int]] = defaultdict(set)
    read = {rank: value for rank, value in values.items() if value is not None}
    for rank, value in read.items():
        classes[value // FIRST].add(rank)
    # Who reads no more, or not yet, says nothing of a value that a collective brought to all.
    is_every = len(read) == len(values)
    is_alike = len(classes) < 2 and (is_every or all(v & COMMON for v in read.values()))
    # One that told its peer reads here what the peer reads elsewhere; those that read the same at
    # one place, all of them, were told by one of theirs.
    told = {rank for rank, value in read.items() if value & TOLD}
    is_known = bool(told) and (
        not is_every or any(len(c) == 1 and c <= told for c in classes.values())
    )
    if is_known or is_alike or (bit and len(classes) <= 1 << bit):
        return _NOBODY, _NOBODY
    parts: tuple[set[int], set[int]] = (set(), set())
    for number, ranks in enumerate(sorted(classes.values(), key=min)):
        parts[number >> bit & 1].update(ranks)
    one, other = map(frozenset, parts)
    return one, other
