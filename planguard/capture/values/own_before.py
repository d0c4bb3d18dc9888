"""What a module of the program asked when it was imported, before the ranks were played.

Played ranks are forks of one process, so they share what its modules computed: the order of a list
that was made of a set, whether a package was there (``HAS_FLASH``), a folder's content. A real rank
imports for itself. So the statements of a module, or of a class in it, that ask and can be asked
again are: those that compute from questions and builtins alone, and imports under a ``try`` that
set constants. Only a name that still has what its statement gives here is given what it gives on an
odd rank; there every module that has the same object gets the other one.

What a function returned at import, and what was put into lists and objects, stays as it is, and is
said (``own_imports``). So are the environment variables, which are not played.
"""

from __future__ import annotations

import ast
import builtins
import os
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from planguard.capture.names.job_modules import reached, statements_of, value_of_name
from planguard.capture.values.bytecode import as_imported
from planguard.capture.values.own_imports import Imports
from planguard.sources import file_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import CodeType

_BUILTINS = frozenset({
    "list", "tuple", "sorted", "set", "frozenset", "dict", "len", "int", "float", "str", "bool",
    "min", "max", "sum", "next", "iter", "enumerate", "any", "all", "zip", "range", "abs", "round",
    "reversed", "hash",
})  # fmt: skip
_METHODS = frozenset({
    "get", "split", "strip", "lower", "upper", "startswith", "endswith", "replace", "join",
    "removeprefix", "removesuffix", "partition", "rpartition", "fromkeys", "keys", "values",
    "items", "union", "intersection", "difference", "exists", "is_file", "is_dir", "iterdir",
    "glob", "with_suffix", "expanduser", "absolute", "now", "today", "utcnow", "weekday", "count",
})  # fmt: skip
"""Methods that change nothing: of texts, sets, dicts, paths and times."""
_LOOKING = frozenset({"exists", "is_file", "is_dir", "iterdir", "glob", "now", "today", "utcnow"})
"""Those of them that ask."""
_OWNERS = (
    str, bytes, dict, set, frozenset, tuple, list, Path, type(os.environ), type, ModuleType,
)  # fmt: skip
_PLAIN = (Path, os.getenv, dict.fromkeys, os.path.join, os.path.dirname, os.path.abspath)


_NAMED = 6
"""Lines that are named; the others are counted."""


