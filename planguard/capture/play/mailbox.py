"""The control plane of played ranks is real: objects, shapes, sizes and small values travel.

Ranks are forks, and of what they communicate only what a program decides on moves: whole numbers up
to 1 MiB (the sizes and bytes of object collectives, shapes that stages of a pipeline exchange,
splits of a router), everything up to 1 KiB (flags, counts, losses), and the keys of the store. They
pass through a room (``mailroom``). What is larger is made up by the receiver, and marked as such:
its sender says so, so that nobody waits for bytes that do not come. A job that is played with one
set of data moves more, so that the losses of a small model are those of a real run; with many
ranks less, as each gets what all have sent.

    rank 1 --post--> room --reply--> rank 0        one pipe per rank
                       |
                       +-- a rank that is not played is answered for by one of its class
"""

from __future__ import annotations

import ctypes
import hashlib
import pickle
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.capture.groups.recorder import Stalled
from planguard.capture.names.thread_orders import NUMBER
from planguard.capture.play.fake_compute import refuse_fake
from planguard.capture.values.made_up import is_marked, mark
from planguard.capture.values.origins import made_from

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection

MOST_BYTES = 1 << 20
"""Size up to which whole numbers are taken for the control plane."""
SMALL_BYTES = 1 << 10
"""Size up to which any value is: a flag, a count or a loss, on which a program may decide."""
LARGE_BYTES = 1 << 18
"""The same where a job is played once: gradients and parameters of a small model."""
_MOST_SENT = 1 << 25
"""Bytes of such values that one rank sends; copying them through the room takes about 0.1 s."""
STUCK = "stuck"
"""Answer to a rank that waits for one that was called back: it need not ask again."""
_LARGE_RANKS = 8
"""Ranks up to which such values travel whole: everybody gets what everybody sent."""


