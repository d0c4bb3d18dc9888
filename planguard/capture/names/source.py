"""The expression that a running frame is evaluating, as a syntax tree.

Since Python 3.11 every instruction knows the columns of its expression (PEP 657), so the call that
a frame stands in is found exactly, also where a line holds several.
"""

from __future__ import annotations

import ast
import linecache
import warnings
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import CodeType, FrameType

Position = tuple[int, int, int, int]
Loop = ast.For | ast.AsyncFor | ast.comprehension
_LOOPING = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class Tree:
    """The syntax of one file: its expressions by position, and what stands around each."""

    def __init__(self, root: ast.Module) -> None:
        self.root = root
        self.parents: dict[ast.AST, ast.AST] = {}
        self.calls: dict[Position, ast.Call] = {}
        self.expressions: list[ast.expr] = []
        self._asked: dict[tuple[CodeType, int], ast.Call | None] = {}
        # Level by level, as `assigned` and `at` rely on; each node is looked at once.
        found: list[ast.AST] = [root]
        for node in found:
            for name in node._fields:
                value = getattr(node, name, None)
                for child in value if type(value) is list else (value,):
                    if isinstance(child, ast.AST):
                        self.parents[child] = node
                        found.append(child)
            if isinstance(node, ast.expr):
                self.expressions.append(node)
                if isinstance(node, ast.Call):
                    self.calls[position_of(node)] = node

    def at(self, frame: FrameType) -> ast.expr | None:
        """Return the smallest expression that holds the instruction of a frame."""
        places = islice(frame.f_code.co_positions(), frame.f_lasti // 2, None)
        line, end, column, last = next(places, (None,) * 4)
        if line is None or end is None or column is None or last is None:
            return None
        around = [
            node
            for node in self.expressions
            if (node.lineno, node.col_offset) <= (line, column)
            and (node.end_lineno or 0, node.end_col_offset or 0) >= (end, last)
        ]
        return min(
            around,
            key=lambda n: ((n.end_lineno or 0) - n.lineno, (n.end_col_offset or 0) - n.col_offset),
            default=None,
        )

    def call_at(self, code: CodeType, at: int) -> ast.Call | None:
        """Return the call of an instruction of this file, by its code and its byte; else None."""
        asked = code, at
        if asked not in self._asked:
            place = next(islice(code.co_positions(), at // 2, None), (None,) * 4)
            self._asked[asked] = None if None in place else self.calls.get(place)  # type: ignore[arg-type]  # None was asked for
        return self._asked[asked]

    def loops(self, node: ast.AST) -> list[Loop]:
        """Return the loops of its function whose body a node stands in, innermost first."""
        found: list[Loop] = []
        child, parent = node, self.parents.get(node)
        while parent is not None and not isinstance(child, _OWN_SCOPE):
            if isinstance(parent, ast.For | ast.AsyncFor) and child is not parent.iter:
                found.append(parent)
            elif isinstance(parent, _LOOPING) and not isinstance(child, ast.comprehension):
                found += reversed(parent.generators)
            child, parent = parent, self.parents.get(parent)
        return found

    def assigned(self, name: str, scope: str, first: int, before: int) -> ast.expr | None:
        """Return the value that a name was last given before a line of a function.

        Args:
            name: The name.
            scope: The name of the function, ``<module>`` for the file.
            first: Its first line, that of its first decorator included.
            before: The line before which the assignment stands.

        Returns:
            The expression; None where nothing was assigned, and where the value was put into an
            order behind that: sorted in place, or received from the rank that broadcasts it.
        """
        last: tuple[int, ast.expr | None] = (0, None)
        for node in self.parents:
            line = getattr(node, "lineno", 0)
            if not last[0] <= line < before or not self._is_in(node, scope, first):
                continue
            if isinstance(node, ast.Assign):
                if any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
                    last = (line, node.value)
            elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
                if isinstance(node.target, ast.Name) and node.target.id == name:
                    last = (line, node.value)
            elif isinstance(node, ast.Call) and _puts_in_order(node, name):
                last = (line, None)
        return last[1]

    def _is_in(self, node: ast.AST, scope: str, first: int) -> bool:
        """Say whether a node stands in a function itself, and in none inside it."""
        parent = self.parents.get(node)
        while parent is not None and not isinstance(parent, _OWN_SCOPE):
            parent = self.parents.get(parent)
        if parent is None:
            return scope == "<module>"
        lines = [getattr(parent, "lineno", 0)]
        lines += [one.lineno for one in getattr(parent, "decorator_list", [])]
        return getattr(parent, "name", "<lambda>") == scope and min(lines) == first


def _puts_in_order(call: ast.Call, name: str) -> bool:
    """Say whether a call leaves a list in an order that every rank has."""
    called = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if called == "sort":
        return getattr(getattr(call.func, "value", None), "id", "") == name
    return called == "broadcast_object_list" and any(
        getattr(one, "id", "") == name for one in call.args
    )


def position_of(node: ast.expr) -> Position:
    """Return line, last line, column and last column, as code objects count them."""
    return node.lineno, node.end_lineno or node.lineno, node.col_offset, node.end_col_offset or 0


_TREES: dict[str, tuple[list[str], Tree | None]] = {}


def tree_of(file: str) -> Tree | None:
    """Parse a source file; None where there is no source, or it is not Python."""
    lines = linecache.getlines(file)
    if not lines:
        return None
    # Known by the lines themselves: a file that was written anew and read again has others.
    known = _TREES.get(file)
    if known is None or known[0] is not lines:
        known = _TREES[file] = lines, _parsed(lines)
    return known[1]


def tree_in(file: str, text: str) -> Tree:
    """Return the syntax of a file's text: that of ``tree_of`` where it has this text.

    Raises:
        SyntaxError: The text is not Python.
        ValueError: It is not text of a program.
        RecursionError: It is nested too deeply.
    """
    tree = tree_of(file)
    if tree is not None and "".join(_TREES[file][0]) == text:
        return tree
    return Tree(ast.parse(text))


def _parsed(lines: list[str]) -> Tree | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in the program's text
            return Tree(ast.parse("".join(lines)))
    except (SyntaxError, ValueError, RecursionError):
        return None


def parsed_files() -> list[str]:
    """Return the files that this process, or the one it was forked from, has parsed."""
    return list(_TREES)


def parse(files: Iterable[str]) -> None:
    """Parse files here, so that forked processes find them parsed; changed ones are read again."""
    for file in files:
        linecache.checkcache(file)
        tree_of(file)


def call_of(frame: FrameType) -> ast.Call | None:
    """Return the call that a frame is in; None where its source is not there."""
    tree = tree_of(frame.f_code.co_filename)
    return None if tree is None else tree.call_at(frame.f_code, frame.f_lasti)


def value_of(node: ast.expr, frame: FrameType) -> Any:
    """Return the value of a name, or a plain attribute of one; no code of the program is run."""
    if isinstance(node, ast.Name):
        for scope in (frame, function_of(frame)):
            if node.id in scope.f_locals:
                return scope.f_locals[node.id]
        return frame.f_globals.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = value_of(node.value, frame)
        return getattr(owner, "__dict__", {}).get(node.attr)
    return None


def function_of(frame: FrameType) -> FrameType:
    """Return the frame of the function that a comprehension stands in; other frames as they are.

    Up to Python 3.11 a comprehension is a function of its own, called where it stands.
    """
    while frame.f_code.co_name in _COMPREHENSIONS and frame.f_back is not None:
        frame = frame.f_back
    return frame
