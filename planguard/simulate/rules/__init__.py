"""The PG6xx rules: advice on performance and structure. They never change an outcome.

Thresholds without a source are ours; docs/reference/rules.md lists them. Rules on measured FLOPS
and bandwidth (PG605, PG611) need a recorded run.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING

from planguard.errors import UsageError, shorten
from planguard.simulate.rules import measured, structure, tensors, times
from planguard.simulate.rules.facts import Facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planguard.plan.plan import Plan
    from planguard.simulate.schedule import Schedule
    from planguard.simulate.traffic import Traffic
    from planguard.verdict import Finding

DEFAULTS: dict[str, dict[str, float]] = {
    "PG601": {"factor": 3.0, "share": 0.01},
    "PG602": {"factor": 2.0, "share": 0.01},
    "PG603": {"threshold": 0.25},
    "PG604": {"tolerance": 0.10},
    "PG606": {"threshold": 1.5},
    "PG610": {"threshold": 0.20},
    "PG612": {"threshold": 0.20},
    "PG613": {"threshold": 0.30},
    "PG620": {"bytes": 1024},
    "PG621": {"bytes": 64 * 2**20},
    "PG622": {},
    "PG623": {"threshold": 1.0},
    "PG630": {},
    "PG631": {},
    "PG632": {},
    "PG633": {},
    "PG640": {"count": 100, "bytes": 64 * 2**10},
}
"""Thresholds of every rule; settings override them by code and name."""

MEASURED: dict[str, dict[str, float]] = {
    "PG605": {"threshold": 0.5, "bytes": 64 * 2**10},
    "PG611": {"threshold": 0.20},
}
"""Thresholds of the rules that compare measured rates: a plan alone cannot answer them."""

NEEDS_TRACE = tuple(MEASURED)
"""Their codes."""

_STRUCTURE: dict[str, Callable[[Facts, dict[str, float]], Iterator[Finding]]] = {
    "PG606": structure.link_traffic,
    "PG610": structure.stage_flops,
    "PG612": structure.rank_flops,
    "PG613": structure.peak_memory,
    "PG620": tensors.shard_too_small,
    "PG621": tensors.large_unpartitioned,
    "PG622": tensors.redundant_reshard,
    "PG623": tensors.small_operand,
    "PG630": structure.self_traffic,
    "PG631": structure.one_way_duplex,
    "PG632": structure.master_worker,
    "PG633": structure.host_staged,
    "PG640": structure.tiny_collectives,
}

_TIMES: dict[str, Callable[[Facts, Schedule, dict[str, float]], Iterator[Finding]]] = {
    "PG601": times.slow_operator,
    "PG602": times.stragglers,
    "PG603": times.collective_waits,
    "PG604": times.stage_waits,
}

_RATES: dict[str, Callable[[Facts, Schedule, dict[str, float]], Iterator[Finding]]] = {
    "PG605": measured.slow_link,
    "PG611": measured.slow_device,
}

PER_RULE = 5
"""Findings shown of one rule; the last one says how many more there are."""


def advise(
    plan: Plan,
    thresholds: Mapping[str, Mapping[str, float]] | None = None,
    run: Schedule | None = None,
    moved: Traffic | None = None,
) -> tuple[Finding, ...]:
    """Apply the rules to a plan.

    Args:
        plan: The plan.
        thresholds: By code and name, over ``DEFAULTS``.
        run: Measured times of the plan; modeled ones, where the plan states some, if None.
        moved: What it moves, collectives as rings; counted if None.

    Returns:
        Findings by code, at most ``PER_RULE`` of each.

    Raises:
        UsageError: There is no such rule or threshold.
    """
    facts = Facts(plan)
    if moved is not None:
        facts.moved = moved
    every = DEFAULTS | MEASURED
    limits = _limits(every, {} if thresholds is None else thresholds)
    found = [list(rule(facts, limits[code])) for code, rule in _STRUCTURE.items()]
    if run is not None:
        found += [list(rule(facts, run, limits[code])) for code, rule in _RATES.items()]
    if run is None and times.has_times(facts):
        run = times.modeled(facts)
    if run is not None:
        found += [list(rule(facts, run, limits[code])) for code, rule in _TIMES.items()]
    kept = [finding for findings in found for finding in _some(findings)]
    return tuple(sorted(kept, key=lambda finding: finding.code))


def _limits(
    every: dict[str, dict[str, float]], thresholds: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, float]]:
    """Return the thresholds of every rule, those that are given over the usual ones."""
    if not isinstance(thresholds, Mapping):
        raise UsageError(f"thresholds {shorten(thresholds)}: no mapping", hint=_HINT)
    for code, given in thresholds.items():
        if code not in every or not isinstance(given, Mapping):
            raise UsageError(f"no rule with thresholds is {shorten(code)}", hint=_HINT)
        for name, value in given.items():
            if name not in every[code] or not isinstance(value, Real):
                known = ", ".join(every[code]) or "none"
                message = f"{code} has no threshold {shorten(name)}={shorten(value)}"
                raise UsageError(message, hint=f"its thresholds are numbers: {known}")
    return {code: {**own, **thresholds.get(code, {})} for code, own in every.items()}


_HINT = '{"PG610": {"threshold": 0.3}}; docs/reference/rules.md lists them'


def _some(findings: list[Finding]) -> list[Finding]:
    from dataclasses import replace

    if len(findings) <= PER_RULE:
        return findings
    kept = findings[:PER_RULE]
    more = f"{len(findings) - PER_RULE} more of this rule"
    return [*kept[:-1], replace(kept[-1], notes=(*kept[-1].notes, more))]
