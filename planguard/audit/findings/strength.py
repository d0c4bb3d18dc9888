"""The class of every statement of an audit, strong, medium or weak, and what it rests on.

It is the lowest of three: what a rule knows of a statement, what kinds of files told the facts that
it needs (``ground``), and what had to be assumed to read them. What is weak is never certain.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from planguard.audit.findings.ground import Grounded, grounds
from planguard.audit.readers.part import DOUBT, LOST_END, MOMENT
from planguard.recording import CALLS
from planguard.words import clean, name_ranks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planguard.recording import Gap, Recording
    from planguard.verdict import Finding

STUCK = ("PG0", "PG501", "PG208", "PG209", "PG210", "PG211")
"""Codes of ranks that wait for what did not come."""
CLASSES = ("weak", "medium", "strong")
_SAID = re.compile(r"evidence: (weak|medium|strong)\b")
_GRADED = re.compile(r"PG0|PG2|PG3|PG405|PG50[1269]$")


def lowered(finding: Finding) -> Finding:
    """Return a finding that is no certainty, as a warning."""
    if finding.severity != "error":
        return finding
    return replace(finding, severity="warning", certainty="heuristic")


def graded(findings: Iterable[Finding], recording: Recording) -> list[Finding]:
    """Return findings with their class in the notes, none of them more certain than it allows."""
    doubts = [gap for gap in recording.gaps if gap.kind in (DOUBT, LOST_END, MOMENT)]
    found = (_graded(one, recording, doubts) for one in findings)
    return [one.plain() if isinstance(one, Grounded) else one for one in found]


def of_start(one: Finding, start: str) -> Finding:
    """Return a statement with the start of the job that it is about, if that is not the last."""
    if not start or not _GRADED.match(one.code):
        return one
    return replace(one, message=f"{start}: {one.message}")


def _graded(one: Finding, recording: Recording, doubts: list[Gap]) -> Finding:
    # What is missing at the end may hold what others wait for, and changes no round that was seen;
    # so does what a rank did behind the moment of its recording.
    doubts = [g for g in doubts if g.kind == DOUBT or one.code.startswith((*STUCK, "PG3"))]
    if doubts:
        one = lowered(one)
    if not _GRADED.match(one.code) or one.certainty == "some-execution":
        return one
    told = _told(one, recording)
    # What is about nobody in particular rests on all that was read.
    level = min((limit for _, limit in told), default=1)
    if level == 0 and len(told) > 1:
        level = 1  # those who wait say it themselves, and the stack says where the other one is
    if one.certainty == "heuristic":
        level = min(level, 1)
    if doubts:
        level = 0
    place = next((n for n, note in enumerate(one.notes) if _SAID.match(note)), None)
    rests = " and ".join(f"{what} of {name_ranks(ranks)}" for (what, _), ranks in told.items())
    rests = f"rests on {rests}" if rests else ""
    since = f"since {clean(doubts[0].message)}" if doubts else ""
    if place is None:
        said = "; ".join(part for part in (CLASSES[level], since, rests) if part)
        at = next((n for n, note in enumerate(one.notes) if note.startswith("next:")), None)
        notes = (*one.notes[:at], f"evidence: {said}", *(() if at is None else one.notes[at:]))
        return replace(one, notes=notes)
    note = one.notes[place]
    own = _SAID.findall(note)[0]
    level = min(level, CLASSES.index(own))
    text = _SAID.sub(f"evidence: {CLASSES[level]}", note, count=1)
    more = [part for part in (since, rests) if part]
    notes = (*one.notes[:place], "; ".join([text, *more]), *one.notes[place + 1 :])
    one = replace(one, notes=notes)
    return lowered(one) if level == 0 else one


def _told(one: Finding, recording: Recording) -> dict[tuple[str, int], list[int]]:
    """Return which facts of which ranks files of each kind tell, weakest first."""
    if isinstance(one, Grounded):
        rests = one.grounds
    else:  # what other rules say of a recording is about what its ranks called
        named = {*one.ranks, *(place.rank for place in one.related_actions)}
        rests = grounds(recording, [(rank, CALLS) for rank in named])
    found: dict[tuple[str, int], list[int]] = defaultdict(list)
    for level, what, rank in sorted(rests):
        found[what, level].append(rank)
    return found
