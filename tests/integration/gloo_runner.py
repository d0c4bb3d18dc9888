"""Runs small plans on real gloo processes and says where every rank ended up.

A server process imports torch once and forks the ranks of each plan from there, so a plan costs
milliseconds unless it hangs. Everything stays on the loopback interface. A rank that finishes
stays alive until the plan is over, as a rank of a real job would.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).parents[1]
PR_SET_PDEATHSIG = 1


@dataclass
class RankState:
    """Where one rank ended up.

    Attributes:
        state: `done`, `stuck`, `error`, `exit` (left by itself) or `signal`.
        action: flat index of the action it stood at; None if it finished.
        detail: text of the error, or the number of the signal.
    """

    state: str
    action: int | None = None
    detail: str = ""


@dataclass
class Result:
    """What happened to one plan.

    Attributes:
        outcome: `ok`, `hang`, `error`, `crash`, or `unusable` (the plan never started).
        ranks: one state per rank.
    """

    outcome: str
    ranks: list[RankState]

    @property
    def stuck(self) -> dict[int, int]:
        """Give the action at which each rank stood that neither finished nor left."""
        return {
            rank: state.action
            for rank, state in enumerate(self.ranks)
            if state.state in {"stuck", "error"} and state.action is not None
        }


class GlooPool:
    """A server that runs plans; use it as a context manager.

    Args:
        quiet: seconds without progress after which a plan counts as hanging.
        parallel: plans to run at the same time.
    """

    def __init__(self, quiet: float = 3.0, parallel: int = 4) -> None:
        self.quiet = quiet
        self.parallel = parallel

    def __enter__(self) -> Self:
        """Start the server."""
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(TESTS), str(Path(__file__).parent)]),
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
        }
        self._server = subprocess.Popen(
            [sys.executable, __file__, str(self.quiet), str(self.parallel)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
            start_new_session=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the server; the ranks it may still hold die with it."""
        for stream in (self._server.stdin, self._server.stdout):
            if stream is not None:
                stream.close()
        try:
            self._server.wait(5)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()

    def run_many(self, plans: list[dict[str, Any]], *, delays: int | None = None) -> list[Result]:
        """Run plans and give their results in the same order.

        Args:
            plans: decoded plan documents.
            delays: seed of small random pauses before each action; None for no pauses.
        """
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps({"plans": plans, "delays": delays}) + "\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        if not answer:
            raise RuntimeError("the gloo server ended")
        return [
            Result(one["outcome"], [RankState(**state) for state in one["ranks"]])
            for one in json.loads(answer)
        ]

    def run(self, plan: dict[str, Any], *, delays: int | None = None) -> Result:
        """Run one plan."""
        return self.run_many([plan], delays=delays)[0]


# -- server side ----------------------------------------------------------------------------------


@dataclass
class _Rank:
    pid: int
    pipe: int
    text: str = ""
    action: int | None = None
    ready: bool = False
    state: RankState | None = None


@dataclass
class _Job:
    """A plan whose ranks are running."""

    index: int
    ranks: list[_Rank]
    folder: tempfile.TemporaryDirectory[str]
    release: int
    progress: float = field(default_factory=time.monotonic)
    started: float = field(default_factory=time.monotonic)


