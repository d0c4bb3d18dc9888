"""How a recorded job comes to its end, and which of its processes are ranks."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from planguard import check, load
from planguard.capture.run import job as run_job

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.processes, pytest.mark.wheel]
pytest.importorskip("torch")

BEGIN = """\
import os, sys, time
import torch
import torch.distributed as dist
from datetime import timedelta
dist.init_process_group("gloo", timeout=timedelta(seconds=600))
rank, x = dist.get_rank(), torch.ones(4)
dist.all_reduce(x)
"""
HANGS = (
    BEGIN
    + """\
if rank == 0:
    dist.recv(x, 1, tag=7)
else:
    dist.recv(x, 0, tag=3)
"""
)
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def environment(folder: Path) -> dict[str, str]:
    """The environment of a command in a folder."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "NAME": str(folder)}


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Commands that a test starts; what it leaves behind is ended."""
    found: list[subprocess.Popen[str]] = []
    yield found
    for process in found:
        if process.poll() is None:
            process.terminate()
            process.wait(timeout=30)


def start(started, folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start a dry run."""
    command = [sys.executable, "-m", "planguard", "dryrun", "-o", "run", *words]
    process = subprocess.Popen(
        command, cwd=folder, env=environment(folder), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    started.append(process)
    return process


def left_of(folder: Path) -> list[int]:
    """Processes that run anything of a folder."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            known = f"NAME={folder}\0".encode() in (place / "environ").read_bytes()
        except OSError:
            continue
        if known:
            found.append(int(place.name))
    return found


def test_a_job_that_hangs_is_ended_and_answered(tmp_path, started):
    """A job in which ranks wait for each other is ended after the limit, and its logs are checked
    and audited: the verdict names the user's lines; no process stays behind; exit code 1. That the
    wait for a call in flight comes behind the hang is no fault of the job.
    """
    flies = "work = dist.all_reduce(torch.ones(2), async_op=True)\n"
    hangs = HANGS.replace("if rank", f"{flies}if rank") + "work.wait()\n"
    (tmp_path / "job.py").write_text(hangs)
    process = start(started, tmp_path, "--stall", "3", "--", *TORCHRUN, "job.py")
    out, err = process.communicate(timeout=100)
    assert process.returncode == 1, out + err
    assert "none of them communicated for 3 s" in err
    assert "where the ranks stood: planguard audit run" in out
    assert out.splitlines()[-1].startswith("verdict: DEADLOCK")
    lines = hangs.splitlines()
    for call in ("    dist.recv(x, 1, tag=7)", "    dist.recv(x, 0, tag=3)"):
        assert f"job.py:{lines.index(call) + 1}" in out
    assert "PG301" not in out
    assert left_of(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_job_leaves_no_orphans(tmp_path, started, number):
    """Ctrl-C, or the end of the command, reaches every rank; those that stand in gloo and do not
    hear it are killed. What the logs show is said; exit code 130.
    """
    (tmp_path / "job.py").write_text(HANGS)
    process = start(started, tmp_path, "--stall", "0", "--", *TORCHRUN, "job.py")
    until = time.monotonic() + 60
    while len(list(tmp_path.glob("run/*.pgrun"))) < 2 and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(1.0)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, out + err
    assert "interrupted: the job was told so" in err
    assert "verdict: DEADLOCK" in out
    assert left_of(tmp_path) == []


def test_an_interruption_before_anything_was_written_says_so(tmp_path, started):
    """Ctrl-C while the job still starts is an interruption, not a wrong use: exit code 130, one
    sentence, no process left.
    """
    (tmp_path / "job.py").write_text("import time\ntime.sleep(60)\n")
    process = start(started, tmp_path, "--", sys.executable, "job.py")
    until = time.monotonic() + 60
    while not (tmp_path / "run").is_dir() and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, out + err
    assert "no rank had written anything into run: nothing to judge" in err
    assert left_of(tmp_path) == []


ASLEEP = (
    BEGIN
    + """\
if rank == 1:
    open("begun", "w").close()
    while True:
        time.sleep(1)
dist.barrier()
"""
)
PLAYS = {
    "stub": ["dryrun", "--stub", "-o", "run", "--", *TORCHRUN[:3], *TORCHRUN[4:], "job.py"],
    "precheck": ["precheck", "job.py", "--ranks", "2"],
}


def play(started, folder: Path, words: list[str]) -> subprocess.Popen[str]:
    """Start a play of a job, in a session of its own, as a terminal does it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "planguard", *words], cwd=folder, env=environment(folder), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    started.append(process)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("which", sorted(PLAYS))
