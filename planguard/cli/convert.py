"""``planguard convert``: planner formats to plan files, and plan files to the flat form."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.cli.adapters import add_adapter_arguments, load_plan
from planguard.errors import UsageError
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
            help="file to write, compressed if it ends in .gz; standard output if left out",
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
            UsageError: OUT exists, or cannot be written.
            PlanError: IN cannot be read as a plan, or is too large for the flat form.
        """
        # Looked at first: converting may take long.
        if args.output is not None and os.path.lexists(args.output) and not args.force:
            raise _exists(args.output)
        plan = load_plan(args.input, args)
        if args.output is None:
            for piece in _text(plan, flat=args.flat):
                sys.stdout.buffer.write(piece)
            return 0
        _write(Path(args.output), _text(plan, flat=args.flat), force=args.force)
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


def _write(path: Path, pieces: Iterator[bytes], *, force: bool) -> None:
    """Write a file whole or not at all: a half plan must never be checked by accident."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("xb") as stream:
            if path.suffix == ".gz":
                import gzip

                # No time stamp: equal plans give equal files.
                with gzip.GzipFile("", "wb", 6, stream, mtime=0) as packed:
                    packed.writelines(pieces)
            else:
                stream.writelines(pieces)
        if not force:
            path.touch(exist_ok=False)  # fails if the file has appeared meanwhile
        part.replace(path)
    except FileExistsError:
        raise _exists(str(path)) from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="choose another -o") from None
    finally:
        part.unlink(missing_ok=True)


def _exists(path: str) -> UsageError:
    return UsageError(f"{path} exists and was left as it is", hint="--force overwrites it")
