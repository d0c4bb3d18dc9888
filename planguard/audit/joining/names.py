"""What names of files say beside a rank: a node, a job of Slurm, a task of an array.

A rank behind a node may be counted on that node, and then it is no rank of the job. Jobs, and the
tasks of an array, which are jobs of their own, have nothing in common that could be compared.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.audit.readers.part import SILENT, UNREAD, Part
from planguard.errors import shorten
from planguard.words import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_NUMBER = re.compile(r"\d{1,9}")
_SLURM = re.compile(r"(?:^|/)slurm-(?P<job>\d{3,12})(?:[_.](?P<task>\d{1,7}))?\.(?:out|err|log)$")
"""What Slurm names files by default: ``slurm-%j.out``, of arrays ``slurm-%A_%a.out``."""
_NODE = re.compile(
    r"(?:node|host|machine|server|worker|nid|pod|ip)(?:id)?[-_.=]?"
    r"(?P<node>\d{1,9}(?:[-.]\d{1,3}){0,4})(?!\d)",
    re.IGNORECASE,
)
_RANK = re.compile(r"rank[_\-.=]?(?P<place>\d{1,9})(?!\d)", re.IGNORECASE)
_OF_ARRAY = re.compile(r"\d{4,12}_\d{1,6}\.(?:out|err|log|txt)$")
"""Job and task of an array (Slurm's ``%A_%a``), or job and rank (``%j_%t``)."""


def _on_nodes(paths: Iterable[Path]) -> dict[Path, tuple[int | None, str]]:
    """Return the ranks of files whose names say a node and a rank that is counted on it.

    It is where two nodes have the same one; then a rank of the job is known only where some node
    shows how many there are on each. Of a single node nothing tells.
    """
    places: dict[str, dict[Path, tuple[tuple[int, ...], int]]] = defaultdict(dict)
    for path in paths:
        rank = _RANK.search(path.name)
        if rank is None:
            continue
        # A node stands in front of the rank, or in the name of the folder.
        match = _NODE.search(path.name[: rank.start()]) or _NODE.search(path.parent.name)
        if match is not None:
            node = tuple(int(number) for number in _NUMBER.findall(match["node"]))
            places[path.name[rank.end() :]][path] = node, int(rank["place"])
    found: dict[Path, tuple[int | None, str]] = {}
    for own in places.values():
        nodes = sorted({node for node, _ in own.values()})
        by_place: dict[int, int] = defaultdict(int)
        for _, place in own.values():
            by_place[place] += 1
        if len(nodes) == 1 and nodes[0] != (0,):
            said = "the rank in {} may be counted on its node"
            found |= {path: (place, said.format(path.name)) for path, (_, place) in own.items()}
        if len(nodes) < 2 or max(by_place.values()) < 2:
            continue
        size = max(by_place) + 1
        on_one = {node: {p for n, p in own.values() if n == node} for node in nodes}
        is_known = any(own_places == set(range(size)) for own_places in on_one.values())
        for path, (node, place) in own.items():
            said = f"the ranks of {shorten(path.name)} and others are counted on their nodes"
            if is_known:
                said += f": {size} on each are taken, node by node"
            found[path] = (nodes.index(node) * size + place if is_known else None), said
    return found


def no_ranks(paths: Iterable[Path]) -> dict[Path, tuple[int | None, str]]:
    """Return the files whose numbers are none of ranks of the job as they stand there.

    Each with its rank where that can be concluded, and what has to be assumed for it.
    """
    every = list(paths)
    found: dict[Path, tuple[int | None, str]] = {
        path: (None, f"the number of {shorten(path.name)} is of a job or a task of an array")
        for path in every
        if job_of(str(path)) is not None
    }
    return found | _on_nodes(every)


def may_be_tasks(alike: Sequence[Path]) -> dict[str, str]:
    """Return a doubt of files whose last number may be a task of an array as well as a rank."""
    if not all(_OF_ARRAY.search(path.name) for path in alike):
        return {}
    said = f"the last numbers of {shorten(alike[0].name)} and others may be tasks of an array"
    return {str(path): said for path in alike}


def job_of(file: str) -> tuple[int, int] | None:
    """Return the job and the step or task of its array that a file of Slurm is named by."""
    said = _SLURM.search(file)
    return None if said is None else (int(said["job"]), int(said["task"] or 0))


def one_job(parts: Sequence[Part]) -> tuple[list[Part], str]:
    """Leave out what is of other jobs than the last, where files are named as Slurm names them.

    Tasks of an array are jobs of their own. Where each file is of the rank that its number says,
    the number is no task (``slurm-%j_%t``). The last job that tells of a failure counts, and which
    one that is is returned as well: it is to be said first, since others may be well, or not.
    """
    of_job: dict[tuple[int, int], list[Part]] = defaultdict(list)
    for part in parts:
        if (job := job_of(part.file)) is not None:
            of_job[job].append(part)
    told = {job: own for job, own in of_job.items() if any(_tells_of_calls(p) for p in own)}
    if len(of_job) < 2 or all({p.rank for p in own} == {task} for (_, task), own in of_job.items()):
        return list(parts), ""
    last, audited = max(of_job), max(told or of_job)
    left = {id(part) for job, own in of_job.items() if job != audited for part in own}
    kept = [part for part in parts if id(part) not in left]
    name = _name_of(of_job[audited])
    for part in kept[:1]:
        names = sorted({clean(Path(p.file).name) for p in parts if id(p) in left})
        part.remarks.append(
            f"{', '.join(names[:3])}{' and others' if len(names) > 3 else ''} are of other jobs "
            f"than {name}, and left out; audit each by itself"
        )
    if audited != last:
        return kept, f"the last job, {_name_of(of_job[last])}, tells of no failure; of {name}"
    return kept, f"of {name}, the last of {len(told)} jobs that failed" if len(told) > 1 else ""


def _name_of(parts: Sequence[Part]) -> str:
    return clean(Path(parts[0].file).name)


def _tells_of_calls(part: Part) -> bool:
    return part.kind not in (SILENT, UNREAD)
