"""Reports of NCCL's RAS subsystem: how many operations every rank of a communicator has launched.

A report lists the smaller set of ranks only, be it ahead or behind, and one report may show a
healthy moment: ranks never launch at the same instant. Two equal reports show that nothing moved,
and two between which those that were behind went on that nothing was stuck.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from planguard.audit.readers.part import Part, PartGroup
from planguard.audit.readers.safe import decode_json
from planguard.errors import PlanError, shorten
from planguard.plan.vocabulary import NCCL
from planguard.recording import UNNAMED, Absence, Call, Observed, Progress, Track
from planguard.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_RANKS = 131_072
"""Ranks of a communicator: each becomes a part, all of them 550 MiB."""
ONCE = "one report of NCCL's RAS may show a moment at which ranks merely differ; ask it again later"
_TITLE = "Job summary"
_MARK = b"have launched up to operation"
_N = r"\d{1,18}"
_GAP = r"[ \t]+"
"""Between columns; a blank that is a line break would look for a row's end in all lines below."""
_SIZE = re.compile(
    rf"^[ \t]*{_N}{_GAP}{_N}{_GAP}{_N}{_GAP}{_N}(?:-{_N})?{_GAP}({_N}){_GAP}({_N})"
    rf"{_GAP}[A-Z]+{_GAP}[A-Z,+ ]+$",
    re.MULTILINE,
)
_TOTAL = re.compile(
    rf"^[ \t]*{_N}{_GAP}{_N}{_GAP}{_N}{_GAP}({_N}){_GAP}({_N})[ \t]*$", re.MULTILINE
)
_COMM = re.compile(rf"^#{_N}-{_N} \((?P<hash>[0-9a-fA-F]+)\) (?P<what>[A-Z, +]+)$", re.MULTILINE)
_KIND = re.compile(r"different (\w+) operation counts")
_LAUNCHED = rf"(?:launched up to operation ({_N})|not launched any)"
_MANY = re.compile(rf"^\s*({_N}) ranks have {_LAUNCHED}")
_ONE = re.compile(rf"^\s*Rank ({_N}) has {_LAUNCHED}")
_TOLD = re.compile(rf"\s+(The missing rank|Missing communicator data|{_N} job process)")
_MISSING = re.compile(rf"^[ \t]+The missing rank: ({_N})$", re.MULTILINE)
_MEMBER = re.compile(rf"^\s*Rank ({_N}) -- ")


_NO_COMMA = re.compile(rb'("nvml_dev": \d{1,9})(\s{1,99}"status":)')
"""Where NCCL 2.28.9 leaves out a comma, in what it says of ranks that are missing; Ray Train's
reader of these reports puts it in, too."""


class _Rank(Struct):
    rank: int
    host: str = ""
    pid: int = 0
    cuda_dev: int = 0
    status: dict[str, Any] = field(default_factory=dict)
    collective_counts: dict[str, int] = field(default_factory=dict)

    @property
    def is_silent(self) -> bool:
        """Whether it was asked and did not answer."""
        return any(self.status.get(name) is True for name in ("unresponsive", "considered_dead"))

    @property
    def device(self) -> tuple[str, int, int]:
        """Where it runs: its host, process and GPU."""
        return self.host, self.pid, self.cuda_dev


class _Communicator(Struct):
    size: int
    hash: str = ""
    ranks: list[_Rank] = field(default_factory=list)
    missing_ranks: list[_Rank] = field(default_factory=list)

    @property
    def places(self) -> dict[tuple[str, int, int], int]:
        """The rank of each device, those of missing ranks included."""
        return {one.device: one.rank for one in (*self.ranks, *self.missing_ranks)}


class _Report(Struct):
    """The part of the JSON form that is read; a value of another type is refused with its place."""

    communicators: list[_Communicator]
    timestamp: str = ""


def is_ras(data: bytes) -> bool:
    """Tell whether a text is a report of RAS."""
    return _MARK in data or (b"Communicators..." in data and b"Job summary" in data)


