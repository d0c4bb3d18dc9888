"""Check a certificate of SAFE against a flat plan: standard library only, nothing of the engine.

A certificate of kind ``order`` lists communication in an order in which it can complete. This file
reads the flat plan, finds out by itself who meets whom, asks ``agreement`` whether they agree, and
follows the order through the execution that makes the least progress: no send is buffered, a device
has one queue. What completes there completes in every execution: docs/reference/certificates.md.
Linear.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from itertools import count
from typing import TYPE_CHECKING, Any

from planguard.certificate.agreement import (
    Call,
    OutsideError,
    RejectedError,
    agree,
    extent,
)
from planguard.certificate.turns import without_turns

if TYPE_CHECKING:
    from collections.abc import Iterator

DEVICE = {"nccl", "nccl-lazy", "nccl-eager", "nccl-serialized"}  # one queue of launches per rank
GLOO, MPI = {"gloo", "gloo-detail"}, {"mpi-eager", "mpi-sync"}  # no queue
KNOWN = DEVICE | GLOO | MPI | {"mpi-pg"}  # the last one: no queue where threads take no turns
SENDS, FLAT, SCANS = {"send", "isend"}, {"gather", "scatter"}, {"scan", "exscan"}
PAIR, GATHERS = SENDS | {"recv", "irecv"}, {"all_gather", "all_gather_into_tensor"}
ALONE = {"all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor"} | GATHERS
ROUND = ALONE | FLAT | SCANS | {"all_to_all", "all_to_all_single", "broadcast", "barrier"}
ROUND |= {"coalesced"}
INERT = {"test", "destroy", "event_record", "event_wait", "h2d", "d2h", "d2d"}


class _Match:  # what meets, by place in the group; the places of a message: 0 sends, 1 receives
    def __init__(self, size: int) -> None:
        self.size, self.ops, self.is_done = size, dict[int, Any](), False


class _Op:  # one send, receive or collective call of a rank
    def __init__(self, rank: _Rank, call: Call) -> None:
        self.rank, self.action, self.call = rank, rank.at, call
        self.is_done = self.is_hidden = False  # hidden: the others cannot count on it
        self.place, self.match, self.launch = 0, _Match(0), 1 << 62  # not issued yet
        self.messages = 0  # of its rank, on its communicator, before it
        self.needs: list[int] | None = None  # places of its match; None: all

    @property
    def is_root(self) -> bool:
        return bool(self.call.get("root", self.rank.rank) == self.rank.rank)

    def __str__(self) -> str:
        return f"rank {self.rank.rank}, action {self.action} ({self.call['op']})"


class _Rank:  # the host of one rank and its queue: how far both came, and what names mean
    def __init__(self, rank: int, head: int) -> None:
        self.rank, self.head, self.at, self.begin, self.created = rank, head, 0, 0, 0
        self.entered = 0
        self.blockers: list[Any] | None = []  # None: the host came to its end
        self.launches, self.earlier = list[set[_Op]](), defaultdict[Any, list[_Op]](list)
        self.comms, self.counts = dict[str, Any](), defaultdict[Any, int](int)
        self.handles, self.ids = dict[Any, list[_Op]](), dict[Any, list[_Op]]()

    def __str__(self) -> str:
        return f"rank {self.rank}, action {self.at}"


class Plan:
    """A flat plan under one model, and its execution."""

    def __init__(self, flat: dict[str, Any], model: str) -> None:
        self.model, self.ops, self.dropped = model, dict[Any, _Op](), list[_Op]()
        uses = [flat["ranks"][str(rank)]["actions"] for rank in range(flat["world_size"])]
        if flat.get("templates") or flat.get("fusion") or len(uses) != len(flat["ranks"]):
            raise OutsideError("the plan is not flat, or has fused buffers")
        if model == "mpi-pg":
            without_turns(flat)
        groups = flat.get("groups", {}) | {"world": {"ranks": range(len(uses))}}
        self.groups = {k: dict(zip(v["ranks"], count(), strict=False)) for k, v in groups.items()}
        self.alike = {name: str(group["ranks"]) for name, group in groups.items()}
        self.matches, self.meetings = dict[Any, _Match](), dict[Any, _Match]()
        self.todo, self.made = list(range(len(uses))), dict[Any, str]()
        self.ranks = [_Rank(rank, 0 if model in DEVICE else 1 << 61) for rank in self.todo]
        self.hosts = [self._run(rank, use) for rank, use in zip(self.ranks, uses, strict=True)]
        self._resume()

    def _run(self, rank: _Rank, actions: list[Call]) -> Iterator[list[Any]]:
        """Do what a host does; yield what blocks it."""
        for at, action in enumerate(actions, rank.begin):
            rank.at, name, ops = at, action["op"], list[_Op]()
            rank.ids[action.get("id")] = ops
            if name in PAIR or name in ROUND or name == "batch":
                yield from self._communicate(rank, action, ops)
            elif name == "wait":
                works = action["work"] if isinstance(action["work"], list) else [action["work"]]
                if len(works) > 1 and action.get("mode", "all") != "all":
                    raise OutsideError(f"{rank}: a wait for any or some")
                yield [op for work in works for op in rank.handles.pop(work)]
            elif name == "compute" and self.model not in DEVICE:
                yield [op for needed in action.get("deps", []) for op in rank.ids[needed]]
            elif name == "host_sync" and self.model in DEVICE:  # of one stream: read as of all
                yield [op for launch in rank.launches[-1:] for op in launch]
            elif name in {"init", "new_group"}:
                yield self._create(rank, name, action.get("group", "world"))
            elif name == "drop":
                rank.handles[None] = rank.handles.pop(action["work"])
                self.dropped += rank.handles[None]
            elif name == "exit":
                if self.model in GLOO and rank.handles:
                    raise OutsideError(f"{rank}: an exit that takes back what nobody waited for")
                return
            elif name not in INERT and name not in {"compute", "host_sync"}:
                raise OutsideError(f"{rank}: no order of completion covers `{name}`")

    def _create(self, rank: _Rank, name: str, group: str) -> list[_Match]:
        """Create a communicator; torch names it by its members and the counter of this rank."""
        members, place, alike = self.groups[group], rank.created, self.alike[group]
        if name == "init":
            return self._meet(rank, (name, rank.comms.get(group, group)), len(members))
        rank.created, rank.comms[group], what = place + 1, (alike, place), (name, (alike, place))
        own, is_out = alike if len(members) > 1 else "alone", rank.rank not in members
        if self.model[:3] != "mpi" and not is_out and self.made.setdefault(place, own) != own:
            raise RejectedError(f"{rank}: creation {place} is of other members on other ranks")
        if self.model == "nccl-eager":
            return self._meet(rank, (name, place), len(self.ranks))
        if self.model == "mpi-pg" and not is_out:  # members call what the world has to call
            rank.entered += 1
            keys = [(rank.entered, member) for member in members]
            if any(self.made.setdefault(key, alike) != alike for key in keys):
                raise RejectedError(f"{rank}: creation {rank.entered} is of groups that overlap")
            return self._meet(rank, (name, rank.entered), len(self.ranks))
        return [] if is_out or self.model in DEVICE else self._meet(rank, what, len(members))

    def _meet(self, rank: _Rank, what: tuple[Any, ...], size: int) -> list[_Match]:
        match = self.meetings.setdefault(what, _Match(size))
        match.ops[rank.rank] = rank
        self.todo += match.ops if len(match.ops) == size and not match.is_done else ()
        match.is_done = len(match.ops) == size
        return [match]

    def _communicate(self, rank: _Rank, action: Call, ops: list[_Op]) -> Iterator[list[Any]]:
        """Issue a call, or those of a batch: a loop, or on a device a launch per communicator."""
        is_batch, is_async = action["op"] == "batch", action["op"] in {"isend", "irecv"}
        is_async = "work" in action if is_batch else action.get("async", is_async)
        calls = list(enumerate(action["ops"])) if is_batch else [(None, action)]
        parts = dict[Any, list[tuple[int | None, Call]]]()
        for member, call in calls:  # in the order of first use (ADR 0030)
            group = call.get("group", "world")
            name = rank.comms.get(group, group) if self.model in DEVICE else member
            parts.setdefault(name, []).append((member, call))
        for launch in parts.values():
            for member, call in launch:
                op = self.ops[rank.rank, rank.at, member] = _Op(rank, call)
                made = (
                    "messages",
                    rank.comms.get(call.get("group", "world"), call.get("group", "world")),
                )
                rank.counts[made] += call["op"] in PAIR
                op.messages = rank.counts[made]
                rank.ids[call.get("id")] = ops
                ops.append(op)
                yield self._identify(rank, op, in_batch=is_batch)
            rank.launches.append(set(ops[-len(launch) :]))
            for op in rank.launches[-1]:
                op.launch = len(rank.launches) - 1
        blocking = [op for op in ops if self.model not in DEVICE or op.call["op"] == "barrier"]
        if is_async:
            rank.handles[action.get("work")] = blocking  # without a name it stays open
        yield [] if is_async else blocking

    def _identify(self, rank: _Rank, op: _Op, *, in_batch: bool) -> list[Any]:
        """Find the match of a call, the k-th on its communicator or channel, and what it needs."""
        call, name, group = op.call, op.call["op"], op.call.get("group", "world")
        comm, members, blockers = rank.comms.get(group, group), self.groups[group], list[Any]()
        op.place, size, slot = members[rank.rank], len(members), ("round", comm)
        if name in PAIR:
            peer, tag = call["peer"], 0 if self.model in DEVICE else call.get("tag", 0)
            if "any" in {peer, tag}:
                raise OutsideError(f"{rank}: a message from anybody, or with any tag")
            if members[peer] == op.place and not self._has_own(name, in_batch=in_batch):
                raise OutsideError(f"{rank}: a message to itself where no order covers it")
            src, dst = (rank.rank, peer) if name in SENDS else (peer, rank.rank)
            op.place, size = int(name not in SENDS), 2
            if self.model == "nccl-lazy" and not in_batch:
                comm, members = (comm, min(src, dst), max(src, dst)), {src: 0, dst: 1}
            slot = ("pair", (comm, src, dst, tag))
            if name in SENDS and self.model in MPI and call.get("mode") == "buffered":
                op.needs = []
        elif name not in ROUND or (name in SCANS and self.model[:3] != "mpi"):
            raise OutsideError(f"{rank}: no order of completion covers `{name}` here")
        elif self.model in GLOO and name == "barrier":
            blockers = rank.earlier.pop(comm, [])  # it comes after the earlier rounds
        elif self.model in GLOO:
            rank.earlier[comm].append(op)
        if name in FLAT and self.model in DEVICE | {"gloo"}:
            op.needs = None if rank.rank == call["root"] else [members[call["root"]]]
        elif name == "broadcast" and self.model == "gloo":
            op.needs = _relatives(op.place, members[call["root"]], size)
        elif name in ALONE and self.model == "gloo" and extent(call)[0] == 0:
            op.needs, op.is_hidden = [], True
        rank.counts[slot, op.place] += 1  # of a message to oneself both ends are counted here
        number = rank.counts[slot, op.place]
        op.match = self.matches.setdefault((*slot, number), _Match(size))
        op.match.ops[op.place] = op
        if self.model == "nccl-lazy":  # the first use creates the communicator
            blockers = self._meet(rank, ("init", comm), len(members))
        elif self.model == "gloo-detail" and name in ROUND:  # the hosts meet before it starts
            blockers += self._meet(rank, (*slot, number), size)
        return blockers

    def _has_own(self, name: str, *, in_batch: bool) -> bool:
        """Whether the backend has a message to oneself: MPI; in a queue what blocks no host."""
        is_late = self.model == "mpi-pg" and (in_batch or name in {"isend", "irecv"})
        return self.model in MPI or is_late or (self.model in DEVICE and in_batch)

    def _resume(self) -> None:
        while self.todo:
            rank = self.ranks[self.todo.pop()]
            while rank.blockers is not None:
                while rank.blockers and rank.blockers[-1].is_done:
                    rank.blockers.pop()
                if rank.blockers:
                    break
                rank.blockers = next(self.hosts[rank.rank], None)

    def complete(self, op: _Op) -> None:
        """Complete an operation, and let its rank go on."""
        match, rank = op.match, op.rank
        if op.is_done:
            raise RejectedError(f"{op} completes twice")
        everybody = range(0 if match.is_done else match.size)
        for place in (op.place, *(everybody if op.needs is None else op.needs)):
            other = match.ops.get(place)
            if not other or other.launch > other.rank.head or other.is_hidden > (other is op):
                raise RejectedError(f"{op} completes before {other or f'member {place}'} starts")
        op.is_done, match.is_done = True, match.is_done or op.needs is None
        if self.model in DEVICE:
            rank.launches[op.launch].discard(op)
            rank.head += not rank.launches[op.launch]
        self.todo.append(rank.rank)
        self._resume()

    def finish(self) -> None:
        """Reject if something is left over, or if somebody disagrees."""
        for match in self.matches.values():
            agree([op for _, op in sorted(match.ops.items())], match.size, self.model)
        for op in self.dropped:
            if self.model in GLOO and op.call["op"] in PAIR and len(op.match.ops) == 2:
                raise OutsideError(f"{op}: its handle is dropped although its partner exists")
        for rank in self.ranks:
            if rank.blockers is not None:
                raise RejectedError(f"{rank}: the order ends before the host gets past this")
            if self.model in DEVICE and rank.head < len(rank.launches):
                raise RejectedError(f"{next(iter(rank.launches[rank.head]))} never completes")


def _relatives(place: int, root: int, size: int) -> list[int]:
    """Return who is above and right below a member of gloo's binomial broadcast tree."""
    own = (place - root) % size
    above = [own % (1 << bit) for bit in range(own.bit_length())]
    below = [own | 1 << bit for bit in range(own.bit_length(), size.bit_length())]
    return [(other + root) % size for other in above + below if other < size]


