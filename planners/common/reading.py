"""Checked access to JSON: every value knows its path, every defect is a PlanError naming it."""

from __future__ import annotations

import gzip
import json
import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import msgspec

from planguard.errors import PlanError
from planguard.files.heads import GZIP, head_of
from planguard.records import converted, lost_a_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_Row = TypeVar("_Row")
MAX_BYTES = 512 * 2**20
"""Largest dump that is read, after decompression."""
UNREADABLE = (OSError, EOFError, zlib.error)
"""What reading a file, gzipped or not, may raise."""
_NAMED = 4096
"""Bytes in which a document names its schema."""


class At(msgspec.Struct, eq=False):
    """A JSON value together with where it stands, for reading without trusting it.

    Most values are never complained of, so a place is kept as the steps that lead to it. A reader
    makes one for each value of a document, which a record of msgspec makes cheap.

    Attributes:
        value: The value.
        step: The last step to it: a key, or a place in an array; at the top, its path.
        file: The file that it is of.
        above: What it is in; None once its path is written out.
    """

    value: Any
    step: str | int = "$"
    file: str | None = None
    above: Any = None

    @property
    def path(self) -> str:
        """The JSON path; written out once, for what is below it too."""
        if self.above is not None:
            own = f"[{self.step}]" if isinstance(self.step, int) else f".{self.step}"
            self.step, self.above = self.above.path + own, None
        return str(self.step)

    def fail(self, message: str, *, code: str = "PG901", hint: str = "") -> NoReturn:
        """Raise a PlanError about this value."""
        raise PlanError(
            message, code=code, file=self.file, path=self.path, value=self.value, hint=hint
        )

    def fields(self, *allowed: str) -> dict[str, At]:
        """Return the members of an object whose only names are ``allowed`` or start with ``x-``."""
        value, file = self.value, self.file
        if not isinstance(value, dict):
            self.fail("expected an object")
        known = _known(allowed)
        found = {key: At(one, key, file, self) for key, one in value.items() if key in known}
        if len(found) != len(value):
            for key, at in self.items():
                if key not in found and not key.startswith("x-"):
                    hint = f"known: {', '.join(allowed)}"
                    at.fail(f"unknown field {key!r}", code="PG906", hint=hint)
        return found

    def items(self) -> Iterator[tuple[str, At]]:
        """Yield the members of an object."""
        if not isinstance(self.value, dict):
            self.fail("expected an object")
        for key, value in self.value.items():
            yield key, At(value, key, self.file, self)

    def each(self) -> Iterator[At]:
        """Return the elements of an array, one by one."""
        file = self.file
        return (At(one, place, file, self) for place, one in enumerate(self.values()))

    def values(self) -> list[Any]:
        """Return the elements of an array as they are."""
        value = self.value
        if not isinstance(value, list):
            self.fail("expected an array")
        return value

    def text(self, limit: int = 10_000) -> str:
        """Return a string."""
        if not isinstance(self.value, str) or len(self.value) > limit:
            self.fail(f"expected a string of at most {limit} characters")
        return self.value

    def integer(self, low: int = 0, high: int = 2**63 - 1) -> int:
        """Return an integer within bounds; booleans and floats are refused."""
        value = self.value
        whole = value.__class__ is int or (isinstance(value, int) and not isinstance(value, bool))
        if not whole or not low <= value <= high:
            self.fail(f"expected an integer from {low} to {high}")
        return int(value)

    def integers(self, low: int = 0, high: int = 2**63 - 1) -> list[int]:
        """Return an array of integers within bounds."""
        value = self.value
        if value.__class__ is list:
            for one in value:
                if one.__class__ is not int or not low <= one <= high:
                    break
            else:
                return list(value)
        return [one.integer(low, high) for one in self.each()]

    def flag(self) -> bool:
        """Return a boolean."""
        if not isinstance(self.value, bool):
            self.fail("expected true or false")
        return self.value


@lru_cache(maxsize=1024)
def _known(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(names)


def records(at: At, kind: type[_Row]) -> list[_Row] | None:
    """Return the elements of an array as records, made at once and without an ``At`` for a value.

    A kind of record has the names, types and ranges that the reader of one element asks for, or
    narrower ones. Where an element is not such a record, that reader takes it or says what is
    wrong. What is in memory, not in a file, may hold what JSON has none of, and is read by it too.

    Returns:
        The records; None where the elements are to be read one by one.
    """
    if at.file is None or at.value.__class__ is not list:
        return None
    try:
        return converted(at.value, list[kind])  # type: ignore[valid-type]
    except msgspec.ValidationError:
        return None


def keys_of(at: At) -> list[bytes] | list[None]:
    """Return for each element of an array what it has in common with equal ones, word for word.

    Planners write the same row again and again; what is read of one is read of all, but for where
    it stands. What is in memory, not in a file, may hold what JSON has none of, and has no key.
    """
    values = at.values()
    return [None] * len(values) if at.file is None else list(map(msgspec.json.encode, values))


def load_json(path: Path) -> At:
    """Read one JSON document, gzipped or not, refusing duplicate keys and oversized input.

    Raises:
        PlanError: If the file cannot be read or is not such a document.
    """
    name = str(path)
    try:
        data = unpacked(path, MAX_BYTES)
        if len(data) > MAX_BYTES:
            raise PlanError(f"is larger than {MAX_BYTES} bytes", file=name)
        document = _parsed(data)
    except UNREADABLE as error:
        raise PlanError(f"cannot be read: {error}", file=name) from error
    except (ValueError, RecursionError) as error:
        raise PlanError(f"is not valid JSON: {error}", file=name) from error
    return At(document, file=name)


def starts_with_schema(path: str | Path, schema: str) -> bool:
    """Tell whether the head of a file, gzipped or not, names ``schema``; never raises."""
    return f'"{schema}"'.encode() in head_of(path)[:_NAMED]


def unpacked(path: Path, most: int) -> bytes:
    """Return the bytes of a file, gzipped or not; of a longer one than ``most`` one byte more.

    Raises:
        UNREADABLE: It cannot be read, or unpacked.
    """
    with path.open("rb") as raw:
        is_packed = raw.read(len(GZIP)) == GZIP
        raw.seek(0)
        if not is_packed:
            return raw.read(most + 1)
        with gzip.open(raw, "rb") as packed:
            return packed.read(most + 1)


def _parsed(data: bytes) -> Any:
    """Return a document without a key that occurs twice.

    The decoder that is fast keeps the last of two equal keys. Then the text has a colon more than
    the document written again, as ``lost_a_key`` says; whatever is odd takes the slow way.

    Raises:
        ValueError: It is no JSON, or a key occurs twice.
    """
    try:
        document = msgspec.json.decode(data)
        if not lost_a_key(data, document):
            return document
    except (ValueError, RecursionError, OverflowError):
        pass
    return json.loads(data, object_pairs_hook=_unique, parse_constant=_refuse)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"duplicate key {key!r}")
        found[key] = value
    return found


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")
