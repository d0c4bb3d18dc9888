"""``planguard audit`` on one log of a gigabyte, and on one whose second line is a gigabyte.

    python benchmarks/audit_log.py                # 1 GB each; about two minutes
    python benchmarks/audit_log.py --bytes 1e8

Eight ranks write a trainer's line every step, interleaved as torchrun interleaves them; at the end
rank 3 stands still and the watchdogs of the seven others speak. The audit runs as a process of its
own; time, processor time and the largest memory of that process are measured from outside, beside
``wc -l`` on the same bytes, which reads them and does nothing else.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RANKS, BEHIND = 8, 3
WATCHDOG = (
    "[rank{rank}]:[E1119 10:04:11.588000000 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught"
    " collective operation timeout: WorkNCCL(SeqNum=4001, OpType=ALLREDUCE, NumelIn=26214400,"
    " NumelOut=26214400, Timeout(ms)=600000) ran for 600006 milliseconds before timing out.\n"
    "[rank{rank}]:[E1119 10:04:11.589000000 ProcessGroupNCCL.cpp:2271] [PG ID 0 PG GUID"
    " 0(default_pg) Rank {rank}]  failure detected by watchdog at work sequence id: 4001 PG status:"
    " last enqueued work: 4003, last completed work: 4000\n"
)


def write_steps(path: Path, size: int) -> None:
    """Write a trainer's lines of all ranks, about ``size`` bytes, then the watchdogs."""
    with path.open("w") as stream:
        written = step = 0
        while written < size:
            rows = [
                f"[default{rank}]:[2026-11-19 09:{step // 60 % 60:02}:{step % 60:02}] iteration"
                f" {step:8}/ 9000000 | consumed samples: {step * 32:12} | elapsed time per"
                f" iteration (ms): {812 + step % 7}.{rank} | learning rate: 3.000E-04 | global"
                f" batch size:    32 | lm loss: {7 + 1 / (step + 1):.6E} | grad norm:"
                f" 1.{rank}02 |\n"
                for step in range(step, step + 1000)
                for rank in range(RANKS)
            ]
            written += stream.write("".join(rows))
            step += 1000
        write_watchdogs(stream)


def write_line(path: Path, size: int) -> None:
    """Write one line of ``size`` bytes between a line of a trainer and the watchdogs."""
    with path.open("w") as stream:
        stream.write("[default0]: iteration 1\n[default0]: ")
        for _ in range(size >> 20):
            stream.write("0.123456789abcdef" * ((1 << 20) // 17))
        stream.write("\n")
        write_watchdogs(stream)


def write_watchdogs(stream: object) -> None:
    """Every rank says what it waits for, but the one that stands still, which says nothing."""
    for rank in range(RANKS):
        if rank != BEHIND:
            stream.write(WATCHDOG.format(rank=rank))


def run(command: list[str]) -> tuple[float, float, int, str]:
    """Return seconds, processor seconds, MiB of the process, and what it printed."""
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        _, _, used = os.wait4(child.pid, 0)
        out.seek(0)
        said = out.read()
    seconds = time.perf_counter() - started
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss >> 10, said


def main() -> int:
    """Measure both logs and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bytes", type=float, default=1e9)
    parser.add_argument("--show", action="store_true", help="print what the audit says")
    args = parser.parse_args()
    print(f"{'log':12}{'MB':>7}{'wc -l, s':>10}{'audit, s':>10}{'processor':>11}{'MiB':>6}  answer")
    wrong = 0
    for name, write in (("many lines", write_steps), ("one line", write_line)):
        with tempfile.TemporaryDirectory(prefix="audit-log-") as folder:
            path = Path(folder) / "job.log"
            write(path, int(args.bytes))
            plain, *_ = run(["wc", "-l", str(path)])
            seconds, used, mib, said = run([sys.executable, "-m", "planguard", "audit", str(path)])
            rows = said.splitlines()
            head = next((row for row in rows if "[PG" in row), rows[-1] if rows else "nothing")
            wrong += "[PG501]" not in head
            print(
                f"{name:12}{path.stat().st_size / 1e6:7,.0f}{plain:10.2f}{seconds:10.2f}"
                f"{used:11.2f}{mib:6}  {head[:60]}",
                flush=True,
            )
            if args.show:
                print(said)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
