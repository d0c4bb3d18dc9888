"""Read the logs of an MPI program as a plan.

The model is ``mpi-eager``: in the MPI standard (4.1, section 3.4) a standard-mode send may be
buffered or may wait for its receive, and a program that needs the buffer is unsafe (3.5). What is
stuck without buffers alone is a POTENTIAL_DEADLOCK there and a DEADLOCK under ``mpi-sync``.

MPI_Comm_split, _dup and _create and MPI_Finalize are barriers of their communicator with a label:
they are collective (7.4.2, 11.2), and differ from every other call there.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.capture.nccl.preload_log import SUFFIX, Entry, Log, read_log
from planguard.errors import PlanError, UsageError
from planguard.plan.vocabulary import MPI_LOGGED
from planguard.words import name_ranks

if TYPE_CHECKING:
    from collections.abc import Iterable

MODEL = "mpi-eager"
_MODES = (None, "synchronous", "buffered", "ready")
_SENDS = {100: 0, 101: 1, 102: 2, 103: 3}
_ISENDS = {105: 0, 106: 1, 107: 2, 108: 3}
_RECV, _IRECV, _WAIT = 104, 109, 110
_ROUNDS = dict(enumerate(MPI_LOGGED, 120))
_MAKING = {130: "MPI_Comm_split", 131: "MPI_Comm_dup", 132: "MPI_Comm_create", 133: "MPI_Finalize"}
_FINALIZE, _NOT_FOLLOWED, _POLLED, _INFO = 133, 150, 151, 50
_ANY, _ANY_TAG = -2, 0xFFFFFFFF


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
        world = next((e for e in log.entries if e.op == _INFO), None)
        if not log.mpi or world is None:
            continue  # a process that never called MPI_Init
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
        self.spoils: dict[tuple[str, str, str], None] = {}
        self.places: dict[int, dict[int, int]] = defaultdict(dict)
        self.sizes: dict[int, int] = {}
        for rank, log in sorted(logs.items()):
            for entry in log.entries:
                if entry.op == _INFO:
                    self.places[entry.comm][entry.peer] = rank
                    self.sizes[entry.comm] = entry.count
        self.world = next(e.comm for e in next(iter(logs.values())).entries if e.op == _INFO)

    def spoil(
        self, kind: str, message: str, directions: tuple[str, ...] = ("under", "over")
    ) -> None:
        """Enter something that the answer must not pass over."""
        for direction in directions:
            self.spoils[kind, message, direction] = None

    def run(self) -> MpiRun:
        """Return the plan, and which ranks were cut off."""
        cut, inside = [], []
        ranks: dict[str, Any] = {}
        for rank in range(self.size):
            log = self.logs.get(rank)
            ranks[str(rank)] = {"actions": [] if log is None else self._actions(rank, log)}
            if log is None:
                continue
            lost = log.dropped + log.torn
            if lost:
                self.spoil("unrecorded-calls", f"{lost:,} records of rank {rank} did not fit")
            if not any(e.op == _FINALIZE and e.phase == 0 for e in log.entries):
                cut.append(rank)
                if _is_inside(log):
                    inside.append(rank)
        missing = [rank for rank in range(self.size) if rank not in self.logs]
        if missing:
            self.spoil("missing-rank", f"no log of {name_ranks(missing)}")
        if cut:
            said = f"{name_ranks(cut)} did not reach MPI_Finalize: what comes after is not known"
            self.spoil("cut-short", said, ("under",))
        outside = sorted(set(cut) - set(inside))
        if outside:
            self.spoil("cut-short", f"{name_ranks(outside)} ended outside of MPI calls")
        groups = {
            self._name(comm): {"ranks": [places[at] for at in sorted(places)]}
            for comm, places in self.places.items()
            if comm != self.world
        }
        for comm, places in self.places.items():
            if len(places) != self.sizes[comm] and not missing:
                self.spoil("missing-rank", f"{self._name(comm)} has members that are not known")
        document: dict[str, Any] = {
            "schema": "planguard.plan/1", "world_size": self.size, "model": MODEL,
            "producer": {"tool": "mpi-preload"}, "groups": groups, "ranks": ranks,
            "approximations": [
                {"kind": kind, "message": message, "direction": direction, "scope": "plan"}
                for kind, message, direction in self.spoils
            ],
        }  # fmt: skip
        return MpiRun(document, tuple(cut), tuple(inside))

    def _name(self, comm: int) -> str:
        return f"comm-{comm:x}"

    def _actions(self, rank: int, log: Log) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for entry in log.entries:
            if entry.phase or entry.op == _INFO:
                continue
            if entry.op in (_NOT_FOLLOWED, _POLLED):
                self._not_followed(entry)
                continue
            if (action := self._action(rank, entry)) is not None:
                found.append(action)
        return found

    def _not_followed(self, entry: Entry) -> None:
        words = (entry.comm, entry.count, entry.stream, entry.caller)
        name = b"".join(word.to_bytes(8, "little") for word in words).rstrip(b"\0").decode()
        if entry.op == _POLLED:
            said = f"{name} was called: the order that was seen is one of several"
            self.spoil("polling", said, ("under",))
        else:
            self.spoil("not-followed", f"{name} was called, which is not followed")

    def _action(self, rank: int, entry: Entry) -> dict[str, Any] | None:
        """Return the action of a call; None where it has none, which the ledger then says."""
        op = entry.op
        if op == _WAIT:
            return {"op": "wait", "work": f"r{entry.stream}"}
        action: dict[str, Any] = {}
        if entry.comm not in self.places:
            return None  # the interposer has marked it
        if entry.comm != self.world:
            action["group"] = self._name(entry.comm)
        if op in _MAKING:
            return {"op": "barrier", "label": _MAKING[op], **action}
        if op in _ROUNDS:
            action |= {"op": _ROUNDS[op]}
            if _ROUNDS[op] != "barrier":
                action["bytes"] = entry.count
            if entry.peer >= 0:
                action["root"] = entry.peer
            return action
        if op not in {*_SENDS, *_ISENDS, _RECV, _IRECV}:
            self.spoil("not-followed", f"record {op} of rank {rank} is not known here")
            return None
        if entry.peer == rank:
            self.spoil("not-followed", f"rank {rank} sends messages to itself")
            return None
        if entry.peer < 0 and entry.peer != _ANY:
            self.spoil("not-followed", f"a message of rank {rank} has a peer that is not known")
            return None
        action |= {"peer": "any" if entry.peer == _ANY else entry.peer, "bytes": entry.count}
        action["tag"] = "any" if entry.redop == _ANY_TAG else entry.redop
        is_send = op in _SENDS or op in _ISENDS
        is_started = op in _ISENDS or op == _IRECV
        action["op"] = ("i" if is_started else "") + ("send" if is_send else "recv")
        if is_send and (mode := _MODES[{**_SENDS, **_ISENDS}[op]]):
            action["mode"] = mode
        if is_started:
            action["work"] = f"r{entry.stream}"
        if "any" in (action["peer"], action["tag"]):
            said = "a receive from any sender, or of any tag: the program may go another way"
            self.spoil("open-receive", said, ("under",))
        return action


def _is_inside(log: Log) -> bool:
    """Tell whether some call did not come back."""
    kinds = {*_SENDS, *_ISENDS, _RECV, _IRECV, _WAIT, *_ROUNDS, *_MAKING}
    calls = [entry.phase for entry in log.entries if entry.op in kinds]
    return calls.count(0) > calls.count(1)
