"""The whole answer for one plan: findings, what was proved or left open, models, the last line."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from planguard.catalog import find
from planguard.explain.lines import Line, Style, flow, line, render
from planguard.explain.prose import FindingText, condition, plan_name
from planguard.verdict import Outcome
from planguard.words import plural

if TYPE_CHECKING:
    from planguard.plan.plan import Plan
    from planguard.verdict import Evidence, Finding, Location, Stats, Verdict

ROLE = {
    Outcome.SAFE: "ok",
    Outcome.UNKNOWN: "unknown",
    Outcome.POTENTIAL_DEADLOCK: "error",
    Outcome.MISMATCH: "error",
    Outcome.DEADLOCK: "error",
}
KEY = 11
PROVED = {
    "matching": "matching",
    "p2p-order": "p2p order",
    "collective-order": "collective order on every group",
    "rounds": "rounds by label",
    "fusion-order": "fused-buffer windows (any flush order)",
    "no-send-buffering": "no reliance on send buffering",
}
ASSUMES = {
    "static-shapes": "shapes",
    "static-control-flow": "control flow",
    "no-link-faults": "link faults excluded",
    "sizes-not-compared": "sizes agree where the plan does not say them",
    "coordinated-fusion": "fused buffers are coordinated as the plan says",
}
ROUTES = {
    "deterministic": "deterministic run",
    "rounds": "round check",
    "any-order": "any-order check",
    "weak-order": "weak-order check",
    "cycle": "cycle search",
    "fusion": "fused-buffer check",
    "quotient": "one member of every class of equal ranks",
    "explorer": "exploration",
    "smt": "solver",
}


def explain_text(verdict: Verdict, plan: Plan | None = None, style: Style | None = None) -> str:
    """Return the full diagnostic of a verdict, the verdict line last.

    Args:
        verdict: The verdict.
        plan: Its plan; with it, the actions around those of each finding are shown.
        style: Width and colors; 80 columns without colors if None.
    """
    style = style or Style()
    lines = body_lines(verdict, plan, style.width)
    return render([*lines, verdict_line(verdict, style.width)], style)


def body_lines(
    verdict: Verdict, plan: Plan | None, width: int, *, name: str | None = None
) -> list[Line]:
    """Return findings, the pass or undecided block and the models, each with an empty line.

    Args:
        verdict: The verdict.
        plan: Its plan, if it is at hand.
        width: Columns.
        name: What the plan is called; its file or its own name if None.
    """
    name = name or plan_name(verdict, plan)
    reasons = [f for f in verdict.findings if _is_reason(f)]
    blocks = _findings(verdict, plan, width, name)
    if verdict.unknown:
        blocks.append(_unknown(verdict, reasons, name, width))
    elif verdict.safe:
        blocks.append(_ok(verdict, width))
    if len(verdict.models) > 1:
        blocks.append(_matrix(verdict, width))
    return [spans for block in blocks for spans in (*block, ())]


def _findings(verdict: Verdict, plan: Plan | None, width: int, name: str) -> list[list[Line]]:
    blocks: list[list[Line]] = []
    told: set[str] = set()
    shown = [f for f in verdict.findings if not _is_reason(f) and f.suppressed is None]
    for finding in fold_alike(shown):
        identity = "" if finding.witness is None else finding.witness.id
        text = FindingText(
            finding,
            verdict,
            plan,
            name=name,
            tells_conditions=not blocks and verdict.unsafe and len(verdict.models) < 2,
            tells_schedule=identity not in told,
        )
        told.add(identity)
        blocks.append(text.lines(width))
    return blocks


def fold_alike(findings: list[Finding]) -> list[Finding]:
    """Join findings that differ in rank numbers only: planners write the same bug for every pair.

    Result files keep them apart; to a reader the ranks of the others are enough.
    """
    first: dict[object, Finding] = {}
    for finding in findings:
        places = [edge.at for edge in finding.cycle]
        if finding.primary is not None and not places:
            places = [finding.primary, *finding.related_actions]
        message = re.sub(r"\d+", "", finding.message)
        key: object = (finding.code, finding.severity, message, tuple(map(_alike, places)))
        if len(places) < 2:
            key = id(finding)  # too little to compare
        known = first.get(key)
        if known is None:
            first[key] = finding
        else:
            others = (*known.equivalent, finding.ranks, *finding.equivalent)
            first[key] = replace(known, equivalent=others)
    return list(first.values())


def _alike(place: Location) -> tuple[object, ...]:
    return place.action, place.op, re.sub(r"\d+", "", place.text), place.source


def _is_reason(finding: Finding) -> bool:
    """Tell whether a finding only says why nothing was decided."""
    code = find(finding.code)
    return code is not None and code.outcome == "unknown"


def _field(key: str, text: str, width: int, role: str = "") -> list[Line]:
    return flow(line("    ", ("strong", f"{key}:".ljust(KEY))), text, role, width=width)


# --- pass ----------------------------------------------------------------------------------------


def _ok(verdict: Verdict, width: int) -> list[Line]:
    stats = verdict.stats
    out = [line(("ok", "ok"), ": no admissible execution deadlocks or mismatches")]
    classes = plural(stats.classes, "SPMD class").replace("classs", "classes")
    text = f"{sizes(stats)}, {plural(stats.groups, 'group')}; {classes}; model {verdict.model}"
    out += flow(line("    "), text, width=width)
    out += _field("proved", ", ".join(PROVED.get(name, name) for name in verdict.proved), width)
    return out + _field("assumes", _assumptions(verdict), width)


def _assumptions(verdict: Verdict) -> str:
    known = [ASSUMES.get(name, name) for name in verdict.assumptions]
    of_plan = [name for name in ("shapes", "control flow") if name in known]
    said = [f"{' and '.join(of_plan)} are those of the plan"] if of_plan else []
    said += [name for name in known if name not in of_plan]
    said += [f"{a.kind}: {a.message}" for a in verdict.approximations]
    return "; ".join(said) or "nothing beyond the plan"


# --- undecided -----------------------------------------------------------------------------------


def _unknown(verdict: Verdict, reasons: list[Finding], name: str, width: int) -> list[Line]:
    used = any(a.used for a in verdict.approximations)
    other = "it rests on an approximation" if used else "an error contradicts what completes"
    codes = ", ".join(dict.fromkeys(f.code for f in reasons)) or other
    head = line(("unknown", "unknown"), ": ")
    out = flow(head, f"not decided ({codes})", "strong", width=width, hang=4)
    arrow = line(("gutter", "   --> "))
    out += flow(arrow, name, width=width)
    decided = ", ".join(PROVED.get(name, name) for name in verdict.proved)
    out += _field("decided", decided or "nothing: what is open could change every match", width)
    messages = [f.message.removeprefix("not decided: ") for f in reasons] or list(verdict.reasons)
    if codes == "PG910":  # a play says beside it which line keeps the ranks from communicating
        messages += [reason for reason in verdict.reasons if reason not in messages]
    for message in messages:
        out += _field("open", message, width)
    for advice in dict.fromkeys(f.help for f in reasons if f.help):
        out += _field("next", advice, width)
    for code in dict.fromkeys(f.code for f in reasons):
        out += _field("more", f"planguard explain {code}", width)
    return out


# --- models --------------------------------------------------------------------------------------


def _matrix(verdict: Verdict, width: int) -> list[Line]:
    name_width = max(len(name) for name in verdict.models) + 2
    out = [line(("strong", f"{'model':{name_width}}{'outcome':21}codes"))]
    for name, outcome in verdict.models.items():
        codes = ", ".join(verdict.model_codes.get(name, ()))
        out += flow(
            line(f"{name:{name_width}}", (ROLE[outcome], f"{outcome.value:21}")), codes, width=width
        )
    for safe in verdict.safe_iff:
        out += flow(line(("strong", "safe iff: ")), condition(safe), width=width)
    return out


# --- last lines ----------------------------------------------------------------------------------


def sizes(stats: Stats) -> str:
    """Return the size of a plan: ``16 ranks, 80,000 actions``."""
    return f"{plural(stats.ranks, 'rank')}, {plural(stats.actions, 'action')}"


def counts(findings: list[Finding]) -> str:
    """Return how many findings of each severity there are: ``1 error, 2 warnings``."""
    parts = [
        plural(number, severity)
        for severity in ("error", "warning", "note")
        if (number := sum(f.severity == severity for f in findings))
    ]
    return ", ".join(parts) or "no findings"


def verdict_line(verdict: Verdict, width: int, refused: str = "", accepted: str = "") -> Line:
    """Return the last line: outcome, model, and on what it rests, if there is room for it.

    Args:
        verdict: The verdict.
        width: Columns.
        refused: Why it does not pass though the plan is safe; it stands for what it rests on.
        accepted: Why it passes though the plan is unsafe; likewise.
    """
    parts: list[str | tuple[str, str]] = [
        "verdict: ",
        (ROLE[verdict.outcome], verdict.outcome.value),
    ]
    parts.append(f"   model {verdict.model}")
    spans = line(*parts)
    if refused:
        return (*spans, ("", "   "), ("error", refused))
    if accepted:
        return (*spans, ("", f"   {accepted}"))
    if verdict.unknown:
        return spans
    found = f"   evidence {evidence(verdict.evidence)}"
    used = sum(len(text) for _, text in spans)
    for text in (found, found.partition(" (")[0]):
        if used + len(text) <= width:
            return (*spans, ("", text))
    return spans


def evidence(found: Evidence) -> str:
    """Return how an answer was decided, for people."""
    if found.kind == "trace":
        return "trace"
    routes = [ROUTES.get(route, route) for route in found.route]
    if found.route == ("deterministic",) and found.schedules > 1:
        routes = [f"{found.schedules:,} deterministic runs"]
    text = " + ".join(routes)
    if found.states:
        text += f", {plural(found.states, 'state')}"
    if "smt" in found.route:
        return f"{text} ({found.z3_ms:,.0f} ms)" if found.z3_ms else text
    return f"{text} (no solver needed)"
