"""Which assignments of samples to ranks are played, and what may be said of those that are not.

Every rank may get any sample, whatever the others got. All assignments are played where they are
few; else a cover, which is what shows real bugs (a decision that one rank makes alone):

1. every sample on all ranks;
2. every ordered pair of samples with one odd rank, the last one and the first one;
3. every two samples on every two ranks: for each pair and each bit of a rank's number, the ranks
   with that bit have one sample and the others the other (two ranks differ in some bit);
4. every ordered pair with every other rank as the odd one, as far as the limit allows.

The first two are the base: without them nothing is claimed. Whatever is claimed is computed from
what was played, not from what was meant to be.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Assignment = tuple[int, ...]
"""The number of the sample of every rank, by rank."""

MOST = 64
"""Assignments that are all played; and how far a cover goes beyond its base."""
_LISTED = 256
"""Assignments that the ledger lists."""


@dataclass(frozen=True)
class Chosen:
    """Assignments in the order in which they are played.

    Attributes:
        samples: Number of samples.
        world_size: Number of ranks.
        assignments: What is played.
        base: How many of them, from the first, must be played for a cover to be one.
        what: What ranks are given, in words.
        enough: Those of them that do where ranks cannot tell assignments apart (``untold``): every
            sample on every rank, mixed ones among them. None where no such argument is wanted.
    """

    samples: int
    world_size: int
    assignments: tuple[Assignment, ...]
    base: int
    what: str = "samples"
    enough: frozenset[Assignment] = frozenset()

    @property
    def total(self) -> int:
        """Number of all assignments that there are."""
        return int(self.samples**self.world_size)


def choose(samples: int, world_size: int, most: int = MOST, what: str = "samples") -> Chosen:
    """Choose what is played; what shows bugs most often comes first.

    Args:
        samples: Number of samples.
        world_size: Number of ranks.
        most: Up to so many, all assignments are played; a cover beyond its base ends there.
        what: What ranks are given, in words.
    """
    is_few = samples**world_size <= most
    first = () if is_few or samples < 2 else tuple(_first(samples, world_size))
    base = tuple(dict.fromkeys((*first, *_base(samples, world_size))))
    rest = _every(samples, world_size) if is_few else _beyond(samples, world_size)
    known = dict.fromkeys(base)
    for assignment in rest:
        if len(known) >= most:
            break
        known.setdefault(assignment)
    return Chosen(samples, world_size, tuple(known), len(base), what, frozenset(first))


def _first(samples: int, world_size: int) -> Iterator[Assignment]:
    """Return few assignments in which every rank has every sample once.

    The first has one sample, since what fails for it is told of it; one odd rank shows most bugs,
    so that all others have one. Of two samples that leaves the second for all ranks, and one more.
    """
    yield (0,) * world_size
    last = world_size - 1
    if samples == 2:
        yield _odd(0, 1, last, world_size)
        yield (1,) * world_size
        return
    for number in range(1, samples):
        yield _odd(number, number % (samples - 1) + 1, last, world_size)


def _base(samples: int, world_size: int) -> Iterator[Assignment]:
    equal = [(number,) * world_size for number in range(samples)]
    yield equal[0]  # what fails for a single sample is told of a single sample
    for usual, odd in pairs(samples):
        yield _odd(usual, odd, world_size - 1, world_size)
        if odd == (usual + 1) % samples:
            yield equal[odd]
    yield from equal
    for usual, odd in pairs(samples):
        yield _odd(usual, odd, 0, world_size)


def _beyond(samples: int, world_size: int) -> Iterator[Assignment]:
    for bit in range((world_size - 1).bit_length()):
        for usual, odd in pairs(samples):
            yield tuple(odd if rank >> bit & 1 else usual for rank in range(world_size))
    for rank in range(1, world_size - 1):
        for usual, odd in pairs(samples):
            yield _odd(usual, odd, rank, world_size)


def _every(samples: int, world_size: int) -> Iterable[Assignment]:
    return itertools.product(range(samples), repeat=world_size)


def pairs(samples: int) -> list[tuple[int, int]]:
    """Return every ordered pair of two samples, neighbours first, so that all come early."""
    steps = range(1, samples)
    return [(first, (first + step) % samples) for step in steps for first in range(samples)]


def _odd(usual: int, odd: int, place: int, world_size: int) -> Assignment:
    return tuple(odd if rank == place else usual for rank in range(world_size))


# --- what was covered ----------------------------------------------------------------------------


def odd_ranks(chosen: Chosen, played: Sequence[Assignment]) -> list[int]:
    """Return the ranks that were the odd one for every ordered pair of samples."""
    found = set(played)
    return [
        rank
        for rank in range(chosen.world_size)
        if all(_odd(*pair, rank, chosen.world_size) in found for pair in pairs(chosen.samples))
    ]


def covers_pairs(chosen: Chosen, played: Sequence[Assignment]) -> bool:
    """Tell whether every two ranks had every two samples, equal ones too."""
    wanted = chosen.samples**2
    couples = itertools.combinations(range(chosen.world_size), 2)
    return all(len({(one[a], one[b]) for one in played}) == wanted for a, b in couples)


def covered(chosen: Chosen, played: Sequence[Assignment]) -> str:
    """Say what was played, and what is assumed of the rest: a sentence for the ledger."""
    ranks = f"{chosen.samples} {chosen.what} to {chosen.world_size} ranks"
    if len(set(played)) == chosen.total:
        return (
            f"all {chosen.total} assignments of {ranks} were played; "
            f"data unlike these {chosen.what} is not decided"
        )
    said = []
    if all((number,) * chosen.world_size in set(played) for number in range(chosen.samples)):
        said.append("every sample on all ranks")
    odd = odd_ranks(chosen, played)
    if odd and chosen.samples > 1:
        which = _ranks(odd, chosen.world_size)
        said.append(f"every ordered pair of samples with one odd rank ({which})")
    if covers_pairs(chosen, played):
        said.append("every two samples on every two ranks")
    listed = ", ".join(map(written, played[:_LISTED]))
    more = f" and {len(played) - _LISTED} more" if len(played) > _LISTED else ""
    rules = "; ".join(said) or "no rule of choice was completed"
    return (
        f"{len(played)} of {chosen.total} assignments of {ranks} were played: {rules} "
        f"(samples by rank: {listed}{more}); "
        "the others are taken to end as these do, and data unlike these "
        f"{chosen.what} is not decided"
    )


def covered_untold(chosen: Chosen, played: Sequence[Assignment]) -> str:
    """Say what was played where ranks cannot tell what the others have, and what follows."""
    listed = ", ".join(map(written, played))
    return (
        f"{len(played)} of {chosen.total} assignments of {chosen.samples} {chosen.what} to "
        f"{chosen.world_size} ranks were played: every sample on every rank, also among others "
        f"(samples by rank: {listed}); every rank issued the same calls and sent the same to the "
        "others whichever sample it had, so no rank can tell what the others have, and every "
        f"other assignment is the same communication; data unlike these {chosen.what} is not "
        "decided"
    )


def _ranks(ranks: Sequence[int], world_size: int) -> str:
    if len(ranks) == world_size:
        return "each rank"
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def written(assignment: Assignment) -> str:
    """Write an assignment: samples by rank, equal neighbours together, ``0*7 1``."""
    runs = [(number, len(list(run))) for number, run in itertools.groupby(assignment)]
    return " ".join(f"{number}*{count}" if count > 1 else f"{number}" for number, count in runs)
