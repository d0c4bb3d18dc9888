"""Loops over sets: their order is a rank's own, and it decides the order of communication.

Python hashes strings and bytes with a seed of the process (PYTHONHASHSEED), and objects by their
address, so that equal sets are walked in another order on every rank. Played ranks share one
interpreter, and with it the seed. The calls of such a loop are therefore put into an `unordered`
block, one item for each turn of the loop, and every order is decided.
"""

from __future__ import annotations

import ast
from itertools import groupby
from typing import TYPE_CHECKING, Any

from planguard.capture.names.source import call_of, function_of, tree_of, value_of
from planguard.capture.names.walk_order import hashes_alike
from planguard.sources import is_library

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

TURN = "x-turn"
"""Of a recorded action: ``[loop, turn, words]``, the outermost loop over a set it stands in."""

_MOST_FRAMES = 64
_KEEPS = ("list", "tuple", "iter", "enumerate", "reversed", "map", "filter", "zip")
_SETS = ("set", "frozenset")
_SET_METHODS = ("union", "intersection", "difference", "symmetric_difference", "copy")
_SET_OPERATORS = (ast.Sub, ast.BitAnd, ast.BitOr, ast.BitXor)


def turn_of(frame: FrameType | None) -> list[Any] | None:
    """Return the outermost loop over a set that the frames stand in, and its turn.

    Args:
        frame: The innermost frame of the program itself, in a call that communicates.

    Returns:
        ``[loop, turn, words]``: the identity of this run of the loop, the value that it gives now,
        and how the loop is written and where; None where no loop over a set is around.
    """
    found: list[Any] | None = None
    for _ in range(_MOST_FRAMES):
        if frame is None:
            break
        call = None if is_library(frame.f_code.co_filename) else call_of(frame)
        tree = None if call is None else tree_of(frame.f_code.co_filename)
        if call is not None and tree is not None:
            for loop in tree.loops(call):
                turn = _turn(loop, frame)
                found = turn or found
        frame = frame.f_back
    return found


def _turn(loop: ast.For | ast.AsyncFor | ast.comprehension, frame: FrameType) -> list[Any] | None:
    if not _is_free(loop.iter, frame):
        return None
    given = _given(loop.target, frame)
    # The source does not say of what a set is; where it is of numbers, it has one order.
    if all(map(hashes_alike, given)) and _gives_elements(loop.iter, frame):
        return None
    place = f"{frame.f_code.co_filename}:{loop.iter.lineno}"
    return [
        f"{id(frame)} {place}",
        ", ".join(map(_word, given)),
        f"for ... in {ast.unparse(loop.iter)[:60]} at {place}",
    ]


def _given(target: ast.expr, frame: FrameType) -> list[Any]:
    """Return what a turn gives: the values of every name that the loop binds."""
    names = [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]
    return [frame.f_locals.get(name) for name in names]


def _word(value: Any) -> str:
    return repr(value) if isinstance(value, str | int | bytes) else f"object {id(value)}"


def _is_free(node: ast.expr, frame: FrameType, before: int = 0) -> bool:
    """Say whether walking an expression takes the order of a set of hashed elements.

    Args:
        node: What is walked.
        frame: Where it is evaluated.
        before: The line of the assignment that it stands in; 0 where it is evaluated now.
    """
    match node:
        case ast.Set():
            return not _all_ordered(node.elts)
        case ast.SetComp():
            return True
        case ast.List() | ast.Tuple():
            stars = [one.value for one in node.elts if isinstance(one, ast.Starred)]
            return any(_is_free(one, frame, before) for one in stars)
        case ast.ListComp() | ast.DictComp() | ast.GeneratorExp():
            return any(_is_free(one.iter, frame, before) for one in node.generators)
        case ast.BinOp():
            if any(_is_free(one, frame, before) for one in (node.left, node.right)):
                return True
            sides = [_view_of_keys(one, frame) for one in (node.left, node.right)]
            return isinstance(node.op, _SET_OPERATORS) and any(map(_is_hashed, sides))
        case ast.Call():
            return _is_free_call(node, frame, before)
        case ast.Name() if before or not isinstance(value_of(node, frame), set | frozenset):
            given = _assigned(node.id, frame, before)
            if given is not None:
                return _is_free(given, frame, given.lineno)
    value = value_of(node, frame)
    return isinstance(value, set | frozenset) and _is_hashed(value)


