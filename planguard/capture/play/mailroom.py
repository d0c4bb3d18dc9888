"""Plays ranks together: forks that exchange their control plane through this process.

A few ranks stand for many. A rank that is not played contributes to a collective what a played
member of its class contributes; a message can come from nobody else, so its sender is played, too.
A rank that ends, in whatever way, is waited for by nobody who got what he wanted: its end is data.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import sys
import time
import traceback
import warnings
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, NoReturn

from planguard.capture.elsewhere import CALL_BACK
from planguard.capture.play.called import Arrived, held
from planguard.capture.play.mailbox import STUCK, Keys, Mailbox, Take, Wanted
from planguard.capture.play.processes import ended, refuse_cuda
from planguard.capture.play.room_store import Clock, answer_store
from planguard.errors import PlanGuardError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from multiprocessing.connection import Connection

    from planguard.capture.values.own_answers import Odd


_PATIENCE = 3.0
"""Seconds of silence after which a rank with several threads is stuck, if all ranks wait."""
_GRACE = 5.0
"""Seconds in which a rank that was called back must have left what it waits in."""
_MOMENT = 1.0
"""Seconds in which ranks that were hung up on end by themselves."""
_NATIVE = "it is in native code that cannot be left; a larger --timeout (timeout=) waits longer"
_SLICE = 0.25
"""Seconds that the room listens at a time; silence is counted in these. A machine that stands still
for a while, or does not run this process, has not been silent all that time: nobody could speak."""


class Standing(BaseException):
    """Raised in a fork that is to leave the room with its mailbox and play a rank elsewhere.

    Attributes:
        rank: The rank.
        mailbox: Its mailbox.
        odd: Ranks that are answered otherwise in this play.
    """

    def __init__(self, rank: int, mailbox: Mailbox, odd: Odd | None = None) -> None:
        super().__init__(rank)
        self.rank = rank
        self.mailbox = mailbox
        self.odd = odd


@dataclass
class _Played:
    """A rank that is being played; ``pid`` is None where another process plays it.

    Attributes:
        questions: What its threads wait for, by number, and whether a real run would wait there.
        others: How many more threads it had when it last asked; they may have more to say.
    """

    rank: int
    pid: int | None
    pipe: Connection
    deadline: float
    questions: dict[int, tuple[Wanted, bool]] = field(default_factory=dict)
    others: int = 0

    @property
    def is_waiting(self) -> bool:
        """One of its threads waits for an answer."""
        return bool(self.questions)


@dataclass
class Mailroom:
    """The parent's side of one play.

    Attributes:
        class_of: Class of every rank of the world.
        task: What a rank does; returns its log, or raises ``Standing`` to leave the room.
        timeout: Seconds a rank may take, without the time it waits for others.
        jobs: Ranks that compute at a time.
        whole: Seconds that all may take together; None for as long as each goes on.
        answers: What the ranks that are through have sent.
        stuck: What the ranks waited for that waited when nobody could go on.
        is_lent: A rank was answered for by another one of its class.
        called: Ranks that were called back: their time was over, or the play was interrupted.
    """

    class_of: Mapping[int, int]
    task: Callable[[int, Mailbox], bytes]
    timeout: float
    jobs: int
    whole: float | None = None
    answers: dict[int, bytes] = field(default_factory=dict)
    stuck: dict[int, Wanted] = field(default_factory=dict)
    is_lent: bool = False
    _todo: list[int] = field(default_factory=list)
    _known: set[int] = field(default_factory=set)
    _live: dict[int, _Played] = field(default_factory=dict)
    _posts: dict[tuple[Any, ...], dict[int, bytes]] = field(default_factory=dict)
    _messages: dict[tuple[Any, ...], bytes] = field(default_factory=dict)
    _store: dict[str, bytes] = field(default_factory=dict)
    _clock: Clock = field(default_factory=Clock)
    _gone: list[_Played] = field(default_factory=list)
    _silence: float = 0.0
    called: set[int] = field(default_factory=set)
    _arrived: Arrived = field(default_factory=Arrived)

    def admit(self, rank: int, pipe: Connection) -> None:
        """Let a rank take part that a process of its own plays; it has no time limit."""
        self._known.add(rank)
        self._live[rank] = _Played(rank, None, pipe, float("inf"))

    def play(self, ranks: Sequence[int]) -> dict[int, bytes]:
        """Play these ranks and those whose messages they need; may be called again for more.

        Raises:
            UsageError: If a rank cannot be captured, dies or does not finish.
            Standing: In a fork whose task is done elsewhere.
        """
        self._want(ranks)
        end = None if self.whole is None else time.monotonic() + self.whole
        try:
            with held() as self._arrived:
                self._go_on(end)
        finally:
            self._stop()
        return self.answers

    def _go_on(self, end: float | None) -> None:
        try:
            while self._todo or self._live:
                self._arrived.raise_again()
                if end is not None and time.monotonic() >= end:
                    raise UsageError(f"the ranks did not finish within {self.whole:g} s")
                self._launch_some()
                self._listen()
                self._settle()
        except KeyboardInterrupt:
            self._recall()
            raise

    def _stop(self) -> None:
        """End all ranks; those that do not end by themselves have one moment for all of them."""
        left = [*self._gone, *self._live.values()]
        for one in left:
            one.pipe.close()
        until = time.monotonic() + _MOMENT
        for one in left:
            _stop(one, until)
        self._gone = []

    def _recall(self) -> None:
        """Take from every rank what it has issued so far, wherever it is.

        Raises:
            KeyboardInterrupt: A second one ends the waiting.
        """
        self._todo = []
        until = time.monotonic() + _GRACE
        for one in self._live.values():
            if one.pid is not None:
                self.called.add(one.rank)
                if not one.is_waiting:
                    os.kill(one.pid, CALL_BACK)
        while self._live and time.monotonic() < until:
            self._arrived.raise_again()
            for one in self._live.values():
                for number in list(one.questions):
                    self._tell(one, number, STUCK)
                one.deadline = until + _GRACE
            with contextlib.suppress(UsageError):  # one that has none is missing in the answers
                self._listen()

    def _want(self, ranks: Sequence[int]) -> None:
        new = [rank for rank in ranks if rank not in self._known]
        self._known.update(new)
        self._todo += new

    def _launch_some(self) -> None:
        active = sum(not one.is_waiting and one.pid is not None for one in self._live.values())
        while self._todo and active < self.jobs:
            self._launch(self._todo.pop(0))
            active += 1

    def _launch(self, rank: int) -> None:
        refuse_cuda()
        parent, child = multiprocessing.Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            # Python 3.12 warns about threads in the parent. The child plays one rank and leaves by
            # os._exit; it uses no lock that a thread of the parent could hold, and one torch
            # thread. It is no child of multiprocessing's making, which would be a daemon that may
            # not start the workers of a DataLoader.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            # What was garbage before the fork is not the rank's: a generator that nobody holds any
            # more would otherwise be closed in the middle of the step, and its lines be the rank's.
            # Pages that the collector does not touch stay shared as well.
            gc.freeze()
            parent.close()
            for one in self._live.values():
                one.pipe.close()  # else a dead parent would not be noticed
            self._live, self._gone = {}, []
            signal.signal(CALL_BACK, signal.SIG_IGN)
            # A terminal sends Ctrl-C to the ranks, too; this process says what they do then. What
            # they start finds the usual handler again.
            signal.signal(signal.SIGINT, lambda *_: None)
            if self._arrived.handlers.get(signal.SIGTERM):
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._arrived.handlers.clear()
            mailbox = Mailbox(child)
            perform(lambda: self.task(rank, mailbox), mailbox)
        child.close()
        self._live[rank] = _Played(rank, pid, parent, time.monotonic() + self.timeout)

    # --- what ranks say ----------------------------------------------------------------------

    def _listen(self) -> None:
        """Take what ranks have sent; wait for the first of them."""
        live = self._live.values()
        talking = {one.pipe: one for one in live if not one.is_waiting or one.others}
        if not talking:
            return
        began = time.monotonic()
        ready = wait(list(talking), timeout=_SLICE)
        for pipe in ready:
            self._take(talking[pipe])  # type: ignore[index]  # only connections were waited for
        self._silence = 0.0 if ready else self._silence + min(_SLICE, time.monotonic() - began)
        late = [one for one in live if not one.is_waiting and one.deadline <= time.monotonic()]
        if late and not ready and not self._call_back(late[0]):
            what = f"rank {late[0].rank} did not finish within {self.timeout:g} s"
            raise UsageError(what, hint=_NATIVE)

    def _call_back(self, late: _Played) -> bool:
        """Ask a rank once to leave whatever it does."""
        if late.pid is None or late.rank in self.called:
            return False
        self.called.add(late.rank)
        late.deadline = time.monotonic() + _GRACE
        os.kill(late.pid, CALL_BACK)
        return True

    def _take(self, one: _Played) -> None:
        try:
            what, key, data = one.pipe.recv()
        except (EOFError, ConnectionResetError):
            code = _stop(self._live.pop(one.rank))
            message = f"its process ended with code {code} and no answer"
            raise UsageError(f"rank {one.rank} could not be captured: {message}") from None
        if what != "log":
            self.called.discard(one.rank)  # it was slow, and goes on
        if what == "post":
            self._posts.setdefault(key, {})[one.rank] = data
            self._clock.stamp((key, one.rank), one.rank)
        elif what == "send":
            self._messages[key] = data
            self._clock.stamp(key, one.rank)
        elif what == "ask":
            number, wanted = key
            one.questions[number] = wanted, data[0]
            one.others = data[1]
        elif what == "store":
            number, operation = key
            answer = answer_store(self._store, self._clock, one.rank, operation, data)
            with contextlib.suppress(BrokenPipeError):
                one.pipe.send((number, answer))
        elif what == "log":
            self.answers[one.rank] = data
            self._gone.append(self._live.pop(one.rank))
        else:
            hint = data.strip() or "run the body on its own first"
            raise UsageError(f"rank {one.rank} could not be captured: {key}", hint=hint)

    # --- what ranks are told -----------------------------------------------------------------

    def _settle(self) -> None:
        """Answer everybody whose mail is there; where nobody moves, tell those who need not wait.

        Only if nobody is left who need not wait are the others stuck, and told so.
        """
        waiting = [one for one in self._live.values() if one.is_waiting]
        moved = False
        for one in waiting:
            for number, (wanted, _) in list(one.questions.items()):
                answer = self._answer(one, wanted)
                if answer is not None:
                    moved = True
                    self._tell(one, number, answer)
        if not waiting or moved or self._todo or len(waiting) < len(self._live):
            return
        # A rank of which a thread waits has no more to say when nobody has spoken for a while.
        if any(one.others for one in waiting) and self._silence < min(_PATIENCE, self.timeout):
            return
        asked = [(one, *question) for one in waiting for question in one.questions.items()]
        soft = [row for row in asked if row[2][1]]
        for one, number, (wanted, is_soft) in asked if self.called else soft or asked:
            if not is_soft:
                self.stuck[one.rank] = wanted
            self._tell(one, number, STUCK if self.called else None)

    def _tell(self, one: _Played, number: int, answer: Any) -> None:
        del one.questions[number]
        self._silence = 0.0
        if one.pid is not None:
            one.deadline = time.monotonic() + self.timeout
        with contextlib.suppress(BrokenPipeError):  # its end is seen when it is listened to
            one.pipe.send((number, answer))

    def _answer(self, one: _Played, wanted: Wanted) -> Any:
        if isinstance(wanted, Keys):
            return True if all(key in self._store for key in wanted.keys) else None
        if isinstance(wanted, Take):
            self._want([wanted.src])
            if wanted.key in self._messages:
                self._clock.learn(one.rank, wanted.key)
            return self._messages.pop(wanted.key, None)
        posts = self._posts.get(wanted.key, {})
        found = {}
        for rank in wanted.needs:
            giver = self._giver(rank, wanted.members)
            if giver is None:
                self._want([rank])
            elif giver in posts:
                found[rank] = posts[giver]
        if len(found) < len(wanted.needs):
            return None
        for rank in found:
            self._clock.learn(one.rank, (wanted.key, rank))
        return found

    def _giver(self, rank: int, members: Sequence[int]) -> int | None:
        """Return who contributes in the place of a rank: itself, or a played one of its class."""
        if rank in self._known:
            return rank
        of = self.class_of[rank]
        found = next((m for m in members if m in self._known and self.class_of[m] == of), None)
        self.is_lent = self.is_lent or found is not None
        return found


def perform(task: Callable[[], bytes], mailbox: Mailbox) -> NoReturn:
    """Do the task of a rank in its own process, which ends here, or leaves the room.

    Raises:
        Standing: The task is done elsewhere.
    """
    try:
        mailbox.end(task())
    except Standing:
        raise
    except PlanGuardError as error:  # it says itself what to do
        with contextlib.suppress(OSError):
            mailbox.fail(str(error).partition("\nhint: ")[0], error.hint)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent reports it
        frames = "".join(traceback.format_exception(error))[-4000:]
        with contextlib.suppress(OSError):
            mailbox.fail(f"{type(error).__name__}: {error}", frames)
    mailbox.close()
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)


def _stop(one: _Played, until: float | None = None) -> int | None:
    """Hang up, give the process a moment to end by itself, then kill it; return its exit code."""
    one.pipe.close()
    if one.pid is None:
        return None
    return ended(one.pid, _MOMENT if until is None else until - time.monotonic())
