"""``planguard.result/1`` to Verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import UNSET

from planguard.errors import PlanError, UsageError, shorten
from planguard.records import converted
from planguard.result import document as doc
from planguard.verdict import (
    Approximation,
    CycleEdge,
    Edit,
    Evidence,
    Finding,
    Flushed,
    Location,
    Met,
    Outcome,
    PlanInfo,
    Repair,
    SafeIff,
    Source,
    Stats,
    Verdict,
    Witness,
    WitnessStep,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_Doc = TypeVar("_Doc", bound=msgspec.Struct)
_Located = dict[tuple[int, int], Location]


def verdict_from_json(document: object) -> Verdict:
    """Return the verdict of a result object; unknown fields are ignored.

    The certificate itself is not part of a result file and stays None.

    Raises:
        UsageError: Not a ``planguard.result/1`` object; the message has the path of the field.
        PlanError: The object says that the plan could not be read; its error is raised again.
    """
    if isinstance(document, dict) and document.get("error") is not None:
        unread = _converted(document, doc.UnreadDoc)
        raise PlanError(
            unread.error.message,
            code=unread.error.code,
            file=unread.plan.file,
            path=unread.error.path,
            hint=unread.error.hint,
        )
    return _verdict(_converted(document, doc.ResultDoc))


def _converted(document: object, kind: type[_Doc]) -> _Doc:
    try:
        return converted(document, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UsageError(
            f"not a {doc.SCHEMA} object: {shorten(str(error), 200)}",
            hint="write results with `planguard check PLAN --format json`",
        ) from None


def _verdict(result: doc.ResultDoc) -> Verdict:
    return Verdict(
        outcome=Outcome(result.outcome),
        model=result.model,
        findings=tuple(_finding(finding) for finding in result.findings),
        complete=result.complete,
        models={name: Outcome(value) for name, value in result.models.items()},
        model_codes={name: tuple(codes) for name, codes in _said(result.model_codes, {}).items()},
        safe_iff=tuple(SafeIff(**_fields(condition)) for condition in result.safe_iff),
        evidence=_evidence(result.evidence),
        proved=tuple(result.proved),
        assumptions=tuple(result.assumptions),
        approximations=tuple(Approximation(**_fields(a)) for a in result.approximations),
        reasons=tuple(_said(result.reasons, ())),
        core=tuple(_said(result.core, ())),
        plan=PlanInfo(**_fields(result.plan)),
        stats=Stats(**_fields(result.stats)),
        native=result.tool.native,
    )


def _said(value: Any, otherwise: Any) -> Any:
    return otherwise if value is UNSET else value


def _fields(document: msgspec.Struct) -> dict[str, Any]:
    """Return the fields that are set; lists become the tuples of the dataclass."""
    found = ((name, getattr(document, name)) for name in document.__struct_fields__)
    return {
        name: tuple(item) if isinstance(item, list) else item
        for name, item in found
        if item is not UNSET
    }


def _evidence(evidence: doc.EvidenceDoc) -> Evidence:
    fields = _fields(evidence)
    if isinstance(fields["route"], str):
        fields["route"] = (fields["route"],)
    return Evidence(**fields)


def _location(location: doc.LocationDoc) -> Location:
    fields = {name: item for name, item in _fields(location).items() if name in _LOCATION_FIELDS}
    if (source := fields.get("source")) is not None:
        fields["source"] = Source(**_fields(source))
    return Location(**fields)


_LOCATION_FIELDS = frozenset(doc.LocationDoc.__struct_fields__)


def _edge(edge: doc.CycleEdgeDoc, known: _Located) -> CycleEdge:
    goal = edge.waits_for
    behind = None
    if goal is not None and goal.behind is not None:
        # Only its number is written: the action itself usually is another edge of the cycle.
        place = (goal.rank, goal.behind)
        behind = known.get(place) or Location(*place)
    return CycleEdge(
        at=_location(edge),
        waits_for=None if goal is None else _location(goal),
        behind=behind,
        why=edge.why,
    )


def _witness(witness: doc.WitnessDoc) -> Witness:
    steps = tuple(WitnessStep(**_fields(step)) for step in witness.steps)
    fields = _fields(witness)
    matches = tuple(Met(**_fields(met)) for met in fields.get("matches", ()))
    flushes = tuple(Flushed(**_fields(one)) for one in fields.get("flushes", ()))
    return Witness(**fields | {"steps": steps, "matches": matches, "flushes": flushes})


def _repair(repair: doc.RepairDoc) -> Repair:
    edits = tuple(Edit(**_fields(edit)) for edit in repair.edits)
    return Repair(**_fields(repair) | {"edits": edits})


def _optional(make: Callable[[Any], Any], document: Any) -> Any:
    return None if document is None or document is UNSET else make(document)


def _finding(finding: doc.FindingDoc) -> Finding:
    located = [finding.primary, *finding.related_actions, *finding.cycle]
    known = {(at.rank, at.action): _location(at) for at in located if at is not None}
    return Finding(
        **_fields(finding)
        | {
            "primary": _optional(_location, finding.primary),
            "related_actions": tuple(map(_location, finding.related_actions)),
            "cycle": tuple(_edge(edge, known) for edge in finding.cycle),
            "witness": _optional(_witness, finding.witness),
            "equivalent": tuple(tuple(ranks) for ranks in finding.equivalent),
            "fixes": tuple(_repair(repair) for repair in finding.fixes),
            "measured": _optional(_fields, finding.measured),
            "suppressed": _optional(_fields, finding.suppressed),
        }
    )
