"""Which picks can go first, alone: a persistent (stubborn) set of them (Valmari, 1989).

Picks at different receivers commute. Following all their orders multiplies states that differ only
in who went first. It is enough to follow, at each state, a set of picks that is *closed*:

* with a pick it holds all picks of the same receiver in the same group, which compete with it;
* with a pick that is not possible yet it holds what has to happen first: the lane of the missing
  operation stands at a wait, and something that this wait needs is still to come. If that is a
  message, the picks of its receiver; if another lane has to get there, what that lane waits for.

Whatever happens outside such a set can neither enable nor prevent a pick in it, so every execution
can be sorted to begin with one of them: every state in which executions end is still reached. As
executions are finite nothing is put off for ever. Where a wait can pass in more than one way
(buffered sends, waits for one of several, probes) sets are not formed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.kernels.twin_rules import ARRIVE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.kernels.twin_meetings import MeetingSearch, State

    Pick = tuple[int, int]

SEND, RECEIVE, PROBE = range(3)
"""Kinds of a message."""


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
