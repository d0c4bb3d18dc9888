"""The beginning of a file: kept for whoever asks next, and never one that is out of date."""

from __future__ import annotations

import gzip
import os
import time

import pytest

import planguard as pg
from planguard.errors import PlanError
from planguard.files import heads
from planguard.files.heads import HEAD, head_of
from planguard.loading import recognized

LONG_AGO = time.time_ns() - 60_000_000_000


def aged(path):
    """Set the times of a file back, but for the one of its inode, which nobody can set."""
    os.utime(path, ns=(LONG_AGO, LONG_AGO))
    return path


def test_a_settled_file_is_opened_once_for_all_who_ask(tmp_path, monkeypatch):
    """Asked twice, one that has not changed for a while is read once."""
    file = tmp_path / "schedule.csv"
    file.write_text("0F0,0SEND_F0\n1RECV_F0,1F0\n")
    aged(file)
    monkeypatch.setattr(heads, "SETTLED_NS", -1_000_000_000)  # the inode's time counts, too
    opened = []
    monkeypatch.setattr(heads, "unzipped", lambda data: opened.append(data) or data)
    assert head_of(file) == head_of(str(file)) == file.read_bytes()
    assert len(opened) == 1


def test_a_file_written_a_moment_ago_is_read_again(tmp_path):
    """Two contents of one size within one tick of the clock are told apart."""
    file = tmp_path / "a"
    for text in (b"one", b"two"):
        file.write_bytes(text)
        os.utime(file, ns=(LONG_AGO, LONG_AGO))  # as rsync and tar do
        assert head_of(file) == text


def test_a_beginning_is_unpacked_and_bounded(tmp_path):
    """Of a compressed file it is that of its text; a damaged one and a folder have none."""
    text = b"0F0," * HEAD
    (tmp_path / "a.gz").write_bytes(gzip.compress(text))
    assert head_of(tmp_path / "a.gz") == text[:HEAD]
    (tmp_path / "b.gz").write_bytes(b"\x1f\x8b\x08" + b"\xff" * 64)
    assert head_of(tmp_path / "b.gz") == b""
    assert head_of(tmp_path) == head_of(tmp_path / "none") == head_of("a\0b") == b""


def test_a_pipe_has_no_beginning(tmp_path):
    """Opening one would wait for its writer."""
    os.mkfifo(tmp_path / "pipe")
    assert head_of(tmp_path / "pipe") == b""


def test_who_reads_a_file_is_told_by_name(tmp_path):
    """An adapter by its name, a plan by none, other files by nobody."""
    (tmp_path / "s.csv").write_text("0F0,0SEND_F0\n1RECV_F0,1F0\n")
    (tmp_path / "p.json").write_text('{"schema": "planguard.plan/1", "world_size": 1, "ranks": {}}')
    (tmp_path / "notes.txt").write_text("hello")
    assert recognized(str(tmp_path / "s.csv")) == "pipelining"
    assert recognized(str(tmp_path / "p.json")) == ""
    assert recognized(str(tmp_path / "notes.txt")) is None


def test_a_gzipped_schedule_is_read_as_the_plain_one(tmp_path):
    """What is recognized compressed is read compressed, and a damaged one is refused."""
    text = b"0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n"
    (tmp_path / "s.csv").write_bytes(text)
    packed = tmp_path / "s.csv.gz"
    packed.write_bytes(gzip.compress(text))
    plain, zipped = pg.load(str(tmp_path / "s.csv")), pg.load(str(packed))
    assert pg.check(zipped).outcome.value == "SAFE"
    assert zipped.actions == plain.actions == 12
    packed.write_bytes(gzip.compress(text)[:-9])
    with pytest.raises(PlanError, match="cannot read the schedule: Compressed file ended"):
        pg.load(str(packed))


def test_a_gzipped_timeline_is_recognized(tmp_path):
    """Horovod's timelines, too, as the others of its files."""
    events = '[{"name": "NEGOTIATE_ALLREDUCE", "ph": "B", "ts": 1, "pid": 1}]'
    (tmp_path / "t.json.gz").write_bytes(gzip.compress(events.encode()))
    assert recognized(str(tmp_path / "t.json.gz")) == "horovod"
