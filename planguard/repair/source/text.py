"""The text of a Python file and edits of it: the syntax finds the place, the text stays as it is.

Columns of ``ast`` count bytes, so edits are made on bytes. What an edit does not name is not
touched: comments, quotes and line breaks of the user's file stay.
"""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass

_DIST = "torch.distributed"


@dataclass(frozen=True)
class Cut:
    """Bytes of a file that become others; nothing is taken away where ``first == last``."""

    first: int
    last: int
    text: str


class SourceText:
    """One Python file.

    Attributes:
        text: The file.
        tree: Its syntax.
        parents: What stands around a node.

    Raises:
        SyntaxError: It is not Python.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self.parents: dict[ast.AST, ast.AST] = {}
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
        self._bytes = text.encode()
        self._starts = [0]
        for line in self._bytes.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        names = {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)}
        self._names = names | {
            node.arg for node in ast.walk(self.tree) if isinstance(node, ast.arg)
        }
        self.dist = self._distributed()

    # --- places --------------------------------------------------------------------------------

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return the bytes of a node."""
        first = self._starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        last = self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        return first, last

    def of(self, node: ast.AST) -> str:
        """Return the text of a node."""
        first, last = self.span(node)
        return self._bytes[first:last].decode()

    def indent(self, node: ast.stmt) -> str | None:
        """Return the white space before a statement; None where it does not begin its line.

        An ``elif`` is no statement to put lines before either.
        """
        if isinstance(node, ast.If) and self.of(node).startswith("elif"):
            return None
        line = self._bytes[self._starts[node.lineno - 1] :][: node.col_offset].decode()
        return None if line.strip() else line

    def statement(self, line: int) -> ast.stmt | None:
        """Return the innermost statement whose own line, not that of its blocks, is given."""
        found = [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.stmt)
            and (
                node.lineno <= line <= _head_end(node)
                or any(one.lineno == line for one in getattr(node, "handlers", ()))
            )
        ]
        return max(found, key=lambda node: (node.lineno, node.col_offset), default=None)

    def around(self, node: ast.AST) -> list[ast.AST]:
        """Return what stands around a node, innermost first."""
        found = []
        above = self.parents.get(node)
        while above is not None:
            found.append(above)
            above = self.parents.get(above)
        return found

    def function(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """Return the function that a node stands in."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        return next((one for one in self.around(node) if isinstance(one, kinds)), None)

    def fresh(self, name: str) -> str:
        """Return a name that the file does not use."""
        while name in self._names:
            name += "_"
        return name

    # --- edits ---------------------------------------------------------------------------------

    def before(self, node: ast.stmt, *lines: str) -> Cut:
        """Put lines before a statement, indented as it is."""
        at = self._starts[node.lineno - 1]
        indent = self.indent(node) or ""
        return Cut(at, at, "".join(f"{indent}{line}\n" for line in lines))

    def after(self, node: ast.stmt, *lines: str) -> Cut:
        """Put lines behind a statement, indented as it is."""
        indent = self.indent(node) or ""
        at = self._starts[node.end_lineno or node.lineno]
        is_open = self._bytes[at - 1 : at] != b"\n"  # the last line of a file may have no end
        return Cut(at, at, "\n" * is_open + "".join(f"{indent}{line}\n" for line in lines))

    def instead(self, node: ast.AST, text: str) -> Cut:
        """Put other text in the place of a node."""
        return Cut(*self.span(node), text)

    def without(self, node: ast.stmt) -> Cut:
        """Take the lines of a statement away."""
        return Cut(self._starts[node.lineno - 1], self._starts[node.end_lineno or node.lineno], "")

    def head(self, node: ast.stmt, first: ast.AST, text: str) -> Cut:
        """Replace the head of a block, from its keyword to the colon before its body."""
        start = self._starts[node.lineno - 1] + node.col_offset
        colon = self._bytes.index(b":", self.span(first)[1])
        return Cut(start, colon + 1, text)

    def edited(self, *cuts: Cut) -> str:
        """Return the text with some edits, and with the import that they need."""
        found = self._bytes
        wanted = list(cuts)
        if self.dist == _DIST and not self._imports_it():
            at = self._import_place()
            wanted.append(Cut(at, at, "import torch.distributed\n"))
        order = sorted(enumerate(wanted), key=lambda row: (row[1].first, row[0]), reverse=True)
        for _, cut in order:
            found = found[: cut.first] + cut.text.encode() + found[cut.last :]
        return found.decode()

    # --- imports -------------------------------------------------------------------------------

    def _distributed(self) -> str:
        """Return the words by which the file names torch.distributed."""
        for node in self.tree.body:
            if isinstance(node, ast.Import):
                for one in node.names:
                    if one.name == _DIST and one.asname:
                        return one.asname
            if isinstance(node, ast.ImportFrom) and node.module == "torch" and not node.level:
                for one in node.names:
                    if one.name == "distributed":
                        return one.asname or one.name
        return _DIST

    def _imports_it(self) -> bool:
        return any(
            isinstance(node, ast.Import) and any(one.name == _DIST for one in node.names)
            for node in self.tree.body
        )

    def _import_place(self) -> int:
        imports = [n for n in self.tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
        if imports:
            return self._starts[imports[-1].end_lineno or imports[-1].lineno]
        first = self.tree.body[0]
        is_doc = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        return self._starts[first.end_lineno or 0] if is_doc else 0


def _head_end(node: ast.stmt) -> int:
    """Return the last line of a statement that is none of a block inside it."""
    body = getattr(node, "body", None)
    if isinstance(body, list) and body:
        return max(node.lineno, int(body[0].lineno) - 1)
    return node.end_lineno or node.lineno


def unified(file: str, before: str, after: str) -> str:
    """Return the difference of two texts of a file, as ``patch -p1`` and ``git apply`` read it."""
    rows = difflib.unified_diff(
        before.splitlines(keepends=True),
        after.splitlines(keepends=True),
        f"a/{file}",
        f"b/{file}",
    )
    return "".join(
        row if row.endswith("\n") else row + "\n\\ No newline at end of file\n" for row in rows
    )
