"""Plays the program of one process: issues, waits, and reports every action."""

# ruff: noqa: TC004

from __future__ import annotations

import gc
import os
import queue
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from planguard.replay.script.data import BACKEND, CREATED_FIRST, GROUPS, PROGRAMS, Op
from planguard.replay.script.moves import Mover, Pending

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    import torch.distributed as dist

# gloo must never give up by itself: the watcher decides what is stuck.
NEVER = timedelta(days=1)


class Rank(Mover):
    """Plays the program of one process.

    Args:
        me: Number of this process.
        tell: Sends one progress record to the watcher.
        pause: Holds an action back: until others came as far as it says, and for a random delay.
    """

    def __init__(
        self, me: int, tell: Callable[..., None], pause: Callable[[Op], None] = lambda _: None
    ) -> None:
        super().__init__(me)
        self.tell = tell
        self.pause = pause
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
