"""Random strategies of Hetu-Galvatron: the plan of each against what its runtime calls.

    python tests/campaigns/galvatron_random.py CHECKOUT [--seconds 60] [--seed 0]

Needs what ``tests/samples/galvatron/record_runtime.py`` needs. A strategy on 2, 4 or 8 ranks is
either refused by both, or every rank calls the same in the same order, and the plan is SAFE.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
for folder in ("", "unit", "samples/galvatron"):
    sys.path.insert(0, str(TESTS / folder))

import record_runtime  # noqa: E402
import test_galvatron  # noqa: E402

import planguard  # noqa: E402
from planguard.errors import PlanError  # noqa: E402


def strategy(rng: random.Random, world: int) -> dict[str, Any]:
    """Draw a strategy for so many ranks."""
    stages = rng.choice([size for size in (1, 2, 4) if size <= world])
    inside = world // stages

    def layout() -> tuple[int, int]:
        size = rng.choice([size for size in (1, 2, 4) if size <= inside])
        return size, rng.choice([cp for cp in (1, 1, 2) if size * cp <= inside])

    layers = [layout() for _ in range(rng.randint(stages, stages + 3))]
    vocabulary = layout()

    def each(values: Any) -> str:
        return ",".join(str(value) for value in values)

    return {
        "pp_deg": stages,
        "tp_sizes_enc": each(size for size, _ in layers),
        "cp_sizes_enc": each(cp for _, cp in layers),
        "tp_consecutive_flags": each(1 for _ in layers),
        "dp_types_enc": each(rng.randint(0, 1) for _ in layers),
        "use_sp": each(int(rng.random() < 0.3) for _ in layers),
        "global_bsz": rng.choice([4, 8, 12, 16, 20]),
        "chunks": rng.randint(1, 5),
        "pipeline_type": rng.choice(["gpipe", "pipedream_flush"]),
        "default_dp_type": rng.choice(["ddp", "zero2", "zero3"]),
        "vtp": vocabulary[0],
        "vsp": rng.randint(0, 1),
        "vcp": vocabulary[1],
        "vocab_sdp": rng.randint(0, 1),
    }


def compared(given: dict[str, Any], world: int) -> str:
    """Return how a strategy ends: ``same``, ``both refuse``, or what differs."""
    sizes = {"seq_length": record_runtime.SEQUENCE, "hidden_size": record_runtime.HIDDEN}
    try:
        plan = test_galvatron.loaded(given, world_size=world, **sizes)
    except PlanError:
        plan = None
    try:
        ranks = [record_runtime.played(rank, world, given) for rank in range(world)]
    except (AssertionError, RuntimeError, ZeroDivisionError):
        return "both refuse" if plan is None else "only the runtime refuses"
    if plan is None:
        return "only the adapter refuses"
    for rank, own in enumerate(ranks):
        planned = test_galvatron.planned_words(plan, rank)
        called = test_galvatron.recorded_words(own["calls"])
        gathers = [Counter(map(str, words[1])) for words in (planned, called)]
        if planned[0] != called[0] or gathers[0] != gathers[1]:
            return f"rank {rank} differs"
    outcome = planguard.check(plan, model="nccl").outcome.value
    return "same" if outcome == "SAFE" else outcome


def main() -> int:
    """Compare until time is up; 1 if one differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    record_runtime.checked_out(arguments.checkout)
    rng, counts = random.Random(arguments.seed), Counter[str]()
    end = time.monotonic() + arguments.seconds
    with Path(os.devnull).open("w") as silence, contextlib.redirect_stderr(silence):
        while time.monotonic() < end:
            world = rng.choice([2, 4, 8])
            given = strategy(rng, world)
            ended = compared(given, world)
            counts[ended] += 1
            if ended not in {"same", "both refuse"}:
                print(ended, world, given)
    print(dict(counts))
    return int(bool(counts.keys() - {"same", "both refuse"}))


if __name__ == "__main__":
    raise SystemExit(main())
