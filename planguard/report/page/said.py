"""The verdict on the page: findings with where to look next, the wait-for graph, the witness."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from planguard.explain import explain
from planguard.explain.answer import sizes
from planguard.explain.reasons import label, sentence
from planguard.report.page.cause import FOLLOWS, cause, ordered
from planguard.words import clean

if TYPE_CHECKING:
    from planguard.plan.plan import Plan
    from planguard.simulate.schedule import Schedule
    from planguard.verdict import CycleEdge, Finding, Location, Verdict, Witness

_HANGS = ("PG0", "PG2", "PG501", "PG502", "PG506")
"""Codes of what a job was stuck in."""
STEPS = 2000
"""Most steps of a witness that the slider has."""
_NEXT = {
    "PG0": ("waits", "step through the witness: which rank stops first, and for whom it waits"),
    "PG1": ("waits", "step through the witness: which rank stops first, and for whom it waits"),
    "PG2": ("timeline", "the actions that never find a partner end open in the timeline"),
    "PG3": ("timeline", "follow the rank in the timeline up to this action"),
    "PG60": ("timeline", "compare the width of the bands: who arrives last?"),
    "PG604": ("timeline", "the gaps of this row are the stage's idle time"),
    "PG605": ("topology", "compare links of one type"),
    "PG606": ("topology", "compare links of equal role"),
    "PG61": ("timeline", "the pixel map beside the rows shows FLOPs and memory of every device"),
    "PG62": ("strategy", "see how the tensor is cut where this operator reads it"),
    "PG63": ("matrices", "find the cells of this traffic in the matrix"),
    "PG64": ("timeline", "zoom into the collectives"),
}


def said(verdict: Verdict, plan: Plan, run: Schedule | None = None) -> dict[str, Any]:
    """Return what the page says of a verdict; every text is cleaned, none is markup."""
    order, follows = ordered(verdict)
    return {
        "outcome": verdict.outcome.value,
        "model": clean(verdict.model),
        "models": {clean(name): outcome.value for name, outcome in verdict.models.items()},
        "sizes": sizes(verdict.stats),
        "file": clean(PurePath(plan.file).name) if plan.file else "",
        "text": "\n".join(clean(line) for line in explain(verdict, plan, width=100).split("\n")),
        "findings": [_finding(finding) for finding in verdict.findings],
        "order": order,
        "follows": sorted(follows),
        "cause": cause(verdict, plan, run),
        "audit": _audit(verdict) if verdict.evidence.kind == "trace" else None,
        "reasons": [clean(reason) for reason in verdict.reasons],
        "approximations": [
            [clean(a.kind), a.direction, clean(a.message)] for a in verdict.approximations
        ],
    }


def _audit(verdict: Verdict) -> dict[str, Any]:
    """Return what an audit is asked first: who, where it stopped, who waits, what is not known."""
    told = [f for f in verdict.findings if f.code.startswith(_HANGS)]
    first = next((f for f in told if f.code not in FOLLOWS), None)
    shown = first or (told[0] if told else None)
    labels = ("stopped", "stack", "cause", "waiting", "then", "evidence", "source", "next")
    notes: dict[str, list[str]] = {name: [] for name in labels}
    for note in shown.notes if shown is not None else ():
        name, _, text = note.partition(": ")
        if name in notes:
            notes[name].append(clean(text))
    gaps = [f.message for f in verdict.findings if f.code.startswith("PG91")]
    return {
        "finding": None if shown is None else verdict.findings.index(shown),
        "culprit": [] if first is None else list(first.ranks),
        "certain": first is not None and first.severity == "error",
        "notes": notes,
        "unknown": [clean(text) for text in dict.fromkeys([*gaps, *verdict.reasons])],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    panel, advice = _look(finding)
    return {
        "code": finding.code,
        "name": clean(finding.name),
        "severity": finding.severity,
        "message": clean(finding.message),
        "ranks": list(finding.ranks),
        "primary": _place(finding.primary),
        "help": clean(finding.help),
        "notes": [clean(note) for note in finding.notes],
        "fixes": [[f.applicability, clean(f.text)] for f in finding.fixes],
        "cycle": [_edge(edge) for edge in finding.cycle],
        "related": [_place(place) for place in finding.related_actions],
        "consequences": [clean(text) for text in finding.consequences],
        "witness": None if finding.witness is None else _witness(finding.witness),
        "panel": panel,
        "next": advice,
    }


def _look(finding: Finding) -> tuple[str, str]:
    if finding.cycle and finding.code < "PG600":
        return _NEXT["PG0"]
    found = max((key for key in _NEXT if finding.code.startswith(key)), key=len, default=None)
    if found in {None, "PG0", "PG1"}:
        return "timeline", "go to the action in the timeline"
    return _NEXT[found]


def _place(place: Location | None) -> dict[str, Any] | None:
    if place is None:
        return None
    source = place.source
    return {
        "rank": place.rank,
        "action": place.action,
        "text": clean(place.text or place.op),
        "pointer": clean(place.pointer or ""),
        "source": "" if source is None else clean(f"{source.file}:{source.line}"),
    }


def _edge(edge: CycleEdge) -> dict[str, Any]:
    return {
        "at": _place(edge.at),
        "for": _place(edge.waits_for),
        "behind": _place(edge.behind),
        "why": clean(label(edge)),
        "sentence": clean(sentence(edge)),
    }


def _witness(witness: Witness) -> dict[str, Any]:
    return {
        "id": witness.id,
        "minimal": witness.minimal,
        "end": witness.end,
        "steps": [[s.rank, s.action, s.event] for s in witness.steps[:STEPS]],
        "more": max(0, len(witness.steps) - STEPS),
        "blocked": [list(pair) for pair in witness.blocked],
        "actions": [list(pair) for pair in witness.actions],
    }
