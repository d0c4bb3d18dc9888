"""``planguard report SNAPSHOT...``: memory snapshots of torch, one or several beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from planguard.errors import PlanError, UsageError, shorten

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from planguard.recording.memory import Device

MOST = 64
"""Most snapshots of one page."""
_PICKLE = b"\x80"


def snapshots(paths: Sequence[str]) -> list[Path]:
    """Return the snapshots that paths name, those of folders included; none where it is no such.

    Raises:
        UsageError: Some of the paths are snapshots and others are not, or there are too many.
    """
    from planguard.audit.readers.snapshot import is_snapshot

    found: list[Path] = []
    others: list[str] = []
    for name in paths:
        path = Path(name)
        files = sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]
        heads = {file: _head(file) for file in files}
        some = [file for file, head in heads.items() if is_snapshot(head)]
        # A folder with dumps of other kinds is a recording.
        pickles = [file for file, head in heads.items() if head.startswith(_PICKLE)]
        if some and pickles == some:
            found += some
        else:
            others.append(name)
    if found and others:
        hint = "give snapshots only, or report the other one by itself"
        one, other = shorten(others[0]), shorten(str(found[0]))
        raise UsageError(f"{one} is no memory snapshot, but {other} is", hint=hint)
    if len(found) > MOST:
        given = f"{len(found):,} memory snapshots"
        raise UsageError(f"{given}; at most {MOST} go on a page", hint="name those to compare")
    return found


def _head(path: Path) -> bytes:
    """Return the first bytes of a file, decompressed; nothing of what cannot be read."""
    from planguard.audit.readers.blocks import blocks
    from planguard.files import STDOUT, is_special

    if str(path) == STDOUT or is_special(path):
        return b""
    try:
        return next(blocks(path), b"")[:512]
    except PlanError:
        return b""


def memory(files: Sequence[Path], chosen: str, args: argparse.Namespace) -> bytes:
    """Return snapshots as text or as a page.

    Raises:
        UsageError: Another format was asked for, or an option of plans.
        PlanError: One of them cannot be read.
    """
    from planguard.report.page.memory import memory_page
    from planguard.report.pictures.memory_text import memory_text

    if chosen not in {"html", "text"}:
        raise UsageError(f"a memory snapshot has no {chosen} picture", hint="-o memory.html")
    if args.model is not None:
        raise UsageError("--model is of plans, not of memory snapshots", hint="leave it out")
    found = [device for file, name in _named(files) for device in _devices(file, name)]
    if chosen == "text":
        return memory_text(found).encode()
    title = files[0].name if len(files) == 1 else f"{len(files)} memory snapshots"
    return memory_page(title, found).data


def _named(files: Sequence[Path]) -> Iterable[tuple[Path, str]]:
    """Yield files with what they are called: their names, or their paths where names are equal."""
    stems = [file.name.partition(".")[0] for file in files]
    is_unique = len(set(stems)) == len(stems)
    return zip(files, stems if is_unique else map(str, files), strict=True)


def _devices(file: Path, name: str) -> list[Device]:
    from dataclasses import replace

    from planguard.audit.readers.files import read
    from planguard.audit.readers.snapshot import read_snapshot
    from planguard.recording.memory import devices

    found = devices(read_snapshot(read(file), str(file), name))
    if len(found) == 1:
        return found
    return [replace(one, name=f"{name}, device {one.device}") for one in found]
