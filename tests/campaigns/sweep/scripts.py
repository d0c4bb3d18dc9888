"""Scripts of a planner's own sources, run in this process for what they print."""

from __future__ import annotations

import contextlib
import io
import runpy
import subprocess
import sys
from typing import TYPE_CHECKING
from unittest import mock

from .cases import RefusedError

if TYPE_CHECKING:
    from pathlib import Path


def printed(script: Path, arguments: tuple[str, ...]) -> str:
    """Run a script as ``__main__`` and return what it prints.

    Raises:
        RefusedError: It ended with an exception, or with an exit code that is not 0.
    """
    out = io.StringIO()
    argv = mock.patch.object(sys, "argv", [str(script), *arguments])
    with argv, contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            runpy.run_path(str(script), run_name="__main__")
        except SystemExit as end:
            if end.code not in (0, None):
                raise RefusedError(f"exit {end.code}: {err.getvalue()[-160:]}") from end
        except Exception as error:
            raise RefusedError(f"{type(error).__name__}: {str(error)[:160]}") from error
    return out.getvalue()


def revision(source: Path) -> str:
    """Return the revision of a checkout, short."""
    done = subprocess.run(
        ["git", "-C", str(source), "rev-parse", "--short", "HEAD"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip() or "unknown"
