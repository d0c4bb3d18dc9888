"""A guard beside a running job: a thread per process, a store of its own, two readings.

Idle it costs one look at the clock per tick. A rank that stands in one call for longer than the
timeout publishes where; rank 0 looks for a set of ranks that can never move again, reads all of
them a second time, and only then reports (as the Intel Trace Collector does).
"""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import os
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from planguard.arguments import CALLABLE, DURATION, FLAG, INTEGER, PATH, arguments
from planguard.errors import UsageError
from planguard.files import write
from planguard.live.analysis import find_stuck
from planguard.live.hooks import Hooks
from planguard.live.report import LiveReport, no_progress, report_of
from planguard.live.state import RankState
from planguard.live.tracker import Tracker, ended

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

TICK = 0.25
_LATER = 5.0
"""Times the timeout until slowness is said: the Intel Trace Collector's 5 minutes beside its 1."""


class LiveGuard:
    """Watches this rank until it is stopped; make one with ``guard``."""

    def __init__(
        self,
        timeout: float,
        warn_after: float,
        report: Path | None,
        exit_code: int | None,
        on_stuck: Callable[[LiveReport], None] | None,
        *,
        native: bool = True,
    ) -> None:
        import torch.distributed as dist

        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.timeout, self.warn_after = timeout, warn_after
        self.file, self.exit_code, self.on_stuck = report, exit_code, on_stuck
        self.tracker = Tracker(self.rank, self.world_size, native=native)
        self.result: LiveReport | None = None
        self.ticks = 0
        self._hooks = Hooks(self.tracker)
        self._store = _own_store(self.rank)
        self._stop = threading.Event()
        self._epoch = 0
        self._published = 0.0
        self._told = False
        self._warned = False
        self._thread = threading.Thread(target=self._run, name="planguard-live", daemon=True)

    def start(self) -> LiveGuard:
        """Install the hooks and start the thread."""
        self._hooks.install()
        self._publish(self.tracker.state(self._epoch, self.timeout))
        self._thread.start()
        return self

    def stop(self) -> None:
        """Say that this rank leaves, and take the hooks away; a second call does nothing."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._thread.join(timeout=5.0)
        self._hooks.remove()
        with contextlib.suppress(Exception):  # the store may have gone with rank 0
            self._publish(ended(self.tracker.state(self._epoch + 1, self.timeout)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        self.stop()

    # --- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop.wait(TICK):
            try:
                if self.tick():
                    return
            except Exception as error:  # noqa: BLE001  a guard must never end the job it guards
                self._alone(error)
                return

    def _alone(self, error: Exception) -> None:
        """Say where this rank stands when the store has gone with rank 0."""
        state = self.tracker.state(self._epoch, self.timeout)
        where = "computes" if state.current is None else f"stands in {state.current.text()}"
        said = (
            f"planguard live: rank {self.rank} {where} for {state.since_s:.1f} s; rank 0 has left, "
            f"so nobody compares ({type(error).__name__})"
        )
        _say("\n  ".join([said, *state.stack, *state.native]))

    def tick(self) -> bool:
        """Look once; True when a verdict was reached."""
        self.ticks += 1
        now = time.monotonic()
        late = self.tracker.is_late(self.timeout)
        due = now - self._published >= max(TICK, self.timeout / 8)
        if due and (late or self._told):
            self._publish(self.tracker.state(self._epoch, self.timeout))
            if late and not self._told:
                self._store.add("late", 1)
            self._told = late or self._told
        elif due and now - self._published >= self.timeout / 2:
            self._publish(self.tracker.state(self._epoch, self.timeout))
        if self._told and self._store.check(["verdict"]):
            return self._end()
        if due and (self.rank == 0 or self._told) and self._store.check(["late"]):
            return self._is_reporter() and self._look()
        return False

    def _is_reporter(self) -> bool:
        """Whether this rank is the first that has not left."""
        lower = self._states(self.rank)
        return len(lower) == self.rank and all(state.has_ended for state in lower.values())

    def _publish(self, state: RankState) -> None:
        self._epoch += 1
        self._store.set(f"rank/{self.rank}", replace(state, epoch=self._epoch).to_bytes())
        self._published = time.monotonic()

    def _look(self) -> bool:
        """Read every rank twice; report what stood still in both readings."""
        first = self._states()
        if find_stuck(first, self.timeout, self.world_size) is None:
            self._maybe_warn(first)
            return False
        # Long enough for every rank to publish again, stuck or not.
        if self._stop.wait(self.timeout / 2 + 2 * TICK):
            return False
        self._publish(self.tracker.state(self._epoch, self.timeout))
        second = self._states()
        steady = {
            rank: state
            for rank, state in second.items()
            if rank in first and (state.same_place(first[rank]) or state.current is None)
        }
        found = find_stuck(steady, self.timeout, self.world_size)
        if found is None:
            return False
        self.result = report_of(found, second, self.timeout)
        _say(self.result.text())
        if self.file is not None:
            try:
                write(self.file, self.result.text())
                write(self.file.with_suffix(".json"), self.result.json())
            except (OSError, UsageError) as error:  # a full disk must not keep the job hanging
                _say(f"planguard: the report was not written: {error}\n")
        self._store.set("exit-at", str(time.time() + 1.0))
        self._store.set("verdict", self.result.json())
        return self._end()

    def _states(self, below: int | None = None) -> dict[int, RankState]:
        found = {}
        for rank in range(self.world_size if below is None else below):
            key = f"rank/{rank}"
            if self._store.check([key]):
                with contextlib.suppress(ValueError):
                    found[rank] = RankState.from_bytes(self._store.get(key))
        return found

    def _maybe_warn(self, states: dict[int, RankState]) -> None:
        said = no_progress(states, self.warn_after, self.world_size)
        if said and not self._warned:
            self._warned = True
            _say(said)

    def _end(self) -> bool:
        """Act on the verdict in this process."""
        if self.result is None:
            self.result = LiveReport.from_json(bytes(self._store.get("verdict")).decode())
        if self.on_stuck is not None:
            self.on_stuck(self.result)
        if self.exit_code is not None:
            # At one moment on all ranks: who sees a neighbor leave would print an error first.
            left = float(self._store.get("exit-at")) - time.time()
            time.sleep(min(max(left, 0.0), 2.0))
            sys.stderr.flush()
            os._exit(self.exit_code)
        return True


def _say(text: str) -> None:
    """Write to the job's own error stream: the guard has no other."""
    sys.stderr.write(text.rstrip("\n") + "\n")
    sys.stderr.flush()


