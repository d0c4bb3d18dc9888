"""Runs programs in C under mpirun, with the interposer of PlanGuard in front of the library."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.api import check
from planguard.capture.mpi.building import build
from planguard.cli.mpi import plan_of, record

if TYPE_CHECKING:
    from pathlib import Path

    from planguard.verdict import Verdict

START = """
#include <mpi.h>
#include <pthread.h>
static char b[1 << 20], d[1 << 20];
static void own(void *in, void *out, int *n, MPI_Datatype *t) { *n = *n; }
static void other(void *in, void *out, int *n, MPI_Datatype *t) { *n = *n + 0; b[9] = 1; }
static void *in_a_thread(void *r) {
  if (*(int *)r) MPI_Send(b, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
  else MPI_Recv(d, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return 0;
}
int main(int argc, char **argv) {
  int r, n, i, k; MPI_Comm c = MPI_COMM_WORLD, made; MPI_Request q[8]; MPI_Status s; MPI_Op o;
  int one[8] = {1, 1, 1, 1, 1, 1, 1, 1}, at[8] = {0, 1, 2, 3, 4, 5, 6, 7}, up[8] = {1, 2, 3, 4};
  int upat[8] = {0, 1, 3, 6, 10};
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &i);
  MPI_Comm_rank(MPI_COMM_WORLD, &r); MPI_Comm_size(MPI_COMM_WORLD, &n);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  BODY
  MPI_Finalize(); return 0; }
"""


@dataclass(frozen=True)
class Library:
    """An MPI library: its compilers and its mpirun."""

    name: str
    suffix: str = ""

    def tool(self, name: str) -> str:
        """Return the name of one of its programs."""
        return name + self.suffix

    def is_here(self) -> bool:
        """Tell whether it is installed."""
        return all(shutil.which(self.tool(name)) for name in ("mpicc", "mpicxx", "mpirun"))

    def job(self, ranks: int, *command: str) -> list[str]:
        """Return the command that starts a job."""
        said = subprocess.run(
            [self.tool("mpirun"), "--version"], capture_output=True, text=True, check=True
        )
        more = ["--allow-run-as-root", "--oversubscribe"] if "Open MPI" in said.stdout else []
        return [self.tool("mpirun"), *more, "-n", str(ranks), *command]

    def compile(self, body: str, folder: Path) -> Path:
        """Compile the body of a main function and return the program."""
        source, program = folder / "a.c", folder / "a.out"
        source.write_text(START.replace("BODY", body), "utf-8")
        command = [self.tool("mpicc"), "-w", str(source), "-o", str(program)]
        subprocess.run(command, check=True, timeout=60)
        return program


LIBRARIES = (Library("default"), Library("mpich", ".mpich"))


@dataclass(frozen=True)
class Interposed:
    """A library, and the interposer that was compiled for it."""

    library: Library
    interposer: Path

    @classmethod
    def made(cls, library: Library, folder: Path) -> Interposed:
        """Compile the interposer for a library."""
        return cls(library, build(folder, library.tool("mpicxx")))

    def plan(self, body: str, folder: Path, ranks: int = 2, limit: float = 60) -> dict[str, Any]:
        """Run a program and return the plan of what it did."""
        program = self.library.compile(body, folder)
        record(self.library.job(ranks, str(program)), self.interposer, folder / "logs", limit)
        return plan_of(folder / "logs")

    def verdict(self, body: str, folder: Path, ranks: int = 2, limit: float = 60) -> Verdict:
        """Run a program and decide it."""
        return check(self.plan(body, folder, ranks, limit))

    def ends(self, body: str, folder: Path, ranks: int, limit: float) -> bool:
        """Tell whether a program ends without PlanGuard."""
        job = self.library.job(ranks, str(self.library.compile(body, folder)))
        with subprocess.Popen(job, env=dict(os.environ), stderr=subprocess.DEVNULL) as started:
            try:
                started.wait(limit)
            except subprocess.TimeoutExpired:
                started.terminate()
                started.wait(20)
                return False
            return started.returncode == 0
