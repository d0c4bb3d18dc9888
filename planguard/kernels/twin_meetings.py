"""The search over who meets whom among messages that compete (``meetings.cpp``).

Steps that are no pick only ever enable more, so they are taken first, all of them, in any order.
What is left at that point is exactly what an execution can pick: a receive and one of the messages
it may take, or a send that finishes because it is buffered. Every combination is followed, equal
states once: two states are equal if every lane stands at the same place, the same operations met,
whoever met whom, and the same pairs disagree. Picks that nothing else can interfere with go first,
alone (`twin_persistent`).
"""

from __future__ import annotations

import sys
from array import array
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from planguard.kernels.twin_persistent import PROBE, RECEIVE, SEND, persistent, sure
from planguard.kernels.twin_rules import ARRIVE, AWAIT
from planguard.plan.actions import NONE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class MeetingEnds:
    """States in which an execution may end, in the order in which they were found.

    Attributes:
        at: uint32 ``[ends * lanes]``: twice the word of the lane; one more where it has arrived.
        pair_off: uint64 ``[ends + 1]``, in pairs.
        pairs: uint32, receive and send by turns.
        seen_off: As ``pair_off``.
        seen: Probe and send by turns.
        buffered_off: uint64 ``[ends + 1]``.
        buffered: Matches whose sender does not wait.
        looked_off: As ``pair_off``.
        looked: Rank and entry of a look at a handle that let a wait for one of several pass.
    """

    at: array[int] = field(default_factory=lambda: array("I"))
    pair_off: array[int] = field(default_factory=lambda: array("Q", [0]))
    pairs: array[int] = field(default_factory=lambda: array("I"))
    seen_off: array[int] = field(default_factory=lambda: array("Q", [0]))
    seen: array[int] = field(default_factory=lambda: array("I"))
    buffered_off: array[int] = field(default_factory=lambda: array("Q", [0]))
    buffered: array[int] = field(default_factory=lambda: array("I"))
    looked_off: array[int] = field(default_factory=lambda: array("Q", [0]))
    looked: array[int] = field(default_factory=lambda: array("I"))


@dataclass(frozen=True, slots=True)
class State:
    """Where every lane stands and who met whom.

    Attributes:
        at: Position of every lane; half a step further when it arrived and waits.
        met: Numbers of all that met or saw; what comes next depends on no more than that.
        odd: The pairs of those whose sides say different things.
        buffered: Matches whose sender does not wait.
        steps: How it was reached, latest first, each step with its own looks and sightings.
    """

    at: tuple[int, ...]
    met: frozenset[int] = frozenset()
    odd: frozenset[tuple[int, int]] = frozenset()
    buffered: frozenset[int] = frozenset()
    steps: tuple[Any, ...] = field(default=(), compare=False)


