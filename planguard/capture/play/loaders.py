"""Loaders of declared lengths: what a training loop is given in the place of its data.

``precheck(world_size=2, steps_per_rank=[10, 9]).run(loop)`` calls ``loop(loader)`` on every rank. A
loader is like a ``DataLoader``: it has a length, a loop over it gives that many batches, the next
loop begins anew. Batches are the step's number, or with ``samples`` copies of a sample; a rank's
batches are all of one sample, or all samples in turn, so that both a run of equal batches and a
change from one to the next are met on each rank.

The recording knows where a loop over a loader ended and after how many batches: that is the line
that decides where ranks have different numbers of them.
"""

from __future__ import annotations

import copy
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planguard.errors import UsageError, shorten
from planguard.sources import is_library
from planguard.words import plural

if TYPE_CHECKING:
    from types import FrameType

    from planguard.capture.groups.recorder import Recorder
    from planguard.capture.play.logs import RankLog

ONLY = ""
"""Name of a loader that has none."""
_TIMES = 3
"""How often rounds repeat at the end of a shortened loop, at least."""


@dataclass(frozen=True)
class Feed:
    """What the loop of one rank is given.

    Attributes:
        lengths: Batches of each loader, by its name.
        played: With how many batches each length is played.
        samples: What the batches are, in turn; none for the number of the step.
        words: What it is, in words.
    """

    lengths: Mapping[str, int]
    played: Mapping[int, int]
    samples: tuple[Any, ...] = ()
    words: str = ""

    def call(self, loop: Any, recorder: Recorder, args: Any, kwargs: Any) -> Any:
        """Call a loop with its loaders: in front of its arguments, or by their names."""
        made = {
            name: Loader(self.played[length], self.samples, recorder, length)
            for name, length in self.lengths.items()
        }
        only = made.pop(ONLY, None)
        return loop(*args, **kwargs, **made) if only is None else loop(only, *args, **kwargs)


class Loader:
    """Gives a declared number of batches each time it is walked, like a ``DataLoader``."""

    def __init__(
        self, length: int, samples: Sequence[Any], recorder: Recorder, declared: int | None = None
    ) -> None:
        self._length = length
        self._declared = length if declared is None else declared
        self._samples = samples
        self._recorder = recorder
        if self._declared != length:  # that nobody walks it is to be known
            recorder.passes.append(Pass("", length, self._declared))

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"a loader of {count(self._length)}"

    def __iter__(self) -> Iterator[Any]:
        row = Pass(place_of(sys._getframe(1)), self._length, self._declared)  # noqa: SLF001
        self._recorder.passes.append(row)
        return _Walk(self._length, self._samples, self._recorder.actions, row)


class _Walk(Iterator[Any]):
    """One walk over a loader."""

    def __init__(self, length: int, samples: Sequence[Any], actions: Any, row: Pass) -> None:
        self._length, self._samples, self._actions, self._row = length, samples, actions, row

    def __next__(self) -> Any:
        at = self._row.given
        self._row.marks.append(len(self._actions))
        if at >= self._length:
            # Where a loop fetches a batch ahead, this line is another than that of the first.
            self._row.at = place_of(sys._getframe(1)) or self._row.at  # noqa: SLF001 - same
            self._row.ended = True
            raise StopIteration
        self._row.given += 1
        return copied(self._samples[at % len(self._samples)]) if self._samples else at


@dataclass
class Pass:
    """One walk over a loader, as the recording keeps it.

    Attributes:
        at: Line of the program, ``file:line``.
        length: Batches the loader has.
        declared: Batches it stands for.
        given: Batches it gave.
        ended: Whether it was asked for one more.
        marks: Actions the rank had issued each time it was asked.
        made: Line that made the loader, where it is one of the program.
    """

    at: str
    length: int
    declared: int
    given: int = 0
    ended: bool = False
    marks: list[int] = field(default_factory=list)
    made: str = ""


def copied(sample: Any) -> Any:
    """Copy a sample for one rank; also what shares memory with other processes.

    What refuses to be copied (a generator, a lock) is the rank's own all the same: its process is a
    fork.
    """
    try:
        return copy.deepcopy(sample)
    except Exception:  # noqa: BLE001 - whatever a class of the program raises: it is not to be copied
        return sample


_SHOWN = 60  # characters of a sample


def short(sample: Any) -> str:
    """Write a sample in a few words."""
    try:
        text = " ".join(repr(sample).split())
    except Exception:  # noqa: BLE001 - a class of the program
        text = f"a {type(sample).__name__}"
    return shorten(text, _SHOWN)


def place_of(frame: FrameType | None) -> str:
    """Return the innermost line of the program itself; ``enumerate`` and ``zip`` have none."""
    while frame is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""


# --- what may be declared ------------------------------------------------------------------------

Lengths = dict[str, tuple[int, ...]]


