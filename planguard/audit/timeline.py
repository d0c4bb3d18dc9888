"""Recordings of other tools as a drawn plan with measured times.

What the recordings leave open is drawn as far as it goes: the plan made here is a picture, and its
ledger says so, so that nothing of it is ever decided SAFE.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.audit.findings.stand import stand_in
from planguard.audit.joining.assemble import assemble
from planguard.audit.readers.files import collect, kind_of, read
from planguard.audit.readers.part import PLAN
from planguard.audit.readers.reading import read_input
from planguard.audit.readers.safe import no_collection
from planguard.audit.readers.times import Times, Work, times_of
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
    from planguard.recording.observed import Observed
    from planguard.recording.recording import RankRecord, Recording
    from planguard.simulate.schedule import Schedule

PEERS = (
    "copies from device to device name devices of one machine: its ranks are taken to stand in the "
    "order of the devices, one on each"
)

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
    parts, times = [], {}
    with no_collection():
        for one in collect([str(path) for path in paths], prefix):
            parts += [part for part in read_input(one) if part.kind != PLAN]
            data = read(one.path)
            times[str(one.path)] = times_of(kind_of(data) or "", data, str(one.path))
    found = assemble(parts, world_size=world_size)
    name = ", ".join(Path(path).name for path in paths)
    return draw(stand_in(found.recording, found.arguments), times, name=name)


def draw(recording: Recording, times: Mapping[str, Times], *, name: str = "recording") -> Drawn:
    """Return a recording as a plan with measured times.

    Args:
        recording: What was seen.
        times: Times by file.
        name: What the picture calls it.

    Raises:
        PlanError: What was recorded makes no plan.
    """
    document = {**document_of(recording), "name": name}
    places: Places = {}
    marks: list[Mark] = []
    steps: dict[str, dict[int, tuple[float, float]]] = {}
    for rank, record in recording.ranks.items():
        own = times.get(record.file or "") or Times()
        program = _Program(rank, record, own, recording.world_size)
        program.draw(document["ranks"][str(rank)]["actions"], recording)
        document["ranks"][str(rank)]["actions"] = program.actions
        marks += program.marks
        places |= program.places
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
    plan = read_plan(document)
    ordered = [Step(name, ranges) for name, ranges in steps.items()]
    return Drawn(measured(plan, marks, steps=ordered, notes=notes), places)


class _Program:
    """The drawn program of one rank: recorded calls and measured computations by time."""

    def __init__(self, rank: int, record: RankRecord, times: Times, world_size: int) -> None:
        self.rank, self.record, self.times = rank, record, times
        self.world_size = world_size
        self.actions: list[dict[str, Any]] = []
        self.marks: list[Mark] = []
        self.places: Places = {}

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
                action = given[place[0]]
                self.actions.append(_valid(action, self.rank, recording))
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

    def _span(self, one: Observed) -> tuple[float, float] | None:
        if one.number is not None and one.number in self.times.calls:
            return self.times.calls[one.number]
        if one.created_ns is None:
            return None
        begin = one.created_ns / 1e3
        return self.times.calls.get(one.created_ns, (begin, begin))

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
        self.actions.append(action | {name: value for name, value in said.items() if value})


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
