"""What one rank was seen to issue: actions in order, groups, entries for the ledger."""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakKeyDictionary

from planguard.capture.groups.operators import Operators
from planguard.capture.names.data_names import DATA, Buckets, data_name
from planguard.capture.names.set_orders import TURN, turn_of
from planguard.capture.names.thread_orders import JOINED, STARTED, THREAD, Threads
from planguard.plan.dtypes import of_tensor
from planguard.plan.vocabulary import BLOCKING
from planguard.sources import is_library, is_own

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

_BEYOND = 200
"""Actions of a stuck rank that are recorded, to show what it would do next."""


class Stalled(BaseException):
    """Nobody will ever send what this rank waits for; no ``except Exception`` of a job stops it."""


@dataclass(eq=False)
class Issued:
    """A communication that was issued; its handle, and whether anybody has waited for it."""

    action: dict[str, Any]
    work: str
    waited: bool = False
    batch: Issued | None = None


@dataclass
class Recorder:
    """The log of one rank.

    Attributes:
        rank: Global rank.
        actions: Actions in issue order, as fields of the plan format; ``group`` is a key of
            ``groups``.
        groups: Groups by key: global ranks in group order.
        notes: Ledger entries ``(kind, message, direction)``.
        problems: Why this log cannot stand for another rank's.
        is_closed: The rank is stuck: what it does while it unwinds is no part of the job.
        is_stalled: The rank is stuck, and goes on without values to show what it would do next.
        is_fake: No tensor holds any value.
        is_watched: A value is being read by somebody who will answer for it.
        missing: Key of the store that it waits for in vain.
        left_at: Line that it was called back from (``play/called``).
        store_races: Readings of the store beside which another rank changed what was read.
        store_reads: Readings on which this rank decided: the place, and the key.
        doubted: Where a made-up number was first read, whatever became of it.
        sure: Actions in front of the first reading of one, or of what nobody saw; None for all.
        passes: Walks over loaders of declared length.
        hidden: What may have told this rank of others beside their messages (``play/hidden``).
        before_call: Called before each call: a signal may arrive there.
        collector: Thread in which the garbage collector runs now (``play/collected``); 0 for none.
        futures: Handles by the futures that they gave.
        hooked: Threads that the reducer of DDP waits for before a backward pass returns.
    """

    rank: int
    actions: list[dict[str, Any]] = field(default_factory=list)
    groups: dict[str, list[int]] = field(default_factory=dict)
    notes: list[tuple[str, str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    batch: list[Issued] | None = None
    is_closed: bool = False
    is_stalled: bool = False
    is_fake: bool = False
    is_watched: bool = False
    doubted: str = ""
    sure: int | None = None
    missing: str = ""
    left_at: str = ""
    store_races: set[str] = field(default_factory=set)
    store_reads: dict[str, list[str]] = field(default_factory=dict)
    passes: list[Any] = field(default_factory=list)
    hidden: str = ""
    before_call: Callable[[], None] | None = None
    collector: int = 0
    futures: WeakKeyDictionary[Any, Issued] = field(default_factory=WeakKeyDictionary)
    hooked: list[int] = field(default_factory=list)
    _beyond: int = 0
    _works: int = 0
    _unseen: list[Issued] = field(default_factory=list)
    _library: list[Issued] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.threads = Threads(self.actions)
        self.buckets = Buckets()
        self.operators: Operators | None = None
        self._launch: dict[str, str] = {}

    def group(self, ranks: list[int]) -> str:
        """Return the key of the next group made of these ranks on this rank."""
        place = sum(known == ranks for known in self.groups.values())
        key = ",".join(map(str, ranks)) + (f"#{place}" if place else "")
        self.groups[key] = list(ranks)
        return key

    def created(self, key: str) -> None:
        """Record that this rank called ``new_group`` for a group, as a member or not."""
        self._append({"op": "new_group", "group": key})

    def met(self, key: str) -> None:
        """Record that the members of a group, and nobody else, made it: it is named by them."""
        self._append({"op": "init", "group": key})

    def data(self, sized: Sequence[Any]) -> str | None:
        """Name what a call moves, where more is known of that than its call says."""
        return self.buckets.name(sized)

    def follow_operators(self) -> None:
        """Name the operator and the phase of every call, as the recorder of a real run does."""
        self.operators = Operators()

    def begin_backward(self, tensors: Any) -> None:
        """Say that a backward pass begins."""
        if self.operators is not None:
            self.operators.begin(tensors)

    def leave_backward(self) -> None:
        """Say that the innermost backward pass has returned, or raised."""
        if self.operators is not None and self.operators.windows:
            self.operators.windows.pop()

    def _place(self, count: int | None) -> dict[str, str]:
        """Return the operator and the phase of the call that is being issued."""
        if self.operators is None:
            return {}
        found = self.operators.place(sys._getframe(2), count)  # noqa: SLF001 - no public way
        if found is None:
            return {}
        operator, phase, *_ = json.loads(found)
        return {"ns": operator, "phase": phase}

    def issue(self, op: str, group: str, fields: dict[str, Any]) -> Issued:
        """Record a communication and return its handle.

        Args:
            op: The operation.
            group: Key of its group.
            fields: Its fields in the plan format.

        Raises:
            Stalled: The rank is stuck, and has shown enough of what it would do.
        """
        if self.before_call is not None:
            self.before_call()
        if self.is_stalled and self.is_closed:
            raise Stalled
        if self.collector and self.collector == threading.get_ident():
            self._note_collected(op)
        self._works += 1
        work = f"w{self._works}"
        action = {"op": op, "group": group, **fields}
        place = self._place(fields.get("count"))
        issued = Issued(action, work)
        if self.batch is not None and op in BLOCKING:
            self.batch.append(issued)
            self._launch = place  # a launch stands where its members do
            return issued
        action |= place
        action["work"] = work
        if op not in BLOCKING and op != "batch":
            action["async_"] = True
            if self._is_issued_by_library():
                self._library.append(issued)
        self._append(action)
        return issued

    def _note_collected(self, op: str) -> None:
        """Say that a call has no place among the others: a finalizer issues it."""
        site = call_site()
        where = f" at {site[0]}:{site[1]}" if site else ""
        said = (
            f"rank {self.rank} issues {op}{where} from a finalizer while the garbage collector "
            "runs, which each process does in its own time; close what communicates by a call, or "
            "by a with statement"
        )
        for direction in ("under", "over"):
            self.note("own-answers", said, direction)

    def wait(self, issued: Issued) -> None:
        """Record a wait, once; a wait right behind its issue makes the call a blocking one."""
        target = issued.batch or issued
        if target.waited:
            return
        target.waited = True
        if self._is_last(target.action):
            _block(target.action)
            return
        self._append({"op": "wait", "work": target.work})

    def _is_last(self, action: dict[str, Any]) -> bool:
        """Tell whether its thread, which waits now, has issued nothing behind an action."""
        mine = self.threads.number()
        if mine is not None and mine != action.get(THREAD, 0):
            return False  # another thread waits: the one that issued it goes on
        for one in reversed(self.actions):
            if one["op"] not in (STARTED, JOINED) and one.get(THREAD) == action.get(THREAD):
                return one is action
        return False

    def wait_unseen(self, issued: Issued) -> None:
        """Remember a handle that C++ waits for; ``end_backward`` is when it has done so."""
        if issued not in self._unseen:
            self._unseen.append(issued)

    def end_backward(self) -> None:
        """Record the waits that happened unseen before the backward pass returned."""
        hooked, self.hooked = self.hooked, []
        for number in hooked:
            self.threads.joined(number)
        unseen, self._unseen = self._unseen, []
        works = [issued.work for issued in unseen if not issued.waited]
        for issued in unseen:
            issued.waited = True
        if works:
            self._append({"op": "wait", "work": works[0] if len(works) == 1 else works})

    def end_library(self) -> None:
        """Take what libraries issued and nobody was seen to wait for as waited for at the end.

        DDP under ``Join`` hands some handles to C++, and drops others whose result it never reads.
        Such a handle is no slip of the program; the last place to wait for it orders nothing.
        """
        works = [issued.work for issued in self._library if not issued.waited]
        for issued in self._library:
            issued.waited = True
        self._library = []
        if works:
            self._append({"op": "wait", "work": works[0] if len(works) == 1 else works})

    def _is_issued_by_library(self) -> bool:
        frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - the interpreter has no public way
        while frame is not None and is_door(frame.f_code.co_filename):
            frame = frame.f_back
        return frame is not None and is_library(frame.f_code.co_filename)

    def drop(self, issued: Issued) -> None:
        """Record that a point-to-point handle died before anybody waited for it."""
        target = issued.batch or issued
        if not target.waited and target.action["op"] in BLOCKING:
            target.waited = True
            self._append({"op": "drop", "work": target.work})

    def end_batch(self) -> None:
        """Put the sends and receives since ``batch`` was set into one launch."""
        members, self.batch = self.batch or [], None
        if not members:
            return
        self._works += 1
        work = f"w{self._works}"
        action = {"op": "batch", "ops": [m.action for m in members], **self._launch, "work": work}
        launch = Issued(action, work)
        for member in members:
            member.batch = launch
        self._append(action)

    def note_hidden(self, what: str) -> None:
        """Note what may tell this rank of others beside their messages; the first one is kept."""
        self.hidden = self.hidden or what

    def doubt(self) -> None:
        """Say that what is issued from now on may be other than in a real run."""
        if self.sure is None:
            self.sure = len(self.actions)

    def note(self, kind: str, message: str, direction: str) -> None:
        """Add a ledger entry, once."""
        if (kind, message, direction) not in self.notes:
            self.notes.append((kind, message, direction))

    def give_up(self) -> NoReturn:
        """End a rank that is stuck where going on would rest on what never arrives.

        Raises:
            Stalled: Always.
        """
        self.is_closed = True
        raise Stalled

    def leave(self, place: str) -> None:
        """Note where the rank is called back: what it does while it unwinds is no part of the job.

        The line is the program's.
        """
        self.left_at = self.left_at or place
        self.is_closed = True

    def _append(self, action: dict[str, Any]) -> None:
        if self.is_closed:
            return
        if self.is_stalled:
            self._beyond += 1
            if self._beyond > _BEYOND:  # a loop may never end without values
                self.is_closed = True
                return
        frame = user_frame()
        self._tell_threads_apart(action, frame)
        if frame is not None:
            action["src"] = [frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name]
            marks = {DATA: data_name(frame), TURN: turn_of(frame)}
            action |= {n: v for n, v in marks.items() if v is not None and n not in action}
        self.actions.append(action)

    def _tell_threads_apart(self, action: dict[str, Any], frame: FrameType | None) -> None:
        """Note which thread communicates; leave the plan undecided if nobody saw it start."""
        number = self.threads.number()
        if number:
            action[THREAD] = number
        elif number is None:
            where = f" ({frame.f_code.co_filename}:{frame.f_lineno})" if frame is not None else ""
            said = f"a thread of rank {self.rank} communicates that was there before the job"
            message = f"{said}{where}"
            self.note("host-threads", message, "under")
            self.note("host-threads", message, "over")


_DOORS = (
    "torch/distributed/distributed_c10d.py", "torch/distributed/c10d_logger.py", "torch/_ops.py",
    "torch/distributed/_functional_collectives.py",
    "torch/overrides.py",  # where a mode follows functions, as one does in every script
)  # fmt: skip


def is_door(file: str) -> bool:
    """Tell whether a file only passes a call on: from whoever issues it to the process group."""
    passes = file.startswith("<") or file.endswith(_DOORS) or "torch/utils/" in file
    return passes or is_own(file)


def _block(action: dict[str, Any]) -> None:
    del action["work"]
    action.pop("async_", None)
    action["op"] = BLOCKING.get(action["op"], action["op"])


def call_site() -> tuple[str, int, str] | None:
    """Return file, line and function of the innermost frame that is not torch's or ours."""
    frame = user_frame()
    if frame is None:
        return None
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name


def user_frame() -> FrameType | None:
    """Return the innermost frame that is not torch's or ours."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - torch or the interpreter has no public way
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_library(file):
            return frame
        frame = frame.f_back
    return None


def size(tensor: Any) -> dict[str, Any]:
    """Return the size fields of a tensor."""
    dtype = of_tensor(tensor)
    if dtype is None:
        return {"bytes": tensor.numel() * tensor.element_size()}
    return {"count": tensor.numel(), "dtype": dtype}
