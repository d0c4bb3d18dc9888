"""The report in a terminal: matrices with their patterns, the timeline, the advice."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from planguard.report.pictures.matrix_text import matrix_text
from planguard.simulate.entries import COLLECTIVE, COMPUTE, COPY, RECV, SEND, WAIT
from planguard.simulate.matrix import LARGEST, by_node, matrix, nodes
from planguard.simulate.schedule import schedule
from planguard.simulate.traffic import traffic
from planguard.words import clean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.plan.plan import Plan
    from planguard.simulate.schedule import Schedule
    from planguard.verdict import Finding

WIDTH = 64
FIRST = 100
"""Collectives that the timeline lists, as ComScribe's second panel does."""
_MARKS = {COMPUTE: "#", COLLECTIVE: "C", SEND: ">", RECV: "<", WAIT: ".", COPY: "="}
_ABOVE = {COMPUTE: 5, COLLECTIVE: 4, RECV: 3, SEND: 2, COPY: 1, WAIT: 0}


def summary(
    plan: Plan,
    *,
    algorithm: str = "ring",
    model: str | None = None,
    advice: Sequence[Finding] = (),
    run: Schedule | None = None,
) -> str:
    """Return matrices, timeline and advice of a plan as text.

    Args:
        plan: The plan.
        algorithm: How collectives are taken apart.
        model: Execution model of the timeline.
        advice: Findings of the PG6xx rules.
        run: Measured times; modeled ones if None.
    """
    moved = traffic(plan, algorithm)
    parts = [f"{clean(plan.name or plan.file or 'plan')}: {plan.world_size} ranks\n"]
    if plan.world_size <= LARGEST:
        parts.append(matrix_text(matrix(moved)))
        names = moved.primitives()
        if len(names) > 1:
            parts += [matrix_text(matrix(moved, title=n, primitive=n)) for n in names]
    if len(set(nodes(plan).values())) > 1 or plan.world_size > LARGEST:
        parts.append(matrix_text(by_node(moved, plan)))
    parts += [f"note: {note}\n" for note in moved.notes]
    found = run or schedule(plan, model)
    parts.append("\n".join(_timeline(found)) + "\n")
    parts.append("\n".join(_collectives(found)) + "\n")
    if advice:
        parts.append("\n".join(f"{f.severity}[{f.code}]: {f.message}" for f in advice) + "\n")
    return "\n".join(parts)


def _timeline(found: Schedule) -> Iterator[str]:
    """Yield one line per rank: what fills most of each of its columns."""
    yield (
        f"timeline: {found.makespan:,.4g} us, {found.basis}"
        + (f", model {found.model}" if found.basis == "modeled" else "")
        + ("" if found.complete else "; some ranks never end")
    )
    ranks = sorted({span.rank for span in found.spans})
    shown = ranks if len(ranks) <= 32 else ranks[:16]
    end = found.makespan or 1.0
    for rank in shown:
        cells = [("wait", " ")] * WIDTH
        for span in found.spans:
            if span.rank != rank:
                continue
            first = min(WIDTH - 1, int(span.start / end * WIDTH))
            stop = end if span.end is None else span.end
            last = min(WIDTH - 1, max(first, int(stop / end * WIDTH - 1e-9)))
            for at in range(first, last + 1):
                if cells[at][1] == " " or _ABOVE[span.kind] > _ABOVE[cells[at][0]]:
                    cells[at] = (span.kind, _MARKS[span.kind])
        stuck = any(s.rank == rank and s.end is None for s in found.spans)
        yield f"  r{rank:<4}|{''.join(mark for _, mark in cells)}|" + (" stuck" if stuck else "")
    if len(shown) < len(ranks):
        yield f"  ... {len(ranks) - len(shown):,} more ranks"
    yield "  # compute  C collective  > send  < receive  . wait  = copy"
    yield from (f"  note: {note}" for note in found.notes)


def _collectives(found: Schedule) -> Iterator[str]:
    """Yield the collectives in order of time, the first hundred, runs of equal ones folded."""
    first: dict[int, tuple[float, str]] = {}
    for span in found.spans:
        if span.kind == "collective" and span.match is not None and span.match not in first:
            view = found.plan.action_at(span.rank, span.action, span.member)
            group = found.plan.group_name(str(view.fields.get("group", "world")), span.rank)
            first[span.match] = (span.start, f"{view.op} on {clean(group)}")
    ordered = [text for _, text in sorted(first.values())]
    counts = Counter(ordered)
    yield f"collectives: {len(ordered):,} rounds of {len(counts):,} kinds, the first {FIRST}:"
    run, times = "", 0
    for text in [*ordered[:FIRST], ""]:
        if text == run:
            times += 1
            continue
        if run:
            yield f"  {run}" + (f"  x {times}" if times > 1 else "")
        run, times = text, 1
