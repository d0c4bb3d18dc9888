"""Steps of all stages to a plan: ranks, groups, messages and the ledger."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.module import plan_size
from .stage import StageSteps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.plan import Plan

    from .model import Job, Step


Row = dict[str, Any]
"""An action, as a plan file has it."""


class Grid:
    """Ranks and groups of a job: axes pipe, data, model, the last one varying fastest."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._groups: dict[str, tuple[int, ...]] = {}

    def rank(self, stage: int, data: int, model: int) -> int:
        """Return the global rank at a coordinate."""
        return (stage * self._job.data + data) * self._job.model + model

    def members(self, kind: str, stage: int, data: int, model: int) -> tuple[str, tuple[int, ...]]:
        """Return name and ranks of the group of a kind that holds a coordinate."""
        name = self._name(kind, stage, data, model)
        if name not in self._groups:  # once: every member asks, and there may be many
            at: list[tuple[int, ...]] = [(stage,), (data,), (model,)]
            for axis, values in self._spread(kind):
                at[axis] = tuple(values)
            self._groups[name] = tuple(self.rank(*one) for one in itertools.product(*at))
        return name, self._groups[name]

    def _name(self, kind: str, stage: int, data: int, model: int) -> str:
        if kind == "data":
            return f"data p{stage} m{model}"
        if kind == "model":
            return f"model p{stage} d{data}"
        if kind == "slice":
            return f"slice d{data}"
        return f"{kind} d{data} m{model}"

    def _spread(self, kind: str) -> list[tuple[int, Iterable[int]]]:
        """Return the axes along which a group of a kind lies, and where."""
        job = self._job
        if kind == "data":
            return [(1, range(job.data))]
        if kind == "model":
            return [(2, range(job.model))]
        if kind == "slice":
            return [(0, range(job.stages)), (2, range(job.model))]
        if kind.startswith("tied:"):
            return [(0, next(tied.stages for tied in job.tied if kind == f"tied:{tied.key}"))]
        return [(0, range(job.stages))]


def emit(job: Job, name: str | None, model: str | None, builder: type[PlanBuilder]) -> Plan:
    """Build the plan of a job.

    Raises:
        PlanError: What the job asks for is refused by the plan format, or communicates nothing.
    """
    grid = Grid(job)
    title = name or f"deepspeed {Path(job.file).name.removesuffix('.json')}"
    world = job.stages * job.data * job.model
    plan = builder(world, name=title, model=model, producer=("deepspeed", job.version))
    writer = _Writer(job, grid, plan)
    failures: dict[str, None] = {}
    stale: dict[str, None] = {}
    for stage in range(job.stages):
        for data in range(job.data):
            for slot in range(job.model):
                steps = StageSteps(job, stage, (data, slot))
                writer.write(steps.run(), (stage, data, slot))
                failures |= dict.fromkeys(steps.failures)
                stale |= dict.fromkeys(steps.stale)
    _ledger(job, plan, list(failures), list(stale))
    return plan.build()


