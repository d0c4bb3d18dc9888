"""What the recorder and the live guard add to a step of accelerate's and transformers' jobs.

    python benchmarks/trainers/overhead.py --pairs 300

One job on two gloo ranks for each of the two; within its processes blocks of a few steps are bare
and recorded (or guarded) in turns. Told is the processor time of rank 0, all threads: for every
pair of neighboring blocks the logarithm of the ratio of their quickest steps, of these the median,
and its interval of 95 % from 4,000 resampled sets of pairs; the same of bare blocks among
themselves, which must hold 1; and the ratio of the tenths that were quickest.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from measure import HERE, planguard, run

FIRST, UNTIMED = 10, 1
"""As in ``jobs/ways.py``."""
SAMPLES = 4000


def once(kind: str, way: str, size: str, pairs: int, length: int, place: Path) -> dict[str, object]:
    """Run a job; return what it tells of its steps."""
    count = FIRST + (length + UNTIMED) * 2 * pairs
    job = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
           str(HERE / "jobs" / "steps.py"), kind, str(count), str(length), size]  # fmt: skip
    more = {"TRAINERS_STEPS": str(place / "steps.json"), "TRAINERS_OUT": str(place / "out")}
    if way == "recorded":
        job = [*planguard("dryrun", "-o", "run", "--"), *job]
    ended = run(job, more, 60 + (0.6 if size == "tiny" else 3.0) * count, place)
    file = place / "steps.json"
    assert file.exists(), ended.out[-1000:] + ended.err[-2000:]
    return {"job": kind, "size": size, "way": way, **judged(json.loads(file.read_text()))}


def judged(said: dict) -> dict[str, object]:
    """Return the ratios of steps that were timed, with their intervals."""
    beside = said["beside, s a step"]
    blocks: dict[int, list[float]] = defaultdict(list)
    ways: dict[int, bool] = {}
    for is_on, block, taken in said["steps"]:
        ways[block] = is_on
        blocks[block].append(taken + beside * is_on)
    quickest = {block: min(rows) for block, rows in blocks.items()}
    ratios, noise = [], []
    for first in range(0, max(blocks), 2):
        if first in ways and first + 1 in ways:
            bare, other = sorted((first, first + 1), key=ways.__getitem__)
            ratios.append(math.log(quickest[other] / quickest[bare]))
    bare = [quickest[block] for block in sorted(ways) if not ways[block]]
    turns = random.Random(1)
    for a, b in zip(bare[::2], bare[1::2], strict=False):
        noise.append(math.log(a / b) * turns.choice((-1, 1)))
    every = {on: [t + beside * on for way, _, t in said["steps"] if way == on] for on in (0, 1)}
    tenth = {on: statistics.quantiles(rows, n=10)[0] for on, rows in every.items()}
    return {
        "pairs": len(ratios),
        "bare, ms": round(1e3 * statistics.median(every[0]), 2),
        "thread, ms a step": round(1e3 * beside, 3),
        "ratio": interval(ratios),
        "bare against bare": interval(noise),
        "quickest tenth": round(tenth[1] / tenth[0], 4),
    }


def interval(logs: list[float]) -> list[float]:
    """Return the median ratio and its 95 % interval, by resampling."""
    turns = random.Random(2)
    found = sorted(statistics.median(turns.choices(logs, k=len(logs))) for _ in range(SAMPLES))
    ends = found[int(0.025 * SAMPLES)], found[int(0.975 * SAMPLES)]
    return [round(math.exp(x), 4) for x in (statistics.median(logs), *ends)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--steps", type=int, default=2, help="timed steps of a block")
    parser.add_argument("--jobs", nargs="+", default=["accelerate", "transformers"])
    parser.add_argument("--size", choices=("tiny", "small"), default="tiny", help="of the model")
    parser.add_argument("--ways", nargs="+", default=["recorded", "guarded"])
    args = parser.parse_args()
    for kind in args.jobs:
        for way in args.ways:
            with tempfile.TemporaryDirectory() as folder:
                row = once(kind, way, args.size, args.pairs, args.steps, Path(folder))
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
