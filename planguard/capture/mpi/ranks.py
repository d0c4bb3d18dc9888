"""Read the log of one rank of an MPI program as its program in a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from planguard.capture.mpi.own_messages import without_own
from planguard.capture.mpi.records import (
    ANY,
    ANY_TAG,
    COUNTS,
    DTYPES,
    FINALIZE,
    FORMS,
    FREED,
    INFO,
    IRECV,
    ISENDS,
    LOOSE,
    MAKING,
    MEMBER,
    MODES,
    MPROBE,
    NOT_FOLLOWED,
    OWN_OP,
    POLLED,
    PROBE,
    RECV,
    REDUCE_OPS,
    REDUCES,
    ROUNDS,
    SENDS,
    TESTED,
    WAIT,
    WAIT_ANY,
    WINDOWS,
)
from planguard.plan.actions import ITEM_BYTES
from planguard.plan.vocabulary import BOTH_SPLITS, RECEIVES
from planguard.words import clean

if TYPE_CHECKING:
    from planguard.capture.nccl.preload_log import Entry, Log


class Run(Protocol):
    """What a rank's log is read with: communicators of the run, and its ledger.

    Attributes:
        places: Members of every communicator, by their place.
        world: The communicator of all ranks.
        by_bytes: Communicators and operations whose splits are counted in bytes.
        used: Communicators that some call names.
        forms: Collectives by communicator and rank, in order.
    """

    places: dict[int, dict[int, int]]
    world: int
    by_bytes: set[tuple[int, str]]
    used: set[int]
    forms: dict[int, dict[int, list[Form]]]

    def spoil(self, kind: str, message: str, directions: tuple[str, ...] = ...) -> None:
        """Enter something that the answer must not pass over."""

    def name(self, comm: int) -> str:
        """Return the group of a communicator."""


@dataclass(frozen=True)
class Form:
    """What a plan does not say of a collective: its form, and an operation of the program's own."""

    action: dict[str, Any]
    form: str
    own: int | None


class RankReader:
    """Reads one log; what it finds of the run goes to the reader."""

    def __init__(self, run: Run, rank: int) -> None:
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
            if not entry.phase and entry.op != INFO:
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
        if op in (NOT_FOLLOWED, POLLED, LOOSE):
            self._not_followed(entry)
        elif op == COUNTS and entry.redop < len(self.counts):
            words = (entry.comm, entry.count, entry.stream, entry.caller)
            self.counts[entry.redop].extend(words[: entry.peer])
        elif op == COUNTS:
            self.run.spoil("not-followed", f"counts of rank {self.rank} are of no side of a call")
        elif op in (MEMBER, WAIT, TESTED, FREED) and work not in self.started:
            pass  # what its start said is marked as not followed
        elif op == MEMBER:
            self.members.append(work)
        elif op == WAIT_ANY:
            works, self.members = self.members, []
            if not works:
                return []
            return [{"op": "wait", "work": works, **({"mode": "any"} if len(works) > 1 else {})}]
        elif op == WAIT:
            return [{"op": "wait", "work": work}]
        elif op in (TESTED, FREED):
            self.open.append(work)
            return [{"op": "test", "work": work}] if op == TESTED else []
        elif (action := self._action(entry)) is not None:
            self.matched = op == MPROBE
            self.started.add(action.get("work", ""))
            ends = [{"op": "wait", "work": self.open}] if op == FINALIZE and self.open else []
            return [*ends, action]
        return []

    def _not_followed(self, entry: Entry) -> None:
        words = (entry.comm, entry.count, entry.stream, entry.caller)
        text = b"".join(word.to_bytes(8, "little") for word in words).rstrip(b"\0")
        name = clean(text.decode(errors="replace"))
        if entry.op == POLLED:
            said = f"{name} was called: the order that was seen is one of several"
            self.run.spoil("polling", said, ("under",))
        elif entry.op == LOOSE:
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
        if op in WINDOWS:
            said = "what is put into windows and got from them was not compared"
            run.spoil("one-sided", said, ("exact",))
        if op in MAKING:
            return {"op": "barrier", "label": MAKING[op], **action}
        if op in ROUNDS:
            self._round(entry, action)
            return action
        if op not in {*SENDS, *ISENDS, RECV, IRECV, PROBE, MPROBE}:
            self.run.spoil("not-followed", f"record {op} of rank {rank} is not known here")
            return None
        if entry.peer < 0 and entry.peer != ANY:
            self.run.spoil("not-followed", f"a message of rank {rank} has a peer that is not known")
            return None
        action |= {"peer": "any" if entry.peer == ANY else entry.peer}
        action["tag"] = "any" if entry.redop == ANY_TAG else entry.redop
        is_send = op in SENDS or op in ISENDS
        is_started = op in ISENDS or op == IRECV
        action["op"] = ("i" if is_started else "") + ("send" if is_send else "recv")
        if op in (PROBE, MPROBE):
            action["op"] = "probe"
        else:
            action |= self._size(entry)
        if is_send and (mode := MODES[{**SENDS, **ISENDS}[op]]):
            action["mode"] = mode
        if is_started:
            action["work"] = f"r{entry.stream}"
        return action

    def _size(self, entry: Entry) -> dict[str, Any]:
        # No elements match no elements of any type (MPI 4.1, 3.3.1). Counts need their unit.
        if not entry.count and not any(self.counts):
            return {"bytes": 0}
        if entry.dtype in DTYPES:
            return {"bytes": entry.count, "dtype": DTYPES[entry.dtype]}
        if entry.count or any(self.counts):
            said = "derived types, MPI_BYTE and the like are compared by their bytes alone"
            self.run.spoil("element-types", said, ("exact",))
        return {"bytes": entry.count}

    def _round(self, entry: Entry, action: dict[str, Any]) -> None:
        action["op"] = ROUNDS[entry.op]
        reduces = entry.op in REDUCES
        if action["op"] != "barrier":
            action.update(self._size(entry))
        if entry.op not in REDUCES and entry.redop - 1 in DTYPES:
            other, rank = DTYPES[entry.redop - 1], self.rank
            this = action.get("dtype", "no type")
            one = f"{action['op']} of rank {rank} has {this} on one side and {other}"
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
        if reduces and entry.redop == OWN_OP:
            own = entry.caller
        elif reduces and entry.redop in REDUCE_OPS:
            action["reduce_op"] = REDUCE_OPS[entry.redop]
        if entry.stream:
            action.update({"async": True, "work": f"r{entry.stream}"})
        plain = f"MPI_{action['op'].replace('_', '').capitalize()}"
        _, form = FORMS.get(entry.op, ("", plain))
        self.run.forms[entry.comm][self.rank].append(Form(action, form, own))
