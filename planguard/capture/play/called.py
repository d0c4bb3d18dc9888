"""Ranks of a play that did not come to their end: their time was over, or somebody pressed Ctrl-C.

Ranks are called back from whatever Python runs in them, and hand in what they have issued so far.
What they issued, they issued, so that calls which disagree are told. What they would do behind that
nobody knows, which leaves everything else open: such a play is never safe. Interruptions are held
back while ranks are listened to.
"""

from __future__ import annotations

import contextlib
import signal
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planguard.words import name_ranks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from planguard.capture.play.logs import RankLog

CUT = "unfinished-ranks"
"""Of the ledger's entries: what a rank would have done next."""
INTERRUPTED = "the play was interrupted"
_STUCK = "stuck"


def note_late(logs: Mapping[int, RankLog], timeout: float) -> None:
    """Say of ranks whose time was over where they were, and that they may go on."""
    for rank, log in logs.items():
        if log.left_at:
            message = (
                f"rank {rank} did not finish within {timeout:g} s: it was at {log.left_at}; what "
                "it would issue behind that is not known. A larger --timeout (timeout=) waits "
                "longer"
            )
            log.notes.extend((CUT, message, direction) for direction in ("under", "over"))


def note_interrupted(logs: Mapping[int, RankLog], recalled: Iterable[int]) -> None:
    """Say of an interrupted play where its ranks were, and that nothing more of it was played.

    A rank that waited for others was not stuck yet.
    """
    ranks = sorted(set(recalled) & logs.keys())
    for rank in ranks:
        logs[rank].notes[:] = [note for note in logs[rank].notes if note[0] != _STUCK]
    places = {rank: logs[rank].left_at for rank in ranks if logs[rank].left_at}
    was = "; ".join(f"rank {rank} was at {place}" for rank, place in list(places.items())[:8])
    waiting = [rank for rank in ranks if rank not in places]
    if waiting:
        was += f"{'; ' if was else ''}{name_ranks(waiting)} waited for others"
    said = f" ({was})" if was else " behind the ranks' first run, at other answers and other data"
    message = f"{INTERRUPTED}{said}; what would have come then is not known"
    _, first = min(logs.items())
    for direction in ("under", "over") if was else ("under",):
        first.notes.append((CUT, message, direction))


@dataclass
class Arrived:
    """Interruptions that are held back, and what they would call.

    Attributes:
        handlers: Handlers by signal, as they were.
        signals: What arrived.
    """

    handlers: dict[int, Any] = field(default_factory=dict)
    signals: list[int] = field(default_factory=list)

    def raise_again(self) -> None:
        """Let what arrived do what it would have done.

        Raises:
            KeyboardInterrupt: It is an interruption, unless the program has a handler of its own.
        """
        while self.signals:
            number = self.signals.pop(0)
            self.handlers[number](number, None)


@contextmanager
def held() -> Iterator[Arrived]:
    """Hold Ctrl-C and SIGTERM back to the places that can take them, to the end of the block.

    An exception in the middle of a message would leave the rest of it in its pipe, and whoever
    reads on would wait for ever; one in a callback of a fork would be lost. Signals that end the
    process, or that nobody hears, do so.
    """
    arrived = Arrived()
    for number in map(int, (signal.SIGINT, signal.SIGTERM)):
        handler = signal.getsignal(number)
        if callable(handler) and not isinstance(handler, signal.Handlers):
            with contextlib.suppress(ValueError):  # not the main thread
                signal.signal(number, lambda got, _: arrived.signals.append(got))
                arrived.handlers[number] = handler
    try:
        yield arrived
    finally:
        for number, handler in arrived.handlers.items():
            signal.signal(number, handler)
        arrived.raise_again()
