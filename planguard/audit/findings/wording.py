"""What all findings of an audit share: places, names of groups, rounds and call sites."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from planguard.audit.findings.ground import Grounded, grounds
from planguard.execution.findings.cause import make_finding
from planguard.recording import CALLS
from planguard.result.fingerprint import fingerprint
from planguard.words import clean, name_ranks, shown, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planguard.audit.findings.triage import Scene
    from planguard.audit.rounds.waits import Wait
    from planguard.recording import Fact
    from planguard.verdict import Location

MAX_SHOWN = 6


def finding(
    scene: Scene,
    code: str,
    message: str,
    places: Sequence[tuple[int, int]],
    facts: Iterable[tuple[int, Fact]] | None = None,
    also: Iterable[tuple[int, Fact]] = (),
    **fields: object,
) -> Grounded:
    """Return a finding about observed actions; the first place is the primary one.

    Args:
        scene: The recording.
        code: Its code.
        message: What it says.
        places: Rank and action of what is shown.
        facts: What it would not be said without; its places, and the calls of its ranks, if None.
        also: What it needs beside those.
        fields: Further fields of the finding.
    """
    shown_places = [scene.recording.location(rank, action) for rank, action in places[:MAX_SHOWN]]
    ops = [place.op for place in shown_places]
    defaults: dict[str, object] = {
        "evidence": "T",
        "help": "",
        "ranks": tuple(sorted({rank for rank, _ in places})),
        "primary": shown_places[0] if shown_places else None,
        "related_actions": tuple(shown_places[1:]),
        "fingerprint": fingerprint(code, [place.rank for place in shown_places], ops),
    }
    made = make_finding(code, message, **{**defaults, **fields})
    if facts is None:
        # Where an action of a rank is shown, what it called is known by that.
        placed = {rank for rank, _ in places}
        facts = [*places, *((rank, CALLS) for rank in made.ranks if rank not in placed)]
    return Grounded(**vars(made), grounds=grounds(scene.recording, [*facts, *also]))


def group_words(scene: Scene, group: str) -> str:
    """Return a group as messages name it, with what the program calls it."""
    known = scene.recording.groups.get(group)
    if known is None or not known.description or known.description == group:
        return shown(group)
    return f"{shown(known.description)} ({shown(group)})"


def call_words(scene: Scene, group: str, position: int, rank: int) -> str:
    """Return a round as messages name it: ``all_reduce #5102 on group tp4 (16.00 MiB bf16)``."""
    line = scene.rounds.lines[group][rank]
    call = scene.recording.ranks[rank].track.call_at(line.action(position))
    data = f" ({size(call.bytes)} {call.dtype or ''}".rstrip() + ")" if call.bytes else ""
    return f"{clean(call.op)} #{position} on group {group_words(scene, group)}{data}"


def at_words(place: Location) -> str:
    """Return where the program made a call: `` at train.py:418``, or nothing."""
    at = place.source
    return "" if at is None else f" at {clean(at.file.rpartition('/')[2])}:{at.line}"


def last_action(scene: Scene, rank: int) -> tuple[int, int] | None:
    """Return the last recorded action of a rank, if there is one."""
    count = len(scene.recording.ranks[rank].track)
    return (rank, count - 1) if count else None


def waiting_words(scene: Scene, waits: list[Wait]) -> str:
    """Return who waits where: ``ranks [32,34-39] in all_reduce #5102 at train.py:418``."""
    first = waits[0]
    here = [w for w in waits if (w.group, w.position) == (first.group, first.position)]
    ranks = sorted({wait.rank for wait in here})
    place = scene.recording.location(first.rank, first.action)
    number = f" #{first.position}" if first.position else ""
    sites = Counter(at_words(scene.recording.location(w.rank, w.action)) for w in here[:64])
    return f"{name_ranks(ranks)} in {place.op}{number}{sites.most_common(1)[0][0]}"


def stack_note(scene: Scene, rank: int) -> list[str]:
    """Return where a rank stands by its stack, if there is one."""
    record = scene.recording.ranks[rank]
    if not record.stack:
        return []
    here = record.stack[0]
    call = f" in {clean(record.inside)}" if record.inside else ""
    at = f"{clean(here.file)}:{here.line} in {clean(here.function or '?')}"
    return [f"stack: rank {rank}{call} at {at}"]
