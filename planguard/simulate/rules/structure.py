"""Rules on what a plan moves and computes, exact or by threshold; no time is modeled here."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from planguard.execution.findings.cause import make_finding
from planguard.plan.actions import Kind, is_collective
from planguard.simulate.traffic import HOST, traffic
from planguard.words import listed, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.simulate.rules.facts import Facts, Use
    from planguard.verdict import Finding

Limits = dict[str, float]
_MESSAGES = (Kind.SEND, Kind.RECV)


def link_traffic(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """PG606: links of one role carry different traffic (Visual Diagnostics, case 2)."""
    moved = facts.moved
    for family in ("p2p", "collective"):
        roles: dict[str, dict[tuple[int, int], int]] = defaultdict(lambda: defaultdict(int))
        for key, edges in moved.edges.items():
            if key.family == family:
                for pair, (number, _) in edges.items():
                    roles[key.group][pair] += number
        for group, links in sorted(roles.items()):
            mean = sum(links.values()) / len(links)
            pair, most = max(links.items(), key=lambda found: (found[1], found[0]))
            if len(links) > 1 and most > limits["threshold"] * mean:
                yield make_finding(
                    "PG606",
                    f"rank {pair[0]} sends rank {pair[1]} {size(most)} in group {group}, "
                    f"{most / mean:.2f} times the mean over its {len(links)} links",
                    ranks=pair,
                )


def stage_flops(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """PG610: a stage computes more than the mean over stages (Visual Diagnostics)."""
    stages: dict[int, list[float]] = defaultdict(list)
    for uses, ranks in facts.programs():
        own: dict[int, float] = defaultdict(float)
        for use in uses:
            if use.field("flops") is not None and use.field("stage") is not None:
                own[use.node.stage] += use.node.flops * use.times
        for stage, flops in own.items():
            stages[stage] += [flops] * len(ranks)
    means = {stage: sum(found) / len(found) for stage, found in stages.items()}
    for stage, mean, value in _above(means, dict.fromkeys(means, 1), limits):
        yield make_finding(
            "PG610",
            f"stage {stage} computes {value:.3g} FLOPs, {value / mean:.2f} times the mean",
            ranks=_ranks_of(facts, stage),
        )


def rank_flops(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """PG612: a rank computes more than the mean over its stage.

    Ranks that state no stage are compared only where nobody sends to anybody: ranks that do may be
    stages of a pipeline. Ranks that run one program are told once.
    """
    messages = any(use.kind in _MESSAGES for uses, _ in facts.programs() for use in uses)
    stages: dict[tuple[int, ...], dict[int, tuple[float, list[int]]]] = defaultdict(dict)
    for number, (uses, ranks) in enumerate(facts.programs()):
        stated = [use for use in uses if use.field("flops") is not None]
        names = {use.field("stage") for use in stated} - {None}
        if stated and (names or not messages):
            flops = sum(use.node.flops * use.times for use in stated)
            stages[tuple(sorted(names))][number] = flops, ranks
    for found in stages.values():
        values = {number: flops for number, (flops, _) in found.items()}
        weights = {number: len(ranks) for number, (_, ranks) in found.items()}
        for number, mean, value in _above(values, weights, limits):
            ranks = found[number][1]
            several = f", as do {len(ranks) - 1:,} others" if len(ranks) > 1 else ""
            yield make_finding(
                "PG612",
                f"rank {ranks[0]} computes {value:.3g} FLOPs, {value / mean:.2f} times the "
                f"mean{several}",
                ranks=tuple(ranks),
            )


def _above(
    values: dict[int, float], weights: dict[int, int], limits: Limits
) -> Iterator[tuple[int, float, float]]:
    """Yield name, mean and value of what is above the mean by more than the threshold."""
    if len(values) < 2:
        return
    total = sum(weights.values())
    mean = sum(value * weights[name] for name, value in values.items()) / total
    for name, value in sorted(values.items()):
        # Strict: exactly the threshold does not fire.
        if value * 1.0 > (1 + limits["threshold"]) * mean:
            yield name, mean, value


def _ranks_of(facts: Facts, stage: int) -> tuple[int, ...]:
    return tuple(
        sorted(
            rank
            for uses, ranks in facts.programs()
            if any(use.field("stage") == stage for use in uses)
            for rank in ranks
        )
    )


def self_traffic(facts: Facts, _: Limits) -> Iterator[Finding]:
    """PG630: a rank moves data to itself (ComScribe, the diagonal)."""
    diagonal = {
        src: number for (src, dst), (number, _) in facts.moved.total().items() if src == dst
    }
    for rank, number in diagonal.items():
        if number:
            yield make_finding(
                "PG630", f"rank {rank} moves {size(number)} to itself", ranks=(rank,)
            )


def one_way_duplex(facts: Facts, _: Limits) -> Iterator[Finding]:
    """PG631: a pair that should carry both directions carries one (ComScribe's bug)."""
    copies = facts.moved.total(family="copy")
    declared = _duplex(facts)
    for (src, dst), (number, _messages) in copies.items():
        if HOST in (src, dst) or src == dst or not number or copies.get((dst, src), (0, 0))[0]:
            continue
        # The copy that is missing has one end wrong: its receiver, or its sender. Devices copy to
        # themselves for other reasons too; the sender's slip is taken for one where sizes agree.
        to_itself = copies.get((dst, dst), (0, 0))[0]
        from_itself = copies.get((src, src), (0, 0))[0] == number
        meant = (src, dst) in declared or to_itself or from_itself
        if meant:
            yield make_finding(
                "PG631",
                f"ranks {src} and {dst} copy one way only: {size(number)} from {src} to {dst}, "
                f"nothing back",
                ranks=(src, dst),
            )


def _duplex(facts: Facts) -> set[tuple[int, int]]:
    topology: Any = facts.plan.document.topology
    if topology is UNSET or topology.links is UNSET:
        return set()
    pairs = [(link.src, link.dst) for link in topology.links if link.duplex is True]
    return {*pairs, *((dst, src) for src, dst in pairs)}


def master_worker(facts: Facts, _: Limits) -> Iterator[Finding]:
    """PG632: all traffic goes through one device (ComScribe's L)."""
    # Without a root, "direct" takes nothing apart in another way than a ring does.
    rooted = any(one.root is not None for one in facts.plan.code.signatures)
    moved = traffic(facts.plan, "direct") if rooted else facts.moved
    pairs = {
        pair
        for pair, (number, _) in moved.total().items()
        if number and HOST not in pair and pair[0] != pair[1]
    }
    if not pairs or facts.plan.world_size < 3:
        return
    for center in sorted(set.intersection(*(set(pair) for pair in pairs))):
        others = {rank for pair in pairs for rank in pair} - {center}
        if len(others) == facts.plan.world_size - 1:
            yield make_finding(
                "PG632", f"all traffic passes through rank {center}", ranks=(center,)
            )
            return


def host_staged(facts: Facts, _: Limits) -> Iterator[Finding]:
    """PG633: a copy between devices goes through the host."""
    topology: Any = facts.plan.document.topology
    links = None
    if topology is not UNSET and topology.links is not UNSET:
        links = {frozenset((link.src, link.dst)) for link in topology.links}
    for uses, ranks in facts.programs():
        for use in uses:
            if use.op != "d2d" or use.field("path") != "via_host" or use.field("peer") is None:
                continue
            linked = [r for r in ranks if links is None or frozenset((r, use.node.peer)) in links]
            if linked:
                yield _at(
                    facts,
                    "PG633",
                    linked[0],
                    use,
                    f"rank {linked[0]} copies to rank {use.node.peer} through the host",
                    ranks=(*linked, use.node.peer),
                )


def tiny_collectives(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """PG640: many small collectives follow each other on one group."""
    for uses, ranks in facts.programs():
        for group, (count, first) in _runs(uses, limits["bytes"]).items():
            if count > limits["count"]:
                yield _at(
                    facts,
                    "PG640",
                    ranks[0],
                    first,
                    f"{count:,} collectives of less than {size(int(limits['bytes']))} follow "
                    f"each other on group {group}",
                    ranks=tuple(ranks),
                )


def _runs(uses: list[Use], limit: float) -> dict[str, tuple[int, Use]]:
    """Return the longest run of small collectives of every group, with its first action."""
    longest: dict[str, tuple[int, Use]] = {}
    current: dict[str, tuple[int, Use]] = {}
    for use in uses:
        if use.group is None or not is_collective(use.kind) or use.kind == Kind.BARRIER:
            continue
        if use.bytes is None or use.bytes >= limit:
            current.pop(use.group, None)
            continue
        count, first = current.get(use.group, (0, use))
        current[use.group] = (count + use.times, first)
        if current[use.group][0] > longest.get(use.group, (0, use))[0]:
            longest[use.group] = current[use.group]
    return longest


def _at(
    facts: Facts, code: str, rank: int, use: Use, message: str, *, ranks: tuple[int, ...]
) -> Finding:
    place = facts.plan.location(rank, use.index)
    return make_finding(code, message, ranks=tuple(sorted(set(ranks))), primary=place)


def peak_memory(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """PG613: the largest working set differs between ranks, by the `bytes` of computations."""
    peak: dict[int, int] = {}
    for uses, ranks in facts.programs():
        own = [use.node.bytes for use in uses if use.op == "compute" and use.field("bytes")]
        if own:
            peak |= dict.fromkeys(ranks, max(own))
    if len(peak) < 2:
        return
    most, least = max(peak.values()), min(peak.values())
    spread = (most - least) / most
    if spread > limits["threshold"]:
        heavy = [rank for rank, number in sorted(peak.items()) if number == most]
        yield make_finding(
            "PG613",
            f"peak memory is {size(most)} on rank {listed([str(r) for r in heavy[:3]])} and "
            f"{size(least)} elsewhere: {spread:.0%} apart (by the bytes of computations)",
            ranks=tuple(heavy),
        )
