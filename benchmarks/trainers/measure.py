"""Runs one trainer through every command, and reads what was said."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainers import Trainer

HERE = Path(__file__).parent
LIMIT = float(os.environ.get("TRAINERS_LIMIT", "180"))
"""Seconds that a job or a command has; a rank of a play has five sixths of it."""
STALL = 8.0
EXTENSIONS = "TORCH_EXTENSIONS_DIR"
"""Of the environment: where torch compiles extensions, here a folder of one run. Who is ended while
compiling leaves a lock in it, for which everybody waits without end, also in later runs."""

CALLS = {
    "c10d::allreduce_": "all_reduce",
    "c10d::allreduce_coalesced_": "all_reduce",
    "c10d::broadcast_": "broadcast",
    "c10d::reduce_": "reduce",
    "c10d::allgather_": "all_gather",
    "c10d::_allgather_base_": "all_gather",
    "c10d::allgather_coalesced_": "all_gather",
    "c10d::allgather_into_tensor_coalesced_": "all_gather",
    "c10d::reduce_scatter_": "reduce_scatter",
    "c10d::_reduce_scatter_base_": "reduce_scatter",
    "c10d::reduce_scatter_tensor_coalesced_": "reduce_scatter",
    "c10d::gather_": "gather",
    "c10d::scatter_": "scatter",
    "c10d::alltoall_": "all_to_all",
    "c10d::alltoall_base_": "all_to_all",
    "c10d::barrier": "barrier",
    "c10d::monitored_barrier_": "barrier",
    "c10d::send": "send",
    "c10d::recv_": "recv",
    "c10d::recv_any_source_": "recv",
}
"""Operators of c10d as torch.profiler names them, and what they are."""
SAME = {"isend": "send", "irecv": "recv", "all_gather_into_tensor": "all_gather",
        "reduce_scatter_tensor": "reduce_scatter", "all_to_all_single": "all_to_all"}  # fmt: skip


@dataclass
class Ended:
    """How a command ended.

    Attributes:
        code: Its exit code, None where it did not end in time.
        out: What it printed.
        err: What it said beside that.
        seconds: How long it took.
    """

    code: int | None
    out: str
    err: str
    seconds: float


def run(words: list[str], more: dict[str, str], limit: float, cwd: Path) -> Ended:
    """Run a command; nothing of it is left behind."""
    begin = time.monotonic()
    token = f"TRAINERS_TOKEN={os.getpid()}-{begin}"
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "DS_ACCELERATOR": "cpu",
        "MASTER_PORT": str(free_port()),
        "PYTHONWARNINGS": "ignore",
        **more,
        "TRAINERS_TOKEN": token.partition("=")[2],
    }
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(
            words, env=environment, stdout=out, stderr=err, cwd=cwd, stdin=subprocess.DEVNULL,
            text=True,
        )  # fmt: skip
        code: int | None = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = process.wait(timeout=limit)
        end_all(token)
        process.wait()
        if EXTENSIONS in os.environ:
            for lock in Path(os.environ[EXTENSIONS]).glob("*/lock"):
                lock.unlink()
        out.seek(0)
        err.seek(0)
        return Ended(code, out.read(), err.read(), time.monotonic() - begin)


def end_all(token: str) -> None:
    """End every process that has a word in its environment."""
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if token.encode() in (place / "environ").read_bytes().split(b"\0"):
                os.kill(int(place.name), signal.SIGKILL)


def free_port() -> int:
    """Return a port that nobody uses now."""
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return int(one.getsockname()[1])


def job_words(trainer: Trainer, *, real: bool) -> list[str]:
    """Return the command of a job: as it is really started, or as ``--stub`` reads it."""
    script = [str(HERE / "jobs" / f"{trainer.job}.py"), *trainer.arguments]
    if trainer.launcher == "own" and real:
        return [sys.executable, *script]
    launcher = [sys.executable, "-m", "torch.distributed.run"]
    if real:
        launcher += ["--standalone", *trainer.run]
    return [*launcher, "--nproc-per-node", str(trainer.ranks), *script]


def counted(
    trainer: Trainer, place: Path, watch: str = "count"
) -> tuple[Ended, dict[int, Counter[str]]]:
    """Run a job without PlanGuard; return what torch.profiler counted, by rank.

    ``watch`` is ``dump`` for the records of torch's Flight Recorder in its place.
    """
    counts = place / "counts"
    counts.mkdir(parents=True)
    more = {
        **trainer.environment, "PYTHONPATH": str(HERE / "inject"), "TRAINERS_WATCH": watch,
        "TORCH_FR_BUFFER_SIZE": "100000",
        "TRAINERS_COUNTS": str(counts), "TRAINERS_OUT": str(place / "out"),
    }  # fmt: skip
    ended = run(job_words(trainer, real=True), more, LIMIT, place)
    found: dict[int, Counter[str]] = {}
    # A rank that was started anew counted twice: the last attempt is what is compared.
    for file in sorted(counts.glob("*.json"), key=lambda file: file.stat().st_mtime):
        rank = int(file.name.partition("-")[0][4:])
        rows: Counter[str] = Counter()
        for name, number in json.loads(file.read_text()).items():
            rows[CALLS.get(name, name)] += number
        found[rank] = rows
    return ended, found


def recorded(place: Path) -> dict[int, Counter[str]]:
    """Return what PlanGuard's recorder wrote down, by rank."""
    from planguard.capture.run.log import Kind
    from planguard.capture.run.log_reading import read_run_log
    from planguard.capture.run.ranks import chosen_attempt, run_logs

    logs, _ = chosen_attempt([read_run_log(file) for file in run_logs(place)])
    found = {}
    for log in logs:
        names = [e.fields["op"] for e in log.entries if e.kind is Kind.CALL and e.fields]
        found[log.rank] = Counter(SAME.get(name, name) for name in names)
    return found


