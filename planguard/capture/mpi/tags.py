"""Receives of any tag from one sender: which message each takes is no choice.

Messages of one sender on one communicator do not overtake each other, and receives take them in the
order in which they were posted (MPI standard 4.1, section 3.5, "Order"). Both sides have one
order, so each receive takes the earliest message that fits and that no earlier receive takes,
whenever the two sides run. A receive from any sender is a choice, and so is all that its rank
receives beside it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from planguard.plan.vocabulary import RECEIVES, SENDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class _Channel:
    """The messages of one sender to one receiver on one communicator, in order."""

    def __init__(self) -> None:
        self.tags: list[int] = []
        self.at: dict[int, deque[int]] = defaultdict(deque)
        self.taken: set[int] = set()
        self.first = 0

    def send(self, tag: int) -> None:
        self.at[tag].append(len(self.tags))
        self.tags.append(tag)

    def take(self, tag: int | str) -> int | None:
        """Return the tag of the message that the next receive takes; None where none comes."""
        if tag != "any":
            waiting = self.at[int(tag)]
            if not waiting:
                return None
            self.taken.add(waiting.popleft())
            return int(tag)
        while self.first in self.taken:
            self.first += 1
        if self.first >= len(self.tags):
            return None
        found = self.tags[self.first]
        self.taken.add(self.at[found].popleft())
        return found


def settle_tags(programs: Mapping[int, Sequence[dict[str, Any]]]) -> None:
    """Give each receive of any tag from one sender the tag of the message that it takes.

    Args:
        programs: The actions of every rank, in order; changed in place.
    """
    channels: dict[tuple[str, int, int], _Channel] = defaultdict(_Channel)
    for rank, actions in programs.items():
        for action in actions:
            if action["op"] in SENDS:
                channels[action.get("group", ""), rank, action["peer"]].send(action["tag"])
    for rank, actions in programs.items():
        chosen = {
            action.get("group", "")
            for action in actions
            if action["op"] == "probe" or (action["op"] in RECEIVES and action["peer"] == "any")
        }
        for action in actions:
            group = action.get("group", "")
            if action["op"] not in RECEIVES or group in chosen:
                continue
            tag = channels[group, action["peer"], rank].take(action["tag"])
            if action["tag"] == "any":
                # Where no message is left for it, none is left of any tag: no number is wrong.
                action.update({"tag": 0, "label": "of any tag"} if tag is None else {"tag": tag})
