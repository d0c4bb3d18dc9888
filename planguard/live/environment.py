"""The guard of a job that was not changed: its numbers come by the environment of its ranks.

``planguard guard -- COMMAND`` sets them; ``torch.distributed.init_process_group`` starts the guard
and ``destroy_process_group`` ends it, as a program would that calls ``planguard.live.guard``.
"""

from __future__ import annotations

import atexit
import functools
import multiprocessing.util
import os
import sys
from typing import TYPE_CHECKING, Any

from planguard.errors import PlanGuardError
from planguard.guarding import SWITCH, GuardOptions, from_environment
from planguard.live.watch import guard

if TYPE_CHECKING:
    from planguard.live.watch import LiveGuard

_C10D = ("torch.distributed", "torch.distributed.distributed_c10d")


def start_from_environment() -> None:
    """Guard every process group that this process makes from now on, if it was asked for."""
    import torch.distributed as dist

    if os.environ.get(SWITCH) != "1" or not dist.is_available():
        return
    options = GuardOptions(**from_environment(os.environ))
    running: list[LiveGuard] = []

    def end() -> None:
        while running:
            running.pop().stop()

    def initializing(original: Any) -> Any:
        @functools.wraps(original)
        def init_process_group(*args: Any, **named: Any) -> Any:
            found = original(*args, **named)
            try:
                running.append(
                    guard(
                        options.timeout,
                        warn_after=options.warn_after,
                        report=options.report or None,
                        exit_code=options.exit_code or None,
                        native=options.native,
                    )
                )
            except (RuntimeError, PlanGuardError) as error:  # a guard must never end its job
                sys.stderr.write(f"planguard: this rank is not guarded: {error}\n")
            return found

        return init_process_group

    def ending(original: Any) -> Any:
        @functools.wraps(original)
        def destroy_process_group(group: Any = None) -> Any:
            if group is None or group is dist.group.WORLD:
                end()
            return original(group)

        return destroy_process_group

    for name, wrap in (("init_process_group", initializing), ("destroy_process_group", ending)):
        original = getattr(dist, name)
        replacement = wrap(original)
        for module in _C10D:
            setattr(sys.modules[module], name, replacement)
    atexit.register(end)
    # A process of multiprocessing ends without the interpreter's own end.
    multiprocessing.util.Finalize(None, end, exitpriority=0)
