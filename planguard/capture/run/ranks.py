"""The logs of a recorded run, one per rank: actions, waits, launches, call stacks, times."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from planguard.capture.groups.recorder import Issued, Recorder, is_door
from planguard.capture.run.log import (
    BACKEND_NOTE,
    SUFFIX,
    Kind,
    RunLog,
)
from planguard.capture.run.log_reading import parse_run_log, read_run_log
from planguard.capture.run.marks import Marks
from planguard.errors import PlanError, UsageError
from planguard.recording.compare import PROLOGUE
from planguard.recording.planned import check_types
from planguard.verdict import Source
from planguard.words import name_ranks

ATTEMPTS = "earlier-attempts"
"""Kind of the ledger entry that names the starts of a job which were not looked at."""
_PLAIN = frozenset({"op", "group", "peer", "tag", "root", "reduce_op", "count", "dtype", "bytes"})


@dataclass
class ReadRank:
    """What the log of one rank says.

    Attributes:
        log: The log.
        actions: Actions as fields of the plan format, waits folded into blocking calls.
        stacks: Call stack of every action, innermost frame first.
        groups: Ranks of every group by key.
        times: When every action and every member of a launch was issued, and when it was seen to
            be done or None, nanoseconds, by the identity of its dictionary.
        backend: Backend of the default group.
        marks: Operators, backward passes and threads.
        done: Handles that somebody was seen to have waited for.
        notes: Ledger entries.
    """

    log: RunLog
    actions: list[dict[str, Any]]
    stacks: dict[int, tuple[Source, ...]]
    groups: dict[str, list[int]]
    backend: str | None = None
    marks: Marks = field(default_factory=Marks)
    done: set[str] = field(default_factory=set)
    notes: list[tuple[str, str, str]] = field(default_factory=list)
    times: dict[int, list[int | None]] = field(default_factory=dict)


def run_logs(path: str | Path) -> list[Path]:
    """Return the logs of a folder, or the one log that was named."""
    place = Path(path)
    return sorted(place.glob(f"*{SUFFIX}")) if place.is_dir() else [place]


def read_run(path: str | Path, attempt: int | None = None) -> list[ReadRank]:
    """Read the logs of one run, by rank.

    Args:
        path: Folder of the logs.
        attempt: Which start of a job that was started anew; the last one if None.

    Raises:
        UsageError: There is no log, or none of that attempt.
        PlanError: A file is no log, two are of one rank, or they are of runs of different size.
    """
    logs = [read_run_log(file) for file in run_logs(path)]
    if not logs:
        hint = "planguard dryrun -o FOLDER -- torchrun ... writes them"
        raise UsageError(f"no log of a recorded run (*{SUFFIX}) in {path}", hint=hint)
    logs, notes = chosen_attempt(logs, attempt)
    logs, beside = _with_groups(logs)
    logs.sort(key=lambda log: log.rank)
    for first, second in pairwise(logs):
        if first.rank == second.rank:
            hint = f"the other one is {first.file}; give every run a folder of its own"
            raise PlanError(
                "two logs of one rank", file=second.file, path="rank", value=first.rank, hint=hint
            )
        if first.world_size != second.world_size:
            raise PlanError(
                f"a run of {second.world_size} ranks beside one of {first.world_size}",
                file=second.file,
                path="world_size",
                value=second.world_size,
            )
    _of_one_start(logs)
    try:
        found = [_read_rank(log) for log in logs]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise PlanError(f"the log is damaged: {error}", file=str(path)) from None
    found[0].notes += [*notes, *beside]
    return found


def chosen_attempt(
    logs: list[RunLog], attempt: int | None = None
) -> tuple[list[RunLog], list[tuple[str, str, str]]]:
    """Return the logs of one start of a job, and a ledger entry for the starts left out.

    torchrun starts all ranks anew when one has failed; every start leaves a log of every rank.

    Raises:
        UsageError: There is no such attempt.
    """
    numbers = sorted({log.attempt for log in logs})
    wanted = numbers[-1] if attempt is None else attempt
    if wanted not in numbers:
        known = ", ".join(map(str, numbers))
        raise UsageError(f"no log of attempt {wanted}", hint=f"attempts in this folder: {known}")
    chosen = [log for log in logs if log.attempt == wanted]
    if len(numbers) == 1:
        return chosen, []
    others = [_attempt_text(logs, number) for number in numbers if number != wanted]
    said = (
        f"the job was started {len(numbers)} times; this is attempt {wanted}, and nothing is said "
        f"of {'; '.join(others)}"
    )
    return chosen, [(ATTEMPTS, said, "exact")]


def _with_groups(logs: list[RunLog]) -> tuple[list[RunLog], list[tuple[str, str, str]]]:
    """Return the logs of the ranks, and the ledger entries of processes that are none of them.

    A process without a process group has a place among others by remote calls or by a backend of
    its own. Beside a job of process groups that is no rank of it; where nobody made one, these
    places are all that is known of the ranks, and a backend of some of them counts from 0 again.
    """
    alone = [log for log in logs if not log.has_group]
    if len(alone) < len(logs):
        entries = [entry for log in alone for entry in _entries(log)]
        return [log for log in logs if log.has_group], list(dict.fromkeys(entries))
    world = max(log.world_size for log in alone)
    first = {log.rank: replace(log, world_size=world) for log in reversed(alone)}
    used = [log.file for log in first.values()]
    entries = [entry for log in alone if log.file not in used for entry in _entries(log)]
    return list(first.values()), list(dict.fromkeys(entries))


def _entries(log: RunLog) -> list[tuple[str, str, str]]:
    found = (log.strings[one.argument] for one in log.entries if one.kind is Kind.NOTE)
    return [(str(kind), str(text), str(direction)) for kind, text, direction in found]


def _attempt_text(logs: list[RunLog], number: int) -> str:
    own = [log for log in logs if log.attempt == number]
    failed = sorted(log.rank for log in own if log.has_failed)
    cut = sorted(log.rank for log in own if not log.has_failed and not log.has_ended)
    how = [f"{name_ranks(failed)} raised"] if failed else []
    how += [f"{name_ranks(cut)} did not come to an end"] if cut else []
    return f"attempt {number} ({', '.join(how) or 'all ranks came to their end'})"


def _of_one_start(logs: list[RunLog]) -> None:
    """Refuse ranks of different starts, which never met.

    Raises:
        PlanError: They are.
    """
    for log in logs:
        if log.run and logs[0].run and log.run != logs[0].run:
            raise PlanError(
                "two logs of different runs",
                file=log.file,
                path="run",
                value=log.run,
                hint=f"the other one is {logs[0].file}; give every run a folder of its own",
            )


def read_log(data: bytes, file: str) -> ReadRank:
    """Read the bytes of one log.

    Raises:
        PlanError: The log is damaged.
    """
    try:
        return _read_rank(parse_run_log(data, file))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise PlanError(f"the log is damaged: {error}", file=file) from None


class _Replay(Recorder):
    """Takes the entries of a log for calls, with the stacks of the log."""

    place: tuple[Source, ...] = ()
    rows: tuple[tuple[str, bool], ...] = ()
    launch: tuple[Source, ...] = ()

    def __init__(self, rank: int) -> None:
        super().__init__(rank)
        self.stacks: dict[int, tuple[Source, ...]] = {}
        self.marks = Marks()
        self.times: dict[int, list[int | None]] = {}
        self.now = 0

    def _append(self, action: dict[str, Any]) -> None:
        site = next((frame for frame in self.place if not _is_marker(frame)), None)
        if site is not None:
            action["src"] = [site.file, site.line or 0, site.function or ""]
        self.stacks[id(action)] = self.place
        self.times.setdefault(id(action), [self.now, None])
        self.marks.appended(action)
        self.actions.append(action)

    def _is_last(self, action: dict[str, Any]) -> bool:
        threads = self.marks.threads
        mine = threads.get(id(action))
        if mine != self.marks.thread:
            return False  # another thread waits: the one that issued it goes on
        return next(one for one in reversed(self.actions) if threads[id(one)] == mine) is action

    def _is_issued_by_library(self) -> bool:
        issuer = next((library for file, library in self.rows if not is_door(file)), False)
        return bool(issuer)

    def ended(self, issued: Issued) -> None:
        """Remember when somebody saw that a communication was done."""
        action = (issued.batch or issued).action
        self.times[id(action)][1] = self.now
        if self.actions[-1]["op"] == "wait":
            self.times[id(self.actions[-1])][1] = self.now

    def end_backward(self) -> None:
        """Take what C++ waited for as done by the end of the backward pass."""
        for issued in self._unseen:
            if not issued.waited:
                self.ended(issued)
        super().end_backward()


def _is_marker(frame: Source) -> bool:
    return frame.file == "<library>"


def _read_rank(log: RunLog) -> ReadRank:
    """Return the actions of a log: a wait right behind its call makes it a blocking one."""
    replay, issued = _Replay(log.rank), dict[int, Issued]()
    done: set[str] = set()
    stacks = {number: _stack(rows) for number, rows in log.strings.items() if _is_stack(rows)}
    files = {
        number: tuple((row[0], bool(row[3])) for row in rows)
        for number, rows in log.strings.items()
        if _is_stack(rows)
    }
    batch = 0
    for entry in log.entries:
        if replay.marks.take(entry, log.strings, len(replay.actions)):
            continue
        replay.now = entry.time
        replay.place = stacks.get(entry.stack, ())
        replay.rows = files.get(entry.stack, ())
        if entry.kind is Kind.CALL and entry.fields is not None:
            batch = _change_batch(replay, batch, entry.batch)
            if not entry.fields.keys() <= _PLAIN:
                check_types(entry.fields)  # as text a field may be anything
            fields = {k: v for k, v in entry.fields.items() if k not in ("op", "group")}
            group = entry.fields["group"]
            replay.groups.setdefault(group, _members(group))
            _check(log, fields, replay.groups[group])
            one = issued[entry.argument] = replay.issue(entry.fields["op"], group, fields)
            replay.times.setdefault(id(one.action), [entry.time, None])
            replay.marks.issued(entry.argument, one.action)
            continue
        if entry.kind is Kind.WITNESS:
            continue  # the other account; it stands between the calls of a launch
        batch = _change_batch(replay, batch, 0)
        if entry.kind is Kind.NOTE:
            replay.note(*log.strings[entry.argument])
        elif entry.kind in (Kind.CREATED, Kind.MET):
            key = log.strings[entry.argument]
            replay.groups.setdefault(key, _members(key))
            (replay.met if entry.kind is Kind.MET else replay.created)(key)
        elif entry.kind is Kind.BACKWARD:
            replay.end_backward()
        elif entry.argument in issued:
            _settle(replay, entry.kind, issued[entry.argument], done)
    _change_batch(replay, batch, 0)
    if log.has_ended and not log.has_failed:  # else the rank may have been about to wait
        replay.end_library()
    backend = next((text for kind, text, _ in replay.notes if kind == BACKEND_NOTE), None)
    notes = [note for note in replay.notes if note[0] != BACKEND_NOTE]
    return ReadRank(
        log, replay.actions, replay.stacks, replay.groups, backend, replay.marks, done, notes,
        replay.times,
    )  # fmt: skip


def _settle(replay: _Replay, kind: Kind, issued: Issued, done: set[str]) -> None:
    """Take what happened to a handle."""
    if kind is Kind.WAIT:
        replay.wait(issued)
    elif kind is Kind.DONE:
        done.add((issued.batch or issued).work)
        replay.ended(issued)
    elif kind is Kind.UNSEEN:
        replay.wait_unseen(issued)
    elif kind is Kind.DROP:
        replay.drop(issued)


def _change_batch(replay: _Replay, before: int, now: int) -> int:
    """End the launch before this record, and begin the one it belongs to."""
    if before and before != now:
        here, replay.place = replay.place, replay.launch
        replay.end_batch()
        replay.place = here
    if now and before != now:
        replay.batch, replay.launch = [], replay.place
    return now


def _members(key: str) -> list[int]:
    return [int(rank) for rank in key.partition("#")[0].split(",")]


def _check(log: RunLog, fields: dict[str, Any], members: list[int]) -> None:
    """Refuse a call that names a rank which is not in its group."""
    for name in ("peer", "root"):
        rank = fields.get(name, members[0])
        if rank not in (*members, "any") or not 0 <= min(members) <= max(members) < log.world_size:
            raise PlanError(
                "the log is damaged: no such rank in the group",
                file=log.file,
                path=name,
                value=rank,
            )


def _is_stack(rows: Any) -> bool:
    return isinstance(rows, list) and bool(rows) and isinstance(rows[0], list)


def _stack(rows: list[list[Any]]) -> tuple[Source, ...]:
    """Return the user's frames, and behind them the library's that mark a framework's start."""
    own = tuple(Source(file, line, name) for file, line, name, library in rows if not library)
    marks = tuple(
        Source("<library>", None, name)
        for _, _, name, library in rows
        if library and name in PROLOGUE
    )
    return own + marks
