"""``planguard audit`` beside torch's own Flight Recorder analyzer, on the same dumps.

    python benchmarks/audit_peers.py                     # 1,024 ranks, 204,800 events; all faults
    python benchmarks/audit_peers.py --ranks 64 --steps 10

Dumps are written in the format of version 2.10 as NCCL makes them: groups with members, call sites,
states. Every tool runs as its own process on the same folder, in turns; wall time and processor
time (all its processes, user and system) are measured from outside and include the interpreter's
start. Of ours the best run counts, of the other tool the better of two, around ours; it is
`python -m torch.distributed.flight_recorder.fr_trace`.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
ENVIRONMENT["OMP_NUM_THREADS"] = "1"
"""Both tools start from bytecode, as what pip installs does."""
TP = 8
CALLS = [
    # group, operation, elements, line
    ("tp", "_all_gather_base", 4096, 101),
    ("tp", "_reduce_scatter_base", 4096, 102),
    ("tp", "all_reduce", 8192, 103),
    ("tp", "all_reduce", 8192, 104),
    ("dp", "_all_gather_base", 65536, 201),
    ("dp", "_reduce_scatter_base", 65536, 202),
    ("dp", "all_reduce", 1024, 203),
    ("dp", "all_reduce", 1024, 204),
    ("world", "all_reduce", 1, 301),
    ("world", "all_reduce", 1, 302),
]
"""One training step, the same on every rank."""

FAULTS = ("none", "missing", "kind", "size", "swapped-sites", "skipped", "cross", "no-dump")


def write_dumps(folder: Path, ranks: int, steps: int, fault: str) -> int:
    """Write one dump per rank and return the number of events.

    The faulty rank is 5, in the last step but one: it never comes (`missing`), calls another kind
    (`kind`) or size (`size`), swaps two calls of one shape (`swapped-sites`), leaves one out
    (`skipped`); `cross`: ranks of two groups enter them in opposite orders; `no-dump`: rank 5 left
    no dump and the others wait for it.
    """
    events = 0
    for rank in range(ranks):
        if fault == "no-dump" and rank == 5:
            continue
        dump = _dump(rank, ranks, steps, fault)
        events += len(dump["entries"])
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dump, 2))
    return events


def _groups(rank: int, ranks: int) -> dict[str, tuple[str, str, list[int]]]:
    """Name, description and members of the groups of a rank."""
    tp, dp = rank // TP, rank % TP
    return {
        "world": ("0", "default_pg", list(range(ranks))),
        "tp": (f"{1 + tp}", f"tp{tp}", list(range(tp * TP, tp * TP + TP))),
        "dp": (f"{1 + ranks // TP + dp}", f"dp{dp}", list(range(dp, ranks, TP))),
    }


def _program(rank: int, steps: int, fault: str) -> list[tuple[str, str, int, int]]:
    """The calls of a rank, as the fault has them."""
    program = CALLS * steps
    last = len(program) - len(CALLS)
    if rank == 5 and fault == "missing":
        return program[: last + 2]
    if rank == 5 and fault == "kind":
        program[last + 2] = ("tp", "_all_gather_base", 8192, 103)
    if rank == 5 and fault == "size":
        program[last + 2] = ("tp", "all_reduce", 8191, 103)
    if rank == 5 and fault == "swapped-sites":
        program[last + 2], program[last + 3] = program[last + 3], program[last + 2]
    if rank == 5 and fault == "skipped":
        del program[last + 2]
    if rank == 0 and fault == "cross":
        # This rank enters the world before its tp group; its tp neighbors the other way round.
        step = program[last:]
        program[last:] = step[8:] + step[:8]
    return program


def _dump(rank: int, ranks: int, steps: int, fault: str) -> dict:
    groups = _groups(rank, ranks)
    frames = {
        line: [
            {
                "name": "all_reduce",
                "filename": "/x/torch/distributed/distributed_c10d.py",
                "line": 3245,
            },
            {"name": "step", "filename": "train.py", "line": line},
            {"name": "<module>", "filename": "train.py", "line": 400},
        ]
        for *_, line in CALLS
    }
    program = _program(rank, steps, fault)
    stop = _stop(rank, steps, fault, program)
    seq = dict.fromkeys(groups, 0)
    entries = []
    for number, (group, op, count, line) in enumerate(program[: stop[0]]):
        name, description, members = groups[group]
        seq[group] += 1
        into, out = [[count]], [[count]]
        if op == "_all_gather_base":
            out = [[count * len(members)]]
        elif op == "_reduce_scatter_base":
            into = [[count * len(members)]]
        is_done = number < stop[1]
        entries.append(
            {
                "frames": frames[line],
                "record_id": number,
                "pg_id": int(name),
                "process_group": (name, description),
                "thread_name": "python",
                "thread_id": "1",
                "collective_seq_id": seq[group],
                "p2p_seq_id": 0,
                "op_id": seq[group],
                "profiling_name": f"nccl:{op}",
                "time_created_ns": 1_700_000_000_000_000_000 + number * 1_000_000,
                "input_sizes": into,
                "input_dtypes": ["Float"],
                "output_sizes": out,
                "output_dtypes": ["Float"],
                "state": "completed" if is_done else "started",
                "time_discovered_started_ns": None,
                "time_discovered_completed_ns": None,
                "retired": is_done,
                "timeout_ms": 600_000,
                "is_p2p": False,
            }
        )
    config = {
        name: {"name": name, "desc": description, "ranks": json.dumps(members)}
        for name, description, members in groups.values()
    }
    return {
        "version": "2.10",
        "pg_config": config,
        "comm_lib_version": "2.27.5",
        "pg_status": {},
        "entries": entries,
    }


def _stop(
    rank: int, steps: int, fault: str, program: list[tuple[str, str, int, int]]
) -> tuple[int, int]:
    """How many calls a rank had issued, and how many had completed, when the job was dumped."""
    last, all_of = (steps - 1) * len(CALLS), len(program)
    if fault in ("none", "swapped-sites"):
        return all_of, all_of
    if fault == "cross":
        if rank == 0:
            return last + 1, last  # waits for everybody in the world
        if rank < TP:
            return last + 1, last  # waits for rank 0 in the tp group
        return last + 5, last + 4  # waits behind a member of that tp group, in a dp group
    # The others wait where they first need rank 5: in its tp group, then behind it.
    near = rank // TP == 5 // TP
    if fault == "skipped":
        return (
            (all_of, last + 3)
            if rank == 5
            else (last + 4, last + 3)
            if near
            else (last + 5, last + 4)
        )
    if near:
        return min(last + 3, all_of), last + 2
    return last + 5, last + 4


def run(command: list[str], folder: Path) -> tuple[float, float, str]:
    """Run a tool on a folder; return seconds, processor seconds and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    done = subprocess.run(
        [*command, str(folder)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env=ENVIRONMENT,
    )
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, used, done.stdout + done.stderr


def main() -> int:
    """Measure both tools on every fault and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--faults", nargs="+", default=list(FAULTS), choices=FAULTS)
    parser.add_argument("--runs", type=int, default=5, help="runs of planguard")
    parser.add_argument("--only-ours", action="store_true")
    parser.add_argument("--show", action="store_true", help="print what the tools say")
    args = parser.parse_args()
    ours = [sys.executable, "-m", "planguard", "audit", "--prefix", "nccl_trace_rank_"]
    torch = [
        sys.executable,
        "-m",
        "torch.distributed.flight_recorder.fr_trace",
        "-p",
        "nccl_trace_rank_",
        "--allow-incomplete-ranks",
    ]
    print(f"{args.ranks:,} ranks; {len(os.sched_getaffinity(0))} processors; best of {args.runs}")
    print(
        f"{'fault':15}{'events':>9}{'planguard':>11}{'torch':>9}{'ratio':>8}"
        f"{'processor':>12}{'torch':>9}{'ratio':>8}{'load':>7}  what planguard says"
    )
    for fault in args.faults:
        with tempfile.TemporaryDirectory(prefix="audit-peers-") as scratch:
            folder = Path(scratch)
            events = write_dumps(folder, args.ranks, args.steps, fault)
            mine, used, text = run(ours, folder)
            theirs, spent, said = (0.0, 0.0, "") if args.only_ours else run(torch, folder)
            for _ in range(args.runs - 1):
                again, more, text = run(ours, folder)
                mine, used = min(mine, again), min(used, more)
            if not args.only_ours and args.runs > 1:
                again, more, said = run(torch, folder)
                theirs, spent = min(theirs, again), min(spent, more)
            head = next((row for row in text.splitlines() if "[PG" in row), text.splitlines()[-1])
            print(
                f"{fault:15}{events:>9,}{mine:>10.2f}s{theirs:>8.2f}s{theirs / mine:>7.1f}x"
                f"{used:>11.2f}s{spent:>8.2f}s{spent / used:>7.1f}x{os.getloadavg()[0]:>7.1f}"
                f"  {head[:90]}",
                flush=True,
            )
            if args.show:
                print(text)
                print("--- torch:", said[-3000:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
