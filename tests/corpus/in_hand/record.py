"""Makes the incidents of this folder: small gloo jobs that hang, crash, are slow or healthy.

    python record.py [NAME...]

Every job really runs, four processes at most, under a hard limit. What a user would have in hand is
kept: standard error by rank or as torchrun merges it, stacks of py-spy and faulthandler. Paths of
the machine are replaced. ``labels.json`` is written from the truth below, which the programs were
made for; an incident that did not come out as meant (a file is missing) stops the recording.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
LIMIT_S = 60


@dataclass
class Incident:
    """One incident and its truth.

    Attributes:
        world: Processes.
        keep: ``stderr``, ``pyspy``, ``json``, ``locals``, ``fault`` or ``torchrun``.
        cause: Class of the cause.
        accept: Classes and ranks that count as right; empty if nobody can tell from the files.
        why: The reason in a sentence.
        environment: Variables of the processes.
        drop: Ranks of which nothing is kept.
    """

    world: int
    keep: str
    cause: str
    accept: list[tuple[str, list[int]]]
    why: str
    environment: dict[str, str] = field(default_factory=dict)
    drop: tuple[int, ...] = ()


DETAIL = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
INCIDENTS = {
    "missing-stderr": Incident(
        4, "stderr", "missing", [("missing", [2])], "rank 2 computes for ever and prints nothing"
    ),
    "drift-stderr": Incident(
        4,
        "stderr",
        "drift",
        [("drift", [1]), ("kind", [1]), ("missing", [1])],
        "rank 1 left out its last all_reduce and waits in the barrier behind it",
    ),
    "crash-stderr": Incident(
        4, "stderr", "crash", [("crash", [3])], "rank 3 raised KeyError; its neighbors lost it"
    ),
    "crash-torchrun": Incident(
        3, "torchrun", "crash", [("crash", [1])], "rank 1 raised ValueError; all of it in one file"
    ),
    "killed-torchrun": Incident(
        3, "torchrun", "crash", [("crash", [2])], "rank 2 was ended by SIGKILL"
    ),
    "detail-kind": Incident(
        4, "stderr", "kind", [("kind", [2])], "rank 2 calls broadcast for all_reduce", DETAIL
    ),
    "detail-dtype": Incident(
        4, "stderr", "size", [("size", [1])], "rank 1 reduces doubles", DETAIL
    ),
    "detail-one-side": Incident(
        4,
        "stderr",
        "size",
        [("size", [0, 2])],
        "two logs of two ranks that differ: no majority, so no rank can be blamed",
        DETAIL,
        (1, 3),
    ),
    "detail-missing": Incident(
        4, "stderr", "missing", [("missing", [1])], "rank 1 did not come to the barrier", DETAIL
    ),
    "monitored-two": Incident(
        4, "stderr", "missing", [("missing", [1, 3])], "ranks 1 and 3 missed a monitored barrier"
    ),
    "size-stderr": Incident(
        3,
        "stderr",
        "size",
        [("size", [0, 1, 2])],
        "rank 1 has twice the elements; who is ended for it depends on the ring, not on guilt",
    ),
    "loader-json": Incident(
        4, "json", "missing", [("missing", [2])], "rank 2 stands in its loader; py-spy --json"
    ),
    "loader-fault": Incident(
        4, "fault", "missing", [("missing", [0])], "rank 0 stands in its loader; faulthandler"
    ),
    "sends-locals": Incident(
        2, "locals", "p2p", [("p2p", [0, 1])], "both ranks send first; py-spy --locals"
    ),
    "crossed-pyspy": Incident(
        4,
        "pyspy",
        "cross",
        [("cross", [0, 1, 2, 3])],
        "rank 0 enters its groups in another order than the others",
    ),
    "slow-pyspy": Incident(
        4, "pyspy", "slow", [("missing", [3])], "healthy: rank 3 takes seconds for every step"
    ),
    "healthy-pyspy": Incident(4, "pyspy", "none", [], "healthy: dumps of a running job"),
}
UNDETERMINED = ("detail-one-side", "size-stderr", "crossed-pyspy", "slow-pyspy", "healthy-pyspy")

PROGRAM = """
import datetime, faulthandler, os, signal, sys, time
import torch
import torch.distributed as dist


def sync(tensor, group=None):
    dist.all_reduce(tensor, group=group)


def load(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(10_000))


def main(name):
    limit = datetime.timedelta(seconds=5 if KEEP in ("stderr", "torchrun") else 60)
    dist.init_process_group("gloo", timeout=limit)
    rank, world = dist.get_rank(), dist.get_world_size()
    for _ in range(3):
        sync(torch.ones(256))
    open(f"ready-{rank}", "w").close()
    if KEEP == "fault":
        faulthandler.dump_traceback_later(4, exit=False)
    if name in ("missing-stderr", "detail-missing", "loader-json", "loader-fault"):
        late = {"missing-stderr": 2, "detail-missing": 1, "loader-json": 2, "loader-fault": 0}
        if rank == late[name]:
            load(100)
        sync(torch.ones(256))
    elif name == "drift-stderr":
        if rank != 1:
            sync(torch.ones(64))
        dist.barrier()
    elif name == "crash-stderr":
        if rank == 3:
            {}["learning_rate"]
        sync(torch.ones(256))
    elif name == "crash-torchrun":
        if rank == 1:
            raise ValueError("negative loss")
        sync(torch.ones(256))
    elif name == "killed-torchrun":
        if rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        sync(torch.ones(256))
    elif name == "detail-kind":
        if rank == 2:
            dist.broadcast(torch.ones(256), 0)
        else:
            sync(torch.ones(256))
    elif name == "detail-dtype":
        sync(torch.ones(256, dtype=torch.float64 if rank == 1 else torch.float32))
    elif name == "detail-one-side":
        sync(torch.ones(128 if rank == 2 else 256))
    elif name == "monitored-two":
        if rank in (1, 3):
            load(100)
        dist.monitored_barrier(timeout=datetime.timedelta(seconds=3), wait_all_ranks=True)
    elif name == "size-stderr":
        sync(torch.ones(4096 if rank == 1 else 2048))
    elif name == "sends-locals":
        dist.send(torch.ones(1 << 22), 1 - rank)
        dist.recv(torch.ones(1 << 22), 1 - rank)
    elif name == "crossed-pyspy":
        one, two = dist.new_group([0, 1, 2, 3]), dist.new_group([0, 1, 2, 3])
        for group in (two, one) if rank == 0 else (one, two):
            sync(torch.ones(4), group) if group is one else dist.barrier(group)
    else:
        for _ in range(100_000):
            if name == "slow-pyspy" and rank == 3:
                load(4)
            sync(torch.ones(1 << 18))
    print("done", rank, file=sys.stderr)


