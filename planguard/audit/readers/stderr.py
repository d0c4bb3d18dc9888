"""What ranks print when a job hangs: watchdog, gloo, DETAIL mode, tracebacks.

Each speaker of a log becomes a part: the calls its watchdog names, the call its traceback ends in,
the error that made it leave. Who timed out first, was aborted or ended by the launcher is a victim,
and nothing is concluded from it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planguard.audit.readers.desync import reported
from planguard.audit.readers.detail import mismatch
from planguard.audit.readers.models import compared
from planguard.audit.readers.names import program_frames
from planguard.audit.readers.part import WITHOUT_TRACEBACK, Part, PartGroup
from planguard.audit.readers.text_log import GOES_ON
from planguard.audit.readers.watchdog import (
    ASSUMED,
    PAIRWISE,
    PERIODIC,
    TWO,
    Words,
    is_pairwise,
    rows,
)
from planguard.plan.vocabulary import FUNCTIONS
from planguard.recording import BARRIER, Absence, Call, Observed, Progress, Track
from planguard.words import clean, name_ranks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.audit.readers.detail import Side
    from planguard.audit.readers.text_log import Line, Log
    from planguard.verdict import Source

MAX_FRAMES = 300
_BEGIN = "Traceback (most recent call last):"
_IGNORED = "Exception ignored in"
"""Python's words over the traceback of an error that it drops: a finalizer's, for example."""
_FRAME = re.compile(r"\s*File \"(?P<file>[^\"]{1,500})\", line (?P<line>\d{1,9}), in (?P<name>\S+)")
_ERROR = re.compile(r"(?P<type>[A-Za-z_][\w.]{0,120})(?:: (?P<text>.*))?$")
ABANDONED = re.compile(
    r"Timed out|[Tt]imeout|timed out|Connection (?:closed|reset|refused)|Broken pipe|"
    r"[Mm]onitored_?[Bb]arrier|Detected mismatch between|EnforceNotMet|enforce fail|NCCL|gloo|"
    r"DistBackendError|DistStoreError|DistNetworkError|DistError|[Ss]ocket|TCPStore|\bpeer\b|"
    r"KeyboardInterrupt|SystemExit|SignalException|GracefulExit|ChildFailedError|EOFError|"
    r"RayActorError|RayTaskError|ProcessRaisedException|ProcessExitedException|BrokenPipe|"
    r"CUDA error|cudaError|AcceleratorError|WatchDog|watchdog|heartbeat|"
    r"[Bb]arrier has failed|Barrier failed|JAX distributed service|CoordinationService|"
    r"\b(?:UNAVAILABLE|DEADLINE_EXCEEDED|ABORTED|CANCELLED): |"
    r"DDP expects same model|appears not to match (?:sizes|strides) of the same param"
)
"""Errors that others, a time limit or a signal may have caused: who shows one may be a victim."""
_LATE = re.compile(r"Ranks? (?P<who>\d[\d, ]*) failed to pass monitoredBarrier")
_ENFORCE = re.compile(r"op\.preamble\.length <= op\.nbytes\. (\d{1,15}) vs (\d{1,15})")
_MEMORY = re.compile(
    r"(?:[\w.]{0,60}OutOfMemoryError|RuntimeError|ValueError): .{0,200}?out of memory.{0,200}|"
    r"CUDA out of memory\. Tried to allocate.{0,200}|"
    r"terminate called after throwing an instance of 'std::bad_alloc'"
)
"""An error that people paste without its traceback; a program may have gone on behind it."""
_DEVICE = re.compile(r"watchdog thread terminated with exception: (CUDA error: [^\n]{1,200})")
"""``ProcessGroupNCCL::Watchdog::run`` (torch 2.13.0): its device failed, and the process ends."""
_OWN_DEVICE = re.compile(
    r"CUDA error: (?:an illegal memory access|device-side assert|uncorrectable ECC|unspecified "
    r"launch failure|misaligned address|an illegal instruction)"
)
"""Errors of a rank's own kernels. Those of its links may come of the end of a peer."""
_BACKWARD = re.compile(r"(?:^|/)torch/autograd/")
UNNAMED_GROUP = "?unnamed"
UNSAID_GROUP = "a call that timed out does not say its group"
ALIKE = f"{UNSAID_GROUP}: it is taken for that in which others made the same call"


