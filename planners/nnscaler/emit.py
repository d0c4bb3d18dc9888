"""Turn programs into a plan: the only module here that talks to ``PlanBuilder``."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .labels import Labels, stages
from .model import (
    Comm,
    Compute,
    Drop,
    Leave,
    NewGroup,
    NnScalerPlan,
    Program,
    Ranks,
    Shape,
    Step,
    Wait,
    Window,
    elements,
)  # fmt: skip
from .unsized import compared, is_unsized

if TYPE_CHECKING:
    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.building.program import ProgramBuilder
    from planguard.plan.plan import Plan

    from .options import NnScalerOptions


def emit(plan: NnScalerPlan, builder: type[PlanBuilder], options: NnScalerOptions) -> Plan:
    """Build the plan.

    Raises:
        PlanError: What the format refuses.
    """
    made = builder(
        len(plan.programs), name=options.name or plan.name, model=options.model,
        producer=plan.producer,
    )  # fmt: skip
    groups = _Groups(len(plan.programs))
    for ranks in plan.groups:
        if groups.name(ranks) != "world":
            made.group(groups.name(ranks), ranks)
    labels = Labels(plan)
    writers = []
    alike = compared(plan.programs)
    for program in plan.programs:
        writer = _Writer(
            made.program([program.rank]), program, labels, groups, stages(plan), compared=alike
        )
        writer.write()
        writers.append(writer)
    _ledger(made, plan, labels, writers)
    return made.build()


_LISTED = 8
"""Groups up to this size are named after all of their ranks."""


class _Groups:
    """Names for groups: their ranks."""

    def __init__(self, world: int) -> None:
        self._world = world
        self._long: dict[Ranks, int] = {}

    def name(self, ranks: Ranks) -> str:
        """Return the name of a group; all ranks are the default group."""
        if len(ranks) == self._world:
            return "world"
        if len(ranks) <= _LISTED:
            return "g" + "_".join(map(str, ranks))
        # Different groups of many ranks must not share a name: the position tells them apart.
        place = self._long.setdefault(ranks, len(self._long))
        return f"g{ranks[0]}_to_{ranks[-1]}_{place}"


@dataclass
class _Writer:
    """Writes the steps of one rank into its program."""

    program: ProgramBuilder
    source: Program
    labels: Labels
    groups: _Groups
    stages: dict[str, int]
    ids: dict[int, str] = field(default_factory=dict)
    compared: frozenset[tuple[int, int]] = frozenset()
    unsized: list[tuple[int, int]] = field(default_factory=list)
    alike: list[tuple[int, int]] = field(default_factory=list)
    unwaited: set[str] = field(default_factory=set)

    def write(self) -> None:
        """Write all steps in order."""
        for at, step in enumerate(self.source.steps):
            self._step(at, step)

    def _step(self, at: int, step: Step) -> None:
        if isinstance(step, Comm):
            self._comm(at, step)
        elif isinstance(step, Compute):
            self._compute(at, step)
        elif isinstance(step, Wait):
            self._wait(step)
        elif isinstance(step, Drop):
            self.unwaited -= set(step.works)
            for work in step.works:
                self.program.drop(work, src=step.where)
        elif isinstance(step, NewGroup):
            self.program.new_group(self.groups.name(step.ranks), src=step.where)
        elif isinstance(step, Window):
            self._window(step)
        else:
            assert isinstance(step, Leave)  # noqa: S101 - for the type checker
            self.program.exit(src=step.where, label=step.error[:200])

    def _comm(self, at: int, step: Comm) -> None:
        index = len(self.program)
        name = f"c{at}"
        self.ids[at] = name
        if is_unsized(step):
            one = self.alike if (self.source.rank, at) in self.compared else self.unsized
            one.append((self.source.rank, index))
        self.program.add(step.op, id=name, **self._fields(step))
        if step.work is not None:
            self.unwaited.add(step.work)
        if step.drop and step.work is not None:
            self.unwaited.discard(step.work)
            self.program.drop(step.work, src=step.where)

    def _fields(self, step: Comm) -> dict[str, Any]:
        call = step.label.call if step.label is not None else None
        fields: dict[str, Any] = {
            "src": step.where,
            "label": self.labels.text(self.source.rank, step),
            "mb": self.labels.microbatch(self.source.rank, call) if self.stages else None,
            "phase": step.phase or None,
            "work": step.work,
            "root": step.root,
            "reduce_op": step.reduce_op,
            "reads": list(step.reads) or None,
            **_size(step.shape, step.dtype),
        }
        if step.peer is not None:
            fields |= {"peer": step.peer, "group": "world", "mb": fields["mb"]}
        else:
            fields["group"] = self.groups.name(step.ranks)
        if step.op == "irecv":
            fields["writes"] = [step.work]
        if step.work is not None and step.peer is None:
            fields["async_"] = True
        return fields

    def _compute(self, at: int, step: Compute) -> None:
        self.ids[at] = f"k{at}"
        self.program.compute(
            step.name,
            deps=[self.ids[dep] for dep in step.deps if dep in self.ids],
            id=self.ids[at],
            phase=step.phase,
            mb=self.labels.microbatch(self.source.rank, step.call) if self.stages else None,
            stage=self.stages.get(step.name),
            src=step.where,
        )

    def _wait(self, step: Wait) -> None:
        self.unwaited -= set(step.works)
        works = list(step.works)
        self.program.wait(works[0] if len(works) == 1 else works, src=step.where)

    def _window(self, step: Window) -> None:
        with self.program.unordered(src=step.where):
            if step.chain:
                with self.program.chain():
                    for comm in step.chain:
                        self.program.add(comm.op, **self._fields(comm))
            for comm in step.comms:
                if comm.work is not None:
                    self.unwaited.add(comm.work)
                self.program.add(comm.op, **self._fields(comm))


def _size(shape: Shape | None, dtype: str | None) -> dict[str, Any]:
    if shape is None or dtype is None:
        return {}
    return {"count": elements(shape), "dtype": dtype}


def _ledger(made: PlanBuilder, plan: NnScalerPlan, labels: Labels, writers: list[_Writer]) -> None:
    noted: dict[tuple[str, str, str], None] = dict.fromkeys(plan.notes)
    for program in plan.programs:
        noted |= dict.fromkeys(program.notes)
    for kind, message, direction in noted:
        made.approximate(kind, message, direction, scope="plan")
    unsized = [place for writer in writers for place in writer.unsized]
    if unsized:
        message = (
            f"{len(unsized)} collectives have no size: the code does not state it and the shapes "
            "of their tensors are not known; inputs={'key': shape} gives those of the sample"
        )
        made.approximate("unknown-size", message, "under", unsized, scope="plan")
    alike = [place for writer in writers for place in writer.alike]
    if alike:
        message = (
            f"{len(alike)} collectives have no size, but every member computes it alike from its "
            "inputs, which are taken to have one shape on all ranks and to be cut evenly; "
            "inputs={'key': shape} gives sizes"
        )
        made.approximate("equal-sizes", message, "exact", alike, scope="plan")
    if labels.dropped:
        message = (
            f"{labels.dropped} communications have no label that all sides use; their rounds are "
            "told apart by position only"
        )
        made.approximate("no-labels", message, "exact", scope="plan")
    if labels.by_position:
        message = "the microbatches of some calls are counted in program order"
        made.approximate("microbatch-by-position", message, "exact", scope="plan")
    kept = sum(len(writer.unwaited) for writer in writers)
    if kept:
        message = f"{kept} handles are still in flight when the step returns; nobody waits for them"
        made.approximate("wait-by-caller", message, "exact", scope="plan")


def group_order(programs: tuple[Program, ...]) -> tuple[Ranks, ...]:
    """Return all groups, in the order in which the first rank that knows them meets them."""
    found: dict[Ranks, None] = defaultdict(None)
    for program in programs:
        for step in program.steps:
            if isinstance(step, (NewGroup, Comm)) and step.ranks:
                found[step.ranks] = None
            elif isinstance(step, Window):
                for comm in (*step.chain, *step.comms):
                    if comm.ranks:
                        found[comm.ranks] = None
    return tuple(found)
