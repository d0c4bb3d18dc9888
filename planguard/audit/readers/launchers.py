"""What launchers say of processes that ended: torchrun, Slurm, Open MPI, MPICH and Intel MPI.

Only what is a cause is taken: a signal that nobody in torch sends, or an abort that a rank asked
for. A process that the launcher or a watchdog ended is a victim, and nothing is concluded from it.

Formats: torch's elastic agent (``ChildFailedError``), ``srun``, ``mpirun``, ``prterun`` and
``orterun`` of Open MPI, ``MPI_Abort`` of Open MPI and MPICH, Hydra's report of Intel MPI.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from planguard.audit.readers.part import LOCAL, Part
from planguard.audit.readers.stderr import ABANDONED
from planguard.words import name_ranks

if TYPE_CHECKING:
    from planguard.audit.readers.text_log import Log

KILLED = {-4: "SIGILL", -7: "SIGBUS", -8: "SIGFPE", -9: "SIGKILL", -11: "SIGSEGV"}
"""Exit codes of processes that nobody in torch ends in this way."""
OWN = ("SIGILL", "SIGBUS", "SIGFPE", "SIGSEGV")
"""Signals that a process gives itself: who sent them need not be asked."""
_FIRST = re.compile(r"Root Cause \(first observed failure\)")
_RANK_OF = re.compile(r"\s*rank\s+: (\d{1,7}) \(local_rank")
_TIME_OF = re.compile(r"\s*time\s+: (\S{1,40})")
_CODE_OF = re.compile(r"\s*exitcode\s*: (-?\d{1,4}) ")
_TRACE_OF = re.compile(r"\s*traceback : Traceback \(most recent call last\)")
_ERROR_OF = re.compile(r"  (?P<error>[A-Za-z_][\w.]{0,120}(?:: .*)?)\Z")
"""The last line of a traceback that ``@record`` kept, in the summary of ``ChildFailedError``."""
_LOCAL_CODE = re.compile(r"failed \(exitcode: (-?\d{1,4})\) local_rank: (\d{1,6}) \(pid: \d+\)")
_SPAWNED = re.compile(
    r"ProcessExitedException: process (?P<local>\d{1,6}) terminated with signal "
    r"(?P<signal>SIG[A-Z]{2,6})"
)
"""``torch.multiprocessing.spawn`` (torch 2.13.0): the place among the processes that it started."""
_SLURM = re.compile(
    r"srun: error: \S+ tasks? (?P<rank>\d{1,7}): (?P<why>Killed|Out Of Memory|Segmentation fault|"
    r"Bus error)"
)
_CANCELLED = re.compile(
    r"slurmstepd\S{0,80}: error: \*\*\* (?:STEP|JOB) \S{1,60} .{0,200}?CANCELLED|"
    r"srun: (?:Job step aborted|forcing job termination|(?:Force )?Terminat(?:ing|ed) StepId)"
)
"""Slurm ends the tasks of a step: who is killed behind it is a victim."""
_ABORTS = (
    re.compile(r"MPI_ABORT was invoked on rank (?P<rank>\d{1,7}) in communicator (?P<comm>\S+)"),
    re.compile(
        r"application called MPI_Abort\((?P<comm>[^(),\s]{1,80}), (?P<code>-?\d{1,10})\) - process "
        r"(?P<rank>\d{1,7})"
    ),
)
_NOTICED = re.compile(
    r"(?:mpirun|mpiexec|prterun|orterun|prun) noticed that process rank (?P<rank>\d{1,7}) with PID "
    r"\d{1,10} on node \S{1,200} exited on signal (?P<signal>\d{1,3})"
)
_MPI_FIRST = re.compile(r"The first process to do so was")
_MPI_NAME = re.compile(r"\s*Process name:\s+\[\[\d+,\d+\],\s?(\d{1,7})\]")
_MPI_CODE = re.compile(r"\s*Exit code:\s+(\d{1,3})")
_HYDRA = re.compile(r"=\s+RANK (?P<rank>\d{1,7}) PID \d{1,10} RUNNING AT ")
_HYDRA_SIGNAL = re.compile(r"=\s+KILLED BY SIGNAL: (\d{1,3}) ")
WORLD = "MPI_COMM_WORLD"
BEFORE = "before any other process"


def read_launchers(log: Log, file: str) -> list[Part]:
    """Return what launchers say of the process whose end is a cause, one part for each rank."""
    ends = _Ends()
    for line in log.lines:
        ends.hear(line.text)
    return [
        Part("stderr", file, rank=rank, crash=why, has_ended=True, doubt=doubt)
        for rank, (why, doubt) in ends.told().items()
    ]


class _Ends:
    """What was heard of ends so far, line by line."""

    def __init__(self) -> None:
        self.found: dict[int, tuple[str, str]] = {}
        self.local: dict[int, tuple[str, str]] = {}
        self.hydra: dict[int, str] = {}
        self._block = ""
        self._rank: int | None = None
        self._error = ""
        self._is_kept = False
        self._is_cancelled = False
        self._time = ""
        self._others: list[tuple[int, str, int]] = []  # rank, time, exit code

    def told(self) -> dict[int, tuple[str, str]]:
        """Return why ranks ended, and what is not sure about it."""
        if self.found:
            return self.found
        if len(self.hydra) == 1:
            # Hydra reports every process that it killed as well: one alone is the first.
            return {rank: (why, _unsaid(rank, why)) for rank, why in self.hydra.items()}
        return self.local

    def hear(self, text: str) -> None:
        """Take one line."""
        if self._block:
            self._inside(text)
        if text.startswith("Failures:"):
            self._block, self._others = "others", []
        elif "Root Cause" in text and _FIRST.search(text):
            self._block, self._rank = "torchrun", None
        elif "exitcode" in text and (left := _LOCAL_CODE.search(text)) is not None:
            signal = KILLED.get(int(left[1]))
            if signal is not None:
                self.local[int(left[2])] = f"ended by {signal}", LOCAL
        elif "ExitedException" in text and (left := _SPAWNED.search(text)) is not None:
            if left["signal"] in KILLED.values():
                self.local[int(left["local"])] = f"ended by {left['signal']}", LOCAL
        elif "srun" in text and (task := _SLURM.search(text)) is not None:
            if task["why"] != "Killed" or not self._is_cancelled:
                self._tell(int(task["rank"]), task["why"])
        elif ("srun" in text or "slurmstepd" in text) and _CANCELLED.search(text):
            self._is_cancelled = True
        elif "process" in text or "MPI" in text:
            self._mpi(text)
        elif text.startswith("="):
            self._of_hydra(text)

    def _tell(self, rank: int, why: str) -> None:
        self.found.setdefault(rank, (why, _unsaid(rank, why)))

    def _inside(self, text: str) -> None:
        if self._block == "traceback":
            if text.startswith("===") or _RANK_OF.match(text):
                self._block = ""
                if self._rank is not None and self._error and not ABANDONED.search(self._error):
                    why = f"{self._error}, {BEFORE}"
                    doubt = f"rank {self._rank}: {self._error}; torchrun calls it the first failure"
                    self.found.setdefault(self._rank, (why, doubt))
            elif _TRACE_OF.match(text):
                self._is_kept = True
            elif self._is_kept and (said := _ERROR_OF.match(text)) is not None:
                self._error = said["error"].rstrip()[:300]
            return
        is_torchs = self._block != "mpi"
        named = (_RANK_OF if is_torchs else _MPI_NAME).match(text)
        code = (_CODE_OF if is_torchs else _MPI_CODE).match(text)
        if is_torchs and (time := _TIME_OF.match(text)) is not None:
            self._time = time[1]
        elif self._block == "others":
            if named is not None:
                self._rank = int(named[1])
            elif code is not None and self._rank is not None:
                self._others.append((self._rank, self._time, int(code[1])))
        elif named is not None:
            self._rank = int(named[1])
        elif code is not None:
            if self._rank is not None:
                self._ended(self._rank, int(code[1]))
            self._block, self._error = "traceback" if self._block == "torchrun" else "", ""
            self._is_kept = False

    def _ended(self, rank: int, code: int) -> None:
        if self._block == "mpi":
            self._tell(rank, f"ended with exit code {code}, {BEFORE}")
        elif (signal := KILLED.get(code)) is not None:
            # The agent looks at its processes in turn: of one second nobody is known to be first.
            also = [one for one, time, own in self._others if (time, own) == (self._time, code)]
            when = f"in the same second as {name_ranks(also)}" if also else BEFORE
            self._tell(rank, f"ended by {signal}, {when}")

    def _mpi(self, text: str) -> None:
        for pattern in _ABORTS:
            said = pattern.search(text)
            # A rank of another communicator is a place in it, and no rank of the job.
            if said is not None and said["comm"] == WORLD:
                self._tell(int(said["rank"]), "it called MPI_Abort")
        if (noticed := _NOTICED.search(text)) is not None:
            signal = KILLED.get(-int(noticed["signal"]))
            if signal is not None:
                self._tell(int(noticed["rank"]), f"ended by {signal}")
        elif _MPI_FIRST.search(text):
            self._block, self._rank = "mpi", None

    def _of_hydra(self, text: str) -> None:
        if (named := _HYDRA.match(text)) is not None:
            self._rank = int(named["rank"])
        elif (said := _HYDRA_SIGNAL.match(text)) is not None and self._rank is not None:
            signal = KILLED.get(-int(said[1]))
            if signal is not None:
                self.hydra.setdefault(self._rank, f"ended by {signal}")
            self._rank = None


def _unsaid(rank: int, why: str) -> str:
    if "MPI_Abort" in why:
        return f"rank {rank}: {why}; what made it do so is not said"
    if any(signal in why for signal in OWN) and "same second" not in why:
        return ""
    return f"rank {rank}: {why}; who ended it is not said"
