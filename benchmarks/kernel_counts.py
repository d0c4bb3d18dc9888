"""Instructions of the native kernels over fixed plans: a regression that no busy machine hides.

    python benchmarks/kernel_counts.py            # compare with the baseline; a minute when idle
    python benchmarks/kernel_counts.py --update   # write it anew

Each plan is checked once under ``valgrind --tool=callgrind``. What counts is the instructions spent
in the native core itself; the interpreter, which varies with its memory, is left out. The same
binary gives the same number, on any load. Exit code 1 if a count is more than 2 % above the
baseline in ``data/kernel_counts.json``, which holds for the compiler and processor it names.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pipeline_plan

HERE = Path(__file__).resolve()
BASELINE = HERE.parent / "data" / "kernel_counts.json"
TOLERANCE = 2.0
PLANS: dict[str, tuple[tuple[Any, ...], str]] = {
    "8,328 actions of fixed order, gloo": ((4, 1, 2, 82), "gloo"),
    "8,328 actions of fixed order, nccl": ((4, 1, 2, 82), "nccl"),
}


def check(name: str) -> None:
    """Check one plan in this process."""
    import planguard
    from planguard import kernels

    assert kernels.IMPLEMENTATION == "native", kernels.describe()
    shape, model = PLANS[name]
    verdict = planguard.check(pipeline_plan.make(*shape), model=model)
    assert not verdict.unknown, verdict.reasons


def count(name: str) -> int:
    """Return the instructions that a check spends in the native core."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "counts"
        command = ["valgrind", "--tool=callgrind", "-q", f"--callgrind-out-file={out}"]
        command += ["--dump-line=no", sys.executable, str(HERE), "--check", name]
        subprocess.run(command, check=True, env=os.environ | {"PYTHONHASHSEED": "0"}, timeout=1800)
        return instructions_of(out.read_text(encoding="utf-8"), "_native")


def instructions_of(text: str, library: str) -> int:
    """Add up the instructions of a profile that were executed in one library.

    A cost line is ``POSITION COST``; the one behind ``calls=`` is what the callee took.
    """
    names: dict[str, str] = {}
    inside, is_call, total = False, False, 0
    for line in text.splitlines():
        if found := re.fullmatch(r"ob=\((\d+)\)(?: (.*))?", line):
            number, name = found.groups()
            names.setdefault(number, name or "")
            inside = library in names[number]
        elif found := re.fullmatch(r"cob=\((\d+)\) (.*)", line):
            names.setdefault(*found.groups())
        elif line.startswith("calls="):
            is_call = True
        elif found := re.fullmatch(r"[+*\-\d]\S* (\d+)", line):
            total += int(found[1]) if inside and not is_call else 0
            is_call = False
    return total


def compiler() -> str:
    """Name what the counts depend on."""
    from planguard import _native

    data = Path(str(_native.__file__)).read_bytes()
    found = re.search(rb"(GCC: \([^)]*\) [\d.]+|clang version [\d.]+)", data)
    return f"{found[1].decode() if found else 'unknown compiler'}, {platform.machine()}"


def main() -> int:
    """Count, and compare or write the baseline."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--update", action="store_true", help="write the baseline")
    parser.add_argument("--check", metavar="PLAN", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.check:
        check(given.check)
        return 0
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not installed")
        return 0
    known = json.loads(BASELINE.read_text(encoding="utf-8")) if BASELINE.exists() else {}
    here = compiler()
    if known and known["compiler"] != here and not given.update:
        print(f"skipped: the baseline is of {known['compiler']}, this is {here}")
        return 0
    counts: dict[str, int] = {}
    worse = 0
    for name in PLANS:
        counts[name] = count(name)
        before = known.get("instructions", {}).get(name)
        change = 0.0 if not before else (counts[name] / before - 1) * 100
        worse += change > TOLERANCE
        mark = "  REGRESSION" if change > TOLERANCE else ""
        print(f"{name:<42} {counts[name]:>14,}  {change:+6.2f} %{mark}", flush=True)
    if given.update:
        text = json.dumps({"compiler": here, "instructions": counts}, indent=1) + "\n"
        BASELINE.write_text(text, encoding="utf-8")
        return 0
    return int(worse > 0)


if __name__ == "__main__":
    sys.exit(main())
