"""Which tests of a program may depend on what a function is given: read off the source.

Names, attributes and results of functions are followed through all files together, whatever the
order of their statements, and into what is assigned under a test that depends. That is too much
rather than too little: attributes are one for all objects of a name, methods one for all classes,
and a call of something unknown hands on all it was given, ``forward`` and ``__call__`` included.
Agreement washes nothing here: a side that no batch takes is one that was not played, on all ranks.

Above 400 lines: every kind of node is told once, by what it binds, what it hands on, what it tests.
"""

from __future__ import annotations

import ast
import io
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planguard.capture.names.source import root_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

TEST, LOOP, HANDLER = "test", "loop", "handler"
"""Kinds of tests: a truth value, how often a loop turns, whether an error is caught."""
_Fact = tuple[str, str, str]
"""A name of a function (``v``, function, name), an attribute (``a``), a result (``r``)."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_TRIES = (ast.Try, getattr(ast, "TryStar", ast.Try))
_ENTRIES = ("forward", "__call__", "__iter__", "__getitem__", "__next__", "__len__")


def place_in_file(node: ast.AST) -> tuple[int, int, int]:
    """Return where a test stands: its line, its column, and the column behind it."""
    return node.lineno, node.col_offset, node.end_col_offset  # type: ignore[attr-defined]  # it has them


@dataclass(frozen=True)
class Test:
    """A test of a program.

    Attributes:
        file: Its file.
        line: Its line.
        column: Its column.
        end: The column behind it.
        kind: A truth value, a loop, or a handler.
        text: Its source.
        depends: What the function is given may decide it.
    """

    file: str
    line: int
    column: int
    end: int
    kind: str
    text: str
    depends: bool = True

    @property
    def place(self) -> tuple[str, int, int, int]:
        """Where it stands."""
        return self.file, self.line, self.column, self.end


@dataclass
class Scope:
    """A function, or a file."""

    key: str
    node: ast.AST
    around: Scope | None
    own: set[str] = field(default_factory=set)
    elsewhere: set[str] = field(default_factory=set)  # global and nonlocal

    @property
    def parameters(self) -> list[str]:
        """Names of the parameters of a function; none for a file."""
        return (
            [one.arg for one in _arguments(self.node)] if isinstance(self.node, _FUNCTIONS) else []
        )


def tests_of(
    sources: Mapping[str, str], step: tuple[str, int], parameters: Iterable[str]
) -> list[Test]:
    """Return the tests of some files, and which of them depend on a function's parameters.

    Args:
        sources: Text by file.
        step: File and first line of the function.
        parameters: Those of its parameters that are meant.
    """
    return Program(sources).tests(step, set(parameters))


class Program:
    """Some files, and what depends in them.

    Attributes:
        asked: Calls whose results depend.
        facts: What is known to depend.
        scopes: The scope of every node.
        owners: Classes of methods, by name.
        called: Names of what is called with a value that depends, or where one decides.
    """

    def __init__(
        self, sources: Mapping[str, str], asked: Mapping[str, set[int]] | None = None
    ) -> None:
        self.asked: set[ast.AST] = set()  # calls, and values made text, whose results depend
        self._asked_at = asked or {}
        self.facts: set[_Fact] = set()
        self.functions: dict[str, list[Scope]] = defaultdict(list)
        self.scopes: dict[ast.AST, Scope] = {}
        self.files: dict[str, ast.Module] = {}
        self.texts = dict(sources)
        self.modules: set[str] = set()
        self.under: dict[ast.AST, list[ast.AST]] = {}
        self.owners: dict[ast.AST, set[str]] = defaultdict(set)  # classes of methods
        self.called: set[str] = set()  # what is called with what depends, by name
        for file, text in sources.items():
            try:
                self.files[file] = tree = root_of(file, text)
            except (SyntaxError, ValueError, RecursionError):
                continue
            self._scopes(tree, Scope(file, tree, None), file, [])

    def tests(
        self, step: tuple[str, int] = ("", 0), parameters: set[str] | frozenset[str] = frozenset()
    ) -> list[Test]:
        """Return all tests, once what depends was followed; see ``tests_of``."""
        file, line = step
        for scope in self.scopes.values():
            node = scope.node
            if isinstance(node, _FUNCTIONS) and scope.key.startswith(f"{file}:{line}:"):
                self.facts.update(("v", scope.key, name) for name in parameters)
        self.follow()
        return [one for name, tree in self.files.items() for one in self._found(name, tree)]

    def follow(self) -> None:
        """Follow what depends until nothing is new."""
        before = -1
        while len(self.facts) > before:
            before = len(self.facts)
            for node, scope in self.scopes.items():
                self._flow(node, scope)

    def may_catch(self, node: ast.AST) -> bool:
        """Tell whether what the handlers of a ``try`` wait for may depend."""
        return True

    # --- scopes ------------------------------------------------------------------------------

    def _scopes(self, node: ast.AST, scope: Scope, file: str, under: list[ast.AST]) -> None:
        """Give every node its scope, and the tests that it stands under."""
        self.scopes[node] = scope
        self.under[node] = under
        inner = scope
        if isinstance(node, _FUNCTIONS):
            lines = [node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))]
            name = getattr(node, "name", "<lambda>")
            inner = Scope(f"{file}:{min(lines)}:{node.col_offset}:{name}", node, scope)
            inner.own = {one.arg for one in _arguments(node)}
            self.functions[name].append(inner)
            scope.own.add(name)
            self.scopes[node] = inner
            under = []
        elif isinstance(node, ast.ClassDef):
            scope.own.add(node.name)
            for one in node.body:
                if isinstance(one, _FUNCTIONS):
                    self.owners[one].add(node.name)
                    self.functions[f"{node.name}()"].append(Scope("", one, scope))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            scope.own.add(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            scope.own.add(node.name)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            scope.elsewhere.update(node.names)
        elif isinstance(node, ast.Call | ast.FormattedValue):
            asked_at = self._asked_at.get(file) or set()
            if any(node.lineno <= line <= (node.end_lineno or 0) for line in asked_at):
                self.asked.add(node)
        elif isinstance(node, ast.Import):
            self.modules.update(one.asname or one.name.partition(".")[0] for one in node.names)
        for child, tests in self._children(node, under):
            self._scopes(child, inner, file, tests)

    @staticmethod
    def _children(node: ast.AST, under: list[ast.AST]) -> Iterator[tuple[ast.AST, list[ast.AST]]]:
        deciding: ast.AST | None = None
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            deciding = node.test
        elif isinstance(node, ast.For | ast.AsyncFor):
            deciding = node.iter
        elif isinstance(node, ast.Match):
            deciding = node.subject
        for child in ast.iter_child_nodes(node):
            inside = deciding is not None and child is not deciding
            yield child, [*under, deciding] if inside and deciding is not None else under

    def _resolved(self, name: str, scope: Scope) -> _Fact:
        one: Scope | None = scope
        while one is not None:
            if one.around is None or (name in one.own and name not in one.elsewhere):
                break
            one = one.around
        if one is None or one.around is None:
            return "g", "", name  # of any file: it may be imported
        return "v", one.key, name

    # --- flow --------------------------------------------------------------------------------

    def depends(self, node: ast.AST | None) -> bool:
        """Tell whether the value of an expression may depend."""
        if node is None:
            return False
        if node in self.asked:
            return True
        if isinstance(node, ast.Name):
            return self._resolved(node.id, self.scopes[node]) in self.facts
        if isinstance(node, ast.Attribute):
            # ``module.LAST`` is a global of its file, and a property is a call.
            kinds = (("a", "", node.attr), ("g", "", node.attr))
            if any(fact in self.facts for fact in kinds) or self.depends(node.value):
                return True
            made = (one for one in self.functions.get(node.attr, []) if one.key)
            return any(
                ("r", "", one.key) in self.facts and getattr(one.node, "decorator_list", None)
                for one in made
            )
        if isinstance(node, ast.Lambda):
            return self.depends(node.body)
        if isinstance(node, ast.Call):
            known = self._called(node)
            if any(("r", "", one.key) in self.facts for one in known):
                return True
            if known:  # a method of an object that depends may return it, whatever it is given
                return isinstance(node.func, ast.Attribute) and self.depends(node.func.value)
        return any(self.depends(child) for child in ast.iter_child_nodes(node))

    def _called(self, call: ast.Call) -> list[Scope]:
        """Return the functions of the program that a call may be of; none for what is unknown."""
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        return [one for one in self.functions.get(name, []) if one.key]

    def _is_under(self, node: ast.AST) -> bool:
        return any(self.depends(one) for one in self.under[node])

    def _flow(self, node: ast.AST, scope: Scope) -> None:
        """Follow one node."""
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if self.depends(node.value) or self._is_under(node):
                for one in targets:
                    self._mark(one)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            if self.depends(node.iter) or (node in self.under and self._is_under(node)):
                self._mark(node.target)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            if self.depends(node.context_expr):
                self._mark(node.optional_vars)
        elif isinstance(node, ast.Return | ast.Yield | ast.YieldFrom):
            if self.depends(node.value) or self._is_under(node):
                self.facts.add(("r", "", scope.key))
        elif isinstance(node, ast.Lambda) and self.depends(node.body):
            self.facts.add(("r", "", scope.key))
        elif isinstance(node, _TRIES) and self.may_catch(node):
            names = [one.name for one in node.handlers]
            self.facts.update(self._resolved(name, scope) for name in names if name)
        elif isinstance(node, ast.match_case) and self._is_under(node):
            bound = [getattr(one, "name", None) for one in ast.walk(node.pattern)]
            scope.own.update(name for name in bound if isinstance(name, str))
            self.facts.update(
                self._resolved(name, scope) for name in bound if isinstance(name, str)
            )
        elif isinstance(node, ast.Call):
            self._flow_call(node)

    def _mark(self, target: ast.AST) -> None:
        """Say that what is stored at a target depends."""
        if isinstance(target, ast.Name):
            self.facts.add(self._resolved(target.id, self.scopes[target]))
        elif isinstance(target, ast.Attribute):
            self.facts.add(("a", "", target.attr))
        elif isinstance(target, ast.Subscript | ast.Starred):
            self._mark(target.value)
        else:
            for one in ast.iter_child_nodes(target):
                self._mark(one)

    def _flow_call(self, call: ast.Call) -> None:
        given = [*call.args, *(one.value for one in call.keywords)]
        depending = [self.depends(one) for one in given]
        receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
        is_receiving = receiver is not None and self.depends(receiver)
        if not (any(depending) or is_receiving or self._is_under(call)):
            return
        if receiver is not None and not self._called(call):
            # What it is given may stay in it: x.append(batch). An object of the program keeps it in
            # attributes, which are followed; ``self.model(batch)`` is no method of ``self``.
            is_name = isinstance(receiver, ast.Name)
            is_own = is_name and receiver.id in {"self", *self.modules}  # type: ignore[attr-defined]  # it is a name
            if not is_own and isinstance(receiver, ast.Name | ast.Attribute):
                self._mark(receiver)
        functions = self._called(call)
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        self.called.add(name)
        if f"{name}()" in self.functions:
            functions = [*functions, *self.functions["__init__"]]
        if not functions:  # a model, a thread, a partial: it may call any of these with all of it
            functions = [one for entry in _ENTRIES for one in self.functions[entry]]
            self.called.update(_ENTRIES)
            for one in given:
                named = getattr(one, "id", getattr(one, "attr", ""))
                self.called.add(named)
                functions += self.functions.get(named, [])
                functions += [self.scopes[one]] if isinstance(one, ast.Lambda) else []
        for scope in functions:
            self._hand_on(call, scope, depending, receiver)
        if not self._called(call):  # buffers are written: recv(x), all_reduce(x)
            for one in given:
                if any(depending) and isinstance(one, ast.Name | ast.Attribute):
                    self._mark(one)

    def _hand_on(
        self, call: ast.Call, scope: Scope, depending: list[bool], receiver: ast.expr | None
    ) -> None:
        """Hand the arguments of a call on to the parameters of a function, by place and name."""
        node = scope.node
        if not scope.key or not isinstance(node, _FUNCTIONS):
            return
        names = [one.arg for one in (*node.args.posonlyargs, *node.args.args)]
        exact = getattr(node, "name", "") == getattr(call.func, "id", None)
        if not exact or any(isinstance(one, ast.Starred) for one in call.args):
            if any(depending):
                self.facts.update(("v", scope.key, one.arg) for one in _arguments(node))
            elif receiver is not None and self.depends(receiver) and names:
                self.facts.add(("v", scope.key, names[0]))
            return
        keywords = [one.arg for one in call.keywords]
        for at, is_one in enumerate(depending):
            if not is_one:
                continue
            name: str | None = None
            if at >= len(call.args):
                name = keywords[at - len(call.args)]
            elif at < len(names):
                name = names[at]
            every = [one.arg for one in _arguments(node)]
            wanted = [name] if name is not None and name in every else every
            self.facts.update(("v", scope.key, one) for one in wanted)

    # --- tests -------------------------------------------------------------------------------

    def _found(self, file: str, tree: ast.Module) -> Iterator[Test]:
        # Cut once: ``ast.get_source_segment`` cuts the whole file anew for each test.
        lines = [line.encode() for line in io.StringIO(self.texts[file], newline="")]
        for node in ast.walk(tree):
            for one, kind in _tests(node):
                depends = self.may_catch(node) if kind == HANDLER else self.depends(one)
                if isinstance(node, ast.For | ast.AsyncFor | ast.Match):
                    what = node.subject if isinstance(node, ast.Match) else node.iter
                    depends = self.depends(what)
                text = _text(lines, _shown(one))
                yield Test(file, *place_in_file(one), kind, " ".join(text.split())[:80], depends)


def _text(lines: list[bytes], node: ast.AST) -> str:
    """Return what a node says; columns count bytes of UTF-8."""
    first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", None)
    if last is None:
        return ""
    parts = lines[first - 1 : last]
    parts[-1] = parts[-1][: getattr(node, "end_col_offset", None)]
    parts[0] = parts[0][getattr(node, "col_offset", 0) :]
    return b"".join(parts).decode()


def _shown(node: ast.AST) -> ast.AST:
    if isinstance(node, ast.For | ast.AsyncFor):
        return node.iter
    if isinstance(node, ast.ExceptHandler):
        return node.type or node
    return node


def _tests(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Return the tests of one node, as ``asked`` tells them."""
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        yield from _operands(node.test)
    elif isinstance(node, ast.comprehension):
        for one in node.ifs:
            yield from _operands(one)
    elif isinstance(node, ast.BoolOp):
        for one in node.values:
            yield from _operands(one)
    elif isinstance(node, ast.Compare):
        yield node, TEST
    elif isinstance(node, ast.For | ast.AsyncFor):
        yield node, LOOP
    elif isinstance(node, ast.Match):
        for case in node.cases:
            yield case.pattern, LOOP
    elif isinstance(node, ast.Try):
        for handler in node.handlers:
            yield handler, HANDLER


def _operands(node: ast.expr) -> Iterator[tuple[ast.AST, str]]:
    if not isinstance(node, ast.BoolOp | ast.Constant):
        yield node, TEST


def _arguments(node: _Function) -> list[ast.arg]:
    more = [one for one in (node.args.vararg, node.args.kwarg) if one is not None]
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, *more]
