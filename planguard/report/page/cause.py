"""The cause of an unsafe verdict, told first: who, which call, which line, who waits.

A cause is one finding and every finding like it (the same code at the same line). What is said of
the ranks that wait comes from the finding itself and, where the plan was run under the model of
time, from the calls of that run that never end. An audit tells its own cause (``said._audit``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planguard.explain.reasons import sentence
from planguard.report.places import Places, shown
from planguard.words import clean, name_ranks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.plan.plan import Plan
    from planguard.simulate.schedule import Schedule
    from planguard.verdict import Finding, Location, Verdict

FOLLOWS = frozenset({"PG501", "PG502"})
"""Codes that say who waits, and blame nobody."""
OTHERS = 12
"""Most lines of ranks that wait."""
_MISSING = "missing participant: "
_DECIDED = ("decided at ", "cause: ", "raised ")


@dataclass(frozen=True)
class Wait:
    """Ranks that wait alike: in which call, where it stands, for whom."""

    ranks: list[int]
    text: str
    place: str
    why: str


@dataclass
class _Told:
    """What is gathered of one verdict."""

    verdict: Verdict
    plan: Plan
    run: Schedule | None
    places: Places
    blocked: dict[int, Location] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)


def missing(finding: Finding) -> tuple[int, ...]:
    """Return the ranks that a finding waits for in vain, as its note names them."""
    for note in finding.notes:
        if note.startswith(_MISSING):
            return _ranks(note[len(_MISSING) :])
    return ()


def _ranks(text: str) -> tuple[int, ...]:
    """Read what ``name_ranks`` wrote; no rank where the note says something else."""
    if not re.fullmatch(r"ranks? [\[\]0-9, and-]+", text):
        return ()
    found: list[int] = []
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        found += range(int(first), int(last or first) + 1)
    return tuple(found)


def ordered(verdict: Verdict) -> tuple[list[int], frozenset[int]]:
    """Return the order in which findings are read, and those of them that follow from others.

    Errors stand first. One that waits for a rank which another error holds up follows from that
    one; what names nobody follows from what names somebody. Advice comes last.
    """
    findings = verdict.findings
    errors = [at for at, f in enumerate(findings) if f.severity == "error"]
    blaming = [at for at in errors if findings[at].code not in FOLLOWS]
    stuck = {at: set(findings[at].ranks) for at in blaming}
    follows = {at for at in errors if findings[at].code in FOLLOWS and blaming}
    for at in blaming:
        absent = set(missing(findings[at]))
        if absent and any(
            absent <= stuck[other] and not set(missing(findings[other])) & stuck[at]
            for other in blaming
            if other != at
        ):
            follows.add(at)

    def place(at: int) -> tuple[bool, bool, int]:
        return at not in errors, at in follows, at

    return sorted(range(len(findings)), key=place), frozenset(follows)


def cause(verdict: Verdict, plan: Plan, run: Schedule | None) -> dict[str, Any] | None:
    """Return the cause as the page tells it, or None where there is none to tell.

    Args:
        verdict: The verdict.
        plan: Its plan.
        run: The run under the model of time that is drawn, if there is one.
    """
    order, _ = ordered(verdict)
    if verdict.evidence.kind == "trace" or not verdict.unsafe or not order:
        return None
    finding = verdict.findings[order[0]]
    if finding.severity != "error":
        return None
    told = _Told(verdict, plan, run, Places(plan.file or "", plan))
    for other in verdict.findings:
        for edge in other.cycle:
            told.blocked.setdefault(edge.at.rank, edge.at)
            told.reasons.setdefault(edge.at.rank, sentence(edge))
    alike = [f for f in verdict.findings if _key(f) == _key(finding)]
    absent = sorted({rank for f in alike for rank in missing(f)})
    who = absent or ([] if finding.primary is None else [finding.primary.rank])
    stopped = [_stopped(told, rank) for rank in absent[:OTHERS]]
    waits = list(_waits(told, set(who) if absent else set()))
    return {
        "finding": order[0],
        "who": who,
        "missing": bool(absent),
        "alike": len(alike),
        "sentence": _sentence(told, finding, absent, len(alike)),
        "call": "" if finding.primary is None else clean(finding.primary.text),
        "action": None if finding.primary is None else finding.primary.action,
        "place": _place(told, finding.primary),
        "decided": [clean(n) for n in finding.notes if n.startswith(_DECIDED)][:2],
        "stopped": stopped,
        "against": [_told(told, place) for place in finding.related_actions[:4]],
        "waits": [[w.ranks, w.text, w.place, w.why] for w in waits[:OTHERS]],
        "more": max(0, len(waits) - OTHERS),
    }


def _key(finding: Finding) -> tuple[Any, ...]:
    """Return what findings of one cause share: the code, and the line or the call."""
    place = finding.primary
    if place is None:
        return finding.code, finding.message
    line = (place.source.file, place.source.line) if place.source is not None else None
    return finding.code, line or place.pointer or (place.rank, place.action), bool(missing(finding))


def _sentence(told: _Told, finding: Finding, absent: Sequence[int], alike: int) -> str:
    """Return who, what and where, in one sentence."""
    place = finding.primary
    where = _place(told, place)
    at = f" at {where}" if where else ""
    if place is None:
        return clean(finding.message)
    call = clean(place.text or place.op)
    if absent:
        waiting = name_ranks({r for f in _like(told, finding) for r in f.ranks} or {place.rank})
        verb = "waits" if waiting.startswith("rank ") else "wait"
        never = "never comes" if len(absent) == 1 else "never come"
        return f"{name_ranks(absent)} {never} to {call}, where {waiting} {verb}{at}"
    text = clean(finding.message)
    return f"{text}: rank {place.rank} in {call} (#{place.action}){at}" + (
        f", and {alike - 1} more like it" if alike > 1 else ""
    )


def _like(told: _Told, finding: Finding) -> list[Finding]:
    return [f for f in told.verdict.findings if _key(f) == _key(finding)]


def _place(told: _Told, place: Location | None) -> str:
    """Return file and line of an action; its place in the plan where no line is known."""
    if place is None:
        return ""
    spot = told.places.spot(place)
    if spot.line is None:
        return clean(place.pointer or "")
    return clean(f"{shown(spot.file)}:{spot.line}")


def _told(told: _Told, place: Location) -> list[Any]:
    return [place.rank, place.action, clean(place.text or place.op), _place(told, place)]


def _stopped(told: _Told, rank: int) -> list[Any]:
    """Return where a missing rank stopped: in a call that holds it up, else after its last one."""
    if rank in told.blocked:
        return [rank, "waits in", *_told(told, told.blocked[rank])[1:]]
    held = next((s for s in _open(told) if s[0] == rank), None)
    if held is not None:
        return [rank, "waits in", *_told(told, told.plan.location(*held))[1:]]
    length = told.plan.length(rank)
    if not length:
        return [rank, "its program is empty", None, "", ""]
    return [rank, "ends after", *_told(told, told.plan.location(rank, length - 1))[1:]]


def _open(told: _Told) -> Iterator[tuple[int, int]]:
    """Yield the first call of each rank that never ends in the run."""
    first: dict[int, int] = {}
    for span in () if told.run is None else told.run.spans:
        if span.end is None:
            first[span.rank] = min(span.action, first.get(span.rank, span.action))
    yield from sorted(first.items())


def _waits(told: _Told, but: set[int]) -> Iterator[Wait]:
    """Yield who waits where and for what, equal calls of several ranks together.

    The ranks that a finding names come first, each with its reason.
    """
    rows: dict[tuple[str, str, str], list[int]] = {}
    for rank, place in told.blocked.items():
        if rank not in but:
            key = clean(place.text or place.op), _place(told, place), clean(told.reasons[rank])
            rows.setdefault(key, []).append(rank)
    known: dict[tuple[int, int], tuple[str, str]] = {}
    for rank, action in _open(told):
        if rank in but or rank in told.blocked:
            continue
        program = told.plan.code.rank_program[rank], action
        if program not in known:
            place = told.plan.location(rank, action)
            known[program] = clean(place.text or place.op), _place(told, place)
        rows.setdefault((*known[program], "behind them"), []).append(rank)
    for (text, where, why), ranks in rows.items():
        yield Wait(sorted(ranks), text, where, why)
