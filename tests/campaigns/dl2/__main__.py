"""``python tests/campaigns/dl2 rq1 | rq2 | rq3 | hung | swaps``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE.parent)

from dl2 import campaign, hung, rq1, rq2, rq3, swaps  # noqa: E402  the package is found only now
from planguard.replay.pool import Pool  # noqa: E402

RESULTS = HERE.parent / "results" / "dl2"


def main() -> int:
    """Run a campaign and print its tables; 1 if a verdict was wrong."""
    warnings.filterwarnings("ignore", category=FutureWarning)
    parser = argparse.ArgumentParser(description="The three questions of dl2, asked of PlanGuard.")
    parser.add_argument("question", choices=("rq1", "rq2", "rq3", "hung", "swaps"))
    parser.add_argument("--only", nargs="+", help="models or collectives; all by default")
    parser.add_argument("--per-size", type=int, help="jobs per group size; 32 and 16")
    parser.add_argument("--sizes", type=int, nargs="+", default=rq1.SIZES, help="group sizes")
    parser.add_argument("--ranks", type=int, nargs="+", default=rq3.RANKS, help="of rq3")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of plans and results")
    parser.add_argument("--parallel", type=int, default=3, help="jobs that run at the same time")
    args = parser.parse_args()
    if args.question == "rq3":
        return third(args.results / "rq3.jsonl", args.ranks)
    if args.question in ("hung", "swaps"):
        return once(args.results / f"{args.question}.jsonl", args.question, args.only)
    asked = {"rq1": rq1, "rq2": rq2}[args.question]
    subjects = args.only or asked.SUBJECTS
    rows = []
    for subject in subjects:
        per_size = args.per_size or asked.INSTANCES
        cases = asked.cases(subject, args.results / "plans", per_size, args.sizes)
        file = args.results / f"{args.question}-{subject}.jsonl"
        rows += campaign.run(cases, file, args.parallel)
    print(campaign.table(rows, subjects))
    odd = campaign.wrong(rows)
    for row in odd:
        print(f"WRONG {row['key']} {row['mutation']} {row['outcome']} {row['truth']}")
    return int(bool(odd))


def once(results: Path, question: str, only: Sequence[str] | None) -> int:
    """Play the cells of the third table, or swap calls of one size; 1 if a row is not as judged."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    results.parent.mkdir(parents=True, exist_ok=True)
    found, odd = [], 0
    with Pool(2) if question == "hung" else nullcontext() as pool, results.open("w") as file:
        rows = hung.rows(pool) if pool is not None else swaps.rows(only or rq1.SUBJECTS)
        for row in rows:
            file.write(json.dumps(row) + "\n")
            file.flush()
            found.append(row)
            if not (hung if pool is not None else swaps).expected(row):
                odd += 1
                print(f"WRONG {row}")
    print((hung if question == "hung" else swaps).table(found))
    return int(bool(odd))


def third(results: Path, ranks: Sequence[int]) -> int:
    """Print the extended table; 1 if a row is not as expected."""
    results.parent.mkdir(parents=True, exist_ok=True)
    found = campaign.read(results)
    done = {(row["policy"], row["ranks"]) for row in found}
    with results.open("a", encoding="utf-8") as file:
        for row in rq3.rows(ranks, done):
            file.write(json.dumps(row) + "\n")
            file.flush()
    found = campaign.read(results)
    print(rq3.table(found))
    odd = [row for row in found if not rq3.expected(row)]
    for row in odd:
        print(f"WRONG {row}")
    return int(bool(odd))


if __name__ == "__main__":
    sys.exit(main())
