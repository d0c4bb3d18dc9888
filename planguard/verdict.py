"""Verdict, Finding, Witness, Approximation: what PlanGuard answers. Frozen, with JSON in and out.

The fields follow ``planguard.result/1``; ``docs/reference/result.md`` describes each. A verdict is
data: nothing of PlanGuard is imported here but the table of what its methods call.

Above 400 lines: one answer, and every record that is in it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from planguard.views import VIEWS

if TYPE_CHECKING:
    from pathlib import Path

AnyPlan = TypeVar("AnyPlan")
"""A ``Plan``, which is above a verdict."""


class Outcome(enum.Enum):
    """The answer for one plan under one execution model, ordered by severity (ADR 0001)."""

    SAFE = "SAFE"
    UNKNOWN = "UNKNOWN"
    POTENTIAL_DEADLOCK = "POTENTIAL_DEADLOCK"
    MISMATCH = "MISMATCH"
    DEADLOCK = "DEADLOCK"

    @property
    def severity(self) -> int:
        """Rank by severity: SAFE 0 up to DEADLOCK 4."""
        return _SEVERITY[self]

    def __bool__(self) -> bool:
        raise TypeError("an Outcome is not a bool; compare it with Outcome.SAFE")


_SEVERITY = {outcome: place for place, outcome in enumerate(Outcome)}


@dataclass(frozen=True)
class Source:
    """Where an action comes from in the planner's own input."""

    file: str
    line: int | None = None
    function: str | None = None


@dataclass(frozen=True)
class Location:
    """One action of one rank.

    Attributes:
        rank: Global rank.
        action: 0-based index in the rank's program; ``repeat`` unrolled, a ``batch`` counts once.
        id: The action's own ``id`` in the plan, if any.
        source: Planner location, if known.
        text: The action in one line, for people: ``send -> 6  act_s1_s2  4.00 MiB f16``.
        pointer: JSON path of the action in the plan file, if it came from one.
        op: Operation name in torch spelling.
        member: Index inside a batch, if the location is one of its members.
    """

    rank: int
    action: int
    id: str | None = None
    source: Source | None = None
    text: str = ""
    pointer: str | None = None
    op: str = ""
    member: int | None = None


@dataclass(frozen=True)
class CycleEdge:
    """Why one stuck action waits for another (``why`` is the closed list of the result schema).

    Attributes:
        at: The action that is stuck.
        waits_for: The action that would free it.
        behind: The action of ``waits_for``'s rank that is stuck in front of it, or None when that
            rank has ended or never issues the action.
        why: send-unmatched, recv-unmatched, collective-incomplete, wait-handle, stream-edge, event,
            queue, dependency, init, exited.
    """

    at: Location
    waits_for: Location | None
    behind: Location | None
    why: str


@dataclass(frozen=True)
class WitnessStep:
    """One step of a schedule. ``event`` is issue, start, complete, flush or wait."""

    step: int
    rank: int
    action: int
    event: str


@dataclass(frozen=True)
class Met:
    """Who met whom where more than one could: ``(rank, action)`` of a receive or probe, a send."""

    receive: tuple[int, int]
    send: tuple[int, int]


@dataclass(frozen=True)
class Flushed:
    """One flush of a fused buffer: its members, in the order in which they stand in it."""

    rank: int
    buffer: str
    actions: tuple[int, ...]


@dataclass(frozen=True)
class Witness:
    """A schedule that ends in a stuck state or in a bad match; re-executed before it is shown.

    Attributes:
        id: First characters of the hash of ``encoded``.
        encoded: Short string that ``planguard replay --schedule`` accepts.
        minimal: True when no rank and no action can be left out (checked by execution).
        steps: The schedule.
        blocked: ``(rank, action)`` of every rank stuck at its end.
        actions: ``(rank, action)`` kept in the witness, in program order per rank.
        end: ``stuck`` or ``mismatch``.
        matches: Where messages compete, who met whom in this execution.
        flushes: Where buffers are fused, the flushes of this execution, in order on each rank.
        fixed: The run behind it, where the plan leaves something open: a ``plan.fixed.Shown``. In
            memory only: neither written, nor compared, nor pickled.
    """

    id: str
    encoded: str
    minimal: bool
    steps: tuple[WitnessStep, ...] = ()
    blocked: tuple[tuple[int, int], ...] = ()
    actions: tuple[tuple[int, int], ...] = ()
    end: str = "stuck"
    matches: tuple[Met, ...] = ()
    flushes: tuple[Flushed, ...] = ()
    fixed: Any = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "fixed": None}


@dataclass(frozen=True)
class Edit:
    """One edit of a plan file: JSON Pointer, operation (add, remove, replace), value."""

    pointer: str
    op: str
    value: Any = None
    text: str = ""


