"""Verdict to ``planguard.result/1``."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import UNSET

from planguard.arguments import FLAG, arguments
from planguard.result import document as doc

if TYPE_CHECKING:
    from planguard.errors import PlanError
    from planguard.verdict import (
        CycleEdge,
        Evidence,
        Finding,
        Location,
        Repair,
        SafeIff,
        Stats,
        Verdict,
        Witness,
    )


@arguments(reproducible=FLAG)
def verdict_to_json(verdict: Verdict, *, reproducible: bool = False) -> dict[str, Any]:
    """Return the ``planguard.result/1`` object of a verdict, keys sorted.

    Args:
        verdict: What to write.
        reproducible: Leave out ``stats.ms`` and ``evidence.z3_ms``, the only fields that vary.
    """
    result = doc.ResultDoc(
        schema=doc.SCHEMA,
        plan=doc.PlanDoc(**_fields(verdict.plan)),
        outcome=verdict.outcome.value,
        complete=verdict.complete,
        model=verdict.model,
        models={name: outcome.value for name, outcome in verdict.models.items()},
        safe_iff=[_safe_iff(condition) for condition in verdict.safe_iff],
        evidence=_evidence(verdict.evidence, reproducible=reproducible),
        proved=list(verdict.proved),
        assumptions=list(verdict.assumptions),
        approximations=[doc.ApproximationDoc(**_fields(a)) for a in verdict.approximations],
        findings=[_finding(finding) for finding in verdict.findings],
        stats=_stats(verdict.stats, reproducible=reproducible),
        tool=doc.ToolDoc("planguard", tool_version(), verdict.native),
        model_codes={name: list(codes) for name, codes in verdict.model_codes.items()} or UNSET,
        reasons=list(verdict.reasons) or UNSET,
        core=list(verdict.core) or UNSET,
    )
    return _built(result)


def error_to_json(error: PlanError, *, name: str | None = None) -> dict[str, Any]:
    """Return what stands in place of a result for a plan that could not be read.

    Args:
        error: Why.
        name: Name of the plan, if it was given one.
    """
    return _built(
        doc.UnreadDoc(
            schema=doc.SCHEMA,
            plan=doc.PlanDoc(file=error.file, name=name),
            outcome=None,
            error=doc.ErrorDoc(error.code, error.path, error.message, error.hint),
        )
    )


def tool_version() -> str:
    """Return the installed version of PlanGuard, or ``0+unknown`` in a bare checkout."""
    from importlib import metadata  # slow, and only a result needs it

    try:
        return metadata.version("planguard")
    except metadata.PackageNotFoundError:
        return "0+unknown"


def _built(document: msgspec.Struct) -> dict[str, Any]:
    return cast("dict[str, Any]", msgspec.to_builtins(document, order="sorted"))


def _fields(value: Any) -> dict[str, Any]:
    """Return the fields of a flat dataclass; its struct has fields of the same names."""
    found = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
    return {name: list(item) if isinstance(item, tuple) else item for name, item in found}


def _safe_iff(condition: SafeIff) -> doc.SafeIffDoc:
    said = {name: item for name, item in _fields(condition).items() if item not in (None, [])}
    return doc.SafeIffDoc(**said)


def _evidence(evidence: Evidence, *, reproducible: bool) -> doc.EvidenceDoc:
    fields = _fields(evidence)
    if len(evidence.route) == 1:
        fields["route"] = evidence.route[0]
    if reproducible:
        fields["z3_ms"] = UNSET
    return doc.EvidenceDoc(**fields)


def _stats(stats: Stats, *, reproducible: bool) -> doc.StatsDoc:
    fields = _fields(stats)
    if reproducible:
        fields["ms"] = UNSET
    return doc.StatsDoc(**fields)


def _location(location: Location) -> dict[str, Any]:
    """Return the fields of a location, without those that say nothing."""
    said: dict[str, Any] = {"rank": location.rank, "action": location.action}
    for name in ("id", "pointer", "member"):
        if (item := getattr(location, name)) is not None:
            said[name] = item
    for name in ("op", "text"):
        if item := getattr(location, name):
            said[name] = item
    if location.source is not None:
        said["source"] = doc.SourceDoc(**_fields(location.source))
    return said


def _primary(location: Location | None) -> doc.LocationDoc | None:
    if location is None:
        return None
    # Consumers point at source lines: say so explicitly where there is none.
    return doc.LocationDoc(**{"id": None, "source": None} | _location(location))


def _edge(edge: CycleEdge) -> doc.CycleEdgeDoc:
    goal = edge.waits_for
    behind = edge.behind.action if edge.behind is not None else None
    return doc.CycleEdgeDoc(
        **_location(edge.at),
        waits_for=None if goal is None else doc.WaitsForDoc(**_location(goal), behind=behind),
        why=cast("doc.WhyName", edge.why),
    )


def _witness(witness: Witness) -> doc.WitnessDoc:
    steps = [doc.StepDoc(**_fields(step)) for step in witness.steps]
    picked = {
        "matches": [doc.MetDoc(**_fields(met)) for met in witness.matches] or UNSET,
        "flushes": [doc.FlushedDoc(**_fields(one)) for one in witness.flushes] or UNSET,
    }
    fields = {name: item for name, item in _fields(witness).items() if name != "fixed"}
    return doc.WitnessDoc(**fields | {"steps": steps} | picked)


def _repair(repair: Repair) -> doc.RepairDoc:
    return doc.RepairDoc(
        kind=repair.kind,
        applicability=cast("Any", repair.applicability),
        edits=[doc.EditDoc(**_fields(e) | {"text": e.text or UNSET}) for e in repair.edits],
        text=repair.text or UNSET,
        models=list(repair.models) or UNSET,
        smallest=repair.smallest or UNSET,
        patch=repair.patch or UNSET,
    )


def _finding(finding: Finding) -> doc.FindingDoc:
    fields = _fields(finding)
    fields |= {
        "primary": _primary(finding.primary),
        "related_actions": [doc.LocationDoc(**_location(at)) for at in finding.related_actions],
        "cycle": [_edge(edge) for edge in finding.cycle],
        "witness": None if finding.witness is None else _witness(finding.witness),
        "equivalent": [list(ranks) for ranks in finding.equivalent],
        "fixes": [_repair(repair) for repair in finding.fixes],
        "suppressed": None if finding.suppressed is None else _suppressed(finding.suppressed),
        "measured": UNSET if finding.measured is None else doc.MeasuredDoc(**finding.measured),
        "subkind": UNSET if finding.subkind is None else finding.subkind,
        "notes": list(finding.notes) or UNSET,
        "help": finding.help or UNSET,
    }
    return doc.FindingDoc(**fields)


def _suppressed(suppressed: dict[str, str]) -> doc.SuppressedDoc:
    return doc.SuppressedDoc(cast("Any", suppressed["by"]), suppressed["reason"])
