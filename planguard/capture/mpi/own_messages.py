"""Messages of a rank to itself: one thread does both sides, so its own order decides them.

A plan has no such messages. They are left out where each side finds its partner already started (a
nonblocking or buffered call before a blocking one) and each wait comes after both: nobody else has
a part in them, and they cannot block (MPI standard 4.1, 3.5 and 3.7.4).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from planguard.plan.vocabulary import BLOCKING, SENDS

if TYPE_CHECKING:
    from collections.abc import Sequence


def without_own(rank: int, actions: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], bool]:
    """Return a rank's program without its messages to itself, and whether they cannot block."""
    own = [action for action in actions if action.get("peer") == rank]
    works = {action["work"] for action in own if "work" in action}
    groups = {action.get("group", "") for action in own}
    fine = not any(
        action.get("group", "") in groups and (action["op"] == "probe" or action["peer"] == "any")
        for action in actions
        if "peer" in action
    )
    if not own:
        return list(actions), True
    pending: dict[str, list[dict[str, Any]]] = defaultdict(list)
    met: set[str] = set()
    kept: list[dict[str, Any]] = []
    for action in actions:
        if action.get("peer") == rank:
            if action["op"] != "probe":
                fine = _meet(action, pending[action.get("group", "")], met) and fine
        elif action["op"] in ("wait", "test"):
            named = action["work"] if isinstance(action["work"], list) else [action["work"]]
            others = [work for work in named if work not in works]
            ended = works.intersection(named)
            if ended and action["op"] == "wait":
                fine = fine and ended <= met and "mode" not in action
            if others:
                kept.append({**action, "work": others if len(others) > 1 else others[0]})
        else:
            kept.append(action)
    return kept, fine and not any(pending.values())


def _meet(action: dict[str, Any], pending: list[dict[str, Any]], met: set[str]) -> bool:
    """Match a side with the first that waits for it; return False if it may block."""
    is_send = action["op"] in SENDS
    for other in pending:
        if (other["op"] in SENDS) == is_send:
            continue
        send, receive = (action, other) if is_send else (other, action)
        if receive["tag"] in ("any", send["tag"]):
            pending.remove(other)
            met.update(one["work"] for one in (action, other) if "work" in one)
            types = {one.get("dtype") for one in (send, receive)} - {None}
            return bool(send["bytes"] <= receive["bytes"] and len(types) < 2)
    pending.append(action)
    if is_send and action.get("mode") == "buffered":
        met.update([action["work"]] if "work" in action else [])
        return True
    return action["op"] in BLOCKING
