"""What is measured and compared on one GPU; each phase is a function from a folder to its figures.

A phase raises nothing for what it finds: a disagreement, a job that did not end and an error are
rows of its result. `jobs.py` holds the jobs, `ranks.py` starts them.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ranks import HERE, end_all, environment, free_port, left, play

if TYPE_CHECKING:
    from collections.abc import Callable

Figures = dict[str, Any]


class Rows(dict[str, Any]):
    """Figures of a phase, row by row: a phase that is cut off leaves those that it has."""

    def __init__(self, out: Path, phase: str) -> None:
        super().__init__()
        self._file = out / f"{phase}.json"

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        self._file.write_text(json.dumps(self))


JOBS = ("plain", "ddp", "fsdp2", "tensor_parallel", "pipeline", "groups", "amp")
HANGS = ("hang_extra", "hang_barrier", "hang_loader", "hang_crossed", "hang_state")
TURNS = 5


def text_of(command: list[str], limit: float = 60, env: dict[str, str] | None = None) -> str:
    """Return what a command printed, both streams, or why it could not be run.

    Nothing that it started is left behind.
    """
    limit = left(limit)
    if not limit:
        return "not run: the time of the phase is over"
    word = f"{os.getpid()}-{time.monotonic()}"
    with tempfile.TemporaryFile("w+") as said:
        try:
            process = subprocess.Popen(
                command, stdout=said, stderr=said, text=True,
                env={**(env or os.environ), RUN: word},
            )  # fmt: skip
            process.wait(timeout=limit)
            ended = ""
        except OSError as error:
            return f"not run: {error}"
        except subprocess.TimeoutExpired:
            ended = f"not ended after {limit:.0f} s\n"
        end_all(RUN, word)
        process.wait()
        said.seek(0)
        return ended + said.read().strip()


RUN = "PLANGUARD_GPU_RUN"
"""Of the environment: a word that everything a command starts carries."""


def facts(_: Path) -> Figures:
    """Phase 0: what is there."""
    import torch

    found: Figures = {
        "gpu": text_of(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    found["ptrace_scope"] = scope.read_text().strip() if scope.exists() else None
    if torch.cuda.is_available():
        found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
        maps = Path("/proc/self/maps").read_text()
        libraries = sorted(set(re.findall(r"\S*libnccl\S*", maps)))
        found["libnccl"] = [Path(one).name for one in libraries]
        found["multi_rank"] = any(
            b"NCCL_MULTI_RANK_GPU_ENABLE" in Path(one).read_bytes() for one in libraries
        )
    return found


def interposed(folder: Path, **more: str) -> dict[str, str]:
    """Return the variables that put the interposer before NCCL."""
    from planguard.capture.nccl import preload

    return {**preload.environment(folder), **more}


def interposer(out: Path) -> Figures:
    """Phase 1: what the interposer costs a call, and whether its recordings are whole and SAFE."""
    memory = Path("/dev/shm") / f"planguard-{os.getpid()}"  # noqa: S108 - the log in memory
    loaded = {k: v for k, v in interposed(out).items() if k == "LD_PRELOAD"}
    settings: dict[str, dict[str, str]] = {
        "no interposer": {},
        "interposer, no log": loaded,
        "log in memory": interposed(memory),
        "log on disk": interposed(out / "disk"),
    }
    taken: dict[str, list[float]] = {name: [] for name in settings}
    for _ in range(TURNS):
        for name, more in settings.items():
            ran = play("calls", 1, limit=60, out=out, more=more)
            if ran.ended:
                taken[name].append(json.loads(ran.said[0])["us_per_call"])
    shutil.rmtree(memory, ignore_errors=True)
    shutil.rmtree(out / "disk", ignore_errors=True)
    rows = Rows(out, "interposer")
    rows["us_per_call"] = {
        k: round(statistics.median(v), 2) if v else None for k, v in taken.items()
    }
    for job in JOBS:
        rows[job] = witness_interposer(job, out)
    return rows


def judged(recording: Any) -> str:
    """Return the outcome of a recording as a plan, or why it is none."""
    import planguard

    try:
        return planguard.check(recording.to_plan(), model="nccl").outcome.value
    except planguard.PlanGuardError as error:
        return f"refused: {error}"


def counted(recording: Any) -> dict[str, int]:
    """Return how often each operation was called, all ranks together."""
    found = Counter(
        one.call.op for record in recording.ranks.values() for one in record.actions
    )  # fmt: skip
    return dict(sorted((op, n) for op, n in found.items() if op != "init"))


def witness_interposer(job: str, out: Path) -> Figures:
    """Run a job on two ranks before the interposer and read what it wrote."""
    from planguard.capture.nccl import preload

    folder = out / f"interposer-{job}"
    ran = play(job, 2, limit=60, out=out, more=interposed(folder))
    try:
        recording = preload.read_logs([folder])
    except Exception as error:  # noqa: BLE001 - a row of the result
        return {"ended": ran.ended, "error": repr(error)}
    return {"ended": ran.ended, "calls": counted(recording), "outcome": judged(recording)}


def dryrun(job: str, out: Path, *options: str, world: int = 2, limit: float = 90) -> Figures:
    """Run a job under `planguard dryrun` and give its exit code and the lines that matter."""
    folder = out / f"dryrun-{job}{''.join(options)}"
    launch = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={world}"]
    command = [
        sys.executable, "-m", "planguard", "dryrun", *options, "-o", str(folder), "--", *launch,
        f"--master-port={free_port()}", str(HERE / "jobs.py"), job,
    ]  # fmt: skip
    begin = time.monotonic()
    said = text_of(command, limit, env=environment(0, world, free_port(), {}))
    kept = ("verdict:", "witnesses:", "covered:", "error", "unknown", "not ended", "not run")
    lines = [line for line in said.splitlines() if line.lstrip().startswith(kept)]
    return {"seconds": round(time.monotonic() - begin, 1), "said": lines or said[-2000:]}


def recorder(out: Path) -> Figures:
    """Phase 2: the recorder over NCCL, with torch's dispatcher as its witness, and its cost."""
    from planguard.capture.nccl import preload  # noqa: F401 - the import error is a row of its own

    rows = Rows(out, "recorder")
    for job in JOBS:
        rows[job] = dryrun(job, out, "--witness")
    plain = play("steps", 2, limit=90, out=out)
    rows["steps"] = {"plain": plain.said[0] if plain.ended else plain.codes}
    return rows


