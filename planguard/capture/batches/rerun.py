"""A script whose source was edited, run from its first line without a file being written.

A script is run whole by every rank's process, so that nothing of it has to be exchanged: where
Python asks for the text of the edited file, as the main program or as a module, it gets the edited
one. Cached bytecode of that file is not read, and none is written.
"""

from __future__ import annotations

import io
import linecache
import os
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import CodeType


@dataclass(frozen=True)
class Rerun:
    """An edited file of a script.

    Attributes:
        file: The file.
        text: Its text.
    """

    file: str
    text: str

    def put(self) -> None:
        """Run the edited text from now on, in this process, which has imported nothing of it."""
        lines = self.text.splitlines(keepends=True)
        linecache.cache[self.file] = (len(self.text), None, lines, self.file)
        whole, opened, coded = os.path.realpath(self.file), io.open_code, SourceFileLoader.get_code

        def open_code(path: str) -> Any:  # runpy asks so for the main program
            is_it = os.path.realpath(path) == whole
            return io.BytesIO(self.text.encode()) if is_it else opened(path)

        def get_code(loader: SourceFileLoader, fullname: str) -> CodeType | None:
            if os.path.realpath(loader.path) != whole:
                return coded(loader, fullname)
            made: CodeType = compile(self.text, loader.path, "exec", dont_inherit=True)
            return made

        io.open_code = open_code
        setattr(SourceFileLoader, "get_code", get_code)  # noqa: B010 - the process ends behind it


def rerun(file: str, _: str, after: str) -> Rerun | None:
    """Return how a script is run with one of its files edited; None where that is no Python."""
    try:
        compile(after, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    return Rerun(file, after)