def opened(text: bytes, certificate: bytes, kind: str) -> tuple[Call, Call]:
    """Return a flat plan and what a certificate of one kind says of it; else RejectedError."""
    proof = json.loads(certificate)
    if proof["plan_sha256"] != hashlib.sha256(text).hexdigest():
        raise RejectedError("the certificate is about another plan")
    flat, known = json.loads(text), ("planguard.plan/1", "planguard.certificate/1", kind)
    forms = flat["schema"], proof["schema"], proof["kind"], proof["model"]
    if forms[:3] != known or forms[3] not in KNOWN:
        raise RejectedError(f"not a proof about {kind} under a known model: {forms}")
    if forms[3] == "mpi-pg":
        without_turns(flat)  # the whole plan, before its blocks are put in an order
    return flat, proof


def check(text: bytes, certificate: bytes) -> str:
    """Return what a certificate proves of the text of a flat plan; RejectedError if nothing."""
    flat, proof = opened(text, certificate, "order")
    plan = Plan(flat, proof["model"])
    for item in proof["order"]:
        if (op := plan.ops.get((*item, None)[:3])) is None:
            raise RejectedError(f"{item}: no communication, or its host is not there yet")
        plan.complete(op)
    plan.finish()
    return f"{len(plan.ranks)} ranks, {len(plan.ops)} operations complete under {plan.model}"
