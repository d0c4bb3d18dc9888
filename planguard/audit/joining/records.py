"""The record of each rank: what its chosen part says, and what parts of other kinds lend it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.audit.readers.part import UNREAD
from planguard.recording import CRASH, STACK, TIMED, WORDS, RankRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planguard.audit.readers.part import Part


def records(parts: Sequence[Part], chosen: Mapping[int, Part]) -> dict[int, RankRecord]:
    """Return the records of the ranks of which something was chosen, in order."""
    stood = [part for part in parts if part.stack or part.crash or part.inside]
    stacks = {p.rank: p for kind in ("stderr", "stacks") for p in stood if p.kind == kind}
    crashes = {p.rank: p for p in stood if p.crash}
    # What a log says of others counts beside a better recording of its own rank.
    words = {p.rank: p for p in parts if p.kind != UNREAD and (p.absences or p.oversized)}
    logs = {p.rank: p for p in parts if p.kind == "stderr"}
    return {
        rank: _record(part, *(known.get(rank) for known in (stacks, crashes, words, logs)))
        for rank, part in sorted(chosen.items())
    }


def _record(
    part: Part,
    stack: Part | None,
    crash: Part | None,
    words: Part | None,
    log: Part | None,
) -> RankRecord:
    """Return the record of a rank, with what parts of other kinds lend it."""
    own = part if part.crash else crash
    lent = {STACK: stack, CRASH: own, WORDS: words, TIMED: log}
    return RankRecord(
        part.rank or 0,
        part.track,
        dropped=part.dropped,
        has_ended=part.has_ended,
        stack=stack.stack if stack is not None else (),
        inside=stack.inside if stack is not None else None,
        file=part.file,
        version=part.version,
        crash=own.crash if own is not None else "",
        crash_doubt=own.doubt if own is not None and own is not part else "",
        kind=part.kind,
        absences=words.absences if words is not None else (),
        oversized=words.oversized if words is not None else None,
        has_moved=stack is not None and stack.has_moved,
        written_ns=part.written_ns,
        lent={fact: one.kind for fact, one in lent.items() if one is not None and one is not part},
    )
