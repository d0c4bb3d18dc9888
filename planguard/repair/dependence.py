"""Which actions of a rank may change places without changing what the program computes.

A repair changes when a communication is issued, never what it carries. What the plan says of its
data is kept: handles, ``deps``, ``after``, ``reads`` and ``writes``, and a label that is received
and then sent on. Computation, streams and the life of groups are walls: the plan does not say what
a computation without ``reads`` and ``writes`` touches.
"""

from __future__ import annotations

from typing import Any

from planguard.plan.vocabulary import CREATIONS, LAUNCHES, MESSAGES, RECEIVES, ROUNDS, SENDS

Action = dict[str, Any]

COMMUNICATION = MESSAGES | ROUNDS | LAUNCHES
_MOVABLE = COMMUNICATION | {"wait"}
STARTS = "x-starts"
"""Where a wait keeps what it waits for; the prefix is that of names without a meaning."""


def may_swap(first: Any, second: Any) -> bool:
    """Tell whether two actions, ``first`` before ``second``, may be issued the other way round."""
    if not isinstance(first, dict) or not isinstance(second, dict):
        return False
    if first["op"] in CREATIONS or second["op"] in CREATIONS:
        return _setup_may_move(first, second)
    if not {first["op"], second["op"]} <= _MOVABLE:
        return _is_apart(first, second)
    return not (
        _shares_handle(first, second)
        or _names(first, second)
        or conflict(first, second)
        or forwards(first, second)
    )


def wait_may_pass(start: Action, other: Any) -> bool:
    """Tell whether an action may come between a started communication and its wait."""
    if not isinstance(other, dict):
        return False
    if other["op"] in _MOVABLE:
        return not (conflict(start, other) or forwards(start, other) or _names(start, other))
    # A send leaves its buffer as it is: only a write to it would be too early.
    if other["op"] == "compute" and start["op"] in SENDS:
        return not (conflict(start, other) or _names(start, other))
    return _is_apart(start, other)


def post_may_pass(other: Any, start: Action) -> bool:
    """Tell whether a receive may be posted before an action that stands in front of it."""
    if not isinstance(other, dict) or start["op"] not in RECEIVES:
        return False
    if other["op"] in _MOVABLE or other["op"] == "compute":
        return not (conflict(other, start) or _names(other, start))
    return False


def conflict(first: Action, second: Action) -> bool:
    """Tell whether one writes a tensor that the other uses, as far as the plan says."""
    reads, writes = _touched(first)
    others_read, others_write = _touched(second)
    return bool(writes & (others_read | others_write) or reads & others_write)


def forwards(first: Action, second: Action) -> bool:
    """Tell whether the second sends on what the first received: both bear one label."""
    received = {part.get("label") for part in _parts(first) if part["op"] in RECEIVES | ROUNDS}
    sent = {part.get("label") for part in _parts(second) if part["op"] in SENDS | ROUNDS}
    return second["op"] != "wait" and bool((received & sent) - {None})


def with_starts(items: list[Any]) -> list[Any]:
    """Return a list of actions in which every wait knows what it waits for."""
    started: dict[str, Action] = {}
    known: list[Any] = []
    for item in items:
        if isinstance(item, dict) and item["op"] == "wait":
            starts = [started[name] for name in works(item) if name in started]
            known.append({**item, STARTS: starts})
            continue
        if isinstance(item, dict) and isinstance(item.get("work"), str):
            started[item["work"]] = item
        known.append(item)
    return known


def _parts(action: Action) -> list[Action]:
    if action["op"] == "wait":
        return [part for start in action.get(STARTS, ()) for part in _parts(start)]
    return list(action["ops"]) if action["op"] == "batch" else [action]


def _touched(action: Action) -> tuple[set[str], set[str]]:
    parts = [action, *action.get("ops", []), *_parts(action)]
    reads = {name for part in parts for name in part.get("reads", ())}
    return reads, {name for part in parts for name in part.get("writes", ())}


def _is_apart(first: Action, second: Action) -> bool:
    """Tell whether a computation and a communication are said to touch different tensors."""
    pair = (first, second)
    if sum(a["op"] == "compute" for a in pair) != 1 or not {"compute"} < {a["op"] for a in pair}:
        return False
    if not all(a["op"] in COMMUNICATION | {"compute"} for a in pair):
        return False
    told = all("reads" in a or "writes" in a for a in pair)
    return told and not conflict(first, second) and not _names(first, second)


def works(action: Action) -> list[str]:
    """Return the handles an action starts or waits for."""
    named = action.get("work", [])
    return [named] if isinstance(named, str) else list(named)


def _shares_handle(first: Action, second: Action) -> bool:
    return bool(set(works(first)) & set(works(second)))


def _names(first: Action, second: Action) -> bool:
    """Tell whether one is said to come after the other."""
    for one, other in ((first, second), (second, first)):
        if one.get("id") in {*other.get("deps", ()), *other.get("after", ())} - {None}:
            return True
    return False


def _setup_may_move(first: Action, second: Action) -> bool:
    """Creation moves data of nobody: it only has to come before the first use of its group."""
    if not {first["op"], second["op"]} <= CREATIONS | COMMUNICATION:
        return False
    groups = [
        {part.get("group", "world") for part in (action, *_parts(action))}
        for action in (first, second)
    ]
    return first["op"] == second["op"] or not groups[0] & groups[1]
