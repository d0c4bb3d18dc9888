"""``planguard convert``: planner formats to plan files, and plan files to the flat form."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from planguard.cli.adapters import add_adapter_arguments, load_plan
from planguard.cli.outputs import targets_of
from planguard.files import STDOUT, write_packed
from planguard.words import plural

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from planguard.plan.plan import Plan


_EPILOG = """\
examples:
  planguard convert schedule.csv -o schedule.plan.json   what an adapter reads, as a plan file
  planguard convert plan.json --flat                     one explicit program per rank, to read
"""


class Convert:
    """The command; see ``planguard convert --help``."""

    name = "convert"
    help = "Write a plan as a plan file (planguard.plan/1), one action per line."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.epilog = _EPILOG
        parser.add_argument("input", metavar="IN", help="plan file, or a file of a planner")
        parser.add_argument(
            "-o",
            "--output",
            metavar="OUT",
            help="file to write, compressed if it ends in .gz; standard output if left out or -",
        )
        parser.add_argument(
            "--flat",
            action="store_true",
            help="one explicit program per rank: no templates, families, relative peers, loops",
        )
        add_adapter_arguments(parser, "IN")
        parser.add_argument("--force", action="store_true", help="overwrite OUT")

    def run(self, args: argparse.Namespace) -> int:
        """Convert one plan.

        Raises:
            UsageError: OUT must not be written: it exists, or is IN.
            OSError: OUT cannot be written.
            PlanError: IN cannot be read as a plan, or is too large for the flat form.
        """
        # Looked at first: converting may take long.
        targets = targets_of(args, [args.input])
        output = None if args.output in (None, STDOUT) else targets.claim(args.output, "-o")
        plan = load_plan(args.input, args)
        if output is None:
            for piece in _text(plan, flat=args.flat):
                sys.stdout.buffer.write(piece)
            return 0
        write_packed(output, _text(plan, flat=args.flat))
        size = f"{plural(plan.world_size, 'rank')}, {plural(plan.actions, 'action')}"
        print(
            f"wrote {args.output} ({size}); check it: planguard check {args.output}",
            file=sys.stderr,
        )
        return 0


def _text(plan: Plan, *, flat: bool) -> Iterator[bytes]:
    """Yield the text of the file to write."""
    if flat:
        from planguard.plan.flatten import flat_lines

        yield from flat_lines(plan)
    else:
        from planguard.plan.format import write

        yield write(plan)
