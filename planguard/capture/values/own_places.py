"""Which files only one node has; ``other_files`` says what they could hold on another one.

``/tmp``, ``$TMPDIR``, ``/dev/shm`` and scratch disks are a node's own, as is what is named after
the host. What a rank reads there, and did not write there itself, is an answer of that node, as
``/proc`` is (``own_host``). What it wrote is not, nor what was changed between the beginning of
this process and that of the play; what another rank wrote in the play is (``is_anew``). A folder
that a program lies in is where it was put for every rank, together with what lies beside it, unless
a place of the node's own begins below.

Files in other places may be shared. What they hold is taken to be the same on every rank, and they
are named (``own_answers.assumed``).
"""

from __future__ import annotations

import os
import re
import socket
import stat
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.sources import file_of, is_installed, is_standard

if TYPE_CHECKING:
    from collections.abc import Iterator

HELD = "what a file of this node holds"
MOST_BYTES = 1 << 20
"""Of a file that holds something else on another node; a larger one is data, and named."""
_PLACES = re.compile(r"/(tmp|var/tmp|dev/shm|run|scratch|local[^/]*)(?=/)")
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


def is_anew(path: str, began: float) -> bool:
    """Tell whether a file was changed since a play began, in seconds since the epoch."""
    try:
        return stat.S_ISREG((found := _STAT(path)).st_mode) and found.st_ctime >= began
    except OSError:
        return False


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
    ) and (not os.path.exists(path) or _STAT(path).st_size <= MOST_BYTES)  # noqa: PTH110 - a text  # fmt: skip


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