def read_ras(data: bytes, file: str) -> list[Part]:
    """Return what a report says of the ranks of every communicator that covers the job.

    The ranks of a smaller communicator are its own: the report does not say which ranks of the job
    they are, so what it says of them is a remark. Of several reports the last counts, and the one
    before it tells what moved in between.
    """
    reports = _reports(data.decode("utf-8", errors="replace").replace("\r", ""))
    text = reports[-1]
    total = max((int(m[2]) for m in _TOTAL.finditer(text)), default=0)
    sizes = [int(m[1]) for m in _SIZE.finditer(text)]
    size = total or max(sizes, default=0)
    members = tuple(range(size)) if size <= MAX_RANKS else ()
    remarks: list[str] = []
    told = _told(text, size, sizes, remarks)
    before = _told(reports[-2], size, sizes, []) if len(reports) > 1 else {}
    parts: dict[int, Part] = {}
    notes: list[str] = []
    for (name, op), counts in told.items() if members else ():
        earlier = before.get((name, op))
        said = "" if earlier is None else moved(counts, earlier, name)
        if said:
            notes.append(said)
        for rank, count in counts.items():
            _add(parts, rank, name, op, 0 if said else count, (members, file))
            if earlier != counts and not said:
                parts[rank].doubt = ONCE
    if not parts:
        parts[0] = Part("ras", file, rank=0 if size else None, world_size=len(members) or None)
    if size > MAX_RANKS:
        parts[0].doubt = f"a job of {size:,} ranks, more than {MAX_RANKS:,}: it was not read"
    first = next(iter(parts.values()))
    if members and set(sizes) == {size}:  # each communicator has the ranks of the job
        first.absences = _silent({int(m[1]) for m in _MISSING.finditer(text)}, size)
    if len(reports) > 1:
        first.remarks.append(
            f"{file} has {plural(len(reports), 'report')} of RAS: the last is used"
        )
    first.notes += notes
    first.remarks += (
        remarks or notes or ["RAS reports no rank that differs; equal counts exclude no hang"]
    )
    return list(parts.values())


def moved(counts: dict[int, int], earlier: dict[int, int], name: str) -> str:
    """Return that a communicator made progress between two reports of it, or "".

    It did where whoever was behind has launched more. That only others have shows no progress:
    they launch ahead of a rank that stands.
    """
    if min(counts.values()) == min(earlier.values()):
        return ""
    return (
        f"RAS: communicator {name} made progress between two reports, from operation "
        f"{min(earlier.values())} to {min(counts.values())} on those that were behind: it was not "
        "stuck then"
    )


def _reports(text: str) -> list[str]:
    """Return the whole reports of a text; all of it where no title tells them apart.

    Reports are asked for again and again: in what is over, ranks merely differed at one moment.
    """
    return [one for one in text.split(_TITLE)[1:] if "Communicators..." in one] or [text]


def _told(
    text: str, size: int, sizes: list[int], remarks: list[str]
) -> dict[tuple[str, str], dict[int, int]]:
    """Return the last operation of the ranks, by communicator and kind; add what else is told."""
    places = [*_COMM.finditer(text)]
    found: dict[tuple[str, str], dict[int, int]] = {}
    for number, comm in enumerate(places):
        end = places[number + 1].start() if number + 1 < len(places) else len(text)
        body = text[comm.end() : end]
        remarks += _remarks(comm, body)
        counts = _counts(body, size if size <= MAX_RANKS else 0)
        if not counts or not size:
            continue
        if max(counts) >= size or len(counts) != size or (sizes and size not in sizes):
            remarks.append(f"communicator {comm['hash']}: its ranks are not those of the job")
            continue
        kind = _KIND.search(body)
        found[comm["hash"], NCCL.get(kind[1], UNNAMED) if kind is not None else UNNAMED] = counts
    return found


