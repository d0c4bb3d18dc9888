"""The shape of ``planguard.result/1``: written, read back, and described by the JSON Schema.

One set of structs serves all three, so they cannot disagree. A field with ``UNSET`` is left out
when there is nothing to say; every other field is always there. Readers ignore unknown fields:
fields may be added within the major number.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

SCHEMA: Literal["planguard.result/1"] = "planguard.result/1"

Rank = Annotated[int, Meta(ge=0)]
Action = Annotated[int, Meta(ge=0, description="0-based index in the rank's program")]
RankAction = tuple[Rank, Action]
CodeNumber = Annotated[str, Meta(pattern=r"^PG[0-9]{3}$")]
OutcomeName = Literal["SAFE", "UNKNOWN", "POTENTIAL_DEADLOCK", "MISMATCH", "DEADLOCK"]
RouteName = Literal[
    "deterministic",
    "rounds",
    "any-order",
    "weak-order",
    "cycle",
    "fusion",
    "quotient",
    "explorer",
    "smt",
]
WhyName = Literal[
    "send-unmatched",
    "recv-unmatched",
    "collective-incomplete",
    "wait-handle",
    "stream-edge",
    "event",
    "queue",
    "dependency",
    "init",
    "exited",
]


class SourceDoc(Struct, frozen=True):
    """Where an action comes from in the planner's own input."""

    file: str
    line: int | None = None
    function: str | None = None


class LocationDoc(Struct, frozen=True):
    """One action of one rank."""

    rank: Rank
    action: Action
    id: str | UnsetType | None = UNSET
    source: SourceDoc | UnsetType | None = UNSET
    op: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    pointer: str | UnsetType = UNSET
    member: int | UnsetType = UNSET


class WaitsForDoc(LocationDoc, frozen=True, kw_only=True):
    """The action that would free a stuck one, and what its own rank is stuck at."""

    behind: int | None


class CycleEdgeDoc(LocationDoc, frozen=True, kw_only=True):
    """A stuck action and what it waits for; null when that call is never made."""

    waits_for: WaitsForDoc | None
    why: WhyName


class StepDoc(Struct, frozen=True):
    """One step of a schedule."""

    step: int
    rank: Rank
    action: Action
    event: Literal["issue", "start", "complete", "flush", "wait"]


class MetDoc(Struct, frozen=True):
    """Who met whom where more than one could."""

    receive: RankAction
    send: RankAction


class FlushedDoc(Struct, frozen=True):
    """One flush of a fused buffer."""

    rank: Rank
    buffer: str
    actions: list[Action]


class WitnessDoc(Struct, frozen=True):
    """A schedule that ends in a stuck state or a bad match."""

    id: str
    encoded: str
    minimal: bool
    steps: list[StepDoc]
    blocked: list[RankAction]
    actions: list[RankAction] = []
    end: Literal["stuck", "mismatch"] = "stuck"
    matches: list[MetDoc] | UnsetType = UNSET
    flushes: list[FlushedDoc] | UnsetType = UNSET


class EditDoc(Struct, frozen=True):
    """One edit of the plan file."""

    pointer: str
    op: Literal["add", "remove", "replace"]
    value: Any = None
    text: str | UnsetType = UNSET


class RepairDoc(Struct, frozen=True):
    """A change of the plan; ``verified`` only after it was proved."""

    kind: str
    applicability: Literal["verified", "unverified"]
    edits: list[EditDoc]
    text: str | UnsetType = UNSET
    models: list[str] | UnsetType = UNSET
    smallest: bool | UnsetType = UNSET
    patch: str | UnsetType = UNSET


class MeasuredDoc(Struct, frozen=True):
    """The figure behind a performance finding."""

    value: float
    threshold: float
    unit: str
    basis: Literal["measured", "modeled"]


class SuppressedDoc(Struct, frozen=True):
    """Who silenced a finding, and why."""

    by: Literal["baseline", "config"]
    reason: str