def test_an_interrupted_play_says_what_was_recorded(tmp_path, started, which, number):
    """Where each rank was, and what they issued; undecided, exit code 130, no process left. A
    terminal sends Ctrl-C to the ranks as well.
    """
    (tmp_path / "job.py").write_text(ASLEEP)
    process = play(started, tmp_path, PLAYS[which])
    until = time.monotonic() + 120
    while not (tmp_path / "begun").exists() and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(1.0)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    out, err = process.communicate(timeout=100)
    assert process.returncode == 130, out + err
    assert "interrupted" in err
    assert "verdict: UNKNOWN" in out
    said = " ".join(out.split())
    lines = range(ASLEEP.splitlines().index("    while True:") + 1, len(ASLEEP.splitlines()))
    assert any(f"rank 1 was at {tmp_path}/job.py:{line}" in said for line in lines), said
    assert "rank 0 waited for others" in said
    assert left_of(tmp_path) == []


@pytest.mark.parametrize("which", sorted(PLAYS))
def test_a_played_rank_that_never_answers_is_named_with_its_line(tmp_path, started, which):
    """Its time is over: undecided, with the line where it was, and what to do."""
    (tmp_path / "job.py").write_text(ASLEEP)
    words = PLAYS[which]
    at = words.index("--") if "--" in words else len(words)
    process = play(started, tmp_path, [*words[:at], "--timeout", "5", *words[at:]])
    out, err = process.communicate(timeout=200)
    assert process.returncode == 3, out + err
    said = " ".join(out.split())
    assert "rank 1 did not finish within 5 s: it was at" in said
    assert "--timeout (timeout=) waits longer" in said
    assert left_of(tmp_path) == []


AT_FORK = """\
import os, signal, sys
def interrupt():
    if not os.path.exists("sent") and "torch" in sys.modules:
        open("sent", "w").close()
        os.kill(os.getpid(), signal.SIGINT)
if "precheck" in sys.orig_argv:
    os.register_at_fork(after_in_parent=interrupt)
"""
"""A ``sitecustomize`` that interrupts the command in what Python calls at a fork."""


def test_a_play_that_raises_says_safe_nowhere(tmp_path, started):
    """All ranks raise, so that nobody waits in vain: exit code 2 with the error, UNKNOWN with the
    ranks that ended, and the plan that is left says so to whoever checks it later.
    """
    (tmp_path / "job.py").write_text(BEGIN + 'raise ValueError("bad shape")\n')
    job = start(started, tmp_path, "--stub", "--", *TORCHRUN, "job.py")
    out, err = job.communicate(timeout=200)
    assert job.returncode == 2, out + err
    assert "could not be captured: ValueError: bad shape" in err
    assert "verdict: UNKNOWN" in out
    assert "rank 1 ended by ValueError: bad shape" in " ".join(out.split())
    left = check(load(tmp_path / "run" / "captured.plan.json"))
    assert left.outcome.value == "UNKNOWN"


def test_an_interruption_in_a_fork_is_not_lost(tmp_path, started, monkeypatch):
    """Python drops what is raised there; the command ends by it all the same."""
    place = tmp_path / "injected"
    place.mkdir()
    (place / "sitecustomize.py").write_text(AT_FORK)
    (tmp_path / "job.py").write_text(ASLEEP)
    monkeypatch.setenv("PYTHONPATH", str(place))
    process = play(started, tmp_path, PLAYS["precheck"])
    out, err = process.communicate(timeout=200)
    assert (tmp_path / "sent").exists()
    assert process.returncode == 130, out + err
    assert "interrupted" in err
    assert left_of(tmp_path) == []