class MeetingSearch:
    """The states of a plan whose competing operations meet nobody by themselves.

    Args:
        columns: Arrays by name, of ``L`` lanes, ``W`` words, ``M`` matches, ``N`` messages, ``K``
            waits for one of several handles, ``H`` handles. ``lane_off`` uint64 ``[L + 1]``,
            ``code`` uint32 ``[W]``, ``lane_rank`` uint32 ``[L]``, ``lane_end`` uint64 ``[L]``,
            ``need`` uint32 ``[M]``. ``kind`` uint8 and ``rank``, ``home``, ``peer``, ``tag``,
            ``said``, ``match`` uint32 ``[N]``, where ``NONE`` is any. ``posted``: whether a receive
            is served before all later ones that fit. ``eager`` uint32 ``[M]``: the rank whose send
            may finish early, or ``NONE``. ``look`` uint32 ``[W]``: the wait of a word or ``NONE``,
            ``look_behind`` uint64 ``[K]``, ``look_off`` uint32 ``[K + 1]``, ``handle_entry`` uint32
            ``[H]``, ``handle_off`` uint32 ``[H + 1]``, ``handle_match`` uint32.

    Raises:
        ValueError: They do not fit together.
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._columns = c = SimpleNamespace(
            **{name: value if name == "posted" else list(value) for name, value in columns.items()}
        )
        counts = {
            len(getattr(c, n)) for n in ("rank", "home", "peer", "tag", "said", "match", "kind")
        }
        if len(c.look) != len(c.code) or len(c.eager) != len(c.need) or len(counts) != 1:
            raise ValueError("columns of a search that do not fit together")
        first = self._settled(State(tuple(2 * at for at in c.lane_off[:-1])))
        self._known = {first}
        self._todo = [first]
        self._ends: list[State] = []

    @property
    def states(self) -> int:
        """States visited so far."""
        return len(self._known)

    @property
    def bytes(self) -> int:
        """About the memory that they take."""
        return len(self._known) * sys.getsizeof(next(iter(self._known)).at)

    def advance(self, count: int) -> bool:
        """Visit about that many further states; tell whether there are more."""
        until = len(self._known) + count
        while self._todo and len(self._known) < until:
            state = self._todo.pop()
            picks, is_sure = self._picks(state)
            if not picks:
                self._ends.append(state)
            early = [] if is_sure else self._early(state, last=not picks)
            for after in map(self._settled, [*picks, *early]):
                if after not in self._known:
                    self._known.add(after)
                    self._todo.append(after)
        return bool(self._todo)

    def ends(self) -> MeetingEnds:
        """Return the states in which an execution may end."""
        found = MeetingEnds()
        for state in self._ends:
            found.at.extend(state.at)
            for kind, a, b in state.steps:
                into = getattr(found, kind)
                into.extend([a] if kind == "buffered" else [a, b])
            found.pair_off.append(len(found.pairs) // 2)
            found.seen_off.append(len(found.seen) // 2)
            found.buffered_off.append(len(found.buffered))
            found.looked_off.append(len(found.looked) // 2)
        return found

    # --- lanes -------------------------------------------------------------------------------

    def need(self, state: State) -> list[int]:
        """Return the arrivals that every match still misses."""
        c = self._columns
        need = list(c.need)
        for lane, place in enumerate(state.at):
            for at in range(c.lane_off[lane], (place + 1) // 2):
                if c.code[at] & ARRIVE:
                    need[c.code[at] >> 2] -= 1
        for number in state.met:
            need[c.match[number]] -= 1
        return need

    def _settled(self, state: State) -> State:
        """Take every step that is no pick."""
        need, places = self.need(state), list(state.at)
        met = set(state.met)
        own: list[tuple[str, int, int]] = []
        moved = True
        while moved:
            moved = False
            for lane in range(len(places)):
                moved |= self._advance(lane, places, need, state.buffered, own)
            for probe, send in list(self._sightings(met, need)):
                own.append(("seen", probe, send))
                met.add(probe)
                need[self._columns.match[probe]] -= 1
                moved = True
        steps = (*state.steps[:1], *own, *state.steps[1:])
        return replace(state, at=tuple(places), met=frozenset(met), steps=steps)

    def _advance(
        self,
        lane: int,
        places: list[int],
        need: list[int],
        buffered: frozenset[int],
        own: list[tuple[str, int, int]],
    ) -> bool:
        c, moved = self._columns, False
        end = 2 * c.lane_off[lane + 1]
        while places[lane] < end:
            at, arrived = divmod(places[lane], 2)
            if c.look[at] != NONE:
                entry = self._done_handle(lane, c.look[at], need, buffered)
                if entry is None:
                    return moved
                own.append(("looked", c.lane_rank[lane], entry))
                places[lane], moved = 2 * c.look_behind[c.look[at]], True
                continue
            word = c.code[at]
            if word & ARRIVE and not arrived:
                need[word >> 2] -= 1
                places[lane], moved = places[lane] + 1, True
            if word & AWAIT and not self._is_open(lane, word >> 2, need, buffered):
                return moved
            places[lane], moved = 2 * at + 2, True
        return moved

    def _is_open(
        self, lane: int, match: int, need: Sequence[int], buffered: frozenset[int]
    ) -> bool:
        c = self._columns
        if need[match] == 0:
            return True
        return match in buffered and c.eager[match] == c.lane_rank[lane]

    def _handles(self, look: int) -> Iterator[tuple[int, list[int]]]:
        c = self._columns
        for handle in range(c.look_off[look], c.look_off[look + 1]):
            matches = c.handle_match[c.handle_off[handle] : c.handle_off[handle + 1]]
            yield c.handle_entry[handle], matches

    def _done_handle(
        self, lane: int, look: int, need: Sequence[int], buffered: frozenset[int]
    ) -> int | None:
        for entry, matches in self._handles(look):
            if all(self._is_open(lane, match, need, buffered) for match in matches):
                return entry
        return None

    # --- picks ---------------------------------------------------------------------------------

    def is_there(self, number: int, need: Sequence[int]) -> bool:
        """Tell whether an operation that met nobody has been issued."""
        missing: int = need[self._columns.match[number]]
        return missing == 1

    def _free(self, met: frozenset[int] | set[int], need: Sequence[int]) -> list[int]:
        """Return the competing operations that are there and have met nobody."""
        every = range(len(self._columns.kind))
        return [number for number in every if number not in met and self.is_there(number, need)]

    def accepts(self, receive: int, send: int) -> bool:
        """Tell whether a receive or a probe may take the message of a send."""
        c = self._columns
        if c.home[receive] != c.home[send]:
            return False
        return c.peer[receive] in {NONE, c.rank[send]} and c.tag[receive] in {NONE, c.tag[send]}

    @cached_property
    def _is_plain(self) -> bool:
        """Whether picks of messages are all there is: no probes, buffering, or waits for one."""
        c = self._columns
        is_early = any(rank != NONE for rank in c.eager)
        return not (PROBE in c.kind or is_early or c.look_behind)

    def _picks(self, state: State) -> tuple[list[State], bool]:
        """Return the states that one pick of a message leads to, not yet settled.

        And whether they are all that has to be followed, sends that finish early among it.
        """
        need = self.need(state)
        options = list(self._options(self._free(state.met, need)))
        alone = sure(self, self._columns, state, need, options)
        if alone is not None:
            return [self._after(state, *alone)], True
        if self._is_plain:
            options = persistent(self, self._columns, state, need, options)
        return [self._after(state, *pick) for pick in options], False

    def _after(self, state: State, receive: int, send: int) -> State:
        said, pair = self._columns.said, (receive, send)
        odd = state.odd if said[receive] == said[send] else state.odd | {pair}
        steps = (("pairs", *pair), *state.steps)
        return replace(state, met=state.met | {*pair}, odd=odd, steps=steps)

    def _options(self, free: list[int]) -> Iterator[tuple[int, int]]:
        """Yield every receive with every message it may take now."""
        kind = self._columns.kind
        sends = [number for number in free if kind[number] == SEND]
        receives = [number for number in free if kind[number] == RECEIVE]
        for receive in receives:
            for send in sends:
                if self.accepts(receive, send) and self._in_order(receive, send, sends, receives):
                    yield receive, send

    def _in_order(self, receive: int, send: int, sends: list[int], receives: list[int]) -> bool:
        """Tell whether neither overtakes another one that would fit as well."""
        c = self._columns
        if any(
            c.rank[other] == c.rank[send] and other < send and self.accepts(receive, other)
            for other in sends
        ):
            return False
        return not any(
            c.rank[other] == c.rank[receive]
            and other < receive
            and self.accepts(other, send)
            and (c.posted or (c.peer[other], c.tag[other]) == (c.peer[receive], c.tag[receive]))
            for other in receives
        )

    def _sightings(self, met: set[int], need: list[int]) -> Iterator[tuple[int, int]]:
        """Yield every probe with the first message that it sees and no receive wants."""
        kind, free = self._columns.kind, self._free(met, need)
        receives = [number for number in free if kind[number] == RECEIVE]
        for probe in (number for number in free if kind[number] == PROBE):
            for send in (number for number in free if kind[number] == SEND):
                wanted = any(self.accepts(receive, send) for receive in receives)
                if self.accepts(probe, send) and not wanted:
                    yield probe, send
                    break

    def _early(self, state: State, *, last: bool) -> list[State]:
        """Return the states that one send leads to which finishes with nobody there.

        It may be one that nobody waits for: in a queue others stand behind it. Where nothing that
        others wait for stands behind a send, that it finishes enables nothing but the end of its
        rank, and commutes with all that happens: it comes last, and one after the other.

        Args:
            state: A settled state.
            last: No pick is left, so that those come, too, which enable nothing.
        """
        c = self._columns
        found: list[State] = []
        idle: list[State] = []
        need = self.need(state)
        for lane, place in enumerate(state.at):
            at = place // 2
            if not (place < 2 * c.lane_end[lane] or at + 1 < c.lane_off[lane + 1]):
                continue
            kept = found if self._enables(lane, at) else idle
            for match in self._awaited(at):
                mine = c.eager[match] == c.lane_rank[lane]
                if mine and need[match] and match not in state.buffered:
                    steps = (("buffered", match, 0), *state.steps)
                    kept.append(replace(state, buffered=state.buffered | {match}, steps=steps))
        return found + idle[:1] if last else found

    @cached_property
    def _lanes_of(self) -> Counter[int]:
        """How many lanes a rank has."""
        return Counter(self._columns.lane_rank)

    def _enables(self, lane: int, at: int) -> bool:
        """Tell whether somebody may wait for what stands behind a place of a lane."""
        c = self._columns
        if c.look_behind or self._lanes_of[c.lane_rank[lane]] > 1:
            return True
        return any(word & ARRIVE for word in c.code[at + 1 : c.lane_off[lane + 1]])

    def _awaited(self, at: int) -> list[int]:
        c = self._columns
        if c.look[at] == NONE:
            return [c.code[at] >> 2]
        return [match for _, matches in self._handles(c.look[at]) for match in matches]
