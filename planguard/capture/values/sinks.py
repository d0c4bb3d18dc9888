"""Where a number that was read can end without deciding anything: in what the program prints.

A number that became text, or that C code took out of its wrapper, can no longer be followed. It is
harmless only where the statement that reads it hands it to something that shows it: ``print``, a
logger, a file, a progress bar. That is read off the source of the statement, by the position that
the interpreter keeps for every instruction (Python 3.11). A local name is as harmless as all its
uses. What cannot be read, or is anything else, is not harmless.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import io
import json
import logging
import sys
import warnings
from types import BuiltinMethodType, FrameType
from typing import Any

from planguard.capture.names.source import Tree, tree_of
from planguard.sources import is_library

_SHOWING = ("logging", "tqdm", "rich", "wandb", "tensorboard", "mlflow", "loguru")
"""Packages that show what they are given."""
_PURE = frozenset(
    {"str", "repr", "format", "round", "float", "int", "abs", "dict", "list", "tuple"}
)
_PURE_METHODS = frozenset({"format", "join", "item", "tolist", "dumps", "mean", "sum", "detach"})
_THROUGH = (
    ast.FormattedValue, ast.JoinedStr, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List, ast.Dict,
    ast.keyword, ast.Starred,
)  # fmt: skip


def first_user_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame from here on that is no library's."""
    while frame is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def place_of(frame: FrameType | None) -> str:
    """Return ``file:line`` of the first user's frame."""
    found = first_user_frame(frame)
    return f"{found.f_code.co_filename}:{found.f_lineno}" if found else "a library"


def is_shown_only(frame: FrameType | None) -> bool:
    """Tell whether what is read at this frame, or by a library it calls, is only shown."""
    while frame is not None and is_library(frame.f_code.co_filename):
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] in _SHOWING:
            return True
        frame = frame.f_back
    if frame is None:
        return False
    tree = tree_of(frame.f_code.co_filename)
    node = None if tree is None else tree.at(frame)
    return tree is not None and node is not None and _ends_shown(tree, node, frame, set())


def is_dropped(frame: FrameType) -> bool:
    """Tell whether a frame calls for an effect only: nobody gets what the call returns."""
    tree = tree_of(frame.f_code.co_filename)
    node = None if tree is None else tree.at(frame)
    is_statement = tree is not None and isinstance(tree.parents.get(node or ast.Pass()), ast.Expr)
    return isinstance(node, ast.Call) and is_statement


def _ends_shown(tree: Tree, node: ast.AST, frame: FrameType, seen: set[str]) -> bool:
    """Climb from an expression to its statement; true where that shows it and drops it."""
    child, above = node, tree.parents.get(node)
    if isinstance(node, (ast.BoolOp, ast.IfExp)):
        return False  # its truth decides what is evaluated: ``flag and dist.barrier()``
    if isinstance(node, ast.Call):  # that reads the value, or hands it to what reads it
        if _shows(node.func, frame):
            return isinstance(above, ast.Expr)
        if not _is_pure(node.func, frame):
            return False  # it may keep what it was given
    while above is not None:
        if isinstance(above, ast.Call) and child is not above.func and _shows(above.func, frame):
            return isinstance(tree.parents.get(above), ast.Expr)
        if isinstance(above, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            return _is_name_shown(tree, above, frame, seen)
        if isinstance(above, ast.Expr):
            return True  # nobody gets it
        if not _is_passed_on(tree, child, above, frame):
            return False
        child, above = above, tree.parents.get(above)
    return False


def _is_passed_on(tree: Tree, child: ast.AST, above: ast.AST, frame: FrameType) -> bool:
    """Tell whether an expression makes of a part of it something that is followed further."""
    if isinstance(above, ast.Call):
        return child is above.func or _is_pure(above.func, frame)
    if isinstance(above, ast.Attribute):
        return isinstance(tree.parents.get(above), ast.Call)
    if isinstance(above, (ast.ListComp, ast.GeneratorExp)):
        return child is above.elt
    return isinstance(above, _THROUGH)


def _is_name_shown(tree: Tree, statement: ast.AST, frame: FrameType, seen: set[str]) -> bool:
    """Tell whether a statement gives a local name, all of whose uses only show it."""
    targets = getattr(statement, "targets", None) or [statement.target]  # type: ignore[attr-defined]
    if len(targets) != 1 or not isinstance(targets[0], ast.Name):
        return False
    name = targets[0].id
    scope: ast.AST | None = statement
    while scope is not None and not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        scope = tree.parents.get(scope)
    if scope is None or name in seen:
        return scope is not None
    for one in ast.walk(scope):
        if isinstance(one, (ast.Global, ast.Nonlocal)) and name in one.names:
            return False
        is_inner = isinstance(one, (ast.Lambda, ast.FunctionDef)) and one is not scope
        if is_inner and any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(one)):
            return False
        is_use = isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Load)
        if is_use and not _ends_shown(tree, one, frame, {*seen, name}):
            return False
    return True


_UNKNOWN = object()


def _object(node: ast.expr, frame: FrameType) -> Any:
    """Return what a name or a chain of attributes stands for, without running anything."""
    if isinstance(node, ast.Name):
        for names in (frame.f_locals, frame.f_globals, vars(builtins)):
            if node.id in names:
                return names[node.id]
    if isinstance(node, ast.Attribute):
        owner = _object(node.value, frame)
        if owner is not _UNKNOWN:
            return inspect.getattr_static(owner, node.attr, _UNKNOWN)
    return _UNKNOWN


def _shows(callee: ast.expr, frame: FrameType) -> bool:
    """Tell whether a call shows its arguments."""
    found = _object(callee, frame)
    if any(found is one for one in (print, warnings.warn, json.dump)):
        return True
    if isinstance(callee, ast.Attribute):
        owner = _object(callee.value, frame)
        if isinstance(owner, (logging.Logger, logging.LoggerAdapter)):
            return True
        if callee.attr in ("write", "writelines"):
            return isinstance(owner, io.IOBase) or owner in (sys.stdout, sys.stderr)
        home = getattr(type(owner), "__module__", "")
        home = owner.__name__ if inspect.ismodule(owner) else home
        return home.partition(".")[0] in _SHOWING or ".tensorboard" in home
    return False


def _is_pure(callee: ast.expr, frame: FrameType) -> bool:
    """Tell whether a call makes of its arguments something that tells no more than they do."""
    if isinstance(callee, ast.Name):
        found = _object(callee, frame)
        return callee.id in _PURE and (
            inspect.isclass(found) or isinstance(found, BuiltinMethodType)
        )
    return isinstance(callee, ast.Attribute) and callee.attr in _PURE_METHODS
