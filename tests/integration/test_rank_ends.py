"""How the process of a rank ends: callbacks of atexit, and os._exit, as real ranks do it."""

# ruff: noqa: D103 - programs as people write them
from __future__ import annotations

import atexit
import os

import pytest

from planguard.errors import UsageError
from planguard.verdict import Outcome

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

from planguard.capture import precheck  # noqa: E402 - torch must be there


def decide(job, world=2):
    """Play a job and give its verdict."""
    return precheck(world, model="gloo", on_unsafe="return", timeout=60.0).run(job)


def last():
    dist.all_reduce(torch.ones(1))


def one_at_exit():
    if dist.get_rank() == 0:
        atexit.register(last)
    dist.all_reduce(torch.ones(2))


def all_at_exit():
    atexit.register(last)
    dist.all_reduce(torch.ones(2))


def none_at_exit():
    if dist.get_rank() == 0:
        atexit.register(last)
    dist.all_reduce(torch.ones(2))
    atexit.unregister(last)


def one_raises_at_exit():
    if dist.get_rank() == 0:
        atexit.register(lambda: 1 / 0)
    dist.all_reduce(torch.ones(2))


def other_order_at_exit():
    calls = [lambda: dist.all_reduce(torch.ones(1)), lambda: dist.broadcast(torch.ones(1), 0)]
    for call in calls[:: 1 if dist.get_rank() else -1]:
        atexit.register(call)
    dist.all_reduce(torch.ones(2))


def one_leaves_at_once():
    if dist.get_rank() == 1:
        os._exit(0)
    dist.all_reduce(torch.ones(2))


def all_leave_at_once():
    dist.all_reduce(torch.ones(2))
    atexit.register(last)
    os._exit(0)


def a_child_leaves_at_once():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    dist.all_reduce(torch.ones(2))


@pytest.mark.parametrize(
    "job", [one_at_exit, other_order_at_exit, one_leaves_at_once], ids=lambda job: job.__name__
)
def test_ranks_that_end_apart_are_found(job):
    """One calls when the others have gone, or in another order, or is gone when they call."""
    assert decide(job).unsafe


@pytest.mark.parametrize(
    "job",
    [all_at_exit, none_at_exit, one_raises_at_exit, all_leave_at_once, a_child_leaves_at_once],
    ids=lambda job: job.__name__,
)
def test_ranks_that_end_alike_are_right(job):
    """All call; nobody does; an error in a callback ends nothing; os._exit runs no callback."""
    assert decide(job).outcome is Outcome.SAFE


def test_a_callback_is_forgotten_with_its_rank():
    """What a played rank registers is not called when the process that plays it ends."""
    before = atexit._ncallbacks()
    decide(all_at_exit)
    assert atexit._ncallbacks() == before


def fails_at_once():
    dist.all_reduce(torch.ones(2))
    os._exit(3)


def test_a_process_that_ends_by_a_code_is_an_error_that_says_so():
    """It is no safe end, and the message names what was called."""
    with pytest.raises(UsageError, match=r"os\._exit\(3\)"):
        decide(fails_at_once)


def from_anyone():
    if dist.get_rank() == 0:
        for _ in range(2):
            dist.recv(torch.zeros(1))
    else:
        dist.send(torch.ones(1), 0)


def answered():
    if dist.get_rank() == 0:
        for _ in range(2):
            sender = dist.recv(torch.zeros(1))
            dist.send(torch.ones(1), sender)
    else:
        dist.send(torch.ones(1), 0)
        dist.recv(torch.zeros(1), 0)


def test_a_receive_from_anyone_that_waits_is_played():
    """Two messages, two receives: whichever comes first, nothing is left."""
    verdict = decide(from_anyone, 3)
    assert not verdict.unsafe
    assert "data-dependent" not in " ".join(one.kind for one in verdict.approximations)


def test_who_sent_a_message_is_not_decided():
    """The answer goes to whoever sent first, which was not played: UNKNOWN, with the line."""
    verdict = decide(answered, 3)
    assert verdict.unknown
    assert "test_rank_ends.py:" in " ".join(verdict.reasons)


def test_a_fork_that_computes_no_gradients_says_nothing_of_the_job():
    """As a build for CUDA raises it once the calling process has computed a gradient."""

    def job():
        if dist.get_rank() == 1:
            raise RuntimeError(
                "Unable to handle autograd's threading in combination with fork-based "
                "multiprocessing. See https://github.com/pytorch/pytorch/wiki/Autograd-and-Fork"
            )
        dist.all_reduce(torch.ones(2))

    with pytest.raises(UsageError, match="computes no gradients in a fork") as caught:
        decide(job)
    assert "fresh process" in str(caught.value.hint)
