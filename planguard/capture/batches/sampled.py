"""A step decided for any samples: assignments are played one after the other, and joined.

Unsafe as soon as one assignment is; UNKNOWN if one is and none is unsafe; SAFE where all are. The
ledger says what was played. Nothing is compared between samples here: a program may well issue
other calls for another sample, if its ranks agree on it.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.capture.batches.parting import Way, find_parting
from planguard.capture.batches.samples import covered, covered_untold
from planguard.capture.batches.untold import cannot_tell, told_in
from planguard.capture.batches.way_places import read_anew
from planguard.capture.batches.ways import read_way, way_to
from planguard.capture.play.ends import raised_at
from planguard.capture.play.loaders import copied, short, told_ends
from planguard.errors import UsageError, shorten
from planguard.verdict import Approximation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planguard.capture.batches.parting import Parting
    from planguard.capture.batches.samples import Assignment, Chosen
    from planguard.capture.batches.untold import Told
    from planguard.capture.play.ranks import Play, PlayedRank
    from planguard.plan.plan import Plan
    from planguard.verdict import Outcome, Verdict

SAMPLES = "samples"
"""Kind of the ledger's entry that says which assignments were played."""


@dataclass(frozen=True)
class Door:
    """What one play is made with.

    Attributes:
        new_play: Returns a play of all ranks.
        judge: Decides a play.
        job: What a rank does with its sample.
        tell: Told how many of how many assignments were played.
        prepare: What a rank's process does first, before it gets its sample.
    """

    new_play: Callable[[], Play]
    judge: Callable[[Play], tuple[Plan, Verdict]]
    job: Callable[[PlayedRank, Any], object]
    tell: Callable[[int, int], object] = lambda *_: None
    prepare: Callable[[], object] | None = None


@dataclass(frozen=True)
class Supply:
    """What ranks may get.

    Attributes:
        give: Returns what a rank gets, by the number in the assignment and the rank.
        say: Says what it is.
        what: What ranks get, in words; empty where it is nothing of their own.
    """

    give: Callable[[int, int], Any]
    say: Callable[[int, int], str]
    what: str = "samples"


def supply_of(samples: Sequence[Any]) -> Supply:
    """Return the supply of a list, any of which any rank may get."""
    return Supply(
        lambda number, _: samples[number],
        lambda number, _: f"sample {number} ({short(samples[number])})",
    )


@dataclass(frozen=True)
class Answer:
    """The joined verdict.

    Attributes:
        verdict: The verdict.
        plan: The plan that it names: of the assignment that decides, else of the first.
        played: The assignments, in the order in which they were played.
        parting: Where two ranks part in the assignment that is unsafe, if that was found.
    """

    verdict: Verdict
    plan: Plan
    played: tuple[Assignment, ...]
    parting: Parting | None = None


@dataclass(frozen=True)
class _Decided:
    assignment: Assignment
    plan: Plan
    verdict: Verdict
    is_silent: bool


def read_samples(samples: Any) -> tuple[Any, ...]:
    """Take a list of samples.

    Raises:
        UsageError: It is none, or empty.
    """
    if not isinstance(samples, list | tuple) or not samples:
        raise UsageError(
            f"samples is a list with at least one sample, not {shorten(samples, 40)}",
            hint="samples=[batch_a, batch_b]; every rank may get any of them",
        )
    return tuple(samples)


