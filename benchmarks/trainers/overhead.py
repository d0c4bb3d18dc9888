"""What the recorder and the live guard add to a step of accelerate's and transformers' jobs.

    python benchmarks/trainers/overhead.py --rounds 60

One job on two gloo ranks for each of the two; within its processes rounds of a few steps are bare
and recorded (or guarded) in turns. Told is the processor time of a step of rank 0, all threads:
the median over the rounds of a round against the bare ones beside it, with its quartiles; the same
of bare rounds among themselves; and the sum of all rounds against that of all bare ones.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from measure import HERE, planguard, run

LENGTHS = {"recorded": 4, "guarded": 20}
"""Steps of a round: a guard starts a thread and a store, whose start is not to be timed."""
FIRST = 5


def once(kind: str, way: str, rounds: int, place: Path) -> dict[str, object]:
    """Run a job; return what it tells of a step."""
    length = LENGTHS[way]
    count = FIRST + length * (2 * rounds + 1)
    job = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
           str(HERE / "jobs" / "steps.py"), kind, str(count), str(length)]  # fmt: skip
    more = {"TRAINERS_STEPS": str(place / "steps.json"), "TRAINERS_OUT": str(place / "out")}
    if way == "recorded":
        job = [*planguard("dryrun", "-o", "run", "--"), *job]
    ended = run(job, more, 60 + rounds * length, place)
    file = place / "steps.json"
    assert file.exists(), ended.out[-1000:] + ended.err[-2000:]
    return {"job": kind, "way": way, **json.loads(file.read_text())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--jobs", nargs="+", default=["accelerate", "transformers"])
    parser.add_argument("--ways", nargs="+", default=["recorded", "guarded"])
    args = parser.parse_args()
    for kind in args.jobs:
        for way in args.ways:
            with tempfile.TemporaryDirectory() as folder:
                row = once(kind, way, args.rounds, Path(folder))
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
