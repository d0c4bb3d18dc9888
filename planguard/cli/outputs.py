"""Files that a command writes beside its terminal output: never half, never over another."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

from planguard.errors import UsageError, shorten
from planguard.explain.lines import Style
from planguard.report import FORMATS, make_reporter

if TYPE_CHECKING:
    import argparse
    from types import TracebackType

    from planguard.report import Reporter, ReportOptions

VIEWERS = {"json": "planguard explain", "jsonl": "planguard explain"}
"""Command that shows a file of a format; ``less`` for all others."""


class Output:
    """One ``-o FORMAT=FILE``: a reporter on a file that appears when it is complete.

    Attributes:
        reporter: Where results go; only inside the ``with`` block.
    """

    reporter: Reporter

    def __init__(self, name: str, path: Path, options: ReportOptions) -> None:
        self.format, self.path = name, path
        self._options = replace(options, quiet=False, style=Style())
        self._draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        """Open the draft beside the file."""
        try:
            self._file = self._draft.open("w", encoding="utf-8", newline="\n")
        except OSError as error:
            reason = f"cannot write {shorten(str(self.path))}: {error.strerror}"
            raise UsageError(reason, hint="is the folder there, and yours?") from None
        self.reporter = make_reporter(self.format, self._file, self._options)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Put the file in place, or remove the draft when something went wrong."""
        if self._file is not None:
            self._file.close()
        if kind is None:
            self._draft.replace(self.path)
        else:
            self._draft.unlink(missing_ok=True)

    @property
    def announcement(self) -> str:
        """What was written, and the command that shows it."""
        viewer = VIEWERS.get(self.format, "less")
        return (
            f"wrote {self.path} ({self.format}); see it with: "
            f"{viewer} {shlex.quote(str(self.path))}"
        )


def outputs_of(args: argparse.Namespace, options: ReportOptions) -> list[Output]:
    """Return the outputs of a command line.

    Raises:
        UsageError: Not ``FORMAT=FILE``, an unknown format, or a file that exists.
    """
    outputs: list[Output] = []
    for given in args.output:
        name, separator, path = given.partition("=")
        if name == "plan" and path:
            continue  # the repaired plan, which planguard.cli.fix writes
        if not separator or not path or name not in FORMATS:
            raise UsageError(
                f"-o {shorten(given)}: not FORMAT=FILE", hint="formats: " + ", ".join(FORMATS)
            )
        if Path(path).is_dir():
            raise UsageError(f"{shorten(path)} is a folder", hint="name a file in it")
        if Path(path).exists() and not args.force:
            raise UsageError(f"{shorten(path)} exists", hint="--force overwrites it")
        if any(output.path == Path(path) for output in outputs):
            raise UsageError(f"{shorten(path)} is named twice", hint="one file per format")
        outputs.append(Output(name, Path(path), options))
    return outputs