def decide(
    supply: Supply,
    chosen: Chosen,
    door: Door,
    budget: float,
    *,
    is_explained: bool = True,
) -> Answer:
    """Play assignments until one is unsafe, none is left, or the time is over.

    Args:
        supply: What ranks may get.
        chosen: The assignments, in order.
        door: What one play is made with.
        budget: Seconds after which no further assignment is played; the first always is.
        is_explained: Where ranks part is searched and told.

    Raises:
        UsageError: If a rank cannot be played, or raises and nobody waits for it.
    """
    end = time.monotonic() + budget
    known: dict[tuple[bytes, ...], _Decided] = {}
    played: list[Assignment] = []
    told: dict[Assignment, Told | None] = {}
    is_untold = False
    for assignment in chosen.assignments:
        if told and chosen.enough <= told.keys() and cannot_tell(told):
            is_untold = all(one.verdict.safe for one in known.values())
            if is_untold:
                break
        if played and time.monotonic() >= end:
            break
        play = door.new_play()
        play.is_quiet = play.is_quiet or bool(played)  # what the step prints is printed once
        try:
            play_one(play, door, supply, assignment)
            content = _content(play)
            if chosen.enough:
                told[assignment] = told_in(play)
            played.append(assignment)
            door.tell(len(played), len(chosen.assignments))
            if content in known:  # equal logs are one plan, decided once
                continue
            plan, verdict = door.judge(play)
        except UsageError as error:
            which = f" ({given(supply, assignment)})" if supply.what else ""
            message = f"{error.message}{raised_at(error.hint)}{which}"
            raise UsageError(message, hint=error.hint) from error
        if verdict.unsafe:
            explained, parting = _told(verdict, supply, assignment), None
            if verdict.findings and is_explained:
                more, parting = _explanation(door, supply, assignment, play, verdict)
                explained = with_notes(explained, more)
            return Answer(explained, plan, tuple(played), parting)
        is_silent = says_nothing(plan, play)
        known[content] = _Decided(assignment, plan, verdict, is_silent)
    return _join(supply, chosen, tuple(known.values()), tuple(played), budget, is_untold=is_untold)


def play_one(play: Play, door: Door, supply: Supply, assignment: Assignment) -> None:
    """Play an assignment; every rank's process makes its copy before it is under capture."""
    own: list[Any] = []

    def prepare(rank: int) -> None:
        if door.prepare is not None:
            door.prepare()
        own.append(copied(supply.give(assignment[rank], rank)))

    play.run(lambda played: door.job(played, own[0]), prepare=prepare)


def says_nothing(plan: Plan, play: Play) -> bool:
    """Tell whether no rank communicates, and none would: there is nothing to be decided."""
    return not plan.actions and not play.is_doubted and not play.stuck


def _content(play: Play) -> tuple[bytes, ...]:
    """Return all that a decision on a play is made from."""
    logs = [log for _, log in sorted(play.logs.items())]
    return tuple(
        replace(log, imported=[], parsed=[], said="", hidden="", printed="").to_json()
        for log in logs
    )


def given(supply: Supply, assignment: Assignment) -> str:
    """Say which ranks had what."""
    ranks: dict[str, list[int]] = {}
    for rank, number in enumerate(assignment):
        ranks.setdefault(supply.say(number, rank), []).append(rank)
    said = [
        f"rank{'s' if len(those) > 1 else ''} {', '.join(map(str, those))} with {what}"
        for what, those in ranks.items()
    ]
    return "; ".join(said)


def _told(verdict: Verdict, supply: Supply, assignment: Assignment) -> Verdict:
    """Say in a verdict for which assignment it is."""
    if not supply.what:
        return verdict
    note = f"{supply.what}: {given(supply, assignment)}"
    reasons = tuple(f"{reason} ({note})" for reason in verdict.reasons)
    return with_notes(replace(verdict, reasons=reasons), [note])


def with_notes(verdict: Verdict, notes: Sequence[str]) -> Verdict:
    """Add notes to the first finding."""
    if not verdict.findings:
        return verdict
    first = replace(verdict.findings[0], notes=(*verdict.findings[0].notes, *notes))
    return replace(verdict, findings=(first, *verdict.findings[1:]))


# --- where the ranks part ------------------------------------------------------------------------


def _explanation(
    door: Door, supply: Supply, assignment: Assignment, play: Play, verdict: Verdict
) -> tuple[list[str], Parting | None]:
    """Play a wrong assignment again, with the lines that run, and say where two ranks part."""
    read_anew()
    with tempfile.TemporaryDirectory() as folder:

        def job(played: PlayedRank, sample: Any) -> None:
            with way_to(Path(folder) / str(played.rank), played.session.recorder.actions):
                door.job(played, sample)

        again = door.new_play()
        again.is_quiet = True
        try:
            play_one(again, replace(door, job=job), supply, assignment)
        except UsageError:
            return [], None  # a rank that is slower with its lines told, for example
        if _calls(again) != _calls(play):
            return ["lines: played again, the ranks issued other calls; no line is told"], None
        ways = {
            rank: Way(rank, read_way(Path(folder) / str(rank)), log)
            for rank, log in again.logs.items()
        }
    finding = verdict.findings[0]
    places = [one for one in (finding.primary, *finding.related_actions) if one is not None]
    found = find_parting(ways, assignment, places)
    told = found.notes() if found is not None else []
    line = f"{found.decided} in {found.decided.function}" if found is not None else ""
    return [*told, *told_ends(play.logs, line)], found


