"""Python stacks of ranks: ``py-spy dump`` as text and JSON, ``faulthandler``, reports of both.

One text may hold the stacks of many processes, one after the other or line by line between each
other; each becomes a part of its own. Of several stacks of one process the last one counts; where
they differ, it moved.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import Struct

from planguard.audit.readers.names import program_frames
from planguard.audit.readers.part import Part
from planguard.audit.readers.safe import decode_json
from planguard.plan.vocabulary import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.audit.readers.text_log import Line, Log

MAX_FRAMES = 500
_SPY_THREAD = re.compile(
    r"Thread (?P<id>(?:0x)?[0-9a-fA-F]+) \((?P<state>[^)]*)\)(?:: \"(?P<name>[^\"]*)\")?"
)
_SPY_FRAME = re.compile(r"    (?P<name>\S.*?) \((?P<file>[^()]+):(?P<line>\d{1,9})\)$")
_SPY_NATIVE = re.compile(r"    (?:c10d|gloo)::\S.* \(\S+\.so[\d.]*\)$|    nccl[A-Z]\w+ \(")
_SPY_LOCAL = re.compile(r"\s{8,}(?P<name>[a-z_]+): (?P<value>-?\d{1,9})$")
_FAULT_THREAD = re.compile(
    r"(?P<which>Current thread|Thread) (?P<id>0x[0-9a-fA-F]+).*\(most recent call first\):"
)
_FAULT_FRAME = re.compile(r"  File \"(?P<file>[^\"]+)\", line (?P<line>\d{1,9}) in (?P<name>\S+)")
_PROCESS = re.compile(r"Process (\d{1,10}): ")
_SECTION = re.compile(r"=== Rank (\d{1,7})\b")
_PLACED = re.compile(
    r"\[[^\]]{0,60}?(?:\bPP(?P<stage>\d{1,5}) )?\bTP(?P<place>\d{1,5})\] "
    r"Pyspy dump for PID (?P<pid>\d{1,10})"
)
"""SGLang's headline: the place in its group of tensors, which is the rank where that is all; behind
the stage, where there are several."""
_DUMP = re.compile(r"Timeout \(\d|Fatal Python error: (?P<error>.{1,80})")
_STARTS = frozenset("=PTCF[")
"""First letters of headlines: most lines of a log have others."""
_LOCALS = frozenset({"dst", "src", "group_dst", "group_src", "tag"})

TENSORS = "the place in a group of tensors, TP, is taken for the rank"
STAGES = "ranks are taken to stand stage by stage, PP, each with the places TP that were seen"
UNCLEAR = "a wait below Python"
"""What a rank stands in whose innermost frames may wait for a device or in C++ for others."""
_MAY_WAIT = re.compile(r"(?:^|/)torch/(?:autograd|cuda|nn/parallel|futures)/")
_ABORTED = re.compile(r"Aborted|Terminated|Interrupt")

Frames = list[tuple[str, int, str]]


@dataclass
class Thread:
    """One thread: its frames, innermost first, and local variables by frame."""

    name: str = ""
    frames: Frames = field(default_factory=list)
    values: dict[int, dict[str, int]] = field(default_factory=dict)
    is_inside: bool = False


@dataclass
class Process:
    """The stacks of one process at one moment.

    Attributes:
        key: What tells it from other processes, where something does.
        rank: Rank that its headline says.
        stage: Its stage, where the headline says one: ``rank`` is the place in it.
        doubt: What had to be assumed for it to be the rank, or "".
        error: Fatal error that made it write its stacks, or "".
        threads: Its threads.
    """

    key: object = None
    rank: int | None = None
    stage: int | None = None
    error: str = ""
    doubt: str = ""
    threads: list[Thread] = field(default_factory=list)
    has_current: bool = False


class _Local(Struct):
    name: str = ""
    repr: str | None = None


class _Frame(Struct):
    name: str = ""
    filename: str | None = None
    line: int | None = None
    locals: list[_Local] | None = None


class _Row(Struct):
    """A thread of ``py-spy dump --json``, as far as it is read."""

    frames: list[_Frame]
    pid: int = 0
    thread_name: str | None = None


def read_stacks(log: Log, file: str) -> list[Part]:
    """Return one part for every process whose stack a text holds."""
    parts: list[Part] = []
    said: list[tuple[list[Process], int | str | None]] = []
    for who, lines in log.speakers():
        moments: dict[object, list[Process]] = {}
        for number, process in enumerate(_processes(lines)):
            if any(thread.frames for thread in process.threads):
                key = process.key if process.key is not None else ("section", number)
                moments.setdefault(key, []).append(process)
        said += [(own, who) for own in moments.values()]
    # SGLang numbers stage by stage (`rank = pp_rank * tp_size + tp_rank`).
    staged = [process for own, _ in said for process in own if process.stage is not None]
    width = max((process.rank or 0 for process in staged), default=0) + 1
    for process in staged:
        process.rank = (process.stage or 0) * width + (process.rank or 0)
        process.doubt = STAGES
    for own, speaker in said:
        rank = own[-1].rank if own[-1].rank is not None else speaker
        found = [_part(one, file, rank if isinstance(rank, int) else None) for one in own]
        found[-1].has_moved = any(not one.stands_as(found[-1]) for one in found)
        parts.append(found[-1])
    return parts


def read_json_stacks(data: bytes, file: str) -> list[Part]:
    """Return what ``py-spy dump --json`` says: an array of threads, of one process or several.

    Raises:
        PlanError: Not readable.
    """
    found: dict[object, Process] = {}
    for row in decode_json(data, list[_Row], file):
        found.setdefault(row.pid, Process(("pid", str(row.pid)))).threads.append(_json_thread(row))
    return [_part(process, file, None) for process in found.values()]


def _part(process: Process, file: str, rank: int | None) -> Part:
    part = Part("stacks", file, rank=rank, doubt=process.doubt, process=process.key)
    main = max(process.threads, key=_is_main)
    part.stack = program_frames(main.frames)
    for place, (source, _, function) in enumerate(main.frames):
        if "torch/distributed" in source and function in FUNCTIONS:
            part.inside = function
            part.arguments = main.values.get(place, {})
    may_wait = main.is_inside or any(_MAY_WAIT.search(source) for source, *_ in main.frames[:4])
    if part.inside is None and may_wait:
        part.inside = UNCLEAR
    if process.error and not _ABORTED.search(process.error):
        part.crash = process.error
        part.has_ended = True
    return part


def _is_main(thread: Thread) -> tuple[bool, bool, int]:
    """Order threads: the main thread says its name, or ends in ``<module>``; else the deepest."""
    frames = thread.frames
    is_module = any(name == "<module>" for *_, name in frames[-3:])
    return thread.name == "MainThread" and bool(frames), is_module, len(frames)


def _processes(lines: Sequence[Line]) -> list[Process]:
    """Return the processes of one speaker's lines, in order."""
    found: list[Process] = []
    for line in lines:
        text = line.text
        if text[:1] not in _STARTS:
            if text[:1] == " " and found and found[-1].threads:
                _frame(found[-1].threads[-1], text)
            continue
        if text[:1] == "[":
            placed = _PLACED.match(text) if "Pyspy dump" in text else None
            if placed is not None:
                place, stage = int(placed["place"]), placed["stage"]
                number = None if stage is None else int(stage)
                found.append(Process(("place", number, place), place, number, doubt=TENSORS))
            continue
        section, header, dump = _SECTION.match(text), _PROCESS.match(text), _DUMP.match(text)
        if section is not None:
            found.append(Process(("rank", section[1]), int(section[1])))
        elif header is not None:
            if not found or found[-1].threads or found[-1].rank is None:
                found.append(Process(("pid", header[1])))
        elif dump is not None:
            is_new = not found or found[-1].threads or found[-1].rank is None
            if is_new:
                found.append(Process())
            found[-1].error = dump["error"] or ""
        else:
            _thread(found, text)
    return found


