"""Search over who meets whom: the columns that the kernels search, and the states they find.

What is a state, which steps are picks, and why it is enough to follow them, stands with the
reference implementation (`kernels.twin_meetings`, `kernels.twin_persistent`).
"""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from planguard import kernels
from planguard.execution.findings.reason import UndecidedError, out_of_time, too_many
from planguard.kernels.twin_persistent import PROBE, RECEIVE, SEND
from planguard.kernels.twin_rules import ARRIVE
from planguard.plan.actions import NONE
from planguard.plan.vocabulary import RECEIVES, SENDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from planguard.options import Deadline
    from planguard.reordering.messages.wildcards import Message

STEPS = {"native": 20_000, "python": 200}
"""States between two looks at the clock: some hundredths of a second."""
MEMORY = 1 << 30
"""Bytes that the states of one search may take: about ten million states of a few ranks."""


@dataclass(frozen=True)
class State:
    """Where every lane stands at an end, and who met whom.

    Attributes:
        at: Position of every lane; half a step further when it arrived and waits.
        pairs: ``(receive, send)`` numbers that met.
        seen: ``(probe, send)`` numbers.
        buffered: Matches whose sender does not wait.
        looked: ``(rank, entry)`` of looks at a handle that let a wait for one of several pass.
    """

    at: tuple[int, ...]
    pairs: frozenset[tuple[int, int]] = frozenset()
    seen: frozenset[tuple[int, int]] = frozenset()
    buffered: frozenset[int] = frozenset()
    looked: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class Machine:
    """The lanes of a plan whose competing operations meet nobody by themselves.

    Attributes:
        lanes: The lowered lanes, with origins.
        messages: The competing operations.
        match: Match of every competing operation.
        posted: Whether a receive posted earlier is served before any later one that fits, too;
            else before those that name the same sender and tag.
        eager: Matches whose send may finish early, to the rank that sends.
        alternatives: Per ``(rank, entry)`` of a look at one handle: all looks of the same wait.
    """

    lanes: Any
    messages: list[Message]
    match: dict[int, int]
    posted: bool
    eager: dict[int, int] = field(default_factory=dict)
    alternatives: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)

    # --- what the kernels search -----------------------------------------------------------------

    def columns(self) -> dict[str, Any]:
        """Return the arrays of a `kernels.twin_meetings.MeetingSearch`."""
        lanes, eager = self.lanes, array("I", [NONE]) * len(self.lanes.need)
        for match, rank in self.eager.items():
            eager[match] = rank
        return {
            "lane_off": array("Q", lanes.lane_off),
            "code": array("I", lanes.code),
            "lane_rank": array("I", lanes.lane_rank),
            "lane_end": array("Q", self._ends),
            "need": array("I", lanes.need),
            "posted": self.posted,
            "eager": eager,
            **self._message_columns(),
            **self._look_columns(),
        }

    def _message_columns(self) -> dict[str, Any]:
        def numbered(values: Iterable[Any]) -> array[int]:
            known: dict[Any, int] = {}
            return array(
                "I", [NONE if v is None else known.setdefault(v, len(known)) for v in values]
            )

        every = self.messages
        return {
            "kind": array("B", [_number(message.kind) for message in every]),
            "rank": array("I", [message.rank for message in every]),
            "home": numbered(message.home for message in every),
            # Who sends, whoever the operation names: the receiver is in its home.
            "peer": array("I", [NONE if m.peer is None else m.peer for m in every]),
            "tag": numbered(message.tag for message in every),
            "said": numbered(message.said for message in every),
            "match": array("I", [self.match[message.number] for message in every]),
        }

    def _look_columns(self) -> dict[str, Any]:
        """Return the waits for one of several handles, by the words that look at them."""
        lanes = self.lanes
        look = array("I", [NONE]) * len(lanes.code)
        behind, entries, matches = array("Q"), array("I"), array("I")
        look_off, handle_off = array("I", [0]), array("I", [0])
        for lane in range(len(lanes.lane_rank) if self.alternatives else 0):
            for at in range(lanes.lane_off[lane], lanes.lane_off[lane + 1]):
                group = self.alternatives.get((lanes.lane_rank[lane], lanes.origin[at]))
                if group is None:
                    continue
                look[at] = len(behind)
                words = self._words_of(lane, at, group)
                for entry, awaited in words.items():
                    entries.append(entry)
                    matches.extend(awaited)
                    handle_off.append(len(matches))
                look_off.append(len(entries))
                behind.append(at + sum(map(len, words.values())))
        return {
            "look": look,
            "look_behind": behind,
            "look_off": look_off,
            "handle_entry": entries,
            "handle_off": handle_off,
            "handle_match": matches,
        }

    def _words_of(self, lane: int, at: int, group: tuple[int, ...]) -> dict[int, list[int]]:
        """Return the matches each handle of a wait still needs, by the entry that looks at it."""
        found: dict[int, list[int]] = {entry: [] for entry in group}
        for place in range(at, self.lanes.lane_off[lane + 1]):
            entry = self.lanes.origin[place]
            if entry not in found:
                break
            found[entry].append(self.lanes.code[place] >> 2)
        return found

    # --- what an end says ------------------------------------------------------------------------

    @cached_property
    def _ends(self) -> list[int]:
        """The word at which every lane has come to its end."""
        soft = self.lanes.lane_soft
        return list(soft if len(soft) else self.lanes.lane_off[1:])

    def stuck(self, state: State) -> list[int]:
        """Return the lanes that stand before their end."""
        return [lane for lane, at in enumerate(state.at) if at < 2 * self._ends[lane]]

    def free(self, state: State) -> list[Message]:
        """Return the competing operations that are there and have met nobody."""
        met = {number for receive, send in state.pairs for number in (receive, send)}
        met |= {probe for probe, _ in state.seen}
        arrived = set[int]()
        for lane, place in enumerate(state.at):
            words = self.lanes.code[self.lanes.lane_off[lane] : (place + 1) // 2]
            arrived |= {word >> 2 for word in words if word & ARRIVE}
        return [m for m in self.messages if m.number not in met and self.match[m.number] in arrived]


def _number(kind: str) -> int:
    """Return a kind of message as the kernels number it."""
    return SEND if kind in SENDS else RECEIVE if kind in RECEIVES else PROBE


def endings(machine: Machine, limit: int, deadline: Deadline) -> tuple[list[State], int]:
    """Return every state in which an execution may end, and how many states were visited.

    Args:
        machine: The lanes and the rules.
        limit: Most states to visit where there is no budget.
        deadline: The end of the budget.

    Raises:
        UndecidedError: The limit, the time or the memory is reached.
    """
    search = kernels.current().MeetingSearch(machine.columns())
    step, more = STEPS[kernels.IMPLEMENTATION], True
    while more:
        left = step if deadline.is_bounded else min(step, limit - search.states)
        begun = time.perf_counter()
        more = search.advance(left)
        kernels.taken(time.perf_counter() - begun)
        if more and deadline.expired():
            raise UndecidedError(out_of_time(f" after {search.states:,} states"))
        if more and not deadline.is_bounded and search.states >= limit:
            raise UndecidedError(too_many(f"more than {limit:,} states"))
        if more and search.bytes > MEMORY:
            raise UndecidedError(too_many(f"more than the {search.states:,} states that fit"))
    return list(_states(search.ends(), len(machine.lanes.lane_rank))), search.states


def _states(ends: Any, lanes: int) -> Iterator[State]:
    def two(name: str, number: int) -> frozenset[tuple[int, int]]:
        offsets, flat = getattr(ends, f"{name}_off"), getattr(ends, name + "s" * (name == "pair"))
        places = range(2 * offsets[number], 2 * offsets[number + 1], 2)
        return frozenset((flat[at], flat[at + 1]) for at in places)

    for number in range(len(ends.pair_off) - 1):
        first, last = ends.buffered_off[number], ends.buffered_off[number + 1]
        yield State(
            at=tuple(ends.at[lanes * number : lanes * (number + 1)]),
            pairs=two("pair", number),
            seen=two("seen", number),
            buffered=frozenset(ends.buffered[first:last]),
            looked=two("looked", number),
        )
