"""What a desync report says of other members of a group: which call each began, or none at all.

Format: ``TraceUtils.h`` of torch 1.11 to 2.14, as ``watchdog.Words`` holds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.audit.readers.part import SILENT, Part
from planguard.audit.readers.watchdog import ASSUMED
from planguard.recording import Absence, Call, Observed, Progress, Track

if TYPE_CHECKING:
    from planguard.audit.readers.watchdog import Words

REPORT = "the desync report"


def _latest(words: Words) -> tuple[int, str, set[int], set[int]]:
    """Return the last call of a desync report, who started it, and who of the members did not."""
    number = max((seq for _, seq, _, state in words.snapshot if state == "started"), default=0)
    began = [
        (one, op) for one, seq, op, state in words.snapshot if (seq, state) == (number, "started")
    ]
    here = {one for one, _ in began}
    op = began[0][1] if began else ""
    return number, op, here, ({one for one, *_ in words.snapshot} | words.never) - here


def _of_places(words: Words, speaker: Part) -> None:
    """Take a report on a group other than the default one: who came to its last call, by places."""
    number, op, here, late = _latest(words)
    groups = {group for (_, seq), group in words.failed.items() if seq == number}
    if len(groups) != 1:
        return
    one = Absence(
        f"{op} #{number} of group {groups.pop()}",
        tuple(sorted(late)),
        tuple(sorted(here)),
        REPORT,
        are_places=True,
        all_came=not late,
    )
    speaker.absences = (*speaker.absences, one)


def _who_never_came(words: Words, speaker: Part) -> list[Part]:
    """Return the ranks of which a report on the default group says that they made no call in it.

    It does not know of any call of theirs, also where the rank died or does not write reports: it
    is a word about others.
    """
    number, op, here, _ = _latest(words)
    if not words.never or not here:
        return []
    late, came = tuple(sorted(words.never)), tuple(sorted(here))
    one = Absence(f"{op} #{number}", late, came, REPORT)
    speaker.absences = (*speaker.absences, one)
    return [Part(SILENT, speaker.file, rank=rank) for rank in late]


def reported(words: Words, speaker: Part) -> list[Part]:
    """Return what a desync report says of the other members of its group.

    In the default group they are ranks; in another one, that the speaker names beside the report,
    they are places, and what is said of them is a word about others.
    """
    if not words.snapshot:
        return []
    if set(words.places) - {"world"}:
        _of_places(words, speaker)
        return []
    last: dict[int, tuple[int, Observed]] = {}
    for rank, number, op, state in words.snapshot:
        progress = Progress.COMPLETED if state == "finished" else Progress.ISSUED
        last[rank] = number, Observed(Call(op, "world"), number, progress)
    parts = []
    for rank, (_, one) in last.items():
        part = Part("stderr", speaker.file, rank=rank, track=Track.of([one]), backend="nccl")
        part.doubt = "" if words.places else ASSUMED
        parts.append(part)
    return parts + _who_never_came(words, speaker)
