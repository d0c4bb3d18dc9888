"""Handles and buffers along one program: what is never waited for, what is touched too early.

A program is walked symbolically, every loop body twice, so that what one iteration leaves in
flight meets the next.

**Findings of this module never change an outcome.** The outcome tells of progress and of matching;
these tell of data that may be read or written too early (docs/codes/PG301.md). That is the one rule
on it: a SAFE plan can have errors of this family, they count for the exit code of ``check``, and
whoever asks for the outcome alone does not see them.

What ends an action in flight, so that nothing is said of it:

* a wait for its handle, or for all of several;
* a wait for any or some of several, where only one of them is in flight, or where the same
  handles were asked as often as there are of them: every such wait takes another one (MPI_Waitany
  ignores what is complete);
* a host synchronization of everything, where operations are kernels on streams. Where a wait
  blocks the host (gloo, MPI) there is no such stream, and it ends nothing.

A wait for any or some that may have ended an action makes what is missing a warning, no error.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from planguard.plan.actions import (
    ASYNC,
    KIND_MASK,
    LAUNCHES,
    MEMBER,
    Kind,
)
from planguard.plan.code import WORDS
from planguard.plan.nodes import Batch, Coalesced
from planguard.plan.reading.lifecycle import left_running

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.plan.code import CompiledPlan, Program

_READS, _WRITES = attrgetter("reads"), attrgetter("writes")
_LISTS: frozenset[type] = frozenset({Batch, Coalesced})
HAZARDS = frozenset({"PG301", "PG304", "PG305", "PG306", "PG308", "PG309", "PG310"})
"""Codes of this module. PG308 is also the code of ranks that a dropped handle leaves stuck."""


@dataclass(frozen=True)
class Hazard:
    """One hazard of one program.

    Attributes:
        code: PG301, PG304, PG305, PG306, PG309 or PG310.
        severity: error or warning.
        message: What happens, without the rank.
        program: Index of the program.
        action: Action index at which it happens (in the first iteration that shows it).
        other: Action index of the action in flight, or None.
    """

    code: str
    severity: str
    message: str
    program: int
    action: int
    other: int | None = None


@dataclass(slots=True)
class _InFlight:
    action: int
    node: Any
    group: str
    reads: frozenset[str]
    writes: frozenset[str]
    maybe: bool = False


@dataclass
class _Walk:
    code: CompiledPlan
    program: Program
    index: int
    device: bool
    asked: dict[frozenset[int], int] = field(default_factory=dict)
    flying: dict[int, _InFlight] = field(default_factory=dict)
    loose: list[_InFlight] = field(default_factory=list)
    recorded: set[int] = field(default_factory=set)
    found: dict[tuple[str, int], Hazard] = field(default_factory=dict)

    def block(self, start: int, end: int, action: int) -> int:
        """Walk instructions; return the number of actions they stand for."""
        words, nodes, place, first = self.program.code, self.program.nodes, start, action
        flying = self.flying
        while place < end:
            op = words[place * WORDS]
            kind = op & KIND_MASK
            if kind == _REPEAT:
                times, body = words[place * WORDS + 1], words[place * WORDS + 2]
                action += self._loop(place + 1, place + 1 + body, action, times)
                place += body
            elif kind != _BIND and not op & MEMBER:  # a batch has the buffers of its members
                node = nodes[place]
                names = not node.reads is node.writes is UNSET or node.__class__ in _LISTS
                if kind == _WAIT:
                    flying.pop(words[place * WORDS + 1], None)
                elif kind in _ACTIVE:
                    self._step(place, kind, action)
                # Most actions start nothing, end nothing and name no buffer.
                flies = op & ASYNC and kind in LAUNCHES
                if names:
                    buffers = _buffers(node)
                    self._touch(*buffers, action, flies=bool(flies))
                else:
                    buffers = _NOTHING
                if flies:
                    group = getattr(node, "group", UNSET)
                    group = "world" if group is UNSET else group
                    flight = _InFlight(action, node, group, *buffers)
                    handle = words[place * WORDS + 2]
                    if handle:
                        flying[handle - 1] = flight
                    else:
                        self.loose.append(flight)
                action += 1
            place += 1
        return action - first

    def _loop(self, start: int, end: int, action: int, times: int) -> int:
        length = self.block(start, end, action) if times else 0
        if times > 1:
            self.block(start, end, action + length)
        return length * times

    def _step(self, place: int, kind: int, action: int) -> None:
        """Take what ends or records something, other than a wait for one handle."""
        _, a, b = self.program.code[place * WORDS : place * WORDS + 3]
        node: Any = self.program.nodes[place]
        if kind == Kind.WAIT_MANY:
            self._wait_many(self.code.aux[a + 1 : a + 1 + self.code.aux[a]], every=b == 0)
        elif kind == Kind.HOST_SYNC and self.device and node.stream is UNSET:
            self.flying.clear()
            self.loose.clear()
        elif kind == Kind.DROP:
            self._drop(a, action)
        elif kind == Kind.EVENT_RECORD:
            self.recorded.add(a)
        elif kind == Kind.EVENT_WAIT and a not in self.recorded:
            self._note(
                "PG309", "error", f"event {node.event!r} is waited for but never recorded", action
            )
        elif kind == Kind.DESTROY:
            self._destroy(node.group, action)

    def _wait_many(self, slots: Sequence[int], *, every: bool) -> None:
        """End what a wait for several handles surely ends."""
        left = frozenset(slot for slot in slots if slot in self.flying)
        self.asked[left] = self.asked.get(left, 0) + 1
        sure = every or self.asked[left] >= len(left)
        for slot in left:
            if sure:
                del self.flying[slot]
            else:
                self.flying[slot].maybe = True
        if sure:
            self.asked = {key: count for key, count in self.asked.items() if not key & left}

    def _drop(self, slot: int, action: int) -> None:
        flight = self.flying.pop(slot, None)
        if flight is not None:
            message = (
                f"the handle of {flight.node.__struct_config__.tag} is dropped before its wait"
            )
            self._note("PG308", "warning", message, action, flight.action)

    def _destroy(self, group: str, action: int) -> None:
        for flight in [*self.flying.values(), *self.loose]:
            if flight.group == group:
                message = f"group {group} is destroyed while one of its actions is pending"
                self._note("PG310", "error", message, action, flight.action)

    def _touch(
        self, reads: frozenset[str], writes: frozenset[str], action: int, *, flies: bool
    ) -> None:
        if not reads and not writes:
            return
        for flight in [*self.flying.values(), *self.loose]:
            shared = sorted((reads | writes) & (flight.reads | flight.writes))
            if not shared:
                continue
            name = shared[0]
            if flies:
                writing = bool({*shared} & (writes | flight.writes))
                self._note(
                    "PG306",
                    "error" if writing and not flight.maybe else "warning",
                    f"two actions in flight use {name}",
                    action,
                    flight.action,
                )
            elif set(shared) & writes:
                message = f"{name} is written while an action in flight uses it"
                self._note("PG305", _how(flight), message, action, flight.action)
            elif set(shared) & reads & flight.writes:
                message = f"{name} is read before the wait of the action that fills it"
                self._note("PG304", _how(flight), message, action, flight.action)

    def finish(self) -> list[Hazard]:
        """Return what was found, with the handles that are never waited for."""
        for flight in self.flying.values():
            may = "may be left without a wait" if flight.maybe else "is never waited for"
            severity = "warning" if flight.maybe else "error"
            self._note(
                "PG301", severity, f"work handle {_work(flight.node)!r} {may}", flight.action
            )
        return list(self.found.values())

    def _note(
        self, code: str, severity: str, message: str, action: int, other: int | None = None
    ) -> None:
        key = (code, action)
        self.found.setdefault(key, Hazard(code, severity, message, self.index, action, other))


def _how(flight: _InFlight) -> str:
    return "warning" if flight.maybe else "error"


_NOTHING: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())


def _names(names: Any) -> frozenset[str]:
    return frozenset() if names is UNSET else frozenset(names)


def _buffers(node: Any) -> tuple[frozenset[str], frozenset[str]]:
    """Return what an action reads and writes, with the parts or members that it launches."""
    inside: Sequence[Any] = node.ops if type(node) in _LISTS else ()
    named = [one for one in (node, *inside) if not one.reads is one.writes is UNSET]
    if not named:
        return _NOTHING
    reads, writes = _NOTHING
    for one in named:
        reads, writes = reads | _names(one.reads), writes | _names(one.writes)
    return reads, writes


def _work(node: Any) -> str:
    work = getattr(node, "work", UNSET)
    return "" if work is UNSET else str(work)


_REPEAT, _BIND, _WAIT = int(Kind.REPEAT), int(Kind.BIND), int(Kind.WAIT)
_RECORD, _AWAIT = int(Kind.EVENT_RECORD), int(Kind.EVENT_WAIT)
_ACTIVE = frozenset(
    int(kind)
    for kind in (
        Kind.WAIT_MANY,
        Kind.HOST_SYNC,
        Kind.DROP,
        Kind.EVENT_RECORD,
        Kind.EVENT_WAIT,
        Kind.DESTROY,
    )
)
"""Kinds that end or record something, but for ``WAIT``."""

_INTERESTING = {int(Kind.EVENT_WAIT), int(Kind.DESTROY), int(Kind.DROP)}


def find_hazards(code: CompiledPlan, *, device: bool = False) -> list[Hazard]:
    """Return the hazards of every program, in program order.

    Args:
        code: The compiled plan. Programs with blocks of undecided order are left out.
        device: Operations are kernels on streams, which a host synchronization waits for.
    """
    found: list[Hazard] = []
    known: dict[int, list[Hazard]] = {}  # several programs may share one list of words
    for index, program in enumerate(code.programs):
        if id(program.code) in known:
            found.extend(replace(hazard, program=index) for hazard in known[id(program.code)])
            continue
        own = known[id(program.code)] = _of_program(code, index, device=device)
        found.extend(own)
    return found


def _of_program(code: CompiledPlan, index: int, *, device: bool) -> list[Hazard]:
    program = code.programs[index]
    ops = set(program.code[::WORDS])
    plain = {op & KIND_MASK for op in ops}
    if not any(op & ASYNC for op in ops) and not plain & _INTERESTING:
        return []
    if any(Kind.UNORDERED_BEGIN <= kind < Kind.BIND for kind in plain):
        return []
    if not plain & _INTERESTING and _is_clean(program, code):
        return []
    if _only_events(ops) and _records_first(program):
        return []
    walk = _Walk(code, program, index, device)
    walk.block(0, len(program), 0)
    return walk.finish()


def _only_events(ops: set[int]) -> bool:
    """Tell whether nothing is ever in flight, so that events alone can be wrong."""
    return not any(op & ASYNC and op & KIND_MASK in LAUNCHES for op in ops)


def _records_first(program: Program) -> bool:
    """Tell whether every event is recorded in front of its waits, in the order of the words.

    What a loop waits for and records further down in its body is left to the walk.
    """
    words = program.code
    recorded: set[int] = set()
    for op, event in zip(words[::WORDS], words[1::WORDS], strict=True):
        if op == _RECORD:
            recorded.add(event)
        elif op == _AWAIT and event not in recorded:
            return False
    return True


def _is_clean(program: Program, code: CompiledPlan) -> bool:
    """Tell whether a program waits for all it starts, and names no buffer that could be touched."""
    if left_running(program, code.aux) != set():
        return False
    nodes = program.nodes  # of programs of many classes a field is asked for in one go
    absent = [list(map(field, nodes)).count(UNSET) for field in (_READS, _WRITES)]
    return absent == [len(nodes)] * 2 and Coalesced not in set(map(type, nodes))
