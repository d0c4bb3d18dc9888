"""What the names of a program are given: by assignments, calls, imports, classes, and options.

Names of functions and modules are told apart (``scoping``). Attributes are known by the class where
a method says ``self``, and with it by the classes that it has in common with others; else by their
spelling, and so are the keys of dictionaries, since either may become the other. Where nothing in
sight gives a name anything, everything of its spelling counts, wherever it stands.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from planguard.capture.names.defined import Defined, name_of, parameters_of
from planguard.capture.names.scoping import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from planguard.capture.names.source import Tree

_LOOPS = ast.For | ast.AsyncFor | ast.comprehension
_CALLED = ("__call__", "forward")
"""Methods that a variable runs which is called."""
NAME, FIELD, LOOSE, ANY, RESULT, RESULTS, SPELLED, PASSED = (
    "name", "field", "loose", "any", "result", "results", "spelled", "passed",
)  # fmt: skip


class Key(NamedTuple):
    """A name that is told apart from others of its spelling.

    Attributes:
        kind: A ``NAME`` of a scope; a ``FIELD`` of a class; ``LOOSE``: an attribute or an entry of
            nobody knows what; ``ANY``: of all these; the ``RESULT`` of a function, or ``RESULTS``
            of all of one name; ``SPELLED``: everything of that spelling; ``PASSED``: what a
            variable that is called is given at a place.
        owner: The scope, the class or the function; None where there is none.
        name: The name.
    """

    kind: str
    owner: ast.AST | None
    name: str


Entry = Key | ast.expr


class Given:
    """What every name of some files is given.

    Args:
        trees: The files.
    """

    def __init__(self, trees: Mapping[str, Tree]) -> None:
        self.defined = Defined(trees)
        self.scoping = self.defined.scoping
        self._given: dict[Key, list[Entry]] = defaultdict(list)
        self._spelled: dict[str, list[ast.expr]] = defaultdict(list)
        self._fields: dict[str, list[Key]] = defaultdict(list)
        self._keys: dict[ast.AST, list[Key]] = {}
        for node in (one for tree in trees.values() for one in tree.parents):
            self._bind(node)
        for key in self._given:
            if key.kind == FIELD:
                self._fields[key.name].append(key)

    # --- asking ----------------------------------------------------------------------------------

    def asked(self, node: ast.expr) -> Iterator[Key]:
        """Return the names that the values of an expression may be asked of."""
        for one in ast.walk(node):
            if isinstance(one, ast.expr):
                yield from self.keys(one)
            if isinstance(one, ast.Call):
                yield from self.results(one)

    def keys(self, node: ast.expr) -> list[Key]:
        """Return what a name, an attribute or an entry may be known by; none for others."""
        if node not in self._keys:
            self._keys[node] = list(self._keys_of(node))
        return self._keys[node]

    def _keys_of(self, node: ast.expr) -> Iterator[Key]:
        if not self.scoping.knows(node):  # of a file that was written anew meanwhile
            yield from [Key(SPELLED, None, name)] if (name := name_of(node)) else []
        elif isinstance(node, ast.Name):
            scope = self.scoping.scope(node)
            owner = self.scoping.owner(node.id, scope)
            yield from self._of_scope(
                node.id, owner or self.defined.module(scope), is_bound=bool(owner)
            )
        elif isinstance(node, ast.Attribute):
            files = self.scoping.of_expression(node.value)
            family = self.defined.family(node.value)
            if files:
                for file in files:
                    yield Key(NAME, self.scoping.root(file), node.attr)
            else:
                yield Key(ANY, None, node.attr) if family is None else Key(FIELD, family, node.attr)
        elif isinstance(node, ast.Subscript):
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                yield Key(ANY, None, node.slice.value)
            else:
                yield from self.keys(node.value)  # one of a row

    def _of_scope(self, name: str, owner: ast.AST, *, is_bound: bool) -> Iterator[Key]:
        if isinstance(owner, ast.ClassDef):
            yield Key(FIELD, self.defined.relative(owner), name)
        else:
            yield Key(NAME, owner, name)
        if not is_bound and not self.scoping.imported(name, owner):
            yield Key(SPELLED, None, name)

    def results(self, call: ast.Call) -> list[Key]:
        """Return what a call may be asked of beside its arguments: results, the entry of a key."""
        name = name_of(call.func) or ""
        found: list[Key] = []
        if name == "get" and call.args and isinstance(call.args[0], ast.Constant):
            found.append(Key(ANY, None, str(call.args[0].value)))
        functions, is_sure = self.defined.callees(call.func)
        if not is_sure:
            return [*found, Key(RESULTS, None, name)]
        return [*found, *(Key(RESULT, one, "") for one in functions)]

    def of(self, key: Key) -> list[Entry]:
        """Return what a name is given: expressions, and other names."""
        found = list(self._given.get(key, ()))
        kind, owner, name = key
        if kind == SPELLED:
            return [*self._spelled.get(name, ())]
        if kind == ANY:
            found += [Key(LOOSE, None, name), *self._fields.get(name, ())]
            roots = map(self.scoping.root, self.scoping.handed)
            found += [Key(NAME, one, name) for one in roots if name in self.scoping.own[one]]
            found += [Key(RESULTS, None, name)] if name in self.defined.decorated else []
            return self._or_spelled(found, name)
        if kind == FIELD and owner is not None:
            if not found or self.defined.is_open(owner):
                return [Key(ANY, None, name)]
            return [*found, Key(LOOSE, None, name)]
        if kind == RESULTS:
            return [Key(RESULT, one, "") for one in self.defined.functions.get(name, ())]
        if kind == NAME and owner is not None:
            found += self._of_name(owner, name)
            is_function = (owner, name) in self.defined.at
            return found if is_function else self._or_spelled(found, name)
        return found

    def _of_name(self, owner: ast.AST, name: str) -> Iterator[Entry]:
        """Return what a name of a function or a module is given from elsewhere."""
        for file, inner in self.scoping.imported(name, owner):
            yield from self._of_scope(inner, self.scoping.root(file), is_bound=True)
        if self.scoping.is_foreign(name, owner):
            yield Key(SPELLED, None, name)
        if isinstance(owner, ast.Module) and self.scoping.files[owner] in self.scoping.handed:
            yield Key(LOOSE, None, name)
        if isinstance(owner, FUNCTIONS):
            names = parameters_of(owner)
            if name in names:
                is_open = self._is_open(owner)
                yield from [Key(LOOSE, None, name)] if is_open else []
                is_value = isinstance(owner, ast.Lambda) or owner.name in (
                    *self.defined.values,
                    *_CALLED,
                )
                yield from [Key(PASSED, None, str(names.index(name)))] if is_value else []

    def _is_open(self, function: ast.AST) -> bool:
        """Tell whether a function may be called with names that no call of it states."""
        name = getattr(function, "name", "")
        is_wrapped = bool(getattr(function, "decorator_list", ()))
        return is_wrapped or not name or name in self.defined.values or name == "__init__"

    def _or_spelled(self, found: list[Entry], name: str) -> list[Entry]:
        """Return everything of a spelling where nothing in sight gives it a value."""
        is_given = any(not isinstance(one, Key) or self._is_given(one) for one in found)
        return found if is_given else [*found, Key(SPELLED, None, name)]

    def _is_given(self, key: Key) -> bool:
        if key.kind == NAME and key.owner is not None:
            return key in self._given or key.name in self.scoping.own.get(key.owner, ())
        return key in self._given or key.kind in (SPELLED, RESULTS)

    # --- reading ---------------------------------------------------------------------------------

    def _give(self, key: Key, value: Entry) -> None:
        self._given[key].append(value)
        if isinstance(value, ast.expr) and key.name:
            self._spelled[key.name].append(value)

    def _bind(self, node: ast.AST) -> None:
        """Give names what a node gives them."""
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._store(target, node.value)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            self._store(node.target, node.value)
        elif isinstance(node, _LOOPS):
            self._store(node.target, node.iter)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    self._give(Key(LOOSE, None, key.value), value)
        elif isinstance(node, ast.Return) and node.value is not None:
            scope = self.scoping.scope(node)
            self._give(Key(RESULT, scope, ""), node.value)
        elif isinstance(node, (*FUNCTIONS,)):
            for name, value in _defaults(node.args):
                self._give(Key(NAME, node, name), value)
        elif isinstance(node, ast.Call):
            self._call(node)

    def _store(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            rows = value.elts if isinstance(value, ast.Tuple | ast.List) else []
            is_one_each = len(rows) == len(target.elts)
            for at, one in enumerate(target.elts):
                self._store(one, rows[at] if is_one_each else value)
            return
        for key in self._keys_of(target):
            if key.kind == SPELLED:
                continue
            self._give(key._replace(kind=LOOSE) if key.kind == ANY else key, value)
            if isinstance(target, ast.Subscript):
                self._give(key._replace(kind=LOOSE) if key.kind == ANY else key, target.slice)

    def _call(self, call: ast.Call) -> None:
        """Give what a call hands over to the names that it may be known by behind it."""
        functions, is_sure = self.defined.callees(call.func)
        runs = [run for one in functions for run in self._runs(one)]
        for word in call.keywords:
            if word.arg is None:  # **options
                for run in runs or self._handed(call):
                    for name in self._names(run):
                        self._give(self._key_in(run, name), Key(ANY, None, name))
                continue
            takers = [run for run in runs if self._takes(run, word.arg)]
            for run in takers:
                self._give(self._key_in(run, word.arg), word.value)
            if not (is_sure and runs and len(takers) == len(runs)):
                self._give(Key(LOOSE, None, word.arg), word.value)
        is_starred = any(isinstance(one, ast.Starred) for one in call.args)
        for run in runs:
            names = self._names(run)
            for at, one in enumerate(call.args):
                for name in names if is_starred else names[at : at + 1]:
                    self._give(self._key_in(run, name), one)
        if not runs:
            self._call_unknown(call)

    def _call_unknown(self, call: ast.Call) -> None:
        """Give what a call of something unknown hands over: to functions in it, to a variable."""
        for run in self._handed(call):
            for name in self._names(run):
                for one in (*call.args, *(word.value for word in call.keywords)):
                    self._give(self._key_in(run, name), one)
        for at, one in enumerate(call.args if self._is_variable(call.func) else ()):
            self._give(Key(PASSED, None, str(at)), one)
        for name, value in _options(call):
            self._give(Key(LOOSE, None, name), value)

    def _is_variable(self, func: ast.expr) -> bool:
        """Tell whether what is called may be a function of the program under another name."""
        if isinstance(func, ast.Name):
            owner = self.scoping.owner(func.id, self.scoping.scope(func))
            return owner is not None and not self.scoping.is_foreign(func.id, owner)
        if isinstance(func, ast.Attribute):
            is_known = self.defined.family(func.value) is not None
            return is_known or bool(self.scoping.of_expression(func.value))
        return True

    def _handed(self, call: ast.Call) -> list[ast.AST]:
        """Return the functions that a call hands over: to a thread, to ``map``, to ``partial``."""
        found: list[ast.AST] = []
        for one in (*call.args, *(word.value for word in call.keywords)):
            if isinstance(one, ast.Lambda):
                found.append(one)
            elif (
                isinstance(one, ast.Name | ast.Attribute)
                and (name_of(one) or "") in self.defined.values
            ):
                found += [run for fn in self.defined.callees(one)[0] for run in self._runs(fn)]
        return found

    def _runs(self, one: ast.AST, seen: int = 0) -> list[ast.AST]:
        """Return what a call of a function or class runs: itself, ``__init__``, or its fields."""
        if not isinstance(one, ast.ClassDef):
            return [one]
        made = [inner for inner in one.body if getattr(inner, "name", "") == "__init__"]
        fields = [inner for inner in one.body if isinstance(inner, ast.AnnAssign)]
        if made:
            return [*made]
        bases = [other for base in one.bases for other in self.defined.bases(base) if seen < 8]
        found = [run for base in bases for run in self._runs(base, seen + 1)]
        return [*found, one] if fields or not found else found

    def _names(self, run: ast.AST) -> list[str]:
        """Return the names that arguments by place have; of a class those of its fields."""
        if isinstance(run, FUNCTIONS):
            return parameters_of(run)
        body = getattr(run, "body", ())
        return [name_of(one.target) or "" for one in body if isinstance(one, ast.AnnAssign)]

    def _takes(self, run: ast.AST, name: str) -> bool:
        if isinstance(run, FUNCTIONS):
            return name in parameters_of(run, is_whole=True)
        return name in self._names(run)

    def _key_in(self, run: ast.AST, name: str) -> Key:
        return (
            Key(NAME, run, name)
            if isinstance(run, FUNCTIONS)
            else Key(FIELD, self.defined.relative(run), name)
        )


def _options(call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """Return what a call gives names that it has as texts: of a command line, of ``setattr``."""
    if name_of(call.func) == "setattr" and len(call.args) == 3:
        named = call.args[1]
        if isinstance(named, ast.Constant) and isinstance(named.value, str):
            yield named.value, call.args[2]
    said = {one.arg: one.value for one in call.keywords}  # add_argument("--every", default=7)
    if "default" in said:
        for option in (*call.args, said.get("dest")):
            if isinstance(option, ast.Constant) and isinstance(option.value, str):
                yield option.value.lstrip("-").replace("-", "_"), said["default"]


def _defaults(given: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    names = [one.arg for one in (*given.posonlyargs, *given.args)]
    yield from zip(names[len(names) - len(given.defaults) :], given.defaults, strict=True)
    for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        if value is not None:
            yield one.arg, value
