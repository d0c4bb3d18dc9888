"""Callbacks of futures that communicate: on gloo they run in threads of its own, whenever they may.

``work.get_future().then(callback)`` runs the callback in the thread that completes the work. A
played rank runs it at once, so that its calls are noted as those of a thread that starts at
``then`` and is joined where somebody waits for the future. What follows on a callback's own future
comes behind it, in the same thread. DDP waits for the futures of communication hooks before its
backward pass returns. NCCL's futures are complete when the work has been queued, and their
callbacks run in the thread that adds them (torch 2.13, ProcessGroupNCCL.cpp, ``getFuture``).
"""

from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planguard.capture.groups.recorder import Recorder


@contextmanager
def callbacks_aside(recorder: Recorder, runs_aside: Callable[[], bool]) -> Iterator[None]:
    """Note what callbacks of futures issue as calls of threads, to the end of the block.

    Args:
        recorder: Of the played rank.
        runs_aside: Whether callbacks of this job's backend run in threads of the backend.
    """
    import torch

    threads = recorder.threads
    future: Any = torch._C.Future  # noqa: SLF001 - what the public class extends
    ddp: Any = torch.nn.parallel.DistributedDataParallel
    places = [(future, name) for name in ("then", "add_done_callback", "wait")]
    places.append((ddp, "register_comm_hook"))
    before = [(owner, name, vars(owner)[name]) for owner, name in places]
    then, added, waited, registered = (value for _, _, value in before)
    # Held weakly: another future may get the place of one that has gone.
    chains: WeakKeyDictionary[Any, int] = WeakKeyDictionary()

    def running(one: Any, callback: Any) -> tuple[Any, int]:
        number = chains.get(one) or threads.begun()

        def run(done: Any) -> Any:
            with threads.as_thread(number):
                return callback(done)

        return run, number

    def watched_then(one: Any, callback: Any) -> Any:
        if not runs_aside():
            return then(one, callback)
        run, number = running(one, callback)
        found = then(one, run)
        chains[found] = number
        return found

    def watched_added(one: Any, callback: Any) -> Any:
        return added(one, running(one, callback)[0] if runs_aside() else callback)

    def watched_wait(one: Any) -> Any:
        issued = recorder.futures.get(one)
        if issued is not None:
            recorder.wait(issued)
        found = waited(one)
        if one in chains:
            threads.joined(chains[one])
        return found

    def watched_hook(model: Any, state: Any, hook: Any) -> Any:
        @functools.wraps(hook)
        def noted(*args: Any) -> Any:
            found = hook(*args)
            if found in chains:
                recorder.hooked.append(chains[found])
            return found

        return registered(model, state, noted)

    news = (watched_then, watched_added, watched_wait, watched_hook)
    for (owner, name), new in zip(places, news, strict=True):
        setattr(owner, name, new)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)
