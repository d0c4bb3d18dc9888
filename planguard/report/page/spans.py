"""The timeline of the page: spans by rank in program order, rows by stage, classes of equal ranks.

Bands of Marey's graph join the n-th spans of neighbors, so they exist only inside a class of ranks
whose sequences of operations are equal; stages are joined by the ribbons of their messages.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from planguard.plan.code import WORDS
from planguard.report.page.columns import ABSENT, Names
from planguard.report.page.headline import length, union
from planguard.report.places import shown
from planguard.simulate.entries import KINDS
from planguard.simulate.rates import computed, rate
from planguard.words import clean, name_ranks

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from planguard.plan.plan import Plan
    from planguard.plan.views import ActionView
    from planguard.report.page.columns import Columns
    from planguard.simulate.schedule import Schedule, Span

_COVERED = {
    "compute": ("compute",),
    "copy": ("copy",),
    "communication": ("collective", "send", "recv"),
}
"""Kinds of spans whose time is told together: what they cover, not their sum."""
FORWARD, BACKWARD = ("forward", "fwd", "f"), ("backward", "bwd", "b")


@dataclass(frozen=True)
class Row:
    """One rank of the timeline.

    Attributes:
        rank: Global rank.
        stages: Pipeline stages it holds.
        spans: Its spans in program order.
        alike: Number of its class: ranks of one class run the same sequence.
        phases: Phase of a computation by action, where a trace marks steps.
    """

    rank: int
    stages: tuple[int, ...]
    spans: tuple[Span, ...]
    alike: int
    phases: Mapping[int, str] = field(default_factory=dict)


def rows(found: Schedule, first: Collection[int] = ()) -> list[Row]:
    """Return the rows of a schedule, ordered by stage and rank.

    Args:
        found: The schedule.
        first: Ranks that come before the others of their stage, with their stage.
    """
    plan = found.plan
    drawn: Collection[int] = found.stands.keys() or range(plan.world_size)
    by_rank: dict[int, list[Span]] = {rank: [] for rank in drawn}
    names: dict[tuple[int, int, int | None], str] = {}
    for span in found.spans:
        by_rank[span.rank].append(span)
    classes: dict[tuple[Any, ...], int] = {}
    out = []
    for rank, spans in by_rank.items():
        spans.sort(key=lambda s: (s.action, -1 if s.member is None else s.member, s.start))
        program = plan.code.rank_program[rank]
        for span in spans:
            if (program, span.action, span.member) not in names:
                names[program, span.action, span.member] = _name(plan, span)
        sequence = tuple(
            (s.kind, s.action, s.member, names[program, s.action, s.member]) for s in spans
        )
        alike = classes.setdefault((stages_of(plan, rank), sequence), len(classes))
        phases = _phases(plan, spans) if found.steps else {}
        out.append(Row(rank, stages_of(plan, rank), tuple(spans), alike, phases))
    chosen = set(first)
    ahead = {(row.stages, row.alike) for row in out if row.rank in chosen}
    staged = {stages for stages, _ in ahead if stages}

    def place(row: Row) -> tuple[Any, ...]:
        own = row.stages in staged if row.stages else (row.stages, row.alike) in ahead
        return not own, row.stages, row.rank not in chosen, row.alike, row.rank

    return sorted(out, key=place)


def _phases(plan: Plan, spans: list[Span]) -> dict[int, str]:
    nodes: dict[int, Any] = {
        s.action: plan.action_at(s.rank, s.action).action for s in spans if s.kind == "compute"
    }
    said = {at: getattr(node, "phase", UNSET) for at, node in nodes.items()}
    return {at: str(phase).lower() for at, phase in said.items() if phase is not UNSET}


def _name(plan: Plan, span: Span) -> str:
    node: Any = plan.action_at(span.rank, span.action, span.member).action
    name = getattr(node, "op_name", UNSET)
    return str(node.__struct_config__.tag if name is UNSET else name)


def stages_of(plan: Plan, rank: int) -> tuple[int, ...]:
    """Return the stages a rank holds: those of its computations, else its place on ``pp``."""
    found = set()
    for node in plan.program(rank).nodes:
        stage = getattr(node, "stage", UNSET)
        if stage is not UNSET and node.__struct_config__.tag == "compute":
            found.add(int(stage))
    if found:
        return tuple(sorted(found))
    mesh = plan.mesh
    if mesh is not None and "pp" in mesh.names:
        return (mesh.coordinate(rank, mesh.names.index("pp")),)
    return ()


def tree(found: list[Row]) -> list[dict[str, Any]]:
    """Return the stages with their rows: ``name``, ``rows`` (places in the list), ``stages``."""
    groups: dict[Any, list[int]] = defaultdict(list)
    for place, row in enumerate(found):
        groups[row.stages or ("class", row.alike)].append(place)
    out = []
    for key, places in groups.items():
        staged = found[places[0]].stages == key
        if staged:
            name = f"stage {key[0]}" if len(key) == 1 else "stages " + ", ".join(map(str, key))
        else:
            name = name_ranks(found[place].rank for place in places)
        out.append({"name": name, "rows": places, "stages": list(key) if staged else []})
    return out


class SpanTable:
    """Writes spans into columns; what repeats goes into a table of operations."""

    def __init__(self, plan: Plan, names: Names) -> None:
        self.plan, self.names = plan, names
        self.operations: list[list[Any]] = []
        self._known: dict[tuple[Any, ...], int] = {}

    def write(self, found: Schedule, kept: list[Row], columns: Columns, prefix: str = "") -> float:
        """Add the columns of all rows, one row after the other; return microseconds per tick."""
        tick = max(found.makespan / 2**30, 1e-3)
        values: dict[str, list[float]] = defaultdict(list)
        for row in kept:
            before = 0
            for span in row.spans:
                start = round(span.start / tick)
                values["gap"].append((start - before) % 2**32)
                before = start
                self._span(span, start, tick, values)
        for name in ("gap", "dur", "own", "match", "op", "label", "action", "member", "mb", "peer"):
            columns.put(prefix + name, values[name])
        columns.put(prefix + "kind", values["kind"], "u8")
        return tick

    def _span(self, span: Span, start: int, tick: float, values: dict[str, list[float]]) -> None:
        view = self.plan.action_at(span.rank, span.action, span.member)
        stuck = span.end is None
        values["dur"].append(ABSENT if span.end is None else round(span.end / tick) - start)
        values["own"].append(ABSENT if stuck else max(0, round(span.ready / tick) - start))
        values["match"].append(ABSENT if span.match is None else span.match)
        values["op"].append(self._operation(span, view))
        values["label"].append(self.names.number(clean(view.label or view.id or "")))
        values["action"].append(span.action)
        values["member"].append(ABSENT if span.member is None else span.member)
        values["kind"].append(KINDS.index(span.kind))
        batch = getattr(view.action, "mb", UNSET)
        values["mb"].append(ABSENT if batch is UNSET or batch < 0 else batch)
        values["peer"].append(self._peer(span, view))

    def _peer(self, span: Span, view: ActionView) -> int:
        action: Any = view.action
        if span.kind not in {"send", "recv"} or not hasattr(action, "peer"):
            return ABSENT
        found = self.plan.peer(span.rank, action)
        return ABSENT if found is None else found

    def _operation(self, span: Span, view: ActionView) -> int:
        node: Any = view.action
        group = getattr(node, "group", UNSET)
        known = self.plan.group_name(group, span.rank) if group is not UNSET else ""
        program = self.plan.code.rank_program[span.rank]
        key = (program, view.instruction, known)
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self.operations)
            size = size_of(self.plan, span.rank, view.instruction)
            name = self._text(node, "op_name") or view.op
            self.operations.append(
                [
                    *(self.names.number(clean(text)) for text in (name, view.op, known)),
                    *(self.names.number(clean(self._text(node, f))) for f in ("ns", "phase")),
                    _number(node, "stage"),
                    _number(node, "bytes") if view.op == "compute" else size,
                    _number(node, "flops"),
                    self.names.number(clean(_source(view))),
                    self.names.number(_shape(node)),
                ]
            )
        return number

    def _text(self, node: Any, name: str) -> str:
        value = getattr(node, name, UNSET)
        return "" if value is UNSET else str(value)


def _number(node: Any, name: str) -> float | None:
    value = getattr(node, name, UNSET)
    return None if value is UNSET else value


def _source(view: ActionView) -> str:
    if view.src is None:
        return ""
    return f"{shown(view.src.file)}:{view.src.line}"


def _shape(node: Any) -> str:
    shape, dtype = getattr(node, "shape", UNSET), getattr(node, "dtype", UNSET)
    parts = [] if dtype is UNSET else [str(dtype)]
    return " ".join(parts if shape is UNSET else [*parts, str(list(shape))])


def size_of(plan: Plan, rank: int, instruction: int) -> int | None:
    """Return the bytes that an instruction of a rank moves, if the plan says so."""
    sig = plan.program(rank).code[instruction * WORDS + 3]
    found: int | None = plan.code.signatures[sig].bytes
    return found


def devices(plan: Plan, kept: list[Row], run: Schedule | None = None) -> Iterator[dict[str, Any]]:
    """Yield what the pixel map and the overview show of every row, microseconds and bytes.

    ``rate`` is the FLOPS of a device over computations whose FLOPs are known, of a measured run.
    """
    done = computed(run)
    for row in kept:
        done_with = [span for span in row.spans if span.end is not None]
        time = {
            name: length(union((s.ready, s.end or s.ready) for s in done_with if s.kind in kinds))
            for name, kinds in _COVERED.items()
        }
        # A rank that waits in two calls at once waits once.
        waits = [(s.start, (s.end or s.ready) if s.kind == "wait" else s.ready) for s in done_with]
        flops, last, tail, held = 0.0, 0.0, 0.0, 0
        for span in row.spans:
            node: Any = plan.action_at(span.rank, span.action, span.member).action
            flops += _number(node, "flops") or 0.0
            if span.kind == "compute":
                held = max(held, int(_number(node, "bytes") or 0))
            if span.end is not None:
                last = max(last, span.end)
        busy = [s.end for s in row.spans if s.kind == "compute" and s.end is not None]
        tail = last - max(busy) if busy else 0.0
        yield {
            "rank": row.rank,
            "for": len(run.stands.get(row.rank, (0,))) if run is not None else 1,
            "alike": row.alike,
            "n": len(row.spans),
            "flops": flops or None,
            "memory": held or None,
            "rate": rate(done.get(row.rank, ())) or None,
            "compute": round(time["compute"], 3),
            "copy": round(time["copy"], 3),
            "communication": round(time["communication"], 3),
            "waiting": round(length(union(waits)), 3),
            "tail": round(tail, 3),
            "end": round(last, 3),
            "stuck": any(s.end is None for s in row.spans),
        }