def verdict_of(ended: Ended) -> tuple[str, list[str]]:
    """Return the verdict that a command printed, and why it is none or not SAFE."""
    lines = [*ended.out.splitlines(), *ended.err.splitlines()]
    found = [line for line in lines if line.startswith("verdict: ")]
    why = [
        line.strip()
        for line in lines
        if re.match(r"(error|warning)\[PG|\s+open:|planguard: |error: |unknown: ", line)
    ]
    if found:
        return found[-1].split()[1], why
    return "REFUSED" if ended.code == 2 else f"exit {ended.code}", why or lines[-3:]


def planguard(*words: str) -> list[str]:
    """Return a command of planguard."""
    return [sys.executable, "-m", "planguard", *words]


def before(trainer: Trainer, place: Path) -> dict[str, dict[str, Any]]:
    """Return what ``dryrun --stub`` and ``precheck`` say of the job, as it is and with its slip."""
    more = {"TRAINERS_OUT": str(place / "out-before"), "TRAINERS_PATIENCE": str(LIMIT * 5 / 6)}
    script = str(HERE / "jobs" / f"{trainer.job}.py")
    words = [sys.executable, str(HERE / "play.py"), script, str(trainer.ranks), trainer.slip]
    run([*words, *trainer.arguments], more, 4 * LIMIT, place)
    file = place / "played.json"
    said = json.loads(file.read_text()) if file.exists() else {}
    found: dict[str, dict[str, Any]] = {"intact": {}, "slip": {}}
    for which, answers in found.items():
        for name in ("stub", "precheck"):
            one = said.get(f"{name}-{which}", {"code": None, "text": "", "s": None})
            ended = Ended(one["code"], one["text"], "", one["s"])
            answers[name], answers[f"{name}_why"] = verdict_of(ended)
            answers[f"{name}_s"] = one["s"]
    return found


def dry_run(trainer: Trainer, place: Path, slip: str) -> dict[str, Any]:
    """Return what ``dryrun`` says of the real job."""
    more = {
        **trainer.environment, "TRAINERS_SLIP": slip, "TRAINERS_OUT": str(place / "out-dryrun"),
    }  # fmt: skip
    words = planguard("dryrun", "--witness", "--stall", str(STALL), "-o", "run", "--")
    ended = run([*words, *job_words(trainer, real=True)], more, LIMIT, place)
    (place / "dryrun.txt").write_text(ended.out + ended.err)
    outcome, why = verdict_of(ended)
    # What becomes of the job by itself: PlanGuard ends one that hangs, and says so.
    truth = "fails" if "the job ended with code" in ended.err else "ends"
    truth = "hangs" if "the job was ended: ranks wait" in ended.err else truth
    return {"dryrun": outcome, "truth": truth, "dryrun_why": why, "dryrun_code": ended.code,
            "witnesses": "and no other" in ended.out,
            "audit": [x for x in ended.out.splitlines() if x.startswith("error[PG")],
            "dryrun_s": round(ended.seconds, 1)}  # fmt: skip


def guarded(trainer: Trainer, place: Path, slip: str) -> dict[str, Any]:
    """Return what the live guard says beside the real job."""
    report = place / "stuck.txt"
    more = {
        **trainer.environment, "TRAINERS_SLIP": slip, "TRAINERS_OUT": str(place / "out-guard"),
        "PYTHONPATH": str(HERE / "inject"), "TRAINERS_WATCH": "guard",
        "TRAINERS_REPORT": str(report),
    }  # fmt: skip
    ended = run(job_words(trainer, real=True), more, LIMIT / 2, place)
    (place / "guard.txt").write_text(ended.out + ended.err)
    found = report.with_suffix(".json")
    ranks = (
        [one["rank"] for one in json.loads(found.read_text())["ranks"]] if found.exists() else []
    )
    said = [x for x in ended.err.splitlines() if x.startswith(("error[PG", "warning[PG"))]
    return {"guard_ranks": ranks, "guard_code": ended.code, "guard_said": said,
            "guard_s": round(ended.seconds, 1)}  # fmt: skip


def measure(trainer: Trainer, place: Path, *, guards: bool = True) -> dict[str, Any]:
    """Run one trainer through everything."""
    found: dict[str, Any] = {"trainer": trainer.name, "slip": trainer.slip}
    intact, broken = place / "intact", place / "slip"
    for folder in (intact, broken):
        folder.mkdir(parents=True)
    played = before(trainer, place)
    ended, counts = counted(trainer, intact)
    (intact / "count.txt").write_text(ended.out + ended.err)
    found["bare_code"], found["bare_s"] = ended.code, round(ended.seconds, 1)
    found |= dry_run(trainer, intact, "") | played["intact"]
    seen = recorded(intact / "run") if any((intact / "run").glob("*.pgrun")) else {}
    found["counted"] = {rank: dict(sorted(rows.items())) for rank, rows in sorted(counts.items())}
    found["recorded"] = {rank: dict(sorted(rows.items())) for rank, rows in sorted(seen.items())}
    found["equal"] = bool(counts) and found["counted"] == found["recorded"]
    slip: dict[str, Any] = dry_run(trainer, broken, trainer.slip) | played["slip"]
    found["broken"] = slip
    if guards:
        slip |= guarded(trainer, broken, trainer.slip)
    return found