AT_MODULE = """\
import os, signal, sys
class Ends:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["ENDS_AT"]:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGTERM)
if "dryrun" in sys.orig_argv:
    sys.meta_path.insert(0, Ends())
"""
"""A ``sitecustomize`` that sends the command SIGTERM where it is about to import a module."""


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("planguard.cli", "interrupted"),
        ("planguard.cli.dryrun", "interrupted"),
        ("planguard.capture.run.job", "interrupted"),
        ("planguard.capture.run.reading", "interrupted"),
        ("planguard.cli.check", "planguard check run decides it"),
    ],
)
def test_sigterm_at_any_time_of_the_command_is_said(tmp_path, module, said):
    """From the first import to the check of what was recorded: exit code 130 and a line, as behind
    Ctrl-C. Before the job nothing is started, behind it the logs are kept.
    """
    place = tmp_path / "injected"
    place.mkdir()
    (place / "sitecustomize.py").write_text(AT_MODULE)
    (tmp_path / "job.py").write_text(BEGIN)
    done = subprocess.run(
        [sys.executable, "-m", "planguard", "dryrun", "-o", "run", "--", *TORCHRUN, "job.py"],
        cwd=tmp_path, text=True, capture_output=True, timeout=100, check=False,
        env=environment(tmp_path) | {"PYTHONPATH": str(place), "ENDS_AT": module},
    )  # fmt: skip
    assert done.returncode == 130, done.stdout + done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "verdict" not in done.stdout
    assert left_of(tmp_path) == []


def test_a_job_that_computes_is_not_taken_to_hang(tmp_path, started):
    """While no rank waits for another, no limit counts: the same limit ends only who waits."""
    body = BEGIN + "time.sleep(5)\ndist.all_reduce(x)\n"
    (tmp_path / "job.py").write_text(body)
    process = start(started, tmp_path, "--stall", "2", "--", *TORCHRUN, "job.py")
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, out + err


def test_processes_are_found_by_a_word_in_their_environment():
    """A process in a session of its own, whose parent has gone, is found and nobody else is."""
    told = {**os.environ, run_job.TOKEN: "word-of-this-test"}
    script = "import subprocess; subprocess.Popen(['sleep', '30'], start_new_session=True)"
    subprocess.run([sys.executable, "-c", script], env=told, check=True, timeout=30)
    (orphan,) = run_job.processes_of("word-of-this-test")
    os.kill(orphan, signal.SIGKILL)
    assert run_job.processes_of("word-of-nobody") == []


SPAWN = """\
import importlib.util, os, sys
importlib.util.find_spec("torch")  # as libraries do that want to know whether there is one
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def rank(number, world):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=PORT)
    dist.init_process_group("gloo", rank=number, world_size=world)
    dist.all_reduce(torch.ones(4))
    if sys.argv[2:] == ["fails"] and number:
        raise RuntimeError("on purpose")
    dist.barrier()
    dist.destroy_process_group()

PORT = sys.argv[3] if len(sys.argv) > 3 else os.environ["PORT"]
if __name__ == "__main__":
    if sys.argv[1] == "spawn":
        mp.spawn(rank, args=(2,), nprocs=2)
    else:
        mp.start_processes(rank, args=(2,), nprocs=2, start_method="fork")
"""


