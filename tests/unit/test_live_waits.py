"""What the live guard takes for a wait where nobody calls wait on a handle."""

from __future__ import annotations

import pytest

from planguard.live.analysis import find_stuck
from planguard.live.native_stack import waits_for_the_device, waits_in_a_call
from planguard.live.report import no_progress, report_of
from planguard.live.state import Call, RankState
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


ON_THE_DEVICE = [
    # As NVIDIA's libraries name the frames of a host that waits for a stream, an event or a copy:
    # it polls, or sleeps in the driver, whose own functions have no names.
    ("? in libcuda.so.1", "? in libcuda.so.1", "cudaStreamSynchronize in libcudart.so.13"),
    ("clock_gettime in libc.so.6", "? in libcuda.so.1", "cuStreamSynchronize in libcuda.so.1"),
    ("sched_yield in libc.so.6", "? in libcuda.so.1", "cudaEventSynchronize in libcudart.so.13"),
    ("poll in libc.so.6", "? in libcuda.so.1", "cudaDeviceSynchronize in libcudart.so.12"),
    (
        "pthread_cond_wait in libc.so.6", "cuStreamSynchronize in libcuda.so.1",
        "at::native::_local_scalar_dense_cuda(at::Tensor const&) in libtorch_cuda.so",
    ),
]  # fmt: skip


@pytest.mark.parametrize("frames", ON_THE_DEVICE)
def test_a_wait_for_the_device_is_not_a_wait_for_a_call(frames):
    """On NCCL the host stands in a stream wait: a long kernel looks as a hang does. Taken from
    documentation of the libraries, for want of a GPU.
    """
    assert not waits_in_a_call(frames)
    assert waits_for_the_device(frames)
    assert not waits_for_the_device((*SLEEPING, GLOO))


def test_hosts_that_wait_for_their_gpus_are_shown_and_not_called_stuck():
    """Both stand in a stream wait behind a call that fits, or does not: no verdict, since both may
    compute; the warning has their calls and lines, and says what would tell.
    """
    states = {
        rank: RankState(
            rank, issued=1, counts={"g": 1}, since_s=60.0, is_certain=False,
            current=Call(0, op, "g", (0, 1), position=1, where=f"/p/train.py:{line}"),
            stack=(f"/p/train.py:{line} in step",), native=ON_THE_DEVICE[0],
        )
        for rank, (op, line) in enumerate((("all_reduce", 40), ("broadcast", 50)))
    }  # fmt: skip
    assert find_stuck(states, 5.0, 2) is None
    said = no_progress(states, 25.0, 2).splitlines()
    assert said[1].startswith("  r0 waits for its GPU, last call all_reduce on g")
    assert said[1].endswith("at /p/train.py:40")
    assert said[2].endswith("at /p/train.py:50")
    assert said[3].startswith("help: seen from the host a long kernel is as a hang")


def test_a_host_that_waits_for_its_gpu_behind_a_call_that_nobody_will_join_is_named():
    """The other rank has left: whatever the kernel, its all_reduce never ends."""
    call = Call(1, "all_reduce", "g", (0, 1), position=2, where="/p/train.py:40")
    states = {
        0: RankState(
            0, issued=2, counts={"g": 2}, current=call, since_s=60.0, is_certain=False,
            stack=("/p/train.py:41 in step",), native=ON_THE_DEVICE[0],
        ),
        1: RankState(1, issued=1, counts={"g": 1}, has_ended=True),
    }  # fmt: skip
    found = find_stuck(states, 5.0, 2)
    assert found is not None
    text = report_of(found, states, 5.0).text()
    assert found.ranks == (0,)
    assert "concluded from its stack" in text
    assert "cudaStreamSynchronize" in text


def test_a_handle_of_nccl_that_blocks_the_host_is_a_wait():
    """With TORCH_NCCL_BLOCKING_WAIT=1 the host sleeps in the handle's own wait between two looks;
    as torch's source names it, for want of a GPU.
    """
    wait = "c10d::ProcessGroupNCCL::WorkNCCL::synchronizeInternal(...) in libtorch_cuda.so"
    sleep = ("clock_nanosleep in libc.so.6", "nanosleep in libc.so.6")
    assert waits_in_a_call((*sleep, wait))
    assert not waits_in_a_call(("clock_gettime in libc.so.6", wait))


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
