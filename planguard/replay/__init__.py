"""The witness on real processes: write a torch.distributed script, run it, compare.

The package is also the function of that name: ``planguard.replay(plan, verdict.witness)`` plays a
witness, ``planguard.replay.pool`` is the module that plays many.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from planguard.arguments import DURATION, SEED, arguments
from planguard.errors import ReplayError, UsageError
from planguard.replay.flat import obstacles
from planguard.replay.launch import require_gpus, require_torch, run_script
from planguard.replay.program import Script, write_script
from planguard.replay.report import (
    RankState,
    ReplayResult,
    as_written,
    judge,
    rank_states,
    transcript,
)
from planguard.replay.schedule import decode_witness
from planguard.replay.selection import keep
from planguard.replay.settle import Playable, is_contested, is_fixed, settle
from planguard.verdict import Verdict

if TYPE_CHECKING:
    from planguard.plan.plan import Plan
    from planguard.verdict import Witness

__all__ = [
    "Playable",
    "RankState",
    "ReplayResult",
    "Script",
    "concluded",
    "decode_witness",
    "load_plan",
    "play",
    "playable_of",
    "replay",
    "require_torch",
    "transcript",
    "write_script",
]
BACKENDS = ("gloo", "nccl")


@arguments(timeout=DURATION, delay_seed=SEED)
def replay(
    plan: Any,
    witness: Witness | None = None,
    backend: str = "gloo",
    timeout: float = 10.0,
    delay_seed: int | None = None,
    *,
    model: str | None = None,
) -> ReplayResult:
    """Play a plan, or a witness of it, with one process per rank and report what happens.

    Everything that is started here has ended when this returns or raises. What a plan leaves open
    (orders, branches, flushes of fused buffers) is played as the witness has it; without a witness
    ``delay_seed`` picks one way of many.

    Args:
        plan: A ``Plan``, a path of a plan file, a decoded plan document, a ``Recording`` without
            gaps, or a ``Verdict`` on a plan that was read from a file.
        witness: Only its actions are played, and its blocked ranks are the prediction; the witness
            of the verdict if None and ``plan`` is one.
        backend: Backend of torch.distributed: ``gloo``, or ``nccl`` with one GPU per rank.
        timeout: Seconds without progress of any rank after which the run counts as stuck.
        delay_seed: Seed of random delays before the actions, and of picks.
        model: Execution model of the verdict; it explains why a prediction may not come true.

    Raises:
        PlanError: The plan cannot be read.
        ReplayError: The plan does not fit the witness, or the processes do not start.
        UsageError: The backend is not known, torch is not installed, or there are too few GPUs.
    """
    if isinstance(plan, Verdict):
        witness, model = witness or plan.witness, model or plan.model
        plan = _file_of(plan)
    way = playable_of(plan, witness, model, delay_seed)
    return play(way, backend, timeout, delay_seed, model=model)


def playable_of(
    plan: Any, witness: Witness | None = None, model: str | None = None, seed: int | None = None
) -> Playable:
    """Return the fixed plan that a replay plays.

    Args:
        plan: What ``replay`` accepts, verdicts aside.
        witness: A witness of a verdict on it, or a schedule.
        model: Execution model of the verdict.
        seed: Seed of what is picked where there is no witness.

    Raises:
        PlanError: The plan cannot be read.
        ReplayError: The witness does not fit the plan.
    """
    if isinstance(plan, Mapping) and "ranks" in plan and is_fixed(plan):
        named = witness is not None and bool(witness.actions)
        if not named or not is_contested(plan):
            return Playable(plan, witness)
    return settle(load_plan(plan), witness, model, seed)


def play(
    way: Playable,
    backend: str = "gloo",
    timeout: float = 10.0,
    delay_seed: int | None = None,
    *,
    model: str | None = None,
) -> ReplayResult:
    """Play one way to run a plan; the arguments are those of ``replay``.

    Raises:
        ReplayError: The processes do not start.
        UsageError: The backend is not known, torch is not installed, or there are too few GPUs.
    """
    if backend not in BACKENDS:
        raise UsageError(f"no replay on backend {backend}", hint="choose gloo or nccl")
    reasons = obstacles(keep(way.flat, way.witness), way.flat, backend)
    if reasons:
        reason = f"not reproducible on this backend: {'; '.join(reasons)}"
        return ReplayResult((), reproduced=False, reason=reason, backend=backend)
    script = write_script(way.flat, way.witness, places=way.places, backend=backend, model=model)
    if backend == "nccl":
        require_gpus(len(script.ranks))
    observed = run_script(script.text, timeout=timeout, delay_seed=delay_seed)
    return concluded(way, script, observed, backend, model=model)


def concluded(
    way: Playable,
    script: Script,
    observed: Mapping[str, Any],
    backend: str = "gloo",
    *,
    model: str | None = None,
) -> ReplayResult:
    """Return what a run says about the prediction.

    Args:
        way: What was played.
        script: The script of it.
        observed: What the script reported.
        backend: Backend of torch.distributed.
        model: Execution model of the verdict.
    """
    states = rank_states(observed)
    reproduced, reason = judge(way.flat, way.witness, states, model, way.place)
    seconds = round(observed["seconds"], 2)
    notes = (*way.notes, *script.notes)
    return ReplayResult(as_written(states, way.place), reproduced, reason, backend, seconds, notes)


def load_plan(obj: Any) -> Plan:
    """Read a plan: a ``Plan``, a document, a file, a recording, or a planner's object.

    Raises:
        PlanError: It cannot be read, or the recording has gaps.
    """
    from pathlib import Path

    from planguard import registry
    from planguard.plan.format import read
    from planguard.plan.plan import Plan
    from planguard.recording import Recording

    if isinstance(obj, Plan):
        return obj
    if isinstance(obj, Recording):
        return obj.to_plan()
    if isinstance(obj, (dict, bytes)) or (
        isinstance(obj, (str, Path)) and str(obj).endswith((".json", ".json.gz"))
    ):
        return read(obj)
    return registry.adapted(registry.sniff(obj), obj, {})


def _file_of(verdict: Verdict) -> str:
    if verdict.plan.file is None:
        raise ReplayError(
            "the verdict is on a plan that was not read from a file",
            hint="give the plan and the witness: planguard.replay(plan, verdict.witness)",
        )
    return verdict.plan.file


class _CallableModule(ModuleType):
    """A module that is called like the function of its name (docs/adr/0018-callable-modules.md)."""

    def __call__(
        self,
        plan: Any,
        witness: Witness | None = None,
        backend: str = "gloo",
        timeout: float = 10.0,
        delay_seed: int | None = None,
        *,
        model: str | None = None,
    ) -> ReplayResult:
        return replay(plan, witness, backend, timeout, delay_seed, model=model)


sys.modules[__name__].__class__ = _CallableModule