def _is_free_call(node: ast.Call, frame: FrameType, before: int) -> bool:
    name = getattr(node.func, "id", "")
    if name in _KEEPS:
        return any(_is_free(one, frame, before) for one in node.args)
    if not isinstance(node.func, ast.Attribute):
        return name in _SETS
    is_fromkeys = node.func.attr == "fromkeys" and getattr(node.func.value, "id", "") == "dict"
    return any(
        _is_free(one, frame, before) for one in (node.args if is_fromkeys else [node.func.value])
    )


def _gives_elements(node: ast.expr, frame: FrameType, before: int = 0) -> bool:
    """Say whether walking an expression gives the elements of a set, and nothing made of them."""
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.List(elts=elts) | ast.Tuple(elts=elts):
            stars = [one.value for one in elts if isinstance(one, ast.Starred)]
            return _all_give(stars, frame, before)
        case ast.BinOp():
            return _all_give([node.left, node.right], frame, before)
        case ast.Call(func=ast.Name(id=name)) if name in _SETS:
            return True
        case ast.Call(func=ast.Name(id=name), args=args) if name in _KEEPS and name != "map":
            return _all_give(args, frame, before)
        case ast.Call(func=ast.Attribute(attr=name, value=owner)) if name in _SET_METHODS:
            return _gives_elements(owner, frame, before)
        case ast.Name() if before or not isinstance(value_of(node, frame), set | frozenset):
            given = _assigned(node.id, frame, before)
            return given is not None and _gives_elements(given, frame, given.lineno)
    return isinstance(value_of(node, frame), set | frozenset)


def _all_give(nodes: Sequence[ast.expr], frame: FrameType, before: int) -> bool:
    free = [one for one in nodes if _is_free(one, frame, before)]
    return all(_gives_elements(one, frame, before) for one in free)


def _view_of_keys(node: ast.expr, frame: FrameType) -> Any:
    """Return the dictionary whose keys an operand is: views of keys make sets."""
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("keys", "items"):
        owner = value_of(node.func.value, frame)  # type: ignore[attr-defined]  # it has an attr
        return owner if isinstance(owner, dict) else None
    return None


def _is_hashed(value: Any) -> bool:
    """Say whether a collection has elements whose hash is a process's own."""
    return value is not None and not all(map(hashes_alike, value))


def _assigned(name: str, frame: FrameType, before: int) -> ast.expr | None:
    """Return what the function last assigned to a name: a list made of a set keeps its order."""
    owner = function_of(frame)
    tree = tree_of(owner.f_code.co_filename)
    if tree is None or name not in owner.f_locals:
        return None
    code = owner.f_code
    return tree.assigned(name, code.co_name, code.co_firstlineno, before or owner.f_lineno)


def _all_ordered(elements: Sequence[ast.expr]) -> bool:
    return all(isinstance(e, ast.Constant) and hashes_alike(e.value) for e in elements)


def open_turns(actions: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Put the calls of loops over sets into `unordered` blocks.

    Args:
        actions: A rank's actions in issue order, those in such loops marked with ``TURN``.

    Returns:
        The actions without marks, and the words of each loop that several turns communicate in.
    """
    found: list[dict[str, Any]] = []
    loops: list[str] = []
    for mark, run in groupby(actions, lambda action: action.get(TURN, [None])[0]):
        if mark is None:
            found += run
            continue
        turns = [list(turn) for _, turn in groupby(run, lambda action: action[TURN][1])]
        for chains in _runs(turns):
            if len(chains) < 2:
                found += [_plain(action) for chain in chains for action in chain]
                continue
            found.append({"op": "unordered", "body": [[_plain(a) for a in c] for c in chains]})
            words = chains[0][0][TURN][2]
            if words not in loops:
                loops.append(words)
    return found, loops


def _runs(turns: list[list[dict[str, Any]]]) -> list[list[list[dict[str, Any]]]]:
    """Tell runs of one loop apart: an element comes once in each."""
    runs: list[list[list[dict[str, Any]]]] = []
    seen: set[str] = set()
    for turn in turns:
        value = turn[0][TURN][1]
        if not runs or value in seen:
            runs.append([])
            seen.clear()
        seen.add(value)
        runs[-1].append(turn)
    return runs


def _plain(action: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in action.items() if name != TURN}
