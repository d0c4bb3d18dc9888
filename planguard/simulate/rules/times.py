"""Rules on the modeled schedule: slow operators, stragglers, waits, idle stages."""

from __future__ import annotations

import statistics
from collections import defaultdict
from typing import TYPE_CHECKING

from planguard.execution.cause import make_finding
from planguard.simulate.schedule import schedule
from planguard.words import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.simulate.rules.facts import Facts
    from planguard.simulate.schedule import Schedule, Span
    from planguard.verdict import Finding

Limits = dict[str, float]


def has_times(facts: Facts) -> bool:
    """Whether the plan states a duration or FLOPs, so that a modeled time says something."""
    return any(
        use.field("duration_us") is not None or use.field("flops") is not None
        for uses in facts.uses
        for use in uses
    )


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
                    ranks=tuple(sorted(ranks)),
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
    for members in _rounds(found):
        spans = sorted(members, key=lambda span: span.start)
        last, before = spans[-1], spans[-2]
        cost = max((span.end or 0.0) - span.ready for span in spans)
        late = last.start - before.start
        if cost and late > max(limits["factor"] * cost, limits["share"] * found.makespan):
            yield make_finding(
                "PG602",
                f"rank {last.rank} comes {late:.4g} us after the others to a round that takes "
                f"{cost:.4g} us ({found.basis})",
                ranks=(last.rank,),
                primary=facts.plan.location(last.rank, last.action),
            )


def collective_waits(facts: Facts, found: Schedule, limits: Limits) -> Iterator[Finding]:
    """PG603: the members of a round spend their time waiting for its last one."""
    for spans in _rounds(found):
        shares = [
            (span.ready - span.start) / ((span.end or 0.0) - span.start)
            for span in spans
            if span.end is not None and span.end > span.start
        ]
        share = sum(shares) / len(spans)
        if share > limits["threshold"]:
            early = min(spans, key=lambda span: span.start)
            yield make_finding(
                "PG603",
                f"members of a round wait {share:.0%} of their time in it, rank {early.rank} the "
                f"longest ({found.basis})",
                ranks=tuple(sorted(span.rank for span in spans)),
                primary=facts.plan.location(early.rank, early.action),
            )


def stage_waits(facts: Facts, found: Schedule, limits: Limits) -> Iterator[Finding]:
    """PG604: a stage idles more than the bubble (p - 1) / (m + p - 1) of its schedule explains."""
    if not any(span.kind in {"send", "recv"} for span in found.spans) or not found.makespan:
        return
    busy: dict[int, float] = defaultdict(float)
    batches: dict[int, set[int]] = defaultdict(set)
    stages: dict[int, int] = {}
    for span in found.spans:
        if span.kind == "compute":
            action = facts.plan.action_at(span.rank, span.action).action
            stage, batch = getattr(action, "stage", None), getattr(action, "mb", None)
            stages.setdefault(span.rank, stage if isinstance(stage, int) else span.rank)
            busy[span.rank] += _length(span)
            batches[span.rank].add(batch if isinstance(batch, int) else -span.action)
    depth, count = len(set(stages.values())), min(map(len, batches.values()), default=0)
    if depth < 2 or not count:
        return
    bubble = (depth - 1) / (count + depth - 1)
    for rank, time in sorted(busy.items()):
        idle = 1 - time / found.makespan
        if idle > bubble + limits["tolerance"]:
            yield make_finding(
                "PG604",
                f"stage {stages[rank]} idles {idle:.0%} of the time, {bubble:.0%} is the bubble of "
                f"{depth} stages and {count} microbatches ({found.basis})",
                ranks=(rank,),
            )
