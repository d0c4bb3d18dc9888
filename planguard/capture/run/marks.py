"""What the log of one rank says beside its calls: operators, backward passes, buffers, threads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planguard.capture.names.thread_orders import JOINED, STARTED
from planguard.capture.run.fused import Holding
from planguard.capture.run.log import Entry, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

Action = dict[str, Any]
STARTED_HERE = 1_000
"""Numbers of threads above this one are of those whose start was recorded."""


@dataclass(frozen=True)
class Place:
    """Where a call stands.

    Attributes:
        operator: Name of the module.
        phase: ``forward`` or ``backward``.
        label: Name of the parameter whose gradient a hook sends, None elsewhere.
        item: Number of the hook call, 0 elsewhere.
    """

    operator: str
    phase: str
    label: str | None = None
    item: int = 0


@dataclass(frozen=True)
class Pass:
    """A backward pass in which several hooks communicated: their numbers, and what orders them."""

    first: int
    last: int
    edges: tuple[tuple[str, str], ...]

    @property
    def items(self) -> range:
        """Numbers of its hook calls."""
        return range(self.first, self.last + 1)


@dataclass
class Marks:
    """What a log says of operators, backward passes and threads.

    Attributes:
        places: Place of every action that has one, by the identity of its dictionary.
        holds: Gradients that a call sent, by the identity of its action, where they are known.
        values: Short names of what calls took and gave, by the identity of the action.
        passes: Backward passes in which several hooks communicated.
        threads: Number of the thread of every action, 0 where it is not recorded; above
            ``STARTED_HERE`` that of a thread or task whose start was recorded.
        thread: Number of the thread of the entry that was read last.
        turns: Where such a one was started or waited for: the actions before, its number, and that
            of the thread which did so.
    """

    places: dict[int, Place] = field(default_factory=dict)
    holds: dict[int, Holding] = field(default_factory=dict)
    values: dict[str, dict[int, str]] = field(default_factory=lambda: {"in": {}, "out": {}})
    passes: list[Pass] = field(default_factory=list)
    threads: dict[int, int] = field(default_factory=dict)
    turns: list[tuple[int, str, int, int]] = field(default_factory=list)
    _begun: dict[int, int] = field(default_factory=dict)
    _said: dict[int, Place] = field(default_factory=dict)
    _held: dict[int, Holding] = field(default_factory=dict)
    _given: dict[int, str] = field(default_factory=dict)
    _actions: dict[int, Action] = field(default_factory=dict)
    thread: int = 0
    _place: Place | None = None  # that of the last call: a launch stands where its members do

    def take(self, entry: Entry, strings: Mapping[int, Any], count: int = 0) -> bool:
        """Take an entry behind ``count`` actions; True when nobody else needs it."""
        if entry.kind is Kind.PLACE:
            self._said[entry.argument] = Place(*strings[entry.stack])
        elif entry.kind is Kind.HOLDS:
            self._held[entry.argument] = Holding.read(strings[entry.stack])
        elif entry.kind is Kind.VALUES:
            side, name = strings[entry.stack]
            if side == "in":
                self._given[entry.argument] = str(name)
            elif entry.argument in self._actions:
                self.values["out"][id(self._actions[entry.argument])] = str(name)
        elif entry.kind is Kind.PASS:
            first, last, edges = strings[entry.argument]
            self.passes.append(Pass(first, last, tuple((a, b) for a, b in edges)))
        elif entry.kind is Kind.BEGUN:
            self._begun[entry.thread] = STARTED_HERE + entry.argument
        elif entry.kind in (Kind.STARTED, Kind.JOINED):
            mark = STARTED if entry.kind is Kind.STARTED else JOINED
            by = self._begun.get(entry.thread, entry.thread)
            self.turns.append((count, mark, STARTED_HERE + entry.argument, by))
        else:
            self.thread = self._begun.get(entry.thread, entry.thread)
            return False
        return True

    def appended(self, action: Action) -> None:
        """Take an action of the program."""
        self.threads[id(action)] = self.thread
        if action["op"] == "batch" and self._place is not None:
            self._put(action, self._place)

    def issued(self, number: int, action: Action) -> None:
        """Take a call by its number in the log."""
        place = self._place = self._said.pop(number, None)
        self._actions[number] = action
        if number in self._given:
            self.values["in"][id(action)] = self._given.pop(number)
        held = self._held.pop(number, None)
        if held is not None:
            self.holds[id(action)] = held
        if place is not None and "work" in action:  # members of a launch have no fields
            self._put(action, place)

    def _put(self, action: Action, place: Place) -> None:
        self.places[id(action)] = place
        action |= {"ns": place.operator, "phase": place.phase}