@dataclass
class Trace:
    """One traceback: frames, outermost first, and the error behind them."""

    frames: list[tuple[str, int, str]] = field(default_factory=list)
    error: str = ""


Known = dict[tuple[int, Call], set[str]]
"""The groups in which speakers say that a call of a number failed."""


@dataclass
class Voice:
    """Everything that one speaker said.

    Attributes:
        words: What its watchdog said.
        traces: Its tracebacks.
        late: Places that it says failed to come to a monitored barrier.
        fingerprint: Its own side of a mismatch that DETAIL mode saw: place, round, call.
        other: The other side, where it can be trusted.
        unsure: What had to be assumed to read the other side so, or "".
        enforced: It was aborted by gloo for a message longer than its buffer: both lengths.
        process: Which process its launcher says that it is, where that is no rank.
        memory: The first line that says that memory ran out, outside of any traceback.
        device: An error of its device that ended it, before any of its calls timed out.
        has_outlived: Its watchdog timed out a call behind a traceback: the process went on.
        models: What DDP says of the models of ranks, by rank.
        place: The rank that DDP says that it is.
    """

    words: Words = field(default_factory=Words)
    traces: list[Trace] = field(default_factory=list)
    late: set[int] = field(default_factory=set)
    fingerprint: Side | None = None
    other: Side | None = None
    unsure: str = ""
    enforced: tuple[int, int] | None = None
    process: str = ""
    memory: str = ""
    device: str = ""
    has_outlived: bool = False
    models: dict[int, str] = field(default_factory=dict)
    place: int | None = None


def read_stderr(log: Log, file: str) -> list[Part]:
    """Return one part for every speaker of a log that says something of its communication."""
    parts: list[Part] = []
    heard = [
        (rank, is_place, _voice(lines, None if is_place else rank))
        for rank, is_place, lines in log.voices()
    ]
    # From torch 2.3 on groups are printed: a line without one does not mean the default group.
    known: Known | None = None
    if any(voice.words.places for *_, voice in heard):
        known = {}
        for *_, voice in heard:
            for (place, seq), call in voice.words.works.items():
                if (group := voice.words.group_of_work(place, seq)) is not None:
                    known.setdefault((seq, _bare(call)), set()).add(group)
    named = {said for _, is_place, voice in heard if not is_place for said in _places(voice)}
    for rank, is_place, voice in heard:
        if is_place and voice.words.places and _places(voice) <= named:
            continue  # `what():` repeats without a prefix what a rank with one has said
        part = _part(voice, file, rank, known)
        if part is not None:
            if is_place and "world" not in voice.words.places:
                part.doubt = part.doubt or ASSUMED
            parts.append(part)
            parts += reported(voice.words, part)
            parts += _other_side(voice, part)
    return parts


def _places(voice: Voice) -> set[tuple[str, int]]:
    return set(voice.words.places.items())


def _bare(call: Call) -> Call:
    """Return a call without its place in the program, for comparison with those of others."""
    fields = {name: getattr(call, name) for name in call.__struct_fields__}
    return Call(**{**fields, "stack": ()})


def _other_side(voice: Voice, speaker: Part) -> list[Part]:
    """Return what a speaker says of the rank that it differs from, in the default group."""
    if voice.other is None or not speaker.track.calls or speaker.track.calls[-1].group != "world":
        return []
    place, number, call = voice.other
    fields = {name: getattr(call, name) for name in call.__struct_fields__}
    seen = Observed(Call(**{**fields, "group": "world"}), number, Progress.ISSUED)
    part = Part("stderr", speaker.file, rank=place, track=Track.of([seen]))
    part.backend, part.doubt = speaker.backend, voice.unsure
    if voice.fingerprint is not None and place > voice.fingerprint[0]:
        # Members stand in ascending order: below a place that is its rank, all places are.
        part.doubt = (
            part.doubt or "the rank that DETAIL mode names may be a place in a smaller group"
        )
    return [part]


