"""The processes and communicators of a log of NCCL, and which of several runs in it is the last.

A pointer names a communicator in its own process only, and there until it is freed; the lines of
its creation say the identity that all members share: ``commId``, or of a split its parent, which
split of it, and the color (NCCL ``src/init.cc``: ``ncclCommInitRankFunc``). So every line is read
with what its process had created before it.

A log that was appended to holds the words of processes that are no more. One that boots again,
creates a communicator while an earlier creation of that size is open, or has another one of its
largest size at the same place in memory, or instead of all that it has, is a later process,
whatever its number; so is one that speaks for a device behind the last word of another process of
that device. Instead of all: only where the log has nothing of how that process booted, since one
process may use its default communicator at first, and then another one of all. Where processes
without a common communicator follow each other on other devices, nothing tells a later run from
another part of the same one.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planguard.audit.readers.part import Init

if TYPE_CHECKING:
    from collections.abc import Iterable

_PROCESS = rb"(?P<process>[^\s:]{1,200}:\d{1,10}):\d{1,10} \[(?P<device>\d{1,5})\] NCCL INFO "
CALL = re.compile(
    _PROCESS + rb"(?P<op>[A-Za-z]{1,40}): opCount (?P<number>[0-9a-f]{1,16}) .{0,200}?"
    rb"count (?P<count>\d{1,18}) datatype (?P<dtype>\d{1,3}) op (?P<reduce>\d{1,3}) "
    rb"root (?P<root>-?\d{1,9}) comm (?P<comm>0x[0-9a-f]{1,16}) \[nranks=(?P<size>\d{1,7})\]"
    rb"(?: stream \S{1,20} task \d{1,9} globalrank (?P<place>\d{1,7}))?"
)
MADE = re.compile(
    _PROCESS + rb"[^\n]{0,80}?comm (?P<comm>0x[0-9a-f]{1,16}) rank (?P<rank>\d{1,7}) "
    rb"n[rR]anks (?P<size>\d{1,7}) "
    rb"(?:[^\n]{0,80}?busId (?P<bus>[0-9a-f]{1,16}))?"
    rb"(?:[^\n]{0,40}?parent (?P<parent>0x[0-9a-f]{1,16})(?: splitCount (?P<split>\d{1,9}))? "
    rb"color (?P<color>-?\d{1,10}))?"
    rb"(?:[^\n]{0,200}?commId (?P<id>0x[0-9a-f]{1,16}))?"
    rb"[^\n]{0,80}?Init (?P<state>START|COMPLETE)"
)
_BOOTS = re.compile(_PROCESS + rb"(?P<step>Bootstrap ?: Using|cudaDriverVersion) ")
"""``bootstrapNetInit`` (``src/bootstrap.cc``), of a subsystem of its own from 2.23 on, and
``initOnceFunc`` (``src/misc/cudawrap.cc``), of INIT: each once in a process, in any order."""
MEMORY = re.compile(
    rb"(?P<process>[^\s:]{1,200}:\d{1,10}):\d{1,10} \[(?P<device>\d{1,5})\] [^\n]{0,200}?NCCL WARN "
    rb"(?P<error>(?:Cuda|HIP) failure[^\n]{0,20}'out of memory')"
)
"""``CUDACHECK`` (``src/include/checks.h``); RCCL says HIP. The call of the program fails then."""
LONGEST = 2000
NO_ID = b"0x0"
"""What stands for the identity of a split from NCCL 2.23 on."""
MOST_RUNS = 16
"""Runs of processes of one name that are told apart."""
APART = (
    "the log holds processes without a common communicator, of several runs or parts of one: those "
    "of the largest, of several the last, are read"
)


Rows = list[tuple[int, re.Match[bytes]]]
"""Lines that tell of processes, with their numbers."""


@dataclass
class Process:
    """What one process wrote of its communicators.

    Attributes:
        name: Host and number.
        first: Line of its first word.
        last: Line of its last word.
        run: How many runs were before it, by processes of its name.
        calls: Its calls, each with the identity of its communicator, None where it is not known.
        comms: Its place in every communicator that it created, and the size, by identity.
        places: Its place by pointer, where a library prints no identity.
        inits: Creations by identity.
        devices: Host, device and bus of each that it speaks for.
        pointers: Its communicators by where they stand in its memory.
        memory: What it says of memory that ran out, or "".
    """

    name: bytes
    first: int
    last: int = 0
    run: int = 0
    calls: list[tuple[re.Match[bytes], str | None]] = field(default_factory=list)
    comms: dict[str, tuple[int, int]] = field(default_factory=dict)
    places: dict[bytes, int] = field(default_factory=dict)
    inits: dict[str, Init] = field(default_factory=dict)
    devices: set[tuple[bytes, bytes, bytes]] = field(default_factory=set)
    pointers: dict[bytes, str] = field(default_factory=dict)
    memory: str = ""
    _splits: dict[bytes, int] = field(default_factory=lambda: defaultdict(int))
    _booted: set[bytes] = field(default_factory=set)

    def boot(self, step: bytes) -> None:
        """Take a step of its start."""
        self._booted.add(step)

    def make(self, made: re.Match[bytes]) -> None:
        """Take a line of a creation, ``START`` or ``COMPLETE``."""
        is_done = made["state"] == b"COMPLETE"
        place, size = int(made["rank"]), int(made["size"])
        if made["bus"] is not None:
            host = self.name.partition(b":")[0]
            self.devices.add((host, made["device"], made["bus"]))
        identity = self.identity(made)
        if identity is None:
            if is_done:  # an old library: it prints no identity
                self.places[made["comm"]] = place
            return
        if self.pointers.get(made["comm"]) != identity:
            self.pointers[made["comm"]] = identity
            if made["parent"] is not None:
                self._splits[made["parent"]] += 1
        self.inits[identity] = Init(place, size, is_done)
        if is_done:
            self.comms[identity] = place, size

    def identity(self, made: re.Match[bytes]) -> str | None:
        """Return the identity of the communicator that a line of a creation tells of."""
        said = id_of(made)
        if said is not None:
            return said
        parent = self.pointers.get(made["parent"] or b"")
        if parent is None:
            return None
        known = self.pointers.get(made["comm"], "")
        if known.startswith(f"{parent}/") and not self.inits[known].is_done:
            return known  # its START told which split it is
        count = made["split"].decode() if made["split"] else str(self._splits[made["parent"]])
        return f"{parent}/{count}:{made['color'].decode()}"

    def call(self, call: re.Match[bytes]) -> None:
        """Take a call."""
        self.calls.append((call, self.pointers.get(call["comm"])))

    def is_over(self, line: re.Match[bytes]) -> bool:
        """Tell whether only a later process of the same name can have written a line."""
        if line.re in (CALL, MEMORY):
            return False
        if line.re is not MADE:
            return line["step"] in self._booted or bool(self.inits or self.calls)
        identity, size = id_of(line), int(line["size"])
        if identity is None:
            return line["state"] == b"COMPLETE" and line["comm"] in self.places
        if identity in self.inits:
            return False
        before = self.pointers.get(line["comm"])
        most = max((one.size for one in self.inits.values()), default=0)
        if before is not None and self.inits[before].size == most <= size:
            return True
        is_open = any(one.size == size and not one.is_done for one in self.inits.values())
        return is_open and line["state"] == b"START"


def _said(line: bytes) -> re.Match[bytes] | None:
    """Return what a line tells of a process; most lines of a log are cheap to exclude."""
    if b" opCount " in line:
        return CALL.search(line)
    if b"Init " in line:
        return MADE.search(line)
    if b" NCCL WARN " in line:
        return MEMORY.search(line)
    return _BOOTS.search(line) if b"Bootstrap" in line or b"cudaDriver" in line else None


def processes_of(data: bytes) -> tuple[list[Process], bool]:
    """Return the processes of a log, and whether its last line is cut.

    Where one process shows that a communicator is of a later run, it is so for all its members.
    """
    rows: Rows = []
    places: dict[tuple[bytes, str], set[bytes]] = defaultdict(set)
    for number, line in enumerate(data.splitlines()):
        if len(line) > LONGEST:
            continue
        said = _said(line)
        if said is not None:
            rows.append((number, said))
            if (identity := id_of(said)) is not None:
                places[said["process"], identity].add(said["rank"])
    # A process of several devices is several ranks.
    shared = {process for (process, _), own in places.items() if len(own) > 1}
    starts: dict[str, int] = {}
    found: list[Process] = []
    uses = _Uses(rows)
    for _ in range(MOST_RUNS):
        before = dict(starts)
        found = _told(rows, shared, starts, uses)
        if starts == before:
            break
    last = data[data.rfind(b"\n") + 1 :]
    return found, bool(last.strip()) and _said(last) is None


class _Uses:
    """Which communicators were completed, and until when each process calls on its pointers.

    Attributes:
        booted: Names of processes whose starts the log holds: a later one of the name says so.
    """

    def __init__(self, rows: Rows) -> None:
        self.completed: set[str] = set()
        self.booted: set[bytes] = set()
        self.last: dict[tuple[bytes, bytes], int] = {}
        for number, line in rows:
            if line.re is CALL:
                self.last[line["process"], line["comm"]] = number
            elif line.re is MADE and line["state"] == b"COMPLETE":
                self.completed.add(id_of(line) or "")
            elif line.re is _BOOTS:
                self.booted.add(line["process"])

    def replaces(self, process: Process, line: re.Match[bytes], number: int) -> bool:
        """Tell whether a creation begins what a process goes on with, and all before it is left."""
        identity = id_of(line)
        if process.name in self.booted or not process.calls:
            return False
        if identity not in self.completed or identity in process.inits:
            return False
        most = max((one.size for one in process.inits.values()), default=0)
        is_used = self.last.get((process.name, line["comm"]), -1) > number
        return (
            is_used
            and int(line["size"]) == most
            and all(self.last.get((process.name, old), -1) < number for old in process.pointers)
        )


def _told(rows: Rows, shared: set[bytes], starts: dict[str, int], uses: _Uses) -> list[Process]:
    """Return the processes; write down how many of its name were before each one, by identity."""
    found: list[Process] = []
    known: dict[tuple[bytes, bytes], Process] = {}
    for number, line in rows:
        name = line["process"]
        key = name, line["device"] if name in shared else b""
        process = known.get(key)
        identity = id_of(line)
        run = starts.get(identity, 0) if identity is not None else 0
        is_blank = process is not None and not (process.inits or process.calls)
        if (
            process is None
            or process.is_over(line)
            or uses.replaces(process, line, number)
            or (run > process.run and not is_blank)
        ):
            run = run if process is None else max(run, process.run + 1)
            process = known[key] = Process(name, number, run=run)
            found.append(process)
        process.last, process.run = number, max(process.run, run)
        if line.re is CALL:
            process.call(line)
        elif line.re is MADE:
            process.make(line)
            if identity is not None and process.run:
                starts[identity] = max(starts.get(identity, 0), process.run)
        elif line.re is MEMORY:
            process.memory = process.memory or f"NCCL: {line['error'].decode(errors='replace')}"
        else:
            process.boot(line["step"])
    return found


def id_of(line: re.Match[bytes]) -> str | None:
    """Return the identity that a line of a creation prints."""
    if line.re is not MADE or line["id"] in (None, NO_ID):
        return None
    return str(line["id"].decode())


def last_run(processes: list[Process]) -> tuple[list[Process], tuple[str, ...], str]:
    """Return the processes of the last run, the communicators of earlier ones, and what is unsure.

    Processes that share a communicator are of one run.
    """
    runs = _runs(processes)
    of = {id(process): number for number, own in enumerate(runs) for process in own}
    follows: dict[tuple[int, int], bool] = {}
    for own in _by_device(processes):
        for one, other in itertools.combinations(own, 2):
            pair = of[id(one)], of[id(other)]
            if pair[0] != pair[1]:
                follows[pair] = follows.get(pair, True) and one.last < other.first
    gone = {earlier for (earlier, _), is_sure in follows.items() if is_sure}
    kept = [own for number, own in enumerate(runs) if number not in gone]
    before = {name for number in gone for process in runs[number] for name in process.inits}
    known = [own for own in kept if any(process.inits for process in own)]
    if len(known) < 2:
        return [process for own in kept for process in own], tuple(sorted(before)), ""
    chosen = max(known, key=lambda own: (_size(own), min(process.first for process in own)))
    return chosen, tuple(sorted(before)), APART


def _size(run: list[Process]) -> int:
    return max(one.size for process in run for one in process.inits.values())


def _runs(processes: list[Process]) -> list[list[Process]]:
    """Return the processes by what they share, in the order of their first words."""
    own: dict[int, list[Process]] = {}
    of_comm: dict[str, list[Process]] = {}
    for process in processes:
        found = [process]
        for known in {id(run): run for n in process.inits if (run := of_comm.get(n))}.values():
            found = [*known, *found]
        for one in found:
            own[id(one)] = found
            for name in one.inits:
                of_comm[name] = found
    return list({id(run): run for run in own.values()}.values())


def _by_device(processes: list[Process]) -> Iterable[list[Process]]:
    """Return the processes that speak for one device, or under one name, in order."""
    found: dict[object, list[Process]] = defaultdict(list)
    for process in processes:
        for place in (process.name, *process.devices):
            found[place].append(process)
    return found.values()
