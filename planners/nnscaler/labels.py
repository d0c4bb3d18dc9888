"""Which microbatch a call works on, and which labels all sides of a communication use."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, TypeAlias

from .model import Comm, Compute, Window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .model import NnScalerPlan, Program

Texts: TypeAlias = dict[tuple[int, int], int]
"""Rank and number of a call to its microbatch."""


class _Sets:
    """Disjoint sets of names."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def find(self, name: str) -> str:
        """Return the representative of a name."""
        while self._parent.setdefault(name, name) != name:
            self._parent[name] = self._parent[self._parent[name]]
            name = self._parent[name]
        return name

    def join(self, names: tuple[str, ...]) -> None:
        """Put names into one set."""
        for name in names[1:]:
            self._parent[self.find(name)] = self.find(names[0])


def microbatches(plan: NnScalerPlan) -> tuple[Texts, bool]:
    """Return the microbatch of every call, and whether some went by position only.

    nnScaler numbers tensors once for all ranks, so a variable means the same on every rank, and
    everything one call touches belongs to one microbatch. A set of names joined that way is the
    microbatch at whose place the step returns one of them; else the one whose sample it reads. Of a
    set with neither, the calls of one callee are counted on each rank.
    """
    if plan.microbatches == 1:
        return {
            (program.rank, number): 0
            for program in plan.programs
            for number in range(len(program.calls))
        }, False
    sets = _Sets()
    for program in plan.programs:
        for call in program.calls:
            sets.join(call.names)
    places = _places(plan, sets)
    found: Texts = {}
    by_position = False
    for program in plan.programs:
        by_position |= _number(program, places, sets, found)
    return found, by_position


def _places(plan: NnScalerPlan, sets: _Sets) -> dict[str, int]:
    """Return the microbatch of every set that has exactly one."""
    returned: dict[str, set[int]] = defaultdict(set)
    read: dict[str, set[int]] = defaultdict(set)
    for program in plan.programs:
        for place, names in enumerate(program.outputs):
            for name in names:
                returned[sets.find(name)].add(place)
        for place, name in enumerate(program.samples):
            read[sets.find(name)].add(place)
    chosen = {**read, **returned}
    return {name: min(places) for name, places in chosen.items() if len(places) == 1}


def _number(program: Program, places: dict[str, int], sets: _Sets, found: Texts) -> bool:
    counted: dict[str, int] = defaultdict(int)
    by_position = False
    for number, call in enumerate(program.calls):
        known = {places.get(sets.find(name)) for name in call.names} - {None}
        if len(known) == 1:
            found[program.rank, number] = known.pop() or 0
        else:
            found[program.rank, number] = counted[call.callee]
            by_position = True
        counted[call.callee] += 1
    return by_position


class Labels:
    """Labels of communications, kept where every side of a communication uses them."""

    def __init__(self, plan: NnScalerPlan) -> None:
        self._micro, self.by_position = microbatches(plan)
        self._several = plan.microbatches > 1
        self._used: dict[tuple[object, ...], set[int]] = defaultdict(set)
        for program in plan.programs:
            for comm in communications(program):
                self._used[self._channel(program.rank, comm)].add(program.rank)
        self.dropped = 0

    def microbatch(self, rank: int, call: int | None) -> int | None:
        """Return the microbatch of a call."""
        return None if call is None else self._micro[rank, call]

    def text(self, rank: int, comm: Comm) -> str | None:
        """Return the label of a communication, None if not all of its sides use it."""
        if comm.label is None:
            return None
        channel = self._channel(rank, comm)
        sides = {rank, comm.peer} if comm.peer is not None else set(comm.ranks)
        if sides - self._used[channel]:
            self.dropped += 1
            return None
        return self._label(rank, comm)

    def _label(self, rank: int, comm: Comm) -> str | None:
        if comm.label is None:
            return None
        place = self.microbatch(rank, comm.label.call)
        if place is None or not self._several:
            return comm.label.stem
        return f"{comm.label.stem}#{place}"

    def _channel(self, rank: int, comm: Comm) -> tuple[object, ...]:
        label = self._label(rank, comm)
        if comm.peer is None:
            return comm.ranks, label
        sends = comm.op in {"send", "isend"}
        return (rank, comm.peer, label) if sends else (comm.peer, rank, label)


def communications(program: Program) -> Iterator[Comm]:
    """Yield the communications of a program, those of windows too."""
    for step in program.steps:
        if isinstance(step, Comm):
            yield step
        elif isinstance(step, Window):
            yield from step.chain
            yield from step.comms


def stages(plan: NnScalerPlan) -> dict[str, int]:
    """Number the segments of a pipelined plan by their identifiers, which nnScaler counts up."""
    if plan.microbatches == 1:
        return {}
    names = {s.name for p in plan.programs for s in p.steps if isinstance(s, Compute)}
    return {name: place for place, name in enumerate(sorted(names, key=_identifier))}


def _identifier(name: str) -> tuple[int, str]:
    digits = re.search(r"\d+$", name)
    return (int(digits[0]) if digits and len(digits[0]) < 19 else 0), name
