"""The NCCL half of PlanGuard on one real GPU, in phases with a limit each: at most ten minutes.

    python benchmarks/gpu                         all phases
    python benchmarks/gpu --only facts order      some
    python benchmarks/gpu --rehearse              the same scripts over gloo, without a GPU

Every phase is a process of its own and prints one line of JSON, also appended to gpu.jsonl in the
folder of --out: {"phase", "seconds", "figures", "error"}; a phase that is over its limit keeps the
figures that it has. A rehearsal has four times the limits. Without a GPU it says so and ends with
status 0. Needs a CUDA build of torch, NCCL 2.30 or newer for several ranks on one GPU, and
`pip install .` with a compiler.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from phases import PHASES
from ranks import REHEARSAL, TOKEN, UNTIL, allowed, end_all

# Phases of which every part needs NCCL itself.
NCCL_ONLY = ("interposer", "plugin", "witnesses", "order")


def child(phase: str, out: Path) -> None:
    """Run one phase here and print its figures."""
    run, _ = PHASES[phase]
    print(json.dumps(run(out)))


def one(phase: str, out: Path) -> dict[str, object]:
    """Run one phase in a process of its own, and end whatever it leaves."""
    limit = allowed(PHASES[phase][1])
    begin = time.monotonic()
    word = f"{phase}-{os.getpid()}"
    more = {TOKEN: word, UNTIL: str(begin + limit)}
    file = out / f"{phase}.json"
    file.unlink(missing_ok=True)
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent), "--child", phase, "--out", str(out)],
            stdout=said, env={**os.environ, **more}, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            code: int | None = process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            code = None
        # The ranks have sessions of their own: one that is left would spoil the next phase.
        left = [one for one in end_all(TOKEN, word) if one != process.pid]
        process.wait()
        said.seek(0)
        lines = said.read().splitlines()
    row: dict[str, object] = {"phase": phase, "seconds": round(time.monotonic() - begin, 1)}
    if left:
        row["ended"] = f"{len(left)} processes that were left"
    if code == 0 and lines:
        return row | {"figures": json.loads(lines[-1])}
    if file.exists():
        row["figures"] = json.loads(file.read_text())
    return row | {"error": f"cut off after {limit:.0f} s" if code is None else f"exit {code}"}


def has_gpu() -> bool:
    """Say whether torch sees a GPU."""
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


def main() -> int:
    """Run the phases that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=list(PHASES), default=list(PHASES))
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", choices=list(PHASES), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.out)
        return 0
    if not options.rehearse and not has_gpu():
        print("skipped: torch sees no GPU here (--rehearse plays the scripts over gloo)")
        return 0
    if options.rehearse:
        os.environ[REHEARSAL] = "1"
    out = options.out or Path(tempfile.mkdtemp(prefix="planguard-gpu-"))
    out.mkdir(parents=True, exist_ok=True)
    for phase in options.only:
        if options.rehearse and phase in NCCL_ONLY:
            continue
        line = json.dumps(one(phase, out))
        print(line, flush=True)
        with (out / "gpu.jsonl").open("a") as results:
            results.write(line + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
