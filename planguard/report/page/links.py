"""The topology view: devices, links with their types, and what every operator puts on a link."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET

from planguard.simulate.costs import Links, Rates
from planguard.simulate.rates import carried, rate
from planguard.simulate.traffic import HOST, Operators
from planguard.words import clean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planguard.plan.plan import Plan
    from planguard.simulate.rates import Done
    from planguard.simulate.schedule import Schedule

DRAWN = 256
"""Most ranks of the node-link graph."""

Value = TypeVar("Value", int, float)
Sizes = dict[int, int]
"""How many operators put how many bytes on a link."""


def topology(plan: Plan, algorithm: str = "ring", run: Schedule | None = None) -> dict[str, Any]:
    """Return devices and links; a pair of ranks that exchanges data or is linked is a link.

    Every link has its type, its stated bandwidth (bytes per second) and latency (microseconds), the
    sum of its bytes, and the distribution of bytes and modeled duration over operators: least,
    quartiles, most. Of a measured run it has ``measured`` as well: durations and bandwidth.
    """
    if plan.world_size > DRAWN:
        return {"links": [], "large": plan.world_size}
    links = Links(plan, Rates(algorithm=algorithm))
    moved: dict[tuple[int, int], Sizes] = defaultdict(lambda: defaultdict(int))
    for parcels, times in Operators(plan, algorithm).all():
        own: dict[tuple[int, int], int] = defaultdict(int)
        for parcel in parcels:
            if HOST not in (parcel.src, parcel.dst) and parcel.src != parcel.dst:
                own[parcel.src, parcel.dst] += parcel.bytes
        for pair, size in own.items():
            moved[pair][size] += times
    seen = carried(run, algorithm)
    pairs = sorted(set(moved) | set(links.stated))
    stated = plan.document.topology is not UNSET
    return {
        "links": [
            {**_link(pair, moved.get(pair, {}), links), "measured": _measured(seen.get(pair, ()))}
            for pair in pairs
        ],
        "nodes": [links.node.get(rank) for rank in range(plan.world_size)],
        "stated": stated,
        "measured": bool(seen),
    }


def _measured(done: Sequence[Done]) -> dict[str, Any] | None:
    """Return sums and distributions of what a link was measured to carry, or None."""
    if not done:
        return None
    times = sorted(one.us for one in done)
    widths = sorted(one.amount / one.us * 1e6 for one in done)
    return {
        "operators": len(done),
        "time": round(sum(times), 3),
        "bandwidth": round(rate(done)),
        "times": [round(value, 3) for value in _spread(Counter(times))],
        "bandwidths": [round(value) for value in _spread(Counter(widths))],
        # A round lasts as long as its slowest link.
        "rounds": sum(len(one.ranks) > 2 for one in done),
    }


def _link(pair: tuple[int, int], moved: Mapping[int, int], links: Links) -> dict[str, Any]:
    latency, bandwidth = links.of(*pair)
    sizes = _spread(moved)
    return {
        "pair": list(pair),
        "type": clean(links.types.get(pair, "")),
        "bandwidth": bandwidth,
        "latency": latency,
        "stated": pair in links.stated,
        "bytes": sum(size * times for size, times in moved.items()),
        "operators": sum(moved.values()),
        "sizes": sizes,
        "times": [round(links.message_us(*pair, size), 3) for size in sizes],
        "time": round(sum(links.message_us(*pair, s) * times for s, times in moved.items()), 3),
    }


def _spread(moved: Mapping[Value, int]) -> list[Value]:
    """Return least, first quartile, median, third quartile and most of a distribution."""
    total = sum(moved.values())
    if not total:
        return []
    places = [0, (total - 1) // 4, (total - 1) // 2, 3 * (total - 1) // 4, total - 1]
    out: list[Value] = []
    seen = 0
    for size in sorted(moved):
        seen += moved[size]
        while len(out) < len(places) and places[len(out)] < seen:
            out.append(size)
    return out
