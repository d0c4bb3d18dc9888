"""What the watcher of a recorded job takes for progress, and for waiting."""

from __future__ import annotations

import json

import pytest

from planguard import check, load
from planguard.capture.run.log import Kind, RunLogWriter, mark_cut
from planguard.capture.run.progress import Watch


@pytest.fixture
def writers(tmp_path):
    """The logs of two ranks, which have just begun."""
    return [RunLogWriter(tmp_path, rank, 2) for rank in range(2)]


def call(log, work, *, op="all_reduce", batch=0):
    """Write a call."""
    group = log.string(json.dumps("0,1"))
    fields = {"peer": 0, "tag": 0} if op in ("isend", "irecv") else {}
    log.call(
        Kind.CALL, op, work=work, group=group, stack=0, batch=batch,
        fields={**fields, "count": 1, "dtype": "f32"},
    )  # fmt: skip


def test_records_are_progress_and_nothing_else_is(tmp_path, writers):
    """A new log, a record and the end of a rank are progress, each once."""
    watch = Watch(tmp_path)
    assert watch.has_moved()
    assert not watch.has_moved()
    call(writers[0], 1)
    assert watch.has_moved()
    assert not watch.has_moved()
    writers[1].end()
    assert watch.has_moved()
    assert not watch.has_moved()


def test_a_rank_waits_while_a_call_of_it_is_open(tmp_path, writers):
    """From a call to the end of its wait, of its launch, or of the backward pass that waits for it;
    while it makes a group; and not once it has ended.
    """
    watch, log = Watch(tmp_path), writers[0]

    def waits():
        watch.has_moved()
        return watch.is_waiting

    assert not waits()
    call(log, 1)
    assert waits()
    log.small(Kind.WAIT, 1)
    assert waits()
    log.small(Kind.DONE, 1)
    assert not waits()
    for work in (2, 3):
        call(log, work, op="isend", batch=7)
    assert waits()
    log.small(Kind.DONE, 3)
    assert not waits()
    call(log, 4)
    log.small(Kind.UNSEEN, 4)
    assert waits()
    log.small(Kind.BACKWARD, 0)
    assert not waits()
    log.small(Kind.CREATED, log.string(json.dumps("0,1#1")))
    assert waits()
    log.end()
    assert not waits()


def test_who_has_no_log_yet_is_waited_for(tmp_path):
    """A rank that has begun alone waits for the others."""
    RunLogWriter(tmp_path, 0, 2)
    watch = Watch(tmp_path)
    assert watch.has_moved()
    assert watch.is_waiting


def test_what_an_earlier_attempt_left_open_is_past(tmp_path):
    """Ranks of an attempt that was given up do not wait."""
    for rank in range(2):
        call(RunLogWriter(tmp_path, rank, 2), 1)
    for rank in range(2):
        log = RunLogWriter(tmp_path / "later", rank, 2, attempt=1)
        log.path.rename(tmp_path / f"later{rank}.pgrun")
    watch = Watch(tmp_path)
    assert watch.has_moved()
    assert not watch.is_waiting


def test_a_job_that_was_ended_from_outside_is_never_safe(tmp_path, writers):
    """Logs of ranks that took an interruption for their end are incomplete once they are marked."""
    for log in writers:
        call(log, 1)
        log.small(Kind.DONE, 1)
        log.end()
    assert check(load(tmp_path)).safe
    mark_cut(tmp_path)
    assert check(load(tmp_path)).unknown
