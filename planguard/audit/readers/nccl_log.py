"""Logs of NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,COLL: one line per call.

RCCL writes the same lines, ``NCCL`` included. Its ``ncclEnqueueCheck`` adds ``task`` and
``globalrank``: the rank in the communicator (``localRankToRank``), whatever the name says. Calls
that MSCCL takes over are of the names in ``mscclFuncNames``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

from planguard.audit.readers.part import STATES, Init, Part, PartGroup
from planguard.errors import PlanError
from planguard.plan.actions import ITEM_BYTES
from planguard.plan.vocabulary import MESSAGES, NCCL, NCCL_DTYPES, NCCL_REDUCE_OPS, REDUCING, ROOTED
from planguard.recording import Call, Progress

_PROCESS = rb"(?P<process>[^\s:]{1,200}:\d{1,10}):\d{1,10} \[(?P<device>\d{1,5})\] NCCL INFO "
_CALL = re.compile(
    _PROCESS + rb"(?P<op>[A-Za-z]{1,40}): opCount (?P<number>[0-9a-f]{1,16}) .{0,200}?"
    rb"count (?P<count>\d{1,18}) datatype (?P<dtype>\d{1,3}) op (?P<reduce>\d{1,3}) "
    rb"root (?P<root>-?\d{1,9}) comm (?P<comm>0x[0-9a-f]{1,16}) \[nranks=(?P<size>\d{1,7})\]"
    rb"(?: stream \S{1,20} task \d{1,9} globalrank (?P<place>\d{1,7}))?"
)
_INIT = re.compile(
    _PROCESS + rb"[^\n]{0,80}?comm (?P<comm>0x[0-9a-f]{1,16}) rank (?P<rank>\d{1,7}) "
    rb"n[rR]anks (?P<size>\d{1,7}) (?:[^\n]{0,200}?commId (?P<id>0x[0-9a-f]{1,16}))?"
    rb"[^\n]{0,80}?Init (?P<state>START|COMPLETE)"
)
CUT = "NCCL's log ends within a line: what its ranks called behind it is missing"
UNPLACED = (
    "the NCCL log does not say the identity of its communicators: the largest of every process is "
    "taken for the default group"
)
UNJOINED = f"{UNPLACED}, a device for its rank"
MSCCL = "mscclFunc"
"""In front of the names of calls that RCCL gives to MSCCL."""


@dataclass
class _Process:
    """The calls of one process, the communicators it belongs to, its place in those unnamed."""

    calls: list[re.Match[bytes]] = field(default_factory=list)
    comms: dict[bytes, tuple[str, int, int]] = field(default_factory=dict)
    places: dict[bytes, int] = field(default_factory=dict)
    inits: dict[str, Init] = field(default_factory=dict)


def read_nccl_log(data: bytes, file: str) -> list[Part]:
    """Return the calls of every process in a log, joined by the communicators' identities.

    The pointer of a communicator means something in its own process only; the lines of its
    creation say the identity that all members share. The largest communicator is taken for the
    default group, its ranks for the global ones.

    Raises:
        PlanError: No call, or communicators of which nothing says which are one.
    """
    processes: dict[bytes, _Process] = defaultdict(_Process)
    for line in data.splitlines():
        if len(line) > 2000:
            continue
        if (made := _INIT.search(line)) is not None:
            known = processes[made["process"]]
            if made["id"] is not None:
                identity, is_done = made["id"].decode(), made["state"] == b"COMPLETE"
                known.inits[identity] = Init(int(made["rank"]), int(made["size"]), is_done)
            if made["state"] == b"START":
                continue
            if made["id"] is None:  # an old library: it prints no identity
                known.places[made["comm"]] = int(made["rank"])
                continue
            known.comms[made["comm"]] = (made["id"].decode(), int(made["rank"]), int(made["size"]))
        elif (call := _CALL.search(line)) is not None:
            processes[call["process"]].calls.append(call)
    last = data[data.rfind(b"\n") + 1 :]
    cut = CUT if last.strip() and not (_CALL.search(last) or _INIT.search(last)) else ""
    found = _read(processes, file)
    for part in found:
        part.lost = cut
    return found


def _read(processes: dict[bytes, _Process], file: str) -> list[Part]:
    begun = _begun(processes, file)
    if not any(process.calls for process in processes.values()):
        if begun:
            return begun
        raise PlanError(
            "no call in the NCCL log",
            code="PG910",
            file=file,
            hint="record with NCCL_DEBUG_SUBSYS=INIT,COLL",
        )
    if not any(process.comms for process in processes.values()):
        return [*_unjoined(processes, file), *begun]
    return [*_parts(processes, file), *begun]


def _begun(processes: dict[bytes, _Process], file: str) -> list[Part]:
    """Return the creations of communicators, where some process was left waiting in one.

    ``ncclCommInitRank`` writes ``Init START`` before it meets the others and ``Init COMPLETE``
    when all have come (NCCL ``src/init.cc``). What that means is decided where the logs of all
    processes are together: each may stand in a file of its own.
    """
    inits = {name: init for process in processes.values() for name, init in process.inits.items()}
    if not inits:
        return []
    world = max(inits, key=lambda name: inits[name].size)
    parts = []
    for process in processes.values():
        if process.inits:
            part = Part("nccl-log", file, backend="nccl", inits=process.inits)
            part.world_size = inits[world].size
            if world in process.inits:
                part.rank = process.inits[world].place
            parts.append(part)
    is_open = any(not init.is_done for part in parts for init in part.inits.values())
    return parts if is_open else []


def _unjoined(processes: dict[bytes, _Process], file: str) -> list[Part]:
    """Return the calls on the largest communicator of every process, where none says its identity.

    Raises:
        PlanError: A process has several communicators of that size: which are one is open.
    """
    size = max(int(call["size"]) for process in processes.values() for call in process.calls)
    hosts = {name.partition(b":")[0] for name in processes}
    parts = []
    for process in processes.values():
        mine = [call for call in process.calls if int(call["size"]) == size]
        if not mine:
            continue
        if len({call["comm"] for call in mine}) > 1:
            raise PlanError(
                "the NCCL log does not say which communicators are one",
                file=file,
                hint="record from the start with NCCL_DEBUG_SUBSYS=INIT,COLL",
            )
        part = Part("nccl-log", file, world_size=size, backend="nccl", doubt=UNJOINED)
        place = process.places.get(mine[0]["comm"], mine[0]["place"])
        if place is not None:
            part.rank, part.doubt = int(place), UNPLACED
        elif len(processes) > 1 and len(hosts) == 1:
            part.rank = int(mine[0]["device"])
        part.groups = {"world": PartGroup(tuple(range(size)), size=size, backend="nccl")}
        known = {mine[0]["comm"]: ("world", 0, size)}
        _track(part, _Process(mine, known), "world")
        parts.append(part)
    return parts


def _parts(processes: dict[bytes, _Process], file: str) -> list[Part]:
    sizes = {comm[0]: comm[2] for p in processes.values() for comm in p.comms.values()}
    world = max(sizes, key=lambda name: sizes[name])
    global_rank = {
        name: rank
        for name, process in processes.items()
        for identity, rank, _ in process.comms.values()
        if identity == world
    }
    members: dict[str, dict[int, int]] = defaultdict(dict)
    for name, process in processes.items():
        for identity, rank, _ in process.comms.values():
            if name in global_rank:
                members[identity][rank] = global_rank[name]
    parts = []
    for name, process in processes.items():
        if name in global_rank and process.calls:
            part = Part("nccl-log", file, rank=global_rank[name], world_size=sizes[world])
            part.backend = "nccl"
            part.groups = {
                "world" if identity == world else identity: PartGroup(
                    _ranks(members[identity], size), size=size, backend="nccl"
                )
                for identity, _, size in process.comms.values()
            }
            _track(part, process, world)
            parts.append(part)
    return parts


def _ranks(known: dict[int, int], size: int) -> tuple[int, ...] | None:
    if sorted(known) != list(range(size)):
        return None
    return tuple(known[place] for place in range(size))


def _track(part: Part, process: _Process, world: str) -> None:
    places: dict[Call, int] = {}
    for match in process.calls:
        identity = process.comms.get(match["comm"], ("?", 0, 0))[0]
        call = _call(match, part, "world" if identity == world else identity)
        place = places.setdefault(call, len(places))
        if place == len(part.track.calls):
            part.track.calls.append(call)
        part.track.add(place, 0, Progress.UNKNOWN, number=int(match["number"], 16))
    part.lacks = (STATES,)


def _call(match: re.Match[bytes], part: Part, group: str) -> Call:
    name = match["op"].decode().removeprefix(MSCCL)
    op = NCCL.get(name, name)
    other, dtype = int(match["root"]), int(match["dtype"])
    known = part.groups.get(group)
    ranks = known.ranks if known is not None else None
    if ranks is not None:
        other = ranks[other] if 0 <= other < len(ranks) else -1
    elif group != "world":
        other = -1
    is_pair = op in MESSAGES
    dtype_name = NCCL_DTYPES[dtype] if dtype < len(NCCL_DTYPES) else ""
    reduce_op = int(match["reduce"])
    return Call(
        op,
        group,
        peer=other if is_pair and other >= 0 else None,
        root=other if op in ROOTED and other >= 0 else None,
        reduce_op=NCCL_REDUCE_OPS[reduce_op] if op in REDUCING and reduce_op < 5 else None,
        count=int(match["count"]),
        dtype=dtype_name if dtype_name in ITEM_BYTES else None,
    )
