"""The arguments of every command that reads what a planner wrote: which adapter, told what."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from planguard.errors import UsageError

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
    """Read a path with the adapter and the options of the command line.

    Raises:
        PlanError: The input cannot be read as a plan.
        UsageError: No adapter takes it, or it has no such option.
    """
    from planguard import api

    return api.load(path, planner=args.planner, **adapter_options(args))


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
