"""Where a rank stands on its way: among which statements, called from where, with which names.

A way is a list of lines (``ways``); what they are is read from the syntax of their files.
"""

from __future__ import annotations

import ast
import linecache
from functools import lru_cache
from typing import TYPE_CHECKING

from planguard.capture.names.source import tree_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.capture.batches.ways import Step


def read_anew() -> None:
    """Read the files of the program as they are now: this process may have read them before.

    In a notebook or a long test run a file is edited and imported again under its name. Lines that
    are kept of the former text would part the ranks at another statement, or at none.
    """
    linecache.checkcache()
    for kept in (_blocks, _is_loop, _sizes, _names):
        kept.cache_clear()


def rejoin(left: Sequence[Step], right: Sequence[Step], p: int, q: int) -> tuple[int, int]:
    """Return the first steps behind a parting on which both stand on one line again."""
    x: int | None = p - 1
    y: int | None = q - 1
    while x is not None and y is not None:
        line, theirs = left[x], right[y]
        for first, last in _blocks(line.file, line.line):
            a = _outside(left, p, line, first, last)
            b = _outside(right, q, theirs, first, last)
            if a < len(left) and b < len(right) and left[a].at == right[b].at:
                return a, b
        x, y = caller_of(left, x), caller_of(right, y)
    return len(left), len(right)


def _outside(steps: Sequence[Step], at: int, line: Step, first: int, last: int) -> int:
    """Return the first step that is in no callee and not among some lines of a function."""
    for place in range(at, len(steps)):
        step = steps[place]
        if step.depth < line.depth:
            return place
        if step.depth == line.depth and not (
            step.frame == line.frame and first <= step.line <= last
        ):
            return place
    return len(steps)


def caller_of(steps: Sequence[Step], at: int) -> int | None:
    """Return where the function around the one that a step stands in made its call."""
    depth = steps[at].depth
    return next((n for n in range(at - 1, -1, -1) if steps[n].depth < depth), None)


def back_in(steps: Sequence[Step], at: int, line: Step) -> int | None:
    """Return where a rank is in the frame of a line again, behind a place."""
    return next((n for n in range(at + 1, len(steps)) if steps[n].frame == line.frame), None)


def out_of(steps: Sequence[Step], at: int, line: Step) -> int | None:
    """Return where a rank is behind what a line called: in its frame again, or out of it.

    A function that returns what it was just given has no further line: ``return self.env.rank()``.
    """
    return next((n for n in range(at + 1, len(steps)) if steps[n].depth <= line.depth), None)


@lru_cache(maxsize=4096)
def _blocks(file: str, line: int) -> tuple[tuple[int, int], ...]:
    """Return the lines of the statements around a line, innermost first, up to its function."""
    tree = tree_of(file)
    if tree is None:
        return ((line, line),)
    found = {
        (node.lineno, node.end_lineno or node.lineno)
        for node in [*tree.parents, *tree.calls.values()]
        if isinstance(node, ast.stmt | ast.ExceptHandler)
        and node.lineno <= line <= (node.end_lineno or node.lineno)
    }
    return tuple(sorted(found, key=lambda lines: lines[1] - lines[0])) or ((line, line),)


def catches(step: Step, called: Step) -> bool:
    """Say whether a step is the ``except`` of a ``try`` whose body made a call."""
    tree = tree_of(step.file)
    if tree is None:
        return False
    return any(
        isinstance(node, ast.Try)
        and node.body[0].lineno <= called.line <= (node.body[-1].end_lineno or 0)
        and any(handler.lineno == step.line for handler in node.handlers)
        for node in tree.parents
    )


def origin_of(steps: Sequence[Step], at: int) -> Step:
    """Return the step of the same function that last set what a line reads, else the line."""
    line = steps[at]
    sizes = _sizes(line.file, line.line)
    if any(not isinstance(one, ast.Name | ast.Attribute | ast.Constant) for one in sizes):
        return line  # computed where it is given
    names = _names(line.file, line.line, ast.Load)
    if sizes:
        names = frozenset(node.id for size in sizes for node in ast.walk(size)
                          if isinstance(node, ast.Name))  # fmt: skip
    for place in range(at - 1, -1, -1):
        step = steps[place]
        if step.frame == line.frame and names & _names(step.file, step.line, ast.Store):
            return _loop_of(steps, place)
    return line


def _loop_of(steps: Sequence[Step], at: int) -> Step:
    """Return the loop around a step that gives it what it reads; else the step."""
    step = steps[at]
    read = _names(step.file, step.line, ast.Load)
    for place in range(at - 1, -1, -1):
        head = steps[place]
        if head.frame == step.frame and _is_loop(head.file, head.line, step.line):
            given = read & _names(head.file, head.line, ast.Store)
            return head if given else step
    return step


@lru_cache(maxsize=4096)
def _is_loop(file: str, line: int, inside: int) -> bool:
    """Say whether a line is the head of a ``for`` in whose body another line stands."""
    tree = tree_of(file)
    return tree is not None and any(
        isinstance(node, ast.For | ast.AsyncFor)
        and node.lineno == line < inside <= (node.end_lineno or 0)
        for node in tree.parents
    )


@lru_cache(maxsize=4096)
def _sizes(file: str, line: int) -> tuple[ast.expr, ...]:
    """Return the arguments that give the sizes of an uneven exchange on a line, if there is one.

    In ``all_to_all_single`` the splits decide, not the buffers beside them.
    """
    tree = tree_of(file)
    found: list[ast.expr] = []
    for call in tree.calls.values() if tree is not None else ():
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if call.lineno <= line <= (call.end_lineno or 0) and "all_to_all_single" in name:
            found += call.args[2:4]
            found += [key.value for key in call.keywords if "split" in (key.arg or "")]
    return tuple(found)


@lru_cache(maxsize=4096)
def _names(file: str, line: int, context: type[ast.expr_context]) -> frozenset[str]:
    """Return the names that the line of a program reads, as arguments of calls, or sets."""
    tree = tree_of(file)
    nodes = [*tree.parents] if tree is not None else []
    return frozenset(
        node.id
        for node in nodes
        if isinstance(node, ast.Name) and node.lineno == line and isinstance(node.ctx, context)
    )
