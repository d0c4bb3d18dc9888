"""Whose a name is: of a function, of those around it, of its module, of a module that it imports.

A name that a program uses in a hundred places is a hundred names. They are told apart as Python
looks them up, from the source alone. What cannot be told is said, so that who asks takes all names
of one spelling together: names that nothing in sight binds, imports of modules that are not among
the files, modules that are handed about as values.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planguard.capture.names.source import Tree

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_DEFINED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (*FUNCTIONS, *_COMPREHENSIONS, ast.ClassDef, ast.Module)
_BY_TEXT = frozenset({"import_module", "__import__", "module_from_spec", "modules"})
"""Names by which a program has modules that no import states."""
_OPENING = frozenset({"globals", "locals", "vars", "__dict__"})
"""Names by which the names of a module are had as a dictionary."""

Scope = ast.AST
"""A function, a class, a comprehension, or a module."""


class Scoping:
    """The scopes of some files, what each binds, and what their imports mean.

    Attributes:
        files: The file of every module.
        own: The names that each scope binds.
        handed: Files of modules whose names may be those of an object: it is used as a value.
    """

    def __init__(self, trees: Mapping[str, Tree]) -> None:
        self.files: dict[ast.AST, str] = {tree.root: file for file, tree in trees.items()}
        self.own: dict[Scope, set[str]] = defaultdict(set)
        self.handed: set[str] = set()
        self._roots = {file: tree.root for file, tree in trees.items()}
        self._scope: dict[ast.AST, Scope] = {}
        self._elsewhere: dict[Scope, dict[str, bool]] = defaultdict(dict)  # whether of the module
        self._imports: dict[tuple[Scope, str], list[tuple[str, str]]] = defaultdict(list)
        self._stars: dict[str, list[str]] = defaultdict(list)
        self._by_end: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self._meant: dict[str, list[str]] = {}
        for file in trees:
            name = _dotted(file)
            self._by_end[name.rpartition(".")[2]].append((f".{name}", file))
        for file, tree in trees.items():
            for node in tree.parents:  # level by level
                self._scope[node] = self._around(node, tree)
                self._read(node, file, tree)
        for file, tree in trees.items():
            self._hand_about(file, tree)

    # --- scopes ----------------------------------------------------------------------------------

    def scope(self, node: ast.AST) -> Scope:
        """Return the scope that evaluates a node; that around it for one that is a scope."""
        return self._scope.get(node, node)

    def knows(self, node: ast.AST) -> bool:
        """Tell whether a node is one of these files, as they were read."""
        return node in self._scope

    def owner(self, name: str, scope: Scope) -> Scope | None:
        """Return the scope whose a name is that is used in one; None where none in sight binds it.

        Args:
            name: The name.
            scope: Where it is read or bound.
        """
        one = scope
        while not isinstance(one, ast.Module):
            is_global = self._elsewhere[one].get(name) if one in self._elsewhere else None
            if is_global:
                break
            is_seen = one is scope or not isinstance(one, ast.ClassDef)
            if is_seen and is_global is None and name in self.own.get(one, ()):
                return one
            one = self._scope[one]
        while not isinstance(one, ast.Module):
            one = self._scope[one]
        return one if name in self.own.get(one, ()) else None

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """Return the class whose method, or body, a node stands in."""
        one = self.scope(node)
        while not isinstance(one, ast.ClassDef | ast.Module):
            one = self._scope[one]
        return one if isinstance(one, ast.ClassDef) else None

    # --- imports ---------------------------------------------------------------------------------

    def modules(self, name: str, scope: Scope) -> list[str]:
        """Return the files of the module that a name stands for; none for another name.

        Args:
            name: The name.
            scope: Where it is used.
        """
        found = []
        for module, inner in self._imports.get((self.owner(name, scope) or scope, name), ()):
            found += self._files(f"{module}.{inner}" if inner else module)
        return found

    def imported(self, name: str, owner: Scope) -> list[tuple[str, str]]:
        """Return file and name of what may be bound to a name of a scope by imports.

        Args:
            name: The name.
            owner: The scope that binds it, or a module that may have it by a star.
        """
        rows = self._imports.get((owner, name), ())
        found = [(file, inner) for module, inner in rows if inner for file in self._files(module)]
        for module in self._stars.get(self.files.get(owner, ""), ()):
            found += [(file, name) for file in self._files(module)]
        return found

    def is_foreign(self, name: str, owner: Scope) -> bool:
        """Tell whether a name comes of a module that is not among the files."""
        return any(
            not self._files(module) and not self._files(f"{module}.{inner}")
            for module, inner in self._imports.get((owner, name), ())
        )

    def root(self, file: str) -> ast.Module:
        """Return the module of a file."""
        return self._roots[file]

    def _files(self, module: str) -> list[str]:
        """Return the files that a module may be, by the end of their paths."""
        if module not in self._meant:
            rows = self._by_end.get(module.rpartition(".")[2], ())
            self._meant[module] = [file for name, file in rows if name.endswith(f".{module}")]
        return self._meant[module]

    # --- reading ---------------------------------------------------------------------------------

    def _around(self, node: ast.AST, tree: Tree) -> Scope:
        """Return the scope that evaluates a node; that of its parent is known."""
        parent = tree.parents[node]
        if isinstance(parent, ast.comprehension):
            made = tree.parents[parent]
            is_outside = node is parent.iter and parent is made.generators[0]  # type: ignore[attr-defined]  # it has them
            return self._scope[made] if is_outside else made
        # Defaults, decorators and bases are evaluated around what they belong to.
        is_body = isinstance(node, ast.stmt) if isinstance(parent, _DEFINED) else True
        if isinstance(parent, ast.Lambda):
            is_body = node is parent.body
        return parent if isinstance(parent, _SCOPES) and is_body else self.scope(parent)

    def _read(self, node: ast.AST, file: str, tree: Tree) -> None:
        """Note what a node binds."""
        scope = self._scope[node]
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                return
            while isinstance(scope, _COMPREHENSIONS) and isinstance(
                tree.parents[node], ast.NamedExpr
            ):
                scope = self._scope[scope]
            self.own[scope].add(node.id)
        elif isinstance(node, ast.arg):
            parent: ast.AST = node
            while not isinstance(parent, FUNCTIONS):
                parent = tree.parents[parent]
            self.own[parent].add(node.arg)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            is_global = isinstance(node, ast.Global)
            self._elsewhere[scope].update(dict.fromkeys(node.names, is_global))
            if is_global:
                self.own[tree.root].update(node.names)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self._import(node, scope, file)
        elif isinstance(node, (*_DEFINED, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
            if node.name is not None:
                self.own[scope].add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest is not None:
            self.own[scope].add(node.rest)

    def _import(self, node: ast.Import | ast.ImportFrom, scope: Scope, file: str) -> None:
        if isinstance(node, ast.Import):
            for one in node.names:
                name = one.asname or one.name.partition(".")[0]
                self.own[scope].add(name)
                self._imports[scope, name].append((one.name if one.asname else name, ""))
            return
        module = node.module or ""
        if node.level:
            parts = _dotted(file).split(".")
            above = parts if PurePath(file).stem == "__init__" else parts[:-1]
            module = ".".join(
                [*above[: len(above) + 1 - node.level], *([module] if module else [])]
            )
        for one in node.names:
            if one.name == "*":
                self._stars[file].append(module)
                continue
            name = one.asname or one.name
            self.own[scope].add(name)
            self._imports[scope, name].append((module, one.name))

    def _hand_about(self, file: str, tree: Tree) -> None:
        """Note which modules are used as values, rather than asked for a name of theirs."""
        for node, parent in tree.parents.items():
            name = getattr(node, "id", getattr(node, "attr", ""))
            if name in _BY_TEXT:
                self.handed.update(self._roots)
            elif name in _OPENING:
                self.handed.add(file)
            if not isinstance(node, ast.Name | ast.Attribute) or isinstance(parent, ast.Attribute):
                continue
            self.handed.update(self.of_expression(node))

    def of_expression(self, node: ast.expr) -> list[str]:
        """Return the files of the module that a name, or one with dots, stands for; else none."""
        if isinstance(node, ast.Name):
            return self.modules(node.id, self.scope(node))
        rest: list[str] = []
        while isinstance(node, ast.Attribute):
            rest.insert(0, node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return []
        owner = self.owner(node.id, self.scope(node))
        rows = self._imports.get((owner, node.id), ()) if owner is not None else ()
        starts = (f"{module}.{inner}" if inner else module for module, inner in rows)
        return [file for one in starts for file in self._files(".".join([one, *rest]))]


def _dotted(file: str) -> str:
    """Return the path of a module with dots; that of its package for ``__init__``."""
    path = PurePath(file)
    path = path.parent if path.stem == "__init__" else path.with_suffix("")
    return ".".join(part for part in path.parts if part != path.anchor)
