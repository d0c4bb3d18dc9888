"""Evidence of different moments, or of different runs: nothing certain follows from it."""

from __future__ import annotations

import os

import pytest
from audit_dumps import START, entry, write
from test_audit_logs import behind, caught, signal, status
from test_audit_reading import INSIDE, spy

import planguard as pg

SECOND = 1_000_000_000


def calls(count, *, last="completed", first=1, shift=0, op="all_reduce"):
    """Entries of a rank that is in, or has left, the last of some rounds, one each second."""
    found = [entry(op, number=n - 1, seq=n) for n in range(first, count + 1)]
    found[-1]["state"] = last
    for one in found:
        one["time_created_ns"] = START + one["record_id"] * SECOND + shift
    return found


def gloo(count, *, retired=True):
    """The same as gloo writes it: the state is never updated."""
    found = calls(count)
    for one in found:
        one |= {"profiling_name": "gloo:all_reduce", "state": "scheduled", "retired": True}
    found[-1]["retired"] = retired
    return found


def text(verdict):
    """All that an answer says, its notes on what was read included."""
    notes = [one.message for one in verdict.approximations]
    return " ".join([*str(verdict).split(), *notes])


def told(verdict):
    """The reasons of an answer that decides nothing; no error stands beside them."""
    assert verdict.unknown
    assert not verdict.errors
    return " ".join(verdict.reasons)


@pytest.mark.parametrize("make", [calls, gloo])
def test_dumps_of_a_healthy_job_at_two_moments(make, tmp_path):
    """Rank 0 was dumped six rounds later than rank 1: up to #34 they agree, nobody is blamed."""
    write(tmp_path, 0, make(40))
    write(tmp_path, 1, make(34))
    verdict = pg.audit(tmp_path)
    said = told(verdict)
    assert "rank 0 completed all_reduce #40 on group world, which needs rank 1" in said
    assert "recorded up to #34 only; up to there they agree" in said
    assert not [f for f in verdict.findings if f.ranks]


def test_the_later_dump_may_itself_be_in_a_call(tmp_path):
    """Rank 0 has completed #40 and is in #41: that rank 1 did not come there is not shown."""
    write(tmp_path, 0, calls(41, last="started"))
    write(tmp_path, 1, calls(34))
    verdict = pg.audit(tmp_path)
    assert "recorded up to #34 only" in told(verdict)
    assert "PG502" not in text(verdict)


def test_a_call_that_another_rank_saw_completed_is_not_stuck(tmp_path):
    """Rank 1 was in #35 when it was dumped; rank 0 has long completed it and is in #37."""
    write(tmp_path, 0, calls(37, last="started"))
    write(tmp_path, 1, calls(35, last="started"))
    assert "different moments" in told(pg.audit(tmp_path))


def test_a_ring_that_overflowed_tells_the_same(tmp_path):
    """The rings begin elsewhere, and share no round at all."""
    write(tmp_path, 0, calls(90, first=60))
    write(tmp_path, 1, calls(40, first=10))
    assert "different moments" in told(pg.audit(tmp_path))


def test_a_plan_is_not_said_to_hang_where_moments_differ(tmp_path):
    """The plan would have both ranks go on: that one is behind is its moment, and no hang."""
    write(tmp_path, 0, calls(6))
    write(tmp_path, 1, calls(4))
    acts = [{"op": "all_reduce", "count": 4, "dtype": "f32"}] * 6
    plan = {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "ranks": {str(rank): {"actions": acts} for rank in range(2)},
    }
    assert "different moments" in told(pg.audit(tmp_path, plan=plan))


def test_a_real_hang_stays_certain(tmp_path):
    """Nobody has completed what rank 1 did not come to, and the files were written long after."""
    for rank in range(4):
        write(tmp_path, rank, calls(5) if rank == 1 else calls(6, last="started"), world=4)
    verdict = pg.audit(tmp_path)
    assert [(f.code, f.ranks) for f in verdict.errors] == [("PG007", (1,))]
    assert "evidence: medium" in text(verdict)


@pytest.mark.parametrize("late", [-1, 1, 600])
def test_a_dump_shows_only_what_was_so_when_it_was_written(late, tmp_path):
    """Rank 1's file was written before rank 0's call, just behind it, or ten minutes later."""
    write(tmp_path, 0, calls(6, last="started"))
    write(tmp_path, 1, calls(5))
    when = START + (5 + late) * SECOND
    os.utime(tmp_path / "rank_1", ns=(when, when))
    verdict = pg.audit(tmp_path)
    (found,) = [f for f in verdict.findings if f.code == "PG007"]
    assert bool(verdict.errors) is (late == 600)
    note = next(n for n in found.notes if "evidence: " in n)
    assert ("the dump of rank 1 was written" in note) is (late < 600)


