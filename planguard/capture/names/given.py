"""What the names of a program are given: by assignments, calls, imports, classes, and options.

Names of functions and modules are told apart (``scoping``). Attributes are known by the class where
a method says ``self``, and with it by the classes that it has in common with others; else by their
spelling, and so are the keys of dictionaries, since either may become the other. Where nothing in
sight gives a name anything, everything of its spelling counts, wherever it stands.

Above 400 lines: what a key is, who gives it something and who asks for it are read side by side.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from planguard.capture.names.scoping import FUNCTIONS, Scoping

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from planguard.capture.names.source import Tree

_NAMED = ast.FunctionDef | ast.AsyncFunctionDef
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
        self._trees = trees
        self.scoping = Scoping(trees)
        self._given: dict[Key, list[Entry]] = defaultdict(list)
        self._spelled: dict[str, list[ast.expr]] = defaultdict(list)
        self._functions: dict[str, list[ast.AST]] = defaultdict(list)  # and classes
        self._defined: dict[tuple[ast.AST, str], list[ast.AST]] = defaultdict(list)
        self._stored: set[tuple[ast.AST, str]] = set()
        self._values: set[str] = set()  # names of functions that are used as values
        self._kin: dict[ast.AST, ast.AST] = {}
        self._open: set[ast.AST | None] = set()  # classes that get attributes of computed names
        self._fields: dict[str, list[Key]] = defaultdict(list)
        self._properties: set[str] = set()
        self._keys: dict[ast.AST, list[Key]] = {}
        self._nodes = [(node, tree) for tree in trees.values() for node in tree.parents]
        self._define()
        self._relate()
        for node, _ in self._nodes:
            self._bind(node)
        for key in self._given:
            if key.kind == FIELD:
                self._fields[key.name].append(key)
        del self._nodes

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
            yield from self._of_scope(node.id, owner or self._module(scope), is_bound=bool(owner))
        elif isinstance(node, ast.Attribute):
            files = self.scoping.of_expression(node.value)
            family = self._family(node.value)
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
            yield Key(FIELD, self._relative(owner), name)
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
        functions, is_sure = self._callees(call.func)
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
            found += [Key(RESULTS, None, name)] if name in self._properties else []
            return self._or_spelled(found, name)
        if kind == FIELD and owner is not None:
            if not found or owner in self._open or None in self._open:
                return [Key(ANY, None, name)]
            return [*found, Key(LOOSE, None, name)]
        if kind == RESULTS:
            return [Key(RESULT, one, "") for one in self._functions.get(name, ())]
        if kind == NAME and owner is not None:
            found += self._of_name(owner, name)
            is_function = (owner, name) in self._defined
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
            names = _parameters(owner)
            if name in names:
                is_open = self._is_open(owner)
                yield from [Key(LOOSE, None, name)] if is_open else []
                is_value = isinstance(owner, ast.Lambda) or owner.name in (*self._values, *_CALLED)
                yield from [Key(PASSED, None, str(names.index(name)))] if is_value else []

    def _is_open(self, function: ast.AST) -> bool:
        """Tell whether a function may be called with names that no call of it states."""
        name = getattr(function, "name", "")
        is_wrapped = bool(getattr(function, "decorator_list", ()))
        return is_wrapped or not name or name in self._values or name == "__init__"

    def _or_spelled(self, found: list[Entry], name: str) -> list[Entry]:
        """Return everything of a spelling where nothing in sight gives it a value."""
        is_given = any(not isinstance(one, Key) or self._is_given(one) for one in found)
        return found if is_given else [*found, Key(SPELLED, None, name)]

    def _is_given(self, key: Key) -> bool:
        if key.kind == NAME and key.owner is not None:
            return key in self._given or key.name in self.scoping.own.get(key.owner, ())
        return key in self._given or key.kind in (SPELLED, RESULTS)

    # --- who is meant ----------------------------------------------------------------------------

    def _module(self, scope: ast.AST) -> ast.AST:
        while not isinstance(scope, ast.Module):
            scope = self.scoping.scope(scope)
        return scope

    def _relative(self, one: ast.AST) -> ast.AST:
        """Return the class that stands for a class and those that it shares methods with."""
        while (other := self._kin.get(one, one)) is not one:
            one = other
        return one

    def _family(self, receiver: ast.expr) -> ast.AST | None:
        """Return the class whose attributes a receiver has, where that is known."""
        if not isinstance(receiver, ast.Name):
            return None
        owner = self.scoping.owner(receiver.id, self.scoping.scope(receiver))
        if isinstance(owner, _NAMED) and _parameters(owner, is_whole=True)[:1] == [receiver.id]:
            around = self.scoping.scope(owner)
            is_static = any(
                getattr(one, "id", "") == "staticmethod" for one in owner.decorator_list
            )
            is_method = isinstance(around, ast.ClassDef) and not is_static
            is_stored = (owner, receiver.id) in self._stored
            return self._relative(around) if is_method and not is_stored else None
        if owner is None or (owner, receiver.id) in self._stored:
            return None
        classes = self._resolved(receiver.id, owner)
        kin = {self._relative(one) for one in classes if isinstance(one, ast.ClassDef)}
        return kin.pop() if len(kin) == 1 and len(classes) == 1 else None

    def _resolved(self, name: str, owner: ast.AST, seen: int = 0) -> list[ast.AST]:
        """Return the functions and classes that a name of a scope is defined as."""
        found = list(self._defined.get((owner, name), ()))
        for file, inner in self.scoping.imported(name, owner) if seen < 8 else ():
            found += self._resolved(inner, self.scoping.root(file), seen + 1)
        return found

    def _callees(self, func: ast.expr) -> tuple[list[ast.AST], bool]:
        """Return the functions and classes that a call may be of, and whether it is of no other."""
        name = name_of(func) or ""
        if isinstance(func, ast.Name):
            owner = self.scoping.owner(name, self.scoping.scope(func))
            scope = owner or self._module(self.scoping.scope(func))
            found = self._resolved(name, scope)
            is_other = (scope, name) in self._stored or self.scoping.is_foreign(name, scope)
            if found:
                return found, not is_other
        if isinstance(func, ast.Attribute):
            files = self.scoping.of_expression(func.value)
            found = [fn for file in files for fn in self._resolved(name, self.scoping.root(file))]
            if found:
                return found, True
        return self._functions.get(name, []), False

    # --- reading ---------------------------------------------------------------------------------

    def _define(self) -> None:
        """Note functions, classes, what is stored, and which functions are used as values."""
        for node, tree in self._nodes:
            parent = tree.parents[node]
            if isinstance(node, _NAMED | ast.ClassDef):
                self._functions[node.name].append(node)
                self._defined[self.scoping.scope(node), node.name].append(node)
                if isinstance(node, _NAMED) and node.decorator_list:
                    self._properties.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                owner = self.scoping.owner(node.id, self.scoping.scope(node))
                if owner is not None:
                    self._stored.add((owner, node.id))
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                is_called = isinstance(parent, ast.Call) and parent.func is node
                if not is_called and not (isinstance(parent, ast.Attribute)):
                    self._values.add(name_of(node) or "")
        self._values &= set(self._functions)

    def _relate(self) -> None:
        """Put classes together that share methods, and find those whose attributes are computed."""
        for node, _ in self._nodes:
            if not isinstance(node, ast.ClassDef):
                continue
            for base in node.bases:
                for other in self._functions.get(name_of(base) or "", ()):
                    if isinstance(other, ast.ClassDef):
                        self._kin[self._relative(node)] = self._relative(other)
        for node, _ in self._nodes:
            receiver = _computed(node)
            if receiver is None:
                continue
            family = self._family(receiver)
            self._open.add(family)  # of any class, where it is not known
        for node in self._functions.get("__getattr__", ()):
            around = self.scoping.scope(node)
            self._open.add(self._relative(around) if isinstance(around, ast.ClassDef) else None)

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
        functions, is_sure = self._callees(call.func)
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
            is_known = self._family(func.value) is not None
            return is_known or bool(self.scoping.of_expression(func.value))
        return True

    def _handed(self, call: ast.Call) -> list[ast.AST]:
        """Return the functions that a call hands over: to a thread, to ``map``, to ``partial``."""
        found: list[ast.AST] = []
        for one in (*call.args, *(word.value for word in call.keywords)):
            if isinstance(one, ast.Lambda):
                found.append(one)
            elif isinstance(one, ast.Name | ast.Attribute) and (name_of(one) or "") in self._values:
                found += [run for fn in self._callees(one)[0] for run in self._runs(fn)]
        return found

    def _runs(self, one: ast.AST, seen: int = 0) -> list[ast.AST]:
        """Return what a call of a function or class runs: itself, ``__init__``, or its fields."""
        if not isinstance(one, ast.ClassDef):
            return [one]
        made = [inner for inner in one.body if getattr(inner, "name", "") == "__init__"]
        fields = [inner for inner in one.body if isinstance(inner, ast.AnnAssign)]
        if made:
            return [*made]
        bases = [
            other
            for base in one.bases
            for other in self._functions.get(name_of(base) or "", ())
            if isinstance(other, ast.ClassDef) and seen < 8
        ]
        found = [run for base in bases for run in self._runs(base, seen + 1)]
        return [*found, one] if fields or not found else found

    def _names(self, run: ast.AST) -> list[str]:
        """Return the names that arguments by place have; of a class those of its fields."""
        if isinstance(run, FUNCTIONS):
            return _parameters(run)
        body = getattr(run, "body", ())
        return [name_of(one.target) or "" for one in body if isinstance(one, ast.AnnAssign)]

    def _takes(self, run: ast.AST, name: str) -> bool:
        if isinstance(run, FUNCTIONS):
            return name in _parameters(run, is_whole=True)
        return name in self._names(run)

    def _key_in(self, run: ast.AST, name: str) -> Key:
        return (
            Key(NAME, run, name)
            if isinstance(run, FUNCTIONS)
            else Key(FIELD, self._relative(run), name)
        )


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


def _parameters(function: ast.AST, *, is_whole: bool = False) -> list[str]:
    """Return the parameters that arguments by place have, without ``self``; or all of them."""
    given: ast.arguments = function.args  # type: ignore[attr-defined]  # a function has them
    names = [one.arg for one in (*given.posonlyargs, *given.args)]
    if is_whole:
        return [*names, *(one.arg for one in given.kwonlyargs)]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def _defaults(given: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    names = [one.arg for one in (*given.posonlyargs, *given.args)]
    yield from zip(names[len(names) - len(given.defaults) :], given.defaults, strict=True)
    for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        if value is not None:
            yield one.arg, value
