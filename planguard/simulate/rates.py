"""Measured rates: what links carried and devices computed in the time that a run took for it.

A duration begins when the last member of a match has come and ends when the later of the two ends
of the link leaves it: waiting for somebody is not the link's. A round lasts as long as its slowest
link, so what a link carried in it is the least that the link can do.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET

from planguard.simulate.traffic import HOST, Operators

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from planguard.simulate.schedule import Schedule, Span

BASIS = "measured"
Class = tuple[Any, ...]
Name = TypeVar("Name")


@dataclass(frozen=True)
class Done:
    """One piece of work in the time it took.

    Attributes:
        work: What is compared with what: only equal work is.
        amount: Bytes, or FLOPs.
        us: Microseconds, more than 0.
        ranks: Who took part.
    """

    work: Class
    amount: float
    us: float
    ranks: tuple[int, ...]


Pair = tuple[int, int]


def carried(run: Schedule | None, algorithm: str = "ring") -> dict[Pair, list[Done]]:
    """Return what every link carried, operator by operator; nothing of a run that is modeled."""
    found: dict[Pair, list[Done]] = defaultdict(list)
    if run is None or run.basis != BASIS or not run.is_timed:
        return found
    operators = Operators(run.plan, algorithm)
    met: dict[int, dict[int, Span]] = defaultdict(dict)
    for span in run.spans:
        # A call that ends where it begins was seen to be issued, and no more.
        if span.match is not None and span.end is not None and span.end > span.start:
            met[span.match][span.rank] = span
    for span in run.spans:
        if span.match is None or span.kind not in {"collective", "send"}:
            continue
        members = met[span.match]
        view = run.plan.action_at(span.rank, span.action, span.member)
        sizes: dict[Pair, int] = defaultdict(int)
        primitive = ""
        for parcel in operators.of(span.rank, view.instruction):
            sizes[parcel.src, parcel.dst] += parcel.bytes
            primitive = parcel.key.primitive
        for pair, size in sizes.items():
            if size and HOST not in pair and pair[0] != pair[1] and members.keys() >= set(pair):
                begin = max(one.start for one in members.values())
                us = max(members[rank].end or 0.0 for rank in pair) - begin
                if us > 0:
                    done = Done((primitive, size, len(members)), size, us, tuple(sorted(members)))
                    found[pair].append(done)
    return found


def computed(run: Schedule | None) -> dict[int, list[Done]]:
    """Return what every device computed whose FLOPs are known, operator by operator."""
    found: dict[int, list[Done]] = defaultdict(list)
    if run is None or run.basis != BASIS:
        return found
    for span in run.spans:
        if span.kind != "compute" or span.end is None or span.end <= span.start:
            continue
        node: Any = run.plan.action_at(span.rank, span.action, span.member).action
        if node.flops is not UNSET and node.flops > 0:
            name = "" if node.op_name is UNSET else str(node.op_name)
            done = Done((name, node.flops), node.flops, span.end - span.start, (span.rank,))
            found[span.rank].append(done)
    return found


def rate(done: Iterable[Done]) -> float:
    """Return bytes, or FLOPs, per second over pieces of work."""
    kept = list(done)
    us = sum(one.us for one in kept)
    return sum(one.amount for one in kept) / us * 1e6 if us else 0.0


def compared(
    found: Mapping[Name, Iterable[Done]],
    middle: Callable[[list[float]], float] = statistics.fmean,
    least: int = 2,
) -> dict[Name, float]:
    """Return by which part of the rate of its peers each did the work that its peers did as well.

    Args:
        found: Work by who did it.
        middle: What stands for the peers' rates: their mean, or their median.
        least: Fewest peers, itself included, that make a comparison.
    """
    work: dict[Class, dict[Name, list[Done]]] = defaultdict(lambda: defaultdict(list))
    for name, pieces in found.items():
        for one in pieces:
            work[one.work][name].append(one)
    took: dict[Name, float] = defaultdict(float)
    expected: dict[Name, float] = defaultdict(float)
    for by_name in work.values():
        if len(by_name) < least:
            continue
        usual = middle([rate(pieces) for pieces in by_name.values()])
        for name, pieces in by_name.items():
            took[name] += sum(one.us for one in pieces)
            expected[name] += sum(one.amount for one in pieces) / usual * 1e6
    return {name: expected[name] / us for name, us in took.items()}
