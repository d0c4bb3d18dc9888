"""Start the ranks, watch their progress, say who is stuck, and leave nothing behind.

torch is imported once, by this process; the ranks are forks of it and speak gloo only afterwards.
Every rank holds one end of a pipe (its leash): it starts when the watcher writes to it, and it dies
when the watcher is gone, however the watcher died.
"""

# ruff: noqa: TC004, T201

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import random
import resource
import selectors
import signal
import sys
import tempfile
import threading
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from planguard.replay.script.actions import Rank
from planguard.replay.script.data import BACKEND, DEBUG, DRAIN, PROGRAMS, RANKS, TITLE, Op
from planguard.replay.script.states import State, is_busy, show

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist

SETUP_LIMIT = 120.0
LONGEST_DELAY = 0.02
# An action that is held back for others goes on when nothing has moved for so long.
HELD = 0.25
# The watcher decides what is stuck: neither NCCL's watchdog nor its monitor may act before it.
BLOCKING = {
    "TORCH_NCCL_BLOCKING_WAIT": "1",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
    "TORCH_NCCL_ENABLE_MONITORING": "0",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
}
OVER = ("done", "exited", "error", "signal")


# ---- inside a rank ---------------------------------------------------------------------------


def be_rank(me: int, leash: int, report: int, folder: Path, seed: int | None) -> NoReturn:
    """Play the program of process ``me``, then stay alive until the watcher ends the run.

    A rank that has ended or failed stays, since a closed connection would wake up the others with
    an error and hide where they are stuck.
    """
    output = (folder / f"output.{me}").open("wb")
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    stack = (folder / f"stack.{me}").open("wb")
    faulthandler.register(signal.SIGUSR1, file=stack, all_threads=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def tell(event: str, *details: object) -> None:
        os.write(report, (json.dumps([event, *details]) + "\n").encode())

    go = threading.Semaphore(0)
    threading.Thread(target=obey_leash, args=(leash, go), daemon=True).start()
    delay = random.Random(f"{seed}:{me}") if seed is not None else None  # noqa: S311

    def pause(op: Op) -> None:
        if "after" in op:
            tell("held", op["after"])
            go.acquire()
        if delay is not None:
            time.sleep(delay.uniform(0.0, LONGEST_DELAY))

    try:
        rank = Rank(me, tell, pause)
        rank.connect(str(folder / "store"))
        tell("ready")
        go.acquire()
        rank.run(PROGRAMS[me])
        if DRAIN:
            rank.drain()
        tell("end")
    except BaseException as problem:  # noqa: BLE001 - the report says what it was
        traceback.print_exc()
        tell("error", f"{type(problem).__name__}: {problem}"[:2000])
    threading.Event().wait()
    os._exit(0)


def obey_leash(leash: int, go: threading.Semaphore) -> None:
    """Go on when told to; die when the watcher is gone."""
    while os.read(leash, 1):
        go.release()
    os._exit(1)


# ---- the watcher -----------------------------------------------------------------------------


class Watcher:
    """Runs all ranks once.

    Args:
        folder: Empty folder for the file store and the output of the ranks.
        timeout: Seconds without progress of any rank after which the run counts as stuck.
        ceiling: Seconds after which the run ends in any case.
        seed: Seed of random delays before the actions, or None.
    """

    def __init__(self, folder: Path, timeout: float, ceiling: float, seed: int | None) -> None:
        self.folder = folder
        self.timeout = timeout
        self.ceiling = ceiling
        self.seed = seed
        self.states = [State(rank, process) for process, rank in enumerate(RANKS)]
        self.pids: dict[int, int] = {}
        self.leashes: dict[int, int] = {}
        self.tails: dict[int, bytes] = {}
        self.moved = time.monotonic()
        self.since = [self.moved] * len(RANKS)
        self.selector = selectors.DefaultSelector()

    def start(self) -> None:
        """Fork one process per rank."""
        for process in range(len(RANKS)):
            leash, hold = os.pipe()
            listen, report = os.pipe()
            pid = os.fork()
            if pid == 0:
                try:
                    for fd in (hold, listen, *self.leashes.values()):
                        os.close(fd)
                    be_rank(process, leash, report, self.folder, self.seed)
                finally:
                    os._exit(1)  # never return into the watcher's code
            os.close(leash)
            os.close(report)
            self.pids[process] = pid
            self.leashes[process] = hold
            self.tails[process] = b""
            self.selector.register(listen, selectors.EVENT_READ, process)

    def run(self) -> float:
        """Run to the end, to a standstill, or to the ceiling; return the seconds of the run."""
        limit = time.monotonic() + SETUP_LIMIT
        while any(s.state == "setup" for s in self.states) and time.monotonic() < limit:
            self.listen(0.2)
            if any(s.state in OVER for s in self.states):
                break
        begin = self.moved = time.monotonic()
        self.since = [begin] * len(RANKS)
        for state in self.states:
            if state.state == "ready":
                state.state = "running"
                os.write(self.leashes[state.process], b"g")
        while any(s.state == "running" for s in self.states):
            now = time.monotonic()
            if (self.is_still(now) and not self.release(now)) or now - begin > self.ceiling:
                break
            self.release(now)
            held = any(s.held for s in self.states)
            self.listen(min(0.05 if held else 0.2, self.timeout / 4))
        self.judge()
        return time.monotonic() - begin

    def is_still(self, now: float) -> bool:
        """Say whether no rank has moved for the whole timeout, or is about to."""
        running = (self.pids[s.process] for s in self.states if s.state == "running")
        return now - self.moved > self.timeout and not any(map(is_busy, running))

    def release(self, now: float) -> bool:
        """Let go on whose turn it is: others came as far as wanted, or nobody moves any more."""
        found = False
        for state in self.states:
            if not state.held or state.state != "running":
                continue
            ready = all(
                self.states[process].played >= count or self.states[process].state in OVER
                for process, count in state.held
            )
            if ready or (now - self.moved > HELD and not found):
                state.held = []
                found = True
                os.write(self.leashes[state.process], b"g")
                self.moved = time.monotonic()
        return found

    def judge(self) -> None:
        """Name the ranks that have not ended."""
        now = time.monotonic()
        still = now - self.moved > self.timeout
        for state in self.states:
            state.seconds = round(now - self.since[state.process], 1)
            if state.state in ("setup", "ready"):
                state.state, state.error = "error", "the process group could not be set up"
            elif state.state == "running":
                state.state = "stuck" if still else "late"
                os.kill(self.pids[state.process], signal.SIGUSR1)
        limit = now + 0.5
        while time.monotonic() < limit and not all(
            self.stack(s.process) for s in self.states if s.state in ("stuck", "late")
        ):
            time.sleep(0.02)
        for state in self.states:
            if state.state in ("stuck", "late"):
                state.stack = self.stack(state.process)

    def stack(self, process: int) -> list[str]:
        """Return the Python stack of a rank's main thread, innermost call first."""
        threads = (self.folder / f"stack.{process}").read_text().split("\n\n")
        mine = [thread for thread in threads if " in be_rank" in thread]
        lines = [line.strip() for line in "".join(mine[:1]).splitlines()]
        return [line for line in lines if line.startswith("File")]

    def listen(self, seconds: float) -> None:
        """Read progress records for at most ``seconds``."""
        for key, _ in self.selector.select(seconds):
            process = key.data
            chunk = os.read(key.fd, 65536)
            if not chunk:
                self.selector.unregister(key.fd)
                os.close(key.fd)
                self.bury(process)
                continue
            *lines, self.tails[process] = (self.tails[process] + chunk).split(b"\n")
            for line in lines:
                self.record(process, json.loads(line))

    def record(self, process: int, entry: list[Any]) -> None:
        """Note one progress record."""
        state = self.states[process]
        event, details = entry[0], entry[1:]
        self.moved = self.since[process] = time.monotonic()
        if event == "ready":
            state.state = "ready"
        elif event == "start":
            state.inside.append((details[0], details[1], details[2]))
            state.action, state.op, state.text = state.inside[-1]
        elif event == "done":
            state.played += 1
            state.inside = [entry for entry in state.inside if entry[0] != details[0]]
            if state.inside:
                state.action, state.op, state.text = state.inside[-1]
        elif event == "held":
            state.held = details[0]
        elif event == "mismatch":
            state.mismatches.append((details[0], details[1]))
        elif event == "test":
            state.tests.append((details[0], details[1]))
        elif event == "error":
            state.state, state.error = "error", details[0]
        elif event in ("end", "exit"):
            state.state = "done" if event == "end" else "exited"

    def bury(self, process: int) -> None:
        """Note how a rank died."""
        state = self.states[process]
        _, status = os.waitpid(self.pids.pop(process), 0)
        self.moved = time.monotonic()
        if os.WIFSIGNALED(status):
            state.state, state.signal = "signal", os.WTERMSIG(status)
            output = (self.folder / f"output.{process}").read_text(errors="replace")
            state.error = output[-2000:].strip()
        elif state.state not in OVER:
            state.state = "error"
            state.error = f"the process ended with exit code {os.WEXITSTATUS(status)}"

    def stop(self) -> None:
        """Kill every rank and wait until it is gone."""
        for pid in self.pids.values():
            os.kill(pid, signal.SIGKILL)
        for pid in self.pids.values():
            os.waitpid(pid, 0)
        self.pids.clear()


# ---- command line ----------------------------------------------------------------------------


def leave_on(number: int, _frame: object) -> NoReturn:
    """Turn a signal into an ordinary exit, so that the ranks are stopped; once."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + number)


def watch_caller() -> None:
    """End when standard input closes: the program that started this one is gone."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=TITLE)
    parser.add_argument("--timeout", type=float, default=10.0, help="seconds without any progress")
    parser.add_argument("--ceiling", type=float, default=300.0, help="seconds for the whole run")
    parser.add_argument("--delay-seed", type=int, help="random delays before the actions")
    parser.add_argument("--result", help="write the states as JSON to this file")
    parser.add_argument("--leash", action="store_true", help="end when standard input closes")
    return parser.parse_args()


def main() -> int:
    """Run the plan once; return 1 if a rank is stuck, failed, or got wrong data."""
    args = arguments()
    os.environ.update(TORCH_DISTRIBUTED_DEBUG=DEBUG, OMP_NUM_THREADS="1")
    dist.set_debug_level_from_env()  # torch read it when it was imported
    if BACKEND == "nccl":
        os.environ.update(BLOCKING)
        if torch.cuda.device_count() < len(RANKS):
            print(f"nccl needs one GPU per rank: {len(RANKS)}, not {torch.cuda.device_count()}")
            return 2
    if sys.platform == "linux":
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave_on)
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        watcher = Watcher(Path(folder), args.timeout, args.ceiling, args.delay_seed)
        try:
            watcher.start()
            if args.leash:
                threading.Thread(target=watch_caller, daemon=True).start()
            seconds = watcher.run()
        finally:
            watcher.stop()
    show(watcher.states)
    if args.result:
        report = {"seconds": seconds, "ranks": [asdict(s) for s in watcher.states]}
        Path(args.result).write_text(json.dumps(report))
    return int(any(s.state not in ("done", "exited") or s.mismatches for s in watcher.states))


if __name__ == "__main__":
    sys.exit(main())
