"""Logs of torchcomms' ClogHook, version 1: signatures once, then one short line per event.

Format: ``ClogHook.cpp`` and ``SignatureBuilder.cpp`` of torchcomms 0.3.0. ``C5|sig|all_reduce|...``
says what signature 5 is; ``C5|Q|work_id=9|+1.2`` enqueues such a call, ``S``, ``E`` and ``W`` say
that one of them started, ended or was waited for, without which one: works of one signature run in
order. ``E`` is written of a call that failed or timed out as well (``TorchWork.hpp``). Every rank
writes a file of its own.

A split says the name that the program gave; what the calls name is what the backend made of it:
the same (nccl, rccl, xccl), ``name_0`` with the lowest place (gloo), or ``parent::split::0_name_2``
with the number of earlier splits of that parent (ncclx).
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planguard.audit.readers.flight_calls import element_count, group_size
from planguard.audit.readers.names import REDUCE_OPS, operation
from planguard.audit.readers.part import STATES, Init, Part, PartGroup
from planguard.errors import PlanError
from planguard.plan.actions import ITEM_BYTES
from planguard.plan.vocabulary import SPELLINGS
from planguard.recording import Call, Observed, Progress, Track

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = 1
MAX_CALLS = 20_000_000
MAX_SIZE = 1_000_000
MAX_SPLITS = 10_000
MAX_NUMBERS = 8_000_000
"""Places and sizes of members that are kept of one log; 1,000 lists of 8,000 members."""
MAX_LINE = 8 << 20
"""Longest line, in characters: room for the sizes of all members of the largest communicator."""
_HEAD = re.compile(r"V\|(?P<version>\d{1,6})\|base_timestamp=")
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
NAMESAKES = "two communicators of one rank have the same name: their calls cannot be told apart"
UNSIGNED = "the log does not hold the signatures of all its calls"
CUT = "the log ends within a line: what its rank wrote behind it is missing"
BY = "ClogHook's log"


@dataclass(frozen=True)
class _Split:
    """A communicator that was split off, or that this rank let others split off.

    Attributes:
        parent: Name of the communicator that was split.
        child: Name that the program gave.
        ranks: The members' places in the parent; none where this rank is no member.
        number: How many splits of that parent this rank logged before.
    """

    parent: str
    child: str
    ranks: tuple[int, ...]
    number: int

    def names(self) -> Iterator[str]:
        """Yield what the calls of the new communicator may name it."""
        if self.ranks:
            color = min(self.ranks)
            yield self.child
            yield f"{self.child}_{color}"
            yield f"{self.parent}::split::{color}_{self.child}_{self.number}"


@dataclass
class _Log:
    """What was read of a file."""

    comms: dict[str, tuple[int, int]] = field(default_factory=dict)
    splits: list[_Split] = field(default_factory=list)
    parents: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    calls: dict[int, Call] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    works: list[tuple[int, Progress]] = field(default_factory=list)
    open: dict[int, deque[int]] = field(default_factory=lambda: defaultdict(deque))
    started: dict[int, deque[int]] = field(default_factory=lambda: defaultdict(deque))
    has_states: bool = False
    has_graphs: bool = False
    has_batches: bool = False
    is_unsigned: bool = False
    numbers: int = 0
    has_namesakes: bool = False
    is_splitting: bool = False


def read_clog(data: bytes, file: str) -> Part:
    """Return the calls of one rank.

    Raises:
        PlanError: No call in it, or another version of the format.
    """
    log = _Log()
    text = data.decode("utf-8", errors="replace")
    head = _HEAD.match(text)
    if head is not None and int(head["version"]) != VERSION:
        raise PlanError(
            f"version {head['version']} of ClogHook's log; version {VERSION} is read", file=file
        )
    *lines, cut = text.split("\n")
    for line in lines:
        if len(line) <= MAX_LINE:
            _take(log, line.rstrip("\r"))
    if not log.works and not log.comms:
        raise PlanError("no call in the log of ClogHook", code="PG910", file=file)
    part = Part("clog", file)
    # As with logs of NCCL: the largest communicator is taken for the job.
    world = max(log.comms, key=lambda name: log.comms[name][1], default=None)
    used = {call.group or "" for call in log.calls.values()} | {one.parent for one in log.splits}
    splits = _named(log, used)
    members = _members(log, world, splits)
    if world is not None:
        part.rank, part.world_size = log.comms[world]
    for name in used | set(log.comms):
        ranks = members.get(name)
        size = len(ranks) if ranks else log.comms.get(name, (0, log.sizes.get(name)))[1]
        part.groups["world" if name == world else name] = PartGroup(ranks, size=size)
        if ranks is None and name in log.comms and part.rank is not None:
            part.groups[name].places[log.comms[name][0]] = part.rank
    part.track = Track.of(_observed(log, world, members))
    part.doubt = (
        (log.has_namesakes and NAMESAKES)
        or (log.is_unsigned and UNSIGNED)
        or (log.has_graphs and GRAPHS)
        or ""
    )
    if log.has_batches:
        part.lacks = ("point-to-point",)
    if not log.has_states:
        part.lacks = (*part.lacks, STATES)
    # The hook ends every line: of one without an end nobody knows how its last number goes on.
    part.lost = CUT if cut else ""
    part.inits = _inits(log, part, members, world)
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
            log.has_namesakes = log.has_namesakes or made["name"] in log.comms
            log.comms.setdefault(made["name"], (int(made["rank"]), size))
    elif (split := _SPLIT.match(line)) is not None:
        if len(log.splits) < MAX_SPLITS and log.numbers < MAX_NUMBERS:
            parent = split["parent"]
            earlier, log.parents[parent] = log.parents[parent], log.parents[parent] + 1
            ranks = tuple(int(n) for n in _NUMBERS.findall(split["ranks"])[:MAX_SIZE])
            log.numbers += len(ranks)
            log.splits.append(_Split(parent, split["child"], ranks, earlier))
            log.is_splitting = True
    elif _GRAPH.match(line):
        log.has_graphs = True
        log.is_splitting = False


def _enqueued(log: _Log, corr: int) -> None:
    log.is_splitting = False
    call = log.calls.get(corr)
    log.is_unsigned = log.is_unsigned or call is None
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
    head, found, comm = text.rpartition("|comm=")
    if not found:  # an all_to_all of no tensors has an empty one
        return
    name, *pairs = head.split("|")
    said = dict(pair.partition("=")[::2] for pair in pairs)
    op = operation(name) if name != "batch_op_issue" else name
    parts = [_counts(said.get(key)) for key in ("in_counts", "out_counts")]
    splits = [_counts(said.get(key)) for key in ("in_splits", "out_splits")]
    into, out = (
        sum(own) if own else _number(said.get(key))
        for own, key in zip(parts, ("in_count", "out_count"), strict=True)
    )
    count, shape = element_count(op, into, out)
    own = parts[1] if SPELLINGS.get(op, op) == "all_gather" else parts[0]
    if own and SPELLINGS.get(op, op) in ("all_gather", "reduce_scatter"):
        # Every member names the parts of all; its own may be of another size than theirs.
        log.numbers += len(own)
        shape = tuple(own) if log.numbers < MAX_NUMBERS else None
        count = count if len(set(own)) == 1 else None
    lists = [one for one in (*parts, *splits) if one]
    size = len(lists[0]) if lists else group_size(op, into, out)
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
    return int(text) if text is not None and re.fullmatch(r"\d{1,15}", text) else None


def _counts(text: str | None) -> list[int]:
    """Return one number for each member; none where they are not said, or not all."""
    numbers = _NUMBERS.findall(text or "")
    return [int(n) for n in numbers] if len(numbers) <= MAX_SIZE else []


def _named(log: _Log, used: set[str]) -> dict[str, _Split]:
    """Return the splits by the names that calls and further splits use for them."""
    found: dict[str, _Split] = {}
    for one in log.splits:
        for name in used.intersection(one.names()):
            log.has_namesakes = log.has_namesakes or name in found or name in log.comms
            found.setdefault(name, one)
    return found


def _members(log: _Log, world: str | None, splits: dict[str, _Split]) -> dict[str, tuple[int, ...]]:
    """Return the ranks of the job in every communicator, where the log tells them.

    A split names ranks of its parent; of a parent that is not the whole job its own are needed.
    """
    found: dict[str, tuple[int, ...]] = {}
    if world is None:
        return found
    found[world] = tuple(range(log.comms[world][1]))
    for name, place in log.comms.items():
        if place == log.comms[world]:
            found.setdefault(name, found[world])
    for _ in range(8):
        for child, one in splits.items():
            known = found.get(one.parent)
            if known is not None and child not in found and max(one.ranks) < len(known):
                found[child] = tuple(known[place] for place in one.ranks)
    return found


def _inits(
    log: _Log, part: Part, members: dict[str, tuple[int, ...]], world: str | None
) -> dict[str, Init]:
    """Return the splits: each waits for all of its parent, and nothing says that it ended.

    What is enqueued after one shows that this rank came out of it.
    """
    found: dict[str, Init] = {}
    for place, one in enumerate(log.splits):
        ranks = members.get(one.parent)
        if ranks is None or part.rank not in ranks:
            continue
        what = f"split {one.number + 1} of communicator {one.parent}"
        is_done = place + 1 < len(log.splits) or not log.is_splitting
        is_job = ranks is members.get(world or "")
        found[what] = Init(ranks.index(part.rank), len(ranks), is_done, what, BY, is_job, True)
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
