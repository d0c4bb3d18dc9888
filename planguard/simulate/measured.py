"""Measured times of a recorded run as a schedule: clocks aligned, members of a match joined.

Every rank has a clock of its own. As Visual Diagnostics does, the ranks of a stage are aligned at
their first all-reduce, and stages at the first pair of a send and a receive between them: all times
of a rank move by one offset. What is aligned are the ends, because nobody leaves an all-reduce
before its last member has come; how late a member came stays visible.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from planguard.plan.vocabulary import COPIES, POINT_TO_POINT, RECEIVES, SENDS, STRAYING, WHY_OF_OP
from planguard.simulate.schedule import Schedule, Span, Step
from planguard.words import name_ranks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from planguard.plan.plan import Plan
    from planguard.simulate.inside.tracks import Tracks

BASIS = "measured"
AS_RECORDED = "clocks of the ranks are as recorded: no common moment is known to align them at"
LOOSE = "nothing joins the clocks of"
APART = 600e6
"""Microseconds between the first calls of two ranks beyond which their clocks are not one."""
ALL_REDUCE = "all_reduce"
_WAITS = frozenset(WHY_OF_OP) - {"compute"}
_UNDRAWN = STRAYING - POINT_TO_POINT | {"batch", "event_record"}


@dataclass(frozen=True)
class Mark:
    """What was measured of one action.

    Attributes:
        rank: Global rank.
        action: Action index in the plan that the recording became.
        member: Index inside a batch, or None.
        start: Microseconds of the rank's own clock.
        end: Microseconds, or None: it was not seen to end.
    """

    rank: int
    action: int
    member: int | None
    start: float
    end: float | None


def measured(
    plan: Plan,
    marks: Iterable[Mark],
    *,
    steps: Sequence[Step] = (),
    notes: Sequence[str] = (),
    tracks: Mapping[int, Tracks] = MappingProxyType({}),
    aligned: bool = True,
) -> Schedule:
    """Return the measured schedule of a recorded run.

    Args:
        plan: The plan that the recording became.
        marks: Times of its actions; actions without one are not drawn.
        steps: Steps of training in the clocks of the ranks.
        notes: What the times mean.
        tracks: Threads, streams and counters of ranks, in their clocks.
        aligned: Align the clocks; False where the end of a call is not the end of its operation.
    """
    spans = _joined(plan, marks)
    offsets, told = align(plan, spans) if aligned else ({}, [])
    if not told and len({span.rank for span in spans}) > 1:
        told = [AS_RECORDED]
    apart = _together(spans, offsets)
    told += apart
    loose = any(note == AS_RECORDED or note.startswith(LOOSE) for note in told)
    begins = [s.start + offsets.get(s.rank, 0.0) for s in spans]
    begins += [a + offsets.get(rank, 0.0) for s in steps for rank, (a, _) in s.ranges.items()]
    begins += [
        own.slices[0].start + offsets.get(rank, 0.0) for rank, own in tracks.items() if own.slices
    ]
    first = min(begins, default=0.0)
    shift = {rank: offsets.get(rank, 0.0) - first for rank in range(plan.world_size)}
    moved = _ready([_moved(span, shift[span.rank]) for span in spans])
    moved.sort(key=lambda s: (s.rank, s.start, s.action, s.member or 0))
    return Schedule(
        plan,
        plan.model or "",
        tuple(moved),
        max((max(s.start, s.end or 0.0) for s in moved), default=0.0),
        all(span.end is not None for span in moved),
        (*notes, *told),
        BASIS,
        tuple(Step(s.name, {r: (a + shift[r], b + shift[r]) for r, (a, b) in s.ranges.items()})
              for s in steps),
        aligned and not loose and not apart,
        tracks={rank: own.moved(shift[rank]) for rank, own in tracks.items()},
    )  # fmt: skip


def _moved(span: Span, by: float) -> Span:
    end = None if span.end is None else span.end + by
    return replace(span, start=span.start + by, ready=span.ready + by, end=end)


# --- who met whom --------------------------------------------------------------------------------


def kind_of(op: str) -> str | None:
    """Return the kind of span of an operation, or None where it is not drawn."""
    if op in _UNDRAWN:
        return None
    if op in SENDS:
        return "send"
    if op in RECEIVES:
        return "recv"
    if op in _WAITS:
        return "wait"
    if op in COPIES:
        return "copy"
    return "compute" if op == "compute" else "collective"


def _joined(plan: Plan, marks: Iterable[Mark]) -> list[Span]:
    """Return marks as spans whose match says who met whom: by position, as calls match."""
    numbers: dict[tuple[Any, ...], int] = {}
    rounds: dict[tuple[Any, ...], int] = defaultdict(int)
    out = []
    for mark in sorted(marks, key=lambda m: (m.rank, m.action, m.member or 0)):
        view = plan.action_at(mark.rank, mark.action, mark.member)
        node: Any = view.action
        kind = kind_of(str(node.__struct_config__.tag))
        if kind is None:
            continue
        match = None
        key = _meeting(plan, mark.rank, node, kind)
        if key is not None:
            rounds[mark.rank, kind, *key] += 1
            met = (*key, rounds[mark.rank, kind, *key])
            match = numbers.setdefault(met, len(numbers))
        span = (mark.rank, mark.action, mark.member, kind, mark.start, mark.start, mark.end, match)
        out.append(Span(*span))
    return out


def _meeting(plan: Plan, rank: int, node: Any, kind: str) -> tuple[Any, ...] | None:
    """Return where an action meets its partners: a group, or a channel of sender and receiver."""
    if kind == "collective":
        name = getattr(node, "group", UNSET)
        name = "world" if name is UNSET else name
        members = tuple(plan.group(name).members(rank, plan.mesh))
        return (name, members or tuple(range(plan.world_size)))
    if kind in {"send", "recv"}:
        peer = plan.peer(rank, node)
        if peer is None:
            return None
        tag = 0 if node.tag is UNSET else node.tag
        ends = (rank, peer) if kind == "send" else (peer, rank)
        return ("p2p", *ends, tag)
    return None


def _ready(spans: list[Span]) -> list[Span]:
    """Give every span the moment at which the last member of its match was there."""
    last: dict[int, float] = {}
    for span in spans:
        if span.match is not None:
            last[span.match] = max(last.get(span.match, span.start), span.start)
    out = []
    for span in spans:
        ready = span.start if span.match is None else last[span.match]
        stop = ready if span.end is None else span.end
        out.append(replace(span, ready=max(span.start, min(ready, stop))))
    return out


# --- clocks --------------------------------------------------------------------------------------


def align(plan: Plan, spans: Sequence[Span]) -> tuple[dict[int, float], list[str]]:
    """Return what to add to the times of every rank, microseconds, and what that rests on.

    Ranks whose first all-reduce is one round are a stage; a rank without any joins where its first
    message, or its first other collective, meets a rank that is aligned. Only calls count whose end
    is known: one that ends where it begins was seen to be issued, and no more.
    """
    by_rank: dict[int, list[Span]] = defaultdict(list)
    for span in sorted(spans, key=lambda s: (s.rank, s.action, s.member or 0)):
        if span.match is not None:
            by_rank[span.rank].append(span)
    stages, offsets = _stages(plan, by_rank)
    pairs = _between(by_rank, stages, offsets)
    loose = sorted(r for n, stage in enumerate(stages) if n not in {0, *pairs} for r in stage)
    told = []
    if any(len(stage) > 1 for stage in stages):
        told.append("clocks of the ranks of a stage are aligned at their first all-reduce")
    if pairs:
        told.append("clocks of stages are aligned at the first message or round between them")
    if loose and told:
        told.append(f"{LOOSE} {name_ranks(loose)} to those of the others")
    return offsets, told


def _stages(
    plan: Plan, by_rank: Mapping[int, list[Span]]
) -> tuple[list[list[int]], dict[int, float]]:
    """Return ranks by their first all-reduce, and offsets that align its ends."""
    first: dict[int, Span] = {}
    for rank, spans in by_rank.items():
        found = next((s for s in spans if _is_all_reduce(plan, s)), None)
        if found is not None:
            first[rank] = found
    groups: dict[Any, list[int]] = defaultdict(list)
    for rank in sorted(by_rank):
        groups[first[rank].match if rank in first else ("alone", rank)].append(rank)
    offsets = dict.fromkeys(by_rank, 0.0)
    for stage in groups.values():
        for rank in stage[1:]:
            offsets[rank] = _stop(first[stage[0]]) - _stop(first[rank])
    return list(groups.values()), offsets


def _is_all_reduce(plan: Plan, span: Span) -> bool:
    if span.kind != "collective" or not _has_end(span):
        return False
    node: Any = plan.action_at(span.rank, span.action, span.member).action
    return str(node.__struct_config__.tag) == ALL_REDUCE


def _has_end(span: Span) -> bool:
    return span.end is not None and span.end > span.start


def _stop(span: Span) -> float:
    return span.start if span.end is None else span.end


def _between(
    by_rank: Mapping[int, list[Span]], stages: list[list[int]], offsets: dict[int, float]
) -> set[int]:
    """Align stage after stage at the first meeting with one that is aligned; messages first.

    A receive ends no earlier than its send began; the ends of both are taken for one moment.
    """
    home = {rank: number for number, stage in enumerate(stages) for rank in stage}
    links = _links(by_rank, home)
    known, joined = {0}, set[int]()
    while True:
        found = next((link for link in links if (link[0] in known) != (link[1] in known)), None)
        if found is None:
            return joined
        one, other, a, b = found
        if one not in known:
            one, other, a, b = other, one, b, a
        by = _stop(a) + offsets[a.rank] - _stop(b) - offsets[b.rank]
        for rank in stages[other]:
            offsets[rank] += by
        known.add(other)
        joined.add(other)


def _together(spans: Sequence[Span], offsets: dict[int, float]) -> list[str]:
    """Let ranks start together whose clocks have no zero in common: those of several machines."""
    begins: dict[int, float] = {}
    for span in spans:
        at = span.start + offsets.get(span.rank, 0.0)
        begins[span.rank] = min(begins.get(span.rank, at), at)
    if not begins:
        return []
    zero = begins[min(begins)]
    far = [rank for rank, at in begins.items() if abs(at - zero) > APART]
    for rank in far:
        offsets[rank] = offsets.get(rank, 0.0) + zero - begins[rank]
    return [f"the clock of {name_ranks(far)} has another zero: the ranks start together"] * bool(
        far
    )


def _links(
    by_rank: Mapping[int, list[Span]], home: Mapping[int, int]
) -> list[tuple[int, int, Span, Span]]:
    """Return the first meeting of every two stages, messages before rounds."""
    meetings: dict[int, dict[int, Span]] = defaultdict(dict)
    for rank in sorted(by_rank):
        for span in by_rank[rank]:
            if _has_end(span) and span.match is not None:
                meetings[span.match].setdefault(home[rank], span)
    found: dict[tuple[int, int], tuple[bool, int, Span, Span]] = {}
    for met in meetings.values():
        for (one, a), (other, b) in pairwise(sorted(met.items())):
            here = (a.kind == "collective", min(a.action, b.action), a, b)
            if (one, other) not in found or here[:2] < found[one, other][:2]:
                found[one, other] = here
    ordered = sorted(found.items(), key=lambda item: (item[1][:2], item[0]))
    return [(one, other, a, b) for (one, other), (*_, a, b) in ordered]
