"""Rules on the modeled schedule: slow operators, stragglers, waits, idle stages."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from planguard.execution.findings.cause import make_finding
from planguard.simulate.schedule import schedule
from planguard.words import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.simulate.rules.facts import Facts, Use
    from planguard.simulate.schedule import Schedule, Span
    from planguard.verdict import Finding

Limits = dict[str, float]


def has_times(facts: Facts) -> bool:
    """Whether the plan states a duration or FLOPs, so that a modeled time says something."""
    return any(_is_timed(use) for uses in facts.uses for use in uses)


def modeled(facts: Facts) -> Schedule:
    """Return the modeled schedule of the plan."""
    return schedule(facts.plan)


def slow_operator(facts: Facts, found: Schedule, limits: Limits) -> Iterator[Finding]:
    """PG601: one operator is far slower than its class, on every rank."""
    classes: dict[str, dict[int, list[Span]]] = defaultdict(lambda: defaultdict(list))
    for span in found.spans:
        if span.kind == "compute":
            action = facts.plan.action_at(span.rank, span.action).action
            name = getattr(action, "op_name", "")
            classes[str(name)][span.rank].append(span)
    for name, ranks in sorted(classes.items()):
        times = [_length(span) for spans in ranks.values() for span in spans]
        limit = limits["factor"] * statistics.median(times)
        for nth in range(min(len(spans) for spans in ranks.values())):
            spans = [own[nth] for own in ranks.values()]
            least = max(limit, limits["share"] * found.makespan)
            if limit and all(_length(span) > least for span in spans):
                first = spans[0]
                yield make_finding(
                    "PG601",
                    f"{shown(name)} takes {_length(first):.4g} us on every rank, "
                    f"{_length(first) / statistics.median(times):.1f} times the median of its "
                    f"class ({found.basis})",
                    ranks=found.all_ranks(ranks),
                    primary=facts.plan.location(first.rank, first.action),
                )


def _length(span: Span) -> float:
    return 0.0 if span.end is None else span.end - span.start


def _rounds(found: Schedule) -> Iterator[list[Span]]:
    rounds: dict[int, list[Span]] = defaultdict(list)
    for span in found.spans:
        if span.kind == "collective" and span.match is not None and span.end is not None:
            rounds[span.match].append(span)
    for number in sorted(rounds):
        if len(rounds[number]) > 1:
            yield rounds[number]


def stragglers(facts: Facts, found: Schedule, limits: Limits) -> Iterator[Finding]:
    """PG602: one rank delays a round (Visual Diagnostics: small triangle height)."""
    unknown = _untimed(facts, found)
    worst: dict[int, tuple[float, float, Span]] = {}
    rounds: Counter[int] = Counter()
    for members in _rounds(found):
        if any(span.rank in unknown for span in members):
            continue
        spans = sorted(members, key=lambda span: span.start)
        last, before = spans[-1], spans[-2]
        cost = max((span.end or 0.0) - span.ready for span in spans)
        late = last.start - before.start
        if cost and late > max(limits["factor"] * cost, limits["share"] * found.makespan):
            own = facts.plan.code.rank_program[last.rank]
            rounds[own] += 1
            if own not in worst or late > worst[own][0]:
                worst[own] = late, cost, last
    for own, (late, cost, last) in worst.items():
        yield make_finding(
            "PG602",
            f"rank {last.rank} comes {late:.4g} us after the others to a round that takes "
            f"{cost:.4g} us{_more(rounds[own])} ({found.basis})",
            ranks=(last.rank,),
            primary=facts.plan.location(last.rank, last.action),
        )


def collective_waits(facts: Facts, found: Schedule, limits: Limits) -> Iterator[Finding]:
    """PG603: the members of a round spend their time waiting for its last one."""
    unknown = _untimed(facts, found)
    worst: dict[tuple[int, ...], tuple[float, list[Span]]] = {}
    rounds: Counter[tuple[int, ...]] = Counter()
    for spans in _rounds(found):
        shares = [
            (span.ready - span.start) / ((span.end or 0.0) - span.start)
            for span in spans
            if span.end is not None and span.end > span.start
        ]
        share = sum(shares) / len(spans)
        if share > limits["threshold"] and not any(span.rank in unknown for span in spans):
            programs = {facts.plan.code.rank_program[span.rank] for span in spans}
            key = tuple(sorted(programs))
            rounds[key] += 1
            if key not in worst or share > worst[key][0]:
                worst[key] = share, spans
    for key, (share, spans) in worst.items():
        early = min(spans, key=lambda span: span.start)
        yield make_finding(
            "PG603",
            f"members of a round wait {share:.0%} of their time in it, rank {early.rank} the "
            f"longest{_more(rounds[key])} ({found.basis})",
            ranks=found.all_ranks(span.rank for span in spans),
            primary=facts.plan.location(early.rank, early.action),
        )


def _more(rounds: int) -> str:
    """Return how many other rounds of the same programs are like the one that is told."""
    return f"; {rounds - 1:,} more rounds are like it" if rounds > 1 else ""


def _untimed(facts: Facts, found: Schedule) -> frozenset[int]:
    """Return the ranks whose computations state no time, of which a model says nothing."""
    if found.basis != "modeled":
        return frozenset()
    return frozenset(
        rank
        for uses, ranks in facts.programs()
        if any(use.op == "compute" and not _is_timed(use) for use in uses)
        for rank in ranks
    )


def _is_timed(use: Use) -> bool:
    return use.field("duration_us") is not None or use.field("flops") is not None


def stage_waits(facts: Facts, found: Schedule, limits: Limits) -> Iterator[Finding]:
    """PG604: a stage idles more than the bubble (p - 1) / (m + p - 1) of its schedule explains.

    Stages and microbatches are those that the computations state: a rank is not a stage, and a
    computation not a microbatch. Where the ranks have several stages, v each, a microbatch is v
    units of work. Ranks of the same stages are told once, by the one that idles longest.
    """
    busy: dict[int, float] = defaultdict(float)
    batches: dict[int, set[int]] = defaultdict(set)
    stages: dict[int, set[int]] = defaultdict(set)
    for span in found.spans:
        if span.kind == "compute":
            busy[span.rank] += _length(span)
            action = facts.plan.action_at(span.rank, span.action).action
            stage, batch = getattr(action, "stage", None), getattr(action, "mb", None)
            if isinstance(stage, int) and isinstance(batch, int):
                stages[span.rank].add(stage)
                batches[span.rank].add(batch)
    if not found.makespan or not stages or _untimed(facts, found) & busy.keys():
        return
    classes: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for rank, own in sorted(stages.items()):
        classes[tuple(sorted(own))].append(rank)
    depth = len(classes)
    chunks, count = min(map(len, stages.values())), min(map(len, batches.values()))
    if depth < 2:
        return
    bubble = (depth - 1) / (count * chunks + depth - 1)
    for names, ranks in sorted(classes.items()):
        longest = min(ranks, key=lambda rank: busy[rank])
        idle = 1 - busy[longest] / found.makespan
        if idle <= bubble + limits["tolerance"]:
            continue
        which = f"stage {names[0]}" if len(names) == 1 else f"the rank of stages {list(names)}"
        alike = found.all_ranks(ranks)
        several = f" on rank {longest} of its {len(alike):,} ranks" if len(alike) > 1 else ""
        yield make_finding(
            "PG604",
            f"{which} idles {idle:.0%} of the time{several}, {bubble:.0%} is the bubble of "
            f"{depth} stages and {count} microbatches ({found.basis})",
            ranks=alike,
        )
