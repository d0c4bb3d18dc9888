"""Ten real gloo jobs that hang, each audited from four kinds of evidence.

    python benchmarks/in_hand_jobs.py               # four minutes; prints the table
    python benchmarks/in_hand_jobs.py --write       # and puts it into docs/reference/audit.md
    python benchmarks/in_hand_jobs.py --keep FOLDER NAME ...

The programs are those of ``tests/corpus/dumps/programs.py``, which say what is wrong with them. A
job runs as gloo processes on this machine until gloo gives up; what a user would have in hand is
kept: (a) what each rank printed on standard error, (b) one stack of each rank (faulthandler), (c)
Flight Recorder dumps of half of the ranks, (d) all of it. A cell says what the audit made of it:

* ``class and ranks``: its first finding names both rightly, as an error (certain) or as a hint
* ``class``: the class of the cause is right, the ranks are not those, or none are named
* ``the ranks that wait``: who stands in calls that cannot end is right, the cause is open
* ``not determinable``: no statement; the answer is UNKNOWN and says what is missing
* ``WRONG``: an error that is no hint and is not the truth
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import faulthandler
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

from in_hand import CLASSES

ROOT = Path(__file__).resolve().parents[1]
DUMPS = ROOT / "tests" / "corpus" / "dumps"
PAGE = ROOT / "docs" / "reference" / "audit.md"
BEGIN = "<!-- begin: python benchmarks/in_hand_jobs.py --write -->"
END = "<!-- end -->"
LOOK_S, TIMEOUT_S, LIMIT_S, LATE_S = 4.0, 12.0, 18.0, 60.0
"""Seconds for which a rank stands in one place until its stack and dump are taken, until gloo gives
up, and until all is ended; and how much later that may be where dumps take long to be written."""
JOBS: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = {
    "missing_all_reduce": (("missing",), (2,)),
    "missing_barrier": (("missing",), (3,)),
    "missing_behind_another_group": (("missing",), (1,)),
    "skipped_in_the_middle": (("drift",), (1,)),
    "rank0_only_collective": (("kind", "drift"), (0,)),
    "kind_all_reduce_barrier": (("kind", "drift"), (2,)),
    "size_of_one_rank": (("size",), (2,)),
    "two_groups_crossed": (("cross",), (0, 1)),
    "head_to_head_send": (("p2p",), (0, 1)),
    "receive_nobody_sends": (("p2p", "missing"), (0, 1)),
}
"""Classes of the cause that are right, and the ranks that may be named."""
EVIDENCE = ("standard error", "stacks", "dumps of half", "all")


def run(name: str, folder: Path) -> int:
    """Run a job until it is given up; return its number of ranks."""
    from programs import PROGRAMS

    world = PROGRAMS[name].world
    with tempfile.TemporaryDirectory(prefix="jobs-") as scratch:
        children = []
        for rank in range(world):
            pid = os.fork()
            if pid == 0:
                _rank(name, rank, Path(scratch), folder)
            children.append(pid)
        end = time.monotonic() + LIMIT_S + 2 * LATE_S
        for pid in children:
            while os.waitpid(pid, os.WNOHANG)[0] == 0:
                if time.monotonic() > end:
                    os.kill(pid, signal.SIGKILL)
                time.sleep(0.05)
    return world


def _rank(name: str, rank: int, scratch: Path, folder: Path) -> None:
    """Be one rank; never returns."""
    began = time.monotonic()
    with contextlib.suppress(BaseException):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # ends with the process that started it
        errors = os.open(folder / f"rank{rank}.err", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        os.dup2(errors, 2)
        import torch.distributed as dist
        from programs import PROGRAMS

        one = PROGRAMS[name]
        store = dist.FileStore(str(scratch / "store"), one.world)
        limit = timedelta(seconds=TIMEOUT_S)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=one.world, timeout=limit)
        groups = {key: dist.new_group(ranks, timeout=limit) for key, ranks in one.groups.items()}
        threading.Thread(target=_look, args=(rank, folder, one.world), daemon=True).start()
        try:
            one.run(rank, groups, True)
        except RuntimeError:
            traceback.print_exc()
            sys.stderr.flush()
        _stay(folder, one.world, began)
    os._exit(1)


def _stay(folder: Path, world: int, began: float) -> None:
    """Wait until all ranks were looked at: who leaves closes its connections, which others print.

    Not by the clock alone: on a busy machine a dump takes many seconds to be written.
    """
    time.sleep(max(0.0, LIMIT_S - (time.monotonic() - began)))
    while len(list(folder.glob("rank_*.pickle"))) < world:
        if time.monotonic() - began > LIMIT_S + LATE_S:
            return
        time.sleep(0.1)


def _settle() -> None:
    """Wait until the program has stood in one place for a while, however busy the machine is."""
    main, place, since = threading.main_thread().ident or 0, (0, 0), time.monotonic()
    while time.monotonic() - since < LOOK_S:
        frame = sys._current_frames()[main]  # noqa: SLF001  there is no other way
        if (now := (id(frame), frame.f_lasti)) != place:
            place, since = now, time.monotonic()
        time.sleep(0.05)


def _look(rank: int, folder: Path, world: int) -> None:
    """Take the stack and the dump of this rank while it hangs."""
    import torch

    began = time.monotonic()
    _settle()
    with (folder / f"stack.rank{rank}.txt").open("w", encoding="utf-8") as file:
        faulthandler.dump_traceback(file, all_threads=True)
    dump = pickle.loads(torch._C._distributed_c10d._dump_fr_trace(True, True, False))  # noqa: S301, SLF001  our own
    unfinished = folder / f"rank_{rank}.unfinished"
    unfinished.write_bytes(pickle.dumps(dump, 2))
    unfinished.rename(folder / f"rank_{rank}.pickle")
    _stay(folder, world, began)
    os._exit(1)  # a rank that does something else for ever


def files_of(folder: Path, world: int) -> dict[str, list[Path]]:
    """Return the files of each kind of evidence."""
    logs, stacks, dumps = (sorted(folder.glob(shape)) for shape in ("*.err", "stack.*", "*.pickle"))
    half = [path for path in dumps if int(path.stem.rpartition("_")[2]) < (world + 1) // 2]
    return dict(zip(EVIDENCE, (logs, stacks, half, [*logs, *stacks, *dumps]), strict=True))


def judged(name: str, files: list[Path]) -> tuple[str, bool]:
    """Return what an audit makes of files, and whether it states something wrong."""
    import planguard as pg

    causes, truth = JOBS[name]
    codes = tuple(code for cause in causes for code in CLASSES[cause])
    verdict: Any = pg.audit(*files)
    told = [f for f in verdict.findings if f.code.startswith(("PG0", "PG2", "PG501", "PG506"))]
    for one in told:
        is_right = one.code in codes and set(one.ranks) <= set(truth)
        if one.severity == "error" and one.code in codes and _is_tie(one, truth):
            return "class, neither side blamed", False
        if one.severity == "error" and not is_right and one.code != "PG501":
            return f"WRONG: {one.code} {list(one.ranks)}", True
    if verdict.safe:
        return "WRONG: SAFE", True
    first = next((f for f in told if f.code != "PG501"), None)
    if first is None and any(
        f.severity == "error" and set(f.ranks) == set(truth) for f in told if f.code == "PG501"
    ):
        return "the ranks that wait, certain", False
    if first is None or first.code not in codes:
        return "not determinable", False
    how = "certain" if first.severity == "error" else "hint"
    if first.ranks and set(first.ranks) <= set(truth):
        return f"class and ranks, {how}", False
    return f"class, {how}", False


def _is_tie(one: Any, truth: tuple[int, ...]) -> bool:
    """Whether both sides of a mismatch are named, and neither of them is blamed."""
    return set(truth) <= set(one.ranks) and any("neither side is blamed" in n for n in one.notes)


def main() -> int:
    """Run the jobs, print the table, and exit with 1 where something wrong was stated."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep what the jobs left there")
    args = parser.parse_args()
    os.environ.update(TORCH_FR_BUFFER_SIZE="2000", GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
    sys.path.insert(0, str(DUMPS))
    import programs  # noqa: F401  imports torch, once for all ranks

    rows = [f"| job | {' | '.join(EVIDENCE)} |", "|---|" + "---|" * len(EVIDENCE)]
    is_wrong = False
    with tempfile.TemporaryDirectory(prefix="in-hand-jobs-") as scratch:
        for name in args.names or JOBS:
            folder = (args.keep or Path(scratch)) / name
            folder.mkdir(parents=True, exist_ok=True)
            world = run(name, folder)
            told = [judged(name, files) for files in files_of(folder, world).values()]
            is_wrong = is_wrong or any(wrong for _, wrong in told)
            rows.append(f"| `{name}` | {' | '.join(text for text, _ in told)} |")
            print(rows[-1], flush=True)
    if args.write:
        text = PAGE.read_text("utf-8")
        start, end = text.index(BEGIN) + len(BEGIN), text.index(END, text.index(BEGIN))
        PAGE.write_text(text[:start] + "\n" + "\n".join(rows) + "\n" + text[end:], "utf-8")
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