class _Server:
    def __init__(self, quiet: float, parallel: int) -> None:
        self.quiet = quiet
        self.parallel = parallel
        self.selector = selectors.DefaultSelector()

    def run_many(self, plans: list[dict[str, Any]], delays: int | None) -> list[dict[str, Any]]:
        waiting = list(enumerate(plans))[::-1]
        running: list[_Job] = []
        results: list[dict[str, Any]] = [{} for _ in plans]
        while waiting or running:
            while waiting and len(running) < self.parallel:
                index, plan = waiting.pop()
                running.append(self._start(index, plan, delays))
            for key, _ in self.selector.select(0.05):
                self._read(*key.data)
            for job in list(running):
                if self._is_over(job):
                    running.remove(job)
                    results[job.index] = asdict(self._finish(job))
        return results

    def _start(self, index: int, plan: dict[str, Any], delays: int | None) -> _Job:
        folder = tempfile.TemporaryDirectory(prefix="gloo-")
        held, release = os.pipe()
        ranks = []
        for rank in range(plan["world_size"]):
            reading, writing = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(release)
                os.close(reading)
                _be_rank(plan, rank, Path(folder.name), _Report(writing, delays, rank), held)
            os.close(writing)
            ranks.append(_Rank(pid, reading))
        os.close(held)
        job = _Job(index, ranks, folder, release)
        for one in ranks:
            self.selector.register(one.pipe, selectors.EVENT_READ, (job, one))
        return job

    def _read(self, job: _Job, rank: _Rank) -> None:
        chunk = os.read(rank.pipe, 65536)
        job.progress = time.monotonic()
        if not chunk:
            self.selector.unregister(rank.pipe)
            self._reap(rank)
            return
        *lines, rank.text = (rank.text + chunk.decode()).split("\n")
        for line in lines:
            word, _, rest = line.partition(" ")
            if word == "start":
                rank.action = int(rest)
            elif word == "ready":
                rank.ready = True
            elif word == "done":
                rank.state = RankState("done")
            elif word == "error":
                rank.state = RankState("error", rank.action, rest)

    @staticmethod
    def _reap(rank: _Rank) -> None:
        """Learn how a rank's process ended; its pipe is closed, so it has or is about to."""
        _, status = os.waitpid(rank.pid, 0)
        rank.pid = -1
        if os.WIFSIGNALED(status):
            rank.state = RankState("signal", rank.action, str(os.WTERMSIG(status)))
        elif rank.state is None:
            rank.state = RankState("exit", rank.action, str(os.WEXITSTATUS(status)))

    def _is_over(self, job: _Job) -> bool:
        if all(rank.state is not None for rank in job.ranks):
            return True
        now = time.monotonic()
        if now - job.started > 60:
            return True
        ready = all(rank.ready or rank.state for rank in job.ranks)
        quiet = self.quiet if ready else 30
        # A rank that wants the processor and does not get it is slow, not stuck.
        return now - job.progress > quiet and not any(_is_busy(rank.pid) for rank in job.ranks)

    def _finish(self, job: _Job) -> Result:
        # Late news first: a rank may have written while another was being looked at.
        for key, _ in self.selector.select(0):
            self._read(*key.data)
        states = []
        for rank in job.ranks:
            if rank.pid > 0:
                os.kill(rank.pid, signal.SIGKILL)
                os.waitpid(rank.pid, 0)
            if rank.pipe in self.selector.get_map():
                self.selector.unregister(rank.pipe)
            os.close(rank.pipe)
            states.append(rank.state or RankState("stuck", rank.action))
        os.close(job.release)
        job.folder.cleanup()
        if not all(rank.ready for rank in job.ranks):
            return Result("unusable", states)
        kinds = [state.state for state in states]
        for kind, outcome in (("signal", "crash"), ("stuck", "hang"), ("error", "error")):
            if kind in kinds:
                return Result(outcome, states)
        return Result("ok", states)


def _is_busy(pid: int) -> bool:
    """Tell whether the main thread of a process runs or waits for a processor.

    Other threads do not count: after a dropped receive, gloo's own thread spins forever.
    """
    if pid < 0:
        return False
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "R"
    return False


class _Report:
    """Writes a rank's progress into its pipe, with pauses where the caller asked for them."""

    def __init__(self, pipe: int, delays: int | None, rank: int) -> None:
        import random

        self.pipe = pipe
        self.rng = None if delays is None else random.Random(delays * 64 + rank)

    def __call__(self, word: str, value: object = "") -> None:
        if word == "start" and self.rng is not None:
            time.sleep(self.rng.random() * 0.05)
        text = " ".join(f"{word} {value}".split())
        os.write(self.pipe, (text + "\n").encode())


def _be_rank(plan: dict[str, Any], rank: int, folder: Path, report: _Report, held: int) -> None:
    """Run one rank in a forked process; never returns."""
    code = 1
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with Path(os.devnull).open("r+b") as null:
            for stream in (0, 1, 2):
                os.dup2(null.fileno(), stream)
        kept = _run_rank(plan, rank, folder, report)
        # Alive and idle until the plan is over: the pipe closes when the server lets go.
        os.read(held, 1)
        del kept  # not before: a handle that dies takes its unmatched message with it
        code = 0
    finally:
        os._exit(code)


def _run_rank(plan: dict[str, Any], rank: int, folder: Path, report: _Report) -> object:
    """Run one rank; give what holds its work handles."""
    import torch.distributed as dist
    from gloo_rank import TIMEOUT, Rank
    from oracle.expand import expand

    store = dist.FileStore(str(folder / "store"), plan["world_size"])
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=plan["world_size"], timeout=TIMEOUT
    )
    one = Rank(expand(plan), rank, report)
    one.set_up()
    report("ready")
    try:
        one.run()
    except Exception as error:  # noqa: BLE001  # whatever the call raised is the observation
        report("error", f"{type(error).__name__}: {error}"[:500])
    else:
        report("done")
    return one


def _requests() -> Iterator[dict[str, Any]]:
    for line in sys.stdin:
        yield json.loads(line)


def main() -> int:
    """Serve plans from standard input until it closes."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    import gloo_rank  # noqa: F401  # torch, once for all ranks

    server = _Server(float(sys.argv[1]), int(sys.argv[2]))
    for request in _requests():
        print(json.dumps(server.run_many(request["plans"], request["delays"])), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