def _calls(play: Play) -> dict[int, list[Any]]:
    """Return what the ranks issued where, without what differs from run to run."""
    return {
        rank: [(one["op"], one.get("group"), one.get("src")) for one in log.actions]
        for rank, log in play.logs.items()
    }


# --- where none was unsafe -----------------------------------------------------------------------


def _join(
    supply: Supply,
    chosen: Chosen,
    decided: Sequence[_Decided],
    played: tuple[Assignment, ...],
    budget: float,
    *,
    is_untold: bool,
) -> Answer:
    open_ = [one for one in decided if one.verdict.unknown and not one.is_silent]
    agreed = [one for one in decided if one.verdict.safe]
    if open_ or not agreed:  # nothing to check anywhere is as open as for a single play
        one = (open_ or list(decided))[0]
        return Answer(_told(one.verdict, supply, one.assignment), one.plan, played)
    wrong = [one for one in agreed if one.verdict.errors]
    if wrong:
        one = wrong[0]
        return Answer(_told(one.verdict, supply, one.assignment), one.plan, played)
    joined = _joined([one.verdict for one in agreed])
    silent = [one.assignment for one in decided if one.is_silent]
    said = covered_untold(chosen, played) if is_untold else covered(chosen, played)
    if silent:
        said += (
            "; where all ranks have "
            + " or ".join(_alike(supply, one) for one in silent)
            + ", none communicates"
        )
    is_base = is_untold or set(chosen.assignments[: chosen.base]) <= set(played)
    entry = Approximation(
        SAMPLES, said, "exact" if is_base else "under", scope="plan", used=not is_base
    )
    if chosen.total > 1 or supply.what == "samples":
        joined = replace(joined, approximations=(*joined.approximations, entry))
    if not is_base:
        joined = _cut(joined, chosen, len(played), budget)
    return Answer(joined, agreed[0].plan, played)


def _alike(supply: Supply, assignment: Assignment) -> str:
    """Say what all ranks have, without what it looks like; else the numbers of what each has."""
    said = {supply.say(number, rank).partition(" (")[0] for rank, number in enumerate(assignment)}
    return said.pop() if len(said) == 1 else f"{supply.what} {assignment}"


def _joined(verdicts: Sequence[Verdict]) -> Verdict:
    """Join verdicts none of which is unsafe: what all claim, and what any of them says."""
    first = verdicts[0]
    findings = {(f.code, f.message): f for one in verdicts for f in one.findings}
    ledger = {(a.kind, a.message): a for one in verdicts for a in one.approximations}
    models: dict[str, Outcome] = {}
    codes: dict[str, tuple[str, ...]] = {}
    for one in verdicts:
        for name, outcome in one.models.items():
            worst = models.get(name, outcome)
            models[name] = max(worst, outcome, key=lambda found: found.severity)
            codes[name] = tuple(sorted({*codes.get(name, ()), *one.model_codes.get(name, ())}))
    return replace(
        first,
        findings=tuple(findings.values()),
        approximations=tuple(ledger.values()),
        complete=all(one.complete for one in verdicts),
        proved=tuple(p for p in first.proved if all(p in one.proved for one in verdicts)),
        models=models,
        model_codes=codes,
        safe_iff=tuple(dict.fromkeys(c for one in verdicts for c in one.safe_iff)),
    )


def _cut(verdict: Verdict, chosen: Chosen, played: int, budget: float) -> Verdict:
    """Leave a step undecided for which the time was over before the base of a cover was played."""
    reason = (
        f"{budget:g} s were over after {played} of the {chosen.base} assignments without which no "
        "cover is one (every sample on all ranks, every pair of samples with one odd rank); give "
        "precheck a larger budget= or fewer samples"
    )
    return left_open(verdict, reason)


def left_open(verdict: Verdict, reason: str) -> Verdict:
    """Leave undecided what was found safe."""
    from planguard.verdict import Outcome

    return replace(
        verdict,
        outcome=Outcome.UNKNOWN,
        models={name: max(o, Outcome.UNKNOWN, key=lambda found: found.severity)
                for name, o in verdict.models.items()},
        proved=(),
        reasons=(reason,),
    )  # fmt: skip
