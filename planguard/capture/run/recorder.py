"""Writes what one rank issues into its log, with the call stacks."""

from __future__ import annotations

import json
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.capture.groups.operators import Operators, current_node
from planguard.capture.run.held import Followed, following_mode
from planguard.capture.run.log import Kind, RunLogWriter
from planguard.capture.run.values import name_of
from planguard.plan.vocabulary import BLOCKING
from planguard.recording.compare import PROLOGUE
from planguard.sources import is_library

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import CodeType, FrameType

FRAMES = 16


@dataclass(eq=False, slots=True)
class Handle:
    """A communication that was issued.

    Attributes:
        number: Its number in the log.
        op: Operation.
        is_waited: Somebody was seen waiting for it.
    """

    number: int
    op: str
    is_waited: bool = False


class RunRecorder:
    """The recorder of one rank: what ``Recorder`` keeps in memory, this one writes at once.

    Args:
        rank: Global rank.
        log: Where to.
        frames: Frames of a call stack that are kept; 0 keeps none.
        values: Record a few values of what every call moves.

    Attributes:
        groups: Ranks of every group by key.
        names: Keys of groups by torch's names.
    """

    def __init__(
        self, rank: int, log: RunLogWriter, *, frames: int = FRAMES, values: bool = False
    ) -> None:
        self.rank = rank
        self.log = log
        self.frames = frames
        self.values = values
        self.groups: dict[str, list[int]] = {}
        self.names: dict[str, str] = {}
        self.problems: list[str] = []
        self.batch = 0
        self._batches = 0
        self._works = 0
        self._unseen: list[Handle] = []
        self._stacks: dict[tuple[int, ...], int] = {}
        self._codes: dict[int, tuple[CodeType, bool, bool]] = {}
        self._operators = Operators() if frames else None
        self._backwards: list[int] = []
        self.followed: Followed | None = None
        self._has_lost = False
        self._keys: dict[str, int] = {}
        self._sized: Sequence[Any] = ()
        self.callbacks_run_aside = False
        self._callbacks = threading.local()
        self._noted: set[tuple[str, str]] = set()

    def follow(self) -> Any:
        """Begin to follow gradients; return the mode that shows operators, None if it is there."""
        if self._operators is None or self.followed is not None:
            return None
        self.followed = Followed(self._operators)
        return following_mode(self.followed)

    def group(self, ranks: list[int]) -> str:
        """Return the key of the next group made of these ranks on this rank."""
        place = sum(known == ranks for known in self.groups.values())
        key = ",".join(map(str, ranks)) + (f"#{place}" if place else "")
        self.groups[key] = list(ranks)
        return key

    def created(self, key: str) -> None:
        """Record that this rank called ``new_group`` for a group, as a member or not."""
        self.log.small(Kind.CREATED, self.log.string(json.dumps(key)), self.stack())

    def met(self, key: str) -> None:
        """Record that the members of a group, and nobody else, made it: it is named by them."""
        self.log.small(Kind.MET, self.log.string(json.dumps(key)), self.stack())

    def data(self, sized: Sequence[Any]) -> str | None:
        """Name nothing: the calls of a run carry their operator instead (``issue``)."""
        if self.values or self.followed is not None:
            self._sized = sized
        return None

    def issue(self, op: str, group: str, fields: dict[str, Any]) -> Handle:
        """Record a communication before it is handed on."""
        self._works += 1
        number = self._works
        if self.callbacks_run_aside and self._inside() > 0:
            self._note_callback()
        if self._operators is not None:
            found = self._operators.place(sys._getframe(1), fields.get("count"))  # noqa: SLF001 - no public way
            if found is not None:
                self.log.small(Kind.PLACE, number, self.log.string(found))
        if self.values or self.followed is not None:
            self._holds(number)
        self.log.call(
            Kind.CALL,
            op,
            work=number,
            group=self._key(group),
            stack=self.stack(),
            batch=self.batch if op in BLOCKING else 0,
            fields=fields,
            thread=self._thread(),
        )
        return Handle(number, op)

    @contextmanager
    def in_callback(self) -> Iterator[None]:
        """Take the calls of this thread for those of a callback, to the end of the block."""
        self._callbacks.inside = self._inside() + 1
        try:
            yield
        finally:
            self._callbacks.inside -= 1

    def _inside(self) -> int:
        """Return how many callbacks this thread runs in now."""
        return int(getattr(self._callbacks, "inside", 0))

    def _note_callback(self) -> None:
        """Say that the order of calls is that of this run, wherever the callback happened to run.

        One that is added when its future is complete by luck runs in the thread that adds it.
        """
        said = (
            f"rank {self.rank} communicates in a callback of a future; gloo runs it in a thread of "
            "its own, so that its order beside other calls is that of this run alone: play the "
            "job (--stub, precheck)"
        )
        for direction in ("under", "over"):
            if (said, direction) not in self._noted:
                self._noted.add((said, direction))
                self.note("host-threads", said, direction)

    def _key(self, group: str) -> int:
        """Return the number of a group's key in the log."""
        number = self._keys.get(group)
        if number is None:
            number = self._keys[group] = self.log.string(json.dumps(group))
        return number

    def _holds(self, number: int) -> None:
        """Record what the tensors of the call that comes next hold."""
        sized, self._sized = self._sized, ()
        if self.values and sized:
            self._value("in", number, sized)
        if self.followed is not None and sized:
            found = self.followed.holds(sized)
            if found is not None:
                self.log.small(Kind.HOLDS, number, self.log.string(found))
            if self.followed.lost and not self._has_lost:
                self._has_lost = True
                said = f"what buffers hold was followed only up to {self.followed.lost}"
                self.note("fused-buffers", said, "exact")

    def saw_result(self, handle: Handle, tensors: Sequence[Any]) -> None:
        """Record a few values of what a call gave, when its wait came back."""
        if self.values and tensors:
            self._value("out", handle.number, tensors)

    def _value(self, side: str, number: int, tensors: Sequence[Any]) -> None:
        found = name_of(tensors)
        if found is not None:
            self.log.small(Kind.VALUES, number, self.log.string(json.dumps([side, found])))

    def witness(self, op: str, group: str, fields: dict[str, Any]) -> None:
        """Record what the dispatcher saw, beside the calls of the group."""
        key = self._key(group)
        self.log.call(Kind.WITNESS, op, work=0, group=key, stack=0, batch=0, fields=fields)

    def wait(self, handle: Handle) -> None:
        """Record that the host begins to wait."""
        if not handle.is_waited:
            handle.is_waited = True
            self.log.small(Kind.WAIT, handle.number, self.stack(), self._thread())

    def done(self, handle: Handle) -> None:
        """Record that a wait came back."""
        self.log.small(Kind.DONE, handle.number, 0, self._thread())

    def wait_unseen(self, handle: Handle) -> None:
        """Remember a handle that C++ waits for; ``end_backward`` is when it has done so."""
        if handle not in self._unseen and not handle.is_waited:
            self._unseen.append(handle)
            self.log.small(Kind.UNSEEN, handle.number)

    def begin_backward(self, tensors: Any) -> None:
        """Say that a backward pass begins, whose calls autograd may make from a thread of its own.

        Those stand for this thread, which waits for them.
        """
        self._backwards.append(threading.get_native_id())
        if self._operators is not None:
            self._operators.begin(tensors)
        if self.followed is not None:
            self.followed.begin()

    def leave_backward(self) -> str | None:
        """Forget the innermost backward pass; return what orders the calls of its hooks."""
        if not self._backwards:
            return None
        self._backwards.pop()
        if self.followed is not None:
            self.followed.end()
        return self._operators.end() if self._operators is not None else None

    def _thread(self) -> int:
        """Return the thread that a call stands for: autograd's own stand for the one it serves."""
        mine = threading.get_native_id()
        if not self._backwards or mine in self._backwards or current_node() is None:
            return mine
        return self._backwards[-1]

    def end_backward(self) -> None:
        """Record that a backward pass returned, and with it the waits that C++ did."""
        found = self.leave_backward()
        if found is not None:
            self.log.small(Kind.PASS, self.log.string(found))
        for handle in self._unseen:
            handle.is_waited = True
        if self._unseen:
            self._unseen = []
            self.log.small(Kind.BACKWARD, 0, self.stack())

    def drop(self, handle: Handle) -> None:
        """Record that a point-to-point handle died before anybody waited for it."""
        if not handle.is_waited and handle.op in BLOCKING:
            handle.is_waited = True
            self.log.small(Kind.DROP, handle.number)

    def begin_batch(self) -> None:
        """Put the sends and receives from here on into one launch."""
        self._batches += 1
        self.batch = self._batches

    def end_batch(self) -> None:
        """End the launch."""
        self.batch = 0

    def note(self, kind: str, message: str, direction: str) -> None:
        """Add a ledger entry."""
        text = json.dumps([kind, message, direction])
        self.log.small(Kind.NOTE, self.log.string(text))

    def stack(self) -> int:
        """Return the number of the current call stack: its innermost frames, as far as the user's.

        A stack that was seen before costs one walk and one look-up.
        """
        if not self.frames:
            return 0
        frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - the interpreter has no public way
        key: list[int] = []
        chain: list[FrameType] = []
        found = False
        codes, left = self._codes, self.frames
        while frame is not None:
            code = frame.f_code
            number = id(code)
            known = codes.get(number)
            if known is None:
                known = self._new_code(code)
            if left > 0 or known[2]:
                key += number, frame.f_lasti
                chain.append(frame)
                left -= 1
                found = found or not known[1]
            if left <= 0 and found:
                break
            frame = frame.f_back
        place = tuple(key)
        string = self._stacks.get(place)
        if string is None:
            rows = [
                [f.f_code.co_filename, f.f_lineno, f.f_code.co_name, int(codes[id(f.f_code)][1])]
                for f in chain
            ]
            string = self._stacks[place] = self.log.string(json.dumps(rows))
        return string

    def _new_code(self, code: CodeType) -> tuple[CodeType, bool, bool]:
        """Return what is known of code: itself, which keeps its address from being used again,
        whether it is a library's, and whether its frames are kept in every stack.
        """  # noqa: D205 - one sentence
        ours = is_library(code.co_filename)
        known = self._codes[id(code)] = code, ours, not ours or code.co_name in PROLOGUE
        return known
