"""Counts the calls of a few jobs thrice: the recorder, torch.profiler, torch's Flight Recorder.

The profiler sees operators of the dispatcher, the Flight Recorder what gloo's own C++ enqueued:
calls that a callback of a future or a thread of a checkpoint makes are in it whoever made them.
Each is a run of its own, and the latter two are without PlanGuard. Ends with 1 where they differ.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from measure import CALLS, SAME, counted, dry_run, recorded
from trainers import TRAINERS

ENQUEUED = {name.removeprefix("c10d::").strip("_"): what for name, what in CALLS.items()} | SAME
"""Names of the Flight Recorder without the backend in front."""


def enqueued(rows: Counter[str]) -> Counter[str]:
    """Return what gloo enqueues for such calls, or has enqueued, by the names of the recorder.

    It does a reduce_scatter as an all_reduce (torch/csrc/distributed/c10d/ProcessGroupGloo.cpp).
    """
    found: Counter[str] = Counter()
    for name, number in rows.items():
        short = name.partition(":")[2] or name
        what = ENQUEUED.get(short, short)
        found["all_reduce" if what == "reduce_scatter" else what] += number
    return found


def main() -> int:
    """Print a row for each job."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = ["DDP, communication hooks", "FSDP2, DCP async_save"]
    parser.add_argument("--only", nargs="+", default=names, metavar="TRAINER")
    chosen = parser.parse_args().only
    differ = False
    for trainer in TRAINERS:
        if trainer.name not in chosen:
            continue
        with tempfile.TemporaryDirectory() as name:
            place = Path(name)
            (place / "run-of").mkdir()
            dry_run(trainer, place / "run-of", "")
            ours = recorded(place / "run-of" / "run")
            _, profiled = counted(trainer, place / "profiled")
            _, dumped = counted(trainer, place / "dumped", "dump")
        for rank, rows in sorted(ours.items()):
            dump = enqueued(dumped.get(rank, Counter()))
            pairs = (profiled.get(rank, Counter()), rows), (dump, enqueued(rows))
            differ = differ or any(one != other for one, other in pairs)
            told = ["=" if one == other else str(dict(one)) for one, other in pairs]
            counts = ", ".join(f"{what} {number}" for what, number in sorted(rows.items()))
            print(f"{trainer.name}, rank {rank}: {counts}; profiler {told[0]}, dump {told[1]}")
    return int(differ)


if __name__ == "__main__":
    sys.exit(main())
