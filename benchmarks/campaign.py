"""Verdicts on random plans against the enumerator of executions: one command, in slices.

Draws plans of up to 4 ranks, about 6 actions a rank and 3 groups: fixed ones, open orders, fused
buffers, branches, wildcards and waits for one of several, host threads, and all of these in one
plan (``mixed``). Each is decided under all nine models, or under one that rotates with
``--one-model``, and the outcome is compared with that of ``tests/oracle``, which shares no code
with PlanGuard. A seed always gives the same plan, so slices add up:

    python benchmarks/campaign.py --first 0 --count 5000 --append campaign.jsonl
    python benchmarks/campaign.py --sum campaign.jsonl

Exit code 1 if an outcome differs. docs/benchmarks.md holds the last results.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "property")]

# ruff: noqa: E402  the tests are found only now
import test_fused_orders
import test_orders
from oracle import combined, opened
from oracle.enumerator import Effort, OracleBudget, enumerate_plan
from oracle.flushes import every_execution
from oracle.flushes import outcome_of as outcome_of_flushes
from oracle.generate import generate
from oracle.models import MODELS
from oracle.program import OracleUnsupported

import planguard
from planguard.reordering.join import says_disagreement

if TYPE_CHECKING:
    from collections.abc import Sequence

Item = dict[str, Any]
SHAPES = ("fixed", "orders", "fused", "branched", "wild", "threaded", "raced", "mixed")
WORSE = {"POTENTIAL_DEADLOCK": ("MISMATCH", "DEADLOCK"), "MISMATCH": ("DEADLOCK",)}
"""What may be true where a verdict says of itself that it is not complete."""
EXECUTIONS = 24
"""Plans with fused buffers that have more executions are passed over."""


def draw(seed: int) -> tuple[str, Item]:
    """Return the shape and the plan of a seed."""
    shape, rng = SHAPES[seed % len(SHAPES)], random.Random(seed)
    if shape == "fixed":
        return shape, generate(seed)
    if shape == "orders":
        return shape, test_orders.loosen(generate(seed), rng)
    if shape == "fused":
        return shape, test_fused_orders.random_plan(seed)
    if shape == "branched":
        return shape, opened.branched(seed, rng)
    if shape == "wild":
        return shape, opened.wild(seed, rng)
    if shape == "threaded":
        return shape, opened.threaded(seed, rng)
    if shape == "raced":
        return shape, opened.raced(seed, rng)
    return shape, combined.combined(seed)


@dataclass
class Tally:
    """What a slice found.

    Attributes:
        plans: Plans that the door let pass, by shape.
        compared: Verdicts that both gave, by outcome.
        unknown: Verdicts that PlanGuard did not give, by reason.
        passed: Verdicts that the enumerator did not give, by reason.
        careful: Different outcomes that the documentation announces, by kind.
        different: Different outcomes: seed, model, what was expected, what was found.
        raised: Checks that raised: seed, model, exception.
    """

    plans: Counter[str] = field(default_factory=Counter)
    compared: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    passed: Counter[str] = field(default_factory=Counter)
    careful: Counter[str] = field(default_factory=Counter)
    different: list[list[Any]] = field(default_factory=list)
    raised: list[list[Any]] = field(default_factory=list)

    def add(self, row: dict[str, Any]) -> None:
        """Add the counts of another slice."""
        for name in ("plans", "compared", "unknown", "passed", "careful"):
            getattr(self, name).update(row[name])
        self.different += row["different"]
        self.raised += row["raised"]


def expected_of(document: Item, model: str, limit: int, seed: int) -> str:
    """Return the outcome the enumerator gives, or why it gives none (in brackets)."""
    try:
        if not document.get("fusion"):
            return enumerate_plan(document, model, Effort(limit, 0, seed)).outcome
        if len(every_execution(document)) > EXECUTIONS:
            return "(more than 24 executions of fused buffers)"
        return outcome_of_flushes(document, model)
    except OracleBudget:
        return "(too many states)"
    except OracleUnsupported as reason:
        return f"({reason})"
    except (KeyError, StopIteration, TypeError, AttributeError):
        if document.get("fusion"):
            return "(fused buffers beside what the enumerator does not play)"
        raise


def announced(document: Item, verdict: Any, model: str, expected: str) -> str:
    """Return why two outcomes may differ, or an empty string: what the property tests allow."""
    outcome, text = verdict.outcome.value, json.dumps(document)
    if {outcome, expected} == {"DEADLOCK", "MISMATCH"} and any(
        map(says_disagreement, verdict.findings)
    ):
        return "blame of what hangs behind a mismatch"
    if not verdict.complete and verdict.unsafe and expected in WORSE.get(outcome, ()):
        return "a verdict that is not complete, of less than all there is"
    lost = (expected, outcome) == ("SAFE", "POTENTIAL_DEADLOCK") and model.startswith("gloo")
    if lost and '"drop"' in text:
        return "careful with a dropped handle"
    if (expected, outcome) == ("SAFE", "MISMATCH") and '"coalesced"' in text:
        return "a coalesced collective of one tensor"
    return ""


def compare(seed: int, models: Sequence[str], limit: int, tally: Tally) -> None:
    """Compare one plan under some models."""
    shape, document = draw(seed)
    if document.get("fusion") and shape == "fused":
        models = [test_fused_orders.model_of(document, seed)]
    try:
        plan = planguard.load(document)
    except planguard.PlanError:
        tally.plans[f"{shape}, refused"] += 1
        return
    tally.plans[shape] += 1
    for model in models:
        try:
            verdict = planguard.check(plan, model=model)
        except Exception as error:  # noqa: BLE001  whatever it is, it is what is looked for
            tally.raised.append([seed, model, repr(error)[:200]])
            continue
        if verdict.unknown:
            tally.unknown[_reason(verdict)] += 1
            continue
        expected = expected_of(document, model, limit, seed)
        if expected.startswith("(") or expected == "UNKNOWN":
            tally.passed[expected] += 1
        elif expected == verdict.outcome.value:
            tally.compared[expected] += 1
        elif reason := announced(document, verdict, model, expected):
            tally.careful[reason] += 1
        else:
            tally.different.append([seed, model, expected, verdict.outcome.value])


def _reason(verdict: Any) -> str:
    """Return why a verdict is UNKNOWN, without what is only of this plan."""
    reason = verdict.reasons[0] if verdict.reasons else verdict.findings[0].message
    for mark in ("the program is not valid", "is not valid", "nothing to check"):
        if mark in reason:
            return mark
    return reason.removeprefix("not decided: ").split(" (")[0][:100]


def run(
    first: int, count: int, *, one_model: bool, limit: int, seconds: float | None = None
) -> tuple[Tally, int]:
    """Compare the plans of a slice; return the tally and how many seeds were drawn."""
    tally, begin = Tally(), time.monotonic()
    for done, seed in enumerate(range(first, first + count)):
        if seconds is not None and time.monotonic() - begin > seconds:
            return tally, done
        # Nine models and eight shapes: all pairs come up.
        models = [list(MODELS)[seed % len(MODELS)]] if one_model else list(MODELS)
        compare(seed, models, limit, tally)
    return tally, count


def summary(tally: Tally) -> str:
    """Return a tally in words."""
    compared, unknown = sum(tally.compared.values()), sum(tally.unknown.values())
    asked = compared + unknown + sum(tally.passed.values()) + sum(tally.careful.values())
    asked += len(tally.different) + len(tally.raised)
    lines = [
        f"plans      {sum(tally.plans.values()):,}  {dict(tally.plans)}",
        f"verdicts   {asked:,}",
        f"compared   {compared:,}  {dict(tally.compared)}",
        f"different  {len(tally.different)}  {tally.different[:10]}",
        f"raised     {len(tally.raised)}  {tally.raised[:10]}",
        f"careful    {sum(tally.careful.values())}  {dict(tally.careful)}",
        f"UNKNOWN    {unknown:,} ({100 * unknown / max(1, asked):.1f} %)",
        *(f"  {n:>7,}  {why}" for why, n in tally.unknown.most_common(12)),
        f"not judged by the enumerator  {sum(tally.passed.values()):,}",
        *(f"  {n:>7,}  {why}" for why, n in tally.passed.most_common(6)),
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a slice, or add up slices."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--count", type=int, default=100_000, help="how many seeds")
    parser.add_argument("--seconds", type=float, help="stop after this time")
    parser.add_argument("--limit", type=int, default=2_000, help="states the enumerator visits")
    parser.add_argument("--one-model", action="store_true", help="one model for each plan")
    parser.add_argument("--append", type=Path, help="append the result to this file")
    parser.add_argument("--sum", type=Path, help="only add up the slices in this file")
    given = parser.parse_args(arguments)
    if given.sum:
        tally = Tally()
        for line in given.sum.read_text(encoding="utf-8").splitlines():
            tally.add(json.loads(line))
    else:
        one, limit = given.one_model, given.limit
        tally, done = run(
            given.first, given.count, one_model=one, limit=limit, seconds=given.seconds
        )
        print(f"seeds      {given.first} to {given.first + done - 1}")
        if given.append:
            row = {"first": given.first, "seeds": done, "one_model": one, **vars(tally)}
            with given.append.open("a", encoding="utf-8") as out:
                out.write(json.dumps(row) + "\n")
    print(summary(tally))
    return int(bool(tally.different or tally.raised))


if __name__ == "__main__":
    raise SystemExit(main())
