"""Children that end, that do not, and that another waited for."""

from __future__ import annotations

import os
import signal
import time

import pytest

from planguard.capture.play import processes
from planguard.capture.play.processes import ended, run_ranks, start_autograd
from planguard.errors import UsageError

pytestmark = pytest.mark.processes


def child(body):
    """Fork a child that runs ``body`` and ends with what it returns."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(body())
        finally:
            os._exit(70)  # else it would go on with the tests
    return pid


@pytest.mark.parametrize("has_handles", [True, False])
def test_a_child_that_ends_is_waited_for(has_handles, monkeypatch):
    """Its exit code, or the signal that ended it; one that goes on is killed, and stays none."""
    if not has_handles:  # no Linux, or one before 5.3
        monkeypatch.delattr(os, "pidfd_open")
    assert ended(child(lambda: 3), 60) == 3
    assert ended(child(lambda: time.sleep(0.05) or 0), 60) == 0
    dying = child(lambda: os.kill(os.getpid(), signal.SIGKILL) or time.sleep(60))
    assert ended(dying, 60) == -signal.SIGKILL
    staying = child(lambda: time.sleep(600))
    assert ended(staying, 0.05) is None
    with pytest.raises(ProcessLookupError):
        os.kill(staying, 0)
    buried = child(lambda: 0)
    os.waitpid(buried, 0)
    assert ended(buried, 60) is None


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="before Linux 5.3 ends are polled")
def test_nothing_is_slept_where_a_child_ends(monkeypatch):
    """A play has a child for every rank: what each of them waits too long adds up."""
    monkeypatch.setattr(processes.time, "sleep", pytest.fail)
    assert ended(child(lambda: 7), 60) == 7


def test_a_rank_whose_gradient_torch_refuses_tells_the_way_around():
    """The refusal comes wrapped by the compiler, and is torch's: the error says what to do."""

    def task(_):
        raise RuntimeError(f"backend raised: see github.com/{processes._FORKED}")

    with pytest.raises(UsageError, match="computes no gradients in a fork") as caught:
        run_ranks([0], task, timeout=60)
    assert 'start="spawn"' in caught.value.hint


@pytest.mark.parametrize(("cuda", "devices", "said", "computed"), [
    ("13.0", 0, "the driver is insufficient", 1),
    ("13.0", 0, processes._TRACED, 0),
    ("13.0", 1, "nobody asks", 0),
    (None, 0, "nobody asks", 0),
])  # fmt: skip
def test_a_gradient_comes_before_made_up_devices_only(monkeypatch, cuda, devices, said, computed):
    """Where a build for CUDA has no device and none is made up yet; else threads would start, in
    which no fork computes gradients. The caller may have switched gradients off.
    """
    torch = pytest.importorskip("torch")

    def refuse(**_):
        raise RuntimeError(said)

    found = []
    original = torch.autograd.grad
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
    monkeypatch.setattr(torch, "Stream", refuse)
    monkeypatch.setattr(torch.autograd, "grad", lambda *given: found.extend(original(*given)))
    with torch.inference_mode():
        start_autograd()
    assert [one.item() for one in found] == [1.0] * computed
