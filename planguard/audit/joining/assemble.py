"""Joins what all files say into one recording, and says what is missing from it."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planguard.audit.joining.backends import tell_backends
from planguard.audit.joining.choice import choose
from planguard.audit.joining.clocks import apart
from planguard.audit.joining.gaps import (
    against,
    gaps,
    left_out,
    of_starts,
    troubles_of,
    unread_files,
)
from planguard.audit.joining.hosts import join_hosts
from planguard.audit.joining.inits import join_inits
from planguard.audit.joining.models import join_models
from planguard.audit.joining.names import one_job
from planguard.audit.joining.ranks import last_start, resolve
from planguard.audit.joining.records import records
from planguard.audit.joining.reports import join_reports
from planguard.audit.joining.runs import last_run, of_last_run
from planguard.audit.readers.part import (
    CONCLUDED,
    SILENT,
    UNREAD,
    UNSAID,
    Part,
    PartGroup,
)
from planguard.errors import PlanError, UsageError
from planguard.plan.vocabulary import EVERYONE
from planguard.recording import Progress, RecordedGroup, Recording
from planguard.recording.planned import plan_groups
from planguard.words import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.plan.plan import Plan

MAX_WORLD = 1_000_000


@dataclass
class Assembled:
    """A recording and what was learned while it was put together.

    Attributes:
        recording: The recording.
        parts: The chosen part of every rank.
        arguments: Arguments of the call that a rank's stack stands in.
        versions: Recorder and library versions by rank.
        remarks: What is worth telling and limits nothing.
        troubles: What files say that no job says that is well, beside better evidence of their
            ranks.
        start: Which job was audited, where there are several, and which start of it, where a later
            one says nothing of its calls.
        clocks: Half hours by which the clocks of ranks are off, as those of other time zones are.
    """

    recording: Recording
    parts: dict[int, Part]
    arguments: dict[int, dict[str, int]] = field(default_factory=dict)
    versions: dict[int, tuple[str | None, str | None]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    start: str = ""
    clocks: dict[int, int] = field(default_factory=dict)


def assemble(
    parts: Sequence[Part],
    *,
    world_size: int | None = None,
    plan: Plan | None = None,
    prefix: str | None = None,
) -> Assembled:
    """Return the recording that the parts make together.

    Args:
        parts: What every file says; ``rank`` is set where its content says it.
        world_size: Number of ranks, where the caller knows it.
        plan: The intended plan: it lends the number of ranks and members of groups.
        prefix: What stands in front of the rank in file names.

    Raises:
        UsageError: No file says a rank.
        PlanError: More ranks than any job has, or nothing could be read.
    """
    parts, notes_of_attempts = _last_attempt(parts)
    unread = [part for part in parts if part.kind == UNREAD]
    if unread and all(part.kind in (UNREAD, SILENT) for part in parts):
        # Nothing at all is usable: what the first file lacks is the answer.
        raise unread[0].error or PlanError("cannot be read", file=unread[0].file)
    join_hosts(parts)
    join_reports(parts)
    parts, of_job = one_job(parts)
    parts, remarks = resolve(last_start(parts), prefix)
    of_nobody = tuple(remarks)  # files of failures, whose ranks are not known
    parts, of_logs = of_last_run(parts)
    parts = join_inits(join_models(parts))
    tell_backends(parts)
    clocks = apart(parts)
    parts, of_runs, told = last_run(parts)
    unread = [part for part in parts if part.kind == UNREAD]
    chosen, of_choice, said = choose(parts)
    remarks += [*told, *said]
    for rank, part in chosen.items():
        if UNSAID in part.groups:
            part.rename_group(UNSAID, f"{UNSAID}{rank}")
    ranks, notes = _world(parts, chosen, world_size, plan)
    notes += notes_of_attempts
    groups = _groups(parts, chosen, ranks, plan)
    kinds = tuple(dict.fromkeys(part.kind for part in chosen.values()))
    backends = {part.backend for part in chosen.values()}
    backends |= {one.backend for part in chosen.values() for one in part.groups.values()}
    backends -= {None}
    recording = Recording(
        ranks,
        records(parts, chosen),
        groups,
        backend=backends.pop() if len(backends) == 1 else None,
        kinds=kinds,
        notes=tuple(dict.fromkeys([*notes, *(n for part in chosen.values() for n in part.notes)])),
    )
    recording = Recording(
        **{
            **recording.__dict__,
            "gaps": (
                *gaps(recording, chosen),
                *against(parts, chosen),
                *of_logs,
                *of_runs,
                *of_choice,
                *of_starts(parts),
                *unread_files(unread),
            ),
        },
    )
    arguments = {p.rank: p.arguments for p in parts if p.rank is not None and p.arguments}
    versions = {rank: (part.version, part.library) for rank, part in chosen.items()}
    remarks += [remark for part in parts for remark in part.remarks]
    remarks += left_out(unread)
    # A start that came to its end left no dump of a hang: what is there is of an earlier one.
    starts = (p.start for p in (*chosen.values(), *(p for p in parts if p.is_over)) if p.start)
    start = "; ".join(filter(None, (of_job, next(starts, ""))))
    troubles = [*troubles_of(parts, chosen), *of_nobody]
    return Assembled(recording, chosen, arguments, versions, remarks, troubles, start, clocks)


def _last_attempt(parts: Sequence[Part]) -> tuple[list[Part], list[str]]:
    """Leave out what ranks wrote before their job was started anew, and say so."""
    numbers = sorted({part.attempt for part in parts if part.kind == "run"})
    if len(numbers) < 2:
        return list(parts), []
    kept = [part for part in parts if part.kind != "run" or part.attempt == numbers[-1]]
    said = (
        f"the job was started {len(numbers)} times: attempt {numbers[-1]} is audited, "
        f"{plural(len(parts) - len(kept), 'log')} of earlier ones left out; name their files to "
        "audit those"
    )
    return kept, [said]


def _world(
    parts: Sequence[Part], chosen: dict[int, Part], given: int | None, plan: Plan | None
) -> tuple[int, list[str]]:
    """Return the number of ranks, and how sure that is."""
    said = {part.world_size for part in parts if part.world_size}
    # Parts share the members of the groups that they have in common.
    members = {id(g.ranks): g.ranks for part in parts for g in part.groups.values() if g.ranks}
    silent = [
        part.rank for part in parts if part.kind in (SILENT, UNREAD) and part.rank is not None
    ]
    # Who did not come by the words of others is a rank of the job as well.
    told = (one for part in parts for one in part.absences if not one.are_places)
    absent = [rank for one in told for rank in (*one.ranks, *one.here) if rank < MAX_WORLD]
    least = max([max(chosen), *silent, *map(max, members.values())]) + 1
    named = max([least - 1, *absent]) + 1
    for part in parts:
        for name, group in part.groups.items():
            if name == "world":
                said |= {n for n in (group.size, len(group.ranks or ())) if n}
    if given is not None:
        if given < least:
            raise UsageError(f"--world-size {given}: rank {least - 1} was recorded")
        size = given
    elif plan is not None:
        size = max(plan.world_size, named)
    else:
        size = max([named, *said])
    if size > MAX_WORLD:
        raise PlanError(f"{size:,} ranks declared; at most {MAX_WORLD:,} are read")
    sure = given is not None or plan is not None or size in said
    if sure:
        return size, []
    note = f"the number of ranks, {size}, {CONCLUDED} (--world-size says it)"
    return size, [note]


# --- groups --------------------------------------------------------------------------------------


def _groups(
    parts: Sequence[Part], chosen: dict[int, Part], world_size: int, plan: Plan | None
) -> dict[str, RecordedGroup]:
    """Return every group with its members, recorded or concluded."""
    recorded: dict[str, dict[tuple[int, ...], list[Part]]] = defaultdict(lambda: defaultdict(list))
    about: dict[str, PartGroup] = {}
    # Hashing the members of the world once for each of its ranks would cost their square; readers
    # hand one tuple to all of them.
    last: dict[str, tuple[tuple[int, ...], list[Part]]] = {}
    for part in parts:
        for name, group in part.groups.items():
            one = about.setdefault(name, PartGroup())
            one.description = one.description or group.description
            one.size = one.size or group.size
            one.backend = one.backend or group.backend
            one.places |= group.places
            if group.ranks:
                if name not in last or last[name][0] is not group.ranks:
                    last[name] = group.ranks, recorded[name][group.ranks]
                last[name][1].append(part)
    _tell_apart(recorded, about)
    seen = _seen(chosen)
    groups = {}
    for name in sorted({*about, *seen, "world"}):
        users, known = seen.get(name, set()), about.get(name, PartGroup())
        ranks = next(iter(recorded.get(name, ())), None)
        is_inferred = False
        if name == "world":
            ranks = tuple(range(world_size))
        elif ranks is None and not name.startswith(UNSAID):
            ranks = _concluded(name, users, known, chosen, world_size, plan)
            is_inferred = ranks is not None
        listed = tuple(sorted(users | set(ranks or ())))
        size = known.size or (len(ranks) if ranks else None)
        groups[name] = RecordedGroup(
            name,
            ranks,
            listed,
            known.description,
            size,
            is_inferred,
            _counter(name),
            known.backend,
            _readings(recorded.get(name, {}), chosen) if name != "world" else (),
        )
    return groups


def _readings(
    recorded: dict[tuple[int, ...], list[Part]], chosen: dict[int, Part]
) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """Return what the dumps that count name as the members of one group, and whose they are.

    The default group has no such: dumps that name others there are of several jobs (``runs``).
    """
    if len(recorded) < 2:
        return ()
    found = {
        members: tuple(
            sorted(p.rank for p in parts if p.rank is not None and chosen.get(p.rank) is p)
        )
        for members, parts in recorded.items()
    }
    return tuple((members, who) for members, who in found.items() if who)


def _tell_apart(
    recorded: dict[str, dict[tuple[int, ...], list[Part]]], about: dict[str, PartGroup]
) -> None:
    """Give groups that share a name and not their members names of their own.

    Groups made by ``split_group`` or by different ranks on their own may share one: every rank
    then means the one that it belongs to.
    """
    for name in [name for name, members in recorded.items() if len(members) > 1]:
        if name == "world":
            continue
        by_members = dict(recorded[name])
        sets = [set(ranks) for ranks in by_members]
        if any(a & b for n, a in enumerate(sets) for b in sets[n + 1 :]):
            continue  # ranks disagree about one group; the first reading stands (``_readings``)
        del recorded[name]
        for ranks, parts in by_members.items():
            own = f"{name}@{min(ranks)}"
            recorded[own][ranks] = parts
            known = about[name]
            about[own] = PartGroup(ranks, known.description, len(ranks), known.backend)
            for part in parts:
                part.rename_group(name, own)
        del about[name]


def _seen(chosen: dict[int, Part]) -> dict[str, set[int]]:
    seen: dict[str, set[int]] = defaultdict(set)
    for rank, part in chosen.items():
        for call in part.track.calls:
            if call.group is not None:
                seen[call.group].add(rank)
    return seen


def _concluded(
    name: str,
    users: set[int],
    known: PartGroup,
    chosen: dict[int, Part],
    world_size: int,
    plan: Plan | None,
) -> tuple[int, ...] | None:
    """Return the members of a group whose recorder names none, where they can be concluded."""
    found = tuple(sorted(users))
    if known.places:
        return _placed(known, world_size)
    if known.size is not None and len(users) == known.size:
        return found
    if plan is not None:
        planned = _planned(name, users, plan)
        if planned is not None:
            return planned
    everyone_is_here = len(chosen) == world_size and not any(p.dropped for p in chosen.values())
    if everyone_is_here and any(_has_met(chosen[rank], name) for rank in users):
        return found
    return None


def _placed(known: PartGroup, world_size: int) -> tuple[int, ...] | None:
    """Return the members of a group of which ranks said their places, where nobody else fits.

    Groups hold their ranks in ascending order, so a place between 4 and 6 is 5.
    """
    places = known.places
    last = max(places)
    if known.size is not None and known.size > last + 1:
        room = world_size - 1 - places[last]
        if room != known.size - 1 - last:
            return None
        places = {**places, **{n: places[last] + n - last for n in range(last, known.size)}}
        last = known.size - 1
    elif known.size is None and places[last] != world_size - 1:
        return None
    members: list[int] = []
    for place in range(last + 1):
        if place in places:
            members.append(places[place])
            continue
        before = members[-1] if members else -1
        after = next(n for n in sorted(places) if n > place)
        if places[after] - before != after - place + 1:
            return None
        members.append(before + 1)
    return tuple(members) if members == sorted(set(members)) else None


def _has_met(part: Part, name: str) -> bool:
    """Tell whether a collective that needs every member completed on this rank.

    One that is the last of its rank may have ended with an error instead.
    """
    track = part.track
    last = len(track) - 1
    return any(
        track.calls[call].group == name
        and track.calls[call].family in EVERYONE
        and track.progress[place] == Progress.COMPLETED
        and place != last
        for place, call in enumerate(track.call)
    )


def _planned(name: str, users: set[int], plan: Plan) -> tuple[int, ...] | None:
    """Return the plan's members of a group: by name, by creation counter, or the only ones."""
    groups = plan_groups(plan)
    if name in groups and users <= set(groups[name]):
        return groups[name]
    counter = _counter(name)
    by_creation = [group for group in groups if group != "world"]
    if counter is not None and counter <= len(by_creation):
        ranks = groups[by_creation[counter - 1]]
        if users <= set(ranks):
            return ranks
    fitting = {ranks for group, ranks in groups.items() if users <= set(ranks)}
    return fitting.pop() if len(fitting) == 1 else None


def _counter(name: str) -> int | None:
    """Return the creation counter that torch uses as a name; the default group is 0."""
    return int(name) if re.fullmatch(r"[1-9]\d{0,5}", name) else None
