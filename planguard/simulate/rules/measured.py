"""Rules on measured rates: slow links and slow devices. A modeled run never answers them."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from planguard.execution.findings.cause import make_finding
from planguard.simulate.costs import Links, Rates
from planguard.simulate.rates import carried, compared, computed, rate
from planguard.words import clean, name_ranks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.simulate.rates import Done
    from planguard.simulate.rules.facts import Facts
    from planguard.simulate.schedule import Schedule
    from planguard.verdict import Finding

Limits = dict[str, float]
PEERS = 3
"""Fewest links of a type that make a median: of two, nobody says which one is as it should be."""


def slow_link(facts: Facts, run: Schedule, limits: Limits) -> Iterator[Finding]:
    """PG605: a link carries less bandwidth than links of its type do with the same calls.

    Links that were measured in rounds of more than two are measured together, and told together:
    which of them is the slow one, the round does not say.
    """
    types = Links(facts.plan, Rates()).types
    by_type: dict[str, dict[tuple[int, ...], list[Done]]] = {}
    for pair, pieces in sorted(carried(run).items()):
        for one in pieces:
            if one.amount >= limits["bytes"]:
                unit = pair if len(one.ranks) == 2 else one.ranks
                links = by_type.setdefault(types.get(pair, ""), {})
                links.setdefault(unit, []).append(one)
    for name, links in sorted(by_type.items()):
        for unit, part in compared(links, statistics.median, PEERS).items():
            if part < limits["threshold"]:
                speed = f"{rate(links[unit]) / 1e9:.3g} GB/s"
                link = f"the link from rank {unit[0]} to rank {unit[1]} carries"
                ring = f"the links of a round of {name_ranks(unit)} carry"
                kind = f"links of type {clean(name)}" if name else "links, whose types are unknown,"
                yield make_finding(
                    "PG605",
                    f"{link if len(unit) == 2 else ring} {speed}, {part:.2f} times the median of "
                    f"{kind} with the same calls (measured)",
                    ranks=tuple(sorted(unit)),
                )


def slow_device(facts: Facts, run: Schedule, limits: Limits) -> Iterator[Finding]:
    """PG611: a device reaches less FLOPS than its peers on equal operators (Visual Diagnostics)."""
    found = computed(run)
    for rank, part in sorted(compared(found).items()):
        # Strict: exactly the threshold does not fire.
        if part < 1 - limits["threshold"]:
            first = min((s for s in run.spans if s.rank == rank and s.kind == "compute"),
                        key=lambda span: span.start)  # fmt: skip
            yield make_finding(
                "PG611",
                f"the device of rank {rank} reaches {rate(found[rank]):.3g} FLOPS, {part:.2f} "
                f"times the mean over devices with equal operators (measured)",
                ranks=(rank,),
                primary=facts.plan.location(first.rank, first.action),
            )
