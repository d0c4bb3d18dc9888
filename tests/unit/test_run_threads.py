"""Calls of threads stand between what orders them: starts and joins, by whom they are made."""

from __future__ import annotations

import pytest

from planguard.capture.names.thread_orders import (
    BEHIND,
    BY,
    JOINED,
    POOL,
    STARTED,
    THREAD,
    WORKERS,
    open_threads,
)


def call(name, thread=0):
    """A call of a thread; the main one has no number."""
    return {"op": "barrier", "group": name, **({THREAD: thread} if thread else {})}


def mark(op, thread, by=0):
    """A start or a join; by the main thread where nobody else is named."""
    return {"op": op, THREAD: thread, **({BY: by} if by else {})}


def shape(actions):
    """Names of the calls, threads of a block as lists."""
    found, _ = open_threads(0, actions)
    return [
        [[one["group"] for one in thread] for thread in item["threads"]]
        if item["op"] == "threads"
        else item["group"]
        for item in found
    ]


def test_a_thread_runs_from_its_start_to_its_join():
    """Calls before the start and behind the join are outside, also when it is joined twice."""
    actions = [
        call("a"), mark(STARTED, 1), call("b"), call("t", 1), mark(JOINED, 1), mark(JOINED, 1),
        call("c"),
    ]  # fmt: skip
    assert shape(actions) == ["a", [["b"], ["t"]], "c"]


def test_a_thread_that_is_only_waited_for_is_in_turn():
    """While a thread with a group of its own runs on, calls behind the join of another come behind
    that one's. If the main thread calls or starts something in between, nothing says so.
    """
    begin = [mark(STARTED, 1), mark(STARTED, 2), call("l", 1), call("t", 2)]
    later = [mark(JOINED, 2), call("b"), mark(JOINED, 1), call("c")]
    assert shape([*begin, *later]) == [[["l"], ["t", "b"]], "c"]
    assert shape([*begin, call("x"), *later]) == [[["l"], ["t"], ["x", "b"]], "c"]
    third = [mark(STARTED, 3), call("u", 3)]
    ended = [mark(JOINED, 3), call("d")]
    assert shape([*begin, *third, *later, *ended]) == [[["l"], ["t"], ["u"], ["b", "c"]], "d"]


def test_what_a_thread_in_turn_joins_is_behind_it():
    """A thread that another one starts and joins is in turn where that one is."""
    actions = [
        mark(STARTED, 1), mark(STARTED, 2, by=1), call("u", 2), mark(JOINED, 2, by=1), call("t", 1),
        mark(JOINED, 1), call("c"),
    ]  # fmt: skip
    assert shape(actions) == ["u", "t", "c"]


def test_what_another_thread_waited_for_the_main_one_has_not():
    """A result that thread 2 reads ends nothing for the main thread: its later calls stay beside
    those of thread 1. Once the main thread has waited for thread 2, they are behind both.
    """
    begin = [mark(STARTED, 1), call("t", 1), mark(STARTED, 2), mark(JOINED, 1, by=2), call("b")]
    assert shape(begin) == [[["t"], ["b"]]]
    assert shape([*begin, mark(JOINED, 2), call("c")]) == [[["t"], ["b"]], "c"]


@pytest.mark.parametrize("by", [1, -1])
def test_what_another_thread_starts_may_come_as_soon_as_that_one_runs(by):
    """Thread 2 is started by thread 1, or by one that nobody saw start: calls of the main thread
    that came before it in this run need not come before it in another.
    """
    actions = [call("a"), mark(STARTED, 1), call("b"), mark(STARTED, 2, by=by), call("t", 2)]
    found = [[["b"], ["t"]]]
    assert shape(actions) == (["a", *found] if by == 1 else [[["a", "b"], ["t"]]])


def task(number, workers=1, **about):
    """The start of a task of pool 1, or of a callback behind one."""
    return {**mark(STARTED, number), POOL: 1, WORKERS: workers, **about}


def test_a_pool_of_one_thread_runs_its_tasks_in_order():
    """Two tasks share a lane; a pool of two runs them side by side."""
    for workers, lanes in ((1, [["t", "u"], ["b"]]), (2, [["t"], ["u"], ["b"]])):
        actions = [
            task(1, workers), task(2, workers), call("t", 1), call("u", 2), call("b"),
            mark(JOINED, 1), mark(JOINED, 2), call("c"),
        ]  # fmt: skip
        assert shape(actions) == [lanes, "c"]


def test_who_reads_a_result_has_not_waited_for_a_callback():
    """The callback comes behind its task, and until the pool has ended."""
    actions = [
        task(1, 2), task(2, 2, **{BEHIND: 1}), call("t", 1), mark(JOINED, 1), call("b"),
        call("d", 2), mark(JOINED, 2), call("c"),
    ]  # fmt: skip
    assert shape(actions) == [[["t", "d"], ["b"]], "c"]
    assert [direction for _, _, direction in open_threads(0, actions)[1]] == ["over"]


@pytest.mark.parametrize(
    ("starts", "words"),
    [
        ([task(1, 2), task(2, 2), task(3, 2)], "3 tasks of rank 0 communicate in a pool of 2"),
        ([task(1), {**task(2), BY: 9}], "give tasks that communicate to a pool of one thread"),
    ],
)
def test_tasks_whose_order_no_lanes_have_are_not_decided(starts, words):
    """More tasks than threads, and tasks of one thread that several threads hand over."""
    calls = [call("t", one[THREAD]) for one in starts]
    _, notes = open_threads(0, [*starts, *calls])
    assert sorted(direction for _, _, direction in notes) == ["over", "under"]
    assert words in notes[0][1]
