"""What is decided beyond its samples: a function that is given one, or a script with its loaders.

A function is alive: it gets code that tells its tests. A script is compiled in each rank anew, with
all modules of the program that it imports, so that there the tests are told from the first line.
What depends on a batch is read off the source: of a function its first parameter, of a script what
its loops take from loaders.
"""

from __future__ import annotations

import ast
import importlib.machinery
import runpy
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from planguard.capture.batches.asked import Followed, Told, followed, following
from planguard.capture.batches.steps import function_of
from planguard.capture.names.depends import tests_of
from planguard.capture.names.walked import tests_on_walks
from planguard.capture.play.script import walks_in
from planguard.sources import is_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from planguard.capture.batches.asked import Forced
    from planguard.capture.names.depends import Test


class Subject(Protocol):
    """What is decided."""

    def first(self) -> list[str]:
        """Return the files whose tests are told from the first play on."""

    def follow(self, file: str) -> Followed | None:
        """Return how a file is run with its tests told; None where it has no source to read."""

    def telling(
        self, those: tuple[Followed, ...], file: Path, forced: Forced | None, rank: int
    ) -> AbstractContextManager[None]:
        """Tell the tests of a rank to the end of the block, and write them to a file."""

    def tests(self, sources: Mapping[str, str]) -> list[Test]:
        """Return the tests of some files, and which of them depend on a batch."""

    @property
    def unread(self) -> str:
        """Why it cannot be known which tests there are; empty where it can."""


@dataclass(frozen=True)
class Function:
    """A function that is given a sample.

    Attributes:
        step: The function.
    """

    step: Callable[..., Any]

    def first(self) -> list[str]:
        """Return its file."""
        found = function_of(self.step)
        return [] if found is None else [found[0]]

    def follow(self, file: str) -> Followed | None:
        """Return the functions of a file, with the code that tells their tests."""
        return followed(file)

    def telling(
        self, those: tuple[Followed, ...], file: Path, forced: Forced | None, rank: int
    ) -> AbstractContextManager[None]:
        """Exchange the code of the functions that are told."""
        return following(those, file, forced, rank)

    def tests(self, sources: Mapping[str, str]) -> list[Test]:
        """Return the tests, by the first parameter."""
        found = function_of(self.step)
        return [] if found is None else tests_of(sources, (found[0], found[1]), found[2])

    @property
    def unread(self) -> str:
        """Say so where it is no function with a source."""
        if function_of(self.step) is None:
            return "the step is no function whose source can be read"
        return ""


@dataclass(frozen=True)
class Walking:
    """A script whose loops walk over loaders.

    Attributes:
        folder: Where each rank writes the lines at which it takes batches.
    """

    folder: Path

    def first(self) -> list[str]:
        """Return nothing: what is told is known once it ran."""
        return []

    def follow(self, file: str) -> Followed | None:
        """Return that a file is told, which all of the program's are that have a source."""
        return Followed(file, ()) if _told(file) is not None else None

    @contextmanager
    def telling(
        self, those: tuple[Followed, ...], file: Path, forced: Forced | None, rank: int
    ) -> Iterator[None]:
        """Compile what the rank runs so that its tests are told."""
        loader = importlib.machinery.SourceFileLoader
        original = loader.get_code

        def get_code(self: Any, fullname: str) -> Any:
            path = self.get_filename(fullname)
            code = _told(path) if is_program(path) else None
            return original(self, fullname) if code is None else code

        def compiled(source: Any, name: str, *args: Any, **options: Any) -> Any:
            code = _told(name) if is_program(name) else None
            return compile(source, name, *args, **options) if code is None else code

        loader.get_code = get_code  # type: ignore[method-assign]  # the process ends behind the block
        runpy.compile = compiled  # type: ignore[attr-defined]  # a name of builtins that it asks for
        with following(those, file, forced, rank):
            yield

    def tests(self, sources: Mapping[str, str]) -> list[Test]:
        """Return the tests, by what loops take from loaders."""
        return tests_on_walks(sources, walks_in(self.folder))

    @property
    def unread(self) -> str:
        """Say so where no loop takes a batch at a line of the program."""
        if not walks_in(self.folder):
            return "no line of the script takes a batch from a loader"
        return ""


def _told(file: str) -> Any:
    """Return the code of a file that tells its tests; None where it has no source to read."""
    try:
        with open(file, "rb") as source:  # noqa: PTH123 - as the interpreter reads it
            tree = ast.parse(source.read())
        return compile(
            ast.fix_missing_locations(Told().visit(tree)), file, "exec", dont_inherit=True
        )
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
