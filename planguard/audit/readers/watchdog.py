"""The words of the watchdog of torch's process groups, one speaker at a time.

Formats: ``ProcessGroupNCCL.cpp`` and ``TraceUtils.h`` of torch 1.8 to 2.14; groups of other
backends copy them. ``Rank R`` in them is the place in the group, not the rank of the job; only in
the default group both agree. Up to 2.2 the group is not printed at all, and in old versions no
number of the call either (seen up to 1.12).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from planguard.audit.readers.flight_calls import element_count, group_size
from planguard.audit.readers.names import operation, program_frames
from planguard.recording import UNNAMED, Call, Observed, Progress

_WORK = re.compile(
    r"(?:\[Rank (?P<place>\d{1,7})\] )?(?:Watchdog caught collective operation timeout: |Work |"
    r"Collective )Work[A-Z]{2,8}\((?:SeqNum=(?P<seq>\d{1,15}), )?OpType=(?P<op>\w{1,40})"
    r"(?:(?P<whole>(?:, NumelIn=(?P<into>\d{1,20}), NumelOut=(?P<out>\d{1,20}))?, Timeout)"
    r"|(?P<cut>(?:,[^()]{0,80})?)\s*$)"
)
_GROUP = re.compile(
    r"\[PG (?:ID \d{1,7} PG GUID )?(?P<name>[^\s()\]]{1,80})\s?(?:\((?P<about>[^()]{1,80})\))? "
    r"Rank (?P<place>\d{1,7})\]"
)
_STATUS = re.compile(
    r"(?:(?:work sequence id:|work:|work) (?P<failed>-?\d{1,20}),? )?(?:PG status: )?"
    r"[Ll]ast enqueued (?:[A-Z]{2,8} )?work: (?P<enqueued>-?\d{1,20}), "
    r"(?:last started work: [^\n]{1,120}?, )?"
    r"last completed (?:(?P<stops>[A-Z]{2,8} )?work: (?P<completed>-?\d{1,20})(?P<end>$)?)?"
)
"""Torch up to 2.5 and the monitor name the library and stop the sentence: a number of theirs at the
end of a line was cut. What was cut is not said."""
_FRAME = re.compile(r"#\d{1,3} (?P<name>\S{1,200}) from (?P<file>\S{1,500}):(?P<line>\d{1,9})$")
_SNAPSHOT = re.compile(r"\s*\[(?P<ranks>\d[\d, ]*)\] (?P<state>started|finished) (?P<op>\w{1,40})")
_NEVER = re.compile(r"\branks? \[(?P<ranks>\d[\d, ]*)\][^\n]{0,60}\. They never joined any")
_ROUND = re.compile(r"\s*#(?P<seq>\d{1,15}) (?:started|finished) ranks:")
_DAY = re.compile(r"\[[IWEF](\d{4}) \d\d:\d\d:\d\d\.\d{1,9} \w{1,60}\.cpp:")
"""glog's prefix: severity, month and day; torch before 2.2 prints none."""
_STUCK_WATCHDOG = re.compile(r"watchdog got stuck for|Heartbeat monitor timed out")
_IS_WATCHDOG = re.compile(r"ProcessGroup[A-Z]\w*\.cpp|Watchdog caught")
ASSUMED = "torch before 2.3 does not print the group: its words are taken for the default group's"
PERIODIC = (
    "status lines that torch prints again and again tell of the moment at which each was printed: "
    "the ranks may have gone on"
)
LARGEST = 1 << 40
"""Number above which a count was never initialized (torch 2.3)."""
PAIRWISE = (
    "a call that timed out is a send, a receive or a launch of several calls: each rank counts its "
    "own sends and receives (torch's seqP2P), so that numbers of this group tell no rank behind"
)
TWO = (
    "two different calls of one number timed out on one rank: they are of two groups, or of two "
    "jobs in one log"
)
PAIRS = frozenset({"SEND", "RECV", "RECVANYSOURCE"})
UNSIZED = frozenset({"COALESCED", "ALLREDUCE_COALESCED", "ALLGATHER_COALESCED", "UNKNOWN"})


@dataclass
class Status:
    """What a rank says of one group: the last call it issued, and the last that completed.

    Attributes:
        enqueued: Number of the last call that was issued.
        completed: Number of the last that completed; 0 if none did.
        is_told: ``completed`` was said; torch 2.3 prints any number before the first completion.
        is_passing: A line said it that is printed again and again: the rank may have gone on.
    """

    enqueued: int = 0
    completed: int = 0
    is_told: bool = False
    is_passing: bool = False


