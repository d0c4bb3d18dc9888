"""Real gloo processes whose collectives are written down: what DDP and FSDP really issue.

The process groups are Python subclasses of torch's ``ProcessGroup`` that note a call and hand it
to a gloo group behind them, so the C++ reducer of DDP and FSDP2 are seen as well. A worker script
calls ``serve`` with what one rank does; ``record`` starts the script once, which imports torch once
and forks the ranks of every job.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
TIMEOUT = 60


@dataclass
class Recorded:
    """How a job ended and what was noted.

    Attributes:
        outcome: `ok`, `hang` (no news for a while), `error` (a rank raised) or `crash`.
        calls: The noted calls of every rank, in order, those of a hang included.
        errors: What the ranks raised.
    """

    outcome: str
    calls: list[list[dict[str, Any]]]
    errors: list[str]


def record(
    script: Path, jobs: list[dict[str, Any]], *, quiet: float = 3, parallel: int = 3
) -> list[Recorded]:
    """Run jobs on real processes and return what happened, in the same order.

    Args:
        script: A worker script that calls ``serve``.
        jobs: What the worker reads; `world` is the number of ranks.
        quiet: Seconds without a noted call after which a job counts as hanging.
        parallel: Jobs at the same time.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parents[1])]),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
    }
    request = json.dumps({"jobs": jobs, "quiet": quiet, "parallel": parallel})
    done = subprocess.run(
        [sys.executable, str(script)],
        input=request,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [Recorded(**one) for one in json.loads(done.stdout)]


# -- the worker process ---------------------------------------------------------------------------


def serve(body: Callable[[int, int, dict[str, Any]], None]) -> None:
    """Run the jobs of standard input, each on forked ranks, and print what happened."""
    import torch
    import torch._dynamo
    import torch.distributed.algorithms.ddp_comm_hooks
    import torch.distributed.fsdp  # all of it now, or every rank would import it again

    torch.set_num_threads(1)  # a forked rank must not enter the parent's pool of threads
    request = json.load(sys.stdin)
    waiting = list(enumerate(request["jobs"]))[::-1]
    running: list[_Job] = []
    results: dict[int, dict[str, Any]] = {}
    while waiting or running:
        while waiting and len(running) < request["parallel"]:
            running.append(_Job(*waiting.pop(), body))
        time.sleep(0.02)
        for job in list(running):
            if job.is_over(request["quiet"]):
                running.remove(job)
                results[job.number] = job.finish()
    print(json.dumps([results[number] for number in sorted(results)]))


class _Job:
    def __init__(self, number: int, job: dict[str, Any], body: Any) -> None:
        self.number, self.world = number, job["world"]
        self.folder = tempfile.TemporaryDirectory(prefix="gloo-")
        self.status: dict[int, int | None] = {}
        self.size, self.since = -1, time.monotonic()
        for rank in range(self.world):
            pid = os.fork()
            if pid == 0:
                _be_rank(rank, job, Path(self.folder.name), body)
            self.status[pid] = None

    def is_over(self, quiet: float) -> bool:
        for pid, status in self.status.items():
            if status is None:
                found, code = os.waitpid(pid, os.WNOHANG)
                if found:
                    self.status[pid] = code
        noted = [file.stat().st_size for file in Path(self.folder.name).glob("*.jsonl")]
        if sum(noted) != self.size:
            self.size, self.since = sum(noted), time.monotonic()
        started = len(noted) == self.world and all(noted)
        silent = time.monotonic() - self.since > (quiet if started else 30)
        return silent or all(status is not None for status in self.status.values())

    def finish(self) -> dict[str, Any]:
        outcome = "ok" if all(status == 0 for status in self.status.values()) else "error"
        if None in self.status.values():
            outcome = "hang"
        for pid, status in self.status.items():
            if status is None:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            elif os.WIFSIGNALED(status):
                outcome = "crash"
        folder = Path(self.folder.name)
        calls = [_read(folder / f"{rank}.jsonl") for rank in range(self.world)]
        errors = [file.read_text() for file in sorted(folder.glob("*.err"))]
        if errors and outcome != "crash":
            outcome = "error"
        self.folder.cleanup()
        return {"outcome": outcome, "calls": calls, "errors": errors}


def _read(file: Path) -> list[dict[str, Any]]:
    lines = file.read_text().splitlines() if file.exists() else []
    return [json.loads(line) for line in lines]


def _be_rank(rank: int, job: dict[str, Any], folder: Path, body: Any) -> None:
    """Run one rank in a forked process; never returns."""
    code = 1
    try:
        with Path(os.devnull).open("r+b") as null:
            for stream in (0, 1, 2):
                os.dup2(null.fileno(), stream)
        _run_rank(rank, job, folder, body)
        code = 0
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the observation
        Path(folder, f"{rank}.err").write_text("".join(traceback.format_exception(error))[-3000:])
    finally:
        os._exit(code)


def _run_rank(rank: int, job: dict[str, Any], folder: Path, body: Any) -> None:
    import torch.distributed as dist

    world = job["world"]
    with Path(folder, f"{rank}.jsonl").open("w", buffering=1) as notes:
        install(notes)
        store = dist.FileStore(str(folder / "store"), world)
        dist.init_process_group("noted", store=store, rank=rank, world_size=world)
        body(rank, world, job)
        Path(folder, f"{rank}.done").touch()
        deadline = time.monotonic() + TIMEOUT  # stay, as a rank of a real job would
        while len(list(folder.glob("*.done"))) < world and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                time.sleep(0.02)


def install(notes: Any) -> None:
    """Register the backend ``noted``: gloo, with every call written to a file."""
    import torch.distributed as dist

    def write(op: str, ranks: list[int], tensors: Any, **fields: Any) -> None:
        count = sum(tensor.numel() for tensor in tensors)
        dtype = str(tensors[0].dtype).removeprefix("torch.") if tensors else ""
        line = {"op": op, "ranks": ranks, "count": count, "dtype": dtype, **fields}
        notes.write(json.dumps(line) + "\n")

    group_class = _noting_group_class(write)

    def make(options: Any, _: Any) -> Any:
        ranks = list(options.global_ranks_in_group) or list(range(options.group_size))
        inner = dist.ProcessGroupGloo(
            options.store, options.group_rank, options.group_size, timedelta(seconds=TIMEOUT)
        )
        return group_class(inner, options.group_rank, ranks)

    dist.Backend.register_backend("noted", make, extended_api=True, devices=["cpu"])


def _noting_group_class(write: Callable[..., None]) -> Any:  # noqa: C901 - one method per call
    import torch.distributed as dist

    def flat(tensors: Any) -> list[Any]:
        return list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]

    class NotingGroup(dist.ProcessGroup):
        def __init__(self, inner: Any, rank: int, ranks: list[int]) -> None:
            super().__init__(rank, len(ranks))
            self.inner, self.ranks, self._rank, self._named = inner, ranks, rank, ""

        def getBackendName(self) -> str:  # noqa: N802 - torch's name
            return "noted"

        def getRank(self) -> int:  # noqa: N802 - torch's name
            return self._rank

        def getSize(self) -> int:  # noqa: N802 - torch's name
            return len(self.ranks)

        def _set_group_name(self, name: str) -> None:
            self._named = name
            super()._set_group_name(name)

        @property
        def group_name(self) -> str:
            return self._named

        @property
        def pg_name(self) -> str:
            return self._named

        def allreduce(self, tensors: Any, opts: Any = None, **_: Any) -> Any:
            write("all_reduce", self.ranks, flat(tensors))
            return self._reduced(self.inner.allreduce, flat(tensors), opts, "AllreduceOptions")

        def broadcast(self, tensors: Any, opts: Any = None, **_: Any) -> Any:
            root = self.ranks[opts.rootRank]
            write("broadcast", self.ranks, flat(tensors), root=root)
            return self.inner.broadcast(flat(tensors), opts)

        def allgather(self, outputs: Any, inputs: Any, opts: Any = None, **_: Any) -> Any:
            write("all_gather", self.ranks, flat(inputs))
            return self.inner.allgather(outputs, flat(inputs), opts or dist.AllgatherOptions())

        def all_gather_single(self, output: Any, tensor: Any, opts: Any = None, **_: Any) -> Any:
            write("all_gather_into_tensor", self.ranks, [tensor])
            options = opts or dist.AllgatherOptions()
            return self._first("all_gather_single", "_allgather_base")(output, tensor, options)

        def reduce_scatter_single(
            self, output: Any, tensor: Any, opts: Any = None, **_: Any
        ) -> Any:
            write("reduce_scatter_tensor", self.ranks, [output])
            call = self._first("reduce_scatter_single", "_reduce_scatter_base")
            return self._reduced(
                lambda t, o: call(output, t, o), tensor, opts, "ReduceScatterOptions"
            )

        def barrier(self, opts: Any = None, **_: Any) -> Any:
            write("barrier", self.ranks, [])
            return self.inner.barrier(opts or dist.BarrierOptions())

        def _first(self, *names: str) -> Any:
            return next(getattr(self.inner, name) for name in names if hasattr(self.inner, name))

        def _reduced(self, call: Any, tensors: Any, opts: Any, kind: str) -> Any:
            """Hand on a reduction; gloo has no average, and what is noted does not depend on it."""
            options = getattr(dist, kind)()
            op = getattr(opts, "reduceOp", dist.ReduceOp.SUM)
            options.reduceOp = dist.ReduceOp.SUM if op == dist.ReduceOp.AVG else op
            return call(tensors, options)

        _allgather_base = all_gather_single
        _reduce_scatter_base = reduce_scatter_single

    return NotingGroup