@dataclass(frozen=True)
class Repair:
    """A change of the plan. ``applicability`` is ``verified`` only after it was re-proved.

    Attributes:
        kind: What is done: ``batch``, ``move``, ...; several joined by ``+``.
        applicability: ``verified`` or ``unverified``.
        edits: What to do to the plan file, in this order, if there is one.
        text: The same in one sentence.
        models: Execution models under which the changed plan was proved SAFE.
        smallest: No repair of fewer edits exists; ``patch``: the diff, of the program's source.
    """

    kind: str
    applicability: str
    edits: tuple[Edit, ...] = ()
    text: str = ""
    models: tuple[str, ...] = ()
    smallest: bool = False
    patch: str = ""

    def applied(self, plan: AnyPlan) -> AnyPlan:
        """Return the plan with the edits of this repair; the plan itself is not changed.

        Args:
            plan: The plan that was checked, or one that has the same actions at these places.

        Raises:
            PlanError: An edit names a place that the plan does not have, or what it gives is no
                plan.
            UsageError: The repair has no edits of a plan: it is one of the program's source.
        """
        changed: AnyPlan = VIEWS["repaired"](self, plan)
        return changed


@dataclass(frozen=True)
class Finding:
    """One fact about the plan, with its code, place and reasons (docs/reference/result.md)."""

    code: str
    name: str
    severity: str
    certainty: str
    evidence: str
    message: str
    ranks: tuple[int, ...] = ()
    primary: Location | None = None
    related_actions: tuple[Location, ...] = ()
    cycle: tuple[CycleEdge, ...] = ()
    subkind: str | None = None
    witness: Witness | None = None
    equivalent: tuple[tuple[int, ...], ...] = ()
    consequences: tuple[str, ...] = ()
    related: tuple[str, ...] = ()
    fixes: tuple[Repair, ...] = ()
    notes: tuple[str, ...] = ()
    help: str = ""
    measured: dict[str, Any] | None = None
    suppressed: dict[str, str] | None = None
    fingerprint: str = ""


@dataclass(frozen=True)
class Approximation:
    """One entry of the approximation ledger (ADR 0007).

    Attributes:
        kind: Short name, for example ``dynamic-shape``, ``no-labels``, ``spmd-substitution``.
        message: One sentence.
        direction: ``over`` admits executions that may not exist: it spoils a witness that
            touches it. ``under`` leaves executions out: it spoils SAFE. ``exact`` is only a note.
        actions: ``(rank, action)`` it touches; empty with ``scope='plan'`` means all. With
            ``scope='onward'`` these and all that the rank does behind them: it may do otherwise;
            empty, what is issued is certain, and further calls may come.
        used: Whether the answer touched it.
    """

    kind: str
    message: str
    direction: str = "exact"
    actions: tuple[tuple[int, int], ...] = ()
    scope: str = "actions"
    used: bool = False


@dataclass(frozen=True)
class SafeIff:
    """A condition under which an unsafe plan becomes safe.

    ``kind`` is send-buffering (``bytes``; ``eager_bytes``, the threshold of the eager models, where
    it is not the usual one), launch-order (``groups``), fusion-order (``buffers``,
    and ``bytes``, their least safe capacity), batching (``actions``), uniform-branch
    (``branches``, the names of choices).
    """

    kind: str
    bytes: int | None = None
    groups: tuple[str, ...] = ()
    buffers: tuple[str, ...] = ()
    actions: tuple[tuple[int, int], ...] = ()
    branches: tuple[str, ...] = ()
    eager_bytes: int | None = None


@dataclass(frozen=True)
class Evidence:
    """How the answer was decided; ``docs/reference/result.md`` lists routes and engines."""

    kind: str = "execution"
    route: tuple[str, ...] = ("deterministic",)
    engine: str = "fast"
    schedules: int = 1
    states: int = 0
    z3_ms: float = 0.0
    certificate: str | None = None


@dataclass(frozen=True)
class PlanInfo:
    """Which plan was judged."""

    file: str | None = None
    name: str | None = None
    sha256: str | None = None
    signature: str | None = None
    planner: str | None = None


@dataclass(frozen=True)
class Stats:
    """Size of the plan and time of the check (milliseconds)."""

    ranks: int = 0
    actions: int = 0
    groups: int = 0
    classes: int = 0
    ms: float = 0.0


class Page(Protocol):
    """What ``Verdict.report`` returns: a report page.

    Attributes:
        data: The file, UTF-8.
    """

    data: bytes

    def save(self, path: str | Path) -> None:
        """Write the file."""