@dataclass
class Words:
    """What the watchdog of one speaker said.

    Attributes:
        rank: Its rank, where its lines say it.
        places: Its place in every group that it names.
        abouts: What the program calls these groups.
        works: Calls that timed out, by place in the group (None where it is not said) and number.
        unnumbered: The call that timed out of each place, where its line has no number.
        failed: The groups of those calls, by place and number.
        status: Last calls by group.
        pairwise: Calls whose numbers may be those of sends and receives, by place and number.
        sizes: Number of members of a group, by the place and number of a call whose sizes show it.
        snapshot: What a desync report says of the members of a group: rank, number, call, state.
        never: Members of whom it says that they joined no call of the group.
        is_stuck: Its watchdog itself made no progress.
        is_late: A collective timed out, somewhere: its dump signal says so.
        is_two: Two different calls of one number timed out: of two groups, or of two processes.
        spoke: It said anything at all.
        day: Month and day of its last words, in the form of glog.
    """

    rank: int | None = None
    places: dict[str, int] = field(default_factory=dict)
    abouts: dict[str, str] = field(default_factory=dict)
    works: dict[tuple[int | None, int], Call] = field(default_factory=dict)
    unnumbered: dict[int | None, str] = field(default_factory=dict)
    failed: dict[tuple[int, int], str] = field(default_factory=dict)
    status: dict[str, Status] = field(default_factory=dict)
    pairwise: set[tuple[int | None, int]] = field(default_factory=set)
    sizes: dict[tuple[int | None, int], int] = field(default_factory=dict)
    snapshot: list[tuple[int, int, str, str]] = field(default_factory=list)
    never: set[int] = field(default_factory=set)
    is_stuck: bool = False
    is_late: bool = False
    is_two: bool = False
    spoke: bool = False
    day: str = ""
    _round: int = 0
    _last: tuple[int | None, int] | None = None
    _frames: list[tuple[str, int, str]] = field(default_factory=list)

    def hear(self, text: str) -> None:
        """Take one line."""
        if text.startswith("#") and self._last is not None:
            self._frame(text)
            return
        if text[:1].isspace() and (self._round or "ranks:" in text or "joined" in text):
            self._report(text)
            return
        if "ank" not in text and "work" not in text:
            return
        self.spoke = self.spoke or _IS_WATCHDOG.search(text) is not None
        if (day := _DAY.search(text)) is not None:
            self.day = day[1]
        self.is_late = self.is_late or "due to a collective timeout" in text
        self.is_stuck = self.is_stuck or _STUCK_WATCHDOG.search(text) is not None
        group = None
        if (said := _GROUP.search(text)) is not None:
            group = group_of(said["name"], said["about"] or "")
            if group == "world" and self.rank not in (None, int(said["place"])):
                return  # a launcher mixed the lines of two processes
            self.places[group] = int(said["place"])
            if said["about"] and group != "world":
                self.abouts[group] = said["about"]
        if (work := _WORK.search(text)) is not None:
            self._work(work, group)
        elif (status := _STATUS.search(text)) is not None:
            self._status(status, group)

    def _work(self, work: re.Match[str], group: str | None) -> None:
        place = int(work["place"]) if work["place"] else None
        if group is not None and place is None:
            place = self.places[group]
        if work["seq"] is None:
            if work["whole"] is not None:  # of a name that is cut nobody knows how it goes on
                self.unnumbered.setdefault(place, operation(work["op"].lower()))
            return
        key = place, int(work["seq"])
        if key in self.works and _differ(self.works[key], _call(work)[0]):
            self.is_two = True
        if key not in self.works or self.works[key].op == UNNAMED:  # the line was cut before
            call, size = _call(work)
            self.works[key] = call
            if work["op"] in PAIRS or (work["op"] == "COALESCED" and not call.shape):
                self.pairwise.add(key)
            if size is not None:
                self.sizes[key] = size
        self._last, self._frames = key, []
        if group is not None and place is not None:
            self.failed[place, key[1]] = group

    def _status(self, status: re.Match[str], group: str | None) -> None:
        if group is None:
            return
        one = self.status.setdefault(group, Status())
        enqueued = int(status["enqueued"])
        # `ProcessGroupNCCL::watchdogHandler` of torch 2.3 on prints it in a running job.
        is_periodic = "update periodically" in status.string
        if not is_periodic or enqueued > one.enqueued:
            one.is_passing = is_periodic
        if 0 <= enqueued < LARGEST:
            one.enqueued = max(one.enqueued, enqueued)
        is_cut = status["stops"] is not None and status["end"] is not None
        if status["completed"] is not None and not is_cut:
            completed = int(status["completed"])
            if -1 <= completed <= one.enqueued:
                one.completed, one.is_told = max(one.completed, completed), True
        if status["failed"] is not None:
            self.failed.setdefault((self.places[group], int(status["failed"])), group)

    def _frame(self, text: str) -> None:
        frame = _FRAME.match(text)
        if frame is None or self._last is None or len(self._frames) >= 64:
            return
        self._frames.append((frame["file"], int(frame["line"]), frame["name"]))
        call = self.works[self._last]
        stack = program_frames(self._frames)
        if stack != call.stack:
            fields = {name: getattr(call, name) for name in call.__struct_fields__}
            self.works[self._last] = Call(**{**fields, "stack": stack})

    def _report(self, text: str) -> None:
        if (round_ := _ROUND.match(text)) is not None:
            self._round = int(round_["seq"])
        elif (never := _NEVER.search(text)) is not None:
            self.never |= _numbers(never["ranks"])
        elif (rows := _SNAPSHOT.match(text)) is not None and self._round:
            op = operation(rows["op"].strip("_").lower())
            for rank in sorted(_numbers(rows["ranks"])):
                self.snapshot.append((rank, self._round, op, rows["state"]))

    def group_of_work(self, place: int | None, seq: int) -> str | None:
        """Return the group of a call that timed out, None where nothing says it."""
        if place is not None and (place, seq) in self.failed:
            return self.failed[place, seq]
        fitting = [name for name, own in self.places.items() if place in (None, own)]
        return fitting[0] if len(fitting) == 1 else None


