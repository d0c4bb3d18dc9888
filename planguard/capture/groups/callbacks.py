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
from weakref import WeakKeyDictionary, WeakSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

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
    done: WeakSet[Any] = WeakSet()

    def is_aside(one: Any) -> bool:
        """Whether a callback that is added now runs elsewhere; on what is done it runs here."""
        issued = recorder.futures.get(one)
        return runs_aside() and one not in done and not (issued is not None and issued.waited)

    def running(one: Any, callback: Any) -> tuple[Any, int]:
        number = chains.get(one) or threads.begun()

        def run(given: Any) -> Any:
            with threads.as_thread(number):
                return callback(given)

        return run, number

    def watched_then(one: Any, callback: Any) -> Any:
        if not is_aside(one):
            return then(one, callback)
        run, number = running(one, callback)
        found = then(one, run)
        chains[found] = number
        return found

    def watched_added(one: Any, callback: Any) -> Any:
        return added(one, running(one, callback)[0] if is_aside(one) else callback)

    def watched_wait(one: Any) -> Any:
        issued = recorder.futures.get(one)
        if issued is not None:
            recorder.wait(issued)
        found = waited(one)
        done.add(one)
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


def watch_callbacks(
    replace: Callable[[Any, str, Any], None], entered: Callable[[], AbstractContextManager[None]]
) -> None:
    """Tell a recorded run where callbacks of futures begin and end, in whatever thread.

    Args:
        replace: Called with owner, name and the new method.
        entered: Makes what is held while a callback runs.
    """
    import torch

    future: Any = torch._C.Future  # noqa: SLF001 - what the public class extends

    def adding(original: Any) -> Any:
        def add(one: Any, callback: Any) -> Any:
            def run(given: Any) -> Any:
                with entered():
                    return callback(given)

            return original(one, run)

        return add

    for name in ("then", "add_done_callback"):
        replace(future, name, adding(vars(future)[name]))
