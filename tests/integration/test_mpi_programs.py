"""MPI programs in C, really run under mpirun, recorded and decided."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from planguard.api import check
from planguard.capture.mpi.reading import MpiRun
from planguard.cli.mpi import plan_of, run_mpi, spoiled
from planguard.verdict import Outcome

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.wheel,
    pytest.mark.skipif(
        shutil.which("mpicxx") is None or shutil.which("mpirun") is None,
        reason="no MPI library with a compiler (mpicxx, mpirun) is installed",
    ),
]

_START = """
#include <mpi.h>
static char b[1 << 20], d[1 << 20];
int main(int argc, char **argv) {
  int r, n; MPI_Comm c; MPI_Request q[2]; MPI_Status s;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &r); MPI_Comm_size(MPI_COMM_WORLD, &n);
  (void)c; (void)q; (void)s;
  BODY
  MPI_Finalize(); return 0; }
"""
W = "MPI_COMM_WORLD"
SEND = "MPI_Send(b, SIZE, MPI_CHAR, 1 - r, 0, MPI_COMM_WORLD);"
RECV = "MPI_Recv(d, SIZE, MPI_CHAR, 1 - r, 0, MPI_COMM_WORLD, &s);"


def _decide(folder: Path, body: str, ranks: int = 2, limit: float = 60) -> Path:
    """Run a program and return the folder of its recording."""
    source, program = folder / "a.c", folder / "a.out"
    source.write_text(_START.replace("BODY", body), "utf-8")
    subprocess.run(["mpicc", str(source), "-o", str(program)], check=True, timeout=60)
    said = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=True)
    more = ["--allow-run-as-root", "--oversubscribe"] if "Open MPI" in said.stdout else []
    run = folder / "run"
    job = ["mpirun", *more, "-n", str(ranks), str(program)]
    run_mpi(job, run, limit=limit, model=None)
    return run


def _outcome(run: Path, model: str | None = None) -> Outcome:
    return check(plan_of(run / "logs", model), model=model).outcome


def test_head_to_head_sends_that_the_library_buffered(tmp_path: Path) -> None:
    """They ran through here, and would not without the buffer."""
    run = _decide(tmp_path, (SEND + RECV).replace("SIZE", "8"))
    assert _outcome(run) is Outcome.POTENTIAL_DEADLOCK
    assert _outcome(run, "mpi-sync") is Outcome.DEADLOCK


def test_head_to_head_sends_that_hang(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither send fits a buffer: the job is ended, and decided; what lies behind is not known."""
    run = _decide(tmp_path, (SEND + RECV).replace("SIZE", "1 << 20"), limit=6)
    assert _outcome(run) is Outcome.DEADLOCK
    assert "ranks 0 and 1 stood in an MPI call when the job ended" in capsys.readouterr().err


def test_a_collective_that_one_rank_never_calls(tmp_path: Path) -> None:
    """Two ranks wait in a barrier, the third for a message."""
    body = f"if (r) MPI_Barrier({W}); else MPI_Recv(d, 4, MPI_CHAR, 1, 7, {W}, &s);"
    assert _outcome(_decide(tmp_path, body, 3, limit=6)) is Outcome.DEADLOCK


def test_a_correct_program_is_safe(tmp_path: Path) -> None:
    """Messages, collectives and a communicator of its own."""
    body = f"""
      MPI_Irecv(d, 64, MPI_CHAR, (r + n - 1) % n, 3, {W}, &q[0]);
      MPI_Isend(b, 64, MPI_CHAR, (r + 1) % n, 3, {W}, &q[1]);
      MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
      MPI_Sendrecv(b, 9, MPI_CHAR, (r + 1) % n, 4, d, 9, MPI_CHAR, (r + n - 1) % n, 4, {W}, &s);
      MPI_Comm_split({W}, r % 2, r, &c);
      MPI_Allreduce(b, d, 4, MPI_INT, MPI_SUM, c);
      MPI_Bcast(b, 4, MPI_INT, 1, c);
      MPI_Gather(b, 2, MPI_INT, d, 2, MPI_INT, 0, {W});
      MPI_Alltoall(b, 2, MPI_INT, d, 2, MPI_INT, {W});"""
    run = _decide(tmp_path, body, 4)
    assert _outcome(run) is Outcome.SAFE
    plan = json.loads((run / "mpi.plan.json").read_text("utf-8"))
    ops = [action["op"] for action in plan["ranks"]["3"]["actions"]]
    assert ops == [
        "irecv", "isend", "wait", "wait", "irecv", "isend", "wait", "wait", "barrier",
        "all_reduce", "broadcast", "gather", "all_to_all", "barrier",
    ]  # fmt: skip
    assert plan["ranks"]["3"]["actions"][10]["root"] == 3  # the second member of ranks 1 and 3


def test_a_job_that_is_ended_while_it_computes_is_no_deadlock(tmp_path: Path) -> None:
    """A rank outside of calls may go on."""
    body = f"if (r) MPI_Recv(d, 4, MPI_CHAR, 0, 0, {W}, &s); else for (;;) b[0]++;"
    assert _outcome(_decide(tmp_path, body, limit=5)) is Outcome.UNKNOWN


def test_a_rank_that_was_cut_off_in_a_call_that_can_end_may_free_the_others() -> None:
    """Rank 0 was killed in a send that its receiver took: the next one may have come."""
    send, recv = {"op": "send", "peer": 1, "bytes": 8}, {"op": "recv", "peer": 0, "bytes": 8}
    under = {"kind": "cut-short", "message": "cut", "direction": "under", "scope": "plan"}
    document = {
        "schema": "planguard.plan/1", "world_size": 2, "model": "mpi-eager",
        "ranks": {"0": {"actions": [send]}, "1": {"actions": [recv, recv]}},
        "approximations": [under],
    }  # fmt: skip
    assert check(spoiled(MpiRun(document, (0, 1), (0, 1)))).outcome is Outcome.UNKNOWN


def test_a_job_that_was_ended_is_not_blamed_for_waits_that_may_follow(tmp_path: Path) -> None:
    """Both ranks would have waited for all behind the receives in which they were ended."""
    post = f"""
      if (r) MPI_Isend(b, 4, MPI_CHAR, 0, 1, {W}, &q[0]);
      else {{
        MPI_Irecv(b, 4, MPI_CHAR, 1, 1, {W}, &q[0]);
        MPI_Irecv(d, 4, MPI_CHAR, 1, 2, {W}, &q[1]);
        MPI_Waitany(2, q, &n, &s);
      }}"""
    stuck = _decide(tmp_path, f"{post} MPI_Recv(d, 4, MPI_CHAR, 1 - r, 9, {W}, &s);", limit=5)
    verdict = check(plan_of(stuck / "logs"))
    assert verdict.outcome is Outcome.DEADLOCK
    assert "PG301" not in {one.code for one in verdict.findings}
