"""Read the logs of an MPI program as a plan.

The model is ``mpi-eager``: in the MPI standard (4.1, section 3.4) a standard-mode send may be
buffered or may wait for its receive, and a program that needs the buffer is unsafe (3.5). What is
stuck without buffers alone is a POTENTIAL_DEADLOCK there and a DEADLOCK under ``mpi-sync``.

Calls that make communicators and MPI_Finalize are barriers of their communicator with a label: they
are collective (7.4.2, 11.2), and differ from every other call there.

Element types and operations of reductions are compared where MPI itself names them (3.3.1, 6.9.2);
a derived type by its bytes alone. A request that MPI_Test saw completed is polled there and waited
for in front of MPI_Finalize: in another execution it may complete later.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.capture.mpi.ranks import Form, RankReader
from planguard.capture.mpi.records import (
    DTYPES,
    FINALIZE,
    INFO,
    IRECV,
    ISENDS,
    MAKING,
    MPROBE,
    PROBE,
    RECV,
    ROUNDS,
    SENDS,
    WAIT,
    WAIT_ANY,
)
from planguard.capture.mpi.tags import settle_tags
from planguard.capture.nccl.preload_log import SUFFIX, Log, read_log
from planguard.errors import PlanError, UsageError
from planguard.words import name_ranks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MODEL = "mpi-eager"
MAX_RANKS = 131_072
"""Ranks of a program at most: every one of them gets a program of the plan."""


@dataclass(frozen=True)
class MpiRun:
    """What was recorded.

    Attributes:
        document: The plan file.
        cut: Ranks that never reached the end of MPI_Finalize.
        inside: Those of them that were in a call.
    """

    document: dict[str, Any]
    cut: tuple[int, ...]
    inside: tuple[int, ...]


def read_mpi(paths: Iterable[str | Path]) -> MpiRun:
    """Read the logs of one run, files or folders of them.

    Raises:
        UsageError: There is no log.
        PlanError: A file is not a log of calls of MPI, or two are of one rank.
    """
    files: list[Path] = []
    for path in map(Path, paths):
        files += sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
    logs: dict[int, Log] = {}
    size = 0
    for log in (read_log(file) for file in files):
        world = next((e for e in log.entries if e.op == INFO), None)
        if not log.mpi or world is None:
            continue  # a process that never called MPI_Init
        if not 0 <= world.peer < world.count <= MAX_RANKS:
            said = f"rank {world.peer} of {world.count:,} is none of a program"
            hint = f"at most {MAX_RANKS:,} ranks"
            raise PlanError(said, file=log.file, path="world", value=world.count, hint=hint)
        if world.peer in logs:
            raise PlanError("two logs of one rank", file=log.file, path="rank", value=world.peer)
        logs[world.peer], size = log, max(size, world.count)
    if not logs:
        hint = "the program must be linked with a shared MPI library and call MPI_Init"
        raise UsageError("no rank wrote a log of its MPI calls", hint=hint)
    return _Reader(logs, size).run()


class _Reader:
    def __init__(self, logs: dict[int, Log], size: int) -> None:
        self.logs, self.size = logs, size
        self.spoils: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
        self.places: dict[int, dict[int, int]] = defaultdict(dict)
        self.sizes: dict[int, int] = {}
        for rank, log in sorted(logs.items()):
            for entry in log.entries:
                if entry.op == INFO:
                    self.places[entry.comm][entry.peer] = rank
                    self.sizes[entry.comm] = entry.count
        self.world = next(e.comm for e in next(iter(logs.values())).entries if e.op == INFO)
        # The unit of splits is one for all members: elements where each of them names its type.
        self.by_bytes = {
            (entry.comm, ROUNDS[entry.op])
            for log in logs.values()
            for entry in log.entries
            if entry.op in ROUNDS and entry.dtype not in DTYPES
        }
        self.forms: dict[int, dict[int, list[Form]]] = defaultdict(lambda: defaultdict(list))
        self.used: set[int] = set()

    def spoil(
        self,
        kind: str,
        message: str,
        directions: tuple[str, ...] = ("under", "over"),
        behind: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Enter something that the answer must not pass over.

        Args:
            kind: Kind of the entry in the ledger.
            message: One sentence.
            directions: What it does to the executions.
            behind: Ranks and actions behind which something is missing; everywhere if none.
        """
        for direction in directions:
            self.spoils[kind, message, direction] = list(behind)

    def run(self) -> MpiRun:
        """Return the plan, and which ranks were cut off."""
        cut, inside = [], []
        ranks: dict[str, Any] = {}
        for rank in range(self.size):
            log = self.logs.get(rank)
            ranks[str(rank)] = {
                "actions": [] if log is None else RankReader(self, rank).actions(log)
            }
            if log is None:
                continue
            if len({e.thread for e in log.entries if not e.phase and e.op != INFO}) > 1:
                said = f"rank {rank} calls MPI from several threads: their order is one of several"
                self.spoil("threads", said)
            lost = log.dropped + log.torn
            if lost:
                self.spoil("unrecorded-calls", f"{lost:,} records of rank {rank} did not fit")
            if not any(e.op == FINALIZE and e.phase == 0 for e in log.entries):
                cut.append(rank)
                if _is_inside(log):
                    inside.append(rank)
        settle_tags({int(rank): program["actions"] for rank, program in ranks.items()})
        self._enter_choices(ranks)
        missing = [rank for rank in range(self.size) if rank not in self.logs]
        if missing:
            self.spoil("missing-rank", f"no log of {name_ranks(missing)}")
        if cut:
            said = f"{name_ranks(cut)} did not reach MPI_Finalize: what comes after is not known"
            behind = [(r, len(ranks[str(r)]["actions"]) - 1) for r in cut]
            self.spoil("cut-short", said, ("under",), [at for at in behind if at[1] >= 0])
        outside = sorted(set(cut) - set(inside))
        if outside:
            self.spoil("cut-short", f"{name_ranks(outside)} ended outside of MPI calls")
        groups = {
            self.name(comm): {"ranks": [places[at] for at in sorted(places)]}
            for comm, places in self.places.items()
            if comm in self.used and comm != self.world
        }
        for comm, places in self.places.items():
            if len(places) != self.sizes[comm] and not missing:
                self.spoil("missing-rank", f"{self.name(comm)} has members that are not known")
        self._compare_forms()
        document: dict[str, Any] = {
            "schema": "planguard.plan/1", "world_size": self.size, "model": MODEL,
            "producer": {"tool": "mpi-preload"}, "groups": groups, "ranks": ranks,
            "approximations": [
                {"kind": kind, "message": message, "direction": direction}
                | ({"scope": "onward", "actions": behind} if behind else {"scope": "plan"})
                for (kind, message, direction), behind in self.spoils.items()
            ],
        }  # fmt: skip
        return MpiRun(document, tuple(cut), tuple(inside))

    def _enter_choices(self, ranks: dict[str, Any]) -> None:
        actions = (action for program in ranks.values() for action in program["actions"])
        if any("any" in (action.get("peer"), action.get("tag")) for action in actions):
            said = "a receive from any sender, or of any tag: the program may go another way"
            self.spoil("open-receive", said, ("under",))

    def name(self, comm: int) -> str:
        """Return the group of a communicator."""
        return f"comm-{comm:x}"

    def _compare_forms(self) -> None:
        """Tell calls apart that are one operation in a plan and two in MPI.

        All members call the same routine (MPI 4.1, 6.1; Open MPI 4.1.4 hangs where MPI_Allgather
        meets MPI_Allgatherv, MPICH 4.0.2 where MPI_SUM meets an operation of the program's own,
        measured): where two forms are met, labels say so. Two operations of the program's own are
        known by their functions, which two programs may place differently: that is left open.
        """
        for comm, members in self.forms.items():
            ranks = sorted(members)
            for place, calls in enumerate(zip(*(members[rank] for rank in ranks), strict=False)):
                if len({call.action["op"] for call in calls}) > 1:
                    break  # the plan says so
                if len({call.form for call in calls}) > 1:
                    for call in calls:
                        call.action["label"] = call.form
                elif len({call.own is None for call in calls}) > 1:
                    for call in calls:
                        own = "an operation of MPI" if call.own is None else "one of its own"
                        call.action["label"] = f"reduces by {own}"
                elif len({call.own for call in calls}) > 1:
                    where = "MPI_COMM_WORLD" if comm == self.world else self.name(comm)
                    said = "the ranks reduce by functions of their own, which are not one function"
                    self.spoil("own-operation", f"collective {place} of {where}: {said}")
                    break


def _is_inside(log: Log) -> bool:
    """Tell whether some call did not come back."""
    kinds = {
        *SENDS,
        *ISENDS,
        RECV,
        IRECV,
        WAIT,
        WAIT_ANY,
        PROBE,
        MPROBE,
        *ROUNDS,
        *MAKING,
    }
    calls = [entry.phase for entry in log.entries if entry.op in kinds]
    return calls.count(0) > calls.count(1)
