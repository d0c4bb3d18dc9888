"""Re-execution of a small plan, step by step: the check that every witness has to pass.

This interpreter is independent of the kernels' ``run``: it walks lanes one instruction at a time
and keeps the order of what happened.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from planguard.execution.findings.members import NONE
from planguard.execution.findings.mismatch import candidates, find_mismatches
from planguard.execution.findings.stuck import StuckState, place_of, stuck_by_rank
from planguard.execution.running.executor import Execution, execute
from planguard.execution.running.expand import expand

if TYPE_CHECKING:
    from planguard.plan.plan import Plan
    from planguard.semantics.model import ExecutionModel, Scenario

ARRIVE, AWAIT = 1, 2


@dataclass(frozen=True)
class Run:
    """One execution of a small plan.

    Attributes:
        execution: It, as the kernels ran it.
        blocked: Rank and action of every rank that is stuck at its end.
        cyclic: Whether ranks wait for one another in a circle there.
        mixed: Codes of what members that met disagree on.
    """

    execution: Execution
    blocked: tuple[tuple[int, int], ...]
    cyclic: bool
    mixed: frozenset[str]

    @cached_property
    def steps(self) -> tuple[tuple[int, int, str], ...]:
        """Its steps ``(rank, action, event)``, from the interpreter.

        Raises:
            RuntimeError: If interpreter and kernels disagree.
        """
        steps, stuck = _walk(self.execution)
        if stuck != self.execution.state.stuck_lanes:
            raise RuntimeError("the interpreter and the kernel disagree on a witness")
        return tuple(steps)


def rerun(
    plan: Plan, model: ExecutionModel, scenario: Scenario, *, implementation: Any = None
) -> Run:
    """Execute a plan; what is shown of it is walked by the interpreter, too (``Run.steps``).

    Args:
        plan: The plan.
        model: The execution model.
        scenario: The point of the model's range.
        implementation: Kernels to use; the default ones if None.

    Raises:
        PlanError: If the plan cannot be expanded.
    """
    columns = expand(plan)
    execution = execute(plan, columns, model, scenario, origins=True, implementation=implementation)
    blocked = stuck_by_rank(execution)
    cyclic = bool(blocked) and bool(StuckState(execution).cycles())
    return Run(
        execution,
        tuple((place.rank, place.action) for _, place in sorted(blocked.items())),
        cyclic,
        frozenset(one.found.code for one in find_mismatches(execution, candidates(execution))),
    )


def _walk(execution: Execution) -> tuple[list[tuple[int, int, str]], int]:
    lanes = execution.lanes
    need = list(lanes.need)
    pc = list(lanes.lane_off[:-1])
    arrived = [False] * len(pc)
    steps: list[tuple[int, int, str]] = []
    moved = True
    while moved:
        moved = False
        for lane in range(len(pc)):
            while pc[lane] < lanes.lane_off[lane + 1]:
                word, before = lanes.code[pc[lane]], arrived[lane]
                if word & ARRIVE and not arrived[lane]:
                    need[word >> 2] -= 1
                    _log(execution, steps, lane, pc[lane], "start")
                arrived[lane] = True
                moved = moved or not before
                if word & AWAIT and need[word >> 2] != 0:
                    if not word & ARRIVE and not before:
                        _log(execution, steps, lane, pc[lane], "wait")
                    break
                if word & AWAIT:
                    _log(execution, steps, lane, pc[lane], "complete")
                pc[lane], arrived[lane], moved = pc[lane] + 1, False, True
    return steps, sum(1 for lane in range(len(pc)) if pc[lane] < _end(execution, lane))


def _end(execution: Execution, lane: int) -> int:
    soft = execution.lanes.lane_soft
    return int(soft[lane] if len(soft) else execution.lanes.lane_off[lane + 1])


def _log(
    execution: Execution, steps: list[tuple[int, int, str]], lane: int, at: int, event: str
) -> None:
    entry = execution.lanes.origin[at]
    if entry == NONE:
        return
    place = place_of(execution, execution.lanes.lane_rank[lane], entry)
    step = (place.rank, place.action, event)
    if step not in steps[-4:]:
        steps.append(step)
