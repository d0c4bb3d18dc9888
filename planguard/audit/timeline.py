"""Recordings of other tools as a drawn plan with measured times.

What the recordings leave open is drawn as far as it goes: the plan made here is a picture, and its
ledger says so, so that nothing of it is ever decided SAFE.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from planguard.audit.findings.stand import stand_in
from planguard.audit.joining.assemble import assemble
from planguard.audit.readers.files import collect, kind_of, read
from planguard.audit.readers.flows import Flows
from planguard.audit.readers.part import PLAN
from planguard.audit.readers.reading import read_input
from planguard.audit.readers.times import Times, Work, times_of
from planguard.garbage import no_collection
from planguard.plan.format import read as read_plan
from planguard.plan.vocabulary import COLLECTIVES, HANDLES, LIFETIME, MESSAGES, ROOTED, SENDS
from planguard.recording.observed import UNRECORDED, Progress
from planguard.recording.promote import document_of, places_of
from planguard.simulate.measured import Mark, measured
from planguard.simulate.schedule import Step

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from planguard.audit.readers.copies import Copied
    from planguard.audit.readers.flows import Flow, Value
    from planguard.recording.observed import Observed
    from planguard.recording.recording import RankRecord, Recording
    from planguard.simulate.schedule import Schedule

PEERS = (
    "copies from device to device name devices of one machine: its ranks are taken to stand in the "
    "order of the devices, one on each"
)

TRACED = "execution-trace"

Places = dict[tuple[int, int], tuple[int, int | None]]
"""Rank and number of an observed action -> action index in the drawn plan, and place in a batch."""


@dataclass(frozen=True)
class Drawn:
    """A recording as a picture.

    Attributes:
        schedule: Its measured times, and the plan that was drawn.
        places: Where observed actions are in that plan.
    """

    schedule: Schedule
    places: Places


def drawn_recording(
    paths: Sequence[str | os.PathLike[str]],
    *,
    prefix: str | None = None,
    world_size: int | None = None,
) -> Drawn:
    """Read recordings as an audit does, with their times.

    Raises:
        PlanError: A file cannot be read, or is refused.
        UsageError: Nothing to read, or the ranks cannot be told from the names.
    """
    parts, times, traced = [], {}, []
    with no_collection():
        for one in collect([str(path) for path in paths], prefix):
            own = [part for part in read_input(one) if part.kind != PLAN]
            parts += own
            data, file = read(one.path), str(one.path)
            times[file] = times_of(kind_of(data) or "", data, file)
            traced += [(part, Flows(data, file)) for part in own if part.kind == TRACED]
    found = assemble(parts, world_size=world_size)  # says the ranks of parts
    name = ", ".join(Path(path).name for path in paths)
    flows = {part.rank: flow for part, flow in traced if part.rank is not None}
    return draw(stand_in(found.recording, found.arguments), times, flows, name=name)


def draw(
    recording: Recording,
    times: Mapping[str, Times],
    flows: Mapping[int, Flows] = MappingProxyType({}),
    *,
    name: str = "recording",
) -> Drawn:
    """Return a recording as a plan with measured times.

    Args:
        recording: What was seen.
        times: Times by file.
        flows: Data between the operators of a rank, where an ExecutionTrace says it.
        name: What the picture calls it.

    Raises:
        PlanError: What was recorded makes no plan.
    """
    document = {**document_of(recording), "name": name}
    places: Places = {}
    marks: list[Mark] = []
    tensors: dict[str, dict[str, Any]] = {}
    steps: dict[str, dict[int, tuple[float, float]]] = {}
    tracks = {}
    for rank, record in recording.ranks.items():
        own = times.get(record.file or "") or Times()
        program = _Program(rank, record, own, recording.world_size)
        if rank in flows:
            program.join(flows[rank], tensors)
        program.draw(document["ranks"][str(rank)]["actions"], recording)
        document["ranks"][str(rank)]["actions"] = program.actions
        marks += program.marks
        places |= program.places
        if own.tracks.slices:
            tracks[rank] = own.tracks
        for title, span in own.steps.items():
            steps.setdefault(title, {})[rank] = span
    document["approximations"] = [
        {"kind": "drawn-recording", "message": message, "direction": way, "scope": "plan"}
        for message in [gap.message for gap in recording.gaps] or ["a picture of a recording"]
        for way in ("under", "over")
    ]
    notes = list(dict.fromkeys(n for own in times.values() for n in own.notes))
    if any(one.is_to_peer for own in times.values() for one in own.copies):
        notes.append(PEERS)
    dropped = sum(own.dropped for own in times.values())
    if dropped:
        notes.append(f"{dropped:,} short computations are left out")
    if tensors:
        document["tensors"] = tensors
    plan = read_plan(document)
    ordered = [Step(name, ranges) for name, ranges in steps.items()]
    return Drawn(measured(plan, marks, steps=ordered, notes=notes, tracks=tracks), places)


class _Program:
    """The drawn program of one rank: recorded calls and measured computations by time."""

    def __init__(self, rank: int, record: RankRecord, times: Times, world_size: int) -> None:
        self.rank, self.record, self.times = rank, record, times
        self.world_size = world_size
        self.flows: dict[int, Flow] = {}
        self.tensors: dict[str, dict[str, Any]] = {}
        self.actions: list[dict[str, Any]] = []
        self.marks: list[Mark] = []
        self.places: Places = {}

    def join(self, flows: Flows, tensors: dict[str, dict[str, Any]]) -> None:
        """Take the data between operators from a trace beside this one; tensors are declared."""
        self.flows = flows.of(self.times.nested)
        self.tensors = tensors

    def draw(self, given: list[dict[str, Any]], recording: Recording) -> None:
        """Write the program: every recorded action in its order, computations where they began."""
        both: list[Work | Copied] = [*self.times.work, *self.times.copies]
        work: Iterator[Work | Copied] = iter(sorted(both, key=lambda one: (one.start, one.end)))
        pending = next(work, None)
        moved: dict[int, int] = {}
        for number, (one, place) in enumerate(
            zip(self.record.actions, places_of(self.record), strict=True)
        ):
            span = self._span(one)
            while pending is not None and (span is None or pending.start <= span[0]):
                self._put(pending)
                pending = next(work, None)
            if place[0] not in moved:
                moved[place[0]] = len(self.actions)
                action = _valid(given[place[0]], self.rank, recording)
                record = self.times.records.get(self._key(one))
                self.actions.append(action | self._data(record))
            at = moved[place[0]], place[1]
            if self.actions[at[0]]["op"] != "batch":
                at = at[0], None
            self.places[self.rank, number] = at
            if span is not None:
                open_end = one.progress in (Progress.ISSUED, Progress.STARTED)
                self.marks.append(Mark(self.rank, *at, span[0], None if open_end else span[1]))
        while pending is not None:
            self._put(pending)
            pending = next(work, None)
        self.actions += given[len(moved) :]  # waits that the recording does not place

    def _key(self, one: Observed) -> int:
        is_numbered = one.number is not None and one.number in self.times.calls
        return (one.number if is_numbered else one.created_ns) or -1

    def _span(self, one: Observed) -> tuple[float, float] | None:
        key = self._key(one)
        if key in self.times.calls:
            return self.times.calls[key]
        return None if one.created_ns is None else (one.created_ns / 1e3,) * 2

    def _data(self, record: int | None) -> dict[str, Any]:
        """Return the tensors that an operator reads and writes, and declare them."""
        flow = self.flows.get(-1 if record is None else record)
        if flow is None:
            return {}
        both = {"reads": flow.reads.values(), "writes": flow.writes.values()}
        return {name: [self._declare(one) for one in own] for name, own in both.items() if own}

    def _declare(self, value: Value) -> str:
        """Return a tensor's name in the plan: ranks share those of tensors that look alike."""
        if value.dtype is None:
            return f"{value.name} of rank {self.rank}"
        about = {"shape": list(value.shape), "dtype": value.dtype}
        is_ours = self.tensors.setdefault(value.name, about) == about
        name = value.name if is_ours else f"{value.name} of rank {self.rank}"
        self.tensors.setdefault(name, about)
        return name

    def _put(self, one: Work | Copied) -> None:
        if isinstance(one, Work):
            self._compute(one)
            return
        self.marks.append(Mark(self.rank, len(self.actions), None, one.start, one.end))
        action: dict[str, Any] = {"op": one.op, "bytes": one.bytes or 0}
        if one.is_unified:
            action["memory"] = "unified"
        if one.is_to_peer:
            action |= {"path": "peer"} | self._peer(one)
        self.actions.append(action)

    def _peer(self, one: Copied) -> dict[str, int]:
        """Return the rank of the other device: the ranks of a machine stand in order of devices."""
        if one.here is None or one.there is None:
            return {}
        peer = self.rank + one.there - one.here
        return {"peer": peer} if 0 <= peer < self.world_size and peer != self.rank else {}

    def _compute(self, work: Work) -> None:
        mark = Mark(self.rank, len(self.actions), None, work.start, work.end)
        self.marks.append(mark)
        action = {"op": "compute", "op_name": work.name, "duration_us": work.end - work.start}
        said = {"phase": work.phase, "flops": work.flops, "bytes": work.bytes}
        known = {name: value for name, value in said.items() if value}
        self.actions.append(action | known | self._data(work.record))


def _valid(action: dict[str, Any], rank: int, recording: Recording) -> dict[str, Any]:
    """Return an action as plans have it; one that lacks what a plan needs stands as a name."""
    if action["op"] == "batch":
        return {**action, "ops": [_valid(member, rank, recording) for member in action["ops"]]}
    op = action["op"]
    if op not in COLLECTIVES | MESSAGES:
        if op not in HANDLES | LIFETIME | {"compute"} or op == UNRECORDED:
            return {"op": "compute", "op_name": f"({op})", "duration_us": 0}
        return action
    members = recording.members(action.get("group"))
    if rank not in members or (op in SENDS and action["peer"] == "any"):
        return {"op": "compute", "op_name": f"({op}, partners not recorded)", "duration_us": 0}
    if op in ROOTED and "root" not in action:
        return {**action, "root": members[0]}
    return action
