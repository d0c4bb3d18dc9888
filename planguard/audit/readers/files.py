"""Which files an audit reads, and of which kind each is by its content."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.audit.readers.blocks import STDIN, DamagedError, blocks
from planguard.audit.readers.marks import tells
from planguard.audit.readers.safe import MAX_BYTES
from planguard.audit.readers.sieve import KEPT, Sieve
from planguard.errors import PlanError, UsageError, shorten
from planguard.words import clean, cut

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_FILES = 200_000
HEAD = 4096
CLOG = re.compile(rb"V\|\d{1,6}\|base_timestamp=")
"""First bytes of a log of torchcomms' ClogHook, with the version of its format."""
RUN_LOG = b"PGRUN\0\0\0"
"""First bytes of the log of a recorded run."""
_SHOWN = bytes(range(9, 256))
STRAY = 50
"""One byte of so many may be none of a text."""
_IGNORED = (".py", ".so", ".html", ".sh", ".log.lock", ".tmp")
_NOTES = ".md"
"""What people write beside recordings, and quote other incidents in: read where nothing else is."""
LARGE = 16 << 20
"""Bytes from which a text is sieved while it is read, instead of held."""
SIEVED = "the middle of the log was left out: more than {limit:,} bytes of it tell of communication"


@dataclass(frozen=True)
class Input:
    """One file to read.

    Attributes:
        path: The file.
        was_named: The user named it; files found in a folder may be of no use without harm.
    """

    path: Path
    was_named: bool


def collect(paths: list[str], prefix: str | None) -> list[Input]:
    """Return the files that paths name, those of folders included.

    Args:
        paths: Files and folders.
        prefix: Files of folders without it in their names are left out.

    Raises:
        UsageError: Nothing to read.
    """
    found: list[tuple[Path, bool]] = []
    for name in paths:
        path = Path(name)
        if name == STDIN:
            found.append((path, True))
        elif path.is_dir():
            inner = _walk(path, prefix)
            own = [one for one in inner if not one.name.endswith(_NOTES)]
            found += [(one, False) for one in own or inner]
        elif not path.exists():
            raise UsageError(f"no such file or folder: {shorten(name)}", hint="is the path right?")
        else:
            found.append((path, True))
    if not found:
        given = ", ".join(map(shorten, paths[:3]))
        wanted = f" with the prefix {shorten(prefix)}" if prefix else ""
        raise UsageError(f"no file to read in {given}{wanted}", hint="one dump per rank")
    if len(found) > MAX_FILES:
        raise UsageError(f"{len(found):,} files; at most {MAX_FILES:,} are read")
    return [Input(path, named) for path, named in found]


def _walk(folder: Path, prefix: str | None) -> list[Path]:
    """Return the regular files of a folder in a stable order; links to folders are not followed."""
    files, waiting = [], [folder]
    while waiting:
        root = waiting.pop()
        try:
            with os.scandir(root) as listed:
                entries = sorted(listed, key=lambda entry: entry.name)
        except OSError:
            continue  # a folder that may not be read, inside of one that may
        for entry in entries:
            name = entry.name
            if name.startswith(".") or name.endswith(_IGNORED):
                continue
            if prefix is not None and prefix not in name:
                continue
            # A pipe would block, a device never end.
            if entry.is_file(follow_symlinks=False):
                files.append(root / name)
        inner = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        waiting += [root / name for name in reversed(inner)]
    return files


@dataclass(frozen=True)
class Content:
    """What an input holds.

    Attributes:
        data: Its bytes, decompressed; of a large text the lines that may matter.
        remark: How much of it was looked at only, or "".
        doubt: Why something that matters may be missing from ``data``, or "".
        damage: Why an archive could not be decompressed to its end, or None.
    """

    data: bytes
    remark: str = ""
    doubt: str = ""
    damage: DamagedError | None = None


def content(path: Path) -> Content:
    """Return what an input holds; texts of any size, in bounded memory.

    Of an archive that is damaged or cut it is what stands before the damage.

    Raises:
        PlanError: No regular file, too large and no text, or an archive that holds nothing.
    """
    damages: list[DamagedError] = []
    found = _content(path, _before_damage(blocks(path), damages))
    if damages and not found.data:
        raise damages[0]
    return replace(found, damage=damages[0]) if damages else found


def _before_damage(stream: Iterator[bytes], damages: list[DamagedError]) -> Iterator[bytes]:
    try:
        yield from stream
    except DamagedError as error:
        damages.append(error)


