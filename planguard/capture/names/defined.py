"""What functions and classes a program defines, which of them a call means, and whose attributes.

A class is taken together with those that it shares methods with, since either sets what the other
reads. Where a call, or an object, may be of anything, all of one name are meant.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import TYPE_CHECKING

from planguard.capture.names.scoping import FUNCTIONS, Scoping

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planguard.capture.names.source import Tree

NAMED = ast.FunctionDef | ast.AsyncFunctionDef


class Defined:
    """The functions and classes of some files.

    Args:
        trees: The files.

    Attributes:
        scoping: Whose each name is.
        functions: Functions and classes by name.
        at: The same by the scope that defines them, and name.
        stored: Names that are set otherwise than by a definition, with their scopes.
        values: Names of those that are used as values, and not only called.
        decorated: Names of functions that a decorator may make something else of: properties.
    """

    def __init__(self, trees: Mapping[str, Tree]) -> None:
        self.scoping = Scoping(trees)
        self.functions: dict[str, list[ast.AST]] = defaultdict(list)
        self.at: dict[tuple[ast.AST, str], list[ast.AST]] = defaultdict(list)
        self.stored: set[tuple[ast.AST, str]] = set()
        self.values: set[str] = set()
        self.decorated: set[str] = set()
        self._kin: dict[ast.AST, ast.AST] = {}
        self._open: set[ast.AST | None] = set()  # classes that get attributes of computed names
        for tree in trees.values():
            self._define(tree)
        self.values &= set(self.functions)
        self._relate(trees)

    # --- who is meant ----------------------------------------------------------------------------

    def module(self, scope: ast.AST) -> ast.AST:
        """Return the module that a scope stands in."""
        while not isinstance(scope, ast.Module):
            scope = self.scoping.scope(scope)
        return scope

    def relative(self, one: ast.AST) -> ast.AST:
        """Return the class that stands for a class and those that it shares methods with."""
        while (other := self._kin.get(one, one)) is not one:
            one = other
        return one

    def family(self, receiver: ast.expr) -> ast.AST | None:
        """Return the class whose attributes a receiver has: ``self``, a class; None if unknown."""
        if not isinstance(receiver, ast.Name):
            return None
        owner = self.scoping.owner(receiver.id, self.scoping.scope(receiver))
        if isinstance(owner, NAMED) and parameters_of(owner, is_whole=True)[:1] == [receiver.id]:
            around = self.scoping.scope(owner)
            is_static = any(
                getattr(one, "id", "") == "staticmethod" for one in owner.decorator_list
            )
            is_method = isinstance(around, ast.ClassDef) and not is_static
            is_stored = (owner, receiver.id) in self.stored
            return self.relative(around) if is_method and not is_stored else None
        if owner is None or (owner, receiver.id) in self.stored:
            return None
        classes = self.resolved(receiver.id, owner)
        kin = {self.relative(one) for one in classes if isinstance(one, ast.ClassDef)}
        return kin.pop() if len(kin) == 1 and len(classes) == 1 else None

    def resolved(self, name: str, owner: ast.AST, seen: int = 0) -> list[ast.AST]:
        """Return the functions and classes that a name of a scope is defined as."""
        found = list(self.at.get((owner, name), ()))
        for file, inner in self.scoping.imported(name, owner) if seen < 8 else ():
            found += self.resolved(inner, self.scoping.root(file), seen + 1)
        return found

    def callees(self, func: ast.expr) -> tuple[list[ast.AST], bool]:
        """Return the functions and classes that a call may be of, and whether it is of no other."""
        name = name_of(func) or ""
        if isinstance(func, ast.Name):
            owner = self.scoping.owner(name, self.scoping.scope(func))
            scope = owner or self.module(self.scoping.scope(func))
            found = self.resolved(name, scope)
            is_other = (scope, name) in self.stored or self.scoping.is_foreign(name, scope)
            if found:
                return found, not is_other
        if isinstance(func, ast.Attribute):
            files = self.scoping.of_expression(func.value)
            found = [fn for file in files for fn in self.resolved(name, self.scoping.root(file))]
            if found:
                return found, True
        return self.functions.get(name, []), False

    # --- reading ---------------------------------------------------------------------------------

    def _define(self, tree: Tree) -> None:
        """Note functions, classes, what is stored, and which functions are used as values."""
        for node, parent in tree.parents.items():
            if isinstance(node, NAMED | ast.ClassDef):
                self.functions[node.name].append(node)
                self.at[self.scoping.scope(node), node.name].append(node)
                if isinstance(node, NAMED) and node.decorator_list:
                    self.decorated.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                owner = self.scoping.owner(node.id, self.scoping.scope(node))
                if owner is not None:
                    self.stored.add((owner, node.id))
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                is_called = isinstance(parent, ast.Call) and parent.func is node
                if not is_called and not isinstance(parent, ast.Attribute):
                    self.values.add(name_of(node) or "")

    def _relate(self, trees: Mapping[str, Tree]) -> None:
        """Put classes together that share methods, and find those whose attributes are computed."""
        nodes = [node for tree in trees.values() for node in tree.parents]
        for node in nodes:
            for base in node.bases if isinstance(node, ast.ClassDef) else ():
                for other in self.bases(base):
                    self._kin[self.relative(node)] = self.relative(other)
        for node in nodes:
            receiver = _computed(node)
            if receiver is not None:
                self._open.add(self.family(receiver))  # of any class, where it is not known
            for base in node.bases if isinstance(node, ast.ClassDef) else ():
                if isinstance(base, ast.Name) and self._is_variable(base):
                    self._open.add(self.relative(node))
        for node in self.functions.get("__getattr__", ()):
            around = self.scoping.scope(node)
            self._open.add(self.relative(around) if isinstance(around, ast.ClassDef) else None)

    def bases(self, base: ast.expr) -> list[ast.ClassDef]:
        """Return the classes that a base of a class may be."""
        found = self.callees(base)[0] or self.functions.get(name_of(base) or "", [])
        return [one for one in found if isinstance(one, ast.ClassDef)]

    def _is_variable(self, name: ast.Name) -> bool:
        owner = self.scoping.owner(name.id, self.scoping.scope(name))
        return (owner, name.id) in self.stored or isinstance(owner, FUNCTIONS)

    def is_open(self, family: ast.AST) -> bool:
        """Tell whether objects of a class may have attributes that are those of other classes."""
        return family in self._open or None in self._open


def name_of(node: ast.expr) -> str | None:
    """Return what a value is known by: a name, an attribute, the key of an entry."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript):
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            return node.slice.value
        return name_of(node.value)  # one of a row
    return None


