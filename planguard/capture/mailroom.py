"""Plays ranks together: forks that exchange their control plane through this process.

A few ranks stand for many. A rank that is not played contributes to a collective what a played
member of its class contributes; a message can come from nobody else, so its sender is played, too.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import time
import traceback
import warnings
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from planguard.capture.mailbox import Gather, Mailbox, Take
from planguard.capture.processes import refuse_cuda
from planguard.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from multiprocessing.connection import Connection


@dataclass
class _Played:
    rank: int
    process: Any
    pipe: Connection
    deadline: float
    waits: Gather | Take | None = None


@dataclass
class Mailroom:
    """The parent's side of one play.

    Attributes:
        class_of: Class of every rank of the world.
        task: What a rank does; returns its log.
        timeout: Seconds a rank may take, without the time it waits for others.
        jobs: Ranks that compute at a time.
        answers: What the ranks that are through have sent.
        stuck: Ranks that waited when nobody could go on.
    """

    class_of: Mapping[int, int]
    task: Callable[[int, Mailbox], bytes]
    timeout: float
    jobs: int
    answers: dict[int, bytes] = field(default_factory=dict)
    stuck: list[int] = field(default_factory=list)
    _todo: list[int] = field(default_factory=list)
    _known: set[int] = field(default_factory=set)
    _live: dict[int, _Played] = field(default_factory=dict)
    _posts: dict[tuple[Any, ...], dict[int, bytes]] = field(default_factory=dict)
    _messages: dict[tuple[Any, ...], bytes] = field(default_factory=dict)

    def play(self, ranks: Sequence[int]) -> dict[int, bytes]:
        """Play these ranks and those whose messages they need.

        Raises:
            UsageError: If a rank raises, dies or does not finish.
        """
        self._want(ranks)
        try:
            while self._todo or self._live:
                self._launch_some()
                self._listen()
                self._settle()
        finally:
            for one in self._live.values():
                _stop(one)
        return self.answers

    def _want(self, ranks: Sequence[int]) -> None:
        new = [rank for rank in ranks if rank not in self._known]
        self._known.update(new)
        self._todo += new

    def _launch_some(self) -> None:
        active = sum(one.waits is None for one in self._live.values())
        while self._todo and active < self.jobs:
            rank = self._todo.pop(0)
            self._live[rank] = self._launch(rank)
            active += 1

    def _launch(self, rank: int) -> _Played:
        refuse_cuda()
        parent, child = multiprocessing.Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        ends = [one.pipe for one in self._live.values()] + [parent]
        context = multiprocessing.get_context("fork")
        process = context.Process(target=_child, args=(child, ends, self.task, rank), daemon=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # see processes._launch
            process.start()
        child.close()
        return _Played(rank, process, parent, time.monotonic() + self.timeout)

    # --- what ranks say ----------------------------------------------------------------------

    def _listen(self) -> None:
        """Take what ranks have sent; wait for the first of them."""
        talking = {one.pipe: one for one in self._live.values() if one.waits is None}
        if not talking:
            return
        last = min(one.deadline for one in talking.values())
        ready = wait(list(talking), timeout=max(0.0, last - time.monotonic()))
        for pipe in ready:
            self._take(talking[pipe])  # type: ignore[index]  # only connections were waited for
        late = [one for one in talking.values() if one.deadline <= time.monotonic()]
        if late and not ready:
            raise UsageError(f"rank {late[0].rank} did not finish within {self.timeout:g} s")

    def _take(self, one: _Played) -> None:
        try:
            what, key, data = one.pipe.recv()
        except EOFError:
            one.process.join(5)
            code = one.process.exitcode
            message = f"its process ended with code {code} and no answer"
            raise UsageError(f"rank {one.rank} could not be captured: {message}") from None
        if what == "post":
            self._posts.setdefault(key, {})[one.rank] = data
        elif what == "send":
            self._messages[key] = data
        elif what == "ask":
            one.waits = key
        elif what == "log":
            self.answers[one.rank] = data
            _stop(self._live.pop(one.rank))
        else:
            hint = data.strip() or "run the body on its own first"
            raise UsageError(f"rank {one.rank} could not be captured: {key}", hint=hint)

    # --- what ranks are told -----------------------------------------------------------------

    def _settle(self) -> None:
        """Answer everybody whose mail is there; tell all that they are stuck when nobody moves."""
        waiting = [one for one in self._live.values() if one.waits is not None]
        moved = False
        for one in waiting:
            answer = self._answer(one)
            if answer is not None:
                moved = True
                self._tell(one, answer)
        if waiting and not moved and not self._todo and len(waiting) == len(self._live):
            self.stuck += [one.rank for one in waiting]
            for one in waiting:
                self._tell(one, None)

    def _tell(self, one: _Played, answer: Any) -> None:
        one.waits = None
        one.deadline = time.monotonic() + self.timeout
        with contextlib.suppress(BrokenPipeError):  # its end is seen when it is listened to
            one.pipe.send(answer)

    def _answer(self, one: _Played) -> Any:
        wanted = one.waits
        if isinstance(wanted, Take):
            self._want([wanted.src])
            return self._messages.pop(wanted.key, None)
        assert wanted is not None  # noqa: S101 - only waiting ranks come here; for the type checker
        posts = self._posts.get(wanted.key, {})
        found = {}
        for rank in wanted.needs:
            giver = self._giver(rank, wanted.members)
            if giver is None:
                self._want([rank])
            elif giver in posts:
                found[rank] = posts[giver]
        return found if len(found) == len(wanted.needs) else None

    def _giver(self, rank: int, members: Sequence[int]) -> int | None:
        """Return who contributes in the place of a rank: itself, or a played one of its class."""
        if rank in self._known:
            return rank
        of = self.class_of[rank]
        return next((m for m in members if m in self._known and self.class_of[m] == of), None)


def _child(
    pipe: Connection,
    others: Sequence[Connection],
    task: Callable[[int, Mailbox], bytes],
    rank: int,
) -> None:
    for other in others:
        other.close()  # else a dead parent would not be noticed
    try:
        pipe.send(("log", None, task(rank, Mailbox(pipe))))
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent reports it
        frames = "".join(traceback.format_exception(error))[-4000:]
        with contextlib.suppress(BrokenPipeError):
            pipe.send(("failed", f"{type(error).__name__}: {error}", frames))
    finally:
        pipe.close()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _stop(one: _Played) -> None:
    one.pipe.close()
    one.process.join(1)
    if one.process.is_alive():
        one.process.kill()
        one.process.join(5)
