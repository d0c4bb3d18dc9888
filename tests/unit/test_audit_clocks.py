"""Clocks of hosts in other time zones: whoever is hours ahead by them was not late."""

from __future__ import annotations

import os

import pytest
from audit_dumps import START, entry, write

import planguard as pg

SECOND = 1_000_000_000


def put(folder, ends, zones, jitter=0):
    """Dumps of ranks whose clocks are off by some hours; who came no further lacks a call."""
    for rank, (end, hours) in enumerate(zip(ends, zones, strict=True)):
        rows = [entry(number=n - 1, seq=n) for n in range(1, end + 1)]
        off = int(hours * 3600 * SECOND)
        for one in rows:
            one["time_created_ns"] = START + one["record_id"] * 30 * SECOND + off + rank * jitter
        if end == max(ends):
            rows[-1]["state"] = "started"
        write(folder, rank, rows, world=len(ends))
        written = START + (max(ends) * 30 + 600) * SECOND + off
        os.utime(folder / f"rank_{rank}", ns=(written, written))


@pytest.mark.parametrize("hours", [-7, 1, 5.5, 9])
def test_a_rank_that_did_not_come_is_named_whatever_its_zone(hours, tmp_path):
    """Rank 3 is behind by one round, and ranks 2 and 3 run on a host of another zone."""
    put(tmp_path, (21, 21, 21, 20), (0, 0, hours, hours), jitter=SECOND // 10)
    verdict = pg.audit(tmp_path)
    assert [(f.code, f.ranks) for f in verdict.errors] == [("PG007", (3,))]
    (said,) = [f for f in verdict.findings if f.code == "PG508"]
    assert said.ranks == (2, 3)
    assert f"off by {hours:+g} h" in said.message
    assert "earlier run" not in str(verdict.findings)


def test_offsets_that_are_no_zone_are_of_runs(tmp_path):
    """The same dumps an hour and seven minutes apart: which run is the last one is asked."""
    put(tmp_path, (21, 21, 21, 20), (0, 0, 0, -67 / 60), jitter=SECOND // 10)
    verdict = pg.audit(tmp_path)
    assert not verdict.errors
    assert "they are of an earlier run, or of ranks whose clocks are off" in str(verdict.findings)


def test_a_rank_without_rounds_that_needed_it_is_no_matter_of_clocks(tmp_path):
    """Others completed nine rounds more with rank 3: its dump is of another run or moment."""
    put(tmp_path, (30, 30, 30, 20), (0, 0, 0, -2))
    verdict = pg.audit(tmp_path)
    assert not verdict.errors
    assert "are left out" in str(verdict.findings)


def test_a_healthy_job_on_hosts_of_two_zones_stays_so(tmp_path):
    """Every call ended on all of them: the hours between their clocks change nothing."""
    put(tmp_path, (20, 20, 20), (0, 0, 2))
    for rank in range(3):
        rows = [entry(number=n - 1, seq=n) for n in range(1, 21)]
        for one in rows:
            one["time_created_ns"] = (
                START + (one["record_id"] + (7200 if rank == 2 else 0)) * SECOND
            )
        write(tmp_path, rank, rows, world=3)
    verdict = pg.audit(tmp_path)
    assert verdict.safe
    assert [f.code for f in verdict.findings] == ["PG508"]


@pytest.mark.parametrize("hours", [0, 2])
def test_a_log_is_no_older_than_dumps_whose_clock_is_not_that_of_its_file(hours, tmp_path):
    """The log was written when the dumps were; by the clock of their calls that was before them."""
    put(tmp_path, (21, 21), (0, 0))
    error = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: x\n'
    (tmp_path / "rank1.log").write_text(error)
    for name in ("rank_0", "rank_1", "rank1.log"):
        written = START + (21 * 30 - hours * 3600) * SECOND
        os.utime(tmp_path / name, ns=(written, written))
    verdict = pg.audit(tmp_path)
    assert "was written before the first call" not in str(verdict.findings)
    assert ("PG506", (1,)) in [(f.code, f.ranks) for f in verdict.findings]
