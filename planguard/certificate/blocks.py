"""What comes before what in a program with open order: standard library only, no engine.

A block (``unordered``) is a fence at both ends. In it a nested list is a chain, a block in a chain
is a fence in that chain, ``after`` names what is issued first, a wait comes after the start of its
handle, and a computation after what it depends on. Nothing else is ordered.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import Any

from planguard.certificate.agreement import Call, OutsideError
from planguard.certificate.checker import PAIR, ROUND
from planguard.certificate.threads import names_of

COMMUNICATION = PAIR | ROUND | {"batch"}
MAY_MOVE = COMMUNICATION | {"wait", "compute", "host_sync", "test", "h2d", "d2h", "d2d"}
"""What means the same wherever a block issues it."""


def as_chains(item: Any) -> Any:
    """Return an action in which host threads are chains that nothing orders against each other.

    A thread blocks alone and a chain blocks all of them, so that only asks for more. Threads that
    share a handle or an id are refused: the use of a name would order them.
    """
    if isinstance(item, list):
        return [as_chains(one) for one in item]
    if item["op"] == "unordered":
        return {**item, "body": as_chains(item["body"])}
    if item["op"] != "threads":
        return item
    names = [name for thread in item["threads"] for name in names_of(thread)]
    if len(names) > len({*names}):
        raise OutsideError("threads that share a handle or an id")
    kept = {key: item[key] for key in item if key not in {"op", "threads"}}
    return {**kept, "op": "unordered", "body": as_chains(item["threads"])}


class Block:
    """Actions of a rank between two fences: one alone, or those of a block of open order.

    Attributes:
        begin: Number of the first of its actions in the program of the rank.
        calls: The actions as written.
        order: One order that is admitted, which keeps the written one wherever it can.
        above: For every action the bit set of those that are issued after it in every order.
    """

    def __init__(self, begin: int, action: Call) -> None:
        self.begin, self.calls, self._before = begin, list[Call](), list[set[int]]()
        self._add(action, set())
        self._order_by_name()
        self._close()
        self._tie_twins()
        if len(self.calls) > 1 and not {call["op"] for call in self.calls} <= MAY_MOVE:
            raise OutsideError(f"action {begin}: a block with something that has a fixed place")

    def _add(self, action: Call, first: set[int]) -> set[int]:
        """Add an action after some others; return what ends it."""
        begin = len(self.calls)
        if action["op"] != "unordered":
            self.calls.append(action)
            self._before.append(set(first))
            return {begin}
        for item in action["body"]:
            last = first
            for call in item if isinstance(item, list) else [item]:
                last = self._add(call, last)
        for at in range(begin, len(self.calls) if "after" in action else begin):
            both = [*self.calls[at].get("after", []), *action["after"]]
            self.calls[at] = {**self.calls[at], "after": both}
        return set(range(begin, len(self.calls))) or first

    def _order_by_name(self) -> None:
        """Add what ``after`` says, and what the use of a handle or of a result orders."""
        ids = {call["id"]: at for at, call in enumerate(self.calls) if "id" in call}
        started, used = dict[str, int](), defaultdict[str, set[int]](set)
        for at, call in enumerate(self.calls):
            if not {*call.get("after", [])} <= ids.keys():
                raise OutsideError(f"action {self.begin + at}: `after` names what is elsewhere")
            named = [*call.get("after", []), *call.get("deps", [])]
            self._before[at] |= {ids[name] for name in named if name in ids}
            works = call.get("work", [])
            for work in [works] if isinstance(works, str) else works:
                if call["op"] in {"wait", "test"}:
                    self._before[at] |= {started[work]} if work in started else set()
                    used[work].add(at)
                else:
                    self._before[at] |= used.pop(work, set())
                    started[work] = at

    def _close(self) -> None:
        """Find an order, and what comes after what in all of them."""
        left, size = [len(names) for names in self._before], len(self.calls)
        followers: list[list[int]] = [[] for _ in self.calls]
        for at, names in enumerate(self._before):
            for first in names:
                followers[first].append(at)
        ready, self.order = [at for at in range(size) if not left[at]], list[int]()
        while ready:
            self.order.append(heapq.heappop(ready))
            for at in followers[self.order[-1]]:
                left[at] -= 1
                if not left[at]:
                    heapq.heappush(ready, at)
        if len(self.order) < size:
            raise OutsideError(f"action {self.begin}: its block asks for a circle")
        self.above = [0] * size
        for at in reversed(self.order):
            for later in followers[at]:
                self.above[at] |= self.above[later] | 1 << later

    def _tie_twins(self) -> None:
        """Keep calls as written that are the same but for their place: exchanging them is idle."""
        below = [0] * len(self.calls)
        for at in self.order:
            for first in self._before[at]:
                below[at] |= below[first] | 1 << first
        twins, count = dict[Any, int](), 0
        for at, call in enumerate(self.calls):
            if "label" in call and not {"id", "work"} & call.keys() and call["op"] != "batch":
                said = {key: call[key] for key in sorted(call) if key not in {"src", "after"}}
                key = repr(said), below[at], self.above[at]
                if key in twins:
                    self._before[at].add(twins[key])
                    count += 1
                twins[key] = at
        if count:
            self._close()
