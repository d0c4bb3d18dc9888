"""Findings about calls that every known member has reached and that did not end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.audit.findings.evidence import LIMIT, LOOK_AGAIN, collect, wavefront_note
from planguard.audit.findings.ground import time_limits
from planguard.audit.findings.say import stopped
from planguard.audit.findings.wording import MAX_SHOWN, call_words, finding, last_action
from planguard.audit.readers.part import CONCLUDED, PARTIAL
from planguard.audit.rounds.moments import COPIED_NS, in_flight, lasted
from planguard.plan.vocabulary import ROOTED
from planguard.recording import Progress
from planguard.words import clean, name_ranks, rank_set

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.audit.findings.triage import Scene
    from planguard.audit.rounds.waits import Wait
    from planguard.recording import Fact
    from planguard.verdict import Finding

MOVES = (
    "{} reached {}, which was made {:,.1f} s before the recordings were taken: nothing here shows "
    "a hang"
)


def arrived(scene: Scene) -> Iterator[Finding]:
    """Yield the findings of rounds that every known member reached and none left."""
    first: dict[str, int] = {}
    for group, position in scene.graph.arrived:
        first.setdefault(group, position)  # what was issued behind it waits for it
    for group, position in list(first.items())[:MAX_SHOWN]:
        known = scene.recording.groups.get(group)
        lines = scene.rounds.lines[group]
        here = sorted(rank for rank, line in lines.items() if line.has(position))
        places = [(rank, lines[rank].action(position)) for rank in here]
        what = call_words(scene, group, position, here[0])
        if known is not None and known.ranks is None:
            yield _hidden_member(scene, what, places)
            continue
        op = scene.recording.location(*places[0]).op
        who, cause = (
            "every member",
            "a link, device or kernel fault, or the dump caught it in flight",
        )
        start = "no member is missing: "
        if known is not None and known.is_inferred:
            who, start = "every rank that was seen in it", ""
            cause = f"a member that was not seen in it (they were not recorded), or {cause}"
        if group == "world" and may_be_more(scene, here):
            who, start = "every rank that printed something", ""
            cause = (
                "a rank that printed nothing (--world-size says how many there are), or " + cause
            )
        if op in ROOTED:
            cause = "their roots, which this recorder does not write down, may differ; or " + cause
        moved = in_flight(scene.rounds, places)
        if moved is not None:
            scene.open.append(MOVES.format(who, what, moved))
            continue
        left = [rank for rank in here if lines[rank].state(position) != Progress.COMPLETED]
        where = "" if len(left) == len(here) else f" on {name_ranks(left)}"
        scene.open.append(f"{what} was reached by {who} and did not complete{where}: {cause}")
        since = _since(scene, places)
        yield finding(
            scene,
            "PG502",
            f"{who} reached {what}, and it did not complete{where}",
            places,
            also=_time_facts(scene, since),
            notes=(f"cause: {start}{cause}", *since),
        )


def met(scene: Scene) -> Iterator[Finding]:
    """Yield the findings of sends that met their receives and did not end on both sides."""
    for send, recv in scene.graph.met[:MAX_SHOWN]:
        places = [send, recv]
        what = clean(scene.recording.location(*send).text)
        who = f"rank {recv[0]}"
        moved = in_flight(scene.rounds, places)
        if moved is not None:
            scene.open.append(MOVES.format(who, what, moved))
            continue
        cause = "a link, device or kernel fault, or the dump caught it in flight"
        said = f"{what} of rank {send[0]} met its receive on {who}, and did not complete"
        scene.open.append(f"{said}: {cause}")
        since = _since(scene, places)
        yield finding(
            scene,
            "PG502",
            said,
            places,
            also=_time_facts(scene, since),
            notes=(f"cause: nobody is missing: {cause}", *since),
        )


def unstarted(scene: Scene, waits: Sequence[Wait]) -> Finding:
    """Return the finding of ranks that issued what others wait in, and have not started it.

    They have reached it. What their devices do in front of it is nothing that was recorded.
    """
    held = sorted({(wait.target, wait.owed) for wait in waits if wait.owed is not None})
    ranks = tuple(rank for rank, _ in held)
    here = sorted({(wait.rank, wait.action) for wait in waits})
    first = waits[0]
    if first.position:
        what = call_words(scene, first.group, first.position, first.rank)
    else:
        what = clean(scene.recording.location(first.rank, first.action).text)
    verb, whose = ("has", "its device") if len(ranks) == 1 else ("have", "their devices")
    said = (
        f"{name_ranks(ranks)} {verb} issued what {name_ranks(rank for rank, _ in here)} "
        f"{'waits' if len(here) == 1 else 'wait'} for in {what}, and not started it"
    )
    cause = f"something on {whose} that was not recorded, in front of it: a kernel, or a stream"
    scene.open.append(f"{said}: {cause}")
    since = _since(scene, here)
    return finding(
        scene,
        "PG502",
        said,
        [*held, *here],
        ranks=ranks,
        also=_time_facts(scene, since),
        notes=(
            f"cause: {cause}",
            *wavefront_note(scene, ranks, skip=[rank for rank, _ in here]),
            *since,
            f"next: {collect(ranks)}",
        ),
    )


def _since(scene: Scene, places: Sequence[tuple[int, int]]) -> list[str]:
    """Return how sure it is that a call stands: a job that runs is in some call, too."""
    ranks = [scene.recording.ranks[rank] for rank, _ in places]
    if any(record.kind in PARTIAL for record in ranks):
        return []  # their logs say that it came to its time limit
    stood = max(lasted(record, action) for record, (_, action) in zip(ranks, places, strict=True))
    if 0 < stood < COPIED_NS:
        said = f"by the times of the files it was made {stood / 1e9:,.0f} s before"
        return [f"evidence: medium; {said}"]
    if time_limits(scene.recording):
        return [f"evidence: {LIMIT}"]
    return [f"evidence: weak; the recordings do not say how long it has waited; {LOOK_AGAIN}"]


def _time_facts(scene: Scene, notes: Sequence[str]) -> list[tuple[int, Fact]]:
    """Return what ``_since`` rests on beside the recordings of those who wait."""
    return time_limits(scene.recording) if f"evidence: {LIMIT}" in notes else []


def may_be_more(scene: Scene, here: Sequence[int]) -> bool:
    """Tell whether ranks may exist of which nothing is known: logs tell of what failed only."""
    ranks = scene.recording.ranks
    is_counted = any(CONCLUDED in note for note in scene.recording.notes)
    return is_counted and any(ranks[rank].kind in PARTIAL for rank in here)


def _hidden_member(scene: Scene, what: str, places: list[tuple[int, int]]) -> Finding:
    """Return the finding of a round that waits for a member whose name was not recorded."""
    here = [rank for rank, _ in places]
    others = [rank for rank in scene.recording.ranks if rank not in set(here)]
    idle = [rank for rank in others if not scene.graph.standing.get(rank)]
    unseen = list(scene.recording.missing)
    suspects = idle or others or unseen
    who = name_ranks(suspects) if suspects else "a member that left no dump"
    # A log that tells only of what failed does not say that its rank left a group alone.
    partial = any(scene.recording.ranks[r].kind in PARTIAL for r in (*here, *others))
    sure = len(suspects) == 1 and not unseen and not partial
    if not sure and (unseen or partial):
        return _open_members(scene, what, places, suspects)
    stops = [place for rank in suspects[:1] if (place := last_action(scene, rank))]
    return finding(
        scene,
        "PG007",
        (f"{who} never reached {what}" if sure else f"{what}: one of {who} never reached it"),
        [*stops, *places],
        ranks=tuple(suspects),
        severity="error" if sure else "warning",
        certainty="all-executions" if sure else "heuristic",
        subkind="missing",
        related=("PG501", "PG914"),
        notes=(
            f"waiting: {name_ranks(here)} in {what}",
            *stopped(scene, suspects),
            (
                f"evidence: {'medium' if sure else 'weak'}; the members of the group were not "
                f"recorded, {rank_set(here)} were seen in it and all wait"
            ),
            "next: `--plan` with the intended plan says who belongs to the group",
        ),
    )


def _open_members(
    scene: Scene, what: str, places: list[tuple[int, int]], suspects: Sequence[int]
) -> Finding:
    """Return the finding of a round whose other members may be anybody: nobody is blamed."""
    here = [rank for rank, _ in places]
    verb = "waits" if len(here) == 1 else "wait"
    scene.open.append(f"the members of the group of {what} were not recorded")
    ask = (
        f"next: what the other members did: a dump, a log or a stack of {name_ranks(suspects[:3])}"
    )
    return finding(
        scene,
        "PG501",
        f"{name_ranks(here)} {verb} in {what}; who else belongs to the group was not recorded",
        places,
        ranks=tuple(here),
        severity="warning",
        certainty="heuristic",
        related=("PG914",),
        notes=("evidence: weak; a missing member may be any rank that said nothing", ask),
    )