def _voice(lines: Sequence[Line], rank: int | None = None) -> Voice:
    voice = Voice(Words(rank))
    if lines and isinstance(lines[0].who, str):
        voice.process = lines[0].who
    trace: Trace | None = None
    is_ignored = False
    for line in lines:
        text, timed_out = line.text, len(voice.words.works)
        voice.words.hear(text)
        if voice.traces and voice.traces[0].error and len(voice.words.works) > timed_out:
            voice.has_outlived = True
        if _IGNORED in text:
            is_ignored = True
        if _BEGIN in text:
            trace = Trace()
            if not is_ignored:
                voice.traces.append(trace)
            is_ignored = False
            continue
        if trace is not None and not trace.error:
            trace = _continued(trace, text)
            _mark(voice, text)
            continue
        if (voice.traces or voice.memory) and GOES_ON.search(text):
            voice.traces.clear()
            trace, voice.memory = None, ""
        elif (
            ("memory" in text or "bad_a" in text)
            and not voice.memory
            and (said := _MEMORY.search(text)) is not None
        ):
            voice.memory = said[0][:300]
        _mark(voice, text)
    return voice


def _continued(trace: Trace, text: str) -> Trace:
    frame = _FRAME.match(text)
    if frame is not None:
        if len(trace.frames) < MAX_FRAMES:
            trace.frames.append((frame["file"], int(frame["line"]), frame["name"]))
    elif text[:1].strip() and trace.frames and (said := _ERROR.match(text)) is not None:
        trace.error = said[0][:300]
    return trace


def _mark(voice: Voice, text: str) -> None:
    if "Barrier" in text and (late := _LATE.search(text)) is not None:
        voice.late |= {int(n) for n in re.findall(r"\d{1,7}", late["who"])}
    if "FingerPrint" in text and voice.fingerprint is None:
        said = mismatch(text)
        if said is not None:
            voice.fingerprint, voice.other, voice.unsure = said
    if "CUDA error" in text and not (voice.device or voice.words.works):
        # Later errors may come of the end of a peer whose memory it reads.
        ended = _DEVICE.search(text)
        voice.device = ended[1].strip() if ended is not None else ""
    if " param" in text and (told := compared(text)) is not None:
        voice.place = told[0] if voice.place is None else voice.place
        voice.models |= told[1]
    if "preamble" in text and (short := _ENFORCE.search(text)) is not None:
        voice.enforced = int(short[1]), int(short[2])


def _part(voice: Voice, file: str, rank: int | None, known: Known | None) -> Part | None:
    words = voice.words
    said = (
        words.spoke
        or words.unnumbered
        or voice.traces
        or voice.late
        or voice.fingerprint
        or voice.enforced
        or voice.place is not None
    )
    if not (said or voice.memory):
        return None
    part = Part("stderr", file, rank=rank, process=voice.process or None, day=words.day)
    _from_watchdog(part, words, known)
    _from_traces(part, voice)
    if part.rank is None and "world" in words.places:
        part.rank = words.places["world"]
    part.models = voice.models
    if part.rank is None:
        part.rank = voice.place
    if words.unnumbered and part.inside is None and not len(part.track):
        _unnumbered(part, words)
    if voice.fingerprint is not None:
        _from_detail(part, voice.fingerprint)
    if voice.late:
        part.backend = part.backend or "gloo"
        late = tuple(sorted(voice.late))
        # Places in the group of the barrier, which is the default one as a rule.
        part.absences = (Absence(BARRIER, late, by="the monitored barrier"),)
    if voice.device:
        part.crash, part.has_ended, part.inside = voice.device, True, None
    elif voice.memory and not voice.traces:
        part.crash = voice.memory
        part.doubt = WITHOUT_TRACEBACK
    if voice.enforced is not None:
        part.backend, part.oversized = "gloo", voice.enforced
    if words.is_stuck:
        part.trouble = (
            f"the watchdog of {'a rank' if part.rank is None else name_ranks([part.rank])} made no "
            "progress itself, which says nothing of collectives: a thread that holds the GIL, a "
            "device call or a file system; py-spy dump --native shows which"
        )
        part.remarks.append(part.trouble)
    elif words.is_late:
        part.trouble = "a collective timed out, by the words of a watchdog"
    return part