class Before:
    """The statements of the modules of a step that can be asked again.

    They are read, and asked for the first time, before the ranks are forked, once for all of them.

    Args:
        roots: What the ranks run: functions, and what they are called with.
        is_question: Tells whether a function is one whose answer is a rank's own, and that changes
            nothing: neither files nor the state of random numbers.
        questions: All functions whose answer is a rank's own: owner and name.
        is_told: Tells whether an environment variable is one that is played.

    Attributes:
        imports: What the imports asked that is not asked again.
    """

    def __init__(
        self,
        roots: Iterable[Any],
        is_question: Callable[[Any], bool],
        questions: Iterable[tuple[Any, str]],
        is_told: Callable[[str], bool],
    ) -> None:
        self._is_question = is_question
        self._kept: list[tuple[dict[str, Any], dict[str, Any], Any, CodeType, list[str]]] = []
        self._again: set[int] = set()
        step = reached(roots)
        self._modules, self._missed = step.modules, step.missed
        for module in self._modules:
            known, own = vars(module), set[str]()
            for node, owner in statements_of(module).given:
                kind = known.get(owner)
                if not owner or isinstance(kind, type):
                    own |= self._keep(module, node, kind if owner else None, own)
        self.imports = Imports(self._modules, questions, self._again, is_told)

    def said(self) -> str:
        """Say what of the imports is taken to be the same on all ranks; empty for nothing."""
        named = [*self.imports.asked, *self._missed]
        more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        said = "taken to be the same on all ranks: what modules asked when they were imported"
        return f"{said}: {', '.join(named[:_NAMED])}{more}" if named else ""

    def _keep(
        self, module: ModuleType, node: ast.stmt, owner: type | None, own: set[str]
    ) -> set[str]:
        """Keep a statement, if its names have what it gives here; return them.

        Args:
            module: The module.
            node: The statement.
            owner: The class around it.
            own: Names of the module that another rank may have other values of.
        """
        known = vars(module)
        names = self._names(node, known, own)
        if not names:
            return set()
        held = known if owner is None else vars(owner)
        file = file_of(module)
        for code in as_imported(compile(ast.Module([node], []), file, "exec"), file):
            found = _run(code, known)
            if found is None or not all(_is_same(found.get(one), held.get(one)) for one in names):
                continue
            self._kept.append((known, found, owner, code, names))
            self._again.update(map(id, ast.walk(node)))
            return set(names) if owner is None else set()
        return set()

    def _names(self, node: ast.AST, known: dict[str, Any], own: set[str]) -> list[str]:
        """Return the names that a statement sets, if it can be asked again."""
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [one.id for one in targets if isinstance(one, ast.Name)]
            is_plain = len(names) == len(targets) and self._can_be_asked(node.value, known)
            return names if is_plain and self._asks(node.value, known, own) else []
        if isinstance(node, ast.Try) and not node.finalbody:
            inner = [*node.body, *node.orelse, *(one for h in node.handlers for one in h.body)]
            kinds = (ast.Import, ast.ImportFrom, ast.Pass)
            is_plain = any(isinstance(one, kinds[:2]) for one in node.body) and all(
                isinstance(one, kinds) or _is_constant(one) for one in inner
            )
            return [one for part in inner for one in _set_by(part)] if is_plain else []
        return []

    def _can_be_asked(self, value: ast.expr, known: dict[str, Any]) -> bool:
        for node in ast.walk(value):
            if isinstance(node, ast.Await | ast.Yield | ast.YieldFrom | ast.Lambda | ast.NamedExpr):
                return False
            if isinstance(node, ast.Call) and not self._is_harmless(node.func, known):
                return False
        return True

    def _is_harmless(self, called: ast.expr, known: dict[str, Any]) -> bool:
        """Tell whether a function that is called asks, or computes without an effect."""
        if isinstance(called, ast.Attribute) and called.attr in _METHODS:
            owner = value_of_name(called.value, known)
            return isinstance(owner, _OWNERS) if owner is not None else called.attr != "get"
        found = value_of_name(called, known)
        is_builtin = getattr(builtins, getattr(found, "__name__", ""), None) is found
        is_plain = found is not None and is_builtin and found.__name__ in _BUILTINS
        return is_plain or any(found is one for one in _PLAIN) or self._is_question(found)

    def _asks(self, value: ast.expr, known: dict[str, Any], own: set[str]) -> bool:
        """Tell whether an expression may be another one on another rank.

        It asks, or walks a set, or takes from a name that does.
        """
        sets = (set, frozenset)
        for node in ast.walk(value):
            if isinstance(node, ast.Set | ast.SetComp):
                return True
            if isinstance(node, ast.Name) and node.id in own:
                return True
            if isinstance(node, ast.Name | ast.Attribute):
                found = value_of_name(node, known)
                if isinstance(found, (*sets, type(os.environ))) or any(o is found for o in sets):
                    return True
            if isinstance(node, ast.Call):
                found = value_of_name(node.func, known)
                method = getattr(node.func, "attr", "") if found is None else ""
                if method in _LOOKING or found is os.getenv or self._is_question(found):
                    return True
        return False

    def ask(self) -> None:
        """Ask again, and give names what this rank is answered, where that is something else."""
        for known, before, owner, code, names in self._kept:
            found = _run(code, known)
            for name in names if found is not None else ():
                old, new = before.get(name), (found or {}).get(name)
                if _is_same(old, new):
                    continue
                if owner is not None:
                    setattr(owner, name, new)
                    continue
                held = known.get(name)
                for module in self._modules:
                    if vars(module).get(name) is held:
                        vars(module)[name] = new


def _run(code: CodeType, known: dict[str, Any]) -> dict[str, Any] | None:
    scope = dict(known)
    try:
        exec(code, scope)  # noqa: S102 - a statement of the program, which its import ran
    except Exception:  # noqa: BLE001 - whatever it raises: it is not to be asked again
        return None
    return scope


def _is_constant(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and all(
        isinstance(one, ast.Constant | ast.Name | ast.Attribute | ast.expr_context | ast.Assign)
        for one in ast.walk(node)
    )


def _set_by(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((one.asname or one.name).partition(".")[0] for one in node.names)
    elif isinstance(node, ast.Assign):
        yield from (one.id for one in node.targets if isinstance(one, ast.Name))


def _is_same(left: Any, right: Any) -> bool:
    """Tell whether two values are the same, sets and dicts in the same order."""
    if left is right:
        return True
    try:
        same = type(left) is type(right) and bool(left == right)
    except Exception:  # noqa: BLE001 - arrays, or a class of the program
        return False
    return same and (not isinstance(left, dict) or list(left) == list(right))
