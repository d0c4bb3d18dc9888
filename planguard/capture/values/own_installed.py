"""What is installed on one rank's node: a package, another version of it, a program.

Images of nodes drift: one has ``flash_attn`` and the next one does not. A program asks by an
``import`` under an ``except``, by ``find_spec``, ``metadata.version`` or ``shutil.which``. What is
here is not there on a rank that is answered otherwise, and the other way round: what is not here
is a stand-in, of which every name is there and nothing can be used.

An ``import`` that nobody catches ends the job where the package is missing, which is no question.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import importlib.metadata
import importlib.util
import os
import shutil
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from planguard.capture.names.source import tree_of
from planguard.capture.values.otherwise import other_version
from planguard.sources import file_in, is_own, is_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

INSTALLED = "what is installed"
_MISSING = ("ImportError", "ModuleNotFoundError")
"""Handlers that are ready for a package that is missing."""
_ANY = ("", "Exception", "BaseException", *_MISSING)
"""Handlers that are so, too, where they stand around the question itself."""
_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_ID = id
_FOLDER = "/usr/local/bin"  # where a program may be that is not here


class Installed:
    """What is installed on the node of one rank.

    Args:
        rank: The rank; of two whose numbers differ in one bit, one has later versions.
        is_odd: Notes a question of a kind at a line; tells whether this rank is odd there.
        place: Returns the line of a frame of the program, None for another frame.
    """

    def __init__(
        self,
        rank: int,
        is_odd: Callable[[str, str], bool],
        place: Callable[[FrameType], str | None],
    ) -> None:
        self._is_later = bool(rank.bit_count() % 2)
        self._is_odd = is_odd
        self._line = place
        self._ready: dict[tuple[CodeType, int], bool] = {}

    def questions(self) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
        """Return every function that asks: owner, name, and what makes the one in its place."""
        yield builtins, "__import__", self._stated
        yield importlib, "import_module", self._imported
        yield importlib.util, "find_spec", self._found
        yield importlib.metadata, "version", self._version
        yield importlib.metadata, "distribution", self._version
        yield shutil, "which", self._program

    def _asked(self, frame: FrameType) -> bool | None:
        """Note a question; tell whether it is answered otherwise, None where nobody asks."""
        place = self._line(frame)
        return None if place is None else self._is_odd(INSTALLED, place)

    def _stated(self, original: Any) -> Any:
        """Make what ``import`` calls; torch's functions do so thousands of times a step."""
        others: dict[int, Any] = {}
        number = _ID  # the builtin is a question, too, and slower

        def stated(name: str, names: Any = None, *rest: Any, **options: Any) -> Any:
            if number(names) in others:
                return original(name, names, *rest, **options)
            file = file_in(names)
            if file and not is_program(file):
                others[number(names)] = names  # held, so that no other one gets its number
                return original(name, names, *rest, **options)
            frame = sys._getframe().f_back  # noqa: SLF001 - the interpreter has no public way
            if frame is None:  # threads of C++ import, too: those of rpc, where they unpickle
                return original(name, names, *rest, **options)
            return self._brought(frame, name, lambda: original(name, names, *rest, **options))

        return stated

    def _imported(self, original: Any) -> Any:
        def import_module(name: str, *rest: Any, **options: Any) -> Any:
            frame = sys._getframe(1)  # noqa: SLF001 - same
            return self._brought(frame, name, lambda: original(name, *rest, **options))

        return import_module

    def _brought(self, frame: FrameType, name: str, bring: Callable[[], Any]) -> Any:
        """Return a module; where a handler is ready for that, it may be another answer."""
        if not is_program(frame.f_code.co_filename) or not self._is_ready(frame):
            return bring()
        is_odd = self._asked(frame)
        try:
            found = bring()
        except ImportError:
            if is_odd:
                return _StandIn(name)
            raise
        if is_odd:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return found

    def _found(self, original: Any) -> Any:
        def find_spec(name: str, *args: Any, **options: Any) -> Any:
            is_odd = self._asked(sys._getframe(1))  # noqa: SLF001 - same
            found = original(name, *args, **options)
            return found if not is_odd else ModuleSpec(name, None) if found is None else None

        return find_spec

    def _version(self, original: Any) -> Any:
        is_text = original.__name__ == "version"

        def version(name: str) -> Any:
            frame = sys._getframe(1)  # noqa: SLF001 - same
            is_odd = self._asked(frame)
            try:
                found = original(name)
            except importlib.metadata.PackageNotFoundError:
                if is_odd and is_text:
                    return "1.0"
                raise
            if is_odd and self._is_ready(frame) and not self._is_later:
                raise importlib.metadata.PackageNotFoundError(name)
            return other_version(found, is_later=self._is_later) if is_odd and is_text else found

        return version

    def _program(self, original: Any) -> Any:
        def which(name: Any, *args: Any, **options: Any) -> Any:
            is_odd = self._asked(sys._getframe(1))  # noqa: SLF001 - same
            found = original(name, *args, **options)
            if not is_odd:
                return found
            return os.path.join(_FOLDER, os.fsdecode(name)) if found is None else None  # noqa: PTH118 - a text, as which gives it

        return which

    def _is_ready(self, frame: FrameType) -> bool:
        """Tell whether a handler of the program is ready for a package that is missing."""
        key = frame.f_code, frame.f_lineno
        if key not in self._ready:
            self._ready[key] = _is_caught(frame)
        return self._ready[key]


def _is_caught(frame: FrameType) -> bool:
    """Tell whether a frame stands under a handler for imports, or its caller does."""
    names: tuple[str, ...] = _ANY
    outer: FrameType | None = frame
    while outer is not None and not is_own(outer.f_code.co_filename):
        if is_program(outer.f_code.co_filename):
            if any(name in names for name in _handled(outer)):
                return True
            if outer.f_code.co_name == "<module>":
                return False  # whoever imports a module of the program is asked at its own line
        names, outer = _MISSING, outer.f_back
    return False


def _handled(frame: FrameType) -> Iterator[str]:
    """Return the exceptions that the handlers around a line name; empty for all of them."""
    tree = tree_of(frame.f_code.co_filename)
    line, scope = frame.f_lineno, frame.f_code.co_name
    for node in tree.parents if tree is not None else ():
        is_around = isinstance(node, ast.Try | ast.With) and node.body[0].lineno <= line <= (
            node.body[-1].end_lineno or 0
        )
        if not is_around or tree is None or _scope(tree.parents, node) != scope:
            continue
        if isinstance(node, ast.Try):
            for one in node.handlers:
                yield from _names(one.type)
        elif isinstance(node, ast.With):
            for item in node.items:
                call = item.context_expr
                if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("suppress"):
                    for given in call.args:
                        yield from _names(given)


def _names(node: ast.expr | None) -> Iterator[str]:
    if node is None:
        yield ""
        return
    for one in node.elts if isinstance(node, ast.Tuple) else (node,):
        yield ast.unparse(one).rpartition(".")[2]


def _scope(parents: dict[ast.AST, ast.AST], node: ast.AST) -> str:
    above = parents.get(node)
    while above is not None and not isinstance(above, _OWN_SCOPE):
        above = parents.get(above)
    return "<module>" if above is None else getattr(above, "name", "<lambda>")


class _StandIn(ModuleType):
    """A package that is not here: each of its names is there, and ends the rank where it is used.

    What a program would do with the package cannot be played.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def unusable(*_: Any, **__: Any) -> Any:
            raise ImportError(f"{self.__name__} is not installed here, only said to be")

        return type(name, (), {"__init__": unusable})
