"""Calls of threads stand between what orders them: starts and joins, by whom they are made."""

from __future__ import annotations

import pytest

import planguard
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
from planguard.verdict import Outcome


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
        [[one["group"] for one in thread if "group" in one] for thread in item["threads"]]
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
    that one's. If the main thread calls or starts something in between, they stand beside it.
    """
    begin = [mark(STARTED, 1), mark(STARTED, 2), call("l", 1), call("t", 2)]
    later = [mark(JOINED, 2), call("b"), mark(JOINED, 1), call("c")]
    assert shape([*begin, *later]) == [[["l"], ["t", "b"]], "c"]
    assert shape([*begin, call("x"), *later]) == [[["l"], ["t"], ["x", "b"]], "c"]
    third = [mark(STARTED, 3), call("u", 3)]
    ended = [mark(JOINED, 3), call("d")]
    assert shape([*begin, *third, *later, *ended]) == [[["l"], ["t"], ["u"], ["b", "c"]], "d"]


def afters(actions):
    """What calls of a block come after: the call in front of each computation that is named."""
    found, _ = open_threads(0, actions)
    (block,) = [one for one in found if one["op"] == "threads"]
    ends = {
        one["id"]: thread[at - 1]["group"]
        for thread in block["threads"]
        for at, one in enumerate(thread)
        if one["op"] == "compute"
    }
    calls = [one for thread in block["threads"] for one in thread if one["op"] != "compute"]
    return {one["group"]: [ends[name] for name in one["after"]] for one in calls if "after" in one}


def test_a_call_behind_a_join_comes_after_the_end_of_what_was_joined():
    """Of two threads one is joined while the other runs on: the next call is behind its last one.
    So is what a thread does that is started behind a call, and nothing else is.
    """
    begin = [mark(STARTED, 1), mark(STARTED, 2), call("t", 1), call("u", 2), call("x")]
    assert afters([*begin, mark(JOINED, 1), call("b"), mark(JOINED, 2)]) == {"b": ["t"]}
    assert afters([*begin, call("b"), mark(JOINED, 1), mark(JOINED, 2)]) == {}
    later = [mark(JOINED, 1), mark(STARTED, 3), call("v", 3), mark(JOINED, 2)]
    assert afters([*begin, *later]) == {"v": ["t", "x"]}


def program(*main_calls):
    """Two groups; thread 1 calls on `a`, thread 2 runs on with `c`, thread 1 is joined first."""
    begin = [mark(STARTED, 1), mark(STARTED, 2), call("a", 1), call("c", 2), call("world")]
    return open_threads(0, [*begin, *main_calls, mark(JOINED, 2)])[0]


@pytest.mark.parametrize(
    ("joins_first", "outcome"), [(True, Outcome.DEADLOCK), (False, Outcome.SAFE)]
)
def test_a_join_waits_for_the_last_call_to_come_back(joins_first, outcome):
    """Rank 1 calls on `b` before its thread for `a` starts: rank 0, which joins its own first,
    waits for it for ever; where rank 0 calls on `b` before it joins, both get there.
    """
    order = [mark(JOINED, 1), call("b")] if joins_first else [call("b"), mark(JOINED, 1)]
    other = [call("world"), call("b"), call("a")]
    beside = open_threads(1, [mark(STARTED, 2), call("c", 2), *other, mark(JOINED, 2)])[0]
    groups = {name: {"ranks": [0, 1]} for name in ("a", "b", "c")}
    ranks = {"0": {"actions": program(*order)}, "1": {"actions": beside}}
    plan = {"schema": "planguard.plan/1", "world_size": 2, "groups": groups, "ranks": ranks}
    assert planguard.check(plan, model="gloo").outcome is outcome


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


def test_what_is_not_decided_of_threads_names_a_line():
    """Tasks of a pool that wait for each other are UNKNOWN at the line that hands them over."""
    pool = {POOL: 1, WORKERS: 2, "src": ["train.py", 8]}
    starts = [{**mark(STARTED, number), **pool} for number in (1, 2, 3)]
    calls = [call(name, number) for name, number in (("a", 1), ("b", 2), ("c", 3))]
    _, notes = open_threads(0, [*starts, *calls])
    assert {direction for _, _, direction in notes} == {"under", "over"}
    assert all(message.endswith("is not known (train.py:8)") for _, message, _ in notes)
