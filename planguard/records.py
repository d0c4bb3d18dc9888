"""Records of JSON: decoders are made once, and by one thread at a time.

msgspec notes in a class what it finds out of its fields when the first value of it is decoded or
converted. Where two threads do so at once, the interpreter crashes: a guard that eight threads
first use together ended in a segmentation fault (msgspec 0.22.0, CPython 3.11).
"""

from __future__ import annotations

from threading import Lock
from typing import Any, TypeVar

import msgspec

_T = TypeVar("_T")
_MAKING = Lock()
_made: dict[Any, msgspec.json.Decoder[Any]] = {}


def decoder_of(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return the typed decoder of a class of records."""
    found = _made.get(kind)
    if found is None:
        with _MAKING:
            found = _made.get(kind)
            if found is None:
                found = _made[kind] = msgspec.json.Decoder(kind)
    return found


def converted(value: object, kind: type[_T]) -> _T:
    """Return a value of plain maps and lists as a record.

    Raises:
        msgspec.ValidationError: The value does not fit.
    """
    decoder_of(kind)  # its fields are known from here on, to every thread
    record: _T = msgspec.convert(value, kind)
    return record


def lost_a_key(data: bytes, value: Any) -> bool:
    """Tell whether a JSON text may have a key that its decoded value lost to an equal one.

    Every key has one colon outside of strings, and strings keep theirs, so the written value has
    fewer colons than the text if and only if a key was lost. An escaped character of the ASCII
    letters and signs could be a colon, so a text with one is one that may have.
    """
    return b"\\u003" in data or data.count(b":") != msgspec.json.encode(value).count(b":")