def _content(path: Path, stream: Iterator[bytes]) -> Content:
    name = str(path)
    held: list[bytes] = []
    size = 0
    for block in stream:
        held.append(block)
        size += len(block)
        if size > LARGE and _is_log(held[0]):
            return _sieved(name, held, stream)
        if size > MAX_BYTES:
            from planguard.audit.readers.snapshot import SMALLER, is_snapshot  # rare

            hint = SMALLER if is_snapshot(held[0]) else "keep one step of it"
            raise PlanError(f"larger than {MAX_BYTES:,} bytes", file=name, hint=hint)
    return Content(b"".join(held))


def _is_log(head: bytes) -> bool:
    """Tell whether a text is one of lines, and no document that is one value."""
    start = head[:HEAD].lstrip(b"\xef\xbb\xbf \t\r\n")
    is_value = start[:1] in (b"{", b"[") and re.match(rb"\{\s*\"(?!log\")|\[\s*[\{\]]", start)
    return _is_text(head[:HEAD]) and not is_value and CLOG.match(start) is None


def _sieved(name: str, held: list[bytes], stream: Iterator[bytes]) -> Content:
    # Logs of calls are read whole: each line is one of them.
    limit = MAX_BYTES if any(b" opCount " in block for block in held) else KEPT
    sieve = Sieve(limit)
    sieve.feed(chain(held, stream))
    data = sieve.kept()
    remark = (
        f"{name}: of {sieve.size:,} bytes those lines were read that may tell of communication, "
        f"{len(data):,} bytes"
    )
    return Content(data, remark, SIEVED.format(limit=limit) if sieve.cut else "")


def read(path: Path) -> bytes:
    """Return the bytes of a file, decompressed; see ``content``.

    Raises:
        PlanError: No regular file, too large, or a damaged archive.
    """
    return content(path).data


def kind_of(data: bytes) -> str | None:
    """Return the kind of a recording by its content; None when it is none that is known.

    Texts are looked through from end to end: what tells of a hang stands at the end of a log.
    """
    if data[:1] == b"\0":
        data = data.lstrip(b"\0")  # a log that was truncated while it was written
    head = data[:HEAD]
    if not head:
        return None
    if head.startswith(RUN_LOG):
        return "run"
    if CLOG.match(head) is not None:
        return "clog"
    if head[0] == 0x80 and len(head) > 1 and head[1] <= 5:
        return "flight-recorder"
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:1] == b"{" and not start.startswith(b'{"log"'):
        kind = _json_kind(data)
        if kind is not None:
            return kind
    if re.match(rb"\[\s*\{", start):
        if b'"ph"' in head:
            return "kineto"
        if re.search(rb'"frames"\s*:', data) and b'"thread_' in data:
            return "stacks"
    if _is_text(head):
        if b"NCCL INFO" in data:
            return "nccl-log"
        return "text" if tells(data) else None
    return "chakra"


def first_lines(data: bytes) -> str:
    """Return how a text begins, in one line that is safe to show; empty where it is none."""
    head = data[:HEAD]
    if not head or not _is_text(head):
        return ""
    rows = [row.strip() for row in head.decode("utf-8", errors="replace").splitlines()]
    return " / ".join(clean(cut(row, 90)) for row in [row for row in rows if row][:2])


def _json_kind(data: bytes) -> str | None:
    """Return the kind of a JSON object by its names; only the ends are looked at."""
    ends = data[: 1 << 16] + data[-(1 << 16) :]
    named = re.search(rb'"schema"\s*:\s*"([^"]{1,60})"', data[:HEAD])
    if named is not None:
        schema = named[1]
        if schema.startswith(b"planguard.plan/"):
            return "plan"
        if b"chakra" in schema or re.match(rb"\d+\.\d+", schema):
            return "execution-trace"
    for mark, kind in (
        (rb'"communicators"\s*:', "ras"),
        (rb'"traceEvents"\s*:', "kineto"),
        (rb'"collective_seq_id"\s*:|"pg_config"\s*:|"comm_lib_version"\s*:', "flight-recorder"),
        (rb'"nodes"\s*:', "execution-trace"),
        (rb'"world_size"\s*:.*"ranks"\s*:', "plan"),
        (rb'"actions"\s*:', "log"),
    ):
        if re.search(mark, ends, re.DOTALL):
            return kind
    return None


def _is_text(head: bytes) -> bool:
    """Tell whether bytes are text: a few stray ones, as in a log that was cut, do not matter."""
    wrong = len(head.translate(None, _SHOWN)) + head.decode("utf-8", errors="replace").count(
        "\ufffd"
    )
    return wrong * STRAY <= len(head) + 4 * STRAY
