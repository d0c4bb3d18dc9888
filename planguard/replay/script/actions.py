"""One function per operation: issue it on gloo, keep its handle, look at the data when it ended."""

# ruff: noqa: TC004

from __future__ import annotations

import gc
import os
import queue
import threading
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from planguard.replay.script.data import BACKEND, CREATED_FIRST, GROUPS, PROGRAMS, Op
from planguard.replay.script.payload import (
    blank,
    check_message,
    check_reduced,
    message,
    numbers,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    import torch.distributed as dist

# gloo must never give up by itself: the watcher decides what is stuck.
NEVER = timedelta(days=1)


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


class Rank:
    """Plays the program of one process.

    Args:
        me: Number of this process.
        tell: Sends one progress record to the watcher.
        pause: Holds an action back: until others came as far as it says, and for a random delay.
    """

    def __init__(
        self, me: int, tell: Callable[..., None], pause: Callable[[Op], None] = lambda _: None
    ) -> None:
        self.me = me
        self.tell = tell
        self.pause = pause
        self.pg: dict[str, Any] = {"world": None}
        self.works: dict[str, Pending] = {}
        self.kept: list[Pending] = []
        self.by_id: dict[str, Pending] = {}

    def connect(self, store: str) -> None:
        """Join the default group and create the groups that exist before the first action."""
        world = len(PROGRAMS)
        options: dict[str, Any] = {}
        if BACKEND == "nccl":
            torch.cuda.set_device(self.me)
            options["device_id"] = torch.device("cuda", self.me)
        dist.init_process_group(
            BACKEND,
            store=dist.FileStore(store, world),
            rank=self.me,
            world_size=world,
            timeout=NEVER,
            **options,
        )
        for name in CREATED_FIRST:
            self.new_group(name)

    def new_group(self, name: str) -> None:
        """Create a group; every process calls this, members or not."""
        members = GROUPS[name]
        # new_group sorts the ranks unless told otherwise, and group order decides who gets what.
        keep_order = {} if members == sorted(members) else {"sort_ranks": False}
        self.pg[name] = dist.new_group(members, backend=BACKEND, timeout=NEVER, **keep_order)

    def run(self, program: list[Op]) -> None:
        """Play a program, or one thread of it, and report every action."""
        for op in program:
            if op["op"] == "threads":
                self.threads(op)
                continue
            self.pause(op)
            self.tell("start", op["at"], op.get("name", op["op"]), op["text"])
            self.play(op)
            self.tell("done", op["at"])

    def play(self, op: Op) -> None:
        """Play one action of the program to the point where the host may go on."""
        kind = op["op"]
        if kind in CONTROL:
            CONTROL[kind](self, op)
            return
        pending = self.issue(op)
        if not op.get("async"):
            self.finish(op["at"], pending)
            pending = Pending([])
        pending.action = op
        if "id" in op:
            self.by_id[op["id"]] = pending
        if "work" in op:
            self.works[op["work"]] = pending
        else:
            self.kept.append(pending)

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

    def finish(self, at: int, pending: Pending) -> None:
        """Wait for the handles and report data that are not what the plan means."""
        if pending.waiter is not None:
            pending.waiter.join()
        for work in pending.works:
            if work is not None:
                work.wait()
        if BACKEND == "nccl":
            block_until_done()
        for complaint in pending.check():
            if complaint:
                self.tell("mismatch", at, complaint)
        # What was waited for once may be named again: by a computation, or by a second wait.
        pending.works, pending.check, pending.waiter = [], list, None

    def drain(self) -> None:
        """Wait for everything still under way, in issue order, and look at its data."""
        for pending in (*self.works.values(), *self.kept):
            if pending.works or pending.waiter:
                op = pending.action
                self.tell("start", op["at"], op.get("name", op["op"]), op["text"])
                self.finish(op["at"], pending)
                self.tell("done", op["at"])

    # ---- actions that move no data ------------------------------------------------------------

    def wait(self, op: Op) -> None:
        """Wait for one or several handles, in the order given, or for the first of them."""
        if op.get("first") and op["works"]:
            self.wait_for_first([self.works[name] for name in op["works"]])
            return
        for name in op["works"]:
            self.finish(op["at"], self.works.pop(name))

    def wait_for_first(self, several: list[Pending]) -> None:
        """Wait in one thread per handle: torch has no wait for any of several."""
        done: queue.SimpleQueue[None] = queue.SimpleQueue()

        def one(works: list[Any], before: threading.Thread | None) -> None:
            if before is not None:
                before.join()
            for work in works:
                if work is not None:
                    work.wait()
            done.put(None)

        for pending in several:
            parts = (pending.works, pending.waiter)
            pending.works, pending.waiter = (
                [],
                threading.Thread(target=one, args=parts, daemon=True),
            )
            pending.waiter.start()
        done.get()

    def look(self, op: Op) -> None:
        """Let a computation wait for the communication that it depends on."""
        for name in op["ids"]:
            self.finish(op["at"], self.by_id[name])

    def threads(self, op: Op) -> None:
        """Play host threads, each in its own order; go on when all have ended."""
        problems: list[BaseException] = []

        def one(program: list[Op]) -> None:
            try:
                self.run(program)
            except BaseException as problem:  # noqa: BLE001 - raised again by the main thread
                problems.append(problem)

        started = [threading.Thread(target=one, args=(t,), daemon=True) for t in op["threads"]]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()
        if problems:
            raise problems[0]

    def test(self, op: Op) -> None:
        """Poll a handle once."""
        works = [work for name in op["works"] for work in self.works[name].works]
        self.tell("test", op["at"], all(work.is_completed() for work in works if work is not None))

    def drop(self, op: Op) -> None:
        """Let a handle die unwaited; the buffers stay, as in a model that keeps its tensors."""
        for name in op["works"]:
            pending = self.works.pop(name)
            self.kept.append(Pending([], buffers=pending.buffers))
            del pending
        gc.collect()

    def create(self, op: Op) -> None:
        """Call new_group where the plan calls it."""
        self.new_group(op["group"])

    def destroy(self, op: Op) -> None:
        """End a group on this rank."""
        dist.destroy_process_group(self.pg[op["group"]])

    def leave(self, op: Op) -> None:
        """End the process at once, without goodbye."""
        self.tell("exit", op["at"])
        os._exit(0)

    def nothing(self, op: Op) -> None:
        """Pass over what has no counterpart on CPU (kernels, streams, events, copies)."""

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


def block_until_done() -> None:
    """Hold the host until the current stream is through: what blocks a GPU is seen at its call."""
    event = torch.cuda.Event()
    event.record()
    while not event.query():
        time.sleep(0.001)


CONTROL: dict[str, Callable[[Rank, Op], None]] = {
    "wait": Rank.wait,
    "test": Rank.test,
    "drop": Rank.drop,
    "new_group": Rank.create,
    "destroy": Rank.destroy,
    "exit": Rank.leave,
    "nothing": Rank.nothing,
    "look": Rank.look,
}
ISSUE: dict[str, Callable[[Rank, Op], Pending]] = {
    "send": Rank.send,
    "recv": Rank.recv,
    "barrier": Rank.barrier,
    "broadcast": Rank.broadcast,
    "all_reduce": Rank.all_reduce,
    "reduce": Rank.reduce,
    "all_gather": Rank.all_gather,
    "all_gather_into_tensor": Rank.all_gather,
    "gather": Rank.gather,
    "scatter": Rank.scatter,
    "reduce_scatter": Rank.reduce_scatter,
    "reduce_scatter_tensor": Rank.reduce_scatter,
    "all_to_all": Rank.all_to_all,
    "all_to_all_single": Rank.all_to_all,
    "coalesced": Rank.coalesced,
    "batch": Rank.batch,
}