@arguments(
    timeout=DURATION,
    warn_after=DURATION,
    report=PATH,
    exit_code=INTEGER,
    on_stuck=CALLABLE,
    native=FLAG,
)  # fmt: skip
def guard(
    timeout: float = 60.0,
    *,
    warn_after: float | None = None,
    report: str | Path | None = None,
    exit_code: int | None = None,
    on_stuck: Callable[[LiveReport], None] | None = None,
    native: bool = True,
) -> LiveGuard:
    """Watch this process group for ranks that can never move again.

    Call it on every rank after ``init_process_group``, as a function or with ``with``.

    Args:
        timeout: Seconds in one call after which a rank is suspected.
        warn_after: Mean seconds of all ranks in their last call after which PG502 is said; None for
            five times the timeout, above what a deadlock takes to be told.
        report: Rank 0 writes the report here, and beside it as JSON.
        exit_code: End every stuck process with this code after the report; None: only report.
        on_stuck: Called with the report, in the guard's thread of every stuck rank.
        native: Read native stacks, too; a signal makes the main thread of a late rank walk its own.

    Raises:
        UsageError: torch.distributed is not initialized, or the timeout is not positive.
    """
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_initialized():
        hint = "call it after torch.distributed.init_process_group"
        raise UsageError("there is no process group to guard", hint=hint)
    if timeout <= 0:
        raise UsageError(f"a timeout of {timeout} seconds", hint="give seconds above 0")
    path = None if report is None else Path(report)
    warn = _LATER * timeout if warn_after is None else warn_after
    return LiveGuard(timeout, warn, path, exit_code, on_stuck, native=native).start()


_guards = itertools.count()
"""How many guards this process has had: all ranks call ``guard`` equally often."""


def _own_store(rank: int) -> Any:
    """Return a store of the guard's own; the job's store is used once, to tell its port.

    torchrun keeps the job's store when it starts the ranks anew (torch 2.13,
    elastic/rendezvous/dynamic_rendezvous.py, ``use_agent_store``), and a process may make its
    groups anew: the port of an earlier guard is still there, and nobody listens any more.
    """
    from torch.distributed import TCPStore
    from torch.distributed.distributed_c10d import _get_default_store

    job = _get_default_store()
    again = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    key = f"planguard/live/port/{again}/{next(_guards)}"
    host = os.environ.get("MASTER_ADDR", "127.0.0.1")
    wait = dt.timedelta(seconds=60)
    if rank == 0:
        store = TCPStore(host, 0, None, is_master=True, timeout=wait, wait_for_workers=False)
        job.set(key, str(store.port))
        return store
    port = int(job.get(key))
    return TCPStore(host, port, None, is_master=False, timeout=wait, wait_for_workers=False)
