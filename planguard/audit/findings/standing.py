"""What stacks and last words tell where no rounds were recorded: a roll call of the ranks.

A stack shows one moment: a slow job looks like one that hangs. What follows from it is therefore a
hint, never a statement; only that a rank raised an error of its own is a fact.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from planguard.audit.findings.evidence import collect
from planguard.audit.findings.wording import (
    MAX_SHOWN,
    finding,
    last_action,
    stack_note,
    waiting_words,
)
from planguard.recording import BARRIER, CRASH, STACK, WORDS, Absence
from planguard.verdict import Location
from planguard.words import clean, name_ranks, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.audit.findings.triage import Scene
    from planguard.audit.rounds.waits import Wait
    from planguard.recording import RankRecord
    from planguard.verdict import Finding, Source

UNCLEAR = frozenset({"a wait below Python", "backward"})
"""Words of stacks that may or may not stand in a communication."""
MAX_STACKS = 3  # of each sort that a hint shows
Place = tuple[str, "Source | None"]
NEXT = (
    "next: take the stack of every rank twice, a minute apart: py-spy dump --pid PID > rank_N.txt; "
    "audit the files together; or Flight Recorder dumps"
)


def crashes(scene: Scene) -> Iterator[Finding]:
    """Yield one finding for every error that ended ranks and is no consequence of others."""
    by_error: dict[tuple[str, str], list[int]] = defaultdict(list)
    for rank, record in scene.recording.ranks.items():
        if record.crash:
            by_error[record.crash, record.crash_doubt].append(rank)
    for (error, doubt), ranks in by_error.items():
        waits = _waits_for(scene, ranks)
        notes = [note for rank in ranks[:3] for note in stack_note(scene, rank)]
        if waits:
            notes.append(f"waiting: {waiting_words(scene, waits)}")
        left = _waiters(scene) - set(ranks)
        if not waits and left:
            notes.append(f"waiting: {name_ranks(left)} in communication")
        is_clear = len(by_error) == 1
        if not is_clear:
            notes.append("evidence: several ranks raised errors; which came first is not recorded")
        if doubt:
            notes.append(f"evidence: weak; {doubt}")
        yield finding(
            scene,
            "PG506",
            f"{name_ranks(ranks)} ended with an error: {clean(error[:160])}",
            [(wait.rank, wait.action) for wait in waits[:MAX_SHOWN]],
            facts=[(rank, CRASH) for rank in ranks],
            ranks=tuple(ranks),
            primary=_location(scene.recording.ranks[ranks[0]]),
            notes=tuple(notes),
            related=("PG501",) if waits or left else (),
        )


def raised(scene: Scene) -> Iterator[Finding]:
    """Yield the ranks that an exception ended, where their logs hold no more of it than that."""
    ranks = [r for r, one in scene.recording.ranks.items() if one.has_ended is False]
    ranks = [r for r in ranks if not scene.recording.ranks[r].crash]
    if not ranks:
        return
    scene.open.append(f"{name_ranks(ranks)} raised an exception, which the log of calls lacks")
    last = [place for rank in ranks[:MAX_SHOWN] if (place := last_action(scene, rank))]
    yield finding(
        scene,
        "PG506",
        f"{name_ranks(ranks)} ended with an exception, so the run did not come to its end",
        last,
        ranks=tuple(ranks),
        severity="warning",
        certainty="heuristic",
        notes=(
            "evidence: medium; the log of calls says that it was raised, and not which it was",
            f"next: what {name_ranks(ranks[:1])} printed: planguard audit RUN stderr.log",
        ),
    )


def _waits_for(scene: Scene, ranks: list[int]) -> list[Wait]:
    return [w for waits in scene.graph.waits.values() for w in waits if w.target in ranks]


def _waiters(scene: Scene) -> set[int]:
    standing = {rank for rank in scene.graph.standing if scene.graph.standing[rank]}
    return standing | {
        rank
        for rank, record in scene.recording.ranks.items()
        if record.inside or any(rank in o.here and not o.are_places for o in record.absences)
    }


def _location(record: RankRecord) -> Location:
    source = record.stack[0] if record.stack else None
    call = record.inside if record.inside not in UNCLEAR else None
    text = call or "(no call)"
    return Location(record.rank, len(record.track), source=source, text=text, op=call or "")


def complaints(scene: Scene) -> Iterator[Finding]:
    """Yield what ranks said of others before they left: who was late, what did not fit."""
    said: dict[Absence, list[int]] = defaultdict(list)
    for rank, record in scene.recording.ranks.items():
        for absence in record.absences:
            said[absence].append(rank)
    known = scene.recording.ranks
    for absence, callers in _folded(said).items():
        if absence.has_stopped and all(r in known and known[r].crash for r in absence.ranks):
            continue  # they say themselves why
        yield _absence(scene, absence, callers)
    sizes = [record for record in scene.recording.ranks.values() if record.oversized]
    for record in sizes[:1]:
        came, fits = record.oversized or (0, 0)
        yield finding(
            scene,
            "PG202",
            f"gloo ended {name_ranks(r.rank for r in sizes)}: {came:,} bytes came where "
            f"{fits:,} fit",
            [],
            facts=[(r.rank, WORDS) for r in sizes],
            ranks=(),
            severity="warning",
            certainty="heuristic",
            notes=(
                *(note for r in sizes[:3] for note in stack_note(scene, r.rank)),
                "evidence: weak; a receiver is ended, whoever has the wrong size; nobody is blamed",
                "next: TORCH_DISTRIBUTED_DEBUG=DETAIL says which rank calls what",
            ),
        )


def _folded(said: dict[Absence, list[int]]) -> dict[Absence, list[int]]:
    """Return absences without those of ranks that say themselves that they wait for others."""
    waiting = {rank for one in said if not one.are_places for rank in one.here}
    kept = {
        one: callers
        for one, callers in said.items()
        if one.are_places or not one.ranks or not waiting.issuperset(one.ranks)
    }
    # Where everybody waits for somebody, nobody is the first.
    return kept or said


def _absence(scene: Scene, one: Absence, callers: list[int]) -> Finding:
    """Return what was said of ranks that did not come; a word about others, no record of them."""
    what = clean(one.what)
    ranks = () if one.are_places else one.ranks
    numbers = "places" if one.are_places else "ranks"
    who = name_ranks(ranks) if ranks else f"places {', '.join(map(str, one.ranks[:8]))}"
    here = f"; {numbers} {', '.join(map(str, one.here[:8]))} came" if one.here else ""
    if one.all_came:
        code, text = "PG502", f"everybody came to {what}, and it did not end"
    elif one.was_aborted:
        code, text = "PG501", f"{what} did not end within its time limit"
    elif one.has_stopped:
        code, text = "PG506", f"{who} stopped {what}: ended, stuck, or cut off"
    elif not one.ranks:
        code, text = "PG501", f"not everybody came to {what}{here}"
    else:
        code = "PG009" if one.what == BARRIER else "PG007"
        text = f"{who} did not come to {what}{here}"
    if one.what == BARRIER:
        text += f"; {name_ranks(callers)} waited"
    notes = [n for r in ranks[:3] if r in scene.recording.ranks for n in stack_note(scene, r)]
    notes.append(f"evidence: {_strength(scene, one)}")
    ask = f"next: {collect(ranks)}" if ranks else f"next: of every rank, {collect(())}"
    scene.open.append(f"{one.by} saw one moment: whether ranks still move is not known")
    return finding(
        scene,
        code,
        text,
        [],
        facts=[(rank, WORDS) for rank in callers],
        ranks=ranks,
        primary=None if one.has_stopped else _location(scene.recording.ranks[callers[0]]),
        subkind="missing" if ranks and not one.has_stopped else None,
        severity="warning",
        certainty="heuristic",
        related=("PG501",) if code != "PG501" else (),
        notes=(*notes, ask),
    )


def _strength(scene: Scene, one: Absence) -> str:
    """Return how strong the word of an observer is, and why."""
    known = scene.recording.ranks
    said = () if one.are_places else one.ranks
    inside = [r for r in said if r in known and known[r].inside not in (None, *UNCLEAR)]
    if inside:
        return f"weak; {one.by} is against the stack of {name_ranks(inside)}, which is in a call"
    if one.went_on:
        return f"weak; the job printed progress behind the word of {one.by}: it may have gone on"
    if one.what == BARRIER:
        return "medium; ranks are places in the group, taken for those of the job"
    if one.ranks and not one.are_places:
        whose = one.by if one.by.startswith("the ") else f"a report of {one.by}"
        return f"medium; {whose} shows one moment"
    if one.ranks:
        return f"weak; {one.by} gives places in its group, and not ranks: nobody is blamed"
    return f"weak; {one.by} does not say who: nobody is blamed"


def roll_call(scene: Scene) -> Iterator[Finding]:
    """Yield where ranks stand by their stacks, and who stands elsewhere than the others."""
    calls, hosts, unclear, moving = _places(scene)
    if moved := [rank for rank, one in scene.recording.ranks.items() if one.has_moved]:
        scene.open.append(f"{name_ranks(moved)} moved between two stacks, and did not hang then")
    if not calls:
        if hosts or unclear:
            scene.open.append("no rank's stack stands in a communication")
        return
    callers = [rank for ranks in calls.values() for rank in ranks]
    told = "; ".join(_said(place, ranks) for place, ranks in list(calls.items())[:MAX_SHOWN])
    missing = list(scene.recording.missing)
    scene.open.append(_open(scene, callers))
    if hosts and len(hosts) < len(callers):
        yield _hint(
            scene,
            "PG007",
            f"{name_ranks(hosts)} {'is' if len(hosts) == 1 else 'are'} in no communication"
            f"{_stood(scene, hosts)}, while {told}",
            hosts,
            subkind="missing",
        )
        return
    if len(calls) > 1 and not hosts and not moving:
        odd = _odd(calls, len(callers))
        if odd:
            yield _hint(
                scene,
                "PG211",
                f"{name_ranks(odd)} {'stands' if len(odd) == 1 else 'stand'} in another call than "
                f"the others: {told}",
                odd,
            )
            return
    if missing and len(calls) == 1 and not (hosts or unclear or moving):
        yield _hint(
            scene,
            "PG501",
            f"{told}; nothing is known of {name_ranks(missing)}",
            callers,
        )
        return
    rest = f"; {name_ranks(hosts)} in no communication{_stood(scene, hosts)}" if hosts else ""
    rest += f"; {name_ranks(unclear)} possibly in one" if unclear else ""
    rest += f"; {name_ranks(moving)} moving between two stacks" if moving else ""
    where = f"where the ranks stood: {told}{rest}"
    yield _hint(scene, "PG502", where, callers, elsewhere=(*hosts, *unclear, *moving))


def _open(scene: Scene, callers: Sequence[int]) -> str:
    """Return what stays open of ranks that stand in calls without numbers."""
    if any(scene.recording.ranks[rank].stack for rank in callers):
        return "stacks show one moment: whether ranks still move is not known"
    return "the logs name calls that timed out without their numbers: which calls meet is not known"


def _thin(scene: Scene) -> str:
    """Return what a roll call rests on: stacks, or words of logs that have no numbers."""
    stacks = sum(bool(record.stack) for record in scene.recording.ranks.values())
    words = sum(bool(r.inside and not r.stack) for r in scene.recording.ranks.values())
    told = [f"{plural(stacks, 'stack')} of one moment"] if stacks else []
    told += [f"what {plural(words, 'rank')} printed"] if words else []
    return f"{' and '.join(told)}, without rounds and groups"


def _stood(scene: Scene, ranks: list[int]) -> str:
    """Return where ranks stand by their stacks, where all stand in one place."""
    places = {scene.recording.ranks[rank].stack[0] for rank in ranks}
    if len(places) != 1:
        return ""
    here = places.pop()
    function = f" in {clean(here.function)}" if here.function else ""
    return f", at {clean(here.file.rpartition('/')[2])}:{here.line}{function}"


def _places(scene: Scene) -> tuple[dict[Place, list[int]], list[int], list[int], list[int]]:
    """Return the ranks in each call, in none, of which that is not clear, and those on the move.

    Who is in a call, and was elsewhere by an earlier stack, does not stand in it.
    """
    calls: dict[Place, list[int]] = defaultdict(list)
    hosts: list[int] = []
    unclear: list[int] = []
    moving: list[int] = []
    for rank, record in scene.recording.ranks.items():
        if record.has_moved and record.inside is not None:
            moving.append(rank)
        elif record.inside in UNCLEAR:
            unclear.append(rank)
        elif record.inside is not None:
            calls[record.inside, record.stack[0] if record.stack else None].append(rank)
        elif record.stack and not record.crash:
            hosts.append(rank)
    ordered = dict(sorted(calls.items(), key=lambda item: (-len(item[1]), item[1])))
    return ordered, hosts, unclear, moving


def _odd(calls: dict[Place, list[int]], count: int) -> list[int]:
    """Return the ranks that stand elsewhere than most; none where there is no such majority."""
    by_op: dict[str, list[int]] = defaultdict(list)
    for (op, _), ranks in calls.items():
        by_op[op] += ranks
    for groups in (by_op.values(), calls.values()):
        most = max(groups, key=len)
        others = sorted(rank for ranks in groups if ranks is not most for rank in ranks)
        if others and 2 * len(most) > count:
            return others
    return []


def _said(place: Place, ranks: list[int]) -> str:
    op, source = place
    at = "" if source is None else f" at {clean(source.file.rpartition('/')[2])}:{source.line}"
    verb = "waits" if len(ranks) == 1 else "wait"
    return f"{name_ranks(ranks)} {verb} in {clean(op)}{at}"


def _hint(
    scene: Scene,
    code: str,
    message: str,
    ranks: list[int],
    elsewhere: Sequence[int] = (),
    subkind: str | None = None,
) -> Finding:
    """Return a hint on some ranks, with their stacks and those of ranks that stand elsewhere."""
    shown = (*ranks[:MAX_STACKS], *elsewhere[:MAX_STACKS])
    notes = [note for rank in shown for note in stack_note(scene, rank)]
    primary = _location(scene.recording.ranks[ranks[0]])
    return finding(
        scene,
        code,
        message,
        [],
        facts=[(r, STACK) for r, one in scene.recording.ranks.items() if one.stack or one.inside],
        ranks=tuple(sorted(ranks)),
        primary=primary,
        severity="warning",
        certainty="heuristic",
        related=("PG501",) if code != "PG501" else (),
        notes=(
            *notes,
            f"evidence: weak; {_thin(scene)}",
            NEXT,
        ),
        subkind=subkind,
    )
