"""The log of a recorded run: what is committed is read, what is not is missed."""

from __future__ import annotations

import os
import random
import resource
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import planguard
from planguard.capture.run import log as run_log
from planguard.capture.run.log import HEADER_BYTES, Kind, RunLogWriter
from planguard.capture.run.log_reading import read_run_log
from planguard.capture.run.reading import recording_of_run
from planguard.errors import PlanError, UsageError


def write(log: RunLogWriter, number: int, **fields) -> None:
    """Write one all_reduce."""
    group = log.string('"0"')
    fields = {"reduce_op": "sum", "count": number, "dtype": "f32"} | fields
    log.call(Kind.CALL, "all_reduce", work=number, group=group, stack=0, batch=0, fields=fields)


def test_what_is_written_is_read(tmp_path):
    """Every field of a call, a string that is long, and the end come back."""
    log = RunLogWriter(tmp_path, 1, 2)
    stack = log.string('[["' + "a" * 5000 + '", 3, "main", 0]]')
    fields = {"peer": 0, "tag": 7, "count": 1 << 40, "dtype": "bf16"}
    log.call(
        Kind.CALL, "isend", work=5, group=log.string('"0,1"'), stack=stack, batch=2, fields=fields
    )
    log.small(Kind.WAIT, 5)
    log.end()
    read = read_run_log(log.path)
    call, wait = read.entries
    assert call.fields == {"op": "isend", "group": "0,1", **fields}
    assert (call.argument, call.batch, wait.kind, wait.argument) == (5, 2, Kind.WAIT, 5)
    assert len(read.strings[call.stack][0][0]) == 5000
    assert (read.rank, read.world_size, read.has_ended, read.dropped, read.torn) == (
        1,
        2,
        True,
        0,
        0,
    )


WRITER = """
import sys
sys.path[:0] = [sys.argv[2], sys.argv[3]]
from planguard.capture.run.log import RunLogWriter
from test_capture_log import write
log = RunLogWriter(sys.argv[1], 0, 1)
number = 0
while True:
    number += 1
    write(log, number)
    if number % 100 == 0:
        print(number, flush=True)
"""


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_process_leaves_every_committed_record(tmp_path, seed):
    """SIGKILL somewhere in the writing: nothing that came before is lost, and it did not end."""
    here = Path(__file__)
    command = [sys.executable, "-c", WRITER, str(tmp_path), str(here.parent), str(here.parents[2])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for _ in range(random.Random(seed).randrange(3, 60)):
            said = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        process.wait()
    (file,) = tmp_path.iterdir()
    read = read_run_log(file)
    counts = [entry.fields["count"] for entry in read.entries]
    assert counts == list(range(1, len(counts) + 1))
    assert len(counts) >= said
    assert not read.has_ended
    assert planguard.check(planguard.load(tmp_path)).unknown


SLOW = pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(600)])


@pytest.mark.parametrize("kills", [25, SLOW])
def test_kills_at_random_points_lose_nothing_and_prove_nothing(tmp_path, kills):
    """SIGKILL of writers, each somewhere in its first milliseconds: every log is read, its records
    are the first ones without a gap, and what it lacks is said, so that no plan of it is safe.
    """
    rng, lengths = random.Random(11), []
    for trial in range(kills):
        folder = tmp_path / str(trial)
        child = os.fork()
        if child == 0:
            mine = RunLogWriter(folder, 0, 1)
            for number in range(1, 1_000_000):
                write(mine, number)
            os._exit(0)
        while not list(folder.glob("*.pgrun")):
            time.sleep(0.0005)
        time.sleep(rng.uniform(0.0, 0.02))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        try:
            read = read_run_log(next(folder.glob("*.pgrun")))
        except PlanError:
            lengths.append(0)  # killed before the header was whole: refused, and so not safe
            continue
        counts = [entry.fields["count"] for entry in read.entries]
        assert counts == list(range(1, len(counts) + 1))
        assert not read.has_ended
        assert {gap.code for gap in recording_of_run(folder).gaps} == {"PG912"}
        if trial % 20 == 0:
            assert planguard.check(planguard.load(folder)).unknown
        lengths.append(len(counts))
    assert len(set(lengths)) > kills // 10, "the points are not random"


def test_a_forked_process_leaves_the_log_alone(tmp_path):
    """The map is shared with a child: what dies there, and its end, are none of the rank's."""
    log = RunLogWriter(tmp_path, 0, 1)
    write(log, 1)
    child = os.fork()
    if child == 0:
        write(log, 2)
        log.small(Kind.DROP, 1)
        log.failed()
        log.end()
        os._exit(0)
    os.waitpid(child, 0)
    read = read_run_log(log.path)
    assert not read.has_ended
    assert not read.has_failed
    write(log, 3)
    assert [one.fields["count"] for one in read_run_log(log.path).entries] == [1, 3]


