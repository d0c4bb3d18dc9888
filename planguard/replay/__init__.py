"""The witness on real processes: write a torch.distributed script, run it on gloo, compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.errors import UsageError
from planguard.replay.flat import obstacles
from planguard.replay.launch import run_script
from planguard.replay.program import Script, write_script
from planguard.replay.report import RankState, ReplayResult, judge, rank_states, transcript
from planguard.replay.schedule import decode_witness
from planguard.replay.selection import keep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planguard.verdict import Witness

__all__ = [
    "RankState",
    "ReplayResult",
    "Script",
    "decode_witness",
    "replay",
    "transcript",
    "write_script",
]
BACKENDS = ("gloo",)


def replay(
    plan: Mapping[str, Any],
    witness: Witness | None = None,
    backend: str = "gloo",
    timeout: float = 10.0,
    delay_seed: int | None = None,
    *,
    model: str | None = None,
) -> ReplayResult:
    """Play a plan, or a witness of it, with one process per rank and report what happens.

    Everything that is started here has ended when this returns or raises.

    Args:
        plan: A flat plan (``planguard.plan/1`` without templates, families and repeats).
        witness: Only its actions are played, and its blocked ranks are the prediction.
        backend: Backend of torch.distributed; ``gloo``.
        timeout: Seconds without progress of any rank after which the run counts as stuck.
        delay_seed: Seed of random delays before the actions.
        model: Execution model of the verdict; it explains why a prediction may not come true.

    Raises:
        ReplayError: The plan is not flat, does not fit the witness, or the processes do not start.
        UsageError: The backend is not known.
    """
    if backend not in BACKENDS:
        raise UsageError(f"no replay on backend {backend}", hint="choose gloo")
    reasons = obstacles(keep(plan, witness), plan)
    if reasons:
        reason = f"not reproducible on this backend: {'; '.join(reasons)}"
        return ReplayResult((), reproduced=False, reason=reason, backend=backend)
    script = write_script(plan, witness)
    observed = run_script(script.text, timeout=timeout, delay_seed=delay_seed)
    states = rank_states(observed)
    reproduced, reason = judge(plan, witness, states, model)
    return ReplayResult(
        states, reproduced, reason, backend, round(observed["seconds"], 2), script.notes
    )
