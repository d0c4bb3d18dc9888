"""Every schedule, option and pass of the planners beside torch's pipelining, decided.

    python tests/campaigns/planner_sweep_others.py megatron                # where it is installed
    python tests/campaigns/planner_sweep_others.py msccl --source msccl-tools
    python tests/campaigns/planner_sweep_others.py megatron --quick --rows rows.jsonl

The planner itself makes each plan; its adapter reads it, and it is decided under the models of the
backends that the planner uses. What is not SAFE is listed with its smallest setting;
docs/planner-sweep-others.md says what became of each. ``tests/campaigns/sweep/`` has a module per
planner.
"""

from __future__ import annotations

import argparse
import importlib
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from sweep import report
from sweep.cases import decide

PLANNERS = ("megatron", "deepspeed", "msccl", "mscclpp", "xla", "nnscaler", "inductor")
NEED_SOURCE = ("msccl", "mscclpp", "nnscaler")


def main() -> int:
    """Sweep one planner and print its tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("planner", choices=PLANNERS)
    parser.add_argument("--source", type=Path, help="checkout of the planner, where it needs one")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and options")
    parser.add_argument("--rows", type=Path, help="write every row as a line of JSON")
    parser.add_argument("--only", nargs="+", metavar="OPTIONS", help="settings with these options")
    parser.add_argument("--sample", type=int, default=0, help="so many settings, drawn with seed 0")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    given = parser.parse_args()
    planner = importlib.import_module(f"sweep.{given.planner}")
    options = {"quick": given.quick}
    if given.planner in NEED_SOURCE:
        if given.source is None:
            parser.error(f"{given.planner} needs --source")
        options["source"] = given.source.resolve()
    start, rows = time.perf_counter(), []
    cases = [case for case in planner.cases(**options)
             if not given.only or case.options in given.only]  # fmt: skip
    drawn = random.Random(0).sample(cases, given.sample) if given.sample else cases
    for case in drawn:
        if time.perf_counter() - start > given.seconds:
            break
        rows.append(decide(case))
        if given.rows:
            report.append(given.rows, rows[-1])
        if len(rows) % 20 == 0:
            print(f"\r{len(rows):,} of {len(drawn):,}", end="", file=sys.stderr, flush=True)
    seconds = time.perf_counter() - start
    print(f"\n{planner.version()}: {len(rows):,} of {len(cases):,} settings; "
          f"{report.totals(rows)}; {seconds:.0f} s\n")  # fmt: skip
    print(report.table(rows))
    if hasattr(planner, "ran"):
        print(f"\nverdict and real end:\n{planner.ran(rows)}")
    print(f"\nnot SAFE:\n{report.unsafe(rows)}\n\nno plan:\n{report.refused(rows)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
