"""What one machine has decides nothing unseen: a limit of memory, a count of threads, ``/proc``.

Each program hangs on real ranks whose machines are unlike; its twin agrees on the number first.
"""

# ruff: noqa: D103, PTH123, SIM115 - programs as people write them
from __future__ import annotations

import os
from pathlib import Path

import pytest

from planguard.verdict import Outcome

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")
psutil = pytest.importorskip("psutil")

from planguard.capture import precheck  # noqa: E402 - torch must be there
from planguard.capture.values.otherwise import other_text  # noqa: E402 - same

pytestmark = pytest.mark.wheel

HERE = Path(__file__)


def decide(job, world=2):
    return precheck(world, model="gloo", on_unsafe="return", timeout=60.0).run(job)


def memory(row_of_meminfo):
    rows = (line.split() for line in open("/proc/meminfo"))
    # A name of this file alone: what other tests of the process give a `name` would be tried, too.
    return {row[0].rstrip(":"): int(row[1]) for row in rows}[row_of_meminfo]


DECISIONS = {
    "threads": lambda: torch.get_num_threads() > 64,
    "threads between operators": lambda: torch.get_num_interop_threads() > 512,
    "processors": lambda: (os.cpu_count() or 1) > 512,
    "few processors": lambda: len(os.sched_getaffinity(0)) == 3,
    "cores": lambda: (psutil.cpu_count(logical=False) or 1) >= 192,
    "memory": lambda: memory("MemAvailable") < 1_000_000,
    "load": lambda: float(Path("/proc/loadavg").read_text().split()[0]) > 500,
    "processor": lambda: "model name : Grace" in open("/proc/cpuinfo").read(),
    "percent": lambda: psutil.virtual_memory().percent > 99.5,
    "disk": lambda: psutil.disk_usage("/").percent > 99.5,
    "own memory": lambda: psutil.Process().memory_info().rss > 100 * 2**30,
    "free blocks": lambda: os.statvfs("/").f_bavail * os.statvfs("/").f_frsize < 2**24,
}


def act(fact_asked):
    if DECISIONS[fact_asked]():
        dist.barrier()
    dist.all_reduce(torch.ones(2))


@pytest.mark.parametrize("name", DECISIONS)
def test_what_a_machine_has_is_its_own(name):
    verdict = decide(lambda: act(name))
    assert verdict.outcome is Outcome.UNKNOWN
    said = [one.message for one in verdict.approximations if one.kind == "own-answers"]
    assert any("depends on what the machine has" in one and HERE.name in one for one in said)


def agree(fact_asked):
    flag = torch.tensor(int(DECISIONS[fact_asked]()))
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    if flag.item():
        dist.barrier()
    dist.all_reduce(torch.ones(2))


@pytest.mark.parametrize("name", DECISIONS)
def test_a_limit_that_is_agreed_on_is_right(name):
    assert decide(lambda: agree(name)).outcome is Outcome.SAFE


def test_the_system_tells_of_another_machine():
    """More, less, and what a test names: a number in each place, a word that is there or not."""
    said = "MemTotal: 1000000 kB\ncpu cores : 4\n"
    more = other_text(said, is_more=True)
    assert "cpu cores : 9" in more
    assert int(more.split()[1]) > 1_000_000 * 1000
    assert "cpu cores : 2" in other_text(said, is_more=False)
    assert other_text(said, is_more=True, named=7) == "MemTotal: 7 kB\ncpu cores : 7\n"
    assert "cores" not in other_text(said, is_more=True, named="cores")
    assert other_text(said, is_more=True, named="Grace").endswith("Grace")
