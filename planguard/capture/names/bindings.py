"""Which numbers and texts the expressions of a program may stand for, read off its source.

A test names a limit rather than writing it down: a row, an attribute of a configuration, an entry
of a dictionary, a parameter, a name of another module. Names are followed through all files
together, attributes, keys and arguments of one name alike: too many values rather than too few,
since each is only tried. What files, environments and calls of packages give is not known here.
"""

from __future__ import annotations

import ast
import itertools
from collections import defaultdict
from typing import TYPE_CHECKING

from planguard.capture.names.source import tree_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Value = int | float | str
_Bound = tuple[str, ast.expr]
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
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
        self._known: dict[str, list[ast.expr]] | None = None
        self._found: dict[str, dict[Value, None]] = {}

    def values(self, node: ast.expr) -> list[Value]:
        """Return what an expression may be, or be one of; nothing where that is not known."""
        self._solve(node)
        return list(dict.fromkeys(itertools.islice(self._values(node), _MOST)))

    def _solve(self, node: ast.expr) -> None:
        """Find the values of all names that an expression may lead to.

        Ways from name to name are not walked one by one: there are too many of them. All names keep
        what was found for them, and are asked again until nothing is new.
        """
        given = self._given()
        new: dict[str, list[ast.expr]] = {}
        todo = [node]
        while todo:
            for name in _names_in(todo.pop()):
                if name not in self._found and name not in new:
                    new[name] = given.get(name, [])
                    todo += new[name]
        self._found.update({name: {} for name in new})
        for _ in range(_TURNS):
            before = sum(len(self._found[name]) for name in new)
            for name, nodes in new.items():
                found = self._found[name]
                for one in nodes:
                    found.update(dict.fromkeys(itertools.islice(self._values(one), _KEPT)))
                    if len(found) > _KEPT:
                        break
            if sum(len(self._found[name]) for name in new) == before:
                break

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
        elif (name := _name_of(node)) is not None:
            yield from tuple(self._found.get(name, ()))
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
        name = _name_of(call.func) or ""
        given = [list(self._values(one)) for one in call.args]
        if name == "range":
            numbers = [[one for one in some if isinstance(one, int)] for some in given]
            for some in itertools.islice(itertools.product(*numbers), _MOST):
                if some and 0 not in some[2:]:
                    turns = range(*some)
                    yield from (turns[at] for at in (0, -1) if turns)
            return
        if name == "get" and call.args and isinstance(call.args[0], ast.Constant):
            yield from tuple(self._found.get(str(call.args[0].value), ()))
            given = given[1:]
        for one in itertools.chain.from_iterable(given):
            is_number = name in ("int", "float") and isinstance(one, str)
            yield int(one) if is_number and str(one).isdecimal() else one
        yield from tuple(self._found.get(f"{name}()", ()))  # of a function: what it returns

    # --- what names are given --------------------------------------------------------------------

    def _given(self) -> dict[str, list[ast.expr]]:
        if self._known is None:
            self._known = defaultdict(list)
            trees = [tree for file in self._files if (tree := tree_of(file)) is not None]
            nodes = [node for tree in trees for node in tree.parents]
            parameters = _parameters(nodes)
            for node in nodes:
                for name, value in _bound(node, parameters):
                    self._known[name].append(value)
        return self._known


def _names_in(node: ast.expr) -> Iterator[str]:
    """Return the names that the values of an expression may be asked of."""
    for one in ast.walk(node):
        if isinstance(one, ast.expr) and (name := _name_of(one)) is not None:
            yield name
        if isinstance(one, ast.Call):
            yield f"{_name_of(one.func) or ''}()"
            if one.args and isinstance(one.args[0], ast.Constant):
                yield str(one.args[0].value)  # the key that ``get`` takes


def _name_of(node: ast.expr) -> str | None:
    """Return what a value is known by: a name, an attribute, the key of an entry."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript):
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            return node.slice.value
        return _name_of(node.value)  # one of a row
    return None


def _bound(node: ast.AST, parameters: dict[str, list[list[str]]]) -> Iterator[_Bound]:
    """Return the names that a node gives values, each with the expression."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _stored(target, node.value)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        yield from _stored(node.target, node.value)
    elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        yield from _stored(node.target, node.iter)
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, value
    elif isinstance(node, ast.ImportFrom):
        for one in node.names:
            if one.asname is not None:
                yield one.asname, ast.Name(id=one.name, ctx=ast.Load())
    elif isinstance(node, _FUNCTIONS):
        yield from _defaults(node.args)
        inner = (one for one in ast.walk(node) if isinstance(one, ast.Return) and one.value)
        yield from ((f"{node.name}()", one.value) for one in inner if one.value is not None)
    elif isinstance(node, ast.Lambda):
        yield from _defaults(node.args)
    elif isinstance(node, ast.Call):
        yield from _handed(node, parameters)


def _handed(call: ast.Call, parameters: dict[str, list[list[str]]]) -> Iterator[_Bound]:
    """Return what a call gives to names, and the options of a command line."""
    yield from ((one.arg, one.value) for one in call.keywords if one.arg is not None)
    for names in parameters.get(_name_of(call.func) or "", ()):
        yield from zip(names, call.args, strict=False)
    option = call.args[0] if call.args else None  # add_argument("--every", default=7)
    if isinstance(option, ast.Constant) and isinstance(option.value, str):
        name = option.value.lstrip("-").replace("-", "_")
        yield from ((name, one.value) for one in call.keywords if one.arg == "default")


def _stored(target: ast.expr, value: ast.expr) -> Iterator[_Bound]:
    if isinstance(target, ast.Tuple | ast.List):
        rows = value.elts if isinstance(value, ast.Tuple | ast.List) else []
        is_one_each = len(rows) == len(target.elts)
        for at, one in enumerate(target.elts):
            yield from _stored(one, rows[at] if is_one_each else value)
    elif (name := _name_of(target)) is not None:
        yield name, value
        if isinstance(target, ast.Subscript):
            yield name, target.slice


def _defaults(given: ast.arguments) -> Iterator[_Bound]:
    names = [one.arg for one in (*given.posonlyargs, *given.args)]
    yield from zip(names[len(names) - len(given.defaults) :], given.defaults, strict=True)
    for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        if value is not None:
            yield one.arg, value


def _parameters(nodes: Iterable[ast.AST]) -> dict[str, list[list[str]]]:
    """Return the names that arguments by place have, by the function or class that is called."""
    found: dict[str, list[list[str]]] = defaultdict(list)
    for node in nodes:
        if isinstance(node, _FUNCTIONS):
            names = [one.arg for one in (*node.args.posonlyargs, *node.args.args)]
            found[node.name].append(names[1:] if names[:1] in (["self"], ["cls"]) else names)
        elif isinstance(node, ast.ClassDef):
            made = [one for one in node.body if getattr(one, "name", "") == "__init__"]
            fields = [one.target for one in node.body if isinstance(one, ast.AnnAssign)]
            if made and isinstance(made[0], _FUNCTIONS):
                found[node.name].append([one.arg for one in made[0].args.args[1:]])
            elif fields:  # of a dataclass, or of a named tuple
                found[node.name].append([_name_of(one) or "" for one in fields])
    return found
