"""Training loops with declared loaders: which loaders ranks get, and what may be said of a loop.

Lengths are declared by rank (``steps_per_rank``), or as a list any of which any rank may have
(``lengths``), which is explored as samples are. A loop is played batch by batch. With ``rounds``
the user declares that a loop does nothing new behind so many batches: longer loaders are played
with fewer, those that differ still differ, and the answer stays open where the rounds that were
played do not even repeat.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from planguard.capture.batches.sampled import Supply, left_open
from planguard.capture.batches.samples import choose
from planguard.capture.play.loaders import (
    Feed,
    Lengths,
    count,
    feed_of,
    read_lengths,
    shortened,
    streams,
    unrepeated,
)
from planguard.errors import UsageError
from planguard.verdict import Approximation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planguard.capture.batches.samples import Chosen
    from planguard.capture.play.logs import RankLog
    from planguard.verdict import Verdict

LOOPS = "loops"
"""Kind of the ledger's entry that says which loaders ranks had."""


@dataclass(frozen=True)
class Loops:
    """What was declared of the loaders.

    Attributes:
        world_size: Number of ranks.
        lengths: Lengths by the name of the loader: of each rank, or those that any rank may have.
        is_by_rank: They are those of each rank.
        streams: What batches may be.
        played: With how many batches each length is played.
        rounds: The declared bound; None where there is none.
    """

    world_size: int
    lengths: Lengths
    is_by_rank: bool
    streams: list[tuple[tuple[Any, ...], str]]
    played: dict[int, int]
    rounds: int | None

    @classmethod
    def of(
        cls,
        world_size: int,
        samples: Sequence[Any] | None,
        steps_per_rank: Any,
        lengths: Any,
        rounds: int | None,
    ) -> Self | None:
        """Take what was declared; None where nothing was.

        Raises:
            UsageError: It contradicts itself, or the number of ranks.
        """
        if steps_per_rank is None and lengths is None:
            if rounds is not None:
                raise UsageError(
                    "rounds bounds loaders, and none is declared", hint="add steps_per_rank=[10, 9]"
                )
            return None
        if steps_per_rank is not None and lengths is not None:
            raise UsageError(
                "steps_per_rank and lengths exclude each other",
                hint="steps_per_rank: one length a rank; lengths: any rank may have any of them",
            )
        if rounds is not None and rounds < 1:
            raise UsageError(f"rounds is a number of batches above zero, not {rounds!r}")
        is_by_rank = steps_per_rank is not None
        if is_by_rank:
            found = read_lengths(steps_per_rank, "steps_per_rank", world_size)
        else:
            found = read_lengths(lengths, "lengths")
        return cls(
            world_size, found, is_by_rank, streams(samples), shortened(found, rounds), rounds
        )

    @property
    def _choices(self) -> list[dict[str, int]]:
        """The lengths that any rank may have: one of each loader."""
        rows = itertools.product(*map(dict.fromkeys, self.lengths.values()))
        return [dict(zip(self.lengths, row, strict=True)) for row in rows]

    @property
    def supply(self) -> Supply:
        """What ranks may get, by number and rank."""
        return Supply(self._feed, lambda number, rank: self._feed(number, rank).words, "loaders")

    def choose(self, most: int) -> Chosen:
        """Choose the assignments that are played."""
        kinds = len(self.streams) * (1 if self.is_by_rank else len(self._choices))
        return choose(kinds, self.world_size, most, "loaders")

    def _feed(self, number: int, rank: int) -> Feed:
        if self.is_by_rank:
            stream, lengths = number, {name: row[rank] for name, row in self.lengths.items()}
        else:
            stream, choice = divmod(number, len(self._choices))
            lengths = self._choices[choice]
        return feed_of(lengths, self.played, self.streams[stream])

    # --- what is said ------------------------------------------------------------------------

    @property
    def _short(self) -> dict[int, int]:
        return {length: played for length, played in self.played.items() if played < length}

    def judged(self, logs: Mapping[int, RankLog], verdict: Verdict) -> Verdict:
        """Leave a loop undecided that was played shorter than it is and does not repeat."""
        if not verdict.safe or self.rounds is None:
            return verdict
        for rank, log in sorted(logs.items()):
            at = unrepeated(log, self.rounds)
            if at is not None:
                reason = (
                    f"rounds={self.rounds}: the rounds of the loop at {at} do not repeat on rank "
                    f"{rank} (three times, by a divisor of {self.rounds}), so that they stand for "
                    "no others; give precheck other rounds, or none"
                )
                return left_open(verdict, reason)
        return verdict

    def told(self, verdict: Verdict) -> Verdict:
        """Say in the ledger which loaders the ranks had."""
        entries = [Approximation(LOOPS, self._said(), "exact", scope="plan")]
        if self._short:
            pairs = ", ".join(f"{a:,} as {b:,}" for a, b in sorted(self._short.items()))
            entries.append(
                Approximation(
                    LOOPS,
                    f"rounds={self.rounds} declares that further rounds of a loop are like those "
                    f"played: loaders of {pairs} batches; what happens later for the first time, "
                    "or counts batches otherwise than by a divisor of it, is not decided",
                    "exact",
                    scope="plan",
                )
            )
        return replace(verdict, approximations=(*verdict.approximations, *entries))

    def _said(self) -> str:
        if self.is_by_rank:
            rows = [
                (f"{name}: " if name else "") + ", ".join(map(str, row))
                for name, row in self.lengths.items()
            ]
            said = f"the loaders of the ranks have these batches: {'; '.join(rows)}"
        else:
            rows = [
                (f"{name}: " if name else "") + " or ".join(map(count, dict.fromkeys(row)))
                for name, row in self.lengths.items()
            ]
            said = f"a rank's loader has {'; '.join(rows)}"
        return f"{said}; other lengths are not decided"
