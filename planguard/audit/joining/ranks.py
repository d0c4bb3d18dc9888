"""Whose part is whose: ranks by content first, then by what varies among the names of files.

A name is read as a rank only where it can mean nothing else, or where it is said that it was
assumed: a finding about the wrong rank is worse than one about no rank.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.audit.joining.names import may_be_tasks, no_ranks
from planguard.audit.readers.part import LOCAL, NO_FAILURE, PARTIAL, SILENT, UNREAD, Part
from planguard.errors import PlanError, UsageError, shorten
from planguard.recording import UNNAMED, Observed, Progress, Track
from planguard.words import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_NUMBER = re.compile(r"\d{1,9}")
_RANK_WORD = re.compile(r"rank[_\-.=]?(\d{1,9})(?!\d)", re.IGNORECASE)
_LOG_DIR = re.compile(
    r"(?P<run>.*)/attempt_(?P<attempt>\d{1,6})/(?P<rank>\d{1,6})/std(?:err|out)\.log$"
)
FAR = 64
"""Numbers of names up to which any may be a rank; above, they have to be about as many as files."""
MERGED = ("stderr", "ras", "stacks")
"""Kinds of which several files may tell of one rank: what they say is put together."""


SEVERAL = "a call is open in one of {} and {}, and ended in the other: they may be of several runs"
NAMELESS = "neither its name nor its content says a rank"


class OfNobodyError(Exception):
    """Of words of nobody nothing follows, which is an answer and no mistake of whoever asks.

    Attributes:
        said: One sentence for each file that says them.
    """

    def __init__(self, files: Iterable[str]) -> None:
        super().__init__("words of nobody")
        self.said = tuple(f"{clean(file)} is left out: {NAMELESS}" for file in files)


def resolve(parts: Sequence[Part], prefix: str | None) -> tuple[list[Part], list[str]]:
    """Return the parts with their ranks, several of one rank merged, and what was left out.

    Args:
        parts: What all files say.
        prefix: What stands in front of the rank in file names, where the user says it.

    Raises:
        OfNobodyError: All that is there are words of which nobody says whose they are.
        UsageError: No recording has a rank.
    """
    by_file: dict[str, list[Part]] = defaultdict(list)
    parts = _without_echoes(parts)
    for part in parts:
        if part.rank is None:
            by_file[part.file].append(part)
    spoken = {part.file for part in parts if part.rank is not None}
    # What one process printed may be of several kinds: its stack, and its errors.
    single = [
        file
        for file, own in by_file.items()
        if len({part.kind for part in own}) == len(own) and file not in spoken
    ]
    named, doubts, unclear = by_names([Path(file) for file in single], prefix)
    for file in single:
        for part in by_file[file]:
            part.rank = named.get(file)
            if part.rank is not None and file in doubts and part.kind not in (SILENT, UNREAD):
                part.doubt = doubts[file]
    for part in parts:
        if part.rank is None and part.absences:
            # What it says is about others, whoever says it.
            part.rank, part.doubt = 0, part.doubt or f"{part.file} does not say which rank it is of"
    has_ranks = any(p.rank is not None and p.kind not in (SILENT, UNREAD) for p in parts)
    if not has_ranks:
        _number_in_order(by_file)
    lost = [p for p in parts if p.rank is None and p.kind not in (SILENT, UNREAD)]
    kept = [p for p in parts if p.rank is not None or p.kind == UNREAD]
    is_alone = not any(p.kind not in (SILENT, UNREAD) for p in kept)
    if is_alone and any(p.kind not in PARTIAL for p in lost):
        raise UsageError(
            unclear or f"whose dump is {shorten(lost[0].file)}? {NAMELESS}",
            hint="--prefix says what stands in front of the rank in file names, "
            "such as --prefix trace_rank_",
        )
    if lost and is_alone:
        raise OfNobodyError(dict.fromkeys(p.file for p in lost))
    whole = [p for p in lost if p.kind not in PARTIAL]
    kept += [Part(UNREAD, p.file, error=PlanError(NAMELESS, file=p.file)) for p in whole]
    left_out = dict.fromkeys(p.file for p in lost if p.file not in spoken and p not in whole)
    remarks = [f"{file} says no rank, neither by its name nor in it: left out" for file in left_out]
    return _merged(kept), remarks


def _without_echoes(parts: Sequence[Part]) -> list[Part]:
    """Leave out what a driver collected of processes whose own logs are there, too.

    It names processes and no ranks, and stands in the log of one: its file says nothing of whose
    words it repeats.
    """
    said = [part for part in parts if part.kind == "stderr"]
    return [
        part
        for part in parts
        if part.rank is not None
        or part.kind != "stderr"
        or part.process is None
        or not any(one.file != part.file and one.says_as(part) for one in said)
    ]


def by_names(
    paths: Sequence[Path], prefix: str | None
) -> tuple[dict[str, int], dict[str, str], str]:
    """Return ranks by file, what was assumed about some of them, and which names stay unclear."""
    ranks: dict[str, int] = {}
    doubts: dict[str, str] = {}
    unclear = ""
    if prefix is not None:
        for path in paths:
            place = path.name.find(prefix)
            match = _NUMBER.match(path.name, place + len(prefix)) if place >= 0 else None
            if match is not None:
                ranks[str(path)] = int(match.group())
        return ranks, doubts, unclear
    shapes: dict[tuple[Path, str], list[Path]] = defaultdict(list)
    of_folder = _called_by_rank({path.parent for path in paths})
    by_launcher = _of_torchrun(paths)
    ranks |= {str(path): rank for path, rank in by_launcher.items()}
    doubts |= {str(path): LOCAL for path in by_launcher}
    told = no_ranks(path for path in paths if path not in by_launcher)
    for path, (rank, said) in told.items():
        if rank is not None:
            ranks[str(path)], doubts[str(path)] = rank, said
        unclear = said if rank is None else unclear
    for path in (path for path in paths if path not in by_launcher and path not in told):
        words = _RANK_WORD.findall(path.name) or of_folder.get(path.parent, [])
        if words:
            ranks[str(path)] = int(words[-1])
        else:
            shapes[path.parent, _NUMBER.sub("#", path.name)].append(path)
    for (_, shape), alike in shapes.items():
        found, assumed = _by_columns(shape, alike)
        ranks |= found
        doubts |= assumed
        if not found and len(alike) > 1 and shape.count("#") > 1:
            unclear = f"which number of {shorten(shape)} is the rank?"
    return ranks, doubts, unclear


def _called_by_rank(folders: set[Path]) -> dict[Path, list[str]]:
    """Return the ranks that folders are called by and nothing else, beside each other.

    Below several folders, of nodes for example, such ranks may be counted in each of them.
    """
    found = {one: [said[1]] for one in folders if (said := _RANK_WORD.fullmatch(one.name))}
    return found if len({one.parent for one in found}) == 1 else {}


def _by_columns(shape: str, alike: Sequence[Path]) -> tuple[dict[str, int], dict[str, str]]:
    """Return the ranks of files whose names differ in numbers only, and what is assumed for that.

    The number that differs is the rank; of two the first is the node.
    """
    numbers = [tuple(map(int, _NUMBER.findall(path.name))) for path in alike]
    columns = [n for n in range(len(numbers[0])) if len({row[n] for row in numbers}) > 1]
    if len(alike) == 1:
        columns = [0] if len(numbers[0]) == 1 else []
    if len(columns) == 1:
        found = [row[columns[0]] for row in numbers]
        if max(found) >= max(FAR, 4 * len(found)):
            return {}, {}
        said = may_be_tasks(alike)
        if len(alike) == 1:  # a date, a version, a job: nothing beside it tells
            said = {str(alike[0]): f"the number of {shorten(alike[0].name)} is taken for the rank"}
        return {str(path): rank for path, rank in zip(alike, found, strict=True)}, said
    if len(columns) == 2:
        grid = _grid([(row[columns[0]], row[columns[1]]) for row in numbers])
        ranks = {str(path): rank for path, rank in zip(alike, grid, strict=False)}
        assumed = f"the numbers of {shorten(shape)} are taken for node and place on the node"
        return ranks, dict.fromkeys(ranks, assumed)
    return {}, {}


def _of_torchrun(paths: Sequence[Path]) -> dict[Path, int]:
    """Return the local ranks of what torchrun's ``--log-dir`` holds, where it is of one node."""
    found = {path: said for path in paths if (said := _LOG_DIR.search(path.as_posix()))}
    if len({said["run"] for said in found.values()}) > 1:
        return {}
    last = max((int(said["attempt"]) for said in found.values()), default=0)
    return {path: int(m["rank"]) for path, m in found.items() if int(m["attempt"]) == last}


