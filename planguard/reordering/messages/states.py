"""Search over who meets whom: lanes run as far as they go, then one pick after another.

Steps that are no pick only ever enable more, so they are taken first, all of them, in any order.
What is left at that point is exactly what an execution can pick: a receive and one of the messages
it may take, or a send that finishes because it is buffered. Every combination is followed, equal
states once: two states are equal if the same operations met, whoever met whom, and the same pairs
disagree. Picks that nothing else can interfere with go first, alone (`states_order`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from planguard.execution.findings.reason import UndecidedError, out_of_time, too_many
from planguard.kernels.twin_rules import ARRIVE, AWAIT
from planguard.reordering.messages.states_order import few
from planguard.reordering.messages.wildcards import Message, accepts

if TYPE_CHECKING:
    from planguard.options import Deadline


Goes = Callable[[Message, Message], bool]


@dataclass(frozen=True)
class State:
    """Where every lane stands and who met whom.

    Attributes:
        at: Position of every lane; half a step further when it arrived and waits.
        pairs: ``(receive, send)`` numbers that met.
        seen: ``(probe, send)`` numbers.
        met: Numbers of all that met or saw; what comes next depends on no more than that.
        odd: The pairs of those whose sides say different things.
        buffered: Matches whose sender does not wait.
        looked: ``(rank, entry)`` of looks at a handle that let a wait for one of several pass.
    """

    at: tuple[int, ...]
    pairs: frozenset[tuple[int, int]] = field(default=frozenset(), compare=False)
    seen: frozenset[tuple[int, int]] = field(default=frozenset(), compare=False)
    met: frozenset[int] = frozenset()
    odd: frozenset[tuple[int, int]] = frozenset()
    buffered: frozenset[int] = frozenset()
    looked: frozenset[tuple[int, int]] = field(default=frozenset(), compare=False)


@dataclass(frozen=True)
class Machine:
    """The lanes of a plan whose competing operations meet nobody by themselves.

    Attributes:
        lanes: The lowered lanes, with origins.
        messages: The competing operations.
        match: Match of every competing operation.
        goes_first: Whether a receive posted earlier is served before a later one.
        eager: Matches whose send may finish early, to the rank that sends.
        alternatives: Per ``(rank, entry)`` of a look at one handle: all looks of the same wait.
    """

    lanes: Any
    messages: list[Message]
    match: dict[int, int]
    goes_first: Goes
    eager: dict[int, int] = field(default_factory=dict)
    alternatives: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)

    def start(self) -> State:
        """Return the state before anything happened, taken as far as it goes."""
        return self.settle(State(tuple(2 * at for at in self.lanes.lane_off[:-1])))

    # --- lanes -------------------------------------------------------------------------------

    def need(self, state: State) -> list[int]:
        """Return the arrivals that every match still misses."""
        need = list(self.lanes.need)
        code, offsets = self.lanes.code, self.lanes.lane_off
        for lane, place in enumerate(state.at):
            for at in range(offsets[lane], (place + 1) // 2):
                if code[at] & ARRIVE:
                    need[code[at] >> 2] -= 1
        for number in state.met:
            need[self.match[number]] -= 1
        return need

    def settle(self, state: State) -> State:
        """Take every step that is no pick."""
        need, places = self.need(state), list(state.at)
        seen, met, looked = state.seen, state.met, set(state.looked)
        moved = True
        while moved:
            moved = False
            for lane in range(len(places)):
                moved |= self._advance(lane, places, need, state.buffered, looked)
            now = replace(state, at=tuple(places), seen=seen, met=met)
            for probe, send in self._glances(now, need):
                seen |= {(probe, send)}
                met |= {probe}
                need[self.match[probe]] -= 1
                moved = True
        return replace(state, at=tuple(places), seen=seen, met=met, looked=frozenset(looked))

    def _advance(
        self,
        lane: int,
        places: list[int],
        need: list[int],
        buffered: frozenset[int],
        looked: set[tuple[int, int]],
    ) -> bool:
        lanes, moved = self.lanes, False
        end = 2 * lanes.lane_off[lane + 1]
        while places[lane] < end:
            at, arrived = divmod(places[lane], 2)
            group = self._looks(lane, at)
            if group is not None:
                entry = self._any_open(lane, at, group, need, buffered)
                if entry is None:
                    return moved
                looked.add((self.lanes.lane_rank[lane], entry))
                places[lane], moved = 2 * self._behind(lane, at, group), True
                continue
            word = lanes.code[at]
            if word & ARRIVE and not arrived:
                need[word >> 2] -= 1
                places[lane], moved = places[lane] + 1, True
            if word & AWAIT and not self._open(lane, word >> 2, need, buffered):
                return moved
            places[lane], moved = 2 * at + 2, True
        return moved

    def _open(self, lane: int, match: int, need: list[int], buffered: frozenset[int]) -> bool:
        if need[match] == 0:
            return True
        return match in buffered and self.eager[match] == self.lanes.lane_rank[lane]

    # --- a wait for one of several ---------------------------------------------------------------

    def _looks(self, lane: int, at: int) -> tuple[int, ...] | None:
        if not self.alternatives:
            return None
        return self.alternatives.get((self.lanes.lane_rank[lane], self.lanes.origin[at]))

    def words_of(self, lane: int, at: int, group: tuple[int, ...]) -> dict[int, list[int]]:
        """Return the matches each handle of a wait still needs, by the entry that looks at it."""
        found: dict[int, list[int]] = {entry: [] for entry in group}
        for place in range(at, self.lanes.lane_off[lane + 1]):
            entry = self.lanes.origin[place]
            if entry not in found:
                break
            found[entry].append(self.lanes.code[place] >> 2)
        return found

    def _any_open(
        self,
        lane: int,
        at: int,
        group: tuple[int, ...],
        need: list[int],
        buffered: frozenset[int],
    ) -> int | None:
        """Return a look whose handle is done."""
        for entry, words in self.words_of(lane, at, group).items():
            if all(self._open(lane, match, need, buffered) for match in words):
                return entry
        return None

    def _behind(self, lane: int, at: int, group: tuple[int, ...]) -> int:
        return at + sum(map(len, self.words_of(lane, at, group).values()))

    # --- picks ---------------------------------------------------------------------------------

    def is_done(self, state: State) -> bool:
        """Tell whether every rank came to its end."""
        return not self.stuck(state)

    def stuck(self, state: State) -> list[int]:
        """Return the lanes that stand before their end."""
        soft, offsets = self.lanes.lane_soft, self.lanes.lane_off
        ends = soft if len(soft) else offsets[1:]
        return [lane for lane, at in enumerate(state.at) if at < 2 * ends[lane]]

    def free(self, state: State, need: list[int]) -> list[Message]:
        """Return the competing operations that are there and have met nobody."""
        return [
            message
            for message in self.messages
            if message.number not in state.met and need[self.match[message.number]] == 1
        ]

    def picks(self, state: State) -> list[State]:
        """Return the states that one pick of a message leads to, not yet settled."""
        need = self.need(state)
        options = list(self.options(self.free(state, need)))
        if self.is_plain:
            options = few(self, state, need, options)
        return [self._after(state, receive, send) for receive, send in options]

    @cached_property
    def is_plain(self) -> bool:
        """Whether picks of messages are all there is: no probes, buffering, or waits for one."""
        probes = any(message.kind == "probe" for message in self.messages)
        return not (probes or self.eager or self.alternatives)

    def _after(self, state: State, receive: Message, send: Message) -> State:
        pair = receive.number, send.number
        odd = state.odd if receive.said == send.said else state.odd | {pair}
        return replace(state, pairs=state.pairs | {pair}, met=state.met | {*pair}, odd=odd)

    def options(self, free: list[Message]) -> Iterator[tuple[Message, Message]]:
        """Yield every receive with every message it may take now."""
        sends = [message for message in free if message.kind == "send"]
        receives = [message for message in free if message.kind == "recv"]
        for receive in receives:
            for send in sends:
                if accepts(receive, send) and self._in_order(receive, send, sends, receives):
                    yield receive, send

    def _in_order(
        self, receive: Message, send: Message, sends: list[Message], receives: list[Message]
    ) -> bool:
        """Tell whether neither overtakes another one that would fit as well."""
        if any(
            other.rank == send.rank and other.number < send.number and accepts(receive, other)
            for other in sends
        ):
            return False
        return not any(
            other.rank == receive.rank
            and other.number < receive.number
            and accepts(other, send)
            and self.goes_first(other, receive)
            for other in receives
        )

    def _glances(self, state: State, need: list[int]) -> Iterator[tuple[int, int]]:
        """Yield every probe with the first message it sees."""
        free = self.free(state, need)
        receives = [message for message in free if message.kind == "recv"]
        for probe in (message for message in free if message.kind == "probe"):
            for send in (message for message in free if message.kind == "send"):
                if accepts(probe, send) and not any(accepts(r, send) for r in receives):
                    yield probe.number, send.number
                    break

    def lends(self, state: State, *, last: bool) -> list[State]:
        """Return the states that one send leads to which finishes with nobody there.

        It may be one that nobody waits for: in a queue others stand behind it. Where nothing that
        others wait for stands behind a send, that it finishes enables nothing but the end of its
        rank, and commutes with all that happens: it comes last, and one after the other.

        Args:
            state: A settled state.
            last: No pick is left, so that those come, too, which enable nothing.
        """
        found: list[State] = []
        idle: list[State] = []
        need = self.need(state)
        for lane in sorted({*self.stuck(state), *self._queues(state)}):
            at = state.at[lane] // 2
            for match in self._awaited(lane, at):
                mine = self.eager.get(match) == self.lanes.lane_rank[lane]
                if mine and need[match] and match not in state.buffered:
                    buffered = state.buffered | {match}
                    kept = found if self._enables(lane, at) else idle
                    kept.append(replace(state, buffered=buffered))
        return found + idle[:1] if last else found

    @cached_property
    def _lanes_of(self) -> Counter[int]:
        """How many lanes a rank has."""
        return Counter(self.lanes.lane_rank)

    def _enables(self, lane: int, at: int) -> bool:
        """Tell whether somebody may wait for what stands behind a place of a lane."""
        if self.alternatives or self._lanes_of[self.lanes.lane_rank[lane]] > 1:
            return True
        behind = self.lanes.code[at + 1 : self.lanes.lane_off[lane + 1]]
        return any(word & ARRIVE for word in behind)

    def _queues(self, state: State) -> Iterator[int]:
        """Yield the lanes in which something stands behind what they are at."""
        for lane, place in enumerate(state.at):
            if place // 2 + 1 < self.lanes.lane_off[lane + 1]:
                yield lane

    def _awaited(self, lane: int, at: int) -> list[int]:
        group = self._looks(lane, at)
        if group is None:
            return [self.lanes.code[at] >> 2]
        return [m for found in self.words_of(lane, at, group).values() for m in found]


def endings(machine: Machine, limit: int, deadline: Deadline) -> tuple[list[State], int]:
    """Return every state in which an execution may end, and how many states were visited.

    Args:
        machine: The lanes and the rules.
        limit: Most states to visit where there is no budget.
        deadline: The end of the budget.

    Raises:
        UndecidedError: The limit or the time is reached.
    """
    first = machine.start()
    known, todo, ends = {first}, [first], []
    while todo:
        state = todo.pop()
        following = machine.picks(state)
        if not following:
            ends.append(state)
        lent = machine.lends(state, last=not following)
        for after in map(machine.settle, [*following, *lent]):
            if after not in known:
                if deadline.expired():
                    raise UndecidedError(out_of_time(f" after {len(known):,} states"))
                if len(known) >= limit and not deadline.is_bounded:
                    raise UndecidedError(too_many(f"more than {limit:,} states"))
                known.add(after)
                todo.append(after)
    return ends, len(known)
