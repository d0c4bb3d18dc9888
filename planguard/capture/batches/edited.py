"""A program whose source was edited, run without being imported again.

The functions of an edited file that are alive get the code of the edited text, in the process of
one played rank only. So the step, its closures, its models and its samples stay what they are, and
what is proved of it is proved of the file that the user would have. What cannot be exchanged is
refused: code of the file itself that ran when it was imported, and functions whose closure is
another one.
"""

from __future__ import annotations

import ast
import gc
import linecache
import sys
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_Key = tuple[str, int]


@dataclass(frozen=True)
class Edited:
    """An edited file.

    Attributes:
        file: The file, as its code objects name it.
        text: Its text.
        codes: The new code of each function that is alive.
        imports: The code of import statements that the edited file has and the file had not.
        scope: Globals of the module.
    """

    file: str
    text: str
    codes: tuple[tuple[FunctionType, CodeType], ...]
    imports: CodeType | None
    scope: dict[str, Any]

    def put(self) -> None:
        """Run the edited text from now on, in this process."""
        lines = self.text.splitlines(keepends=True)
        linecache.cache[self.file] = (len(self.text), None, lines, self.file)
        if self.imports is not None:
            exec(self.imports, self.scope)  # noqa: S102 - an import of torch.distributed
        for function, code in self.codes:
            function.__code__ = code


def edit(file: str, before: str, after: str) -> Edited | None:
    """Return how a file is run as edited; None where that cannot be told from the outside.

    Args:
        file: The file.
        before: Its text.
        after: Its text, edited.
    """
    try:
        old, new = (
            codes_of(compile(text, file, "exec", dont_inherit=True)) for text in (before, after)
        )
        imports = _added(before, after)
    except (SyntaxError, ValueError):
        return None
    found = paired(alive(file), old, new)
    if not found or imports is None:
        return None
    scope = found[0][0].__globals__
    made = compile(imports, file, "exec", dont_inherit=True) if imports.body else None
    return Edited(file, after, tuple(found), made, scope)


def paired(
    functions: Iterable[FunctionType], old: Sequence[CodeType], new: Sequence[CodeType]
) -> list[tuple[FunctionType, CodeType]] | None:
    """Return the code that each function gets; None where a closure would be another one.

    Args:
        functions: Functions that are alive.
        old: The code of every function of their file, in order.
        new: The same of the text that is run from now on.
    """
    if len(old) != len(new) or any(
        a.co_qualname != b.co_qualname for a, b in zip(old, new, strict=True)
    ):
        return None
    place: dict[_Key, list[int]] = {}
    for number, code in enumerate(old):
        place.setdefault((code.co_qualname, code.co_firstlineno), []).append(number)
    found: list[tuple[FunctionType, CodeType]] = []
    for function in functions:
        code = function.__code__
        numbers = place.get((code.co_qualname, code.co_firstlineno), [])
        if len(numbers) != 1:
            continue
        fresh = new[numbers[0]]
        if fresh.co_freevars != code.co_freevars:
            return None
        found.append((function, fresh))
    return found


def codes_of(whole: CodeType) -> list[CodeType]:
    """Return the code of every function of a file, in order."""
    found: list[CodeType] = []

    def walk(code: CodeType) -> None:
        for one in code.co_consts:
            if isinstance(one, CodeType):
                found.append(one)
                walk(one)

    walk(whole)
    return found


def _added(before: str, after: str) -> ast.Module | None:
    """Return the imports that an edit adds to a file; None where it changes other code of it."""

    def plain(text: str) -> list[tuple[str, ast.stmt]]:
        found = []
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue  # what stands in functions is exchanged
            found.append((ast.dump(node), node))
        return found

    had = {dump for dump, _ in plain(before)}
    more = [node for dump, node in plain(after) if dump not in had]
    if any(not isinstance(node, ast.Import | ast.ImportFrom) for node in more):
        return None
    return ast.Module(list(more), [])


def alive(file: str) -> list[FunctionType]:
    """Return the functions of a file that exist in this process."""
    found = {
        id(one): one
        for one in gc.get_objects()
        if type(one) is FunctionType and one.__code__.co_filename == file
    }
    for module in list(sys.modules.values()):  # those that the collector was told to leave alone
        for one in list(getattr(module, "__dict__", {}).values()):
            if type(one) is FunctionType and one.__code__.co_filename == file:
                found[id(one)] = one
    return list(found.values())