def size_for(world_size: int) -> int:
    """Return the size up to which any value travels in a job of many ranks that is played once."""
    return max(SMALL_BYTES, LARGE_BYTES * _LARGE_RANKS // max(world_size, _LARGE_RANKS))


@dataclass(frozen=True)
class Gather:
    """A wait for what some members of a group contribute to one collective.

    Attributes:
        key: Group, position of the call on it, and operation.
        members: The group.
        needs: Members whose contribution is needed.
    """

    key: tuple[Any, ...]
    members: tuple[int, ...]
    needs: tuple[int, ...]


@dataclass(frozen=True)
class Take:
    """A wait for one message.

    Attributes:
        key: Group, source, destination, tag and position among the messages between them.
        src: Who sends it.
    """

    key: tuple[Any, ...]
    src: int


@dataclass(frozen=True)
class Keys:
    """A wait for keys of the store that the ranks met at."""

    keys: tuple[str, ...]


Wanted = Gather | Take | Keys


class Mailbox:
    """The end of one rank.

    Attributes:
        is_stalled: The room said that nothing comes any more.
        is_sending: A message is half in its pipe: whoever leaves now leaves the room waiting.
        small: Size up to which any value belongs to the control plane, bytes.
    """

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._said = hashlib.blake2b(digest_size=16)
        self._sending = threading.Lock()
        self._answers: dict[int, Any] = {}
        self._asked = 0
        self._reads = threading.Condition()  # one thread reads the pipe, for all that have asked
        self._is_read = False
        self.is_stalled = False
        self.is_sending = False
        self.small = SMALL_BYTES
        self._left = _MOST_SENT

    def is_control(self, tensors: Sequence[Any]) -> bool:
        """Tell whether tensors are small, or hold whole numbers or truth values."""
        size = _size(tensors)
        return bool(tensors) and size <= (MOST_BYTES if _is_whole(tensors) else self.small)

    def _packed(self, tensors: Sequence[Any]) -> bytes:
        """Write tensors for another process: their bytes, or that there are none."""
        is_sent = self.is_control(tensors)
        if is_sent and not _is_whole(tensors) and (size := _size(tensors)) > SMALL_BYTES:
            self._left -= size
            is_sent = self._left >= 0
        return pack(tensors) if is_sent else pickle.dumps([(None, True, 0)] * len(tensors))

    def post(self, key: tuple[Any, ...], tensors: Sequence[Any]) -> None:
        """Contribute to a collective; of what is too large, that it was sent."""
        self._send("post", key, self._packed(tensors))

    def send(self, key: tuple[Any, ...], tensors: Sequence[Any]) -> None:
        """Send a message; never waits."""
        self._send("send", key, self._packed(tensors))

    def store(self, operation: str, *arguments: Any) -> Any:
        """Do something to the store of the ranks that needs no waiting, and return its answer.

        Raises:
            Stalled: This rank is stuck already.
        """
        if self.is_stalled:
            raise Stalled
        number = self._number()
        self._send("store", (number, operation), arguments)
        return self._receive(number)

    def ask(self, wanted: Wanted, *, soft: bool = False) -> Any:
        """Wait for contributions, by rank, for a message, or for keys.

        Args:
            wanted: What is waited for.
            soft: A real run need not wait here: where nobody could go on, the answer is None.

        Raises:
            Stalled: If every rank waits, and none for something that is there.
        """
        if not self.is_stalled:
            number = self._number()
            self._send("ask", (number, wanted), (soft, _others()))
            answer = self._receive(number)
            if answer != STUCK and (answer is not None or soft):
                return answer
        self.is_stalled = True
        raise Stalled

    def _number(self) -> int:
        with self._reads:
            self._asked += 1
            return self._asked

    def _receive(self, number: int) -> Any:
        """Return the answer to a question of this thread; other threads may wait for theirs."""
        while True:
            with self._reads:
                if number in self._answers:
                    return self._answers.pop(number)
                if self._is_read:
                    self._reads.wait()
                    continue
                self._is_read = True
            try:
                other, answer = self._pipe.recv()
            finally:
                with self._reads:
                    self._is_read = False
                    self._reads.notify_all()
            with self._reads:
                self._answers[other] = answer
                self._reads.notify_all()

    def end(self, log: bytes) -> None:
        """Send the log, the last that is heard of this rank."""
        self._put(pickle.dumps(("log", None, log)))

    def fail(self, reason: str, frames: str) -> None:
        """Say why there is no log."""
        self._put(pickle.dumps(("failed", reason, frames)))

    def close(self) -> None:
        """Hang up."""
        self._pipe.close()

    @property
    def said(self) -> str:
        """A fingerprint of all that this rank has said so far, in order."""
        return self._said.hexdigest()

    def _send(self, what: str, key: Any, data: Any) -> None:
        if not self.is_stalled:
            message = pickle.dumps((what, key, data))
            self._put(message, is_said=True)

    def _put(self, message: bytes, *, is_said: bool = False) -> None:
        with self._sending:
            if is_said:
                self._said.update(b"%d " % len(message))
                self._said.update(message)
            self.is_sending = True
            try:
                self._pipe.send_bytes(message)  # what ``recv`` reads as the object
            finally:
                self.is_sending = False


def _others() -> int:
    """Return how many more threads of the job there are."""
    here = threading.current_thread()
    return sum(one is not here and hasattr(one, NUMBER) for one in threading.enumerate()) + (
        hasattr(here, NUMBER) and threading.main_thread().is_alive()
    )


def _size(tensors: Sequence[Any]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _is_whole(tensors: Sequence[Any]) -> bool:
    return not any(tensor.is_floating_point() or tensor.is_complex() for tensor in tensors)


def pack(tensors: Sequence[Any]) -> bytes:
    """Write the bytes of tensors for another process of this program, and what they are made of."""
    refuse_fake(tensors)
    marks = [is_marked(tensor) for tensor in tensors]
    flat = [tensor.detach().cpu().reshape(-1).contiguous() for tensor in tensors]
    sizes = [one.numel() * one.element_size() for one in flat]
    # Without numpy, which torch can do without, this is the quick way to the bytes.
    raw = [
        ctypes.string_at(one.data_ptr(), n) if n else b""
        for one, n in zip(flat, sizes, strict=True)
    ]
    return pickle.dumps(list(zip(raw, marks, map(made_from, tensors), strict=True)))


def unpack(data: bytes, like: Sequence[Any]) -> list[Any]:
    """Read flat tensors of the types of ``like``; a message of another size ends with the shorter.

    gloo does the same, or aborts; the plan holds both sizes, and its check says what is wrong. What
    was too large to be sent is zeros that are marked as made up.
    """
    import torch

    found = []
    rows = pickle.loads(data)  # noqa: S301 - our own fork wrote it
    for (raw, is_made_up, _), tensor in zip(rows, like, strict=False):
        if raw is None:
            flat = torch.zeros(tensor.numel(), dtype=tensor.dtype)
        else:
            whole = len(raw) - len(raw) % tensor.element_size()
            body = bytearray(raw[:whole])
            flat = torch.frombuffer(body, dtype=tensor.dtype) if body else tensor.new_empty(0)
        if is_made_up:
            mark([flat])
        found.append(flat)
    return found


def is_of_size(data: bytes, like: Sequence[Any]) -> bool:
    """Tell whether what was sent has the sizes of ``like``, or was too large to be sent."""
    rows = pickle.loads(data)  # noqa: S301 - our own fork wrote it
    sizes = [tensor.numel() * tensor.element_size() for tensor in like]
    return len(rows) == len(sizes) and all(
        raw is None or len(raw) == size for (raw, *_), size in zip(rows, sizes, strict=True)
    )


def origins_in(data: bytes) -> list[int]:
    """Return what the tensors of a message were made of (``origins.made_from``)."""
    return [origin for _, _, origin in pickle.loads(data)]  # noqa: S301 - our own fork wrote it


def fill(target: Any, flat: Any) -> None:
    """Copy as many elements as there are on both sides; the mark goes with them."""
    import torch

    refuse_fake([target])
    if is_marked(flat):
        mark([target])
    with torch.no_grad():
        count = min(target.numel(), flat.numel())
        if target.is_contiguous():
            target.view(-1)[:count].copy_(flat[:count])
        elif count == target.numel():
            target.copy_(flat[:count].reshape(target.shape))
