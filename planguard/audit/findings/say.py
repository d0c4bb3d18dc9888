"""Findings about ranks that wait: for each other, for one that never came, for one not recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.audit.findings.evidence import (
    collect,
    ended_note,
    evidence_note,
    settle_note,
    time_facts,
    wavefront_note,
)
from planguard.audit.findings.ground import waiters
from planguard.audit.findings.say_rounds import skip
from planguard.audit.findings.wording import (
    MAX_SHOWN,
    at_words,
    call_words,
    finding,
    group_words,
    last_action,
    waiting_words,
)
from planguard.audit.readers.part import PARTIAL
from planguard.audit.rounds.disagree import skipped
from planguard.audit.rounds.orders import Changed, changed
from planguard.recording import CALLS, Progress
from planguard.verdict import CycleEdge, Location
from planguard.words import clean, listed, name_ranks, plural, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.audit.findings.triage import Scene
    from planguard.audit.rounds.waits import Wait
    from planguard.verdict import Finding


# --- cycles --------------------------------------------------------------------------------------


def cycle(scene: Scene, waits: list[Wait], part: list[int]) -> Finding:
    """Return the finding of ranks that wait for each other.

    Args:
        scene: The recording.
        waits: A cycle.
        part: All ranks of its strongly connected part.
    """
    if any(len(scene.graph.guessed.get(wait.group, ())) > 1 for wait in waits):
        return _knot(scene, part)
    calls = [scene.recording.location(wait.rank, wait.action) for wait in waits]
    pairs = [wait.position == 0 for wait in waits]
    groups = list(dict.fromkeys(wait.group for wait in waits))
    if all(pairs):
        code = "PG001"
    elif any(pairs):
        code = "PG003"
    else:
        code = "PG004" if len(groups) > 1 else "PG002"
    kinds = {
        "PG001": "point-to-point deadlock",
        "PG002": "collective deadlock",
        "PG003": "hybrid deadlock",
        "PG004": "cross-communicator deadlock",
    }
    told = [_leg(scene, wait, place) for wait, place in zip(waits, calls, strict=True)]
    more = f", and so on around {plural(len(told), 'rank')}" if len(told) > 3 else ""
    edges = tuple(
        CycleEdge(
            place,
            _owed(scene, wait, place),
            calls[(n + 1) % len(calls)],
            wait.why,
        )
        for n, (wait, place) in enumerate(zip(waits, calls, strict=True))
    )
    ranks = [wait.rank for wait in waits]
    notes = evidence_note(scene, waits) + wavefront_note(scene, ranks) + settle_note(scene, waits)
    odd = changed(scene.rounds, waits, scene.graph.earlier)
    voters = () if odd is None else (*odd.odd, *odd.rest)
    blamed = "" if odd is None else f"; {_changed_words(scene, odd)}"
    return finding(
        scene,
        code,
        f"{kinds[code]}: {'; '.join(told[:3])}{more}{blamed}",
        [(wait.rank, wait.action) for wait in waits],
        # A stack that lends an action shows one moment: the calls show the rank in no other one.
        also=[*((rank, CALLS) for rank in (*ranks, *voters)), *time_facts(scene, waits)],
        ranks=tuple(sorted(ranks)) if odd is None else odd.odd,
        cycle=edges,
        subkind="cycle",
        related=("PG501",),
        notes=(*(() if odd is None else (LEFT_OUT,)), *notes),
    )


LEFT_OUT = "cause: by the order that most have; a call left out looks as one that comes later"


def _changed_words(scene: Scene, odd: Changed) -> str:
    places = odd.first, odd.second
    first, second = (f"#{at} on {group_words(scene, group)}" for group, at in places)
    return (
        f"by majority {name_ranks(odd.odd)} changed the order: {first} before {second}, which "
        f"{name_ranks(odd.rest)} have the other way round"
    )


def _guessed_words(groups: list[str]) -> str:
    named = ", ".join(map(shown, groups))
    return (
        f"the members of {named} were not recorded; who is missing there stands in another group, "
        "so they wait around a cycle"
    )


def _knot(scene: Scene, part: list[int]) -> Finding:
    """Return the finding of ranks each of which waits for some of the others; not known which."""
    chosen = [scene.graph.waits[rank][0] for rank in part]
    places = [scene.recording.location(wait.rank, wait.action) for wait in chosen]
    told = [
        f"rank {wait.rank} in {place.op} #{wait.position} on {group_words(scene, wait.group)}"
        for wait, place in zip(chosen, places, strict=True)
    ]
    more = f" and {plural(len(told) - 3, 'rank')} more" if len(told) > 3 else ""
    guessed = sorted({w.group for w in chosen if w.group in scene.graph.guessed})
    return finding(
        scene,
        "PG004",
        f"cross-communicator deadlock: {listed(told[:3])}{more} wait for each other",
        [(wait.rank, wait.action) for wait in chosen],
        subkind="knot",
        related=("PG501", "PG914"),
        notes=(
            f"cause: {_guessed_words(guessed)}",
            "evidence: medium; that there is a cycle is certain, not through which ranks it goes",
            "next: `--plan` with the intended plan says who belongs to which group",
        ),
    )


def _owed(scene: Scene, wait: Wait, place: Location) -> Location:
    """Return the action that would free a wait; behind the last one where it was not issued."""
    if wait.owed is not None:
        return scene.recording.location(wait.target, wait.owed)
    op = {"send-unmatched": "recv", "recv-unmatched": "send"}.get(wait.why, place.op)
    count = len(scene.recording.ranks[wait.target].track)
    return Location(wait.target, count, text=f"{op} (not issued)", op=op)


def _leg(scene: Scene, wait: Wait, place: Location) -> str:
    if not wait.position:
        return f"rank {wait.rank} waits in {clean(place.text.partition('  ')[0])}"
    where = f"{place.op} #{wait.position} on {group_words(scene, wait.group)}"
    return f"rank {wait.rank} waits in {where} for rank {wait.target}"


# --- missing participants ------------------------------------------------------------------------


def missing(scene: Scene, waits: list[Wait]) -> Finding:
    """Return the finding of a round or a partner that some ranks never came to."""
    first = waits[0]
    absent = tuple(sorted({wait.target for wait in waits}))
    left = skipped(scene.rounds, waits)
    if left is not None:
        return skip(scene, waits, left)
    waiting = sorted({wait.rank for wait in waits})
    ahead = _ahead(scene, first, absent)
    owner = scene.recording.location(first.rank, first.action)
    if first.position:
        what = call_words(scene, first.group, first.position, first.rank)
        ended = all(scene.recording.ranks[rank].has_ended for rank in absent)
        code = "PG009" if owner.op == "barrier" else "PG006" if ended else "PG007"
        said = f"{name_ranks(absent)} never reached {what}"
        if ahead:
            said = (
                f"by majority {name_ranks(ahead)} is one call ahead: it alone launched {what}, "
                f"which {name_ranks(absent)} never reached"
            )
    else:
        code = "PG208" if first.why == "send-unmatched" else "PG209"
        partner = "receive" if code == "PG208" else "send"
        said = (
            f"rank {first.rank} waits in {owner.text}, and rank {first.target} "
            f"never posts that {partner}"
        )
    stops = [place for rank in absent[:MAX_SHOWN] if (place := last_action(scene, rank))]
    places = [*stops, *[(w.rank, w.action) for w in waits if w.target == absent[0]]]
    notes = [*stopped(scene, absent), f"waiting: {waiting_words(scene, waits)}"]
    notes += wavefront_note(scene, absent, skip=waiting)
    notes.append(AHEAD if ahead else MISSING)
    notes += evidence_note(scene, waits) + ended_note(scene, waits) + settle_note(scene, waits)
    # That somebody waits, one of them would show: the one of whom the strongest files tell.
    facts = [(rank, CALLS) for rank in absent] + waiters(scene.recording, waits)
    return finding(
        scene,
        code,
        said,
        places,
        facts=[*facts, *time_facts(scene, waits)],
        ranks=ahead or absent,
        subkind="missing",
        related=("PG501",),
        notes=tuple(notes),
    )


MISSING = (
    "missing participant: not a cycle in what was recorded; look at what the missing rank does"
)
AHEAD = (
    "cause: a call that the others do not make, or all of them stand in front of it: counts of "
    "launches do not tell; look at both"
)


FEWEST = 3
"""Ranks that have to agree before one that departs from them is the odd one."""


def _ahead(scene: Scene, first: Wait, absent: Sequence[int]) -> tuple[int, ...]:
    """Return the one who is a call ahead of all others, by counts alone; else nobody.

    The counts of RAS say of nobody where it stands: a single rank that departs from many is the odd
    one. Several who are ahead are not one mistake, and wait for those behind as after any hang.
    """
    lines, ranks = scene.rounds.lines.get(first.group, {}), scene.recording.ranks
    members = scene.rounds.members(first.group)
    ahead = tuple(rank for rank in members if rank not in absent)
    if first.position < 1 or len(ahead) != 1 or len(absent) < FEWEST:
        return ()
    if any(ranks[rank].kind != "ras" for rank in members):
        return ()
    ends = {rank: lines[rank].end if rank in lines else 0 for rank in members}
    if any(ends[rank] != first.position - 1 for rank in absent):
        return ()
    return ahead if all(ends[rank] == first.position for rank in ahead) else ()


def stopped(scene: Scene, ranks: Sequence[int]) -> list[str]:
    """Return where missing ranks were seen last."""
    out = []
    for rank in [rank for rank in ranks if rank in scene.recording.ranks][:3]:
        record = scene.recording.ranks[rank]
        place = last_action(scene, rank)
        if place is None and record.kind in PARTIAL:
            out.append(f"stopped: none of the calls of rank {rank} were recorded")
        elif place is None:
            out.append(f"stopped: rank {rank} before its first recorded call")
        else:
            at = scene.recording.location(*place)
            number = record.track.position[place[1]]
            where = f" #{number}" if number > 0 else ""
            is_inside = record.track.progress[place[1]] in (Progress.ISSUED, Progress.STARTED)
            verb = "in" if is_inside else "after"
            out.append(f"stopped: rank {rank} {verb} {at.text}{where}{at_words(at)}")
        if record.stack:
            here = record.stack[0]
            call = f" inside {clean(record.inside)}" if record.inside else ""
            out.append(
                f"stack: rank {rank}{call} at {clean(here.file)}:{here.line} in {here.function}"
            )
    return out


# --- what is stuck for reasons that were not recorded ---------------------------------------------


def unknown_partner(scene: Scene) -> Finding:
    """Return the finding of ranks that wait for ranks of which nothing, or only a stack, is known.

    What a rank has queued behind its first open call waits for that call, so the first one counts.
    """
    firsts: dict[int, Wait] = {}
    for wait in sorted(scene.graph.unknown, key=scene.since):
        firsts.setdefault(wait.rank, wait)
    rounds: dict[tuple[str, int], list[Wait]] = {}
    for wait in scene.graph.unknown:
        first = firsts[wait.rank]
        if (wait.group, wait.position, wait.action) == (first.group, first.position, first.action):
            rounds.setdefault((wait.group, wait.position), []).append(wait)
    told = [_stuck_words(scene, waits) for waits in rounds.values()]
    more = f", and in {plural(len(told) - 3, 'other round')}" if len(told) > 3 else ""
    kept = [wait for waits in rounds.values() for wait in waits]
    absent = sorted({wait.target for wait in kept})
    ranks = sorted({wait.rank for wait in kept})
    stacks = stopped(scene, absent)
    known = all(rank in scene.recording.ranks for rank in absent)
    what = "only a stack" if known else "nothing"
    return finding(
        scene,
        "PG501",
        f"{'; '.join(told[:3])}{more}",
        list(dict.fromkeys((wait.rank, wait.action) for wait in kept)),
        ranks=tuple(ranks),
        severity="warning",
        certainty="heuristic",
        notes=(
            *stacks,
            f"evidence: weak; {what} is known of {name_ranks(absent)}",
            f"next: a dump or a stack of {name_ranks(absent[:3])} would settle it",
            f"next: {collect(absent)}",
        ),
    )


def _stuck_words(scene: Scene, waits: list[Wait]) -> str:
    """Return who is stuck in one round, and for whom."""
    first = waits[0]
    ranks = sorted({wait.rank for wait in waits})
    absent = sorted({wait.target for wait in waits})
    place = scene.recording.location(first.rank, first.action)
    number = f" #{first.position}" if first.position else ""
    verb = "is" if len(ranks) == 1 else "are"
    lack = "" if any(rank in scene.recording.ranks for rank in absent) else " without a dump"
    return (
        f"{name_ranks(ranks)} {verb} stuck in {place.op}{number} on group "
        f"{group_words(scene, first.group)}, waiting for {name_ranks(absent)}{lack}"
    )


def blind(scene: Scene) -> Finding:
    """Return the finding of ranks that stand in a send or receive of unknown peer."""
    places = sorted(scene.channels.blind.items())
    ranks = [rank for rank, _ in places]
    records = scene.recording.ranks
    sides = {records[rank].track.call_at(action).family for rank, action in places}
    # Where every rank of the job sends, or every rank receives, nobody is on the way to them.
    # A stack alone shows one moment, at which messages may be on their way.
    thin = any(records[rank].kind in PARTIAL for rank in ranks)
    is_sure = len(ranks) == scene.recording.world_size and sides in ({"send"}, {"recv"})
    is_sure = is_sure and not thin
    verb = "waits" if len(ranks) == 1 else "wait"
    scene.open.append(f"the peers of {name_ranks(ranks)} were not recorded")
    weak = "evidence: weak; the calls are shown, not with whom, and a peer may be on its way"
    sure = "evidence: medium; the stacks show the calls, not with whom: all ranks are on one side"
    return finding(
        scene,
        "PG501",
        f"{name_ranks(ranks)} {verb} in point-to-point calls whose peers were not recorded",
        places,
        also=[(rank, CALLS) for rank in ranks] if is_sure else (),
        severity="error" if is_sure else "warning",
        certainty="all-executions" if is_sure else "heuristic",
        notes=(
            sure if is_sure else weak,
            (
                "next: `--plan` with the intended plan, or stacks with local variables "
                "(py-spy dump --locals)"
            ),
        ),
    )
