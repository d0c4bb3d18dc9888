"""Start the ranks of a job in one process group, end what is left of it, and keep what it said."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOKEN = "PLANGUARD_GPU_PHASE"  # noqa: S105 - a name, and no secret
"""Of the environment: a word that everything a phase starts carries."""
UNTIL = "PLANGUARD_GPU_UNTIL"
"""Of the environment: the moment of the monotonic clock at which a phase is over."""
MARGIN = 5.0
"""Seconds that a phase keeps to write its figures."""
REHEARSAL = "PLANGUARD_GPU_REHEARSAL"
"""Of the environment: set where the scripts are only rehearsed, over gloo."""
SLOWER = 4.0
"""How much more time a rehearsal has: two cores of a busy machine start the ranks, and nobody pays
for a GPU meanwhile."""


def allowed(limit: float) -> float:
    """Return a limit as it is on a GPU, or what a rehearsal has in its place."""
    return limit * SLOWER if os.environ.get(REHEARSAL) == "1" else limit


def left(limit: float) -> float:
    """Return the seconds that a command has: its limit, or less where the phase has less."""
    limit = allowed(limit)
    until = os.environ.get(UNTIL)
    if until is None:
        return limit
    return max(0.0, min(limit, float(until) - MARGIN - time.monotonic()))


def end_all(name: str, word: str) -> list[int]:
    """End every process whose environment has a name with a word; return them.

    Whatever group or session it is in: launchers give their ranks new ones.
    """
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            carried = (place / "environ").read_bytes().split(b"\0")
            if f"{name}={word}".encode() in carried and int(place.name) != os.getpid():
                os.kill(int(place.name), signal.SIGKILL)
                found.append(int(place.name))
    return found


@dataclass(frozen=True)
class Ran:
    """What became of a job.

    Attributes:
        codes: Exit status of each rank; None where it had to be ended.
        said: Standard output of each rank.
        errors: Standard error of each rank.
        seconds: Wall time until the last rank had left, or was ended.
    """

    codes: list[int | None]
    said: list[str]
    errors: list[str]
    seconds: float

    @property
    def ended(self) -> bool:
        """True when every rank left by itself with status 0."""
        return all(code == 0 for code in self.codes)


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def environment(rank: int, world: int, port: int, more: dict[str, str]) -> dict[str, str]:
    """Return the variables of one rank, as torchrun would set them."""
    return {
        **os.environ,
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        "CUDA_VISIBLE_DEVICES": "0", "NCCL_MULTI_RANK_GPU_ENABLE": "1",
        "NCCL_MAX_NCHANNELS": "2", "NCCL_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1", **more,
    }  # fmt: skip


def end(process: subprocess.Popen[str]) -> None:
    """End a process and what it started: a rank that hangs keeps its kernels on the device."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def play(
    job: str, world: int, *, limit: float, out: Path, more: dict[str, str] | None = None
) -> Ran:
    """Run a job of ``jobs.py`` and end it after ``limit`` seconds, or when its phase is over."""
    limit = left(limit)
    port, begin = free_port(), time.monotonic()
    files, processes = [], []
    for rank in range(world):
        said = (out / f"{job}-{rank}.out").open("w+")
        errors = (out / f"{job}-{rank}.err").open("w+")
        files.append((said, errors))
        processes.append(
            subprocess.Popen(
                [sys.executable, str(HERE / "jobs.py"), job],
                env=environment(rank, world, port, more or {}),
                stdout=said, stderr=errors, text=True, start_new_session=True,
            )
        )  # fmt: skip
    codes: list[int | None] = []
    for process in processes:
        try:
            codes.append(process.wait(timeout=max(0.0, begin + limit - time.monotonic())))
        except subprocess.TimeoutExpired:
            codes.append(None)
    for process in processes:
        end(process)
    texts = []
    for pair in files:
        for file in pair:
            file.seek(0)
            texts.append(file.read())
            file.close()
    return Ran(codes, texts[::2], texts[1::2], time.monotonic() - begin)
