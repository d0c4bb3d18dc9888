"""What every command takes, and what ``--verbose`` says on standard error."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def add_common(parser: argparse.ArgumentParser) -> None:
    """Declare the options of every command."""
    group = parser.add_argument_group("all commands")
    group.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="say on stderr what runs and what it reads; tracebacks",
    )
    group.add_argument(
        "--no-color",
        dest="color",
        action="store_const",
        const="never",
        default=argparse.SUPPRESS,
        help="no color, as with NO_COLOR=1",
    )


def say_start() -> None:
    """Say which PlanGuard runs, on what, and with which settings file."""
    import platform

    from planguard import __version__, kernels
    from planguard.config import find_file
    from planguard.sources import package_folder

    found = find_file(Path.cwd())
    lines = (
        f"planguard {__version__} ({package_folder()})",
        f"Python {platform.python_version()}, {kernels.IMPLEMENTATION} kernels",
        f"settings near: {found if found is not None else 'no file'}",
    )
    _say(lines)


def say_end(code: int) -> None:
    """Say which files were read, those of the installation aside, and the exit code."""
    from planguard.files import reads
    from planguard.sources import package_folder

    own = {Path(sys.prefix), Path(sys.base_prefix), package_folder()}
    system = (Path("/dev"), Path("/proc"), Path("/sys"), Path("/usr"), Path("/etc"))
    shown = [
        path
        for path in map(Path, reads())
        if not any(path.is_relative_to(folder) for folder in (*own, *system))
        and path.suffix not in (".py", ".pyc")
    ]
    _say([*_listed(shown), f"exit code {code}"])


def _listed(paths: list[Path], most: int = 20) -> Iterator[str]:
    """Yield a line for each path, and the number of those that are left out."""
    for path in paths[:most]:
        yield f"read {path}"
    if len(paths) > most:
        yield f"read {len(paths) - most} more"


def _say(lines: tuple[str, ...] | list[str]) -> None:
    for line in lines:
        print(f"verbose: {line}", file=sys.stderr)
