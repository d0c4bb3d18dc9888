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

from planguard.capture.mpi.own_messages import without_own
from planguard.capture.mpi.tags import settle_tags
from planguard.capture.nccl.preload_log import SUFFIX, Entry, Log, read_log
from planguard.errors import PlanError, UsageError
from planguard.plan.actions import ITEM_BYTES
from planguard.plan.vocabulary import BOTH_SPLITS, MPI_LOGGED, RECEIVES, REDUCING
from planguard.words import name_ranks

if TYPE_CHECKING:
    from collections.abc import Iterable

MODEL = "mpi-eager"
_MODES = (None, "synchronous", "buffered", "ready")
_SENDS = {100: 0, 101: 1, 102: 2, 103: 3}
_ISENDS = {105: 0, 106: 1, 107: 2, 108: 3}
_RECV, _IRECV, _WAIT = 104, 109, 110
_FORMS = {
    160: ("all_gather", "MPI_Allgatherv"), 161: ("gather", "MPI_Gatherv"),
    162: ("scatter", "MPI_Scatterv"), 163: ("all_to_all", "MPI_Alltoallv"),
    164: ("all_to_all", "MPI_Alltoallw"), 165: ("reduce_scatter", "MPI_Reduce_scatter"),
    166: ("reduce_scatter", "MPI_Reduce_scatter_block"),
}  # fmt: skip
_ROUNDS = {**dict(enumerate(MPI_LOGGED, 120)), **{at: op for at, (op, _) in _FORMS.items()}}
_MAKING = {
    130: "MPI_Comm_split", 131: "MPI_Comm_dup", 132: "MPI_Comm_create", 133: "MPI_Finalize",
    134: "MPI_Comm_split_type", 135: "MPI_Comm_create_group", 136: "MPI_Cart_create",
    137: "MPI_Cart_sub", 138: "MPI_Comm_dup_with_info", 139: "MPI_Win_create",
    140: "MPI_Win_allocate", 141: "MPI_Win_allocate_shared", 142: "MPI_Win_create_dynamic",
    143: "MPI_Win_free", 144: "MPI_Win_fence",
}  # fmt: skip
_FINALIZE, _NOT_FOLLOWED, _POLLED, _COUNTS, _MEMBER, _WAIT_ANY = 133, 150, 151, 152, 153, 154
_TESTED, _FREED, _PROBE, _MPROBE, _LOOSE, _INFO = 155, 156, 157, 158, 159, 50
_WINDOWS = range(139, 145)
_ANY, _ANY_TAG, _OWN_OP = -2, 0xFFFFFFFF, 200
_DTYPES = dict(enumerate(("i8", "u8", "i16", "i32", "i64", "f32", "f64", "bool")))
_REDUCES = {at for at, op in _ROUNDS.items() if op in REDUCING}
_REDUCE_OPS = dict(enumerate((
    "sum", "product", "max", "min", "land", "band", "lor", "bor", "lxor", "bxor",
    "minloc", "maxloc",
)))  # fmt: skip


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
        # The unit of splits is one for all members: elements where each of them names its type.
        self.by_bytes = {
            (entry.comm, _ROUNDS[entry.op])
            for log in logs.values()
            for entry in log.entries
            if entry.op in _ROUNDS and entry.dtype not in _DTYPES
        }
        self.forms: dict[int, dict[int, list[_Form]]] = defaultdict(lambda: defaultdict(list))
        self.used: set[int] = set()

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
            ranks[str(rank)] = {"actions": [] if log is None else _Rank(self, rank).actions(log)}
            if log is None:
                continue
            if len({e.thread for e in log.entries if not e.phase and e.op != _INFO}) > 1:
                said = f"rank {rank} calls MPI from several threads: their order is one of several"
                self.spoil("threads", said)
            lost = log.dropped + log.torn
            if lost:
                self.spoil("unrecorded-calls", f"{lost:,} records of rank {rank} did not fit")
            if not any(e.op == _FINALIZE and e.phase == 0 for e in log.entries):
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
            self.spoil("cut-short", said, ("under",))
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
                {"kind": kind, "message": message, "direction": direction, "scope": "plan"}
                for kind, message, direction in self.spoils
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


