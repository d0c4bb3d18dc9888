"""Logs as people keep them: who speaks on each line, whatever a launcher put in front of it.

One file may hold what all ranks printed, coloured, prefixed, with lines glued or broken. Every
line is given to a speaker: by ``[rank3]:``, which torch writes itself; by a prefix that names the
rank; by a prefix that names a process, whose rank another of its lines tells; or, where no line
says either, by its place in the group.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from planguard.audit.readers.starts import starts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_LINE = 20_000
MAX_LINES = 5_000_000
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\ufeff")
_GLUED = re.compile(r"(?<=[^\s:\]|)])(?=\[rank\d{1,7}\]:)")
_BROKEN = re.compile(
    r"(?:Watchdog caught collective|Work[A-Z]{2,8}\()(?!.*(?:timing out|wait))|"
    r"Received a dump signal(?!.*last completed [A-Z]{2,8} work: -?\d+\.)|"
    r"detected by watchdog at(?!.*last completed (?:[A-Z]{2,8} )?work: -?\d)"
)
_BEGINS = re.compile(r"[^\[\n]{0,60}\[(?:rank\d|[EWIF] |[EWIF]\d{3,4} |\d{4}-\d\d-)")
"""How a line of torch or of a trainer begins, behind what a launcher puts in front."""
_WIDTHS = range(60, 300)
MANY_BROKEN = 3
"""Lines of the greatest length from which a copy was broken at it."""
_STAMPED = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]{8,20}Z? (?P<stream>stdout|stderr) (?P<end>[FP]) ")
_COMPOSED = re.compile(r"[A-Za-z][\w.-]{0,60}-\d{1,4} +\| ")
"""What docker compose puts in front: a container, in which any number of ranks may run."""
_DATED = re.compile(r"\[\d{4}-\d\d-\d\d[T ][\d:.,]+\]\s?")
_DOCKER = re.compile(r'\{"log":\s?"((?:[^"\\]|\\.)*)"')
_RANK = re.compile(r"\[rank(\d{1,7})\]:\s?")
_SAYS_RANK = re.compile(
    r"\[\d{1,6},(?P<mpi>\d{1,7})\]<std(?:err|out)>:\s?|[^\n]{0,80}\[rank=(?P<set>\d{1,7})\] \|\|\s?"
)
# Rows of a stall report, `3: [tensor]`, are no labels.
_LABEL = re.compile(r"\s{0,6}(\d{1,7}): (?!\[[^\[\]]*\]$)")
_SAYS_PROCESS = re.compile(
    r"\((?P<actor>[^()\n]{0,80}?pid=\d{1,10}[^()\n]{0,80})\)\s?|"
    r"\[(?P<role>[A-Za-z_]{1,40}\d{1,6})\]:\s?|\[(?P<pod>pod/[^\]\s]{1,200})\] "
)
"""Of Ray and its like, of torchrun, and of ``kubectl logs --prefix``."""
_CONTINUED = re.compile(r"\s+(?:- |\[\d[\d, ]*\] |#\d+ (?:started|finished))|#\d{1,3} \S+ from ")
_INDENTED = frozenset(" \t#")
_ROLE = re.compile(r"[A-Za-z_]{1,40}?(\d{1,6})")
_PLACE = re.compile(r"Rank (\d{1,7})\](?: |$)")
GOES_ON = re.compile(
    r"\b(?:[Ii]ter(?:ation)?|[Ss]tep|[Ee]poch)s?\b[\s:=#\[]{0,4}\d|"
    r"\b[Ll]oss\b[\s:=]{1,4}\d|it/s\b|s/it\b"
)
"""How trainers and tqdm print progress: behind an error it was caught and the rank went on, and
behind a report of who was late the job may have."""
_REPEATED = re.compile(r"\[repeated \d+x across cluster\]")


@dataclass
class Line:
    """One line of a log.

    Attributes:
        who: Speaker: a rank, the name of a process, or None where the line does not say.
        text: The line without what stands in front of it.
        rank: Rank that the line itself says, or None.
    """

    who: int | str | None
    text: str
    rank: int | None = None


@dataclass
class Log:
    """A text as lines of speakers.

    Attributes:
        lines: All lines, in order.
        is_folded: Repeated lines were left out: who prints nothing may have printed.
        assumed: Ranks that are numbers on a node, by the launcher's prefix, and taken for ranks.
    """

    lines: list[Line] = field(default_factory=list)
    is_folded: bool = False
    assumed: set[int] = field(default_factory=set)

    def attempts(self) -> list[Log]:
        """Return the lines of each start of the job; between two of them nothing is compared."""
        return [replace(self, lines=lines) for lines in starts_of(self.lines)]

    def speakers(self) -> Iterator[tuple[int | str | None, list[Line]]]:
        """Yield every speaker with its lines, those of one rank together."""
        found: dict[int | str | None, list[Line]] = defaultdict(list)
        for line in self.lines:
            found[line.who].append(line)
        yield from found.items()

    def voices(self) -> Iterator[tuple[int | None, bool, list[Line]]]:
        """Yield every speaker as a rank: its rank, whether that is its place only, its lines.

        Where a speaker is no rank, its lines may be those of several that say their places.
        """
        for who, lines in self.speakers():
            if isinstance(who, int):
                yield who, False, lines
                continue
            by_place: dict[int | None, list[Line]] = {}
            for line in lines:
                said = _PLACE.search(line.text) if "Rank " in line.text else None
                by_place.setdefault(int(said[1]) if said is not None else None, []).append(line)
            for place in sorted(by_place, key=lambda known: known is None):
                yield place, place is not None, by_place[place]


def lines_of(data: bytes) -> Log:
    """Return a text as lines of speakers."""
    log = Log()
    text = data.decode("utf-8", errors="replace")
    if text.startswith('{"log":'):
        text = "\n".join(_unescaped(m[1]) for m in _DOCKER.finditer(text))
    text = _ANSI.sub("", text)
    rows = _whole(_parts_joined(_GLUED.sub("\n", text).splitlines()[:MAX_LINES]))
    numbered = sum(row.lstrip()[:1].isdigit() for row in rows)
    is_labelled = 2 * numbered > len(rows) and sum(map(_has_label, rows)) > len(rows) // 2
    aliases: dict[str, set[int]] = defaultdict(set)
    for row in rows:
        line, process = _line(row[:MAX_LINE], is_labelled=is_labelled)
        if (
            line.who is None
            and log.lines
            and line.text[:1] in _INDENTED
            and _CONTINUED.match(line.text)
        ):
            line.who = log.lines[-1].who
        if process is not None and line.rank is not None:
            aliases[process].add(line.rank)
        log.lines.append(line)
    log.is_folded = _REPEATED.search(text) is not None
    for line in log.lines:
        # A process that speaks as two ranks is two processes of one name, on two nodes.
        if isinstance(line.who, str) and len(aliases[line.who]) == 1:
            (line.who,) = aliases[line.who]
    _take_local(log, aliases)
    return log


def _take_local(log: Log, aliases: dict[str, set[int]]) -> None:
    """Take numbers on a node for ranks where no line says otherwise: one node is most likely."""
    if any({local} != ranks for name, ranks in aliases.items() if (local := _local(name)) >= 0):
        return
    for line in log.lines:
        if isinstance(line.who, str) and (local := _local(line.who)) >= 0:
            line.who = local
            log.assumed.add(local)


def _local(name: str) -> int:
    match = _ROLE.fullmatch(name)
    return -1 if match is None else int(match[1])


def _line(row: str, *, is_labelled: bool) -> tuple[Line, str | None]:
    """Return a line and the name of the process that its launcher names."""
    row = row.rstrip("\r")
    if row.startswith("{") or row[:1].isdigit():
        row = _STAMPED.sub("", row, count=1)
    elif row[:1] not in "[(" and " | " in row[:70] and (put := _COMPOSED.match(row)) is not None:
        row = row[put.end() :]
    rank = process = None
    # Most lines of a log are none of these: what is cheap to exclude is excluded first.
    said = _RANK.search(row) if "[rank" in row else None
    dated = _DATED.match(row) if row[:1] == "[" else None
    start = dated.end() if dated is not None else 0
    known = None
    if row[start : start + 1] in ("[", "(") or "[rank=" in row:
        known = _SAYS_RANK.match(row, start) or _SAYS_PROCESS.match(row, start)
    if known is not None:
        groups = known.groupdict()
        number = groups.get("mpi") or groups.get("set")
        rank = int(number) if number else None
        process = groups.get("actor") or groups.get("role") or groups.get("pod")
        row = row[known.end() :]
    elif is_labelled and (label := _LABEL.match(row)) is not None:
        rank, row = int(label[1]), row[label.end() :]
    if said is not None:
        rank = int(said[1])
        place = row.find(said[0])
        row = row[place + len(said[0]) :] if place >= 0 else row
    who: int | str | None = rank if rank is not None else process
    return Line(who, row, rank), process


def _has_label(row: str) -> bool:
    return _LABEL.match(row) is not None


def _whole(rows: list[str]) -> list[str]:
    """Return rows with those joined that a terminal broke in the middle of a watchdog's line."""
    out: list[str] = []
    wanted = 0
    width = _width(rows)
    is_wide = False
    for row in rows:
        # Where every line of a copy ends at one column, a line of that length goes on in the next.
        if is_wide and not _BEGINS.match(row):
            out[-1] += row
            is_wide = len(row) == width
            continue
        is_wide = len(row) == width and "ProcessGroup" in row and row[-1:] != "."
        if wanted and not row.startswith(("[", "(")):
            out[-1] += row
            wanted = wanted - 1 if _BROKEN.search(out[-1]) else 0
            continue
        out.append(row)
        is_told = "Work" in row or "atchdog" in row or "dump signal" in row
        wanted = 4 if is_told and _BROKEN.search(row) else 0
    return out


def _width(rows: list[str]) -> int:
    """Return the column at which a terminal broke what was copied from it; 0 where none did."""
    width = max(map(len, rows), default=0)
    is_broken = width in _WIDTHS and sum(len(row) == width for row in rows) >= MANY_BROKEN
    return width if is_broken else 0


def _parts_joined(rows: list[str]) -> list[str]:
    """Return rows with the parts of one line put together that a container runtime wrote."""
    if not any(row[:1].isdigit() and " P " in row[:60] for row in rows):
        return rows
    out: list[str] = []
    is_open: dict[str, int] = {}
    for row in rows:
        said = _STAMPED.match(row)
        if said is None:
            out.append(row)
            continue
        place = is_open.pop(said["stream"], None)
        if place is None:
            place = len(out)
            out.append(row)
        elif len(out[place]) < MAX_LINE:
            out[place] += row[said.end() :]
        if said["end"] == "P":
            is_open[said["stream"]] = place
    return out


def _unescaped(text: str) -> str:
    try:
        import json

        return str(json.loads(f'"{text}"')).rstrip("\n")
    except ValueError:
        return text
