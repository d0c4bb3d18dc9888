"""The plans of a repository beside an audit: has one this hang, and where did the job leave it?

Plans are plan files, schedules of pipelining, and steps that ``planguard dryrun`` recorded, inside
of the repository or beside it. All are data: nothing is run.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from planguard.audit.intended import Beside, hangs_here, lay_beside
from planguard.errors import PlanGuardError
from planguard.recording.compare import compare
from planguard.recording.planned import planned_calls
from planguard.words import clean, name_ranks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.audit.repo import Repo
    from planguard.plan.plan import Plan
    from planguard.recording import Recording
    from planguard.recording.compare import Difference
    from planguard.verdict import Source, Verdict

MAX_PLANS = 8
MAX_LEFT = 2
"""Ways of leaving a plan that are told."""


def said_of_plans(repo: Repo, verdict: Verdict, recording: Recording) -> Iterator[str]:
    """Yield what the engine says of the plans of a repository that are for as many ranks.

    Args:
        repo: The repository.
        verdict: What the audit said.
        recording: What it was said of; a run that it is made of is no plan to compare it with.
    """
    own = {Path(r.file).resolve().parent for r in recording.ranks.values() if r.file}
    runs = [(path, "dryrun") for path in repo.runs if path.resolve() not in own]
    for path, planner in [*runs, *((path, None) for path in repo.plans)][:MAX_PLANS]:
        inside = path.relative_to(repo.root) if path.is_relative_to(repo.root) else path
        said = _said(path, planner, verdict, recording)
        name = clean(inside.as_posix()) + (", a recorded step," if planner else "")
        for text in said:
            yield f"plan: {name} {text}"
        if said:
            yield f"next: --plan {clean(str(path))} says where the run left it"


def _said(path: Path, planner: str | None, verdict: Verdict, recording: Recording) -> list[str]:
    """Return what is said of one plan; nothing of a file that is none, or for other ranks."""
    from planguard.engine import check_plan
    from planguard.loading import load
    from planguard.options import CheckOptions

    try:
        plan = load(str(path), planner=planner)
        if plan.world_size != verdict.stats.ranks:
            return []
        # Stacks do not say what the job ran on; the plan may.
        model = verdict.model if recording.backend or plan.model is None else plan.model
        found = check_plan(plan, CheckOptions(model=model, budget=5.0))
        beside = lay_beside(recording, plan)
        culprits = verdict.errors[0].ranks if verdict.errors else ()
        left, is_whole = _left(recording, plan, beside, culprits)
        left += _stands_outside(recording, plan)
    except PlanGuardError:
        return []  # a table of something else
    is_left = bool(left)
    left = left or _next(beside, culprits)
    if found.unsafe:
        here = hangs_here(beside, found)
        first = here[0] if here else found.findings[0]
        whose = "this hang" if here else "a hang of its own"
        return [f"has {whose}: {first.code}, {first.message}", *left]
    if not found.safe:
        return ["is not decided under this model", *left]
    if is_left:
        return ["is SAFE under this model, and the job left it", *left]
    if not is_whole:
        said = "is SAFE under this model; of the job only a part could be laid beside it"
        return [said, *left]
    return ["is SAFE under this model: the run is not stuck because of the plan", *left]


def _left(
    recording: Recording, plan: Plan, beside: Beside, culprits: Sequence[int]
) -> tuple[list[str], bool]:
    """Return where ranks left a plan, and whether all that was recorded was laid beside it.

    Those that a finding is about come first, and both call sites are named.

    A rank whose older calls are gone cannot be laid beside it, and one that went on behind the end
    of the plan has left nothing: a step is not the whole run.
    """
    alike: dict[tuple[str, str], list[int]] = {}
    is_whole = True
    for one in compare(recording, plan).ranks:
        first = one.first
        record = recording.ranks[one.rank]
        if record.dropped or (record.inside and not len(record.track)):
            is_whole = False
            continue
        if first is None or one.rank in beside.next:
            continue
        if first.planned is None:
            is_whole = False
            continue
        alike.setdefault((_planned(first), _recorded(first)), []).append(one.rank)
    ordered = sorted(alike.items(), key=lambda row: (not set(row[1]) & set(culprits), row[1]))
    told = [
        f"{name_ranks(ranks)} left it first where {planned} is planned: recorded {recorded}"
        for (planned, recorded), ranks in ordered[:MAX_LEFT]
    ]
    return told, is_whole


def _stands_outside(recording: Recording, plan: Plan) -> list[str]:
    """Return which ranks stand at a line from which the plan has them call nothing.

    Of ranks that left only a stack; lines of a plan that names none are not compared.
    """
    alike: dict[str, list[int]] = {}
    planned = planned_calls(plan)
    for rank, record in sorted(recording.ranks.items()):
        if record.inside is None or len(record.track) or not record.stack:
            continue
        sites = {_site([frame]) for one in planned[rank] for frame in one.call.stack if frame.line}
        here = _site(record.stack)
        if sites and here not in sites:
            alike.setdefault(f"{clean(record.inside)}{here}", []).append(rank)
    ordered = sorted(alike.items(), key=lambda row: row[1])[:MAX_LEFT]
    return [
        f"{name_ranks(ranks)} stand{'s' if len(ranks) == 1 else ''} in {where}, which is not in it"
        for where, ranks in ordered
    ]


def _next(beside: Beside, culprits: Sequence[int]) -> list[str]:
    """Return what the plan has those do next that did not come, and where they would."""
    told = []
    for rank in [rank for rank in culprits if beside.next.get(rank)][:MAX_LEFT]:
        call = beside.next[rank][0].call
        told.append(f"has rank {rank} go on to {_words(call.text())}{_site(call.stack)}")
    return told


def _planned(first: Difference) -> str:
    call = first.planned.call if first.planned is not None else None
    return "nothing" if call is None else _words(call.text()) + _site(call.stack)


def _recorded(first: Difference) -> str:
    seen = first.recorded
    return "nothing" if seen is None else _words(seen.call.text()) + _site(seen.call.stack)


def _words(text: str) -> str:
    return clean(" ".join(text.split()))


def _site(stack: Sequence[Source]) -> str:
    if not stack:
        return ""
    return f" at {clean(stack[0].file.rpartition('/')[2])}:{stack[0].line}"
