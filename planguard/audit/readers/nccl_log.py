"""Logs of NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,COLL: one line per call.

RCCL writes the same lines, ``NCCL`` included. Its ``ncclEnqueueCheck`` adds ``task`` and
``globalrank``: the rank in the communicator (``localRankToRank``), whatever the name says. Calls
that MSCCL takes over are of the names in ``mscclFuncNames``.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from planguard.audit.readers.nccl_comms import Process, last_run, processes_of
from planguard.audit.readers.part import STATES, UNSAID, WITHOUT_TRACEBACK, Part, PartGroup
from planguard.errors import PlanError
from planguard.plan.actions import ITEM_BYTES
from planguard.plan.vocabulary import MESSAGES, NCCL, NCCL_DTYPES, NCCL_REDUCE_OPS, REDUCING, ROOTED
from planguard.recording import Call, Progress

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

CUT = "NCCL's log ends within a line: what its ranks called behind it is missing"
UNPLACED = (
    "the NCCL log does not say the identity of its communicators: the largest of every process is "
    "taken for the default group"
)
UNJOINED = f"{UNPLACED}, a device for its rank"
PLACES = (
    "no communicator of all processes is in the NCCL log: ranks are places in the largest of it, "
    "and the other processes are left out"
)
EARLIER = "{file} holds logs of NCCL of several runs: the last is read"
MSCCL = "mscclFunc"
"""In front of the names of calls that RCCL gives to MSCCL."""


def read_nccl_log(data: bytes, file: str) -> list[Part]:
    """Return the calls of every process of the last run in a log, joined by their communicators.

    The largest communicator is taken for the default group, its ranks for the global ones.

    Raises:
        PlanError: No call, or communicators of which nothing says which are one.
    """
    every, is_cut = processes_of(data)
    processes, before, doubt = last_run(every)
    found = _read(processes, file)
    for part in found:
        part.lost, part.doubt = CUT if is_cut else "", part.doubt or doubt
        part.runs_before = before
    if before and found:
        found[0].remarks.append(EARLIER.format(file=file))
    return found


def _read(processes: list[Process], file: str) -> list[Part]:
    begun = [*_begun(processes, file), *_failed(processes, file)]
    if not any(process.calls for process in processes):
        if begun:
            return begun
        raise PlanError(
            "no call in the NCCL log",
            code="PG910",
            file=file,
            hint="record with NCCL_DEBUG_SUBSYS=INIT,COLL",
        )
    if not any(process.comms for process in processes):
        return [*_unjoined(processes, file), *begun]
    return [*_parts(processes, file), *begun]


def _begun(processes: list[Process], file: str) -> list[Part]:
    """Return the creations of communicators, where some process was left waiting in one.

    ``ncclCommInitRank`` writes ``Init START`` before it meets the others and ``Init COMPLETE``
    when all have come (NCCL ``src/init.cc``). What that means is decided where the logs of all
    processes are together: each may stand in a file of its own.
    """
    inits = {name: init for process in processes for name, init in process.inits.items()}
    if not inits:
        return []
    world = max(inits, key=lambda name: inits[name].size)
    parts = []
    for process in processes:
        if process.inits:
            part = Part("nccl-log", file, backend="nccl", inits=process.inits, run=world)
            part.world_size = inits[world].size
            if world in process.inits:
                part.rank = process.inits[world].place
            parts.append(part)
    is_open = any(not init.is_done for part in parts for init in part.inits.values())
    return parts if is_open else []


def _failed(processes: list[Process], file: str) -> list[Part]:
    """Return the processes whose memory ran out, by their words alone.

    The call of the program fails then, which mostly ends its rank; it may have gone on.
    """
    inits = {name: init for process in processes for name, init in process.inits.items()}
    world = max(inits, key=lambda name: inits[name].size, default="")
    found = []
    for process in processes:
        if process.memory:
            part = Part("stderr", file, crash=process.memory, doubt=WITHOUT_TRACEBACK)
            part.process, part.backend = process.name.decode(errors="replace"), "nccl"
            if world in process.inits:
                part.rank, part.world_size = process.inits[world].place, inits[world].size
            found.append(part)
    return found


def _unjoined(processes: list[Process], file: str) -> list[Part]:
    """Return the calls on the largest communicator of every process, where none says its identity.

    Raises:
        PlanError: A process has several communicators of that size: which are one is open.
    """
    size = max(int(call["size"]) for process in processes for call, _ in process.calls)
    hosts = {process.name.partition(b":")[0] for process in processes}
    parts = []
    for process in processes:
        mine = [call for call, _ in process.calls if int(call["size"]) == size]
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
        _track(part, [(call, "world") for call in mine])
        parts.append(part)
    return parts


def _parts(processes: list[Process], file: str) -> list[Part]:
    sizes = {name: size for p in processes for name, (_, size) in p.comms.items()}
    world = max(sizes, key=lambda name: sizes[name])
    global_rank = {id(p): p.comms[world][0] for p in processes if world in p.comms}
    members: dict[str, dict[int, int]] = defaultdict(dict)
    for process in processes:
        for identity, (place, _) in process.comms.items():
            if id(process) in global_rank:
                members[identity][place] = global_rank[id(process)]
    others = sum(bool(process.comms) for process in processes) - len(global_rank)
    parts = []
    for process in processes:
        if id(process) not in global_rank or not process.calls:
            continue
        part = Part("nccl-log", file, rank=global_rank[id(process)], world_size=sizes[world])
        part.backend, part.run, part.doubt = "nccl", world, PLACES if others else ""
        part.groups = {
            "world" if identity == world else identity: PartGroup(
                _ranks(members[identity], size), size=size, backend="nccl"
            )
            for identity, (_, size) in process.comms.items()
        }
        calls = [(call, "world" if name == world else name) for call, name in process.calls]
        _track(part, calls)
        parts.append(part)
    return parts


def _ranks(known: dict[int, int], size: int) -> tuple[int, ...] | None:
    if sorted(known) != list(range(size)):
        return None
    return tuple(known[place] for place in range(size))


def _track(part: Part, calls: Sequence[tuple[re.Match[bytes], str | None]]) -> None:
    places: dict[Call, int] = {}
    for match, group in calls:
        if group is None:
            part.groups.setdefault(UNSAID, PartGroup())
        call = _call(match, part, group or UNSAID)
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
