"""The function behind what is called with a sample, and what a program raises by itself."""

from __future__ import annotations

import ast
import functools
import inspect
from typing import Any

from planguard.capture.names.source import tree_of
from planguard.capture.play.ends import FRAME


def function_of(step: Any) -> tuple[str, int, list[str]] | None:
    """Return file, first line and first parameter of what is called with a sample."""
    bound = 0
    while True:
        if isinstance(step, functools.partial):
            bound, step = bound + len(step.args), step.func
        elif hasattr(step, "__func__"):
            bound, step = bound + 1, step.__func__
        elif hasattr(step, "__wrapped__"):
            step = step.__wrapped__
        elif not hasattr(step, "__code__"):
            step, bound = getattr(type(step), "__call__", None), bound + 1  # noqa: B004 - its own
            if not inspect.isfunction(step):
                return None
        else:
            break
    if not inspect.isfunction(step):
        return None
    code = step.__code__
    names = list(code.co_varnames[: code.co_argcount])[bound:]
    more = code.co_varnames[code.co_argcount + code.co_kwonlyargcount :]
    given = names[:1] or list(more[:1])
    return code.co_filename, code.co_firstlineno, given


def is_meant_by(trace: str) -> bool:
    """Tell whether the frames of an exception end in a statement that raises."""
    frames = FRAME.findall(trace)
    if not frames:
        return False
    file, line = frames[-1][0], int(frames[-1][1])
    tree = tree_of(file)
    return tree is not None and any(
        isinstance(node, ast.Raise | ast.Assert)
        and node.lineno <= line <= (node.end_lineno or node.lineno)
        for node in tree.parents
    )