def _from_watchdog(part: Part, words: Words, known: Known | None) -> None:
    if words.spoke:
        part.backend = "nccl"
    if any(status.is_passing for status in words.status.values()):
        part.doubt = PERIODIC
    works: dict[str, list[tuple[int, Call]]] = {}
    for (place, seq), call in words.works.items():
        group = words.group_of_work(place, seq)
        if group is None:
            assumed = known is None
            alike = (known or {}).get((seq, _bare(call)), set())
            group = "world" if assumed else next(iter(alike)) if len(alike) == 1 else UNNAMED_GROUP
            part.doubt = ASSUMED if assumed else ALIKE if len(alike) == 1 else UNSAID_GROUP
            if part.rank is None:
                part.rank = place
            if alike and place is not None and group not in words.places:
                words.places[group] = place
        works.setdefault(group, []).append((seq, call))
        size = words.sizes.get((place, seq))
        if size is not None:
            part.groups.setdefault(group, PartGroup()).size = size
    observed: list[Observed] = []
    for group in dict.fromkeys((*words.status, *works, *words.places)):
        own = part.groups.setdefault(group, PartGroup())
        own.description, own.backend = words.abouts.get(group, ""), "nccl"
        if group in words.places and part.rank is not None:
            own.places[words.places[group]] = part.rank
        own_works = works.get(group, [])
        if is_pairwise(words, own_works):
            part.doubt = PAIRWISE
        observed += rows(words, group, own_works)
    if words.is_two:
        part.doubt = TWO
    part.track = Track.of(observed)


def _unnumbered(part: Part, words: Words) -> None:
    """Take a call that timed out of which no number is said: where its rank stood, as of a stack.

    The first one is the oldest: the watchdog looks at calls in their order.
    """
    place, op = next(iter(words.unnumbered.items()))
    part.inside = op
    if part.rank is None:
        part.rank = place
        part.doubt = ASSUMED


def _from_traces(part: Part, voice: Voice) -> None:
    """Take where the first traceback ends that others may have caused, else the first of all."""
    if not voice.traces:
        return
    ended = [trace for trace in voice.traces if trace.error] or voice.traces[:1]
    first = next((trace for trace in ended if _is_of_others(trace.error, voice)), ended[0])
    inner = list(reversed(first.frames))
    part.stack = program_frames(inner)
    for source, _, function in inner:
        if "torch/distributed" in source and function in FUNCTIONS:
            part.inside = function
    is_backward = any(_BACKWARD.search(source) for source, *_ in inner)
    if part.inside is None and is_backward and ABANDONED.search(first.error):
        part.inside = "backward"
    whose = "a rank" if part.rank is None else name_ranks([part.rank])
    own = f"{whose} printed an error of its own"
    if first is not ended[0]:
        part.remarks.append(f"{own} before it stood there: {clean(ended[0].error)}")
    if first.error and not _is_of_others(first.error, voice):
        part.inside = None
        if voice.has_outlived:  # a sample that could not be read, for example
            part.stack = ()
            behind = "and its watchdog timed out a call behind it: it caught the error, or its "
            part.remarks.append(f"{own}, {behind}process could not end: {clean(first.error)}")
        else:
            part.crash, part.has_ended = first.error, True
    if part.inside is not None:
        _site(part, part.stack)
        part.backend = part.backend or ("gloo" if "gloo" in first.error else None)


def _is_of_others(error: str, voice: Voice) -> bool:
    """Tell whether others, a time limit or a signal may have caused an error."""
    if _OWN_DEVICE.search(error) and not voice.words.works:
        return False
    return ABANDONED.search(error) is not None


def _site(part: Part, stack: tuple[Source, ...]) -> None:
    """Give the calls that timed out the place of the traceback where they have none."""
    for place, call in enumerate(part.track.calls):
        if call.is_collective and not call.stack and call.op == part.inside:
            fields = {name: getattr(call, name) for name in call.__struct_fields__}
            part.track.calls[place] = Call(**{**fields, "stack": stack})


def _from_detail(part: Part, side: Side) -> None:
    place, number, call = side
    group = "world"
    if part.rank is not None and part.rank != place:
        group = UNNAMED_GROUP
        part.groups[group] = PartGroup(places={place: part.rank})
    if part.rank is None:
        part.rank = place
    fields = {name: getattr(call, name) for name in call.__struct_fields__}
    own = Call(**{**fields, "group": group, "stack": part.stack})
    part.track = Track.of([*part.track, Observed(own, number, Progress.ISSUED)])
    part.inside = None