def _counts(body: str, size: int) -> dict[int, int]:
    """Return the last operation of every rank, that of the larger set for those not listed."""
    counts: dict[int, int] = {}
    sets: list[tuple[int, int]] = []
    last: int | None = None
    for line in body.splitlines():
        if (many := _MANY.match(line)) is not None:
            last = int(many[2] or 0)
            sets.append((int(many[1]), last))
        elif (one := _ONE.match(line)) is not None:
            counts[int(one[1])], last = int(one[2] or 0), None
        elif (member := _MEMBER.match(line)) is not None and last is not None:
            counts[int(member[1])] = last
    if not sets:
        return {}
    listed: dict[int, int] = defaultdict(int)
    for count in counts.values():
        listed[count] += 1
    rest = [count for number, count in sets if listed[count] < number]
    if len(rest) == 1:
        counts |= {rank: rest[0] for rank in range(size) if rank not in counts}
    return counts


def _add(
    parts: dict[int, Part],
    rank: int,
    name: str,
    op: str,
    count: int,
    told: tuple[tuple[int, ...], str],
) -> None:
    members, file = told  # every rank's part holds the same tuple, not one of its own
    part = parts.get(rank)
    if part is None:
        part = parts[rank] = Part("ras", file, rank=rank, world_size=len(members))
        part.backend = "nccl"
    # Counts are those of one kind of operation: they number no common rounds with other kinds.
    key = f"{name} ({op})"
    part.groups[key] = PartGroup(members, size=len(members), backend="nccl")
    if count:
        seen = Observed(Call(op, key), count, Progress.UNKNOWN)
        part.track = Track.of([*part.track, seen])


def _remarks(comm: re.Match[str], body: str) -> list[str]:
    lines = [line.strip() for line in body.splitlines() if _TOLD.match(line)]
    return [f"RAS: communicator {comm['hash']}: {line}" for line in lines]


def read_ras_json(data: bytes, file: str) -> list[Part]:
    """Return what the JSON form of a report says (NCCL 2.28).

    Raises:
        PlanError: Not such a report.
    """
    report: _Report = decode_json(_NO_COMMA.sub(rb"\1,\2", data), _Report, file)
    parts: dict[int, Part] = {}
    remarks: list[str] = []
    size = max((c.size for c in report.communicators if 0 < c.size <= MAX_RANKS), default=0)
    members = tuple(range(size))
    silent: set[int] = set()
    whole = [comm for comm in report.communicators if comm.size == size]
    devices = {device for comm in report.communicators for device in comm.places}
    for comm in whole:
        name = shorten(comm.hash, 40)
        remarks += [f"RAS: communicator {name}: {said}" for said in _missing(comm)]
        # More devices than ranks, or ranks in another order: its ranks are not those of the job.
        if len(devices) > size or comm.places != {**comm.places, **_known(comm, whole[0])}:
            remarks.append(f"communicator {name}: its ranks are not those of the job")
            continue
        silent |= {one.rank for one in comm.missing_ranks if one.is_silent}
        for one in comm.ranks:
            if not 0 <= one.rank < size:
                raise PlanError("no rank of its communicator", file=file, value=one.rank)
            for kind, count in one.collective_counts.items():
                if 0 <= count < 1 << 62:
                    op = NCCL.get(kind, UNNAMED)
                    _add(parts, one.rank, comm.hash[:40], op, count, (members, file))
                    parts[one.rank].doubt = ONCE
    told = list(parts.values()) or [Part("ras", file, rank=0, world_size=size or None)]
    for part in told:
        part.asked = report.timestamp[:40]
    told[0].remarks += remarks
    told[0].absences = _silent(silent, size)
    return told


def _silent(ranks: Iterable[int], size: int) -> tuple[Absence, ...]:
    """Return what is said of ranks of the job that RAS cannot reach any more."""
    kept = tuple(sorted(rank for rank in ranks if 0 <= rank < size))
    if not kept:
        return ()
    return (Absence("answering NCCL's RAS", kept, by="NCCL's RAS", has_stopped=True),)


def _known(comm: _Communicator, first: _Communicator) -> dict[tuple[str, int, int], int]:
    """Return the ranks that another communicator gives the devices of this one."""
    return {device: rank for device, rank in first.places.items() if device in comm.places}


def _missing(comm: _Communicator) -> list[str]:
    """Return what is said of ranks that did not answer."""
    said = "the missing rank {}{}"
    dead = " is considered dead"
    return [
        said.format(one.rank, dead if one.status.get("considered_dead") is True else "")
        for one in comm.missing_ranks
    ]
