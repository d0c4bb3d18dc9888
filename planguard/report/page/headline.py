"""The numbers that a plan is asked for first, each with the view that shows where it comes from."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from planguard.report.places import shown
from planguard.simulate.critical import IDLE, critical
from planguard.simulate.traffic import HOST
from planguard.words import clean, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from planguard.plan.plan import Plan
    from planguard.report.page.spans import Row
    from planguard.simulate.schedule import Schedule, Span
    from planguard.simulate.traffic import Traffic

KINDS = 4
"""Most kinds of traffic that are named; the rest is a number."""
TALKS = frozenset({"collective", "send", "recv"})
"""Kinds of spans that communicate."""
Times = list[tuple[float, float]]


class Number(NamedTuple):
    """One number of a plan.

    Attributes:
        name: What it is called.
        amount: The number, in the unit that ``unit`` names; None where there is none.
        unit: ``us``, ``B``, ``share`` or ``times``.
        text: The number as a person reads it.
        what: What it says and where it comes from.
        panel: The panel of the page that shows it.
        chosen: What to choose there.
    """

    name: str
    amount: float | None
    unit: str
    text: str
    what: str
    panel: str
    chosen: dict[str, Any]


def union(times: Iterable[tuple[float, float]]) -> Times:
    """Return intervals without overlap, in order: what several calls cover together."""
    out: Times = []
    for start, end in sorted(times):
        if end <= start:
            continue
        if out and start <= out[-1][1]:
            out[-1] = out[-1][0], max(end, out[-1][1])
        else:
            out.append((start, end))
    return out


def length(times: Iterable[tuple[float, float]]) -> float:
    """Return how long intervals without overlap are together."""
    return sum(end - start for start, end in times)


def without(times: Times, taken: Times) -> float:
    """Return how much of some intervals lies outside of others; neither overlaps itself."""
    both = length(times) + length(taken) - length(union([*times, *taken]))
    return length(times) - both


def headline(
    rows: list[Row], run: Schedule | None, moved: Traffic, plan: Plan, *, is_unsafe: bool = False
) -> list[Any]:
    """Return the numbers as the page has them: name, text, what it says, panel, what to choose."""
    return [
        [one.name, one.text, one.what, one.panel, one.chosen]
        for one in numbers(rows, run, moved, plan, is_unsafe=is_unsafe)
    ]


def numbers(
    rows: list[Row], run: Schedule | None, moved: Traffic, plan: Plan, *, is_unsafe: bool = False
) -> list[Number]:
    """Return the numbers of a plan.

    Args:
        rows: The ranks that are drawn.
        run: Their times, or None where the plan is too long to run.
        moved: What the plan moves.
        plan: The plan.
        is_unsafe: Whether it has an unsafe verdict: its modeled time is no time of a run.
    """
    found = [] if run is None else list(_times(rows, run, is_unsafe=is_unsafe))
    return [*found, *_bytes(moved), *_largest(rows, plan, run)]


def _times(rows: list[Row], run: Schedule, *, is_unsafe: bool) -> Iterator[Number]:
    by = f"{run.basis}, model {run.model}" if run.basis == "modeled" else run.basis
    if not run.complete:
        what = f"some ranks wait for ever ({by})"
        yield Number("step time", None, "us", "never ends", what, "timeline", {})
        return
    if not run.makespan:
        return
    what = f"until the last rank ends ({by})"
    text = time_text(run.makespan)
    if is_unsafe and run.basis == "modeled":
        # The model of time pairs calls and asks no more: these may hang, or mix their data.
        text = f"{text} if it ran"
        what = f"as if the calls fitted each other, which the verdict denies; {what}"
    yield Number("step time", run.makespan, "us", text, what, "timeline", {})
    if run.basis != "modeled":
        rows = [row for row in rows if row.spans]  # nothing is known of the others
    busy: dict[int, float] = {}
    weights = {row.rank: len(run.stands.get(row.rank, (0,))) for row in rows}
    exposed = 0.0
    for row in rows:
        compute = union(_ends(s) for s in row.spans if s.kind == "compute")
        talk = union(_ends(s) for s in row.spans if s.kind not in {"compute", "copy"})
        busy[row.rank] = length(compute)
        exposed += without(talk, compute) * weights[row.rank]
    world = sum(weights.values())
    mean = sum(busy[rank] * weight for rank, weight in weights.items()) / world
    if len({row.stages for row in rows}) > 1 and mean:
        share = 1 - mean / run.makespan
        what = f"of the time of a rank without computation, mean ({by})"
        yield Number("bubble", share, "share", f"{share:.1%}", what, "timeline", {})
    if run.basis == "modeled" or any(span.kind in TALKS for span in run.spans):
        share = exposed / world / run.makespan
        what = f"of the time in calls while the rank computes nothing, mean ({by})"
        yield Number("exposed communication", share, "share", f"{share:.1%}", what, "overview", {})
    yield from _path(run, by)
    if mean:
        most = max(busy, key=lambda rank: (busy[rank], -rank))
        what = f"computation of rank {most} over the mean ({by})"
        chosen = {"table": "devices", "ranks": [most]}
        over = busy[most] / mean
        yield Number("imbalance", over, "times", f"{over:.2f}", what, "tables", chosen)


def _path(run: Schedule, by: str) -> Iterator[Number]:
    """Yield the share of computation on the critical path: what else it waits for is the rest."""
    path = critical(run)
    whole = length((one.start, one.end) for one in path)
    if not whole:
        return
    computes = length((one.start, one.end) for one in path if one.kind == "compute")
    talks = length((one.start, one.end) for one in path if one.kind in TALKS)
    rest = length((one.start, one.end) for one in path if one.kind == IDLE)
    ranks = len({one.rank for one in path})
    share = computes / whole
    idle = f", nothing that is known {rest / whole:.1%}" if rest else ""
    what = (
        f"computation on the critical path; communication is {talks / whole:.1%}{idle}, "
        f"through {ranks} rank{'s' * (ranks != 1)} ({by})"
    )
    yield Number("critical path", share, "share", f"{share:.1%}", what, "timeline", {"path": "on"})


def _ends(span: Span) -> tuple[float, float]:
    return span.start, span.start if span.end is None else span.end


def _bytes(moved: Traffic) -> Iterator[Number]:
    kinds: Counter[tuple[str, str]] = Counter()
    for key, edges in moved.edges.items():
        kinds[key.group, key.primitive] += sum(
            number for (src, dst), (number, _) in edges.items() if HOST not in (src, dst)
        )
    total = sum(kinds.values())
    if not total:
        return
    named = [
        f"{clean(primitive)} on {clean(group) or 'the device'} {size(number)}"
        for (group, primitive), number in kinds.most_common(KINDS)
    ]
    more = f", {len(kinds) - KINDS} more kinds" if len(kinds) > KINDS else ""
    what = f"{', '.join(named)}{more} ({moved.algorithm}, {moved.basis})"
    yield Number("bytes moved", total, "B", size(total), what, "matrices", {"matrix": None})


def _largest(rows: list[Row], plan: Plan, run: Schedule | None) -> Iterator[Number]:
    """Yield the largest call of a rank that is drawn, by the size that the plan states for it."""
    from planguard.report.page.spans import size_of

    best: tuple[int, int, int, int | None] | None = None
    known: dict[tuple[int, int, int | None], int] = defaultdict(int)
    for row in rows:
        program = plan.code.rank_program[row.rank]
        for span in row.spans:
            if span.kind not in {"collective", "send"}:
                continue
            key = program, span.action, span.member
            if key not in known:
                view = plan.action_at(span.rank, span.action, span.member)
                known[key] = size_of(plan, span.rank, view.instruction) or 0
            if known[key] and (best is None or known[key] > best[0]):
                best = known[key], span.rank, span.action, span.member
    if best is not None and run is not None:
        number, rank, action, member = best
        place = plan.location(rank, action, member)
        source = f" at {shown(place.source.file)}:{place.source.line}" if place.source else ""
        what = clean(f"rank {rank} #{action} {place.op}{source}")
        chosen = {"ranks": [rank], "op": [rank, action, member or 0]}
        yield Number("largest message", number, "B", size(number), what, "timeline", chosen)


def time_text(time: float) -> str:
    """Return a time as the page writes it: four digits, in the unit that a person reads."""
    for unit, scale in (("us", 1.0), ("ms", 1e3)):
        if time < 1000 * scale:
            return f"{time / scale:.4g} {unit}"
    return f"{time / 1e6:.4g} s"
