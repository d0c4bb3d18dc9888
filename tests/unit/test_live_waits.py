"""What the live guard takes for a wait where nobody calls wait on a handle."""

from __future__ import annotations

from planguard.live.native_stack import waits_in_a_call
from planguard.live.tracker import Tracker

SLEEPING = (
    "? in libc.so.6", "pthread_cond_wait in libc.so.6",
    "std::condition_variable::wait(std::unique_lock<std::mutex>&) in libstdc++.so.6",
)  # fmt: skip
REDUCER = "c10d::Reducer::finalize_backward() in libtorch_cpu.so"
GLOO = "gloo::transport::tcp::UnboundBuffer::waitRecv(int*, long) in libtorch_cpu.so"


def test_a_sleep_below_torchs_own_wait_is_a_wait():
    """Torch 2.13 in a hang of DDP; older systems have the wait in libpthread."""
    assert waits_in_a_call((*SLEEPING, REDUCER, "? in libtorch_cpu.so"))
    assert waits_in_a_call(("pthread_cond_timedwait in libpthread.so.0", GLOO))


def test_what_works_or_waits_for_something_else_is_none():
    """Copies of gradients, a store, a function that is not known in between, a future of nobody."""
    assert not waits_in_a_call(())
    assert not waits_in_a_call(SLEEPING)
    assert not waits_in_a_call((REDUCER,))
    assert not waits_in_a_call(("? in libc.so.6", REDUCER))
    assert not waits_in_a_call(("memcpy in libc.so.6", REDUCER))
    assert not waits_in_a_call((*SLEEPING, "? in libtorch_python.so", REDUCER))
    assert not waits_in_a_call(("poll in libc.so.6", "c10d::TCPStore::wait() in libtorch_cpu.so"))


class Handle:
    """Stands for a handle or a future."""


def test_a_future_is_waited_for_as_its_call():
    """The future of a handle and what follows on it; a future of rpc is no wait of the guard's."""
    tracker = Tracker(0, 2, native=False)
    tracker.issue("all_reduce", "g", (0, 1), None, 0)
    work, future, after, rpc = Handle(), Handle(), Handle(), Handle()
    tracker.returned(work)
    tracker.future_of(work, future)
    tracker.future_of(future, after)
    tracker.issue("barrier", "g", (0, 1), None, 0)
    leave = tracker.enter_future(after)
    state = tracker.state(0, 60.0)
    assert state.current is not None
    assert (state.current.op, state.is_certain) == ("all_reduce", True)
    leave()
    assert tracker.state(0, 60.0).current is None
    tracker.enter_future(rpc)()
    tracker.future_of(rpc, Handle())
    assert tracker.state(0, 60.0).current is None
