"""Which files an audit reads, of which kind each is, and whose rank it is."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from planguard.audit.safe import MAX_BYTES, decompress
from planguard.errors import PlanError, UsageError, shorten

MAX_FILES = 200_000
HEAD = 4096
RUN_LOG = b"PGRUN\0\0\0"
"""First bytes of the log of a recorded run."""
_NUMBER = re.compile(r"\d{1,9}")
_RANK_WORD = re.compile(r"rank[_\-.=]?(\d{1,9})(?!\d)", re.IGNORECASE)
_IGNORED = (".py", ".so", ".html", ".md", ".sh", ".log.lock", ".tmp")


@dataclass(frozen=True)
class Input:
    """One file to read.

    Attributes:
        path: The file.
        rank: Rank that its name says, or None.
        was_named: The user named it; files found in a folder may be of no use without harm.
    """

    path: Path
    rank: int | None
    was_named: bool


def collect(paths: list[str], prefix: str | None) -> list[Input]:
    """Return the files that paths name, those of folders included, with the ranks of their names.

    Args:
        paths: Files and folders.
        prefix: What stands in front of the rank in file names; files of folders without it are
            left out. Without a prefix the rank is taken from the word ``rank`` and a number, or
            from the one number that differs between the files.

    Raises:
        UsageError: Nothing to read, or the ranks cannot be told from the names.
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
    ranks = _ranks([path for path, _ in found], prefix)
    return [Input(path, rank, named) for (path, named), rank in zip(found, ranks, strict=True)]


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


def _ranks(paths: list[Path], prefix: str | None) -> list[int | None]:
    if prefix is not None:
        return [_behind(path.name, prefix) for path in paths]
    words = [_RANK_WORD.findall(path.name) for path in paths]
    if all(words):
        return [int(found[-1]) for found in words]
    return _varying(paths, words)


def _behind(name: str, prefix: str) -> int | None:
    place = name.find(prefix)
    match = _NUMBER.match(name, place + len(prefix)) if place >= 0 else None
    return None if match is None else int(match.group())


def _varying(paths: list[Path], words: list[list[str]]) -> list[int | None]:
    """Return the number of each name, where names of one shape differ in one number only."""
    ranks: list[int | None] = [int(found[-1]) if found else None for found in words]
    shapes: dict[tuple[Path, str], list[int]] = {}
    for place, path in enumerate(paths):
        if ranks[place] is None:
            shapes.setdefault((path.parent, _NUMBER.sub("#", path.name)), []).append(place)
    for (_, shape), places in shapes.items():
        numbers = [list(map(int, _NUMBER.findall(paths[place].name))) for place in places]
        if not numbers[0]:
            continue
        columns = [n for n in range(len(numbers[0])) if len({row[n] for row in numbers}) > 1]
        if len(places) == 1:
            columns = [len(numbers[0]) - 1] if len(numbers[0]) == 1 else []
        if len(columns) > 1:
            raise UsageError(
                f"which number of {shorten(shape)} is the rank?",
                hint="--prefix says what stands in front of it, such as --prefix trace_rank_",
            )
        if columns:
            for place, row in zip(places, numbers, strict=True):
                ranks[place] = row[columns[0]]
    return ranks


def read(path: Path) -> bytes:
    """Return the bytes of a file, decompressed.

    Raises:
        PlanError: No regular file, too large, or a damaged archive.
    """
    name = str(path)
    try:
        with open(name, "rb") as file:  # noqa: PTH123  cheaper, and there are thousands
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
    """Return the kind of a recording by its first bytes; None when it is none that is known."""
    head = data[:HEAD]
    if not head:
        return None
    if head.startswith(RUN_LOG):
        return "run"
    if head[0] == 0x80 and len(head) > 1 and head[1] <= 5:
        return "flight-recorder"
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] == b"{":
        return _json_kind(data)
    if text[:1] == b"[":
        return "kineto" if b'"ph"' in head else None
    if b"NCCL INFO" in head or b"NCCL INFO" in data[: 1 << 20]:
        return "nccl-log"
    if re.search(
        rb"^(Process \d+:|Thread (0x)?[0-9a-fA-F]+|Current thread 0x)", head, re.MULTILINE
    ):
        return "stacks"
    if b"\0" in head or not _is_text(head):
        return "chakra"
    return None


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


def duplicates(ranks: list[int]) -> list[int]:
    """Return the ranks that occur more than once."""
    return sorted(rank for rank, count in Counter(ranks).items() if count > 1)