NAME, KEEP = sys.argv[1:3]
torch.set_num_threads(1)
main(NAME)
"""


def environment(one: Incident, port: int) -> dict[str, str]:
    """The environment of a job."""
    return {
        **os.environ,
        "GLOO_SOCKET_IFNAME": "lo",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        **one.environment,
    }


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def record(name: str, folder: Path) -> None:
    """Run one incident and keep its files."""
    one = INCIDENTS[name]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    work = folder / "work"
    work.mkdir()
    (work / "train.py").write_text(PROGRAM)
    if one.keep == "torchrun":
        _torchrun(name, one, folder, work)
    else:
        _ranks(name, one, folder, work)
    shutil.rmtree(work)
    for file in folder.iterdir():
        file.write_text(_anonymous(file.read_text(errors="replace"), str(work)))


def _torchrun(name: str, one: Incident, folder: Path, work: Path) -> None:
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(one.world)),
        *("--master-port", str(free_port()), "--tee", "3", "train.py", name, "torchrun"),
    ]
    with (folder / "train.log").open("w") as log, contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(
            command,
            cwd=work,
            env=environment(one, free_port()),
            stdout=log,
            stderr=log,
            timeout=LIMIT_S,
            check=False,
        )


def _ranks(name: str, one: Incident, folder: Path, work: Path) -> None:
    port, children, logs = free_port(), [], []
    for rank in range(one.world):
        log = (folder / f"rank{rank}.err").open("w")
        logs.append(log)
        more = {"RANK": str(rank), "WORLD_SIZE": str(one.world), "LOCAL_RANK": str(rank)}
        command = [sys.executable, "-u", "train.py", name, one.keep]
        children.append(
            subprocess.Popen(
                command, cwd=work, env={**environment(one, port), **more}, stdout=log, stderr=log
            )
        )
    try:
        deadline = time.monotonic() + LIMIT_S
        while len([*work.glob("ready-*")]) < one.world:
            if time.monotonic() > deadline:
                raise TimeoutError(name)
            time.sleep(0.1)
        if one.keep in ("pyspy", "json", "locals"):
            time.sleep(5)
            _spy(one, folder, [child.pid for child in children])
        elif one.keep == "fault":
            time.sleep(6)
        else:
            deadline = time.monotonic() + 22
            while time.monotonic() < deadline and any(c.poll() is None for c in children):
                time.sleep(0.2)
    finally:
        for child in children:
            if child.poll() is None:
                child.send_signal(signal.SIGKILL)
            child.wait(10)
        for log in logs:
            log.close()
    for rank in range(one.world):
        if one.keep in ("pyspy", "json", "locals") or rank in one.drop:
            (folder / f"rank{rank}.err").unlink()


def _spy(one: Incident, folder: Path, pids: list[int]) -> None:
    options = {"pyspy": [], "json": ["--json"], "locals": ["--locals"]}[one.keep]
    ending = "json" if one.keep == "json" else "txt"
    for rank, pid in enumerate(pids):
        out = subprocess.run(
            ["py-spy", "dump", *options, "--pid", str(pid)],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        (folder / f"pyspy.rank{rank}.{ending}").write_text(out.stdout)


def _anonymous(text: str, work: str) -> str:
    text = text.replace(work, "/workspace").replace(socket.gethostname(), "node-a")
    text = re.sub(r"/[\w./-]*/site-packages/", "/opt/conda/lib/python3.11/site-packages/", text)
    text = re.sub(r"/[\w./-]*/bin/python[\d.]*", "/opt/conda/bin/python", text)
    return re.sub(r"(/[\w.-]+)*/lib/python3\.11/(?!site-packages)", "/usr/lib/python3.11/", text)


def label(name: str) -> dict[str, object]:
    """The truth of an incident, in the fields that benchmarks/in_hand.py reads."""
    one = INCIDENTS[name]
    return {
        "id": name,
        "kind": one.keep,
        "run": ["."],
        "world": one.world,
        "determinable": name not in UNDETERMINED,
        "cause": one.cause,
        "accept": [{"class": kind, "ranks": [ranks]} for kind, ranks in one.accept],
        "why": one.why,
        "source": "run",
    }


def main() -> None:
    """Record the named incidents, all if none is named, and write the labels."""
    for name in sys.argv[1:] or INCIDENTS:
        record(name, HERE / name)
        print(name, *sorted(file.name for file in (HERE / name).iterdir()), flush=True)
    labels = [label(name) for name in INCIDENTS]
    (HERE / "labels.json").write_text(json.dumps(labels, indent=1) + "\n")


if __name__ == "__main__":
    main()
