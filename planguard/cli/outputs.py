"""Files that a command writes beside its terminal output: never half, never over its inputs."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Self

from planguard.errors import UsageError, shorten
from planguard.explain.lines import Style
from planguard.files import STDOUT, Draft, Inputs, Target, Targets
from planguard.report import FORMATS, make_reporter

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from pathlib import Path
    from types import TracebackType

    from planguard.report import Reporter, ReportOptions

VIEWERS = {"json": "planguard explain", "jsonl": "planguard explain"}
"""Command that shows a file of a format; ``less`` for all others."""
PRINTED = "text"
"""What is printed where neither ``--format`` nor ``-o FORMAT=-`` says otherwise."""


def targets_of(args: argparse.Namespace, inputs: Iterable[str | Path | None]) -> Targets:
    """Return what guards the outputs of a command.

    Args:
        args: The command line; its adapter options may name files, which are inputs as well.
        inputs: What else it reads; None and ``-`` are skipped.
    """
    named = [value for _, value in getattr(args, "option", ()) if isinstance(value, str)]
    found = [path for path in (*inputs, *named) if path is not None and path != STDOUT]
    return Targets(Inputs.of(found), args.force)


class Output:
    """One ``-o FORMAT=FILE``: a reporter on a file that appears when it is complete.

    Attributes:
        reporter: Where results go; only inside the ``with`` block.
    """

    reporter: Reporter

    def __init__(self, name: str, target: Target, options: ReportOptions) -> None:
        self.format, self.target = name, target
        self._options = replace(options, quiet=False, style=Style())
        self._draft = Draft(target)

    def __enter__(self) -> Self:
        """Open the draft beside the file."""
        text: IO[str] = self._draft.__enter__().text()
        self.reporter = make_reporter(self.format, text, self._options)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Put the file in place, or remove the draft when something went wrong."""
        self._draft.__exit__(kind, error, trace)

    @property
    def announcement(self) -> str:
        """What was written, and the command that shows it."""
        viewer, path = VIEWERS.get(self.format, "less"), str(self.target.path)
        return f"wrote {path} ({self.format}); see it with: {viewer} {shlex.quote(path)}"


@dataclass(frozen=True)
class Outputs:
    """What a command line asks for.

    Attributes:
        printed: Format of standard output.
        files: Format and target of each ``-o FORMAT=FILE``.
    """

    printed: str
    files: tuple[tuple[str, Target], ...] = field(default_factory=tuple)

    def open(self, options: ReportOptions) -> list[Output]:
        """Return the outputs that are files, each a context."""
        return [Output(name, target, options) for name, target in self.files]

    def again(self) -> Outputs:
        """Return the same outputs for another round: what this one wrote is replaced."""
        files = ((name, replace(target, force=True)) for name, target in self.files)
        return replace(self, files=tuple(files))

    def printer(self, options: ReportOptions) -> Reporter:
        """Return the reporter on standard output."""
        return make_reporter(self.printed, sys.stdout, options)


def outputs_of(args: argparse.Namespace, targets: Targets) -> Outputs:
    """Return the outputs of a command line.

    ``-o FORMAT=-`` is standard output, where one result can be: it stands for ``--format FORMAT``.

    Raises:
        UsageError: Not ``FORMAT=FILE``, an unknown format, a file that must not be written, or
            two results for standard output.
    """
    files: list[tuple[str, Target]] = []
    printed: str | None = args.format
    for given in args.output:
        name, separator, path = given.partition("=")
        if name == "plan" and path:
            continue  # the repaired plan, which planguard.cli.fix writes
        if not separator or not path or name not in FORMATS:
            raise UsageError(
                f"-o {shorten(given)}: not FORMAT=FILE", hint="formats: " + ", ".join(FORMATS)
            )
        if path != STDOUT:
            files.append((name, targets.claim(path, f"-o {name}")))
        elif printed in (None, name):
            printed = name
        else:
            hint = "name a file for one of them"
            raise UsageError(f"-o {name}=-: {printed} is printed already", hint=hint)
    return Outputs(printed or PRINTED, tuple(files))