def _numbers(listed: str) -> set[int]:
    return {int(rank) for rank in re.findall(r"\d{1,7}", listed)[:100_000]}


def counted(text: str) -> tuple[str, int] | None:
    """Return the group that a line tells of, and the last call issued on it; None of other lines.

    The counts of a process only grow.
    """
    if "nqueued" not in text:
        return None
    said, status = _GROUP.search(text), _STATUS.search(text)
    if said is None or status is None or not 0 <= int(status["enqueued"]) < LARGEST:
        return None
    return group_of(said["name"], said["about"] or ""), int(status["enqueued"])


def group_of(name: str, about: str) -> str:
    """Return the name that recordings use for a group of a log."""
    return "world" if about == "default_pg" or name in ("0", "default_pg") else name


def rows(words: Words, group: str, works: list[tuple[int, Call]]) -> list[Observed]:
    """Return what a speaker said of one group: finished, timed out and last issued calls."""
    status = words.status.get(group, Status())
    told = {seq for seq, _ in works}
    if is_pairwise(words, works):
        return [
            Observed(_on(call, group), seq, Progress.ISSUED)
            for seq, call in works
            if not call.is_collective
        ]
    more = {seq for (_, seq), own in words.failed.items() if own == group}
    if status.is_told and status.enqueued > status.completed:
        more.add(status.completed + 1)  # calls of a group end in order: this one holds the others
    works = [*works, *((seq, Call(UNNAMED)) for seq in more - told if 0 < seq < LARGEST)]
    found: list[Observed] = []
    if status.completed:
        found.append(Observed(Call(UNNAMED, group), status.completed, Progress.COMPLETED))
    for seq, call in sorted(dict(reversed(works)).items()):
        if seq > status.completed:
            found.append(Observed(_on(call, group), seq, Progress.ISSUED))
    last = max((one.position for one in found if one.call.is_collective), default=0)
    if status.enqueued > last:
        found.append(Observed(Call(UNNAMED, group), status.enqueued, Progress.ISSUED))
    return found


def _differ(one: Call, other: Call) -> bool:
    """Tell whether two calls are surely not the same: what a line does not say may be equal."""
    if UNNAMED in (one.op, other.op):
        return False
    sizes = one.shape, other.shape
    return one.op != other.op or (None not in sizes and sizes[0] != sizes[1])


def is_pairwise(words: Words, works: list[tuple[int, Call]]) -> bool:
    """Tell whether the numbers of a group may count the sends and receives of one rank.

    ``ProcessGroupNCCL::initWork`` gives a send or receive the number ``seqP2P_``, which a rank
    counts for itself, and the status line tells the number of whatever was enqueued last (torch
    2.13.0). A launch of several calls is of either kind; one of sends and receives has no size: 0
    up to 2.4, later the largest number.
    """
    numbers = {seq for seq, _ in works}
    return any(seq in numbers for _, seq in words.pairwise)


def _on(call: Call, group: str) -> Call:
    fields = {name: getattr(call, name) for name in call.__struct_fields__}
    return Call(**{**fields, "group": group})


def _call(work: re.Match[str]) -> tuple[Call, int | None]:
    """Return a call, and the number of members of its group where its sizes show it."""
    name = work["op"]
    if work["whole"] is None and not work["cut"]:
        return Call(UNNAMED), None  # the line ends inside the name
    op = operation(name.lower())
    sizes = (int(work[k]) if work[k] else None for k in ("into", "out"))
    # What was not given is -1, printed as the largest number (torch 2.5 on).
    into, out = (None if size is None or size >= LARGEST else size for size in sizes)
    if name in UNSIZED:
        # Of several tensors the sizes are those of the first (`initWork`); launches of pairs say 0.
        shape = (into, out) if into and out else None
        return Call(UNNAMED if op == name.lower() else op, shape=shape), None
    count, shape = element_count(op, into, out)
    return Call(op, count=count, shape=shape), group_size(op, into, out)
