"""Which tests of a program may depend on the batches that its loops take from loaders.

Where a line of the program takes a batch itself, by a ``for`` or a ``next``, its target depends.
Where a trainer takes it, the program gets it as a parameter of some function, which of them nobody
knows: then every parameter of every function depends.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import TYPE_CHECKING

from planguard.capture.names.depends import Program, Test

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def tests_on_walks(sources: Mapping[str, str], places: Iterable[str]) -> list[Test]:
    """Return the tests of some files, and which of them may depend on a batch.

    Args:
        sources: Text by file.
        places: Lines that take batches, ``file:line``.
    """
    lines: dict[str, set[int]] = defaultdict(set)
    for place in places:
        file, _, line = place.rpartition(":")
        lines[file].add(int(line))
    return _Walks(sources, lines).tests()


class _Walks(Program):
    """Files in which what loops take from loaders depends."""

    def __init__(self, sources: Mapping[str, str], lines: Mapping[str, set[int]]) -> None:
        super().__init__(sources, lines)  # a call there: next(batches), enumerate(loader)
        self._targets: list[ast.AST] = []
        open_ = {(file, line) for file, some in lines.items() for line in some}
        for file, tree in self.files.items():
            for node in ast.walk(tree):
                taken = _taking(node)
                for line in lines.get(file, ()) if taken is not None else ():
                    if taken is not None and taken.lineno <= line <= (taken.end_lineno or 0):
                        open_.discard((file, line))
                        self._targets += [getattr(node, "target", None) or node]
        self._is_given = bool(open_)

    def follow(self) -> None:
        """Follow values from what loops take, or functions are given, until nothing is new."""
        for target in self._targets:
            if not isinstance(target, ast.Call):
                self._mark(target)
        for scope in self.scopes.values() if self._is_given else ():
            self.facts.update(("v", scope.key, name) for name in scope.parameters)
        super().follow()


def _taking(node: ast.AST) -> ast.expr | None:
    """Return the expression at whose line a node takes what is next."""
    if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        return node.iter
    is_next = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "next"
    return node if is_next and isinstance(node, ast.Call) else None
