"""Steps of training on the page: what a trace marks, by device, and what moved in each of them."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from planguard.plan.flatten import flatten
from planguard.plan.format import read
from planguard.simulate.traffic import traffic
from planguard.words import clean

if TYPE_CHECKING:
    from planguard.report.page.spans import Row
    from planguard.simulate.schedule import Schedule, Span
    from planguard.simulate.traffic import Traffic

MOST = 64
"""Most steps on the page; of longer traces the first ones."""
PASSES = ("f", "b")
"""First letters of the phases between which a step computes: forward and backward."""


def steps(found: Schedule, kept: list[Row]) -> list[dict[str, Any]]:
    """Return the steps of a run: every device's time in its three parts, microseconds.

    ``interval`` is what comes before the first computation (data preparation), ``passes`` from
    there to the end of the last backward one, ``tail`` the rest (Visual Diagnostics).
    """
    out = []
    for step in found.steps[:MOST]:
        own = [_device(row, step.ranges.get(row.rank)) for row in kept]
        if not any(own):
            continue
        ranges = list(step.ranges.values())
        out.append(
            {
                "name": clean(step.name),
                "start": round(min(a for a, _ in ranges), 3),
                "end": round(max(b for _, b in ranges), 3),
                "devices": own,
            }
        )
    return out


def _device(row: Row, span: tuple[float, float] | None) -> dict[str, float] | None:
    if span is None:
        return None
    begin, end = span
    inside = [s for s in row.spans if begin <= s.start < end]
    passes = [s for s in inside if s.kind == "compute" and _phase(row, s)[:1] in PASSES]
    first = min((s.start for s in passes), default=begin)
    last = min(end, max((s.end or s.start for s in passes), default=first))
    talks = [s for s in inside if s.kind in {"collective", "send", "recv"} and s.end is not None]
    waits = [s for s in inside if s.kind == "wait" and s.end is not None]
    moved = sum((s.end or 0.0) - s.ready for s in talks)
    waited = sum(s.ready - s.start for s in talks)
    # Waiting for a handle is waiting for the communication itself, which is counted already.
    waited += 0.0 if talks else sum((s.end or 0.0) - s.start for s in waits)
    parts = {"interval": first - begin, "passes": last - first, "tail": end - last,
             "total": end - begin, "communication": moved, "waiting": waited}  # fmt: skip
    return {name: round(value, 3) for name, value in parts.items()}


def _phase(row: Row, span: Span) -> str:
    return row.phases.get(span.action, "")


def step_traffic(found: Schedule, algorithm: str) -> list[Traffic]:
    """Return what moved in each step: the traffic of the actions that began in it."""
    if not found.steps:
        return []
    flat = flatten(found.plan)
    inside: list[dict[int, set[int]]] = [defaultdict(set) for _ in found.steps[:MOST]]
    for span in found.spans:
        for number, step in enumerate(found.steps[:MOST]):
            begin, end = step.ranges.get(span.rank, (0.0, 0.0))
            if begin <= span.start < end and span.kind not in {"compute", "wait"}:
                inside[number][span.rank].add(span.action)
                break
    out = []
    for chosen in inside:
        document = {key: value for key, value in flat.items() if key != "approximations"}
        document["ranks"] = {
            rank: {"actions": [a for at, a in enumerate(use["actions"]) if at in chosen[int(rank)]]}
            for rank, use in flat["ranks"].items()
        }
        out.append(traffic(read(json.loads(json.dumps(document))), algorithm))
    return out
