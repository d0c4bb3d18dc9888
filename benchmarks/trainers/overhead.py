"""What the recorder and the live guard add to a step of accelerate's and transformers' jobs.

    python benchmarks/trainers/overhead.py --rounds 3

One job on two gloo ranks, bare, recorded and guarded, in turns. Told are milliseconds of processor
time of rank 0 for a step (all its threads), which neighbors on the machine disturb least, and by
the clock; the noise is the range of the bare rounds among themselves.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from measure import HERE, planguard, run

STEPS = "40"
WAYS = ("bare", "recorded", "guarded")


def once(kind: str, way: str, place: Path) -> dict[str, float]:
    """Run a job once; return what it tells of a step."""
    job = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
           str(HERE / "jobs" / "steps.py"), kind, STEPS]  # fmt: skip
    more = {"TRAINERS_STEPS": str(place / "steps.json"), "TRAINERS_OUT": str(place / "out")}
    if way == "recorded":
        job = [*planguard("dryrun", "-o", "run", "--"), *job]
    if way == "guarded":
        more |= {"PYTHONPATH": str(HERE / "inject"), "TRAINERS_WATCH": "guard",
                 "TRAINERS_GUARD_S": "60", "TRAINERS_REPORT": str(place / "stuck.txt")}  # fmt: skip
    ended = run(job, more, 300, place)
    file = place / "steps.json"
    assert file.exists(), ended.err[-2000:]
    return json.loads(file.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", nargs="+", default=["accelerate", "transformers"])
    args = parser.parse_args()
    for kind in args.jobs:
        seen: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
        for _ in range(args.rounds):
            for way in WAYS:
                with tempfile.TemporaryDirectory() as folder:
                    seen[way].append(once(kind, way, Path(folder)))
        row: dict[str, object] = {"job": kind}
        for clock in ("cpu", "wall"):
            bare = [one[clock] for one in seen["bare"]]
            base = statistics.median(bare)
            row[f"{clock} ms"] = round(base, 2)
            row[f"{clock} noise"] = round((max(bare) - min(bare)) / base, 3)
            for way in WAYS[1:]:
                row[f"{clock} {way}"] = round(
                    statistics.median(one[clock] for one in seen[way]) / base, 3
                )
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
