"""What a finding of an audit rests on: which file told each fact that it needs.

A rank may be told of by several files: its dump counts its calls, its stack shows where it stands,
its log has the error that ended it. A finding is no stronger than the weakest of the facts that it
needs, and a fact is as strong as the file that told it, whatever else is known of its rank.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

from planguard.audit.readers.part import TIMED_OUT
from planguard.recording import CRASH, TIMED
from planguard.verdict import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planguard.audit.rounds.waits import Wait
    from planguard.recording import Fact, RankRecord, Recording

TOLD_BY = {
    "stderr": ("logs", 1), "ras": ("reports of RAS", 1), "stacks": ("stacks", 0),
    "nccl-log": ("logs of NCCL", 1), "clog": ("logs of ClogHook", 2),
}  # fmt: skip
"""What files of a kind are called, and the strongest class that they give; others are dumps.

The watchdog and RAS tell what they counted themselves; a stack shows one moment and no round. A log
of calls that does not say how far they came gives no more than that (``source``)."""
DUMPS = ("dumps", 2)


class Ground(NamedTuple):
    """One fact, by the kind of file that told it.

    Attributes:
        level: The strongest class that such files give, 0 for weak.
        what: What such files are called.
        rank: The rank that the fact is about.
    """

    level: int
    what: str
    rank: int


@dataclass(frozen=True)
class Grounded(Finding):
    """A finding with what it rests on, until its class is written into its notes.

    Attributes:
        grounds: Facts of ranks of which something was read.
    """

    grounds: frozenset[Ground] = frozenset()

    def plain(self) -> Finding:
        """Return the finding as a verdict has it."""
        return Finding(**{one.name: getattr(self, one.name) for one in fields(Finding)})


def grounds(recording: Recording, facts: Iterable[tuple[int, Fact]]) -> frozenset[Ground]:
    """Return what files told some facts; nothing of ranks without a record."""
    ranks = recording.ranks
    return frozenset(_ground(ranks[rank], fact) for rank, fact in facts if rank in ranks)


def strongest(recording: Recording, facts: Sequence[tuple[int, Fact]]) -> list[tuple[int, Fact]]:
    """Return those of some facts that the strongest files tell: where one of them would do."""
    told = {fact: _ground(recording.ranks[fact[0]], fact[1]).level for fact in facts}
    most = max(told.values(), default=0)
    return [fact for fact, level in told.items() if level == most]


def waiters(recording: Recording, waits: Iterable[Wait]) -> list[tuple[int, Fact]]:
    """Return who waits by the strongest files: that somebody does, one of them would show."""
    return strongest(recording, [(wait.rank, wait.action) for wait in waits])


def time_limits(recording: Recording) -> list[tuple[int, Fact]]:
    """Return what logs say of calls that came to their time limits."""
    found = (gap.ranks for gap in recording.gaps if gap.kind == TIMED_OUT)
    return [(rank, TIMED) for ranks in found for rank in ranks]


def _ground(record: RankRecord, fact: Fact) -> Ground:
    kind = record.told_by(fact)
    what, level = TOLD_BY.get(kind, DUMPS)
    if fact == CRASH:
        level = 1  # what ended a rank is no passing moment, whoever says it
    elif kind == "clog" and not any(record.track.progress):
        level = 1
    return Ground(level, what, record.rank)
