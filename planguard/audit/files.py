"""Which files an audit reads, and of which kind each is by its content."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from planguard.audit.safe import MAX_BYTES, decompress
from planguard.errors import PlanError, UsageError, shorten
from planguard.words import clean, cut

MAX_FILES = 200_000
HEAD = 4096
RUN_LOG = b"PGRUN\0\0\0"
"""First bytes of the log of a recorded run."""
_IGNORED = (".py", ".so", ".html", ".md", ".sh", ".log.lock", ".tmp")
_TEXTS = re.compile(
    rb"NCCL INFO|Watchdog caught collective|last enqueued (?:NCCL )?work|"
    rb"Traceback \(most recent call last\)|Detected mismatch between collectives|"
    rb"monitored_?[bB]arrier|ProcessGroup[A-Z]\w*\.cpp|ChildFailedError|Fatal Python error|"
    rb"EnforceNotMet|failed \(exitcode|srun: error|have launched up to operation|"
    rb"Communicators\.\.\.|remainder of ranks for more than|EI0002: |to join the rendezvous|"
    rb"been waiting for [^\n]{0,400}may be stuck|to avoid infinite hangs|"
    rb"MPI_ABORT was invoked|called MPI_Abort|noticed that process rank|KILLED BY SIGNAL|"
    rb"The first process to do so was|first observed failure|^[^\n]{0,60}?(?:Process \d+: |Current thread 0x)|"
    rb"^[^\n]{0,60}?Thread (?:0x)?[0-9a-fA-F]+ \(",
    re.MULTILINE,
)
"""What stands in texts that an audit reads: logs of ranks, stacks, reports of NCCL."""


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
        if path.is_dir():
            found += [(inner, False) for inner in _walk(path, prefix)]
        elif not path.exists():
            raise UsageError(f"no such file or folder: {shorten(name)}")
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
    files = []
    for root, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(root) / name
            if name.startswith(".") or name.endswith(_IGNORED):
                continue
            if prefix is not None and prefix not in name:
                continue
            # A pipe would block, a device never end.
            if stat.S_ISREG(path.lstat().st_mode):
                files.append(path)
    return files


def _at_once(name: str, flags: int) -> int:
    """Open a file, a pipe without waiting for somebody who writes."""
    return os.open(name, flags | os.O_NONBLOCK)


def read(path: Path) -> bytes:
    """Return the bytes of a file, decompressed.

    Raises:
        PlanError: No regular file, too large, or a damaged archive.
    """
    name = str(path)
    try:
        with open(name, "rb", opener=_at_once) as file:
            known = os.fstat(file.fileno())
            if not stat.S_ISREG(known.st_mode):
                raise PlanError("not a regular file", file=name)
            data = file.read(min(known.st_size, MAX_BYTES) + 1)
    except OSError as error:
        raise PlanError(f"cannot be read: {error.strerror}", file=name) from None
    if len(data) > MAX_BYTES:
        raise PlanError(f"larger than {MAX_BYTES:,} bytes", file=name, hint="keep one step of it")
    return decompress(data, name)


def kind_of(data: bytes) -> str | None:
    """Return the kind of a recording by its content; None when it is none that is known.

    Texts are looked through from end to end: what tells of a hang stands at the end of a log.
    """
    head = data[:HEAD]
    if not head:
        return None
    if head.startswith(RUN_LOG):
        return "run"
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
        return "text" if _TEXTS.search(data) else None
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
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start > len(head) - 4
    return not any(byte < 9 for byte in head)
