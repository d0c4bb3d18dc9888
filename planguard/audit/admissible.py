"""Other admissible executions of a run that came to its end: asked of the engine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planguard.errors import PlanError
from planguard.options import CheckOptions
from planguard.verdict import Outcome

if TYPE_CHECKING:
    from planguard.recording import Recording
    from planguard.verdict import Finding, Verdict

MAX_ACTIONS = 3_000_000
"""Actions beyond which the engine is not asked."""

NO_PLAN = (
    "every recorded call ended, and nothing in them shows a hang; whether another order of these "
    "calls could hang is open, since the recordings lack what a plan needs: {}"
)


def other_executions(
    recording: Recording, model: str
) -> tuple[list[Finding], tuple[str, ...], list[str]]:
    """Return findings about other executions, what was proved, and why something stays open.

    A recorder often does not say whether the host waited inside a call. Waiting later only removes
    order: what cannot hang when every call blocks cannot hang. What hangs then is reported only
    when it hangs as well with every wait at the end of its rank.
    """
    if recording.gaps:
        return [], (), []
    if recording.actions > MAX_ACTIONS:
        return [], (), [f"{recording.actions:,} actions are too many to look for other executions"]
    try:
        # Steps as loops take a tenth of the time; what is found is looked for in the whole, in
        # which places are those of the recording.
        folded = _check(recording, model, blocking=True, folded=True)
        if folded.safe:
            return [], folded.proved, []
        blocking = _check(recording, model, blocking=True)
    except PlanError as error:
        return [], (), [NO_PLAN.format(error.message)]
    if blocking.safe:
        return [], blocking.proved, []
    if not any(_is_open(recording)):
        return _found(recording, blocking)
    later = _check(recording, model, blocking=False)
    if later.unsafe:
        return _found(recording, later)
    return [], (), ["other executions: where the host waited is not recorded, and it matters"]


def _check(recording: Recording, model: str, *, blocking: bool, folded: bool = False) -> Verdict:
    from planguard.engine import check_plan

    plan = recording.to_plan(blocking=blocking, folded=folded)
    return check_plan(plan, CheckOptions(model=model, budget=5.0))


def _is_open(recording: Recording) -> list[bool]:
    """Return whether some call may or may not have blocked the host."""
    return [
        any(
            action not in record.track.more or record.track.more[action][0] is None
            for action in range(len(record.track))
        )
        for record in recording.ranks.values()
    ]


def _found(
    recording: Recording, verdict: Verdict
) -> tuple[list[Finding], tuple[str, ...], list[str]]:
    if verdict.outcome is Outcome.UNKNOWN:
        return [], verdict.proved, [f.message for f in verdict.findings] or list(verdict.reasons)
    # Where the end of a rank was not seen, its waits may come behind it.
    ended = {rank for rank, one in recording.ranks.items() if one.has_ended}
    told = [f for f in verdict.findings if f.code != "PG301" or ended.issuperset(f.ranks)]
    note = "other execution: the recorded run came to its end; this order of it would not"
    findings = [
        replace(f, notes=(*f.notes, note), certainty="some-execution")
        if f.severity == "error"
        else f
        for f in told
    ]
    return findings, verdict.proved, []