def plugin(out: Path) -> Figures:
    """Phase 3: the profiler plugin: calls, kernel ends, a rank that left a call out."""
    from planguard.capture.nccl import preload

    def more(folder: Path) -> dict[str, str]:
        return {
            "NCCL_PROFILER_PLUGIN": str(preload.profiler()),
            "PLANGUARD_PRELOAD_LOG": str(folder),
            "NCCL_DEBUG": "INFO",
            "NCCL_DEBUG_FILE": str(out / "nccl-%p.txt"),
        }

    rows = Rows(out, "plugin")
    for job in ("plain", "ddp", "hang_extra"):
        folder = out / f"plugin-{job}"
        ran = play(job, 2, limit=30, out=out, more=more(folder))
        try:
            recording = preload.read_logs([folder])
        except Exception as error:  # noqa: BLE001 - a row of the result
            rows[job] = {"ended": ran.ended, "error": repr(error)}
            continue
        states = Counter(
            one.progress.name for record in recording.ranks.values() for one in record.actions
        )
        rows[job] = {"ended": ran.ended, "calls": counted(recording), "progress": dict(states)}
    logs = "".join(one.read_text(errors="replace") for one in out.glob("nccl-*.txt"))
    rows["loaded"] = sorted(set(re.findall(r"Loaded planguard[^\n]*", logs)))
    return rows


def stub(out: Path) -> Figures:
    """Phase 4: ranks played without communication, all of them on one device."""
    rows = Rows(out, "stub")
    for job in ("ddp", "fsdp2", "amp"):
        rows[job] = dryrun(job, out, "--stub", world=8)
    return rows


