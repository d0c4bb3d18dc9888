"""Verdicts on random plans against the enumerator of executions: one command, in slices.

Draws plans of up to 4 ranks, about 6 actions a rank and 3 groups: fixed ones, open orders, fused
buffers, branches, wildcards and waits for one of several, host threads, and all of these in one
plan (``mixed``). Each is decided under all nine models, or under one that rotates with
``--one-model``, and the outcome is compared with that of ``tests/oracle``, which shares no code
with PlanGuard. A seed always gives the same plan, so slices add up:

    python tests/campaigns/campaign.py --first 0 --count 5000 --append campaign.jsonl
    python tests/campaigns/campaign.py --sum campaign.jsonl

Seeds from 1,000,000 on draw the shapes of ``tests/oracle/shapes.py``, one for each thing that
the others leave out, and fused buffers that ranks coordinate. ``--resume`` goes on behind the last
slice of the file. With ``--jobs`` every plan is one of a job in small: three ranks with about eight
calls of several groups, asynchronous or in fused buffers, with and without ``init`` of the groups.

Exit code 1 if an outcome differs. docs/benchmarks.md holds the last results.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "property")]

# ruff: noqa: E402  the tests are found only now
import test_fused_beside
import test_fused_orders
import test_orders
from oracle import combined, job_orders, opened, shapes
from oracle.answers import outcome_of
from oracle.background import outcome_of as outcome_of_launches
from oracle.enumerator import Effort, OracleBudget
from oracle.flushes import every_execution
from oracle.flushes import outcome_of as outcome_of_flushes
from oracle.generate import generate
from oracle.models import MODELS
from oracle.program import REGISTERED, OracleUnsupported

import planguard
from planguard.operations import OperationSpec, register

if TYPE_CHECKING:
    from collections.abc import Sequence

Item = dict[str, Any]
SHAPES = ("fixed", "orders", "fused", "branched", "wild", "threaded", "raced", "mixed")
LATER = 1_000_000
"""From this seed on plans are of the later shapes."""
LATER_SHAPES = (*shapes.SHAPES, "coordinated")
JOBS = 10_000_000
"""From this seed on plans are of a job in small, under the models of the table of job sizes."""
JOB_SHAPES = ("job", "job", "job-fused")
JOB_MODELS = ("gloo", "nccl", "nccl-lazy", "nccl-serialized")
JOB_CALLS = 8
OWN_MODELS = {
    "probes": ("mpi-eager", "mpi-sync"),
    "modes": ("mpi-eager", "mpi-sync", "mpi-eager", "mpi-sync", "mpi-pg", "gloo", "nccl"),
    "drops": ("gloo", "gloo", "gloo-detail", "mpi-sync", "nccl-lazy"),
    "batches": ("nccl", "nccl-lazy", "nccl-eager", "nccl-serialized", "gloo", "mpi-pg"),
    "selves": ("mpi-eager", "mpi-sync", "nccl", "nccl-lazy", "nccl-eager", "nccl-serialized"),
}
"""Models in which a shape says something; of the others, all nine."""
WORSE = {"POTENTIAL_DEADLOCK": ("MISMATCH", "DEADLOCK"), "MISMATCH": ("DEADLOCK",)}
"""What may be true where a verdict says of itself that it is not complete."""
EXECUTIONS = 24
"""Plans with fused buffers that have more executions are passed over."""


def draw(seed: int) -> tuple[str, Item]:
    """Return the shape and the plan of a seed."""
    if seed >= JOBS:
        shape = JOB_SHAPES[seed % len(JOB_SHAPES)]
        return shape, job(seed) if shape == "job" else test_fused_beside.random_plan(seed)
    if seed >= LATER:
        shape = LATER_SHAPES[seed % len(LATER_SHAPES)]
        return shape, coordinated(seed) if shape == "coordinated" else shapes.shaped(shape, seed)
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


def job(seed: int) -> Item:
    """Return a plan of asynchronous calls; of every other one all groups are created first."""
    document = job_orders.job_plan(seed, JOB_CALLS)
    if seed % 2:
        return document
    for rank, program in document["ranks"].items():
        mine = [name for name, members in job_orders.COMMUNICATORS.items() if int(rank) in members]
        begin = [{"op": "init", "group": name} for name in mine]
        program["actions"] = [*begin, *program["actions"]]
    return document


def coordinated(seed: int) -> Item:
    """Return a plan with fused buffers whose ranks agree on an order."""
    document = test_fused_orders.random_plan(seed)
    rng = random.Random(f"coordinated {seed}")
    for spec in document["fusion"]:
        spec["coordination"] = rng.choice(["rank0-broadcast", "negotiated"])
    return document


def models_of(seed: int) -> Sequence[str]:
    """Return the models that say something about the plan of a seed."""
    if seed < LATER:
        return list(MODELS)
    if seed >= JOBS:
        return JOB_MODELS
    return OWN_MODELS.get(LATER_SHAPES[seed % len(LATER_SHAPES)], tuple(MODELS))


def one_model_of(seed: int) -> str:
    """Return one model for a seed; all pairs of shape and model come up."""
    models = models_of(seed)
    if seed >= JOBS:
        return models[seed // (2 * len(JOB_SHAPES)) % len(models)]
    # Nine models and eight shapes have no divisor in common; of the later shapes some have fewer.
    return models[(seed if seed < LATER else seed // len(LATER_SHAPES)) % len(models)]


def register_operations() -> None:
    """Let PlanGuard know the operations that the enumerator knows."""
    for name, spec in REGISTERED.items():
        more: Item = {"spelling": spec.spelling} if spec.spelling else {"degree": spec.degree}
        if not spec.spelling:
            more["agree"] = tuple(sorted(spec.agree))
        register(OperationSpec(name=name, **more))


class TooSlow(BaseException):
    """A verdict, ours or the enumerator's, takes too long.

    The alarm rings anywhere: what catches every `Exception` must not take it for its own.
    """


def _ring(_signal: int, _frame: object) -> None:
    raise TooSlow


@dataclass
class Tally:
    """What a slice found.

    Attributes:
        plans: Plans that the door let pass, by shape.
        compared: Verdicts that both gave, by outcome.
        unknown: Verdicts that PlanGuard did not give, by reason.
        passed: Verdicts that the enumerator did not give, by reason.
        careful: Different outcomes that the documentation announces, by kind.
        bold: SAFE where the enumerator cannot tell: seed, model.
        different: Different outcomes: seed, model, what was expected, what was found.
        raised: Checks that raised: seed, model, exception.
    """

    plans: Counter[str] = field(default_factory=Counter)
    compared: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    passed: Counter[str] = field(default_factory=Counter)
    careful: Counter[str] = field(default_factory=Counter)
    bold: list[list[Any]] = field(default_factory=list)
    different: list[list[Any]] = field(default_factory=list)
    raised: list[list[Any]] = field(default_factory=list)

    def add(self, row: dict[str, Any]) -> None:
        """Add the counts of another slice."""
        for name in ("plans", "compared", "unknown", "passed", "careful"):
            getattr(self, name).update(row[name])
        self.bold += row.get("bold", [])
        self.different += row["different"]
        self.raised += row["raised"]


def expected_of(document: Item, model: str, limit: int, seed: int) -> str:
    """Return the outcome the enumerator gives, or why it gives none (in brackets)."""
    try:
        if not document.get("fusion"):
            return outcome_of(document, model, Effort(limit, 0, seed))
        negotiated = any(one.get("coordination") == "negotiated" for one in document["fusion"])
        if negotiated and model not in {"gloo", "mpi-eager", "mpi-sync"}:
            return outcome_of_launches(document, model)  # their place plays a part there
        if len(every_execution(document)) > EXECUTIONS:
            return "(more than 24 executions of fused buffers)"
        return outcome_of_flushes(document, model)
    except (OracleBudget, TooSlow):
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
    if not verdict.complete and verdict.unsafe and expected in WORSE.get(outcome, ()):
        return "a verdict that is not complete, of less than all there is"
    lost = (expected, outcome) == ("SAFE", "POTENTIAL_DEADLOCK") and model.startswith("gloo")
    if lost and '"drop"' in text:
        return "careful with a dropped handle"
    return ""


def compare(
    seed: int, models: Sequence[str], limit: int, tally: Tally, patience: float | None = None
) -> None:
    """Compare one plan under some models.

    Args:
        patience: seconds for each verdict, ours and the enumerator's; None is no limit.
    """
    if patience is not None:
        signal.signal(signal.SIGALRM, _ring)
    shape, document = draw(seed)
    if document.get("fusion") and shape in {"fused", "coordinated"}:
        models = [test_fused_orders.model_of(document, seed)]
    try:
        plan = planguard.load(document)
    except planguard.PlanError:
        tally.plans[f"{shape}, refused"] += 1
        return
    tally.plans[shape] += 1
    for model in models:
        try:
            signal.setitimer(signal.ITIMER_REAL, patience or 0)
            verdict = planguard.check(plan, model=model, budget=patience and patience * 0.8)
        except TooSlow:
            tally.unknown[f"takes more than {patience} s"] += 1
            continue
        except Exception as error:  # noqa: BLE001  whatever it is, it is what is looked for
            tally.raised.append([seed, model, repr(error)[:200]])
            continue
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if verdict.unknown:
            tally.unknown[_reason(verdict)] += 1
            continue
        try:
            signal.setitimer(signal.ITIMER_REAL, patience or 0)
            expected = expected_of(document, model, limit, seed)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except TooSlow:  # between its end and the line behind it
            expected = "(too many states)"
        if expected == "UNKNOWN" and verdict.safe:
            tally.bold.append([seed, model])
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
    first: int,
    count: int,
    *,
    one_model: bool,
    limit: int,
    seconds: float | None = None,
    patience: float | None = None,
) -> tuple[Tally, int]:
    """Compare the plans of a slice; return the tally and how many seeds were drawn."""
    tally, begin = Tally(), time.monotonic()
    for done, seed in enumerate(range(first, first + count)):
        if seconds is not None and time.monotonic() - begin > seconds:
            return tally, done
        models = [one_model_of(seed)] if one_model else models_of(seed)
        compare(seed, models, limit, tally, patience)
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
        f"bold       {len(tally.bold)}  {tally.bold[:10]}",
        f"raised     {len(tally.raised)}  {tally.raised[:10]}",
        f"careful    {sum(tally.careful.values())}  {dict(tally.careful)}",
        f"UNKNOWN    {unknown:,} ({100 * unknown / max(1, asked):.1f} %)",
        *(f"  {n:>7,}  {why}" for why, n in tally.unknown.most_common(12)),
        f"not judged by the enumerator  {sum(tally.passed.values()):,}",
        *(f"  {n:>7,}  {why}" for why, n in tally.passed.most_common(6)),
    ]
    return "\n".join(lines)


def _reached(path: Path | None, first: int, end: int) -> int:
    """Return the first seed of a range behind the slices of a file."""
    if path is None or not path.exists():
        return first
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    ends = [row["first"] + row["seeds"] for row in rows if first <= row["first"] < end]
    return max(ends, default=first)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a slice, or add up slices."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--count", type=int, default=100_000, help="how many seeds")
    parser.add_argument("--jobs", action="store_true", help="plans of a job in small")
    parser.add_argument("--seconds", type=float, help="stop after this time")
    parser.add_argument("--limit", type=int, default=2_000, help="states the enumerator visits")
    parser.add_argument("--one-model", action="store_true", help="one model for each plan")
    parser.add_argument("--patience", type=float, help="seconds for a verdict")
    parser.add_argument("--resume", action="store_true", help="go on behind the file's last slice")
    parser.add_argument("--append", type=Path, help="append the result to this file")
    parser.add_argument("--sum", type=Path, help="only add up the slices in this file")
    given = parser.parse_args(arguments)
    if given.resume and not given.append:
        parser.error("--resume needs the file of the slices, --append")
    register_operations()
    if given.sum:
        tally = Tally()
        for line in given.sum.read_text(encoding="utf-8").splitlines():
            tally.add(json.loads(line))
    else:
        start = given.first + (JOBS if given.jobs else 0)
        one, first, end = given.one_model, start, start + given.count
        if given.resume:
            first = _reached(given.append, first, end)
        tally, done = run(
            first,
            end - first,
            one_model=one,
            limit=given.limit,
            seconds=given.seconds,
            patience=given.patience,
        )
        print(f"seeds      {first} to {first + done - 1}")
        if given.append:
            row = {"first": first, "seeds": done, "one_model": one, **vars(tally)}
            with given.append.open("a", encoding="utf-8") as out:
                out.write(json.dumps(row) + "\n")
    print(summary(tally))
    return int(bool(tally.different or tally.raised))


if __name__ == "__main__":
    raise SystemExit(main())
