"""What recorded calls are known by: labels where ranks name the same data in another order.

Position decides which calls meet. A label says which ought to. The recorded names of the data
(``data_names``) become labels of a group in two cases only: where its members name the same data
equally often and not in the same order, so that position and name contradict each other; and inside
loops over sets and threads, whose order every rank has of its own.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from planguard.capture.names.data_names import DATA, agreed
from planguard.capture.names.set_orders import TURN, open_turns
from planguard.capture.names.thread_orders import THREAD, open_threads
from planguard.plan.vocabulary import HANDLES, LIFETIME, MESSAGES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planguard.capture.play.logs import RankLog

Action = dict[str, Any]
Note = tuple[str, str, str]
_UNNAMED = MESSAGES | HANDLES | LIFETIME | {"batch"}


def labelled(logs: Mapping[int, RankLog]) -> tuple[dict[int, list[Action]], list[Note]]:
    """Return the actions of every rank that was played, with labels and open loops, and notes.

    Args:
        logs: Logs by rank. Groups with members that were not played get no labels.
    """
    labels = _labels(logs)
    found: dict[int, list[Action]] = {}
    notes: list[Note] = []
    for rank, log in logs.items():
        actions = [_with(labels.get((rank, at)), a) for at, a in enumerate(log.actions)]
        actions, said = open_threads(rank, actions, log.waits)
        found[rank], loops = open_turns(actions)
        notes += said
        for words in loops:
            message = (
                f"rank {rank} communicates in a loop over a set ({words}); strings are hashed with "
                "a seed of the process (PYTHONHASHSEED), so that each rank has an order of its own"
            )
            notes.append(("set-order", message, "exact"))
    return found, notes


def _with(label: str | None, action: Action) -> Action:
    kept = {name: value for name, value in action.items() if name != DATA}
    return kept if label is None else {**kept, "label": label}


def _labels(logs: Mapping[int, RankLog]) -> dict[tuple[int, int], str]:
    """Return the labels of calls, by rank and place in its log."""
    found: dict[tuple[int, int], str] = {}
    for key, members in {
        k: tuple(m) for log in logs.values() for k, m in log.groups.items()
    }.items():
        if any(rank not in logs for rank in members):
            continue
        calls = {rank: _calls(logs[rank].actions, key) for rank in members}
        names = {rank: [name for _, name, _ in rows] for rank, rows in calls.items()}
        known = agreed(names, members)
        is_free = any(free for rows in calls.values() for _, _, free in rows)
        if not known or (not is_free and len({tuple(row) for row in names.values()}) == 1):
            continue
        for rank, rows in calls.items():
            seen: Counter[str | None] = Counter()
            for at, name, _ in rows:
                seen[name] += 1
                again = f" ({seen[name]})" if seen[name] > 1 else ""
                found[rank, at] = f"{name}{again}"
    return found


def _calls(actions: Sequence[Action], key: str) -> list[tuple[int, str | None, bool]]:
    """Return place and name of each collective of a group, and whether its order is open."""
    return [
        (at, action.get(DATA), TURN in action or THREAD in action)
        for at, action in enumerate(actions)
        if action.get("group") == key and action["op"] not in _UNNAMED
    ]
