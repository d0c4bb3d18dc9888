"""Run a plan under one scenario of one execution model until it is done or stuck.

Exact where runs are confluent: matching is a function of issue positions and guards only grow
(Siegel and Avrunin; docs/explanation/blocking-and-matching.md), so any order of steps ends in the
same state.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from planguard import kernels
from planguard.semantics.model import ExecutionModel, Scenario, rules_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.plan.plan import Plan

_NOTHING = array("I")


@dataclass(frozen=True)
class Execution:
    """One run: the lanes of every rank and how far each came.

    Attributes:
        plan: The plan.
        columns: Its columns.
        model: The execution model.
        scenario: The point of the model's range that was run.
        lanes: Lowered program of every rank.
        state: Program counter of every lane, arrivals still missing of every match.
        kernels: The implementation that ran it.
    """

    plan: Plan
    columns: Any
    model: ExecutionModel
    scenario: Scenario
    lanes: Any
    state: Any
    kernels: Any

    @cached_property
    def channels_between(self) -> dict[tuple[int, int, int], list[int]]:
        """Channels by group instance, source and destination."""
        columns = self.columns
        found: dict[tuple[int, int, int], list[int]] = {}
        ends = zip(columns.chan_ginst, columns.chan_src, columns.chan_dst, strict=True)
        for channel, key in enumerate(ends):
            found.setdefault(key, []).append(channel)
        return found

    @cached_property
    def entries_found(self) -> dict[tuple[int, int, str], tuple[array[int], Iterator[int]]]:
        """Entries by rank, by communicator or class of channels, and by their part in a match.

        Those looked up so far, and the rest.
        """
        return {}

    @property
    def completes(self) -> bool:
        """Whether every rank came to its end."""
        return bool(self.state.stuck_lanes == 0)


def execute(
    plan: Plan,
    columns: Any,
    model: ExecutionModel,
    scenario: Scenario,
    *,
    origins: bool = False,
    forced: array[int] = _NOTHING,
    implementation: Any = None,
) -> Execution:
    """Run ``plan`` under one scenario of ``model``.

    Args:
        plan: The plan.
        columns: Its expanded columns.
        model: The execution model.
        scenario: Which of its executions.
        origins: Keep the action of every instruction, for explanations.
        forced: Round matches that complete as if their members agreed, array ``I``.
        implementation: Kernels to use; the default ones if None.
    """
    chosen = implementation or kernels.current()
    code = plan.code
    lanes = chosen.lower(
        columns,
        code.sig_kind,
        code.sig_bytes,
        code.sig_dtype,
        code.sig_redop,
        code.sig_root,
        code.sig_layout,
        code.sig_splits,
        rules_for(model, scenario),
        origins,
        forced,
    )
    if lanes.overflow:
        raise OverflowError("more than 2**30 matches")
    state = chosen.run(lanes)
    return Execution(plan, columns, model, scenario, lanes, state, chosen)
