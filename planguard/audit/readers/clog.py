"""Logs of torchcomms' ClogHook, version 1: signatures once, then one short line per event.

Format: ``ClogHook.cpp`` and ``SignatureBuilder.cpp`` of torchcomms. ``C5|sig|all_reduce|...`` says
what signature 5 is; ``C5|Q|work_id=9|+1.2`` enqueues such a call, ``S``, ``E`` and ``W`` say that
one of them started, ended or was waited for, without which one: works of one signature run in
order. Every rank writes a file of its own.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from dataclasses import dataclass, field

from planguard.audit.readers.flight_calls import element_count, group_size
from planguard.audit.readers.names import REDUCE_OPS, operation
from planguard.audit.readers.part import Part, PartGroup
from planguard.errors import PlanError
from planguard.plan.actions import ITEM_BYTES
from planguard.plan.vocabulary import SPELLINGS
from planguard.recording import Call, Observed, Progress, Track

MAX_CALLS = 20_000_000
MAX_SIZE = 1_000_000
_LINE = re.compile(r"C(?P<corr>\d{1,12})\|(?P<what>sig|Q|S|E|W)(?:\|(?P<rest>.*))?$")
_COMM = re.compile(
    r"new_comm\|comm=(?P<name>.{0,200})\|rank=(?P<rank>\d{1,7})\|world_size=(\d{1,7})$"
)
_SPLIT = re.compile(
    r"split\|parent=(?P<parent>.{0,200})\|child=(?P<child>.{0,200})\|ranks=(?P<ranks>[\d,]*)$"
)
_GRAPH = re.compile(r"G\d{1,20}\|")
_NUMBERS = re.compile(r"\d{1,15}")
GRAPHS = "calls inside CUDA graphs are logged when the graph is made, and not when it runs"


@dataclass
class _Log:
    """What was read of a file."""

    comms: dict[str, tuple[int, int]] = field(default_factory=dict)
    splits: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    calls: dict[int, Call] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    works: list[tuple[int, Progress]] = field(default_factory=list)
    open: dict[int, deque[int]] = field(default_factory=lambda: defaultdict(deque))
    started: dict[int, deque[int]] = field(default_factory=lambda: defaultdict(deque))
    has_states: bool = False
    has_graphs: bool = False
    has_batches: bool = False


def read_clog(data: bytes, file: str) -> Part:
    """Return the calls of one rank.

    Raises:
        PlanError: No call in it.
    """
    log = _Log()
    for line in data.decode("utf-8", errors="replace").splitlines():
        _take(log, line[:20_000])
    if not log.works:
        raise PlanError("no call in the log of ClogHook", code="PG910", file=file)
    part = Part("clog", file)
    # As with logs of NCCL: the largest communicator is taken for the job.
    world = max(log.comms, key=lambda name: log.comms[name][1], default=None)
    members = _members(log, world)
    if world is not None:
        part.rank, part.world_size = log.comms[world]
    names = {call.group or "" for call in log.calls.values()} | set(log.comms) | set(log.splits)
    for name in names:
        ranks = members.get(name)
        size = len(ranks) if ranks else log.comms.get(name, (0, log.sizes.get(name)))[1]
        part.groups["world" if name == world else name] = PartGroup(ranks, size=size)
        if ranks is None and name in log.comms and part.rank is not None:
            part.groups[name].places[log.comms[name][0]] = part.rank
    part.track = Track.of(_observed(log, world, members))
    if log.has_graphs:
        part.doubt = GRAPHS
    if log.has_batches:
        part.lacks = ("point-to-point",)
    return part


def _take(log: _Log, line: str) -> None:
    if (event := _LINE.match(line)) is not None:
        corr, what, rest = int(event["corr"]), event["what"], event["rest"] or ""
        if what == "sig":
            _signature(log, corr, rest)
        elif what == "Q":
            _enqueued(log, corr)
        else:
            _moved(log, corr, what)
    elif (made := _COMM.match(line)) is not None:
        size = int(made[3])
        if 0 < size <= MAX_SIZE and int(made["rank"]) < size:
            log.comms.setdefault(made["name"], (int(made["rank"]), size))
    elif (split := _SPLIT.match(line)) is not None:
        ranks = tuple(int(n) for n in _NUMBERS.findall(split["ranks"])[:MAX_SIZE])
        if ranks:
            log.splits.setdefault(split["child"], (split["parent"], ranks))
    elif _GRAPH.match(line):
        log.has_graphs = True


def _enqueued(log: _Log, corr: int) -> None:
    call = log.calls.get(corr)
    if call is None or len(log.works) >= MAX_CALLS:
        return
    if call.op == "batch_op_issue":
        log.has_batches = True
        return
    log.open[corr].append(len(log.works))
    log.works.append((corr, Progress.ISSUED))


def _moved(log: _Log, corr: int, what: str) -> None:
    log.has_states = True
    queues = log.open[corr], log.started[corr]
    if what == "S" and queues[0]:
        place = queues[0].popleft()
        log.works[place] = corr, Progress.STARTED
        queues[1].append(place)
    elif what == "E" and (queue := queues[1] or queues[0]):
        log.works[queue.popleft()] = corr, Progress.COMPLETED


def _signature(log: _Log, corr: int, text: str) -> None:
    head, _, comm = text.rpartition("|comm=")
    name, *pairs = head.split("|")
    said = dict(pair.partition("=")[::2] for pair in pairs)
    op = operation(name) if name != "batch_op_issue" else name
    into = _total(said, "in_count", "in_counts", "in_splits")
    out = _total(said, "out_count", "out_counts", "out_splits")
    count, shape = element_count(op, into, out)
    if SPELLINGS.get(op, op) == "all_to_all" and "in_splits" in said:
        shape = None  # splits of one member are not those of another
    size = group_size(op, into, out)
    if size is not None and size <= MAX_SIZE:
        log.sizes.setdefault(comm[:200], size)
    dtype = "f8" if said.get("dtype", "").startswith("fp8") else said.get("dtype")
    log.calls[corr] = Call(
        op,
        comm[:200],
        peer=_number(said.get("peer")),
        root=_number(said.get("root")),
        reduce_op=REDUCE_OPS.get(said.get("red_op", "")),
        count=count,
        dtype=dtype if dtype in ITEM_BYTES else None,
        shape=shape,
    )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"\d{1,7}", text) else None


def _total(said: dict[str, str], *names: str) -> int | None:
    for name in names:
        if name in said:
            numbers = _NUMBERS.findall(said[name])[:100_000]
            return sum(map(int, numbers)) if numbers else None
    return None


def _members(log: _Log, world: str | None) -> dict[str, tuple[int, ...]]:
    """Return the ranks of the job in every communicator, where the log tells them.

    A split names ranks of its parent; of a parent that is not the whole job its own are needed.
    """
    found: dict[str, tuple[int, ...]] = {}
    if world is None:
        return found
    found[world] = tuple(range(log.comms[world][1]))
    for name, (_, size) in log.comms.items():
        if size == log.comms[world][1] and name not in log.splits:
            found.setdefault(name, found[world])
    for _ in range(8):
        for child, (parent, ranks) in log.splits.items():
            known = found.get(parent)
            if known is not None and child not in found and max(ranks) < len(known):
                found[child] = tuple(known[place] for place in ranks)
    return found


def _observed(log: _Log, world: str | None, members: dict[str, tuple[int, ...]]) -> list[Observed]:
    placed: dict[int, Call] = {}
    for corr, call in log.calls.items():
        fields = {name: getattr(call, name) for name in call.__struct_fields__}
        ranks = members.get(call.group or "")
        for side in ("peer", "root"):
            place = fields[side]
            known = place is not None and ranks is not None and place < len(ranks)
            fields[side] = ranks[place] if known and ranks is not None else None
        fields["group"] = "world" if call.group == world else call.group
        placed[corr] = Call(**fields)
    return [
        Observed(placed[corr], 0, progress if log.has_states else Progress.UNKNOWN, number=number)
        for number, (corr, progress) in enumerate(log.works)
    ]
