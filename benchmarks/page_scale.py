"""The report page of large worlds: processor time and peak memory of ``planguard report``.

    python benchmarks/page_scale.py [RANKS ...]

Prints a row for each size (docs/reference/report.md): a step of FSDP and tensor parallelism on a
mesh (dp, tp 8, pp 8), with messages along pp where ``--pipeline`` is given.
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


def document(ranks: int, *, pipeline: bool) -> dict[str, object]:
    """Return a plan of so many ranks, a multiple of 64."""
    step = []
    for _ in range(8):
        step += [
            {"op": "all_gather", "group": "dp", "bytes": 1 << 20},
            {"op": "compute", "op_name": "MatMul", "duration_us": 50, "flops": 1e9},
            {"op": "all_reduce", "group": "tp", "bytes": 1 << 18},
        ]
    step.append({"op": "reduce_scatter", "group": "dp", "bytes": 1 << 20})
    templates, chosen = {"middle": step}, {f"0-{ranks - 1}": {"template": "middle"}}
    if pipeline:
        recv = {"op": "recv", "peer": {"pp": -1}, "bytes": 1 << 16}
        send = {"op": "send", "peer": {"pp": 1}, "bytes": 1 << 16}
        templates = {"first": [*step, send], "middle": [recv, *step, send], "last": [recv, *step]}
        chosen = {
            "pp=0": {"template": "first"},
            "pp=1-6": {"template": "middle"},
            "pp=7": {"template": "last"},
        }
    return {
        "schema": "planguard.plan/1",
        "world_size": ranks,
        "mesh": {"dims": [["dp", ranks // 64], ["tp", 8], ["pp", 8]]},
        "groups": {"dp": {"mesh_dims": ["dp"]}, "tp": {"mesh_dims": ["tp"]}},
        "templates": templates,
        "ranks": chosen,
    }


def main() -> None:
    """Measure each size in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ranks", nargs="*", type=int, default=[4096, 131072])
    parser.add_argument("--pipeline", action="store_true")
    args = parser.parse_args()
    for ranks in args.ranks:
        with tempfile.TemporaryDirectory() as folder:
            file, page = Path(folder, "large.plan.json"), Path(folder, "page.html")
            file.write_text(json.dumps(document(ranks, pipeline=args.pipeline)))
            begin = time.monotonic()
            command = [sys.executable, "-m", "planguard", "report", str(file), "-o", str(page)]
            child = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            _, status, used = os.wait4(child.pid, 0)
            wall = time.monotonic() - begin
            print(
                f"{ranks:>8,} ranks  {used.ru_utime + used.ru_stime:5.1f} s of processor time, "
                f"{wall:5.1f} s of wall-clock time, {used.ru_maxrss >> 10:,} MiB, "
                f"page {page.stat().st_size >> 10:,} KiB, exit {os.waitstatus_to_exitcode(status)}"
            )


if __name__ == "__main__":
    main()
