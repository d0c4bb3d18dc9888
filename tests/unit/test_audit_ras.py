"""Reports of NCCL's RAS as JSON: what is of one moment, and whose ranks they are."""

from __future__ import annotations

import json
import re

import pytest
from test_audit_logs import errors

import planguard as pg


def said(verdict):
    """The text of a verdict and its ledger, without line breaks."""
    notes = [one.message for one in verdict.approximations]
    return " ".join([*str(verdict).split(), *notes])


def place(pid):
    """Where a rank runs."""
    return {"host": "192.0.2.5", "pid": pid, "cuda_dev": pid % 8, "nvml_dev": pid % 8}


def report(minute, *told, dead=()):
    """A report of a minute: of each communicator its processes and their AllReduces."""
    return {
        "timestamp": f"2026-11-19 10:{minute:02}:00",
        "communicators": [
            {
                "hash": f"0x{number}a",
                "size": len(counts) + len(dead),
                "ranks": [
                    {"rank": rank, **place(pid), "collective_counts": {"AllReduce": count}}
                    for rank, (pid, count) in enumerate(counts.items())
                ],
                "missing_ranks": [
                    {"rank": rank, **place(90 + rank), "status": {"considered_dead": True}}
                    for rank in dead
                ],
            }
            for number, counts in enumerate(told)
        ],
    }


def audit(folder, *reports):
    """Audit reports, each in a file of its own."""
    folder.mkdir()
    for number, one in enumerate(reports):
        text = one if isinstance(one, str) else json.dumps(one)
        (folder / f"ras-{number}.json").write_text(text)
    return pg.audit(folder)


BEHIND = {40: 7, 41: 6, 42: 7}
EVEN = {40: 7, 41: 7, 42: 7}


def test_a_copy_of_a_report_is_no_second_one(tmp_path):
    """Two reports of one time are one moment; of two times, nothing moved in between."""
    first, later = report(0, BEHIND), report(5, BEHIND)
    assert errors(audit(tmp_path / "copy", first, first)) == []
    assert errors(audit(tmp_path / "two", first, later)) == [("PG007", (1,))]
    assert errors(audit(tmp_path / "three", first, later, first)) == [("PG007", (1,))]


@pytest.mark.parametrize("other", [{43: 7, 44: 7, 45: 7}, {42: 7, 41: 6, 40: 7}])
def test_ranks_that_are_not_those_of_the_job_are_not_named(other, tmp_path):
    """There are more processes than ranks, or one process has two ranks."""
    is_smaller = 43 in other
    verdict = audit(tmp_path / "ras", *(report(n, BEHIND, other) for n in (0, 5)))
    assert errors(verdict) == ([] if is_smaller else [("PG007", (1,))])
    assert "communicator 0x1a: its ranks are not those of the job" in said(verdict)


def test_a_report_without_its_comma_is_read(tmp_path):
    """NCCL 2.28.9 leaves it out where it tells of ranks that are missing."""
    text = json.dumps(report(0, EVEN, dead=(3,)), indent=1)
    broken = re.sub(r'("nvml_dev": 5),(\s+"status")', r"\1\2", text)
    assert broken != text
    verdict = audit(tmp_path / "ras", broken)
    assert "the missing rank 3 is considered dead" in said(verdict)
    assert not verdict.safe


INCOMPLETE = """Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4       7-8        32        32   RUNNING  INCOMPLETE

Errors
======

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  The missing rank: 21
"""
"""As ``ncclras`` prints it where one process of 32 does not answer; nodes with 7 or 8 ranks."""


def test_a_rank_that_does_not_answer_is_named_as_text_and_as_json(tmp_path):
    """RAS asks every process: who does not answer ended, is stuck, or is cut off; no certainty."""
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "ras.txt").write_text(INCOMPLETE)
    for verdict, rank in (
        (pg.audit(tmp_path / "text"), 21),
        (audit(tmp_path / "json", report(0, EVEN, dead=(3,))), 3),
    ):
        (found,) = [one for one in verdict.findings if one.code == "PG506"]
        assert found.ranks == (rank,)
        assert "stopped answering NCCL's RAS" in found.message
        assert errors(verdict) == []


def test_the_missing_rank_of_a_part_of_the_job_is_no_rank_of_the_job(tmp_path):
    """A report does not say which ranks of the job a smaller communicator has."""
    row = "    1         1         4       7-8        16        16   RUNNING  OK\n"
    (tmp_path / "ras.txt").write_text(INCOMPLETE.replace("\nErrors\n", row + "\nErrors\n", 1))
    assert "PG506" not in {one.code for one in pg.audit(tmp_path).findings}
