"""Which numbers and texts the expressions of a program may stand for, read off its source.

A test names a limit rather than writing it down: a row, an attribute of a configuration, an entry
of a dictionary, a parameter, a name of another module. Names are followed as Python looks them up
(``given``); where that cannot be told, all of one spelling are taken: too many values rather than
too few, since each is only tried. What files, environments and calls of packages give is not known.
"""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING

from planguard.capture.names.defined import name_of
from planguard.capture.names.given import Given, Key
from planguard.capture.names.source import tree_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Value = int | float | str
_LARGEST = 1 << 48
_OPERATORS: dict[type, Callable[[int, int], int | None]] = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
    ast.Pow: lambda a, b: a**b if 0 <= b < 64 and abs(a) <= 1024 else None,
    ast.LShift: lambda a, b: a << b if 0 <= b < 64 else None,
    ast.FloorDiv: lambda a, b: a // b if b else None,
}  # fmt: skip
_MOST = 32
"""Values of one expression."""
_KEPT = 128
"""Values of one name: beyond, the program tells nothing by it."""
_TURNS = 16
"""How often all names of a test are asked what they are given: names that are given each other need
several turns, and a sum that grows in a loop would never be done."""


class Bindings:
    """What the names of some files are given.

    Args:
        files: The program's.
    """

    def __init__(self, files: Iterable[str]) -> None:
        self._files = list(files)
        self._known: Given | None = None
        self._found: dict[Key, dict[Value, None]] = {}

    def values(self, node: ast.expr) -> list[Value]:
        """Return what an expression may be, or be one of; nothing where that is not known.

        Args:
            node: An expression of ``tree_of`` a file, or of another tree of the same text.
        """
        self._solve(node)
        return list(dict.fromkeys(itertools.islice(self._values(node), _MOST)))

    @property
    def _given(self) -> Given:
        if self._known is None:
            trees = {file: tree for file in self._files if (tree := tree_of(file)) is not None}
            self._known = Given(trees)
        return self._known

    def _solve(self, node: ast.expr) -> None:
        """Find the values of all names that an expression may lead to.

        Ways from name to name are not walked one by one: there are too many of them. All names keep
        what was found for them, and are asked again until nothing is new.
        """
        new: dict[Key, list[Key | ast.expr]] = {}
        todo: list[Key | ast.expr] = [node]
        while todo:
            one = todo.pop()
            keys = self._given.asked(one) if isinstance(one, ast.expr) else [one]
            for key in keys:
                if key not in self._found and key not in new:
                    new[key] = self._given.of(key)
                    todo += new[key]
        self._found.update({key: {} for key in new})
        for _ in range(_TURNS):
            before = sum(len(self._found[key]) for key in new)
            for key, entries in new.items():
                found = self._found[key]
                for one in entries:
                    found.update(dict.fromkeys(itertools.islice(self._entry(one), _KEPT)))
                    if len(found) > _KEPT:
                        break
            if sum(len(self._found[key]) for key in new) == before:
                break

    def _entry(self, one: Key | ast.expr) -> Iterator[Value]:
        return self._values(one) if isinstance(one, ast.expr) else iter((*self._found[one],))

    def _of(self, keys: Iterable[Key]) -> Iterator[Value]:
        for key in keys:
            yield from tuple(self._found.get(key, ()))

    def _values(self, node: ast.expr) -> Iterator[Value]:
        """Return the values of an expression, as far as those of its names are known."""
        if isinstance(node, ast.Constant):
            value = node.value
            value = value.decode(errors="replace") if isinstance(value, bytes) else value
            if isinstance(value, Value) and not isinstance(value, bool):
                yield value
        elif isinstance(node, ast.BinOp | ast.UnaryOp):
            yield from self._computed(node)
        elif isinstance(node, ast.Call):
            yield from self._called(node)
        elif name_of(node) is not None:
            yield from self._of(self._given.keys(node))
        else:
            children = (one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr))
            for child in children:  # a row, the keys and values of a dictionary, either branch
                yield from self._values(child)

    def _computed(self, node: ast.BinOp | ast.UnaryOp) -> Iterator[Value]:
        if isinstance(node, ast.UnaryOp):
            for one in self._values(node.operand):
                if not isinstance(one, str) and isinstance(node.op, ast.USub | ast.UAdd):
                    yield -one if isinstance(node.op, ast.USub) else one
            return
        left, right = (list(self._values(one)) for one in (node.left, node.right))
        work = _OPERATORS.get(type(node.op))
        some = itertools.islice(itertools.product(left, right), _MOST)
        if work is None or not left or not right:
            yield from (*left, *right)  # x - 7, where x is what is asked
            return
        for a, b in some:
            if isinstance(a, int) and isinstance(b, int) and abs(b) <= _LARGEST:
                value = work(a, b)
                if value is not None:
                    yield value

    def _called(self, call: ast.Call) -> Iterator[Value]:
        """Return what a call may give: the ends of a range, what it is given, what it returns."""
        name = name_of(call.func) or ""
        given = [list(self._values(one)) for one in call.args]
        if name == "range":
            numbers = [[one for one in some if isinstance(one, int)] for some in given]
            for some in itertools.islice(itertools.product(*numbers), _MOST):
                if some and 0 not in some[2:]:
                    turns = range(*some)
                    yield from (turns[at] for at in (0, -1) if turns)
            return
        if name == "get" and call.args and isinstance(call.args[0], ast.Constant):
            given = given[1:]
        for one in itertools.chain.from_iterable(given):
            is_number = name in ("int", "float") and isinstance(one, str)
            yield int(one) if is_number and str(one).isdecimal() else one
        yield from self._of(self._given.results(call))  # of a function, or of an entry
