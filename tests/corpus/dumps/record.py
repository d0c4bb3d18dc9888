"""Runs programs on real gloo processes with the Flight Recorder on and keeps what it dumps.

    python tests/corpus/dumps/record.py             # all programs, into NAME.zip beside this file
    python tests/corpus/dumps/record.py NAME ...    # some

Paths of the machine are taken out of the recorded stacks; nothing else is changed.
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
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PR_SET_PDEATHSIG = 1
PATIENCE = {True: 4.0, False: 40.0}
"""Seconds after which a rank that still runs is taken for stuck; a healed job ends by itself."""


def record(name: str, *, bug: bool, folder: Path) -> None:
    """Run a program once and write ``rank_N.pickle`` and ``stack_rank_N.txt`` of every rank.

    Args:
        name: Name of the program.
        bug: Run it as it hangs, else healed.
        folder: Where the files go.
    """
    from programs import PROGRAMS

    world, patience = PROGRAMS[name].world, PATIENCE[bug]
    with tempfile.TemporaryDirectory(prefix="dumps-") as scratch:
        started, children = time.monotonic(), []
        for rank in range(world):
            pid = os.fork()
            if pid == 0:
                _rank(name, rank, bug, Path(scratch), folder, patience)
            children.append(pid)
        for pid in children:
            while os.waitpid(pid, os.WNOHANG)[0] == 0:
                if time.monotonic() - started > 150:
                    os.kill(pid, signal.SIGKILL)
                time.sleep(0.02)


def _rank(name: str, rank: int, bug: bool, scratch: Path, folder: Path, patience: float) -> None:
    """Be one rank; never returns."""
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        import torch.distributed as dist
        from programs import PROGRAMS

        one = PROGRAMS[name]
        store = dist.FileStore(str(scratch / "store"), one.world)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=one.world)
        groups = {key: dist.new_group(ranks) for key, ranks in one.groups.items()}
        done = threading.Event()
        # Ranks of a healthy job wait for each other in a file, not in a collective.
        watcher = threading.Thread(
            target=_dump, args=(rank, one.world, scratch, folder, patience, done)
        )
        watcher.start()
        with contextlib.suppress(RuntimeError):  # a peer that left first
            one.run(rank, groups, bug)
        (scratch / f"done_{rank}").touch()
        done.set()
        time.sleep(60)
    finally:
        os._exit(1)


def _dump(
    rank: int, world: int, scratch: Path, folder: Path, patience: float, done: threading.Event
) -> None:
    """Write the dump of this rank when all ranks are done or patience is over; end the process."""
    import torch

    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if done.is_set() and len(list(scratch.glob("done_*"))) == world:
            break
        time.sleep(0.02)
    data = torch._C._distributed_c10d._dump_fr_trace(True, True, False)
    with (folder / f"stack_rank_{rank}.txt").open("w", encoding="utf-8") as file:
        faulthandler.dump_traceback(file, all_threads=True)
    path = folder / f"stack_rank_{rank}.txt"
    path.write_text(_neutral(path.read_text("utf-8")), "utf-8")
    (folder / f"rank_{rank}.pickle").write_bytes(pickle.dumps(_clean(pickle.loads(data)), 2))  # noqa: S301  our own
    # A rank that leaves closes its connections; the others must have dumped before.
    (scratch / f"dumped_{rank}").touch()
    while len(list(scratch.glob("dumped_*"))) < world and time.monotonic() < deadline + 60:
        time.sleep(0.02)
    os._exit(0)


def _neutral(text: str) -> str:
    import torch

    library = str(Path(torch.__file__).parents[1])
    text = text.replace(str(HERE), "train").replace(library, "site-packages")
    return text.replace(str(Path(os.__file__).parent), "lib/python")


def _clean(value):
    if isinstance(value, str):
        return sys.intern(_neutral(value))
    if isinstance(value, dict):
        return {_clean(key): _clean(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_clean(inner) for inner in value]
    if isinstance(value, tuple):
        return tuple(_clean(inner) for inner in value)
    return value


def main() -> int:
    """Record programs into archives."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--folder", type=Path, help="write plain files there, no archives")
    parser.add_argument("--healthy", action="store_true", help="with --folder: the healed program")
    args = parser.parse_args()
    os.environ.update(TORCH_FR_BUFFER_SIZE="2000", GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
    sys.path.insert(0, str(HERE))
    from programs import PROGRAMS  # imports torch, once for all ranks

    for name in args.names or PROGRAMS:
        if args.folder is not None:
            folder = args.folder / name
            folder.mkdir(parents=True, exist_ok=True)
            record(name, bug=not args.healthy, folder=folder)
            continue
        with tempfile.TemporaryDirectory(prefix="dumps-") as scratch:  # noqa: SIM117
            with zipfile.ZipFile(HERE / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
                for bug in (True, False):
                    folder = Path(scratch) / ("stuck" if bug else "healthy")
                    folder.mkdir()
                    record(name, bug=bug, folder=folder)
                    for path in sorted(folder.iterdir()):
                        entry = zipfile.ZipInfo(f"{folder.name}/{path.name}", (2026, 1, 1, 0, 0, 0))
                        entry.compress_type = zipfile.ZIP_DEFLATED
                        archive.writestr(entry, path.read_bytes())
        print(name, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