def _thread(found: list[Process], text: str) -> None:
    """Take a headline of a thread; a second current one begins another process."""
    spy, fault = _SPY_THREAD.match(text), _FAULT_THREAD.match(text)
    if fault is not None:
        is_current = fault["which"] == "Current thread"
        if not found or (is_current and found[-1].has_current):
            found.append(Process())
        found[-1].has_current |= is_current
        if found[-1].key is None:
            found[-1].key = ("thread", fault["id"])
        found[-1].threads.append(Thread())
    elif spy is not None:
        if not found:
            found.append(Process())
        found[-1].threads.append(Thread(spy["name"] or ""))


def _frame(thread: Thread, text: str) -> None:
    frame = _SPY_FRAME.match(text) or _FAULT_FRAME.match(text)
    if frame is not None and len(thread.frames) < MAX_FRAMES:
        thread.frames.append((frame["file"], int(frame["line"]), frame["name"]))
        return
    if not thread.frames and _SPY_NATIVE.match(text):
        thread.is_inside = True
        return
    local = _SPY_LOCAL.match(text)
    if local is not None and thread.frames and local["name"] in _LOCALS:
        values = thread.values.setdefault(len(thread.frames) - 1, {})
        values[local["name"]] = int(local["value"])


def _json_thread(row: _Row) -> Thread:
    thread = Thread(row.thread_name or "")
    for one in row.frames[:MAX_FRAMES]:
        if not thread.frames and one.name.startswith(("c10d::", "gloo::")):
            thread.is_inside = True
            continue
        thread.frames.append((one.filename or "", one.line or 0, one.name))
        for local in one.locals or ():
            if local.name in _LOCALS and re.fullmatch(r"-?\d{1,9}", local.repr or ""):
                values = thread.values.setdefault(len(thread.frames) - 1, {})
                values[local.name] = int(local.repr or 0)
    return thread