def test_a_gloo_call_that_was_retired_is_completed_or_failed(tmp_path):
    """One call beyond the others: it timed out, or the other dump is older. Both are said."""
    write(tmp_path, 0, gloo(6))
    write(tmp_path, 1, gloo(5))
    verdict = pg.audit(tmp_path)
    assert verdict.unknown
    assert not verdict.errors
    assert "did either, and then the other recordings end earlier" in text(verdict)


def test_a_dump_of_an_earlier_run_is_left_out(tmp_path):
    """Rank 3's dump ended hours before the others began, with the numbers that they have again."""
    for rank in range(3):
        write(tmp_path, rank, calls(41, last="started"), world=4)
    write(tmp_path, 3, calls(20, shift=-7200 * SECOND), world=4)
    verdict = pg.audit(tmp_path)
    assert verdict.unknown
    assert not verdict.errors
    assert "the dumps of rank 3 end 119 min before the others begin" in text(verdict)
    assert not [f for f in verdict.findings if f.code == "PG007"]


def test_the_last_run_is_answered_by_itself(tmp_path):
    """Beside a dump of an earlier run, rank 2 is behind: that is certain for all that."""
    for rank in range(3):
        rows = [entry(number=n - 1, seq=n) for n in range(1, 40)]
        rows += [entry(number=n - 1, seq=n - 39, group="7") for n in (40, 41)]
        for one in rows:
            one["time_created_ns"] = START + one["record_id"] * SECOND
        rows[-1]["state"] = "started"
        write(tmp_path, rank, rows[:-1] if rank == 2 else rows, {"7": [0, 1, 2]}, world=4)
    write(tmp_path, 3, calls(20, shift=-7200 * SECOND), world=4)
    verdict = pg.audit(tmp_path)
    assert [(f.code, f.ranks) for f in verdict.errors] == [("PG007", (2,))]
    assert "are left out" in text(verdict)


def test_a_few_rounds_do_not_tell_runs_apart(tmp_path):
    """One round that comes again may have been queued before the others came: all is weak."""
    write(tmp_path, 0, calls(1))
    write(tmp_path, 1, calls(2, last="started", shift=60 * SECOND))
    verdict = pg.audit(tmp_path)
    assert verdict.unknown
    assert "they may be of another run" in text(verdict)


def test_a_log_against_a_dump_is_a_contradiction(tmp_path):
    """By the log rank 2 is behind at #10; its dump has it beyond, and rank 1 behind."""
    for rank in range(4):
        rows = calls(49) if rank == 1 else calls(50, last="started")
        write(tmp_path, rank, rows, world=4)
    (tmp_path / "job.log").write_text("\n".join(behind()) + "\n")
    verdict = pg.audit(tmp_path)
    assert verdict.unknown
    assert not verdict.errors
    assert "of rank 2 its log and its dump contradict each other" in text(verdict)


def test_a_log_that_says_the_same_as_the_dumps_keeps_them_certain(tmp_path):
    """Both have rank 2 behind at #10, and the others in #11."""
    for rank in range(4):
        rows = calls(10) if rank == 2 else calls(12, last="started")
        if rank != 2:
            rows[-2]["state"] = "started"
        write(tmp_path, rank, rows, world=4)
    (tmp_path / "job.log").write_text("\n".join(behind()) + "\n")
    verdict = pg.audit(tmp_path)
    assert [(f.code, f.ranks) for f in verdict.errors] == [("PG007", (2,))]


def test_a_stack_against_a_recording_is_a_contradiction(tmp_path):
    """Rank 2's log says that it has not come; its stack stands in such a call."""
    (tmp_path / "job.log").write_text("\n".join(behind()) + "\n")
    assert pg.audit(tmp_path).errors
    (tmp_path / "stack.rank2.txt").write_text(spy(7, INSIDE))
    verdict = pg.audit(tmp_path)
    assert verdict.unknown
    assert not verdict.errors
    assert "they contradict each other, or are of different moments" in text(verdict)


