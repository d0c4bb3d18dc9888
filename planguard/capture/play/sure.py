"""How far the calls of played ranks are those of a real run, where some values were made up.

A rank that reads a made-up value may do otherwise in a real run, but only behind the reading. What
it sends from there on may lead others astray in turn, behind the call that brings it to them:

    rank 0   a  b  c        sure:  a  b  c         b brings what rank 1 sends in its b
    rank 1   a ? b  c       sure:  a               ? reads a value that was made up

Two calls in front of all that which disagree do so in every run (scope ``onward`` of the ledger).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from planguard.capture.play.called import CUT
from planguard.execution.findings.undecided import UNSEEN
from planguard.plan.vocabulary import BLOCKS, HANDLES, LIFETIME, MESSAGES, SENDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from planguard.capture.play.logs import RankLog

_NO_CALLS = HANDLES | LIFETIME


def doubtful_from(
    logs: Mapping[int, RankLog], actions: Mapping[int, Sequence[Mapping[str, Any]]], world_size: int
) -> list[tuple[int, int]]:
    """Return the action from which each rank may do otherwise; none where that is not known.

    Args:
        logs: Logs by rank.
        actions: What becomes of their actions in the plan.
        world_size: Number of ranks; those that were not played are copies, and nothing is known.
    """
    start = {rank: log.sure for rank, log in logs.items() if log.sure is not None}
    if not start or not _is_followed(logs, actions, world_size):
        return []
    calls = {rank: _Calls(rank, log) for rank, log in logs.items()}
    if any(one.is_open for one in calls.values()):
        return []
    queue = list(start)
    while queue:
        giver = queue.pop()
        for taker in logs:
            found = calls[taker].first_from(calls[giver], start[giver])
            if taker != giver and found is not None and found < start.get(taker, found + 1):
                start[taker] = found
                queue.append(taker)
    lengths = {rank: len(actions[rank]) for rank in start}
    if not all(lengths.values()):
        return []
    # Behind the last action there is no place to name: the last one is not taken for sure, then.
    return [(rank, min(first, lengths[rank] - 1)) for rank, first in sorted(start.items())]


def _is_followed(
    logs: Mapping[int, RankLog], actions: Mapping[int, Sequence[Mapping[str, Any]]], world_size: int
) -> bool:
    """Tell whether values move by calls alone, and calls stand in the plan as they were made."""
    return len(logs) == world_size and not any(
        log.store_reads
        or any(kind in (UNSEEN, CUT) for kind, *_ in log.notes)
        or len(actions[rank]) != len(log.actions)
        or any(action["op"] in BLOCKS for action in actions[rank])
        for rank, log in logs.items()
    )


class _Calls:
    """The calls of a rank, by what could meet them.

    Attributes:
        is_open: A call is met by whoever comes, so that nothing is known of what it brings.
    """

    def __init__(self, rank: int, log: RankLog) -> None:
        self._rank, self._groups = rank, log.groups
        self._rounds: dict[str, list[int]] = defaultdict(list)
        self._sent: dict[tuple[str, int], list[int]] = defaultdict(list)
        self._taken: dict[tuple[str, int], list[int]] = defaultdict(list)
        self.is_open = False
        for at, call in _flat(log.actions):
            group, op = call["group"], call["op"]
            if op not in MESSAGES:
                self._rounds[group].append(at)
            elif not isinstance(call.get("peer"), int):
                self.is_open = True
            else:
                (self._sent if op in SENDS else self._taken)[group, call["peer"]].append(at)

    def first_from(self, giver: _Calls, start: int) -> int | None:
        """Return the action behind the first call that brings what a rank gives from ``start``."""
        found = []
        for group, mine in self._rounds.items():
            if giver._rank in self._groups[group]:
                before = _before(giver._rounds.get(group, ()), start)
                found += mine[before : before + 1]
        for (group, peer), mine in self._taken.items():
            if peer == giver._rank:
                sent = giver._sent.get((group, self._rank), ())
                before = _before(sent, start)
                found += mine[before : before + 1]
        return min(found) + 1 if found else None


def _before(places: Sequence[int], start: int) -> int:
    return sum(at < start for at in places)


def _flat(actions: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Give calls with their place, members of a batch by that of the batch."""
    for at, action in enumerate(actions):
        for call in action["ops"] if action["op"] == "batch" else (action,):
            if call["op"] not in _NO_CALLS and "group" in call:
                yield at, call