def read_lengths(given: Any, name: str, each: int | None = None) -> Lengths:
    """Take lengths: a list, or a list for each name of a loader.

    Args:
        given: ``[10, 9]`` or ``{"train": [10, 9], "val": [3, 3]}``.
        name: The option.
        each: How many each list has; None for any number but zero.

    Raises:
        UsageError: It is none.
    """
    lists = given if isinstance(given, Mapping) else {ONLY: given}
    hint = f'{name}=[10, 9], or by loader: {name}={{"train": [10, 9], "val": [3, 3]}}'
    if not lists or not all(isinstance(key, str) for key in lists):
        raise UsageError(f"{name} names no loader: {shorten(given, 40)}", hint=hint)
    for key, value in lists.items():
        where = f"{name}[{key!r}]" if key else name
        if not isinstance(value, list | tuple) or not value or not all(map(_is_length, value)):
            raise UsageError(f"{where} is a list of lengths, not {shorten(value, 40)}", hint=hint)
        if each is not None and len(value) != each:
            raise UsageError(
                f"{where} has {plural(len(value), 'length')} for {plural(each, 'rank')}",
                hint=f"one length a rank; lengths={list(value)} lets any rank have any of them",
            )
    return {key: tuple(value) for key, value in lists.items()}


def _is_length(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def streams(samples: Sequence[Any] | None) -> list[tuple[tuple[Any, ...], str]]:
    """Return what the batches of a rank may be, with words: all of one sample, or all in turn."""
    if samples is None:
        return [((), "")]
    found: list[tuple[tuple[Any, ...], str]] = [
        ((one,), f"of sample {number} ({short(one)})") for number, one in enumerate(samples)
    ]
    if len(samples) > 1:
        found.append((tuple(samples), "of all samples in turn"))
    return found


def feed_of(
    lengths: Mapping[str, int], played: Mapping[int, int], stream: tuple[tuple[Any, ...], str]
) -> Feed:
    """Make a feed, with its words."""
    batches = ", ".join(
        f"{name}: {count(length)}" if name else count(length) for name, length in lengths.items()
    )
    return Feed(lengths, played, stream[0], f"{batches} {stream[1]}".strip())


def count(length: int) -> str:
    """Write a number of batches."""
    return f"{length:,} batch{'' if length == 1 else 'es'}"


# --- loops that are played shorter than they are -------------------------------------------------


def shortened(lengths: Lengths, rounds: int | None) -> dict[int, int]:
    """Return with how many batches each length is played.

    Less by a multiple of ``rounds``: a loop that counts by a divisor of it ends in the same place.
    Lengths that differ still do, in the same order, and one of at least ``rounds`` keeps so many.
    """
    found: dict[int, int] = {}
    last = -1
    for length in sorted({one for row in lengths.values() for one in row}):
        played = length
        if rounds is not None and length > rounds:
            played = rounds + length % rounds
            played += max(0, -(-(last + 1 - played) // rounds)) * rounds
        found[length] = last = min(played, length)
    return found


def unrepeated(log: RankLog, rounds: int) -> str | None:
    """Return the line of a loop that was played shorter and whose rounds do not repeat.

    Args:
        log: The log of a rank.
        rounds: The bound, of which the period of what repeats must be a divisor.
    """
    short = [row for row in log.passes if row["length"] != row["declared"]]
    walked = [row for row in short if row["at"]]
    if short and not walked:
        return "a loader that is not walked"
    for row in walked:
        marks = row["marks"]
        found = [_round(log, *ends) for ends in itertools.pairwise(marks)]
        if not _repeats(found, rounds):
            return str(row["at"])
    return None


def _round(log: RankLog, first: int, last: int) -> list[Any]:
    names = ("op", "group", "count", "dtype", "bytes", "root", "peer", "src")
    return [[one.get(name) for name in names] for one in log.actions[first:last]]


def _repeats(found: Sequence[Any], rounds: int) -> bool:
    """Tell whether a list ends in a period that comes at least three times and divides a bound."""
    for period in range(1, rounds // _TIMES + 1):
        tail = found[-max(_TIMES * period, len(found) // 2) :]
        if rounds % period == 0 and all(one == tail[at % period] for at, one in enumerate(tail)):
            return True
    return False


# --- the line that decides -----------------------------------------------------------------------


def told_ends(logs: Mapping[int, RankLog], decided: str) -> list[str]:
    """Say whose loader ends first at the line that decides.

    Args:
        logs: Logs by rank.
        decided: The line that decides, ``file:line in function``; empty where none is known.
    """
    walked = {rank: [row for row in log.passes if row["at"]] for rank, log in logs.items()}
    for number in range(max((len(rows) for rows in walked.values()), default=0)):
        rows = {rank: rows[number] for rank, rows in walked.items() if number < len(rows)}
        ended = {rank: row["declared"] for rank, row in rows.items() if row["ended"]}
        if not ended:
            continue
        first = min(ended, key=lambda rank: (ended[rank], rank))
        at = rows[first]["at"]
        more = {
            rank: row["declared"]
            for rank, row in rows.items()
            if row["declared"] > ended[first] and row["at"] == at
        }
        if more and (not decided or decided.startswith(f"{at} ")):
            other = max(more, key=lambda rank: more[rank])
            ends = f"rank {first}'s loader ends after {count(ended[first])}, {at}"
            return [f"{ends}; rank {other}'s goes on"]
    return []