def test_a_second_job_in_the_same_log_is_audited_alone(tmp_path):
    """No launcher says that the job started anew: the numbers of its ranks do."""
    first = [signal(3, 500, 500)]
    for rank in range(3):
        first += [caught(rank, 501), status(rank, 501, 501, 500)]
    (tmp_path / "a.log").write_text("\n".join([*first, *behind(late=1)]) + "\n")
    verdict = pg.audit(tmp_path)
    assert "rank 3 never" not in text(verdict)
    assert not [f for f in verdict.errors if 1 not in f.ranks]
    assert "tells of 2 starts of the job" in text(verdict)


def test_what_a_rank_said_before_others_went_on_is_of_an_earlier_moment(tmp_path):
    """Rank 3 spoke in the first attempt only; the others completed 500 calls behind that."""
    lines = [signal(3, 10, 10)]
    for rank in range(3):
        lines += [caught(rank, 501), status(rank, 501, 501, 500)]
    (tmp_path / "a.log").write_text("\n".join(lines) + "\n")
    verdict = pg.audit(tmp_path)
    assert "different moments" in told(verdict)


def periodic(rank, enqueued, completed):
    """The line that torch prints again and again in a job that runs."""
    return (
        f"[rank{rank}]:[I1119 10:04:1{rank}.000 ProcessGroupNCCL.cpp:2005] [PG ID 0 PG GUID "
        f"0(default_pg) Rank {rank}] NCCL Work update periodically: last enqueued NCCL work: "
        f"{enqueued}, last completed NCCL work: {completed}."
    )


def test_periodic_lines_are_of_different_moments(tmp_path):
    """A job that runs: ranks print their counts one after the other, and nobody is behind."""
    rows = [periodic(rank, n + rank, n - 1 + rank) for n in (100, 200) for rank in range(3)]
    (tmp_path / "a.log").write_text("\n".join(rows) + "\n")
    verdict = pg.audit(tmp_path)
    assert verdict.unknown
    assert not verdict.errors


def test_periodic_lines_before_a_time_out_leave_it_certain(tmp_path):
    """What ranks say when they time out counts, whatever they printed before."""
    rows = [periodic(rank, n, n) for n in (3, 7) for rank in range(4)]
    (tmp_path / "a.log").write_text("\n".join([*rows, *behind()]) + "\n")
    assert [(f.code, f.ranks) for f in pg.audit(tmp_path).errors] == [("PG007", (2,))]


def test_a_message_that_came_was_sent(tmp_path):
    """Rank 0 has received three messages and waits for a fourth; rank 1's dump holds one send."""
    got = [entry("recv 0<-1", number=n, seq=n + 1) for n in range(4)]
    got[-1]["state"] = "started"
    write(tmp_path, 0, got)
    write(tmp_path, 1, [entry("send 1->0", number=0, seq=1)])
    verdict = pg.audit(tmp_path)
    assert "rank 0 completed recv #3 on group world, which needs rank 1" in told(verdict)
    assert "PG209" not in text(verdict)


def test_a_log_of_an_earlier_run_beside_dumps_is_left_out(tmp_path):
    """The log was written before the first call of the dumps: it blames nobody in them."""
    for rank in range(4):
        write(tmp_path, rank, calls(12, last="started"), world=4)
    path = tmp_path / "a.log"
    path.write_text("Traceback (most recent call last):\n" + "\n".join(behind()) + "\n")
    when = START - 3600 * SECOND
    os.utime(path, ns=(when, when))
    verdict = pg.audit(tmp_path)
    assert not verdict.errors
    assert "a.log was written before the first call that the dumps hold" in text(verdict)
    assert "rank 2" not in text(verdict)


def test_the_end_of_a_process_in_an_earlier_attempt_is_no_cause(tmp_path):
    """Rank 2 was killed, the job was started anew, and there rank 1 is behind."""
    killed = (
        "E1119 10:00:12.100000 3999 torch/distributed/elastic/multiprocessing/api.py:1002] failed "
        "(exitcode: -9) local_rank: 2 (pid: 4002) of binary: /usr/bin/python"
    )
    anew = (
        "I1119 10:00:13.1 3999 torch/distributed/elastic/agent/server/api.py:900] [default] Worker "
        "group FAILED. 3/3 attempts left; will restart worker group"
    )
    (tmp_path / "a.log").write_text("\n".join([killed, anew, *behind(late=1)]) + "\n")
    verdict = pg.audit(tmp_path)
    assert [(f.code, f.ranks) for f in verdict.errors] == [("PG007", (1,))]
    assert "SIGKILL" not in text(verdict)
