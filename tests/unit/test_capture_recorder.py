"""What the recorder of a dry run keeps of a rank."""

from __future__ import annotations

import threading

from planguard.capture.groups.recorder import Recorder


def all_reduce(recorder: Recorder) -> None:
    """One blocking call."""
    recorder.wait(recorder.issue("all_reduce", "0,1", {}))


def test_calls_of_several_threads_are_not_taken_in_the_order_seen() -> None:
    """A second thread that communicates leaves the plan undecided, in both directions."""
    recorder = Recorder(0)
    for _ in range(2):
        thread = threading.Thread(target=all_reduce, args=(recorder,))
        thread.start()
        thread.join()
    assert [(kind, direction) for kind, _, direction in recorder.notes] == [
        ("host-threads", "under"),
        ("host-threads", "over"),
    ]


def test_calls_of_one_thread_are_in_its_order() -> None:
    """One thread that communicates leaves nothing open."""
    recorder = Recorder(0)
    all_reduce(recorder)
    all_reduce(recorder)
    assert not recorder.notes


def test_a_wait_of_another_thread_makes_no_blocking_call():
    """A call that another thread waits for is done when that thread says so; the one that issued
    it goes on meanwhile, so the call keeps its handle and the wait stands by itself.
    """
    recorder = Recorder(0)
    issued = recorder.issue("all_reduce", recorder.group([0, 1]), {"bytes": 4})
    with recorder.threads.watched():
        thread = threading.Thread(target=recorder.wait, args=(issued,))
        thread.start()
        thread.join()
    calls = [action for action in recorder.actions if not action["op"].startswith("x-")]
    assert [action["op"] for action in calls] == ["all_reduce", "wait"]
    assert calls[0]["async_"]
    assert calls[1]["x-thread"] == 1
