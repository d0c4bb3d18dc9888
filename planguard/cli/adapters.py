"""The arguments of every command that reads what a planner wrote: which adapter, told what."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from planguard.errors import PlanError, UsageError

if TYPE_CHECKING:
    from planguard.plan.plan import Plan


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


def load_plan(path: str, args: argparse.Namespace) -> Plan:
    """Read a path, or ``-`` for standard input, with the adapter and options of the command line.

    Raises:
        PlanError: The input cannot be read as a plan.
        UsageError: No adapter takes it, or it has no such option.
    """
    from planguard import api

    given = _standard_input() if path == "-" else path
    return api.load(given, planner=args.planner, **adapter_options(args))


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
    if not mark or not name.isidentifier() or name == "planner":
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME=VALUE, such as slots=4")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value
