"""``planguard init``: a project's settings file, with every key explained."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from planguard.files import Targets, write

if TYPE_CHECKING:
    import argparse

FILE = "planguard.toml"

_EPILOG = """\
examples:
  planguard init                  write planguard.toml here
  planguard init --model gloo     the same, for jobs on gloo
  planguard init --print          show the file, write nothing
"""

_TEXT = """\
# Settings of `planguard check` for this folder and those below it.
# `planguard check --show-settings` prints what holds. The command line wins.

# Execution model: gloo, gloo-detail, nccl, nccl-lazy, nccl-eager,
# nccl-serialized, mpi-eager, mpi-sync, mpi-pg, or all.
model = "{model}"

# Lowest severity that fails the gate: error, warning or note.
fail-on = "error"

# Time for what is not linear in the plan, such as "500ms", "2s" or "1m".
# budget = "2s"

# Findings that count, and findings that do not: codes, names or prefixes.
# select = ["ALL"]
# ignore = ["PG412"]

# The severity of a code. Proved deadlocks (PG0xx) stay errors.
# [severity]
# PG214 = "error"

# Findings that are expected in some plans. Every entry needs a reason.
# [per-plan-ignores]
# "legacy/*.plan.json" = [{{ code = "PG301", reason = "drained at exit" }}]
"""


class Init:
    """The command; see ``planguard init --help``."""

    name = "init"
    help = "Write planguard.toml, the settings of a project, with every key explained."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.epilog = _EPILOG
        parser.add_argument("--model", metavar="NAME", default="nccl", help="nccl by default")
        parser.add_argument("--print", action="store_true", help="print the file, write nothing")
        parser.add_argument("--force", action="store_true", help=f"overwrite {FILE}")

    def run(self, args: argparse.Namespace) -> int:
        """Write or print the file.

        Raises:
            UsageError: There is a file already, or the model is unknown.
        """
        from planguard.config import settings_of

        text = _TEXT.format(model=args.model)
        settings_of(text, FILE)  # what is written is what `check` reads
        if args.print:
            print(text, end="")
            return 0
        from planguard.files import Inputs

        write(Targets(Inputs(), args.force).claim(FILE, "planguard init"), text)
        print(
            f"wrote {FILE}; see what holds with: planguard check --show-settings", file=sys.stderr
        )
        return 0
