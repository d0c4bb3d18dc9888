"""The arguments of every command that reads what a planner wrote: which adapter, told what."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.errors import PlanError, UsageError, shorten

if TYPE_CHECKING:
    from planguard.plan.plan import Plan


_OF_LOADING = ("obj", "planner")
"""What ``planguard.load`` takes beside options: no adapter has an option of such a name."""
LOOKED_AT = 64
"""Files of a folder that are looked at to tell what it holds."""


def add_adapter_arguments(parser: argparse.ArgumentParser, what: str) -> None:
    """Declare ``--planner`` and ``--option``.

    Args:
        parser: The command's.
        what: Name of the argument that the adapter reads, for the help.
    """
    parser.add_argument("--planner", metavar="NAME", help=f"adapter to read {what} with")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        type=_option,
        metavar="NAME=VALUE",
        help="an option of the adapter, such as slots=4; VALUE is JSON or plain text",
    )


def load_plan(path: str, args: argparse.Namespace, data: bytes | None = None) -> Plan:
    """Read a path, or ``-`` for standard input, with the adapter and options of the command line.

    Args:
        path: The path, or the place of ``data``.
        args: The command line.
        data: The plan itself, where it has no file of its own.

    Raises:
        PlanError: The input cannot be read as a plan.
        UsageError: No adapter takes it, or it has no such option.
    """
    from planguard import api

    given: str | bytes | None = data
    if given is None:
        given = _standard_input() if path == "-" else path
    options = adapter_options(args)
    try:
        return api.load(given, planner=args.planner, **options)
    except PlanError as error:
        if path == "-" or args.planner is not None or not is_evidence(path):
            raise
        raise PlanError(
            "is evidence of a run and no plan",
            file=path,
            hint=f"planguard audit {shorten(path, 200)} says what the run was stuck in",
        ) from error


def is_evidence(path: str) -> bool:
    """Tell whether a path holds what a run left behind, and nothing that an adapter reads.

    Of a folder some files are looked at; a pipe or a device is not read.
    """
    if not (Path(path).is_file() or Path(path).is_dir()):
        return False
    from planguard import registry
    from planguard.audit.readers.files import collect, kind_of, read
    from planguard.audit.readers.part import PLAN
    from planguard.audit.readers.reading import READERS

    evidence = READERS.keys() - {PLAN, "chakra"}  # any binary file may look like one of Chakra's
    try:
        if registry.recognize(path) is not None:
            return False
        files = [one.path for one in collect([path], None)][:LOOKED_AT]
    except (PlanError, UsageError, OSError):
        return False
    for file in files:
        try:
            if kind_of(read(file)) in evidence:
                return True
        except (PlanError, OSError):
            continue
    return False


def _standard_input() -> bytes:
    """Return what is piped in, at most what a plan file may hold and one byte more.

    Raises:
        PlanError: Nothing is in it.
        UsageError: Nothing is piped in.
    """
    from planguard.plan.limits import DEFAULT_LIMITS

    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("nothing is piped into `-`", hint="... | planguard check -")
    given = sys.stdin.buffer.read(DEFAULT_LIMITS.file_bytes + 1)
    if not given.strip():
        raise PlanError("standard input is empty", file="-")
    return given


def adapter_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options by name.

    Raises:
        UsageError: One is given twice.
    """
    found: dict[str, Any] = {}
    for name, value in args.option:
        if name in found:
            raise UsageError(f"--option {name} is given twice")
        found[name] = value
    return found


def _option(text: str) -> tuple[str, Any]:
    import json

    name, mark, value = text.partition("=")
    name = name.replace("-", "_")
    if not mark or not name.isidentifier() or name in _OF_LOADING:
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME=VALUE, such as slots=4")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value
