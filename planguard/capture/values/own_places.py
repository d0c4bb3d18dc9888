"""Which files only one node has, and what they could hold on another one.

``/tmp``, ``$TMPDIR``, ``/dev/shm`` and scratch disks are a node's own, as is what is named after
the host. What a program reads there, and did not write there itself, is an answer of that node, as
``/proc`` is (``own_host``). What it wrote is not: a file that was changed since this process began
is its own. A folder that a program lies in is where it was put for every rank, together with
what lies beside it, unless a place of the node's own begins below.

Files in other places may be shared. What they hold is taken to be the same on every rank, and they
are named (``own_answers.assumed``).
"""

from __future__ import annotations

import io
import json
import os
import re
import socket
import stat
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.capture.values.otherwise import other_fact, other_text, other_words
from planguard.sources import file_of, is_installed, is_standard

if TYPE_CHECKING:
    from collections.abc import Iterator

HELD = "what a file of this node holds"
MOST_BYTES = 1 << 20
"""Of a file that holds something else on another node; a larger one is data, and named."""
_PLACES = re.compile(r"/(tmp|var/tmp|dev/shm|run|scratch|local[^/]*)(?=/)")
_SETTINGS = re.compile(r"^\s*\[|[:=]", re.MULTILINE)
_VALUE = re.compile(r"""(?<=[:=])(\s*["']?)([A-Za-z][\w.-]*)""")
_TRUTH = {"true": "false", "false": "true", "True": "False", "False": "True", "yes": "no",
          "no": "yes", "on": "off", "off": "on"}  # fmt: skip
_NAME, _REAL, _STAT = socket.gethostname, os.path.realpath, os.stat
"""As they are before questions are patched."""
_LEAST_NAME = 4
"""Letters of a host's name that says in a path that it is that host's."""


def _began() -> float:
    """Return when this process began, in seconds since the epoch; now, where nobody tells."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        ago = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError, IndexError):
        ago = 0.0
    return time.time() - ago


BEGAN = _began()


def is_named(path: str) -> bool:
    """Tell whether what a file holds has to be taken for the same: it is no library's, nor new."""
    if is_installed(path) or is_standard(path) or path.startswith("/dev/null"):
        return False
    try:
        found = _STAT(path)
    except OSError:
        return False
    # The time of the last change of any kind, which no copy keeps.
    return stat.S_ISREG(found.st_mode) and found.st_ctime < BEGAN


def is_local(path: str, asking: str) -> bool:
    """Tell whether only this node has a file that the program did not write.

    Args:
        path: The file.
        asking: The file of the program that reads it.
    """
    real = _REAL(path)
    main = file_of(sys.modules.get("__main__"))
    homes = [os.path.dirname(_REAL(one)) + os.sep for one in (asking, main) if one]  # noqa: PTH120 - texts
    own = [place for one in (path, real) for place in _places(one)]
    return any(
        not any(real.startswith(home) and home.startswith(place) for home in homes)
        for place in own
    ) and _STAT(path).st_size <= MOST_BYTES  # fmt: skip


def _places(path: str) -> Iterator[str]:
    """Return the places of the node's own that a file lies in, each with a separator behind."""
    full = os.path.abspath(path)  # noqa: PTH100 - links stay
    if found := _PLACES.match(full):
        yield found[0] + os.sep
    told = (tempfile.gettempdir(), os.environ.get("TMPDIR"))
    for one in (kind for place in told if place for kind in (place, _REAL(place))):
        if full.startswith(one.rstrip(os.sep) + os.sep):
            yield one.rstrip(os.sep) + os.sep
    host = _NAME().partition(".")[0]
    if len(host) >= _LEAST_NAME and (at := full.find(host)) >= 0:
        yield full[: at + len(host)]


def other_file(found: Any, *, is_more: bool, named: object, held: bytes) -> Any:
    """Return an open file that holds what it could hold on another node.

    Args:
        found: The file; it is closed.
        is_more: Whether its numbers are to be larger.
        named: What a test names; None for other numbers than here.
        held: What it holds then, where something else than the like is asked for.
    """
    with found:
        text = found.read()
    if isinstance(text, str):
        return io.StringIO(held.decode(errors="replace") if held else _other(text, is_more, named))
    if not held and b"\0" not in text:
        held = os.fsencode(_other(os.fsdecode(text), is_more, named))
    return io.BytesIO(held or _other_saved(text, is_more, named))


def _other(text: str, is_more: bool, named: object) -> str:  # noqa: FBT001 - of one caller
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
        return {key: _other_value(one, is_more, named) for key, one in value.items()}
    if isinstance(value, list):
        rows = [_other_value(one, is_more, named) for one in value]
        return [*rows, *rows[-1:]] if is_more or len(rows) < 2 else rows[:-1]
    if isinstance(value, str):
        return named if isinstance(named, str) else value
    if isinstance(value, bool | int | float):
        return other_fact(value, is_more=is_more, named=named)
    if hasattr(value, "dtype"):  # of torch, or of numpy
        number = named if isinstance(named, int | float) else 1 if is_more else -1
        is_flag = str(value.dtype).endswith("bool")
        return ~value if is_flag else value + number if named is None else value * 0 + number
    return value


def _other_saved(content: bytes, is_more: bool, named: object) -> bytes:  # noqa: FBT001 - same
    """Return the like of what ``torch.save`` or ``numpy.save`` wrote; nothing for other bytes."""
    held = io.BytesIO()
    try:
        if content.startswith(b"\x93NUMPY"):
            import numpy as np

            np.save(held, _other_value(np.load(io.BytesIO(content)), is_more, named))
        else:
            import torch

            found = torch.load(io.BytesIO(content), weights_only=True)
            torch.save(_other_value(found, is_more, named), held)
    except Exception:  # noqa: BLE001 - bytes of any kind: then the file holds nothing
        return b""
    return held.getvalue()
