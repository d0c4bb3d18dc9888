"""One function per communication: issue it, keep its handle, say how its data are looked at."""

# ruff: noqa: TC004

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planguard.replay.script.data import BACKEND, GROUPS, Op
from planguard.replay.script.payload import (
    blank,
    check_message,
    check_reduced,
    message,
    numbers,
)

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    import torch
    import torch.distributed as dist


@dataclass
class Pending:
    """An operation under way: its work handles, its buffers and what to check at its end."""

    works: list[Any]
    check: Callable[[], list[str | None]] = list
    buffers: list[Any] = field(default_factory=list)
    action: Op = field(default_factory=dict)
    waiter: threading.Thread | None = None


def how_to_reduce(op: Op) -> Any:
    """Return torch's name of the reduction."""
    return getattr(dist.ReduceOp, str(op.get("reduce_op") or "sum").upper())


class Mover:
    """Issues the communications of one process.

    Args:
        me: Number of this process.
    """

    def __init__(self, me: int) -> None:
        self.me = me
        self.pg: dict[str, Any] = {"world": None}

    def issue(self, op: Op) -> Pending:
        """Issue one communication; a synchronous one has ended when this returns."""
        return ISSUE[op["op"]](self, op)

    def batch(self, op: Op) -> Pending:
        """Issue every member, then hand back all handles: what batch_isend_irecv does on gloo."""
        parts = [self.issue(member) for member in op["ops"]]
        return Pending(
            [work for part in parts for work in part.works],
            lambda: [complaint for part in parts for complaint in part.check()],
            [part.buffers for part in parts],
        )

    # ---- point-to-point -----------------------------------------------------------------------

    def send(self, op: Op) -> Pending:
        """Send; gloo completes a send only with its receive, whatever the size."""
        data = message(op["serial"], op["nbytes"])
        call = dist.isend if op.get("async") else dist.send
        work = call(data, op["peer"], group=self.pg[op["group"]], tag=op.get("tag", 0))
        return Pending([work], buffers=[data])

    def recv(self, op: Op) -> Pending:
        """Receive from ``peer``, or from anyone when the peer is None."""
        data = blank(op["nbytes"])
        call = dist.irecv if op.get("async") else dist.recv
        work = call(data, op["peer"], group=self.pg[op["group"]], tag=op.get("tag", 0))
        return Pending(
            [work if op.get("async") else None],
            lambda: [check_message(self.me, op, data, op["expect"])],
            [data],
        )

    # ---- collectives --------------------------------------------------------------------------

    def options(self, op: Op) -> dict[str, Any]:
        """Return the arguments that all collectives share."""
        return {"group": self.pg[op["group"]], "async_op": op.get("async", False)}

    def seat(self, op: Op) -> int:
        """Return the place of this process in the group."""
        return GROUPS[op["group"]].index(self.me)

    def barrier(self, op: Op) -> Pending:
        """Enter a barrier."""
        device: dict[str, Any] = {"device_ids": [self.me]} if BACKEND == "nccl" else {}
        return Pending([dist.barrier(**self.options(op), **device)])

    def broadcast(self, op: Op) -> Pending:
        """Broadcast from ``root``."""
        mine = op["root"] == self.me
        data = message(op["serial"], op["nbytes"]) if mine else blank(op["nbytes"])
        work = dist.broadcast(data, op["root"], **self.options(op))
        expect = None if mine else op["expect"][GROUPS[op["group"]].index(op["root"])]
        return Pending(
            [work],
            lambda: [] if mine else [check_message(self.me, op, data, expect)],
            [data],
        )

    def all_reduce(self, op: Op) -> Pending:
        """Reduce to all members."""
        data = numbers(op["serial"], op, len(GROUPS[op["group"]]))
        how = how_to_reduce(op)
        work = dist.all_reduce(data, how, **self.options(op))
        return Pending([work], lambda: [check_reduced(self.me, op, data)], [data])

    def reduce(self, op: Op) -> Pending:
        """Reduce to ``root``; the buffers of the others hold leftovers of the algorithm."""
        data = numbers(op["serial"], op, len(GROUPS[op["group"]]))
        how = how_to_reduce(op)
        work = dist.reduce(data, op["root"], how, **self.options(op))
        mine = op["root"] == self.me
        return Pending([work], lambda: [check_reduced(self.me, op, data)] if mine else [], [data])

    def collect(self, op: Op, chunks: list[torch.Tensor], offset: int) -> list[str | None]:
        """Check one received chunk per member."""
        return [
            check_message(self.me, op, chunk, serial + offset if serial else -1)
            for chunk, serial in zip(chunks, op["expect"], strict=True)
        ]

    def all_gather(self, op: Op) -> Pending:
        """Gather to all, into a list or into one tensor: one operation to gloo."""
        data = message(op["serial"], op["nbytes"])
        members, size = len(GROUPS[op["group"]]), op["nbytes"]
        out = blank(size * members)
        chunks = [out[k * size : (k + 1) * size] for k in range(members)]
        options = self.options(op)
        if op["op"] == "all_gather":
            work = dist.all_gather(chunks, data, **options)
        else:
            work = dist.all_gather_into_tensor(out, data, **options)
        return Pending([work], lambda: self.collect(op, chunks, 0), [data, out])

    def gather(self, op: Op) -> Pending:
        """Gather to ``root``."""
        data = message(op["serial"], op["nbytes"])
        mine = op["root"] == self.me
        chunks = [blank(op["nbytes"]) for _ in GROUPS[op["group"]]] if mine else []
        into = chunks if mine else None
        options = self.options(op)
        work = dist.gather(data, into, op["root"], **options)
        return Pending([work], lambda: self.collect(op, chunks, 0) if mine else [], [data, chunks])

    def scatter(self, op: Op) -> Pending:
        """Scatter from ``root``: chunk k carries the serial of the action plus k."""
        members = GROUPS[op["group"]]
        out = blank(op["nbytes"])
        chunks = [message(op["serial"] + k, op["nbytes"]) for k in range(len(members))]
        parts = chunks if op["root"] == self.me else None
        work = dist.scatter(out, parts, op["root"], **self.options(op))
        serial = op["expect"][members.index(op["root"])]
        expect = serial + self.seat(op) if serial else -1
        return Pending([work], lambda: [check_message(self.me, op, out, expect)], [out, chunks])

    def reduce_scatter(self, op: Op) -> Pending:
        """Reduce, then keep the own chunk."""
        members = len(GROUPS[op["group"]])
        chunks = [numbers(op["serial"] + k, op, members) for k in range(members)]
        out = torch.zeros_like(chunks[0])
        how = how_to_reduce(op)
        options = self.options(op)
        if op["op"] == "reduce_scatter":
            work = dist.reduce_scatter(out, chunks, how, **options)
        else:
            work = dist.reduce_scatter_tensor(out, torch.cat(chunks), how, **options)
        check = lambda: [check_reduced(self.me, op, out, self.seat(op))]  # noqa: E731
        return Pending([work], check, [out, chunks])

    def all_to_all(self, op: Op) -> Pending:
        """Exchange one chunk with every member; ``ins`` and ``outs`` are their sizes in bytes."""
        data = [message(op["serial"] + k, size) for k, size in enumerate(op["ins"])]
        options = self.options(op)
        if op["op"] == "all_to_all":
            chunks = [blank(size) for size in op["outs"]]
            into = chunks
            work = dist.all_to_all(into, data, **options)
        else:
            out = blank(sum(op["outs"]))
            chunks = list(out.split(op["outs"]))
            work = dist.all_to_all_single(
                out,
                torch.cat(data),
                op["outs"],
                op["ins"],
                **options,
            )
        check = lambda: self.collect(op, chunks, self.seat(op))  # noqa: E731
        return Pending([work], check, [data, chunks])

    def coalesced(self, op: Op) -> Pending:
        """Issue one coalesced collective over a list of tensors."""
        manage = dist._coalescing_manager  # noqa: SLF001 - the only door to coalesced collectives
        with manage(self.pg[op["group"]], async_ops=True) as manager:
            parts = [ISSUE[op["kind"]](self, member) for member in op["ops"]]
        pending = Pending(
            [manager],
            lambda: [complaint for part in parts for complaint in part.check()],
            [part.buffers for part in parts],
        )
        if not op.get("async"):
            manager.wait()
        return pending


ISSUE: dict[str, Callable[[Mover, Op], Pending]] = {
    "send": Mover.send,
    "recv": Mover.recv,
    "barrier": Mover.barrier,
    "broadcast": Mover.broadcast,
    "all_reduce": Mover.all_reduce,
    "reduce": Mover.reduce,
    "all_gather": Mover.all_gather,
    "all_gather_into_tensor": Mover.all_gather,
    "gather": Mover.gather,
    "scatter": Mover.scatter,
    "reduce_scatter": Mover.reduce_scatter,
    "reduce_scatter_tensor": Mover.reduce_scatter,
    "all_to_all": Mover.all_to_all,
    "all_to_all_single": Mover.all_to_all,
    "coalesced": Mover.coalesced,
    "batch": Mover.batch,
}
