"""Calls that were issued and not started, while others wait in them: nobody is missing."""

from __future__ import annotations

import os

import pytest
from audit_dumps import START, codes, entry, write

import planguard as pg


def dumps(folder, *, scheduled, started, world, before=()):
    """Dumps of ranks in a second round that some have started and some have issued only."""
    for rank in (*scheduled, *started, *before):
        rows = [entry(number=0, seq=1)]
        if rank not in before:
            state = "scheduled" if rank in scheduled else "started"
            rows.append(entry(number=1, seq=2, state=state, line=7))
        write(folder, rank, rows, world=world)


@pytest.mark.parametrize(
    ("scheduled", "started", "said"),
    [
        ((1,), (0, 2), "rank 1 has issued what ranks 0 and 2 wait for in all_reduce #2"),
        ((0, 2), (1,), "ranks 0 and 2 have issued what rank 1 waits for in all_reduce #2"),
    ],
)
def test_who_has_issued_a_call_and_not_started_it_is_not_missing(
    scheduled, started, said, tmp_path
):
    """It has come to the round: what its device does in front of it was not recorded."""
    dumps(tmp_path, scheduled=scheduled, started=started, world=3)
    verdict = pg.audit(tmp_path)
    assert verdict.unknown
    assert not verdict.errors
    first = verdict.findings[0]
    assert (first.code, first.ranks, first.severity) == ("PG502", scheduled, "warning")
    assert first.message.startswith(said)
    assert first.message.endswith("and not started it")
    whose = "its device" if len(scheduled) == 1 else "their devices"
    assert f"cause: something on {whose} that was not recorded" in first.notes[0]
    assert f"next: stack of rank {scheduled[0]}" in first.notes[-1]
    assert any(first.message in reason for reason in verdict.reasons)


def test_who_never_came_to_the_round_counts_before_who_has_not_started_it(tmp_path):
    """Rank 2 did not issue the call: that explains that ranks 0 and 1 stand in it."""
    dumps(tmp_path, scheduled=(1,), started=(0,), before=(2,), world=3)
    verdict = pg.audit(tmp_path)
    assert (codes(verdict)[0], verdict.findings[0].ranks) == ("PG007", (2,))
    assert "PG502" not in codes(verdict)


def test_a_receive_that_was_issued_and_not_started_is_told(tmp_path):
    """The send of rank 0 waits for a receive that rank 1 has only issued."""
    send = entry("send 0->1", number=0, seq=1, state="started")
    recv = entry("recv 1<-0", number=0, seq=1, state="scheduled")
    write(tmp_path, 0, [send])
    write(tmp_path, 1, [recv])
    first = pg.audit(tmp_path).findings[0]
    assert (first.code, first.ranks) == ("PG502", (1,))
    assert first.message.startswith("rank 1 has issued what rank 0 waits for in send -> 1")


def test_ranks_behind_the_one_that_has_not_started_are_its_consequences(tmp_path):
    """Rank 2 waits on another group for rank 0, which waits for what rank 1 has not started."""
    groups = {"1": [0, 1], "2": [0, 2]}
    states = {0: "started", 1: "scheduled"}
    for rank, state in states.items():
        rows = [entry(number=0, seq=1, group="1", state=state)]
        write(tmp_path, rank, rows, groups, world=3)
    rows = [entry(number=0, seq=1, group="2", state="started")]
    write(tmp_path, 2, rows, groups, world=3)
    verdict = pg.audit(tmp_path)
    told = [one for one in verdict.findings if one.code != "PG904"]
    assert [(one.code, one.ranks) for one in told] == [("PG502", (1,))]
    assert any("rank 2 is blocked behind them" in note for note in told[0].notes)


@pytest.mark.parametrize(("age_s", "grade"), [(600, "medium"), (10**6, "weak")])
def test_how_sure_it_is_depends_on_how_long_it_was_seen_to_stand(age_s, grade, tmp_path):
    """A job that runs issues calls that have not started, too; files copied later say nothing."""
    dumps(tmp_path, scheduled=(1,), started=(0,), world=2)
    for rank in (0, 1):
        os.utime(tmp_path / f"rank_{rank}", ns=(START + age_s * 10**9,) * 2)
    first = pg.audit(tmp_path).findings[0]
    assert first.code == "PG502"
    assert any(note.startswith(f"evidence: {grade}") for note in first.notes)