def last_start(parts: Sequence[Part]) -> list[Part]:
    """Leave out what torchrun's ``--log-dir`` holds of starts before the last that tells of calls.

    Behind that one may be others, which told of no failure.
    """
    numbers = {id(p): int(m["attempt"]) for p in parts if (m := _LOG_DIR.search(p.file))}
    tell = [numbers[id(p)] for p in parts if id(p) in numbers and p.kind not in (SILENT, UNREAD)]
    last, told = max(numbers.values(), default=0), max(tell, default=0)
    if not last or not tell:
        return list(parts)
    kept = [part for part in parts if numbers.get(id(part), told) == told]
    for part in kept if told < last else ():
        if id(part) in numbers:
            part.start = NO_FAILURE.format(told + 1, last + 1)
    return kept


def _grid(pairs: list[tuple[int, int]]) -> list[int]:
    """Return ranks, node by node, where every node has the same places from 0 on; else nothing."""
    nodes, places = sorted({a for a, _ in pairs}), sorted({b for _, b in pairs})
    is_full = len(set(pairs)) == len(pairs) == len(nodes) * len(places)
    if not is_full or places != list(range(len(places))):
        return []
    return [nodes.index(node) * len(places) + place for node, place in pairs]


def _number_in_order(by_file: dict[str, list[Part]]) -> None:
    """Number processes that say no rank as they come, where one file holds all there are."""
    files = [file for file, own in by_file.items() if any(p.kind == "stacks" for p in own)]
    if len(files) != 1:
        return
    own = [part for part in by_file[files[0]] if part.kind == "stacks"]
    for number, part in enumerate(own):
        part.rank = number
        part.doubt = f"{files[0]} says no ranks: its processes are numbered in its order"


