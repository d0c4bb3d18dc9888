"""What a file could hold on another node: the same form with other numbers, words and lengths.

A reader must be able to take it, or nobody learns what the program does with it. So the forms are
known in which programs keep what they decide on: text, ``json``, settings, what ``torch.save``,
``numpy.save``, ``pickle`` and ``safetensors`` write, and these packed. Of other bytes no like is
made (``has_like``), and whoever reads them is not decided.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import re
import zipfile
from enum import Enum
from typing import TYPE_CHECKING, Any

from planguard.capture.values.otherwise import other_fact, other_text, other_words

if TYPE_CHECKING:
    from collections.abc import Iterator

_SETTINGS = re.compile(r"^\s*\[|[:=]", re.MULTILINE)
_VALUE = re.compile(r"""(?<=[:=])(\s*["']?)([A-Za-z][\w.-]*)""")
_TRUTH = {"true": "false", "false": "true", "True": "False", "False": "True", "yes": "no",
          "no": "yes", "on": "off", "off": "on"}  # fmt: skip
_PACKED = ((gzip, b"\x1f\x8b"), (bz2, b"BZh"), (lzma, b"\xfd7zXZ"))
"""What packs a file, and how such a file begins."""
_ARRAYS = frozenset({
    ("collections", "OrderedDict"), ("numpy", "ndarray"), ("numpy", "dtype"),
    ("numpy._core.multiarray", "_reconstruct"), ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"), ("numpy.core.multiarray", "scalar"),
    ("numpy._core.numeric", "_frombuffer"),
})  # fmt: skip
"""What is built of what ``pickle`` wrote; nothing else is called."""
_KINDS = {"F": "f", "I": "i", "U": "u", "BF": "u", "BOOL": "?"}
"""Types of ``safetensors`` as numpy has them; of bfloat16 the bits, which are another number."""


class Lengths(Enum):
    """What may differ of an array beside its numbers."""

    OTHER = "other lengths"


def other_file(found: Any, *, is_more: bool, named: object, held: bytes) -> Any:
    """Return an open file that holds what it could hold on another node.

    It is a file of the system, in memory, so that it can be mapped and read in C.

    Args:
        found: The file; it is closed.
        is_more: Whether its numbers are to be larger.
        named: What a test names; ``Lengths.OTHER`` for arrays of other lengths; None for other
            numbers than here.
        held: What it holds then, where something else than the like is asked for.
    """
    with found:
        text = found.read()
    encoding = None
    if isinstance(text, str):
        encoding = getattr(found, "encoding", None) or "utf-8"
        text = text.encode(encoding, errors="replace")
    made = os.memfd_create("other")
    with open(made, "wb", closefd=False) as file:
        file.write(held or _like(text, is_more, named))
    os.lseek(made, 0, os.SEEK_SET)
    if encoding is None:
        return open(made, "rb")  # noqa: PTH123 - the program closes it
    return open(made, encoding=encoding, errors="replace")  # noqa: PTH123 - same


def has_like(content: bytes) -> bool:
    """Tell whether something else in the form of some bytes can be made."""
    return not content or bool(_like(content, True, None))


def _like(content: bytes, is_more: bool, named: object) -> bytes:  # noqa: FBT001 - of this file
    """Return the like of the content of a file; nothing for a form that is not known."""
    if b"\0" not in content and not content.startswith(tuple(start for _, start in _PACKED)):
        word = None if named is Lengths.OTHER else named
        return os.fsencode(_other(os.fsdecode(content), is_more, word))
    for form in (_packed, _numpy, _safetensors, _torch, _zipped, _pickled):
        try:
            if found := form(content, is_more, named):
                return found
        except Exception:  # noqa: BLE001, S112 - bytes of any kind: another form, or none
            continue
    return b""


def _other(text: str, is_more: bool, named: object) -> str:  # noqa: FBT001 - same
    """Return other numbers, truths, words and lines, in the form that a text has."""
    try:
        return json.dumps(_other_value(json.loads(text), is_more, named)) + "\n"
    except ValueError:
        pass
    if len(text.split()) <= 1:
        return str(other_words(text, named))
    number = named if isinstance(named, int | float) else None
    found = other_text(text, is_more=is_more, named=number)
    if _SETTINGS.search(text):
        word = named if isinstance(named, str) else None
        return _VALUE.sub(lambda one: one[1] + _TRUTH.get(one[2], word or one[2]), found)
    lines = found.splitlines(keepends=True)
    return "".join([*lines, lines[-1]] if is_more or len(lines) < 2 else lines[:-1])


def _other_value(value: Any, is_more: bool, named: object) -> Any:  # noqa: FBT001 - same
    """Return the like of a value of ``json`` or of a checkpoint: other numbers, words, lengths."""
    if isinstance(value, dict):
        return type(value)(
            (key, _other_value(one, is_more, named)) for key, one in value.items()
        )  # fmt: skip
    if isinstance(value, list | tuple):
        rows = [_other_value(one, is_more, named) for one in value]
        if isinstance(value, tuple):
            return tuple(rows)
        return [*rows, *rows[-1:]] if is_more or len(rows) < 2 else rows[:-1]
    if isinstance(value, str):
        return named if isinstance(named, str) else value
    if hasattr(value, "dtype"):  # of torch, or of numpy
        return _other_array(value, is_more, named)
    if isinstance(value, bool | int | float):
        return other_fact(value, is_more=is_more, named=None if named is Lengths.OTHER else named)
    return value


def _other_array(value: Any, is_more: bool, named: object) -> Any:  # noqa: FBT001 - same
    """Return an array of other numbers, or with a row more, or none."""
    if named is Lengths.OTHER:
        rows = [*range(len(value)), -1] if is_more else []
        return value[rows] if value.ndim and len(value) else value
    number = named if isinstance(named, int | float) else 1 if is_more else -1
    if str(value.dtype).endswith("bool"):
        return ~value
    kept = value + number if not isinstance(named, int | float) else value * 0 + number
    return kept if hasattr(kept, "to") else kept.astype(value.dtype)


def _packed(content: bytes, is_more: bool, named: object) -> bytes:  # noqa: FBT001 - same
    kind = next(kind for kind, start in _PACKED if content.startswith(start))
    found = _like(kind.decompress(content), is_more, named)
    return kind.compress(found) if found else b""


def _numpy(content: bytes, is_more: bool, named: object) -> bytes:  # noqa: FBT001 - same
    if not content.startswith(b"\x93NUMPY"):
        return b""
    import numpy as np

    held = io.BytesIO()
    np.save(held, _other_value(np.load(io.BytesIO(content)), is_more, named))
    return held.getvalue()


def _torch(content: bytes, is_more: bool, named: object) -> bytes:  # noqa: FBT001 - same
    import torch

    found = torch.load(io.BytesIO(content), weights_only=True)
    held = io.BytesIO()
    torch.save(_other_value(found, is_more, named), held)
    return held.getvalue()


def _safetensors(content: bytes, is_more: bool, named: object) -> bytes:  # noqa: FBT001 - same
    """Return the like of a file of ``safetensors``: the length of a header, the header, numbers.

    https://github.com/huggingface/safetensors#format
    """
    import numpy as np

    start = 8 + int.from_bytes(content[:8], "little")
    if start > len(content) or content[8:9] != b"{":
        return b""
    header, data = json.loads(content[8:start]), b""
    told = header.get("__metadata__") or {}
    new: dict[str, Any] = {key: other_words(one, named) for key, one in told.items()}
    new = {"__metadata__": new} if new else {}
    for name, one in header.items():
        if name == "__metadata__":
            continue
        first, last = one["data_offsets"]
        kind = _KINDS[one["dtype"].rstrip("0123456789")]
        bits = int(re.sub(r"\D", "", one["dtype"]) or 8)
        array = np.frombuffer(content[start + first : start + last], np.dtype(f"{kind}{bits // 8}"))
        other = _other_value(array.reshape(one["shape"]), is_more, named)
        place = [len(data), len(data) + other.nbytes]
        new[name] = {"dtype": one["dtype"], "shape": [*other.shape], "data_offsets": place}
        data += other.tobytes()
    text = json.dumps(new).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def _zipped(content: bytes, is_more: bool, named: object) -> bytes:  # noqa: FBT001 - same
    """Return the like of an archive, ``numpy.savez`` included; nothing if a part has none."""
    held = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(held, "w") as new:
        for name in old.namelist():
            part = old.read(name)
            found = _like(part, is_more, named) if part else part
            if part and not found:
                return b""
            new.writestr(name, found)
    return held.getvalue()


class _Plain(pickle.Unpickler):
    """Reads numbers, words, arrays and what holds them; what else there is, it does not call."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what a name of a module is."""
        if (module, name) not in _ARRAYS:
            raise pickle.UnpicklingError(name)
        return super().find_class(module, name)


def _pickled(content: bytes, is_more: bool, named: object) -> bytes:  # noqa: FBT001 - same
    held = io.BytesIO(content)
    found = list(_values(held))
    return b"".join(pickle.dumps(_other_value(one, is_more, named)) for one in found)


def _values(held: io.BytesIO) -> Iterator[Any]:
    """Return what was pickled into a file, one behind the other."""
    while held.tell() < len(held.getbuffer()):
        yield _Plain(held).load()
