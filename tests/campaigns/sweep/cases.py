"""A case of a sweep: options of a planner, the plan that it makes of them, and its verdicts."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import planguard
from planguard.errors import PlanGuardError

if TYPE_CHECKING:
    from collections.abc import Callable

TORCH_MODELS = ("gloo", "nccl", "nccl-lazy", "nccl-eager", "nccl-serialized")
"""The models of the backends that training jobs use."""


class RefusedError(Exception):
    """The planner itself refuses these options."""


@dataclass(frozen=True)
class Case:
    """One setting of a planner.

    Attributes:
        kind: What it is counted under: a schedule, an example, a pass.
        options: The setting, for the list of what was found.
        make: Returns the plan; raises ``RefusedError`` where the planner refuses.
        models: Execution models to decide it under.
    """

    kind: str
    options: str
    make: Callable[[], Any]
    models: tuple[str, ...] = TORCH_MODELS


@dataclass(frozen=True)
class Row:
    """What became of a case.

    Attributes:
        kind: See ``Case``.
        options: See ``Case``.
        outcomes: Verdict under every model; empty when there is no plan.
        refused: Why the planner gave no plan, or the adapter refused it.
        by: ``planner`` or ``adapter``, who refused; empty with a plan.
        codes: Code and message of the first finding under every model that is not SAFE.
        ranks: Ranks of the plan.
        actions: Actions of the plan.
        seconds: Time for making and deciding it.
    """

    kind: str
    options: str
    outcomes: dict[str, str] = field(default_factory=dict)
    refused: str = ""
    by: str = ""
    codes: dict[str, str] = field(default_factory=dict)
    ranks: int = 0
    actions: int = 0
    seconds: float = 0.0


def decide(case: Case) -> Row:
    """Make the plan of a case and decide it under each of its models."""
    start = time.perf_counter()
    try:
        plan = case.make()
    except RefusedError as error:
        return Row(case.kind, case.options, refused=str(error), by="planner")
    except PlanGuardError as error:
        return Row(case.kind, case.options, refused=str(error)[:300], by="adapter")
    outcomes, codes = {}, {}
    for model in case.models:
        verdict = planguard.check(plan, model=model)
        outcomes[model] = verdict.outcome.value
        found = [*verdict.errors, *verdict.findings]
        if outcomes[model] != "SAFE":
            codes[model] = f"{found[0].code} {found[0].message}" if found else ""
    return Row(
        case.kind, case.options, outcomes, codes=codes, ranks=plan.world_size, actions=plan.actions,
        seconds=time.perf_counter() - start,
    )  # fmt: skip
