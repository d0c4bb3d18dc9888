"""``planguard schema``: the JSON Schema of a plan or of a result."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


_EPILOG = """\
examples:
  planguard schema plan > plan.schema.json       for an editor, or for a planner's own tests
"""


class Schema:
    """The command; see ``planguard schema --help``."""

    name = "schema"
    help = "Print the JSON Schema (draft 2020-12) of a plan file or of a result."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.epilog = _EPILOG
        parser.add_argument("what", choices=("plan", "result"), help="which file format")

    def run(self, args: argparse.Namespace) -> int:
        """Print the schema."""
        if args.what == "plan":
            from planguard.plan.reading.schema import plan_schema

            schema = plan_schema()
        else:
            from planguard.result.document import result_schema

            schema = result_schema()
        print(json.dumps(schema, indent=1))
        return 0