class Matrix(Protocol):
    """What ``Verdict.matrix`` returns: who sends how much to whom, senders as rows.

    Attributes:
        bytes: ``int64 [n, n]``, bytes from row to column.
        counts: ``int64 [n, n]``, messages from row to column.
        labels: Name of every row.
        algorithm: How collectives were taken apart.
    """

    bytes: Any
    counts: Any
    labels: tuple[str, ...]
    algorithm: str

    @property
    def total_bytes(self) -> int:
        """The sum of all bytes."""

    def to_dataframe(self, field: str = "bytes") -> Any:
        """Return a pandas DataFrame."""


def built(plan: Any) -> Any:
    """Return a plan, of a builder the plan that it makes; ``check`` takes both."""
    build = getattr(plan, "build", None)
    return plan if build is None else build()


@dataclass(frozen=True)
class Verdict:
    """What PlanGuard says of one plan under one execution model."""

    outcome: Outcome
    model: str
    findings: tuple[Finding, ...] = ()
    complete: bool = True
    models: dict[str, Outcome] = field(default_factory=dict)
    model_codes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    safe_iff: tuple[SafeIff, ...] = ()
    evidence: Evidence = field(default_factory=Evidence)
    proved: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    approximations: tuple[Approximation, ...] = ()
    reasons: tuple[str, ...] = ()
    certificate: dict[str, Any] | None = None
    core: tuple[tuple[int, int], ...] = ()
    plan: PlanInfo = field(default_factory=PlanInfo)
    stats: Stats = field(default_factory=Stats)
    native: bool = False

    def __bool__(self) -> bool:
        raise TypeError("a Verdict is not a bool; use .safe / .unsafe / .unknown")

    @property
    def safe(self) -> bool:
        """True only for SAFE."""
        return self.outcome is Outcome.SAFE

    @property
    def unsafe(self) -> bool:
        """True for DEADLOCK, MISMATCH and POTENTIAL_DEADLOCK."""
        return self.outcome.severity >= Outcome.POTENTIAL_DEADLOCK.severity

    @property
    def unknown(self) -> bool:
        """True when the plan was not decided."""
        return self.outcome is Outcome.UNKNOWN

    @property
    def witness(self) -> Witness | None:
        """The witness of the most severe finding that has one."""
        return next((f.witness for f in self.findings if f.witness is not None), None)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Error-level findings that are not suppressed."""
        return tuple(f for f in self.findings if f.severity == "error" and f.suppressed is None)

    def to_json(self, *, reproducible: bool = False) -> dict[str, Any]:
        """Return the ``planguard.result/1`` object, keys sorted, without timestamps.

        Args:
            reproducible: Leave out the times, so that equal inputs give equal bytes.
        """
        found: dict[str, Any] = VIEWS["json"](self, reproducible=reproducible)
        return found

    def about(self, plan: object) -> Verdict:
        """Remember the plan that was checked, so that ``report`` can draw it.

        The plan is no field: it takes no part in equality, in JSON or in ``dataclasses.replace``.
        """
        self.__dict__["_checked"] = plan
        return self

    def report(self, plan: object = None) -> Page:
        """Return the report page: findings, witness, timeline, matrices, graph, tables.

        A notebook shows it in an isolated frame; ``save`` writes the file.

        Args:
            plan: The plan; the one that was checked, or the plan file it came from, if None.

        Raises:
            UsageError: The plan is not at hand.
        """
        found: Page = VIEWS["page"](self, self._plan(plan))
        return found

    def matrix(
        self,
        plan: object = None,
        *,
        algorithm: str = "ring",
        by_node: bool = False,
        **wanted: str,
    ) -> Matrix:
        """Return what the plan moves: ``int64 [n, n]`` arrays of bytes and messages.

        Rows are senders, columns receivers; ``to_dataframe`` gives a pandas DataFrame.

        Args:
            plan: The plan; the one that was checked, or the plan file it came from, if None.
            algorithm: How collectives move data: ``ring``, ``tree``, ``pairwise``, ``direct``.
            by_node: One row per node of the topology.
            wanted: Only this traffic: ``family``, ``primitive``, ``group``, ``dtype``, ``phase``.

        Raises:
            UsageError: The plan is not at hand, the algorithm or a kind of traffic is not known, or
                there are too many ranks for a cell each.
        """
        chosen = self._plan(plan)
        found: Matrix = VIEWS["matrix"](self, chosen, algorithm, by_node=by_node, **wanted)
        return found

    def _plan(self, plan: object) -> object:
        return self.__dict__.get("_checked") if plan is None else built(plan)

    def __str__(self) -> str:
        """Return the full diagnostic, the verdict line last."""
        return str(VIEWS["text"](self)).rstrip("\n")

    def _repr_html_(self) -> str:
        """Return the verdict and a table of its findings, for a notebook."""
        return str(VIEWS["html"](self))