def _merged(parts: list[Part]) -> list[Part]:
    """Return the parts with those of one rank put together, for kinds that may be several."""
    found: list[Part] = []
    known: dict[tuple[str, int], Part] = {}
    for part in parts:
        if part.kind not in MERGED or part.rank is None:
            found.append(part)
            continue
        first = known.get((part.kind, part.rank))
        if first is None:
            known[part.kind, part.rank] = part
            found.append(part)
        else:
            _merge(first, part)
    return found


def _merge(first: Part, other: Part) -> None:
    """Add to a part what another one says of its rank."""
    # RAS asked twice, and nothing moved in between: no passing moment. A copy is of the same one.
    is_copy = first.file == other.file or (first.asked != "" and first.asked == other.asked)
    is_repeated = first.kind == "ras" and not is_copy and first.track == other.track
    doubt = "" if is_repeated else first.doubt or other.doubt
    if first.says_as(other) and not (first.doubt and other.doubt):
        doubt = ""  # what somebody collected a second time is no less sure for it
    elif first.file != other.file and (_went_on(first, other) or _went_on(other, first)):
        doubt = SEVERAL.format(clean(first.file), clean(other.file))
    first.add_groups(other)
    if len(other.track):
        rows: dict[tuple[str | None, int], Observed] = {}
        for one in (*first.track, *other.track):
            key = one.call.group, one.position
            if key not in rows or _tells(one) > _tells(rows[key]):
                rows[key] = one
        first.track = Track.of(rows[key] for key in sorted(rows, key=_by_round))
    _merge_stacks(first, other)
    first.doubt = doubt
    first.crash = first.crash or other.crash
    first.models |= other.models
    first.absences = tuple(dict.fromkeys((*first.absences, *other.absences)))
    first.oversized = first.oversized or other.oversized
    first.has_ended = other.has_ended if first.has_ended is None else first.has_ended
    first.world_size = first.world_size or other.world_size
    first.backend = first.backend or other.backend
    first.notes += [note for note in other.notes if note not in first.notes]
    first.remarks += [note for note in other.remarks if note not in first.remarks]


def _went_on(one: Part, later: Part) -> bool:
    """Tell whether a call that one part holds open had ended before a call of the other one."""
    ended: dict[str | None, int] = {}
    for seen in later.track:
        if seen.progress == Progress.COMPLETED and seen.call.is_collective:
            ended[seen.call.group] = max(seen.position, ended.get(seen.call.group, 0))
    open_ = (Progress.ISSUED, Progress.STARTED)
    return any(
        seen.progress in open_ and seen.position <= ended.get(seen.call.group, 0)
        for seen in one.track
        if seen.call.is_collective
    )


def _merge_stacks(first: Part, other: Part) -> None:
    """Take the later of two stacks of one process, which has moved where they differ.

    Of two processes of a rank the first one counts: others load its data, as a rule.
    """
    is_one = first.process is not None and first.process == other.process
    if first.stack and other.stack and is_one and first.file != other.file:
        first.has_moved |= other.has_moved or not first.stands_as(other)
        if (other.written_ns or 0) < (first.written_ns or 0):
            return
    elif first.stack:
        return
    first.stack, first.inside, first.arguments = other.stack, other.inside, other.arguments
    first.process = other.process


def _by_round(key: tuple[str | None, int]) -> tuple[str, int]:
    """Order rounds by group and number."""
    return key[0] or "", key[1]


def _tells(one: Observed) -> tuple[bool, bool]:
    return one.call.op != UNNAMED, bool(one.call.stack)