class _Writer:
    def __init__(self, job: Job, grid: Grid, plan: PlanBuilder) -> None:
        self._job, self._grid, self._plan = job, grid, plan
        self._groups: set[str] = set()
        self._sizes: dict[tuple[str, int], Row] = {}

    def write(self, steps: list[Step], at: tuple[int, int, int]) -> None:
        open_: set[str] = set()
        rows = (self._row(step, at, open_) for step in steps)
        self._plan.program(self._grid.rank(*at)).extend(row for row in rows if row)

    def _row(self, step: Step, at: tuple[int, int, int], open_: set[str]) -> Row:
        """Return the action of a step; nothing for one that its rank does alone."""
        if step.op == "wait":
            return {"op": "wait", "work": step.work, "src": self._src(step)} if (
                step.work in open_
            ) else {}  # fmt: skip
        if step.op == "exit":
            return {"op": "exit", "src": self._src(step)}
        if step.op == "compute":
            return self._fields(step, {"op": "compute", "op_name": step.label, "stage": at[0]})
        fields = self._fields(step, {"op": step.op, "label": step.label})
        return (self._collective if step.group else self._message)(step, fields, at, open_)

    def _src(self, step: Step) -> tuple[str, int, str]:
        return self._job.file, 0, step.place

    def _fields(self, step: Step, fields: Row) -> Row:
        fields["src"] = self._src(step)
        if step.count is not None and step.dtype:
            fields |= self._size(step.dtype, step.count)
        if step.mb >= 0:
            fields["mb"] = step.mb
        if step.phase:
            fields["phase"] = step.phase
        return fields

    def _size(self, dtype: str, count: int) -> Row:
        if (dtype, count) not in self._sizes:
            self._sizes[dtype, count] = plan_size(dtype, count)
        return self._sizes[dtype, count]

    def _collective(
        self, step: Step, fields: Row, at: tuple[int, int, int], open_: set[str]
    ) -> Row:
        name, ranks = self._grid.members(step.group, *at)
        if len(ranks) == 1:
            return {}
        self._declare(name, ranks)
        if step.op == "broadcast":
            fields["root"] = ranks[step.root]
        if step.work:
            open_.add(step.work)
            fields |= {"work": step.work, "async": True}
        return fields | {"group": name}

    def _message(self, step: Step, fields: Row, at: tuple[int, int, int], _: set[str]) -> Row:
        peer = self._grid.rank(step.peer, at[1], at[2])
        fields["stage"] = at[0]
        if not self._job.broadcasts:
            return fields | {"peer": peer}
        own = self._grid.rank(*at)
        ranks = (min(own, peer), max(own, peer))
        name = f"p2p {ranks[0]}-{ranks[1]}"
        self._declare(name, ranks)
        root = own if step.op == "send" else peer
        return fields | {"op": "broadcast", "root": root, "group": name}

    def _declare(self, name: str, ranks: tuple[int, ...]) -> None:
        if name not in self._groups:
            self._groups.add(name)
            self._plan.group(name, ranks)


def _ledger(job: Job, plan: PlanBuilder, failures: list[str], stale: list[str]) -> None:
    for failure in failures:
        plan.approximate("failing-command", f"its rank ends with an error: {failure}", scope="plan")
    if stale:
        plan.approximate(
            "stale-gradient",
            f"{stale[0]} uses the gradient of another microbatch: what it sends on is not known",
            "under",
            scope="plan",
        )
    _unknown(job, plan)


def _unknown(job: Job, plan: PlanBuilder) -> None:
    if job.boundaries is None and job.stages > 1:
        message = "sizes between stages are not known; one tensor each way, sizes not compared"
        plan.approximate("unknown-boundaries", message, "under", scope="plan")
    if job.data > 1 and _leaves_out(job):
        message = "the parameters are not known: what the data ranks reduce is left out"
        if job.zero.stage == 3:
            message = "the modules are not known: what the data ranks fetch and reduce is left out"
        plan.approximate("unknown-parameters", message, "under", scope="plan")
    if job.model > 1:
        message = "what layers communicate among model ranks is taken to agree on all of them"
        plan.approximate("inside-layers", message, scope="plan")
    if job.zero.stage == 3:
        message = (
            "every module fetches its own parameters, in the forward and again in the backward; "
            "what DeepSpeed prefetches together or still holds follows the same order on all ranks"
        )
        plan.approximate("no-prefetch", message, scope="plan")


def _leaves_out(job: Job) -> bool:
    """Tell whether commands run whose reductions need tensors that the dump does not list.

    ZeRO-3 fetches and reduces module by module in every forward and backward, ZeRO-2 reduces in the
    backward; the others in a command of their own, and all but the last in the optimizer's step.
    """
    names = {command.name for listed in job.commands for command in listed}
    if job.zero.stage == 3:
        return not job.modules and not names.isdisjoint({"ForwardPass", "BackwardPass"})
    at = {0: {"ReduceGrads"}, 1: {"ReduceGrads", "OptimizerStep"}}
    needed = at.get(job.zero.stage, {"BackwardPass", "OptimizerStep"})
    return job.parameters is None and not names.isdisjoint(needed)
