"""Which picks can go first, alone: a persistent (stubborn) set of them (Valmari, 1989).

**Sets of receivers** (`persistent`). Picks at different receivers commute. Following all their
orders multiplies states that differ only in who went first. It is enough to follow, at each state,
a set of picks that is *closed*:

* with a pick it holds all picks of the same receiver in the same group, which compete with it;
* with a pick that is not possible yet it holds what has to happen first: the lane of the missing
  operation stands at a wait, and something that this wait needs is still to come. If that is a
  message, the picks of its receiver; if another lane has to get there, what that lane waits for.

Whatever happens outside such a set can neither enable nor prevent a pick in it, so every execution
can be sorted to begin with one of them: every state in which executions end is still reached. As
executions are finite nothing is put off for ever. Where a wait can pass in more than one way
(buffered sends, waits for one of several, probes) sets are not formed.

**A sure pick** (`sure`). A master that receives from each of its workers once takes their messages
in any order, and every set of workers would be a state. Let ``r1 .. rk`` be a *run*: the receives
of a rank that are there, and those that its lane has next with nothing in between; all name the
same sender (or any) and tag, and say the same of the data. If at most ``k`` messages that a run
accepts can come before its end, and they say that, too, the first one that is there, ``s``, may go
first, alone::

    E:      r1 <- a   r2 <- b   r3 <- s       every maximal execution takes s within the run: as
    sorted: r1 <- s   r2 <- a   r3 <- b       long as it does not, a receive is there for it

* The j-th pick serves the j-th receive in both, so the receiving rank goes on alike: between two
  receives of a run it does nothing, and those that were there already are served one pick ahead.
* ``s`` is released earlier, which only enables more. The other messages are taken in their order,
  each as soon as in ``E``: the next receive is there, and nothing of theirs waits for ``s``.
* Nothing is told apart that an end shows: the data agree in all pairs. A send of the run that
  finishes early in ``E`` is met instead, and its rank stands at the same place.

Where a receive is served before later ones of its own kind only (gloo), no other kind of receive
may come before the run has ended. Not counted are messages whose senders first wait for what the
receiving lane does behind the run. Probes, and ranks of several lanes or with waits for one of
several handles, have no sure pick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.kernels.twin_rules import ARRIVE, AWAIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.kernels.twin_meetings import MeetingSearch, State

    Pick = tuple[int, int]

SEND, RECEIVE, PROBE = range(3)
"""Kinds of a message."""


def sure(
    search: MeetingSearch, columns: Any, state: State, need: Sequence[int], picks: list[Pick]
) -> Pick | None:
    """Return a pick that every execution makes, and may as well make now.

    Args:
        search: The rules.
        columns: Its columns.
        state: A settled state.
        need: Arrivals that every match still misses there.
        picks: All picks that are possible there.
    """
    if columns.look_behind:
        return None
    asked: int | None = None
    for pick in picks:
        home = columns.home[pick[0]]
        if home != asked and _Run(search, columns, state, need).is_sure(pick[0]):
            return pick
        asked = home
    return None


class _Run:
    """The receives of one rank that follow each other, at one state."""

    def __init__(
        self, search: MeetingSearch, columns: Any, state: State, need: Sequence[int]
    ) -> None:
        self.search, self.columns, self.state, self.need = search, columns, state, need
        self.by_match = {match: number for number, match in enumerate(columns.match)}

    def is_sure(self, first: int) -> bool:
        """Tell whether the messages that a receive and its run may take are all taken by it."""
        c = self.columns
        lane = self._lane(c.rank[first])
        run = None if lane is None else self._receives(first, lane)
        if lane is None or run is None:
            return False
        beyond = self._end(lane, {c.match[number] for number in run})
        if not c.posted and self._is_crossed(first, lane, beyond):
            return False
        sends = 0
        for number, home in enumerate(c.home):
            if home != c.home[first] or c.kind[number] != SEND or number in self.state.met:
                continue
            if not self.search.accepts(first, number):
                continue
            if not self._is_there(number) and self._comes_behind(number, lane, beyond):
                continue
            if c.said[number] != c.said[first]:
                return False
            sends += 1
        return sends <= len(run)

    def _lane(self, rank: int) -> int | None:
        """Return the lane of a rank that has one only."""
        found = [lane for lane, owner in enumerate(self.columns.lane_rank) if owner == rank]
        return found[0] if len(found) == 1 else None

    def _is_there(self, number: int) -> bool:
        return self.search.is_there(number, self.need)

    def _is_like(self, one: int, other: int) -> bool:
        c = self.columns
        return c.kind[one] == RECEIVE and all(
            column[one] == column[other] for column in (c.home, c.peer, c.tag, c.said)
        )

    def _receives(self, first: int, lane: int) -> list[int] | None:
        """Return the run; None where another kind of receive is there, or a probe looks on."""
        c = self.columns
        found: list[int] = []
        for number, home in enumerate(c.home):
            if home != c.home[first] or number in self.state.met or c.kind[number] == SEND:
                continue
            here = self._is_there(number)
            if c.kind[number] == PROBE or (here and not self._is_like(number, first)):
                return None
            if here:
                found.append(number)
        now = self.state.at[lane] // 2
        for at in range(now, c.lane_off[lane + 1]):
            following = self.by_match.get(c.code[at] >> 2)
            if following is None or c.code[at] & 3 != ARRIVE | AWAIT:
                break
            if not self._is_like(following, first):
                break
            if at != now:
                found.append(following)
        return found

    def _end(self, lane: int, left: set[int]) -> int:
        """Return the word behind which the lane has waited for all given matches."""
        c = self.columns
        for at in range(self.state.at[lane] // 2, c.lane_off[lane + 1]):
            if c.code[at] & AWAIT:
                left = left - {c.code[at] >> 2}
            if not left:
                return at + 1
        return int(c.lane_off[lane + 1])

    def _is_crossed(self, first: int, lane: int, beyond: int) -> bool:
        """Tell whether another kind of receive comes before the run has ended.

        Where a receive is served before later ones of its own kind only, that one may be served
        before the run.
        """
        c = self.columns
        words = c.code[c.lane_off[lane] : beyond]
        arrived = {word >> 2 for word in words if word & ARRIVE}
        return any(
            c.kind[number] == RECEIVE
            and c.home[number] == c.home[first]
            and number not in self.state.met
            and not self._is_like(number, first)
            and c.match[number] in arrived
            for number in range(len(c.home))
        )

    def _comes_behind(self, send: int, lane: int, beyond: int) -> bool:
        """Tell whether a send waits, before it is issued, for what a lane does behind a word."""
        c = self.columns
        own = self._lane(c.rank[send])
        if own is None:
            return False
        for at in range(self.state.at[own] // 2, c.lane_off[own + 1]):
            word, match = c.code[at], c.code[at] >> 2
            if match == c.match[send] and word & ARRIVE:
                return False
            if word & AWAIT and c.eager[match] != c.rank[send]:
                behind = range(beyond, c.lane_off[lane + 1])
                if any(c.code[place] & ARRIVE and c.code[place] >> 2 == match for place in behind):
                    return True
        return False


def persistent(
    search: MeetingSearch, columns: Any, state: State, need: Sequence[int], picks: list[Pick]
) -> list[Pick]:
    """Return the picks that have to be followed at a state.

    Args:
        search: The rules; without buffering, probes and waits for one of several.
        columns: Its columns.
        state: A settled state.
        need: Arrivals that every match still misses there.
        picks: All picks that are possible there.
    """
    homes = list(dict.fromkeys(columns.home[receive] for receive, _ in picks))
    if len(homes) < 2:
        return picks
    closing = _Closing(search, columns, state, need)
    found = picks
    for home in homes:
        closed = closing.of(home)
        mine = [pick for pick in picks if columns.home[pick[0]] in closed]
        if len(mine) < len(found):
            found = mine
    return found


class _Closing:
    """Closes sets of receivers at one state."""

    def __init__(
        self, search: MeetingSearch, columns: Any, state: State, need: Sequence[int]
    ) -> None:
        self.search, self.columns, self.state, self.need = search, columns, state, need
        self.by_match = {match: number for number, match in enumerate(columns.match)}
        self.open: dict[int, list[int]] = {}
        for number, home in enumerate(columns.home):
            if number not in state.met:
                self.open.setdefault(home, []).append(number)
        # Who is still to arrive at a match: lanes, by what stands behind their places.
        self.coming: dict[int, list[int]] = {}
        for lane, place in enumerate(state.at):
            for at in range((place + 1) // 2, columns.lane_off[lane + 1]):
                if columns.code[at] & ARRIVE:
                    self.coming.setdefault(columns.code[at] >> 2, []).append(lane)

    def of(self, home: int) -> set[int]:
        """Return the receivers whose picks make a closed set with those of one."""
        closed, todo = set[int](), [home]
        lanes = set[int]()
        while todo:
            one = todo.pop()
            if one in closed:
                continue
            closed.add(one)
            for missing in self._missing(one):
                todo += self._first(missing, lanes)
        return closed

    def _missing(self, home: int) -> set[int]:
        """Return the messages, by match, that have to come before all picks are possible."""
        mine, kind = self.open.get(home, []), self.columns.kind
        found = set[int]()
        for receive in (number for number in mine if kind[number] == RECEIVE):
            for send in (number for number in mine if kind[number] == SEND):
                if self.search.accepts(receive, send):
                    both = (receive, send)
                    away = [n for n in both if not self.search.is_there(n, self.need)]
                    found |= {self.columns.match[number] for number in away[:1]}
        return found

    def _first(self, match: int, lanes: set[int]) -> list[int]:
        """Return the receivers whose picks have to come before an arrival at a match.

        Args:
            match: The match.
            lanes: Lanes that were looked at; grows.
        """
        found: list[int] = []
        todo = self.coming.get(match, [])[:1]
        while todo:
            lane = todo.pop()
            if lane in lanes:
                continue
            lanes.add(lane)
            awaited = self.columns.code[self.state.at[lane] // 2] >> 2
            number = self.by_match.get(awaited)
            if number is not None:
                found.append(self.columns.home[number])
            else:
                todo += self.coming.get(awaited, [])[:1]
        return found
