"""What modules of the program asked at their import and nobody asks again.

Played ranks share what was computed when a module was imported. Some of it is asked again
(``own_before``); dice, opened files, other programs, databases and threads are not, nor is what a
function did that was called there. Who reads the answer must know it: the statements that ask so
are looked for in the source, through functions of the program that they call, and are named.
"""

from __future__ import annotations

import ast
import os
import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any

from planguard.capture.names.job_modules import statements_of, value_of_name
from planguard.sources import file_of, is_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import ModuleType

_SEEDS = frozenset({"seed", "manual_seed"})
_SEEDED = frozenset({"Random", "RandomState", "default_rng", *_SEEDS})
"""What is the same on all ranks where it is given a number."""
_READING = frozenset({"read_text", "read_bytes", "open"})
"""Methods of a path, whose class a source does not tell."""
_FOR_ANYTHING = frozenset({"get", "seed", "stat", "wait", "exists"})
"""Names of questions that methods of other classes have as well."""
_ORDERING = (list, tuple, next, iter, enumerate, zip, map)
_HARNESS = "PLANGUARD_"
"""How the variables begin that only PlanGuard itself reads."""


class Imports:
    """The questions of some modules' imports that are not asked again.

    Attributes:
        variables: Environment variables, with the line that reads them.
        asked: Other questions in words, with their lines.

    Args:
        modules: The modules.
        questions: Functions whose answer is a rank's own: owner and name.
        again: Numbers of the nodes of statements that are asked again.
        is_told: Tells whether a variable is one that is played, where it is asked again.
    """

    def __init__(
        self,
        modules: Iterable[ModuleType],
        questions: Iterable[tuple[Any, str]],
        again: set[int],
        is_told: Callable[[str], bool],
    ) -> None:
        self.variables: dict[str, str] = {}
        self.asked: list[str] = []
        self._again, self._is_told = again, is_told
        self._functions: dict[int, str] = {}
        self._methods = set(_READING)
        self._held: list[Any] = []
        for owner, name in questions:
            if isinstance(owner, type):
                self._methods.add(name)
                if name == "__init__":
                    self._note(owner, owner.__name__)
            self._note(getattr(owner, name, None), name)
        self._methods -= _FOR_ANYTHING
        self._seen: set[tuple[str, int]] = set()
        self._modules = {file_of(one): one for one in modules}
        for module in self._modules.values():
            read = statements_of(module)
            is_main = module.__name__ == "__main__"
            self._look(read.asked + (read.main if is_main else ()), file_of(module), vars(module))

    def _note(self, function: Any, name: str) -> None:
        if callable(function):
            self._held.append(function)  # so that no other one gets its number
            self._functions[id(function)] = name

    def _look(self, nodes: Iterable[ast.AST], file: str, known: dict[str, Any]) -> None:
        for node in nodes:
            variable, is_again = _variable(node, known), id(node) in self._again
            line = getattr(node, "lineno", None) or getattr(
                getattr(node, "iter", None), "lineno", 0
            )
            place = f"{file}:{line}"
            if variable:
                is_played = is_again and self._is_told(variable)
                if not is_played and not variable.startswith(_HARNESS):
                    self.variables.setdefault(variable, place)
            elif is_again:
                continue
            elif said := self._question(node, known):
                self.asked.append(f"{said} ({place})")
            elif isinstance(node, ast.Call):
                for function in self._called(node.func, file, known):
                    code = function.__code__
                    key = code.co_filename, code.co_firstlineno
                    module = self._modules.get(code.co_filename)
                    if key not in self._seen and module is not None:
                        self._seen.add(key)
                        inner = statements_of(module).inside.get(code.co_firstlineno, ())
                        self._look(inner, code.co_filename, function.__globals__)

    def _question(self, node: ast.AST, known: dict[str, Any]) -> str:
        """Return what a node asks, in words; empty where it asks nothing."""
        if isinstance(node, ast.Try):
            kinds = (ast.Import, ast.ImportFrom)
            is_one = node.handlers and any(isinstance(one, kinds) for one in node.body)
            return "an import under an except" if is_one else ""
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            return "the order of a set" if _is_set(node.iter, known) else ""
        if not isinstance(node, ast.Call):
            return ""
        found = value_of_name(node.func, known)
        if any(found is one for one in _ORDERING) and any(_is_set(o, known) for o in node.args):
            return "the order of a set"
        name = self._functions.get(id(found), "")
        if found is None and isinstance(node.func, ast.Attribute):
            name = node.func.attr if node.func.attr in self._methods else ""
        is_seeded = name in _SEEDED and (node.args or node.keywords)
        return "" if is_seeded else name and ast.unparse(node.func)

    def _called(self, called: ast.expr, file: str, known: dict[str, Any]) -> Iterator[FunctionType]:
        """Return the functions of the program that a call may run."""
        found = value_of_name(called, known)
        if found is None and isinstance(called, ast.Attribute):
            owner = value_of_name(called.value, known)
            kinds = (
                [type(owner)]
                if owner is not None
                else [v for v in known.values() if isinstance(v, type) and _file_of_type(v) == file]
            )
            found_in = [getattr(kind, "__dict__", {}).get(called.attr) for kind in kinds]
        elif isinstance(found, type):
            found_in = [vars(found).get("__init__"), vars(found).get("__post_init__")]
        else:
            found_in = [found]
        for one in found_in:
            inner: Any = getattr(one, "__func__", one)
            while getattr(inner, "__wrapped__", None) is not None:
                inner = inner.__wrapped__
            if isinstance(inner, FunctionType) and is_program(inner.__code__.co_filename):
                yield inner


def _file_of_type(kind: type) -> str:
    """Return the file of the module that names a class its own; empty where it has none."""
    return file_of(sys.modules.get(kind.__module__))


def _variable(node: ast.AST, known: dict[str, Any]) -> str:
    """Return the environment variable that a node reads, as it is named; empty for none."""
    named: ast.expr | None = None
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        named = node.slice if value_of_name(node.value, known) is os.environ else None
    elif isinstance(node, ast.Compare):
        named = node.left if value_of_name(node.comparators[0], known) is os.environ else None
    elif isinstance(node, ast.Call) and node.args:
        is_asked = value_of_name(node.func, known) is os.getenv or (
            isinstance(node.func, ast.Attribute)
            and node.func.attr in ("get", "setdefault", "pop")
            and value_of_name(node.func.value, known) is os.environ
        )
        named = node.args[0] if is_asked else None
    if named is None:
        return ""
    value = named.value if isinstance(named, ast.Constant) else None
    value = known.get(named.id) if isinstance(named, ast.Name) else value
    return value if isinstance(value, str) else ast.unparse(named)


def _is_set(node: ast.expr, known: dict[str, Any]) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.Call):
        return value_of_name(node.func, known) in (set, frozenset)
    return isinstance(value_of_name(node, known), set | frozenset)