def warned(errors: list[str]) -> list[str]:
    """Return what a guard says where no rank is stuck for ever: a warning, in no report."""
    found = [re.search(r"^warning\[PG502\].*(?:\n  .*)*", text, re.MULTILINE) for text in errors]
    return [line for one in found if one for line in one[0].splitlines()]


def guard(out: Path) -> Figures:
    """Phase 5: real hangs: what the guard says and when, and what an audit of the dumps says."""
    rows = Rows(out, "guard")
    for job in HANGS:
        dumps = out / f"dump-{job}"
        dumps.mkdir(exist_ok=True)
        report = out / f"guard-{job}.txt"
        more = {
            "PLANGUARD_GPU_GUARD": "5",
            "PLANGUARD_GPU_REPORT": str(report),
            "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
            "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
            "TORCH_FR_DUMP_TEMP_FILE": str(dumps / "nccl_trace_rank_"),
            "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": str(dumps / "nccl_trace_rank_"),
            "TORCH_NCCL_BLOCKING_WAIT": "1",
        }
        ran = play(job, 2, limit=25, out=out, more=more)
        said = report.read_text().splitlines() if report.exists() else warned(ran.errors)
        audit = [sys.executable, "-m", "planguard", "audit", str(dumps)]
        rows[job] = {
            "seconds": round(ran.seconds, 1),
            "codes": ran.codes,
            "guard": said[:8],
            "audit": text_of(audit).splitlines()[:8],
        }
    return rows


def witnesses(out: Path) -> Figures:
    """Phase 6: recorder, interposer, plugin and Flight Recorder see the same calls of one job."""
    from planguard.capture.nccl import preload

    rows = Rows(out, "witnesses")
    for job in ("plain", "ddp", "pipeline"):
        own, plug = out / f"four-{job}", out / f"four-{job}-plugin"
        dumps = out / f"four-{job}-dumps"
        dumps.mkdir(exist_ok=True)
        more = interposed(own, TORCH_NCCL_TRACE_BUFFER_SIZE="2000")
        first = play(job, 2, limit=60, out=out, more=more)
        loaded = {"NCCL_PROFILER_PLUGIN": str(preload.profiler())}
        second = play(
            job, 2, limit=60, out=out, more={**loaded, "PLANGUARD_PRELOAD_LOG": str(plug)}
        )
        row: Figures = {"ended": [first.ended, second.ended]}
        for name, folder in (("interposer", own), ("plugin", plug)):
            try:
                row[name] = counted(preload.read_logs([folder]))
            except Exception as error:  # noqa: BLE001 - a row of the result
                row[name] = repr(error)
        row["equal"] = row["interposer"] == row["plugin"]
        row["recorder"] = dryrun(job, out, "--witness")
        rows[job] = row
    return rows


def order(out: Path) -> Figures:
    """Phase 7: two groups in opposite order, few and many queues; a captured graph."""
    from planguard.capture.nccl import preload

    rows = Rows(out, "order")
    for queues in ("1", "8"):
        for implicit in ("0", "1"):
            more = {"CUDA_DEVICE_MAX_CONNECTIONS": queues, "NCCL_LAUNCH_ORDER_IMPLICIT": implicit}
            ran = play("crossed", 2, limit=20, out=out, more=more)
            rows[f"connections {queues}, implicit order {implicit}"] = (
                "ends" if ran.ended else f"hangs or dies: {ran.codes}"
            )
    folder = out / "captured"
    ran = play("captured", 2, limit=40, out=out, more=interposed(folder))
    try:
        rows["captured graph, three replays"] = counted(preload.read_logs([folder]))
    except Exception as error:  # noqa: BLE001 - a row of the result
        rows["captured graph, three replays"] = repr(error)
    rows["captured ended"] = ran.ended
    return rows


PHASES: dict[str, tuple[Callable[[Path], Figures], float]] = {
    "facts": (facts, 30),
    "interposer": (interposer, 90),
    "recorder": (recorder, 110),
    "plugin": (plugin, 60),
    "stub": (stub, 70),
    "guard": (guard, 120),
    "witnesses": (witnesses, 60),
    "order": (order, 60),
}
