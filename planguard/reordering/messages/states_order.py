"""Which picks can go first, alone: a stubborn set of them (Valmari, 1989).

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

from typing import TYPE_CHECKING

from planguard.kernels.twin_rules import ARRIVE
from planguard.reordering.messages.wildcards import accepts

if TYPE_CHECKING:
    from planguard.reordering.messages.states import Machine, State
    from planguard.reordering.messages.wildcards import Message

    Home = tuple[str, int]
    Pick = tuple[Message, Message]


def few(machine: Machine, state: State, need: list[int], picks: list[Pick]) -> list[Pick]:
    """Return the picks that have to be followed at a state.

    Args:
        machine: The lanes and the rules; without buffering, probes and waits for one of several.
        state: A settled state.
        need: Arrivals that every match still misses there.
        picks: All picks that are possible there.
    """
    homes = list(dict.fromkeys(receive.home for receive, _ in picks))
    if len(homes) < 2:
        return picks
    closing = _Closing(machine, state, need)
    found = picks
    for home in homes:
        closed = closing.of(home)
        mine = [pick for pick in picks if pick[0].home in closed]
        if len(mine) < len(found):
            found = mine
    return found


class _Closing:
    """Closes sets of receivers at one state."""

    def __init__(self, machine: Machine, state: State, need: list[int]) -> None:
        self.machine, self.state, self.need = machine, state, need
        self.by_match = {machine.match[m.number]: m for m in machine.messages}
        self.open: dict[Home, list[Message]] = {}
        for message in machine.messages:
            if message.number not in state.met:
                self.open.setdefault(message.home, []).append(message)
        # Who is still to arrive at a match: lanes, by what stands behind their places.
        self.coming: dict[int, list[int]] = {}
        lanes = machine.lanes
        for lane, place in enumerate(state.at):
            for at in range((place + 1) // 2, lanes.lane_off[lane + 1]):
                if lanes.code[at] & ARRIVE:
                    self.coming.setdefault(lanes.code[at] >> 2, []).append(lane)

    def of(self, home: Home) -> set[Home]:
        """Return the receivers whose picks make a closed set with those of one."""
        closed, todo = set[tuple[str, int]](), [home]
        lanes = set[int]()
        while todo:
            one = todo.pop()
            if one in closed:
                continue
            closed.add(one)
            for missing in self._missing(one):
                todo += self._first(missing, lanes)
        return closed

    def _missing(self, home: Home) -> set[int]:
        """Return the messages, by match, that have to come before all picks are possible."""
        mine = self.open.get(home, [])
        found = set[int]()
        for receive in (message for message in mine if message.kind == "recv"):
            for send in (message for message in mine if message.kind == "send"):
                if accepts(receive, send):
                    away = [m for m in (receive, send) if not self._is_there(m)]
                    found |= {self.machine.match[m.number] for m in away[:1]}
        return found

    def _is_there(self, message: Message) -> bool:
        return self.need[self.machine.match[message.number]] == 1

    def _first(self, match: int, lanes: set[int]) -> list[Home]:
        """Return the receivers whose picks have to come before an arrival at a match.

        Args:
            match: The match.
            lanes: Lanes that were looked at; grows.
        """
        found: list[Home] = []
        todo = self.coming.get(match, [])[:1]
        while todo:
            lane = todo.pop()
            if lane in lanes:
                continue
            lanes.add(lane)
            awaited = self.machine.lanes.code[self.state.at[lane] // 2] >> 2
            message = self.by_match.get(awaited)
            if message is not None:
                found.append(message.home)
            else:
                todo += self.coming.get(awaited, [])[:1]
        return found
