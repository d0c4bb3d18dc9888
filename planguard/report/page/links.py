"""The topology view: devices, links with their types, and what every operator puts on a link."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from planguard.plan.actions import SEND_KINDS, is_collective
from planguard.simulate.costs import Links, Rates
from planguard.simulate.edges import Call, outgoing
from planguard.simulate.rules.facts import Facts
from planguard.simulate.traffic import primitive_of
from planguard.words import clean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from planguard.plan.plan import Plan
    from planguard.simulate.rules.facts import Use

DRAWN = 256
"""Most ranks of the node-link graph."""

Sizes = dict[int, int]
"""How many operators put how many bytes on a link."""


def topology(plan: Plan, algorithm: str = "ring") -> dict[str, Any]:
    """Return devices and links; a pair of ranks that exchanges data or is linked is a link.

    Every link has its type, its stated bandwidth (bytes per second) and latency (microseconds), the
    sum of its bytes, and the distribution of bytes and modeled duration over operators: least,
    quartiles, most.
    """
    if plan.world_size > DRAWN:
        return {"links": [], "large": plan.world_size}
    rates = Rates(algorithm=algorithm)
    links = Links(plan, rates)
    moved: dict[tuple[int, int], Sizes] = defaultdict(lambda: defaultdict(int))
    facts = Facts(plan)
    for uses, ranks in facts.programs():
        for use in uses:
            for rank in ranks:
                for dst, size in _edges(plan, use, rank, algorithm):
                    moved[rank, dst][size] += use.times
    pairs = sorted(set(moved) | set(links.stated))
    stated = plan.document.topology is not UNSET
    return {
        "links": [_link(pair, moved.get(pair, {}), links) for pair in pairs],
        "nodes": [links.node.get(rank) for rank in range(plan.world_size)],
        "stated": stated,
    }


def _edges(plan: Plan, use: Use, rank: int, algorithm: str) -> Iterator[tuple[int, int]]:
    """Yield receiver and bytes of everything an action of a rank sends."""
    if use.kind in SEND_KINDS:
        peer = plan.peer(rank, use.node)
        if peer is not None:
            yield peer, use.bytes or 0
    elif use.group is not None and is_collective(use.kind):
        primitive = primitive_of(use.kind)
        members = list(plan.group(use.group).members(rank, plan.mesh)) or [*range(plan.world_size)]
        if primitive is None or rank not in members:
            return
        root = use.field("root")
        place = members.index(root) if root in members else 0
        call = Call(primitive, len(members), members.index(rank), use.bytes or 0, place)
        for edge in outgoing(call, algorithm):
            yield members[edge.to], edge.bytes


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


def _spread(moved: Mapping[int, int]) -> list[int]:
    """Return least, first quartile, median, third quartile and most of a distribution."""
    total = sum(moved.values())
    if not total:
        return []
    places = [0, (total - 1) // 4, (total - 1) // 2, 3 * (total - 1) // 4, total - 1]
    out: list[int] = []
    seen = 0
    for size in sorted(moved):
        seen += moved[size]
        while len(out) < len(places) and places[len(out)] < seen:
            out.append(size)
    return out