class FindingDoc(Struct, frozen=True, kw_only=True):
    """One fact about the plan."""

    code: CodeNumber
    name: str
    severity: Literal["error", "warning", "note"]
    certainty: Literal["all-executions", "some-execution", "heuristic"]
    evidence: str
    message: str
    ranks: list[Rank]
    primary: LocationDoc | None
    related_actions: list[LocationDoc]
    cycle: list[CycleEdgeDoc]
    witness: WitnessDoc | None
    equivalent: list[list[Rank]]
    consequences: list[str]
    related: list[CodeNumber]
    fixes: list[RepairDoc]
    suppressed: SuppressedDoc | None
    fingerprint: str
    subkind: str | UnsetType = UNSET
    notes: list[str] | UnsetType = UNSET
    help: str | UnsetType = UNSET
    measured: MeasuredDoc | UnsetType = UNSET


class SafeIffDoc(Struct, frozen=True):
    """A condition under which the plan becomes safe; each kind has its own field."""

    kind: Literal["send-buffering", "launch-order", "fusion-order", "batching", "uniform-branch"]
    bytes: int | UnsetType = UNSET
    groups: list[str] | UnsetType = UNSET
    buffers: list[str] | UnsetType = UNSET
    actions: list[RankAction] | UnsetType = UNSET
    branches: list[str] | UnsetType = UNSET
    eager_bytes: int | UnsetType = UNSET


class EvidenceDoc(Struct, frozen=True):
    """How the answer was decided; ``route`` is a list when parts took different routes."""

    kind: Literal["execution", "exhaustive", "proof", "trace"]
    route: RouteName | list[RouteName]
    engine: Literal["fast", "explorer", "smt"]
    schedules: int
    states: int
    certificate: str | None
    z3_ms: float | UnsetType = UNSET


class ApproximationDoc(Struct, frozen=True):
    """One entry of the approximation ledger."""

    kind: str
    message: str
    actions: list[RankAction]
    used: bool
    direction: Literal["over", "under", "exact"] = "exact"
    scope: str = "actions"


class PlanDoc(Struct, frozen=True):
    """Which plan was judged."""

    file: str | None = None
    name: str | None = None
    sha256: str | None = None
    signature: str | None = None
    planner: str | None = None


class StatsDoc(Struct, frozen=True):
    """Size of the plan and time of the check."""

    ranks: int
    actions: int
    groups: int
    classes: int
    ms: float | UnsetType = UNSET


class ToolDoc(Struct, frozen=True):
    """What gave the answer; ``native`` when compiled kernels were used."""

    name: str
    version: str
    native: bool


class ErrorDoc(Struct, frozen=True):
    """Why a plan could not be read."""

    code: CodeNumber
    path: str
    message: str
    hint: str


class ResultDoc(Struct, frozen=True, kw_only=True):
    """What PlanGuard says of one plan."""

    schema: Literal["planguard.result/1"]
    plan: PlanDoc
    outcome: OutcomeName
    complete: bool
    model: str
    models: dict[str, OutcomeName]
    safe_iff: list[SafeIffDoc]
    evidence: EvidenceDoc
    proved: list[str]
    assumptions: list[str]
    approximations: list[ApproximationDoc]
    findings: list[FindingDoc]
    stats: StatsDoc
    tool: ToolDoc
    model_codes: dict[str, list[str]] | UnsetType = UNSET
    reasons: list[str] | UnsetType = UNSET
    core: list[RankAction] | UnsetType = UNSET


class UnreadDoc(Struct, frozen=True, kw_only=True):
    """What is written for a plan that could not be read."""

    schema: Literal["planguard.result/1"]
    plan: PlanDoc
    outcome: None
    error: ErrorDoc


def result_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a result object."""
    shapes, components = msgspec.json.schema_components(
        [ResultDoc, UnreadDoc], ref_template="#/$defs/{name}"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": SCHEMA,
        "anyOf": list(shapes),
        "$defs": dict(sorted(components.items())),
    }
