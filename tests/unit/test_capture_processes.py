"""Children that end, that do not, and that another waited for."""

from __future__ import annotations

import os
import signal
import time

import pytest

from planguard.capture.play import processes
from planguard.capture.play.processes import ended

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