def test_clocks_that_jump_change_nothing(tmp_path, monkeypatch):
    """Order is that of the records: with a clock that runs backwards, or hours ahead on one rank,
    the plan is the same.
    """
    clocks = {
        "steady": lambda n: n,
        "backwards": lambda n: 10**12 - n,
        "ahead": lambda n: n + 10**13,
    }
    plans = []
    for name, clock in clocks.items():
        ticks = map(clock, range(1, 10_000))
        monkeypatch.setattr(run_log, "monotonic_ns", ticks.__next__)
        for rank in range(2):
            log = RunLogWriter(tmp_path / name, rank, 2)
            for number in range(5):
                group = log.string('"0,1"')
                fields = {"reduce_op": "sum", "count": number + 1, "dtype": "f32"}
                log.call(
                    Kind.CALL, "all_reduce", work=number + 1, group=group, stack=0, batch=0,
                    fields=fields,
                )  # fmt: skip
                log.small(Kind.WAIT, number + 1)
                log.small(Kind.DONE, number + 1)
            log.end()
        plan = planguard.load(tmp_path / name, name="run")
        assert planguard.check(plan, model="gloo").safe
        plans.append(plan.source)
    assert plans[0] == plans[1] == plans[2]


def test_a_log_that_is_full_is_incomplete(tmp_path):
    """What does not fit is counted and never wrapped; the plan of such a log is undecided."""
    log = RunLogWriter(tmp_path, 0, 1, most_bytes=16384)
    for number in range(1000):
        write(log, number)
    log.end()
    read = read_run_log(log.path)
    assert len(read.entries) + read.dropped == 1000
    assert 0 < len(read.entries) < 1000
    assert planguard.check(planguard.load(tmp_path)).unknown


def test_a_full_disk_ends_the_recording_and_not_the_job(tmp_path):
    """Where the file may not grow, the rest is counted; where it may not even begin, it says so."""
    log = RunLogWriter(tmp_path, 0, 1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
        for number in range(20_000):
            write(log, number)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, limits[1]))
        with pytest.raises(UsageError, match="cannot be written: File too large"):
            RunLogWriter(tmp_path, 1, 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    read = read_run_log(log.path)
    assert read.dropped > 0
    assert len(read.entries) + read.dropped == 20_000


def test_many_threads_write_one_log(tmp_path):
    """64 threads: every record of every thread is there, in its thread's order."""
    log = RunLogWriter(tmp_path, 0, 1)

    def work(place: int) -> None:
        for number in range(50):
            write(log, place * 50 + number)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = [entry.fields["count"] for entry in read_run_log(log.path).entries]
    assert sorted(counts) == list(range(3200))
    for place in range(64):
        own = [count for count in counts if count // 50 == place]
        assert own == sorted(own)


def test_a_record_that_was_begun_is_torn(tmp_path):
    """Fields without their commit word are no record, and the log says that one is lacking."""
    log = RunLogWriter(tmp_path, 0, 1)
    write(log, 1)
    write(log, 2)
    log.end()
    data = bytearray(log.path.read_bytes())
    last = max(
        at for at in range(HEADER_BYTES, 8192, 8) if data[at + 3] == 0x80 and data[at + 4] == 2
    )
    struct.pack_into("<I", data, last, 0)
    log.path.write_bytes(data)
    read = read_run_log(log.path)
    assert (len(read.entries), read.torn) == (1, 1)


@pytest.mark.parametrize("seed", range(30))
def test_damage_is_refused_or_read(tmp_path, seed):
    """Flipped bytes give a log or one clear error, never another exception."""
    log = RunLogWriter(tmp_path, 0, 1)
    for number in range(50):
        write(log, number)
    data = bytearray(log.path.read_bytes()[: HEADER_BYTES + 4096])
    rng = random.Random(seed)
    for _ in range(rng.randrange(1, 20)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    log.path.write_bytes(data)
    try:
        verdict = planguard.check(planguard.load(tmp_path, planner="dryrun"))
    except (PlanError, UsageError):
        return
    assert not verdict.safe


def test_what_is_no_log_is_refused(tmp_path):
    """Other files, empty folders and two logs of one rank are told apart."""
    (tmp_path / "x.pgrun").write_bytes(b"nothing")
    with pytest.raises(PlanError, match="not a log of a recorded run"):
        planguard.load(tmp_path)
    with pytest.raises(UsageError, match="no log of a recorded run"):
        planguard.load(tmp_path / "..", planner="dryrun")
    first, second = tmp_path / "a", tmp_path / "b"
    RunLogWriter(first, 0, 2)
    RunLogWriter(second, 0, 2).path.rename(first / "again.pgrun")
    with pytest.raises(PlanError, match="two logs of one rank"):
        planguard.load(first)
