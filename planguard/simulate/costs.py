"""What an action costs in a model of time: alpha-beta links, FLOPs over a rate, unit steps.

A message of ``b`` bytes over a link takes ``alpha + b / beta``. A collective takes what its slowest
member sends under the chosen decomposition. All of it is modeled; pictures say so beside each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from planguard.simulate.edges import Call, outgoing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.plan.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Speeds that the plan does not say.

    Attributes:
        latency_us: Latency of a link (alpha), microseconds.
        bandwidth: Bandwidth of a link inside a node (1/beta), bytes per second.
        node_bandwidth: Bandwidth of a link between nodes, bytes per second.
        flops: Rate of one device, floating-point operations per second.
        step_us: Duration of a computation that has neither duration nor FLOPs, microseconds.
        algorithm: How collectives are taken apart.
    """

    latency_us: float = 5.0
    bandwidth: float = 2e11
    node_bandwidth: float = 2.5e10
    flops: float = 1e14
    step_us: float = 100.0
    algorithm: str = "ring"


class Links:
    """Latency and bandwidth between ranks, from the plan's topology or the default rates."""

    def __init__(self, plan: Plan, rates: Rates) -> None:
        self.rates = rates
        self.stated: dict[tuple[int, int], tuple[float, float]] = {}
        self.types: dict[tuple[int, int], str] = {}
        self.node: dict[int, int] = {}
        topology: Any = plan.document.topology
        if topology is UNSET:
            return
        for place in () if topology.ranks is UNSET else topology.ranks:
            if place.node is not UNSET:
                self.node[place.rank] = place.node
        for link in () if topology.links is UNSET else topology.links:
            self._add(link)

    def _add(self, link: Any) -> None:
        latency = self.rates.latency_us if link.latency_us is UNSET else link.latency_us
        default = self._default(link.src, link.dst)
        bandwidth = default if link.bandwidth is UNSET or not link.bandwidth else link.bandwidth
        pairs = [(link.src, link.dst)]
        if link.duplex is UNSET or link.duplex:
            pairs.append((link.dst, link.src))
        for pair in pairs:
            self.stated[pair] = latency, bandwidth
            if link.type is not UNSET:
                self.types[pair] = link.type

    def _default(self, src: int, dst: int) -> float:
        same = self.node.get(src) == self.node.get(dst)
        return self.rates.bandwidth if same else self.rates.node_bandwidth

    def of(self, src: int, dst: int) -> tuple[float, float]:
        """Return latency (microseconds) and bandwidth (bytes per second) between two ranks."""
        found = self.stated.get((src, dst))
        return found or (self.rates.latency_us, self._default(src, dst))

    def message_us(self, src: int, dst: int, size: int, messages: int = 1) -> float:
        """Return the time of ``messages`` messages of ``size`` bytes in all, microseconds."""
        latency, bandwidth = self.of(src, dst)
        return messages * latency + size / bandwidth * 1e6

    def collective_us(self, call: Call, members: Sequence[int]) -> float:
        """Return what one member's share of a collective takes, microseconds."""
        src = members[call.position]
        return max(
            (
                self.message_us(src, members[edge.to], edge.bytes, edge.transfers)
                for edge in outgoing(call, self.rates.algorithm)
            ),
            default=0.0,
        )
