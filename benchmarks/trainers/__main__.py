"""Trainers that people run, through every command of the dynamic half.

    python benchmarks/trainers                        all trainers that are installed
    python benchmarks/trainers --only "torch DDP"     some
    python benchmarks/trainers --table results.json   the table of an earlier run
    TRAINERS_LIMIT=900 python benchmarks/trainers     on a busy machine: seconds of a command (180)

Every trainer runs without PlanGuard (torch.profiler counts), under ``dryrun``, ``dryrun --stub``,
``precheck`` and the live guard, intact and with one slip. CPU, gloo, random models.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import sys
import time
from pathlib import Path

from measure import EXTENSIONS, measure
from table import problems, table
from trainers import TRAINERS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], help="names of trainers, or of their jobs")
    parser.add_argument("--out", type=Path, default=Path("trainers-run"), help="a new folder")
    parser.add_argument("--table", type=Path, help="print the table of an earlier run")
    parser.add_argument("--merge", type=Path, help="keep the rows of an earlier run for the others")
    parser.add_argument("--no-guard", action="store_true", help="leave the live guard out")
    args = parser.parse_args()
    if args.table:
        return tell(json.loads(args.table.read_text()))
    if args.out.exists():
        shutil.rmtree(args.out)
    args.out.mkdir(parents=True)
    os.environ[EXTENSIONS] = str((args.out / "extensions").resolve())
    rows = {row["trainer"]: row for row in json.loads(args.merge.read_text())} if args.merge else {}
    for trainer in TRAINERS:
        if args.only and not {trainer.name, trainer.job} & set(args.only):
            continue
        missing = [name for name in trainer.needs if importlib.util.find_spec(name) is None]
        if missing:
            print(f"{trainer.name}: skipped, {', '.join(missing)} is not installed", flush=True)
            continue
        begin = time.monotonic()
        place = args.out / trainer.name.replace(" ", "_").replace(",", "")
        row = rows[trainer.name] = measure(trainer, place.resolve(), guards=not args.no_guard)
        print(f"{trainer.name}: {time.monotonic() - begin:.0f} s", flush=True)
        for problem in problems(row):
            print(f"    {problem}", flush=True)
        names = [one.name for one in TRAINERS]
        found = sorted(rows.values(), key=lambda row: names.index(row["trainer"]))
        (args.out / "trainers.json").write_text(json.dumps(found, indent=1) + "\n")
    return tell(list(rows.values()))


def tell(rows: list[dict]) -> int:
    """Print the table; 1 where something is wrong."""
    print(table(rows))
    bad = [f"{row['trainer']}: {problem}" for row in rows for problem in problems(row)]
    print("\n".join(bad))
    return 1 if bad else 0


sys.exit(main())