def _computed(node: ast.AST) -> ast.expr | None:
    """Return who gets attributes of computed names by a node: ``setattr(x, name, value)``."""
    if isinstance(node, ast.Call):
        name = name_of(node.func)
        if name == "setattr" and len(node.args) > 1:
            is_plain = isinstance(node.args[1], ast.Constant)
            return None if is_plain else node.args[0]
        if name == "update" and isinstance(node.func, ast.Attribute):
            return _whose_names(node.func.value)
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        return _whose_names(node.value)
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return node.value if node.attr == "__dict__" else None
    return None


def _whose_names(node: ast.expr) -> ast.expr | None:
    """Return whose attributes a dictionary has: ``x.__dict__``, ``vars(x)``."""
    if isinstance(node, ast.Attribute) and node.attr == "__dict__":
        return node.value
    if isinstance(node, ast.Call) and name_of(node.func) == "vars" and node.args:
        return node.args[0]
    return None


def parameters_of(function: ast.AST, *, is_whole: bool = False) -> list[str]:
    """Return the parameters that arguments by place have, without ``self``; or all of them."""
    given: ast.arguments = function.args  # type: ignore[attr-defined]  # a function has them
    names = [one.arg for one in (*given.posonlyargs, *given.args)]
    if is_whole:
        return [*names, *(one.arg for one in given.kwonlyargs)]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names
