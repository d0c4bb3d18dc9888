"""Lives of handles and groups along a program: started, waited for once, not used afterwards.

Programs are walked once, loops included. What an event leaves behind does not depend on what was
there before, so the second iteration of a loop can differ from the first only in the events of
each name up to the first that decides its state. Those are replayed from the end of the loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING

from msgspec import Struct, field

from planguard.plan.actions import (
    LAUNCHES,
    MEMBER,
    ON_GROUPS,
    Kind,
)
from planguard.plan.code import REF_WORDS, WORDS, Program
from planguard.plan.defects import Defect

if TYPE_CHECKING:
    from array import array

Event = tuple[int, str]
"""Slot or group index, and what happens to it."""

Problem = tuple[str, str, str]
"""Code, message, hint."""

# Numbers: an enum's member is looked up by its name each time, and this is asked of every word.
_REPEAT, _WAIT_MANY = int(Kind.REPEAT), int(Kind.WAIT_MANY)
_WAIT, _BIND = int(Kind.WAIT), -1
_WAITS = {_WAIT, _WAIT_MANY}
_ODD = {int(Kind.TEST), int(Kind.DROP)}
_ENDING = {int(kind): kind.name.lower() for kind in (Kind.WAIT, Kind.TEST, Kind.DROP)}


class Rules(Struct, frozen=True):
    """A small automaton.

    Attributes:
        after: Event to the state it leaves; an event that is not here leaves the state alone.
        problems: ``(state, event)`` to what is wrong with it. Every name starts in ``new``.
    """

    after: Mapping[str, str]
    problems: Mapping[tuple[str, str], Problem]


_STARTED_NEVER: Problem = (
    "PG302",
    "the handle was never started",
    "name the work of an earlier isend, irecv, batch or async collective",
)
_WAITED: Problem = ("PG303", "the handle was waited for before", "wait for every handle once")
_DROPPED: Problem = ("PG303", "the handle was dropped before", "wait for it instead of dropping it")
_REBOUND: Problem = (
    "PG308",
    "the handle is bound again before it is waited for",
    "wait for the earlier action first, use another name, or drop it explicitly",
)

HANDLES = Rules(
    after={
        "bind": "active",
        "wait": "waited",
        "wait-any": "maybe",
        "drop": "dropped",
        "open": "open",
    },
    problems={
        ("new", "wait"): _STARTED_NEVER,
        ("new", "wait-any"): _STARTED_NEVER,
        ("new", "test"): _STARTED_NEVER,
        ("new", "drop"): _STARTED_NEVER,
        ("waited", "wait"): _WAITED,
        ("waited", "wait-any"): _WAITED,
        ("waited", "drop"): _WAITED,
        ("dropped", "wait"): _DROPPED,
        ("dropped", "wait-any"): _DROPPED,
        ("dropped", "test"): _DROPPED,
        ("dropped", "drop"): _DROPPED,
        ("active", "bind"): _REBOUND,
    },
)

_DESTROYED: Problem = ("PG407", "the group was destroyed before", "destroy it after its last use")
_LATE: Problem = (
    "PG408",
    "the group was used before its new_group",
    "create it before its first use",
)

GROUPS = Rules(
    after={"use": "used", "create": "created", "destroy": "destroyed", "open": "open"},
    problems={
        ("destroyed", "use"): _DESTROYED,
        ("destroyed", "destroy"): _DESTROYED,
        ("destroyed", "touch"): _DESTROYED,
        ("used", "create"): _LATE,
    },
)


class _Walk(Struct):
    """State of one walk over a program."""

    program: Program
    rules: Rules
    events: Sequence[Sequence[Event]]
    state: dict[int, str] = field(default_factory=dict)

    def program_once(self) -> None:
        """Walk the program; what is in loops, as often as it can make a difference."""
        if _REPEAT in self.program.code[::WORDS]:
            self._block(0, len(self.program))
            return
        # Most programs: ``_happen`` of every event, without a call for each.
        state, problems, after = self.state, self.rules.problems, self.rules.after
        for place, happened in enumerate(self.events):
            for name, event in happened:
                if (state.get(name, "new"), event) in problems:
                    self._happen(name, event, place)
                if event in after:
                    state[name] = after[event]

    def _block(self, start: int, end: int) -> dict[int, list[tuple[str, int]]]:
        """Walk a block; return, per name, its events up to the first that decides its state."""
        opening: dict[int, list[tuple[str, int]]] = {}
        decided: set[int] = set()
        words, place = self.program.code, start
        while place < end:
            op = words[place * WORDS]
            if op == _REPEAT:
                body = words[place * WORDS + 2]
                inner = self._block(place + 1, place + 1 + body)
                if words[place * WORDS + 1] > 1:
                    self._replay(inner)
                for name, happened in inner.items():
                    self._note(opening, decided, name, happened)
                place += body
            else:
                for name, event in self.events[place]:
                    self._happen(name, event, place)
                    self._note(opening, decided, name, [(event, place)])
            place += 1
        return opening

    def _note(
        self,
        opening: dict[int, list[tuple[str, int]]],
        decided: set[int],
        name: int,
        happened: list[tuple[str, int]],
    ) -> None:
        if name not in decided:
            opening.setdefault(name, []).extend(happened)
            if happened[-1][0] in self.rules.after:
                decided.add(name)

    def _replay(self, opening: dict[int, list[tuple[str, int]]]) -> None:
        end = dict(self.state)
        for name, happened in opening.items():
            for event, place in happened:
                self._happen(name, event, place)
        self.state = end

    def _happen(self, name: int, event: str, place: int) -> None:
        rules = self.rules
        problem = rules.problems.get((self.state.get(name, "new"), event))
        if problem is not None:
            code, message, hint = problem
            node = self.program.nodes[place]
            raise Defect(node, _field(event), message, code=code, value=_name(node), hint=hint)
        after = rules.after.get(event)
        if after is not None:
            self.state[name] = after


def _field(event: str) -> str:
    return "group" if event in {"use", "create", "destroy", "touch"} else "work"


def _name(node: object) -> object:
    return getattr(node, "work", None) or getattr(node, "group", None)


def check_handles(program: Program, aux: array[int]) -> None:
    """Check that handles are started before they are waited for, once, and not lost.

    A name that a block of undecided order touches has to be started before or in the block; what
    state the block leaves it in is open.

    Raises:
        Defect: PG302, PG303 or PG308.
    """
    if not any(name.startswith("work:") for name in program.slot_names):
        return
    if left_running(program, aux) is None:
        _check(program, HANDLES, list(_of_handles(program, aux)))


def left_running(program: Program, aux: array[int]) -> set[int] | None:
    """Return the handles that a program starts and does not wait for, as slots.

    None stands for a program in which not every handle is started, waited for, started again, and
    nothing else, or that has loops or blocks of undecided order. Most programs are like this, which
    breaks no rule and takes a fifth of the time of a walk to see.
    """
    known = program.left  # of other words, where it was copied with the rest of a program
    if not (known and known[0] is program.code and known[1] is aux):
        known[:] = program.code, aux, _left_running(program, aux)
    found: set[int] | None = known[2]
    return found


def _left_running(program: Program, aux: array[int]) -> set[int] | None:
    words = program.code
    ops = words[::WORDS]
    does: dict[int, int] = {}
    for op in set(ops):
        kind = op & (MEMBER - 1)
        if kind == _REPEAT or op in _BEGIN or kind in _ODD:
            return None
        does[op] = kind if kind in _WAITS else _BIND if kind in LAUNCHES else 0
    running: set[int] = set()
    kinds = list(map(does.__getitem__, ops))  # what has to do with no handle is passed over
    for kind, a, b in compress(zip(kinds, words[1::WORDS], words[2::WORDS], strict=True), kinds):
        if kind == _BIND:
            if b:
                if b - 1 in running:
                    return None
                running.add(b - 1)
        elif kind == _WAIT:
            if a not in running:
                return None
            running.remove(a)
        elif kind:
            slots = aux[a + 1 : a + 1 + aux[a]]
            if b or not running.issuperset(slots):
                return None
            running.difference_update(slots)
    return running


def _of_handles(program: Program, aux: array[int]) -> Iterator[Sequence[Event]]:
    """Yield what happens to handles, instruction by instruction."""
    words = program.code
    for op, a, b in zip(words[::WORDS], words[1::WORDS], words[2::WORDS], strict=True):
        kind = op & (MEMBER - 1)
        event = _ENDING.get(kind)
        if event is not None:
            yield ((a, event),)
        elif kind == _WAIT_MANY:
            event = "wait-any" if b else "wait"
            yield [(slot, event) for slot in aux[a + 1 : a + 1 + aux[a]]]
        elif b and kind in LAUNCHES:
            yield ((b - 1, "bind"),)
        else:
            yield ()


def check_groups(program: Program, refs: array[int]) -> None:
    """Check that groups are not used before their creation in this program or after their end.

    Raises:
        Defect: PG407 or PG408.
    """
    words = program.code
    kinds = {op & (MEMBER - 1) for op in set(words[::WORDS])}
    if not kinds & {Kind.NEW_GROUP, Kind.DESTROY}:
        return

    _check(program, GROUPS, list(_of_groups(program, refs)))


def _of_groups(program: Program, refs: array[int]) -> Iterator[Sequence[Event]]:
    """Yield what happens to groups, instruction by instruction."""
    words = program.code
    for op, a in zip(words[::WORDS], words[1::WORDS], strict=True):
        kind = op & (MEMBER - 1)
        if kind == Kind.NEW_GROUP:
            yield ((a, "create"),)
        elif kind == Kind.DESTROY:
            yield ((a, "destroy"),)
        elif kind in ON_GROUPS:
            group = refs[a * REF_WORDS + 1]
            # The end of world is the end of every group.
            yield ((group, "use"),) if group == 0 else ((group, "use"), (0, "touch"))
        else:
            yield ()


def _check(program: Program, rules: Rules, events: list[Sequence[Event]]) -> None:
    inside = _undecided(program)
    if inside and rules is HANDLES:
        _check_started(program, events, inside)
    for place in inside:
        events[place] = [(name, "open") for name, _ in events[place]]
    _Walk(program, rules, events).program_once()


def _check_started(
    program: Program, events: Sequence[Sequence[Event]], inside: Collection[int]
) -> None:
    """Check that what a block waits for is started before it or in it.

    In which order the actions of a block are issued, and which of its branches is taken, is open;
    that nothing up to the end of the block starts the handle is wrong in every reading.
    """
    bound: set[int] = set()
    asked: dict[int, int] = {}
    for place in range(len(program)):
        for name, event in events[place]:
            if event == "bind":
                bound.add(name)
            elif place in inside:
                asked.setdefault(name, place)
        if place + 1 not in inside:
            for name in asked.keys() - bound:
                code, message, hint = _STARTED_NEVER
                node = program.nodes[asked[name]]
                raise Defect(node, "work", message, code=code, value=_name(node), hint=hint)
            asked.clear()


def in_open_order(program: Program, place: int) -> bool:
    """Tell whether an instruction stands inside a block of undecided order."""
    return place in _undecided(program)


def _undecided(program: Program) -> frozenset[int]:
    """Return the places inside blocks of undecided order.

    What happens there to a name leaves its state open: the walk goes on behind the block and finds
    only what is wrong whatever happened inside.
    """
    if not set(program.code[::WORDS]) & _BEGIN:
        return frozenset()
    depth, found = 0, []
    for place in range(len(program)):
        op = program.code[place * WORDS]
        depth += (op in _BEGIN) - (op in _END)
        if depth:
            found.append(place)
    return frozenset(found)


_BEGIN = {Kind.UNORDERED_BEGIN, Kind.THREADS_BEGIN, Kind.CHOICE_BEGIN}
_END = {Kind.UNORDERED_END, Kind.THREADS_END, Kind.CHOICE_END}
