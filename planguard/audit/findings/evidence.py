"""How strong the evidence is, what else is blocked, and which further dump would settle it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.audit.findings.ground import time_limits
from planguard.audit.readers.part import PARTIAL
from planguard.audit.rounds.moments import waited
from planguard.recording import Progress
from planguard.words import name_ranks, plural, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planguard.audit.findings.triage import Scene
    from planguard.audit.rounds.waits import Wait
    from planguard.recording import Fact

MAX_GROUPS = 6
LOOK_AGAIN = "a job that runs looks the same: take the dumps again, a minute later"
UNTIMED = "weak, since nothing says how long the call has waited"
"""A recording does not say when it was taken, and the time of its file may be that of a copy: a
call that has only just been made looks like one that has waited for an hour."""
LIMIT = "medium, since logs say that calls came to their time limits"
STOOD = "medium, since it was made {:,.0f} s before by the times of the files or of later calls"


def evidence_note(scene: Scene, waits: Sequence[Wait]) -> list[str]:
    """Return how many of those that could contradict agree, and how strong that is."""
    first = waits[0]
    members = [r for r in scene.recording.members(first.group) if r in scene.recording.ranks]
    if not first.position:
        stuck = {rank for rank, own in scene.graph.waits.items() if own}
        if all(wait.target in stuck for wait in waits):
            return ["evidence: strong; both sides tell of themselves"]
        return [f"evidence: {_wait_words(scene, waits)}: the other side may come to it"]
    absent = {w.target for w in waits if (w.group, w.position) == (first.group, first.position)}
    lines = scene.rounds.lines[first.group]
    came = [r for r in members if r in lines and lines[r].end >= first.position]
    others = [r for r in members if r not in absent]
    known = scene.recording.groups.get(first.group)
    strength = _wait_words(scene, waits)
    if strength == UNTIMED:
        return [
            f"evidence: {strength} ({len(came)} of {len(others)} neighbors agree); {LOOK_AGAIN}"
        ]
    thin = [r for r in absent if scene.recording.ranks[r].kind == "stacks"]
    mute = [r for r in absent if scene.recording.ranks[r].kind in PARTIAL and r not in lines]
    if mute and not thin:
        strength = f"weak, since what {name_ranks(mute)} printed says nothing of this group"
    elif thin:
        strength = f"medium, since of {name_ranks(thin)} there is a stack only"
    elif known is not None and known.is_inferred:
        strength = "medium, since the members of the group were concluded"
    return [f"evidence: {strength} ({len(came)} of {len(others)} neighbors agree)"]


def _wait_words(scene: Scene, waits: Sequence[Wait]) -> str:
    """Return how strong it is that somebody waits, by how long that is known to be."""
    ranks = scene.recording.ranks
    if any(ranks[wait.rank].kind != "flight-recorder" for wait in waits):
        return "medium"  # other kinds tell more, or less, of time
    if all(ranks[rank].has_ended for rank in {wait.target for wait in waits}):
        return "medium"
    stood = waited(scene.rounds, waits)
    if stood is not None:
        return STOOD.format(stood / 1e9)
    return LIMIT if time_limits(scene.recording) else UNTIMED


def time_facts(scene: Scene, waits: Sequence[Wait]) -> list[tuple[int, Fact]]:
    """Return what says for how long ranks have waited, where their own recordings do not."""
    return time_limits(scene.recording) if _wait_words(scene, waits) == LIMIT else []


def settle_note(scene: Scene, waits: Sequence[Wait]) -> list[str]:
    """Return which further dump would change the answer, and what to look at next."""
    missing = scene.recording.missing
    groups = {wait.group for wait in waits}
    ranks = sorted({wait.target for wait in waits})
    out = []
    if missing:
        inside = [r for r in missing if any(r in scene.recording.members(g) for g in groups)]
        if inside:
            out.append(f"next: a dump from {name_ranks(inside)} may show more missing members")
        else:
            out.append(f"known: a dump from {name_ranks(missing)} would not change it")
    if not any(
        scene.recording.ranks[rank].stack for rank in ranks if rank in scene.recording.ranks
    ):
        out.append(f"next: {collect(ranks)}")
        out.append("next: or --plan with the intended plan")
    return out


def collect(ranks: Sequence[int]) -> str:
    """Return the command that collects the stack of a rank, and what to do with it."""
    rank = ranks[0] if ranks else "N"
    return (
        f"stack of rank {rank}: py-spy dump --pid PID > rank_{rank}.txt; "
        "audit it together with these files"
    )


def wavefront_note(scene: Scene, roots: Iterable[int], skip: Sequence[int] = ()) -> list[str]:
    """Return who else is blocked behind some ranks, and through which groups."""
    front = scene.graph.behind(roots)
    told = set(skip) | set(roots)
    others = [rank for _, ranks in front for rank in ranks if rank not in told]
    if not others or len(front) < 1:
        return []
    way = [shown(group) for group, _ in front]
    chain = " -> ".join(way[:MAX_GROUPS]) + (" -> ..." if len(way) > MAX_GROUPS else "")
    who = name_ranks(others) if len(others) <= 8 else plural(len(others), "other rank")
    verb = "is" if len(others) == 1 else "are"
    return [f"then: {who} {verb} blocked behind them (wavefront: {chain})"]


def ended_note(scene: Scene, waits: Sequence[Wait]) -> list[str]:
    """Say when a waiting call ended with an error instead of waiting on."""
    failed = sorted(
        {
            wait.rank
            for wait in waits
            if wait.position
            and scene.rounds.lines[wait.group][wait.rank].state(wait.position) == Progress.FAILED
        }
    )
    if not failed:
        return []
    verb = "has" if len(failed) == 1 else "have"
    return [
        (
            f"waiting: {name_ranks(failed)} {verb} left the call, with an error such as a timeout "
            "if the recordings are of one moment: the recorder writes no difference"
        )
    ]
