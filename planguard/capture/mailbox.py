"""The control plane of played ranks is real: objects, shapes and sizes travel between them.

Ranks are forks, and nothing of what they communicate moves, except small whole numbers: the sizes
and bytes of object collectives, shapes that stages of a pipeline exchange, splits of a router. They
pass through the parent (``mailroom``), since a receiver would else read garbage for a size.

    rank 1 --post--> parent --reply--> rank 0        one pipe per rank
                        |
                        +-- a rank that is not played is answered for by one of its class
"""

from __future__ import annotations

import ctypes
import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.capture.fake_compute import refuse_fake
from planguard.capture.made_up import is_marked, mark

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection

MOST_BYTES = 1 << 20
"""Size up to which whole numbers are taken for the control plane."""


class Stalled(BaseException):
    """Nobody will ever send what this rank waits for; no ``except Exception`` of a job stops it."""


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


class Mailbox:
    """The end of one rank.

    Attributes:
        is_stalled: The parent said that nothing comes any more.
    """

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self.is_stalled = False

    def post(self, key: tuple[Any, ...], tensors: Sequence[Any]) -> None:
        """Contribute to a collective."""
        if not self.is_stalled:
            self._pipe.send(("post", key, pack(tensors)))

    def send(self, key: tuple[Any, ...], tensors: Sequence[Any]) -> None:
        """Send a message; never waits."""
        if not self.is_stalled:
            self._pipe.send(("send", key, pack(tensors)))

    def ask(self, wanted: Gather | Take) -> Any:
        """Wait for contributions, by rank, or for a message.

        Raises:
            Stalled: If every rank waits, and none for something that is there.
        """
        if not self.is_stalled:
            self._pipe.send(("ask", wanted, None))
            answer = self._pipe.recv()
            if answer is not None:
                return answer
        self.is_stalled = True
        raise Stalled


def is_control(tensors: Sequence[Any]) -> bool:
    """Tell whether tensors are small and hold whole numbers or truth values."""
    size = 0
    for tensor in tensors:
        if tensor.is_floating_point() or tensor.is_complex():
            return False
        size += tensor.numel() * tensor.element_size()
    return bool(tensors) and size <= MOST_BYTES


def pack(tensors: Sequence[Any]) -> bytes:
    """Write tensors for another process of this program."""
    refuse_fake(tensors)
    marks = [is_marked(tensor) for tensor in tensors]
    flat = [tensor.detach().cpu().reshape(-1).contiguous() for tensor in tensors]
    sizes = [one.numel() * one.element_size() for one in flat]
    # Without numpy, which torch can do without, this is the quick way to the bytes.
    raw = [
        ctypes.string_at(one.data_ptr(), n) if n else b""
        for one, n in zip(flat, sizes, strict=True)
    ]
    return pickle.dumps(list(zip(raw, marks, strict=True)))


def unpack(data: bytes, like: Sequence[Any]) -> list[Any]:
    """Read flat tensors of the types of ``like``; a message of another size ends with the shorter.

    gloo does the same, or aborts; the plan holds both sizes, and its check says what is wrong.
    """
    import torch

    found = []
    rows = pickle.loads(data)  # noqa: S301 - our own fork wrote it
    for (raw, is_made_up), tensor in zip(rows, like, strict=False):
        whole = len(raw) - len(raw) % tensor.element_size()
        body = bytearray(raw[:whole])
        flat = torch.frombuffer(body, dtype=tensor.dtype) if body else tensor.new_empty(0)
        if is_made_up:
            mark([flat])
        found.append(flat)
    return found


def fill(target: Any, flat: Any) -> None:
    """Copy as many elements as there are on both sides."""
    import torch

    refuse_fake([target])
    with torch.no_grad():
        count = min(target.numel(), flat.numel())
        if target.is_contiguous():
            target.view(-1)[:count].copy_(flat[:count])
        elif count == target.numel():
            target.copy_(flat[:count].reshape(target.shape))
