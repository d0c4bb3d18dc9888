"""Collectives in flight together that can block each other, over any number of them.

A device with room for one communication kernel starts those that are in flight in some order. If
every device chose its own, two collectives that share two devices can wait for each other; XLA's
scheduler forbids that overlap (``GpuScheduleCrossesOverlapLimit``: no two in flight that share more
than one device). But three on the edges of a triangle of devices share one device each and block
each other just as well. The rule for any number: there must be no circle of collectives in which
each waits, on another device each time, for the next.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .steps import Choice, Collective, Exchange, Loop, Message, Step, Wait

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Call = tuple[str, tuple[int, ...]]
"""A collective: name of the instruction and its group."""
MAX_CIRCLE = 8
MAX_LOOKS = 200_000


@dataclass(frozen=True)
class Overlap:
    """A circle of collectives that are in flight together.

    Attributes:
        calls: The collectives, each with its group of ranks; each can wait for the next.
        ranks: The rank on which it does.
    """

    calls: tuple[Call, ...]
    ranks: tuple[int, ...]

    @property
    def pairwise(self) -> bool:
        """True if XLA's rule about pairs sees it: two of the collectives share two devices."""
        groups = [set(group) for _, group in self.calls]
        pairs = ((a, b) for i, a in enumerate(groups) for b in groups[i + 1 :])
        return any(len(a & b) > 1 for a, b in pairs)

    def __str__(self) -> str:
        names = ", ".join(f"{name} of {list(group)}" for name, group in self.calls)
        return f"{names} on ranks {', '.join(map(str, self.ranks))}"


@dataclass(frozen=True)
class _Window:
    call: Call
    begin: int
    end: float


def find_overlap(traces: Mapping[int, Sequence[Step]]) -> Overlap | None:
    """Return the smallest circle among the collectives in flight, None if there is none.

    Raises:
        OverflowError: There are too many to look at.
    """
    edges: dict[Call, set[tuple[Call, int]]] = defaultdict(set)
    free: set[Call] = set()
    windows = [
        (rank, _windows(steps)) for rank, block in traces.items() for steps in _blocks(block)
    ]
    for rank, found in windows:
        for one, other in _overlapping(found):
            edges[one.call].add((other.call, rank))
            edges[other.call].add((one.call, rank))
            free |= {one.call, other.call}
    for rank, found in windows:
        _add_fixed(edges, [window for window in found if window.call in free], rank)
    return _smallest(edges)


def overlaps(steps: Sequence[Step]) -> bool:
    """Tell whether one device has two collectives of different groups in flight together."""
    return any(any(_overlapping(_windows(block))) for block in _blocks(steps))


def _blocks(steps: Sequence[Step]) -> Iterator[Sequence[Step]]:
    """Yield steps, and the bodies and branches in them, each as a sequence of its own."""
    yield steps
    for step in steps:
        if isinstance(step, Loop):
            yield from _blocks(step.body)
        elif isinstance(step, Choice):
            for branch in step.branches:
                yield from _blocks(branch)


def _windows(steps: Sequence[Step]) -> list[_Window]:
    ends = {step.handle: place for place, step in enumerate(steps) if isinstance(step, Wait)}
    found = []
    for place, step in enumerate(steps):
        if isinstance(step, Collective | Exchange | Message):
            group = step.group if isinstance(step, Collective) else _pair(step)
            at_once = step.handle is None or (isinstance(step, Message) and step.blocking)
            end = place + 0.5 if at_once else ends.get(step.handle or "", float("inf"))
            if len(group) > 1:
                found.append(_Window((step.origin.text, group), place, end))
    return found


def _pair(step: Exchange | Message) -> tuple[int, ...]:
    if isinstance(step, Exchange):
        return step.domain if step.target is not None or step.source is not None else ()
    return step.domain


def _overlapping(windows: Sequence[_Window]) -> Iterator[tuple[_Window, _Window]]:
    """Yield pairs of windows that are open together."""
    open_: list[_Window] = []
    for window in windows:
        open_ = [other for other in open_ if other.end > window.begin]
        yield from ((other, window) for other in open_ if other.call[1] != window.call[1])
        open_.append(window)


def _add_fixed(
    edges: dict[Call, set[tuple[Call, int]]], windows: Sequence[_Window], rank: int
) -> None:
    """Add who waits for whom because one ends before the other begins."""
    for place, later in enumerate(windows):
        for earlier in windows[:place]:
            if earlier.end < later.begin and earlier.call != later.call:
                edges[later.call].add((earlier.call, rank))


def _smallest(edges: Mapping[Call, set[tuple[Call, int]]]) -> Overlap | None:
    looks = 0

    def extend(path: list[Call], ranks: list[int], length: int) -> Overlap | None:
        nonlocal looks
        for call, rank in sorted(edges[path[-1]]):
            looks += 1
            if looks > MAX_LOOKS:
                raise OverflowError("too many collectives are in flight together")
            if ranks and rank == ranks[-1]:
                continue
            if call == path[0] and len(path) == length and rank != ranks[0]:
                return Overlap(tuple(path), (*ranks, rank))
            if len(path) < length and call not in path and call > path[0]:
                found = extend([*path, call], [*ranks, rank], length)
                if found is not None:
                    return found
        return None

    for length in range(2, min(MAX_CIRCLE, len(edges)) + 1):
        for start in sorted(edges):
            found = extend([start], [], length)
            if found is not None:
                return found
    return None
