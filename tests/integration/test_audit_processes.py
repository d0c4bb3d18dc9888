"""Audits whose files are read by several processes: the same answer, and no hang when one dies."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from planguard.audit.answer import AuditOptions, audit_paths
from planguard.audit.readers.files import collect
from planguard.audit.readers.helpers import HelperLostError, Helpers
from planguard.audit.readers.reading import read_input
from planguard.errors import PlanError

RANKS = 96


def entry(number):
    """One all_reduce; rank 40 stops before the last one, and the others wait in it."""
    return {
        "record_id": number,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number + 1,
        "p2p_seq_id": 0,
        "op_id": number + 1,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": 1_000 + number,
        "input_sizes": [[4 + number % 3]],
        "input_dtypes": ["Float"],
        "output_sizes": [[4 + number % 3]],
        "output_dtypes": ["Float"],
        "state": "started" if number == 6 else "completed",
        "frames": [{"name": "f", "filename": "train.py", "line": number % 3}],
    }


@pytest.fixture
def dumps(tmp_path):
    """Dumps of 96 ranks."""
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": json.dumps(list(range(RANKS)))}}
    for rank in range(RANKS):
        entries = [entry(number) for number in range(6 if rank == 40 else 7)]
        top = {"version": "2.10", "pg_config": config, "entries": entries}
        (tmp_path / f"rank_{rank}").write_bytes(pickle.dumps(top, 2))
    return tmp_path


def said(folder, processes):
    """Everything that an audit says but how long it took."""
    verdict = audit_paths([folder], AuditOptions(name="dumps"), processes=processes)
    return json.dumps(verdict.to_json(reproducible=True), sort_keys=True)


@pytest.mark.parametrize("processes", [2, 3, 8])
def test_the_answer_does_not_depend_on_the_processes(processes, dumps):
    """One process and several give the same bytes, and name the rank that is missing."""
    alone = said(dumps, 1)
    assert said(dumps, processes) == alone
    assert "PG007" in alone


@pytest.mark.parametrize("processes", [1, 2, 8])
def test_bad_files_are_named_and_the_rest_is_read(processes, dumps):
    """Bad files among many are told, each with its rank, and the answer is that of the others."""
    names = sorted(path.name for path in dumps.iterdir())
    for place in (30, 31, 60, 95):
        (dumps / names[place]).write_bytes(b"\x80\x02cos\nsystem\n.")
    said_now = said(dumps, processes)
    assert all(names[place] in said_now for place in (30, 31, 60, 95))
    assert "PG905" in said_now
    assert "rank 40 never reached" in said_now


@pytest.mark.parametrize("processes", [1, 2, 8])
def test_when_all_files_are_bad_the_first_is_named(processes, dumps):
    """Where nothing is usable the error is that of the first file, whoever reads it first."""
    names = sorted(path.name for path in dumps.iterdir())
    for name in names:
        (dumps / name).write_bytes(b"\x80\x02cos\nsystem\n.")
    with pytest.raises(PlanError) as caught:
        audit_paths([dumps], AuditOptions(), processes=processes)
    assert caught.value.code == "PG905"
    assert caught.value.file.endswith(names[0])


def test_a_process_that_dies_leaves_the_answer_open(dumps):
    """A reader killed from outside in the middle is noticed at once, and no child is left."""

    def slow(one):
        time.sleep(0.01)
        return read_input(one)

    started = Helpers(collect([str(dumps)], None), slow, 2)
    (helper,) = started.helpers
    timer = threading.Timer(0.1, os.kill, (helper.pid, signal.SIGKILL))
    timer.start()
    with pytest.raises(HelperLostError):
        started.parts()
    timer.join()
    with pytest.raises(ChildProcessError):
        os.waitpid(helper.pid, 0)


DYING = """
import os, sys
from planguard.audit.readers import reading
import planguard.audit
read, parent = reading.read_input, os.getpid()
def dying(one):
    if os.getpid() != parent:
        os.kill(os.getpid(), 9)
    return read(one)
reading.read_input = dying
verdict = planguard.audit(sys.argv[1])
print(verdict.outcome.name, verdict.findings[0].code, "; ".join(verdict.reasons))
"""


def test_a_reader_out_of_memory_is_unknown(dumps):
    """When every helper is killed at its first file, the audit ends: UNKNOWN, PG903, the reason."""
    done = subprocess.run(
        [sys.executable, "-c", DYING, dumps],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if len(os.sched_getaffinity(0)) > 1:
        assert done.stdout.startswith("UNKNOWN PG903"), done.stdout + done.stderr
        assert "ended before it was done" in done.stdout


SLOW = """
import os, sys, time
from planguard.audit.readers import reading
read = reading.read_input
def slow(one):
    time.sleep(0.2)
    return read(one)
reading.read_input = slow
print("reading", flush=True)
import planguard.audit
planguard.audit(sys.argv[1])
"""


def children(pid):
    """The processes that a process has started."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")
    return [int(word) for word in listed.split()]


def gone(pid):
    """Whether a process has ended within five seconds; a zombie has."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_audit_leaves_no_process(sent, dumps):
    """Ctrl-C ends an audit at once with its readers; readers of a killed audit end themselves."""
    with subprocess.Popen(
        [sys.executable, "-c", SLOW, dumps], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as audit:
        audit.stdout.readline()
        for _ in range(200):
            if helpers := children(audit.pid):
                break
            time.sleep(0.05)
        time.sleep(0.3)
        audit.send_signal(sent)
        audit.wait(10)
        assert all(gone(pid) for pid in helpers)
    assert audit.returncode != 0
    assert helpers or len(os.sched_getaffinity(0)) == 1
