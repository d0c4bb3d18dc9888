"""Which tests of a program may depend on what a function is given: read off the source.

Names, attributes and results of functions are followed through all files together, whatever the
order of their statements, and into what is assigned under a test that depends. Whose a name is,
``scoping`` says: a variable of a comprehension, a parameter and a global of another file are other
names. The rest is too much rather than too little: attributes are one for all objects of a name,
methods one for all classes, and a call of something unknown hands on all it was given, ``forward``
and ``__call__`` included, and every function that the program hands about as a value.
Agreement washes nothing here: a side that no batch takes is one that was not played, on all ranks.

Above 400 lines: every kind of node is told once, by what it binds, what it hands on, what it tests.
"""

from __future__ import annotations

import ast
import io
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from planguard.capture.names.scoping import Scoping
from planguard.capture.names.source import tree_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from planguard.capture.names.source import Tree

TEST, LOOP, HANDLER = "test", "loop", "handler"
"""Kinds of tests: a truth value, how often a loop turns, whether an error is caught."""
_Fact = tuple[str, str, str]
"""A name of a function (``v``, function, name), of a file (``g``, file, name; no file for any), an
attribute (``a``), a result (``r``), what is sent to a generator (``s``)."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_TRIES = (ast.Try, getattr(ast, "TryStar", ast.Try))
_HANDING = (
    ast.Call, ast.keyword, ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.Return, ast.Dict, ast.List,
    ast.Tuple, ast.Set, ast.Starred, ast.IfExp,
)  # fmt: skip
"""What may hand a function about as a value."""
_FLOWING = (
    ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.For, ast.AsyncFor,
    ast.comprehension, ast.withitem, ast.Return, ast.Yield, ast.YieldFrom, *_FUNCTIONS, *_TRIES,
    ast.match_case, ast.Call,
)  # fmt: skip
"""What hands on what depends (``Program._flow``)."""
_OF_TEXT = frozenset({"eval", "exec"})
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


@dataclass(eq=False)
class Scope:
    """A function, or a file; each is one of its own."""

    key: str
    node: ast.AST
    around: Scope | None

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
        trees: dict[str, Tree] = {}
        for file, text in sources.items():
            try:
                trees[file] = tree_in(file, text)
            except (SyntaxError, ValueError, RecursionError):
                continue
        self._scoping = Scoping(trees)
        self._trees = trees
        self._defined: dict[tuple[ast.AST, str], list[Scope]] = defaultdict(list)
        self._stored: set[tuple[ast.AST | None, str]] = set()  # names that are given values
        self._handed: dict[Scope, None] = {}  # functions that are values, until they are filled
        self._filled: set[Scope] = set()  # functions whose parameters all depend
        # What depends goes on to do so, and what does not, until another fact is known.
        self._depending: set[ast.AST] = set()
        self._free: dict[ast.AST, int] = {}  # how many facts were known
        self._owners: dict[ast.AST, ast.AST | None] = {}  # asked many times, as the next ones
        self._meanings: dict[ast.AST, list[Scope]] = {}
        self._callees: dict[ast.Call, list[Scope]] = {}
        self._brought: dict[ast.AST, tuple[list[tuple[str, str]], str]] = {}
        self._places: dict[ast.AST, list[str]] = {}
        for file, tree in trees.items():
            self.files[file] = tree.root
            self._scopes(tree.root, Scope(file, tree.root, None), file, [])
        for file, tree in trees.items():
            self._hand_about(file, tree)

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
        flowing = [one for one in self.scopes.items() if isinstance(one[0], _FLOWING)]
        while len(self.facts) > before:
            before = len(self.facts)
            for node, scope in flowing:
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
            self.functions[name].append(inner)
            owner = self._scoping.owner(name, self._scoping.scope(node))
            self._defined[owner or node, name].append(inner)
            self.scopes[node] = inner
            under = []
        elif isinstance(node, ast.ClassDef):
            for one in node.body:
                if isinstance(one, _FUNCTIONS):
                    self.owners[one].add(node.name)
                    self.functions[f"{node.name}()"].append(Scope("", one, scope))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            self._stored.add((self._owner(node), node.id))
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

    def _hand_about(self, file: str, tree: Tree) -> None:
        """Note which functions of the program are values, rather than called by their name."""
        for node, parent in tree.parents.items():
            if isinstance(node, ast.Lambda):
                self._handed[self.scopes[node]] = None
            elif isinstance(node, ast.Name | ast.Attribute) and self._is_handed(node, parent):
                self._handed.update(dict.fromkeys(self._meant(node)))

    @staticmethod
    def _is_handed(node: ast.AST, parent: ast.AST) -> bool:
        return isinstance(parent, _HANDING) and node is not getattr(parent, "func", None)

    def _owner(self, node: ast.Name) -> ast.AST | None:
        if node not in self._owners:
            self._owners[node] = self._scoping.owner(node.id, self._scoping.scope(node))
        return self._owners[node]

    def _fact(self, name: str, owner: ast.AST | None) -> _Fact:
        """Return what is known of a name, by the scope whose it is."""
        if owner is None:
            return "g", "", name  # of any file: nothing in sight binds it
        if isinstance(owner, ast.Module):
            return "g", self._scoping.files[owner], name
        scope = self.scopes[owner]
        is_function = isinstance(owner, _FUNCTIONS)
        place = "" if is_function else f":{place_in_file(owner)[:2]}"
        return "v", scope.key + place, name

    def _name_depends(self, node: ast.Name) -> bool:
        """Tell whether a name may depend: a value, or a function that returns one."""
        owner = self._owner(node)
        if self._fact(node.id, owner) in self.facts:
            return True
        if any(("r", "", one.key) in self.facts for one in self._meant(node)):
            return True
        if node not in self._brought:
            root = self._root_of(node) if owner is None else owner
            file = "" if not isinstance(root, ast.Module) else self._scoping.files[root]
            brought = self._scoping.imported(node.id, root)
            if self._scoping.is_foreign(node.id, root):
                brought += [(one, node.id) for one in self.files]
            self._brought[node] = brought, file
        brought, file = self._brought[node]
        if file and (
            ("g", "", node.id) in self.facts
            or (file in self._scoping.handed and ("a", "", node.id) in self.facts)
        ):
            return True  # set by the dictionary of a module, or as an attribute of it
        return any(("g", file, name) in self.facts for file, name in brought)

    def _root_of(self, node: ast.AST) -> ast.AST:
        scope = self.scopes[node]
        while scope.around is not None:
            scope = scope.around
        return scope.node

    def _meant(self, node: ast.AST) -> list[Scope]:
        """Return the functions of the program that a name, or an attribute, may stand for."""
        if node not in self._meanings:
            self._meanings[node] = self._functions_of(node)
        return self._meanings[node]

    def _functions_of(self, node: ast.AST) -> list[Scope]:
        if isinstance(node, ast.Attribute):
            return [one for one in self.functions.get(node.attr, []) if one.key]
        if not isinstance(node, ast.Name):
            return []
        owner = self._owner(node)
        root = owner or self._root_of(node)
        if owner is None or self._scoping.is_foreign(node.id, root):
            return [one for one in self.functions.get(node.id, []) if one.key]  # nobody knows whose
        found = list(self._defined.get((owner, node.id), ()))
        for file, name in self._scoping.imported(node.id, root):
            found += self._defined.get((self._scoping.root(file), name), ())
        return found

    # --- flow --------------------------------------------------------------------------------

    def depends(self, node: ast.AST | None) -> bool:
        """Tell whether the value of an expression may depend."""
        if node is None or self._free.get(node) == len(self.facts):
            return False
        if node in self._depending:
            return True
        found = node in self.asked or self._expression_depends(node)
        if found:
            self._depending.add(node)
        else:
            self._free[node] = len(self.facts)
        return found

    def _expression_depends(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Name):
            return self._name_depends(node)
        if isinstance(node, ast.Attribute):
            return self._attribute_depends(node)
        if isinstance(node, ast.Yield) and ("s", "", "") in self.facts:
            return True
        if isinstance(node, ast.Lambda):
            return self.depends(node.body)
        if isinstance(node, ast.Call):
            known = self._called(node)
            if _name_of(node.func) in _OF_TEXT and self._text_depends(node):
                return True
            if any(("r", "", one.key) in self.facts for one in known):
                return True
            if known:  # a method of an object that depends may return it, whatever it is given
                return isinstance(node.func, ast.Attribute) and self.depends(node.func.value)
        return any(self.depends(child) for child in ast.iter_child_nodes(node))

    def _attribute_depends(self, node: ast.Attribute) -> bool:
        # ``module.LAST`` is a global of its file, and a property is a call.
        if node not in self._places:
            found = self._scoping.of_expression(node.value)
            self._places[node] = ["", *found, *self._scoping.handed]
        if ("a", "", node.attr) in self.facts or self.depends(node.value):
            return True
        if any(("g", file, node.attr) in self.facts for file in self._places[node]):
            return True
        parent = self._trees[self._scoping.files[self._root_of(node)]].parents.get(node)
        is_value = parent is not None and self._is_handed(node, parent)
        return any(
            ("r", "", one.key) in self.facts
            and (is_value or getattr(one.node, "decorator_list", None))
            for one in self._meant(node)
        )

    def _text_depends(self, call: ast.Call) -> bool:
        """Tell whether a text that is run names what depends; one that is computed may name all."""
        given = call.args[0] if call.args else None
        if not isinstance(given, ast.Constant):
            key = self.scopes[call].key
            return any(fact[1].startswith(key) for fact in self.facts if fact[0] == "v")
        named = _names_in(str(given.value))
        return any(name in named for kind, _, name in self.facts if kind in "vg")

    def _called(self, call: ast.Call) -> list[Scope]:
        """Return the functions of the program that a call may be of; none for what is unknown."""
        if call not in self._callees:
            is_variable = isinstance(call.func, ast.Name) and self._is_variable(call.func)
            self._callees[call] = [] if is_variable else self._meant(call.func)
        return self._callees[call]

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
        elif isinstance(node, _FUNCTIONS):
            self._flow_defaults(node, scope)
        elif isinstance(node, (*_TRIES, ast.match_case)):
            self._flow_bound(node)
        elif isinstance(node, ast.Call):
            self._flow_call(node)

    def _flow_bound(self, node: ast.AST) -> None:
        """Follow what a handler catches, and what a pattern takes out of its subject."""
        if isinstance(node, ast.match_case):
            for one in ast.walk(node.pattern) if self._is_under(node) else ():
                self._bind(getattr(one, "name", getattr(one, "rest", None)), one)
        elif self.may_catch(node):
            for handler in getattr(node, "handlers", ()):
                self._bind(handler.name, handler)

    def _flow_defaults(self, node: _Function, scope: Scope) -> None:
        """Follow what a function is given where it is defined, and what a ``lambda`` returns."""
        if isinstance(node, ast.Lambda) and self.depends(node.body):
            self.facts.add(("r", "", scope.key))
        given = node.args
        named = [*given.posonlyargs, *given.args][-len(given.defaults) :] if given.defaults else []
        pairs = [*zip(named, given.defaults, strict=True)]
        pairs += [(a, d) for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d]
        self.facts.update(("v", scope.key, one.arg) for one, value in pairs if self.depends(value))

    def _bind(self, name: object, node: ast.AST) -> None:
        """Say that a name depends that a handler or a pattern binds."""
        if isinstance(name, str):
            owner = self._scoping.owner(name, self._scoping.scope(node))
            self.facts.add(self._fact(name, owner))

    def _mark(self, target: ast.AST) -> None:
        """Say that what is stored at a target depends."""
        if isinstance(target, ast.Name):
            owner = self._owner(target)
            self.facts.add(self._fact(target.id, owner))
            if isinstance(owner, ast.ClassDef):
                self.facts.add(("a", "", target.id))
        elif isinstance(target, ast.Attribute):
            self.facts.add(("a", "", target.attr))
            files = self._scoping.of_expression(target.value)
            self.facts.update(("g", file, target.attr) for file in files)
        elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Call):
            key = target.slice  # ``globals()["LIMIT"]``
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                self.facts.update({("g", "", key.value), ("a", "", key.value)})
            self._mark(target.value)
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
        name = _name_of(call.func)
        self.called.add(name)
        if name == "send" and any(depending):
            self.facts.add(("s", "", ""))
        if any(f"{one}()" in self.functions for one in self._known_as(call.func)):
            functions = [*functions, *self.functions["__init__"]]
        if not functions:  # a model, a thread, a partial: it may call any of these with all of it
            functions = [one for entry in _ENTRIES for one in self.functions[entry]]
            self.called.update(_ENTRIES)
            if not isinstance(call.func, ast.Attribute | ast.Name) or self._is_variable(call.func):
                functions += self._handed if any(depending) else []
            for one in given:
                named = getattr(one, "id", getattr(one, "attr", ""))
                self.called.add(named)
                functions += self.functions.get(named, [])
                functions += [self.scopes[one]] if isinstance(one, ast.Lambda) else []
        for scope in functions:
            if scope not in self._filled:
                self._hand_on(call, scope, depending, receiver)
        if not self._called(call):  # buffers are written: recv(x), all_reduce(x)
            for one in given:
                if any(depending) and isinstance(one, ast.Name | ast.Attribute):
                    self._mark(one)

    def _is_variable(self, called: ast.expr) -> bool:
        """Tell whether a name is called that is given values: a parameter, for example."""
        if not isinstance(called, ast.Name):
            return False
        owner = self._owner(called)
        is_given = isinstance(owner, _FUNCTIONS) and called.id in self.scopes[owner].parameters
        return is_given or (owner, called.id) in self._stored

    def _known_as(self, called: ast.expr) -> set[str]:
        """Return the names of what is called: here, and where it was imported from."""
        names = {_name_of(called)}
        if isinstance(called, ast.Name):
            root = self._owner(called) or self._root_of(called)
            names.update(name for _, name in self._scoping.imported(called.id, root))
        return names

    def _hand_on(
        self, call: ast.Call, scope: Scope, depending: list[bool], receiver: ast.expr | None
    ) -> None:
        """Hand the arguments of a call on to the parameters of a function, by place and name."""
        node = scope.node
        if not scope.key or not isinstance(node, _FUNCTIONS):
            return
        names = [one.arg for one in (*node.args.posonlyargs, *node.args.args)]
        exact = scope in self._called(call) and isinstance(call.func, ast.Name)
        if not exact or any(isinstance(one, ast.Starred) for one in call.args):
            if any(depending):
                self.facts.update(("v", scope.key, one.arg) for one in _arguments(node))
                self._filled.add(scope)
                self._handed.pop(scope, None)
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


def _name_of(node: ast.AST) -> str:
    return str(getattr(node, "id", getattr(node, "attr", "")))


@lru_cache(maxsize=256)
def _names_in(text: str) -> frozenset[str]:
    """Return the names in a text that is run."""
    try:
        found = ast.walk(ast.parse(text.strip()))
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    return frozenset(one.id for one in found if isinstance(one, ast.Name))


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
