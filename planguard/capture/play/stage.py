r"""Where the body of a ``with`` block is played by all ranks, although a block runs only once.

At the head of the block this process splits. One fork keeps the room: whenever a rank is wanted, it
forks itself there, at the head, and the new process leaves the room, runs the body as that rank and
ends at the block's end. The caller's own process plays its rank along with them, through a pipe, so
that what the others send is there when its body asks.

    caller   ---- rank 0: body ------------------- end: reads all logs, decides
       \\-- room --+------+------------------------ sends the logs
                   \\-- rank 1: body -- end
                          \\-- rank 2: body -- end
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.capture.play.imports import learn
from planguard.capture.play.mailbox import Mailbox
from planguard.capture.play.mailroom import Standing
from planguard.capture.play.odd_data import with_odd_plays
from planguard.capture.play.processes import ended, refuse_cuda
from planguard.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from planguard.capture.play.ranks import Play
    from planguard.capture.values.own_answers import Odd
    from planguard.verdict import Verdict

_MOMENT = 1.0
"""Seconds that the room has to end once nobody asks it any more."""


@dataclass
class Stage:
    """The place of one process in a block.

    Attributes:
        rank: The rank it plays.
        mailbox: Its way to the others.
        answers: Where the caller's process gets all logs from; None in a fork.
        room: Process of the room.
        odd: Ranks that are answered otherwise in the play of this process.
    """

    rank: int
    mailbox: Mailbox
    answers: Connection | None = None
    room: int = 0
    odd: Odd | None = None

    @property
    def is_fork(self) -> bool:
        """True in a process that plays a rank for the caller."""
        return self.answers is None

    def finish(self, log: bytes, play: Play) -> None:
        """Send the own log, and take those of the ranks that were played into the play.

        Raises:
            UsageError: If a rank could not be captured.
        """
        assert self.answers is not None  # noqa: S101 - the caller's process; for the type checker
        self.mailbox.end(log)
        try:
            what, data = pickle.loads(self.answers.recv_bytes())  # noqa: S301 - our own fork's
        except EOFError:
            what, data = "failed", ("the room in which the ranks were played has died", "")
        if what == "failed":
            message, hint = data
            raise UsageError(message, hint=hint)
        play.logs, play.like, play.stuck, play.reads = data
        for one in play.logs.values():
            learn(one.imported, one.parsed)

    def close(self) -> None:
        """End the room, if it is still there; it ends whoever plays a rank in it."""
        if self.answers is None or not self.room:
            return
        self.mailbox.close()
        self.answers.close()
        room, self.room = self.room, 0
        ended(room, _MOMENT)


def open_stage(play: Play, rank: int, decide: Callable[[Play], Verdict]) -> Stage:
    """Split at the head of a block; returns in the caller's process, and in every rank's fork.

    Args:
        play: The play.
        rank: The rank of the caller's process.
        decide: Checks the plan of a play, to see whether other answers have to be played.

    Raises:
        UsageError: If this process already uses CUDA, which does not survive a fork.
    """
    refuse_cuda()
    near, far = multiprocessing.Pipe()
    answers, results = multiprocessing.Pipe(duplex=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # see Mailroom._launch
        pid = os.fork()
    if pid:
        far.close()
        results.close()
        return Stage(rank, Mailbox(near), answers, pid)
    near.close()
    answers.close()
    try:
        said = _keep_room(play, rank, far, decide)
    except Standing as fork:
        results.close()
        return Stage(fork.rank, fork.mailbox, odd=fork.odd)
    with contextlib.suppress(OSError):
        results.send_bytes(pickle.dumps(said))
    os._exit(0)


def _keep_room(
    play: Play, rank: int, pipe: Connection, decide: Callable[[Play], Verdict]
) -> tuple[str, Any]:
    try:
        play.stage(_leaving(None), (rank, pipe), restart=lambda one: one.stage(_leaving(one.odd)))
        play = with_odd_plays(play, decide)
    except Standing:
        raise
    except UsageError as error:
        return "failed", (error.message, error.hint)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the caller reports it
        return "failed", (f"the ranks could not be played: {type(error).__name__}: {error}", "")
    return "played", (play.logs, play.like, play.stuck, play.reads)


def _leaving(odd: Odd | None) -> Callable[[int, Mailbox], bytes]:
    def leave(wanted: int, mailbox: Mailbox) -> bytes:
        raise Standing(wanted, mailbox, odd)

    return leave