@dataclass(frozen=True)
class _Form:
    """What a plan does not say of a collective: its form, and an operation of the program's own."""

    action: dict[str, Any]
    form: str
    own: int | None


class _Rank:
    """Reads one log; what it finds of the run goes to the reader."""

    def __init__(self, run: _Reader, rank: int) -> None:
        self.run, self.rank = run, rank
        self.counts: tuple[list[int], list[int]] = ([], [])
        self.members: list[str] = []
        self.matched = False
        self.started: set[str] = set()
        self.open: list[str] = []  # seen completed by a poll, or freed
        self.probed: tuple[bool, dict[str, Any]] | None = None  # whether by MPI_Mprobe

    def actions(self, log: Log) -> list[dict[str, Any]]:
        """Return the rank's program."""
        found: list[dict[str, Any]] = []
        for entry in log.entries:
            if not entry.phase and entry.op != _INFO:
                for action in self._read(entry):
                    found += self._after_probe(action)
        if self.probed is not None:
            taken, probe = self.probed
            # What the standing MPI_Mprobe would take is received next.
            found.append(probe | {"op": "recv"} if taken else probe)
        found, fine = without_own(self.rank, found)
        if not fine:
            said = f"rank {self.rank} sends messages to itself, in an order that may block"
            self.run.spoil("not-followed", said)
        return found

    def _after_probe(self, action: dict[str, Any]) -> list[dict[str, Any]]:
        """Return an action; a probe and the receive of what it saw, next to it, are one receive."""
        last, self.probed = self.probed, None
        if action["op"] == "probe":
            self.probed = (self.matched, action)
            return [last[1]] if last else []
        if last is None:
            return [action]
        taken, probe = last
        seen = {key: probe[key] for key in ("peer", "tag", "group") if key in probe}
        same = all(action.get(key) == value for key, value in seen.items())
        # What MPI_Mprobe took is received from whom it was taken, whoever that was.
        if action["op"] in RECEIVES and (taken or same):
            return [action | seen]
        return [probe, action]

    def _read(self, entry: Entry) -> list[dict[str, Any]]:
        op, work = entry.op, f"r{entry.stream}"
        if op in (_NOT_FOLLOWED, _POLLED, _LOOSE):
            self._not_followed(entry)
        elif op == _COUNTS:
            words = (entry.comm, entry.count, entry.stream, entry.caller)
            self.counts[entry.redop].extend(words[: entry.peer])
        elif op in (_MEMBER, _WAIT, _TESTED, _FREED) and work not in self.started:
            pass  # what its start said is marked as not followed
        elif op == _MEMBER:
            self.members.append(work)
        elif op == _WAIT_ANY:
            works, self.members = self.members, []
            if not works:
                return []
            return [{"op": "wait", "work": works, **({"mode": "any"} if len(works) > 1 else {})}]
        elif op == _WAIT:
            return [{"op": "wait", "work": work}]
        elif op in (_TESTED, _FREED):
            self.open.append(work)
            return [{"op": "test", "work": work}] if op == _TESTED else []
        elif (action := self._action(entry)) is not None:
            self.matched = op == _MPROBE
            self.started.add(action.get("work", ""))
            ends = [{"op": "wait", "work": self.open}] if op == _FINALIZE and self.open else []
            return [*ends, action]
        return []

    def _not_followed(self, entry: Entry) -> None:
        words = (entry.comm, entry.count, entry.stream, entry.caller)
        name = b"".join(word.to_bytes(8, "little") for word in words).rstrip(b"\0").decode()
        if entry.op == _POLLED:
            said = f"{name} was called: the order that was seen is one of several"
            self.run.spoil("polling", said, ("under",))
        elif entry.op == _LOOSE:
            said = f"{name} was called: it is taken for a barrier, and need not wait"
            self.run.spoil("loose-fence", said, ("over",))
        else:
            self.run.spoil("not-followed", f"{name} was called, which is not followed")

    def _action(self, entry: Entry) -> dict[str, Any] | None:
        """Return the action of a call; None where it has none, which the ledger then says."""
        op, rank, run = entry.op, self.rank, self.run
        action: dict[str, Any] = {}
        if entry.comm not in run.places:
            self.counts = ([], [])
            return None  # the interposer has marked it
        run.used.add(entry.comm)
        if entry.comm != run.world:
            action["group"] = run.name(entry.comm)
        if op in _WINDOWS:
            said = "what is put into windows and got from them was not compared"
            run.spoil("one-sided", said, ("exact",))
        if op in _MAKING:
            return {"op": "barrier", "label": _MAKING[op], **action}
        if op in _ROUNDS:
            self._round(entry, action)
            return action
        if op not in {*_SENDS, *_ISENDS, _RECV, _IRECV, _PROBE, _MPROBE}:
            self.run.spoil("not-followed", f"record {op} of rank {rank} is not known here")
            return None
        if entry.peer < 0 and entry.peer != _ANY:
            self.run.spoil("not-followed", f"a message of rank {rank} has a peer that is not known")
            return None
        action |= {"peer": "any" if entry.peer == _ANY else entry.peer}
        action["tag"] = "any" if entry.redop == _ANY_TAG else entry.redop
        is_send = op in _SENDS or op in _ISENDS
        is_started = op in _ISENDS or op == _IRECV
        action["op"] = ("i" if is_started else "") + ("send" if is_send else "recv")
        if op in (_PROBE, _MPROBE):
            action["op"] = "probe"
        else:
            action |= self._size(entry)
        if is_send and (mode := _MODES[{**_SENDS, **_ISENDS}[op]]):
            action["mode"] = mode
        if is_started:
            action["work"] = f"r{entry.stream}"
        return action

    def _size(self, entry: Entry) -> dict[str, Any]:
        if entry.dtype in _DTYPES:
            return {"bytes": entry.count, "dtype": _DTYPES[entry.dtype]}
        if entry.count:
            said = "derived types, MPI_BYTE and the like are compared by their bytes alone"
            self.run.spoil("element-types", said, ("exact",))
        return {"bytes": entry.count}

    def _round(self, entry: Entry, action: dict[str, Any]) -> None:
        action["op"] = _ROUNDS[entry.op]
        reduces = entry.op in _REDUCES
        if action["op"] != "barrier":
            action.update(self._size(entry))
        if entry.op not in _REDUCES and entry.redop - 1 in _DTYPES:
            other, rank = _DTYPES[entry.redop - 1], self.rank
            one = f"{action['op']} of rank {rank} has {action['dtype']} on one side and {other}"
            self.run.spoil("element-types", f"{one} on the other: not compared", ("under",))
        if any(self.counts):
            width = ITEM_BYTES.get(action.get("dtype", ""), 1)
            if (entry.comm, action["op"]) in self.run.by_bytes:
                width, action["dtype"] = 1, "u8"
            for field, counts in zip(BOTH_SPLITS, self.counts, strict=True):
                if counts:
                    action[field] = [count // width for count in counts]
            self.counts = ([], [])
        if entry.peer >= 0:
            action["root"] = entry.peer
        own = None
        if reduces and entry.redop == _OWN_OP:
            own = entry.caller
        elif reduces and entry.redop in _REDUCE_OPS:
            action["reduce_op"] = _REDUCE_OPS[entry.redop]
        if entry.stream:
            action.update({"async": True, "work": f"r{entry.stream}"})
        plain = f"MPI_{action['op'].replace('_', '').capitalize()}"
        _, form = _FORMS.get(entry.op, ("", plain))
        self.run.forms[entry.comm][self.rank].append(_Form(action, form, own))


def _is_inside(log: Log) -> bool:
    """Tell whether some call did not come back."""
    kinds = {
        *_SENDS,
        *_ISENDS,
        _RECV,
        _IRECV,
        _WAIT,
        _WAIT_ANY,
        _PROBE,
        _MPROBE,
        *_ROUNDS,
        *_MAKING,
    }
    calls = [entry.phase for entry in log.entries if entry.op in kinds]
    return calls.count(0) > calls.count(1)