def free_port() -> str:
    """A port that nobody uses now."""
    import socket

    with socket.socket() as one:
        one.bind(("localhost", 0))
        return str(one.getsockname()[1])


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_ranks_without_rank_in_their_environment_are_recorded(tmp_path, monkeypatch, method):
    """mp.spawn and forks, where nothing says RANK at the start of a process, are recorded from
    init_process_group on, also when somebody asked for torch's spec before; the run is SAFE.
    """
    monkeypatch.setenv("PORT", free_port())
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "job.py").write_text(SPAWN)
    done = dryrun(tmp_path, "--", sys.executable, "job.py", method)
    assert done.returncode == 0, done.stdout + done.stderr
    assert check(load(tmp_path / "run")).stats.actions == 4
    assert len(list(tmp_path.glob("run/*.pgrun"))) == 2


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_a_script_that_starts_its_ranks_is_played(tmp_path, monkeypatch, method):
    """Under --stub every played rank runs what the script would have started as that rank, and no
    process is started: the calls are those of the real run. Another number of ranks is refused.
    """
    monkeypatch.setenv("PORT", free_port())
    (tmp_path / "job.py").write_text(SPAWN)
    words = ("--", *TORCHRUN[:3], "--nproc-per-node")
    done = dryrun(tmp_path, "--stub", *words, "2", "job.py", method)
    assert done.returncode == 0, done.stdout + done.stderr
    plan = load(tmp_path / "run" / "captured.plan.json")
    assert check(plan).stats.actions == 4
    assert plan.model == "gloo"  # the script names it
    assert "decided under gloo, the backend that" in done.stderr
    shutil.rmtree(tmp_path / "run")
    done = dryrun(tmp_path, "--stub", *words, "3", "job.py", method)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "starts 2 processes by itself, and 3 ranks of a node are played" in done.stderr
    assert "hint: play as many: --nproc-per-node 2" in done.stderr
    assert "Traceback" not in done.stderr
    done = dryrun(tmp_path, "--stub", "--", sys.executable, "job.py", method)
    assert done.returncode == 2
    assert f"hint: torchrun --nproc-per-node N job.py {method}, also where" in done.stderr


def test_a_spawned_rank_that_raises_is_no_end(tmp_path, monkeypatch):
    """A target of mp.spawn that raises leaves an incomplete log, as a script does: UNKNOWN or a
    finding, never SAFE.
    """
    monkeypatch.setenv("PORT", free_port())
    (tmp_path / "job.py").write_text(SPAWN)
    done = dryrun(tmp_path, "--", sys.executable, "job.py", "spawn", "fails")
    assert done.returncode in (1, 3), done.stdout + done.stderr
    assert "rank 1 ended by an exception" in " ".join(done.stdout.split())


def dryrun(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Make a dry run."""
    command = [sys.executable, "-m", "planguard", "dryrun", "-o", "run", *words]
    return subprocess.run(
        command, cwd=folder, env=environment(folder), text=True, capture_output=True,
        timeout=100, check=False,
    )  # fmt: skip


RESTARTS = (
    BEGIN
    + """\
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    sys.exit(1) if rank else time.sleep(60)
dist.all_reduce(x)
dist.destroy_process_group()
"""
)


# torchrun keeps its store when it starts the ranks anew, and with it the addresses of the attempt
# before: a rank that reads one before its peer has written the new one connects to nobody, with
# PlanGuard and without (torch 2.13, elastic/rendezvous/dynamic_rendezvous.py, use_agent_store).
NEW_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def test_the_last_attempt_of_an_elastic_job_is_judged(tmp_path, monkeypatch):
    """torchrun starts a failed job anew: two logs a rank. The last attempt is judged and the
    earlier one named in the ledger; it can be asked for, and is incomplete. An audit that left
    logs out decides nothing.
    """
    (tmp_path / "job.py").write_text(RESTARTS)
    for name, value in NEW_STORE.items():
        monkeypatch.setenv(name, value)
    done = dryrun(tmp_path, "--", *TORCHRUN, "--max-restarts", "1", "job.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(tmp_path.glob("run/*.pgrun"))) == 4
    assert "the job was started 2 times; this is attempt 1" in " ".join(done.stdout.split())
    first = check(load(tmp_path / "run", attempt=0))
    assert first.unknown
    command = [sys.executable, "-m", "planguard", "audit", "run"]
    audit = subprocess.run(
        command, cwd=tmp_path, text=True, capture_output=True, timeout=60, check=False
    )
    assert audit.returncode == 3, audit.stdout + audit.stderr
    assert "attempt 1 is audited, 2 logs of earlier ones left out" in " ".join(audit.stdout.split())
    command = [sys.executable, "-m", "planguard", "check", "run", "--option", "attempt=2"]
    done = subprocess.run(command, cwd=tmp_path, text=True, capture_output=True, check=False)
    assert done.returncode == 2
    assert "attempts in this folder: 0, 1" in done.stderr + done.stdout
