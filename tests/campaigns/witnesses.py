"""Verdicts on random plans against real gloo processes: witnesses are played, SAFE plans finish.

Three campaigns, all under model ``gloo``:

* ``reordering``: witnesses of POTENTIAL_DEADLOCK and of a MISMATCH that only some executions have
  (open orders, fused buffers, branches, dropped handles, receives from anyone), played in the order
  of the witness, must hang or mismatch as predicted;
* ``kinds``: witnesses of every kind, fixed plans included, must do so three times out of three;
* ``safe``: plans judged SAFE must finish with the data they should get, under five seeds each,
  which pick the order, the branches and the flushes, and delay every action at random.

Run ``python tests/campaigns/witnesses.py`` for all, with ``--keep FOLDER`` to get the plans of
every disagreement. docs/explanation/trust.md holds the last full result.
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

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "property")]

# ruff: noqa: E402  the tests are found only now
import test_fused_orders
import test_orders
from oracle import opened
from oracle.generate import generate

import planguard
from planguard.plan.flatten import flatten
from planguard.replay import Playable, concluded, playable_of, write_script
from planguard.replay.flat import obstacles
from planguard.replay.pool import Job, Pool
from planguard.replay.report import is_unseen
from planguard.replay.selection import keep
from planguard.replay.settle import playable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.replay import ReplayResult
    from planguard.verdict import Verdict

Item = dict[str, Any]
MODEL = "gloo"
SEEDS = (1, 2, 3, 4, 5)
BATCH = 40
SHAPES = ("orders", "woven", "fused", "branches", "wild", "drops", "fixed")
REORDERING = SHAPES[:-1]


@dataclass(frozen=True)
class Case:
    """One replay to come.

    Attributes:
        shape: What the plan leaves open, one of ``SHAPES``.
        seed: Seed of the plan.
        said: What the verdict says: outcome and code.
        plan: The plan document.
        way: What is played of it.
        delay_seed: Seed of the delays, or None.
    """

    shape: str
    seed: int
    said: str
    plan: Item
    way: Playable
    delay_seed: int | None = None


@dataclass
class Tally:
    """How a campaign ended.

    Attributes:
        runs: Replays that were made.
        shapes: How many cases of each shape.
        failed: Cases that did not go as the verdict says, with what was seen.
        left_out: Why cases could not be played, with how many.
    """

    runs: int = 0
    shapes: Counter[str] = field(default_factory=Counter)
    said: Counter[str] = field(default_factory=Counter)
    failed: list[tuple[Case, str]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        """Return the counts in a few lines."""
        shapes = ", ".join(f"{name} {count}" for name, count in sorted(self.shapes.items()))
        said = ", ".join(f"{name} {count}" for name, count in self.said.most_common())
        lines = [f"{sum(self.shapes.values())} cases, {self.runs} runs, {len(self.failed)} failed"]
        lines += [f"  shapes: {shapes}", f"  verdicts: {said}"]
        lines += [f"  left out {count}: {why}" for why, count in self.left_out.items()]
        lines += [f"  FAILED {c.shape} {c.seed} {c.said}: {seen}" for c, seen in self.failed[:40]]
        return "\n".join(lines)


def plan_of(shape: str, seed: int) -> Item | None:
    """Return the random plan of a shape and seed, None where there is none."""
    rng = random.Random(seed)
    if shape == "orders":
        found = test_orders.loosen({"templates": {}, **generate(seed)}, rng)
    elif shape == "woven":
        found = test_orders.weave(seed)
    elif shape == "fused":
        found = test_fused_orders.random_plan(seed)
    elif shape == "branches":
        found = opened.branched(seed, rng)
    elif shape == "wild":
        found = opened.wild(seed, rng)
    elif shape == "drops":
        return dropping(generate(seed), rng)
    else:
        found = generate(seed)
    return dict(found)


def dropping(document: Item, rng: random.Random) -> Item | None:
    """Return a plan in which one handle dies as soon as it is made; None where none is waited for.

    A handle waited for by name alone is dropped right after its start.
    """
    programs = opened.programs(document)
    waits = [
        (program, item)
        for program in programs
        for item in program
        if item["op"] == "wait" and isinstance(item["work"], str)
    ]
    if not waits:
        return None
    program, wait = rng.choice(waits)
    starts = [at for at, item in enumerate(program) if item.get("work") == wait["work"]]
    program.remove(wait)
    program.insert(starts[0] + 1, {"op": "drop", "work": wait["work"]})
    return document


def judged(shape: str, seed: int) -> Iterator[tuple[Item, Verdict, list[tuple[str, Playable]]]]:
    """Yield the plan, its verdict, and every witness with its code, ready to be played."""
    document = plan_of(shape, seed)
    if document is None:
        return
    try:
        plan = planguard.load(document)
        verdict = planguard.check(plan, model=MODEL)
    except planguard.PlanError:
        return
    ways = []
    for finding in verdict.findings:
        if finding.witness is None or finding.severity != "error":
            continue
        ways.append((f"{finding.code}/{finding.certainty}", playable(plan, finding.witness)))
    if shape == "drops" and verdict.outcome.value == "POTENTIAL_DEADLOCK":
        # Whether a handle dies before its match is a matter of timing: the whole plan, drops first.
        ways = [("PG308/some-execution", Playable(flatten(plan)))]
    yield document, verdict, ways


def unsafe(shapes: Sequence[str], count: int, *, only_some: bool, tally: Tally) -> Iterator[Case]:
    """Yield cases with a prediction, shapes in turn, until there are enough.

    Args:
        shapes: Shapes of plans.
        count: How many cases.
        only_some: Only what holds in some executions and not in all.
        tally: Gets the reasons why a case cannot be played.
    """
    left, share = count, Counter[str]()
    for seed in range(100 * count):
        for shape in shapes:
            if share[shape] > 3 * count / len(shapes):
                continue
            for document, verdict, ways in judged(shape, seed):
                if only_some and verdict.outcome.value not in ("POTENTIAL_DEADLOCK", "MISMATCH"):
                    continue
                fit = [w for w in ways if not only_some or w[0].endswith("some-execution")]
                for code, way in fit[:1]:
                    reasons = obstacles(keep(way.flat, way.witness), way.flat)
                    if way.witness is not None and is_unseen(way.flat, way.witness):
                        reasons = ["barriers out of round: they carry no data to compare"]
                    if reasons:
                        tally.left_out[reasons[0]] += 1
                        continue
                    share[shape] += 1
                    said = f"{verdict.outcome.value} {code.partition('/')[0]}"
                    yield Case(shape, seed, said, document, way)
                    left -= 1
                    if not left:
                        return


def safe(shapes: Sequence[str], count: int, tally: Tally) -> Iterator[Case]:
    """Yield SAFE plans, shapes in turn, each once per seed of ``SEEDS``."""
    left = count
    for seed in range(100 * count):
        for shape in shapes:
            for document, verdict, _ in judged(shape, seed):
                if not verdict.safe:
                    continue
                cases = []
                for delay in SEEDS:
                    way = playable_of(document, seed=delay)
                    reasons = obstacles(keep(way.flat, None), way.flat)
                    if reasons:
                        tally.left_out[reasons[0]] += 1
                        break
                    cases.append(Case(shape, seed, "SAFE", document, way, delay))
                if len(cases) == len(SEEDS):
                    yield from cases
                    left -= 1
                    if not left:
                        return


def held(case: Case, result: ReplayResult) -> bool:
    """Whether a run went as the verdict says."""
    return result.completed if case.said == "SAFE" else result.reproduced


def play_all(
    cases: Iterator[Case], pool: Pool, tally: Tally, timeout: float, repeat: int = 1
) -> Tally:
    """Play cases in batches and count what happened; a case that failed is not repeated."""
    seen: set[tuple[str, int]] = set()
    while True:
        batch = [case for _, case in zip(range(BATCH), cases, strict=False)]
        if not batch:
            return tally
        scripts = [write_script(c.way.flat, c.way.witness, places=c.way.places) for c in batch]
        for case in batch:
            if (case.shape, case.seed) not in seen:
                seen.add((case.shape, case.seed))
                tally.shapes[case.shape] += 1
                tally.said[case.said] += 1
        for _ in range(repeat):
            jobs = [
                Job(script.text, timeout if case.said != "SAFE" else 4 * timeout, case.delay_seed)
                for case, script in zip(batch, scripts, strict=True)
            ]
            for case, script, observed in zip(batch, scripts, pool.run(jobs), strict=True):
                result = concluded(case.way, script, observed, model=MODEL)
                tally.runs += 1
                if not held(case, result):
                    tally.failed.append((case, result.reason))
            sys.stderr.write(f"  {tally.runs} runs, {len(tally.failed)} failed\n")


def main() -> int:
    """Run the campaigns and print what happened; 1 if anything disagreed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--reordering", type=int, default=300)
    parser.add_argument("--kinds", type=int, default=200)
    parser.add_argument("--safe", type=int, default=300)
    parser.add_argument("--parallel", type=int, default=4, help="replays at the same time")
    parser.add_argument("--timeout", type=float, default=1.5, help="seconds without progress")
    parser.add_argument("--keep", type=Path, help="write the plans of disagreements here")
    args = parser.parse_args()
    failed: list[tuple[Case, str]] = []
    with Pool(args.parallel) as pool:
        for name in ("reordering", "kinds", "safe"):
            begin, tally, count = time.monotonic(), Tally(), getattr(args, name)
            if not count:
                continue
            if name == "safe":
                play_all(safe(SHAPES, count, tally), pool, tally, args.timeout)
            else:
                some = name == "reordering"
                shapes, repeat = (REORDERING, 1) if some else (SHAPES, 3)
                cases = unsafe(shapes, count, only_some=some, tally=tally)
                play_all(cases, pool, tally, args.timeout, repeat)
            sys.stdout.write(f"{name}: {tally}\n  {time.monotonic() - begin:.0f} s\n")
            sys.stdout.flush()
            failed += tally.failed
    if args.keep and failed:
        args.keep.mkdir(parents=True, exist_ok=True)
        for case, seen in failed:
            body = {**case.plan, "x-said": case.said, "x-seen": seen}
            path = args.keep / f"{case.shape}-{case.seed}.plan.json"
            path.write_text(json.dumps(body, indent=1), encoding="utf-8")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
