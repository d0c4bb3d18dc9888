"""Several recordings of one rank: two moments, two runs, two copies; nothing is refused for it."""

from __future__ import annotations

import os

import pytest
from audit_dumps import START, entry, write

import planguard as pg

SECOND = 1_000_000_000


def calls(count, *, late=0, is_open=True, first=1):
    """All reductions of a rank, one each second; the last one is open or not."""
    rows = [entry(number=n - 1, seq=n) for n in range(first, count + 1)]
    for one in rows:
        one["time_created_ns"] = START + one["record_id"] * SECOND + late
    if is_open:
        rows[-1]["state"] = "started"
    return rows


def folder(path, rows, *, at=None):
    """The dumps of all ranks in a folder of their own, written long behind their last call."""
    path.mkdir()
    for rank, own in enumerate(rows):
        write(path, rank, own, world=len(rows))
        if at is not None:
            os.utime(path / f"rank_{rank}", ns=(START + at * SECOND,) * 2)


def notes(verdict):
    """What is told beside the findings."""
    return " ".join(one.message for one in verdict.approximations)


def errors(verdict):
    """Codes and ranks of what is certain."""
    return [(f.code, f.ranks) for f in verdict.errors]


def test_of_two_moments_of_one_run_the_later_is_used(tmp_path):
    """The same calls have the same times in both: rank 2 is behind at the later moment."""
    folder(tmp_path / "first", [calls(20), calls(20), calls(20)])
    folder(tmp_path / "then", [calls(41), calls(41), calls(40, is_open=False)])
    verdict = pg.audit(tmp_path)
    assert errors(verdict) == [("PG007", (2,))]
    assert "of ranks [0-2] several dumps of one run are there: the latest" in notes(verdict)
    assert f"{tmp_path}/then/rank_0, not {tmp_path}/first/rank_0" in notes(verdict)


def test_a_copy_is_no_second_dump(tmp_path):
    """The same dumps in two folders say what they say in one."""
    rows = [calls(41), calls(41), calls(40, is_open=False)]
    for name in ("incident", "copy"):
        folder(tmp_path / name, rows)
    verdict = pg.audit(tmp_path)
    assert errors(verdict) == [("PG007", (2,))]
    assert "one dump is there several times" in notes(verdict)


@pytest.mark.parametrize("rounds", [2, 20])
def test_of_two_runs_the_last_is_used(rounds, tmp_path):
    """The numbers begin anew an hour later, and the ranks of both are all there: rank 2 is behind
    in the last run, which is certain once the runs are told apart.
    """
    folder(tmp_path / "a", [calls(30), calls(30, is_open=False), calls(30)])
    late = [calls(rounds + 1, late=3600 * SECOND)] * 2
    folder(tmp_path / "b", [*late, calls(rounds, late=3600 * SECOND, is_open=False)])
    verdict = pg.audit(tmp_path)
    assert [(f.code, f.ranks) for f in verdict.findings if f.code == "PG007"] == [("PG007", (2,))]
    assert errors(verdict) == [("PG007", (2,))]
    assert not [f for f in verdict.findings if f.code == "PG911"]


def test_where_nothing_shows_one_run_nothing_is_certain(tmp_path):
    """Without times the later file is used, and what follows is a hint."""
    for name, late in (("a", 20), ("b", 30)):
        rows = [calls(late), calls(late), calls(late - 1, is_open=False)]
        for one in (call for own in rows for call in own):
            one["time_created_ns"] = 0
        folder(tmp_path / name, rows, at=late)
    verdict = pg.audit(tmp_path)
    assert errors(verdict) == []
    (found,) = [f for f in verdict.findings if f.code == "PG007"]
    assert "#30" in found.message
    assert "nothing shows that they are of one run" in str(found.notes)


def test_two_parts_of_a_log_are_no_copies(tmp_path):
    """NCCL's log was rotated: the numbers of its calls go on, and nothing else tells the parts."""
    for rank in range(2):
        head = (
            f"h:{rank}:{rank} [{rank}] NCCL INFO ncclCommInitRank comm 0x{rank + 1} rank {rank} "
            f"nranks 2 cudaDev {rank} nvmlDev {rank} busId 1 commId 0xabc - Init COMPLETE\n"
        )
        for part in range(2):
            rows = [
                f"h:{rank}:{rank} [{rank}] NCCL INFO AllReduce: opCount {n:x} sendbuff 0x1 "
                f"recvbuff 0x1 count 8 datatype 7 op 0 root 0 comm 0x{rank + 1} [nranks=2] "
                "stream 0x1\n"
                for n in range(part * 5, part * 5 + 5)
            ]
            (tmp_path / f"rank{rank}.part{part}.log").write_text(head + "".join(rows))
    verdict = pg.audit(tmp_path)
    assert verdict.unknown
    assert "nothing shows that they are of one run" in " ".join(f.message for f in verdict.findings)


def test_one_rank_of_several_moments_does_not_stop_the_others(tmp_path):
    """Rank 0 has two dumps, rank 1 one: at the later moment of rank 0 both are in #20."""
    folder(tmp_path / "a", [calls(10, is_open=False), calls(20)])
    (tmp_path / "b").mkdir()
    write(tmp_path / "b", 0, calls(20))
    verdict = pg.audit(tmp_path)
    assert [f.code for f in verdict.findings][:1] == ["PG502"]


def test_one_moment_of_a_rank_beside_a_later_one_of_another_blames_nobody(tmp_path):
    """Rank 1's only dump may be older than the one in which rank 0 waits: that is a hint."""
    folder(tmp_path / "a", [calls(30), calls(30, is_open=False)])
    (tmp_path / "b").mkdir()
    write(tmp_path / "b", 0, calls(31))
    verdict = pg.audit(tmp_path)
    assert errors(verdict) == []
    (found,) = [f for f in verdict.findings if f.code == "PG007"]
    assert "of rank 1 there is one dump, which may be of an earlier moment" in str(found.notes)


@pytest.mark.parametrize("pause", [0, 40])
def test_a_job_that_runs_is_in_some_call_too(pause, tmp_path):
    """All are in #41, made a second before the dumps were written; or 30 s, where the job once took
    40 s between two calls.
    """
    rows = calls(41)
    for one in rows[20:]:
        one["time_created_ns"] += pause * SECOND
    folder(tmp_path / "dumps", [rows] * 4, at=40 + pause + (30 if pause else 1))
    verdict = pg.audit(tmp_path)
    assert verdict.unknown
    assert [f.code for f in verdict.findings] == ["PG904"]
    assert "nothing here shows a hang" in " ".join(verdict.reasons)


@pytest.mark.parametrize(("at", "said"), [(640, "medium; by the times"), (10**8, "weak; the rec")])
def test_where_all_have_come_the_times_of_files_say_how_long_they_wait(at, said, tmp_path):
    """Ten minutes behind the call they show that it stands; three years behind they are copies'."""
    folder(tmp_path / "dumps", [calls(41)] * 4, at=at)
    verdict = pg.audit(tmp_path)
    assert errors(verdict) == []
    assert f"evidence: {said}" in str(verdict.findings[0].notes)


def spy(pid, *inner, line=30):
    """The stack of a process that steps at a line of the program."""
    frames = [f"    {name} (torch/distributed/distributed_c10d.py:3252)" for name in inner]
    head = [f"Process {pid}: python train.py", "", f'Thread {pid} (idle): "MainThread"', *frames]
    return "\n".join([*head, f"    step (train.py:{line})", "    <module> (train.py:160)", "", ""])


def stacks(tmp_path, *moments):
    """Stacks of four ranks at several moments: of each rank its calls and its line."""
    for number, moment in enumerate(moments):
        (tmp_path / f"moment_{number}").mkdir()
        for rank, (inner, line) in enumerate(moment):
            path = tmp_path / f"moment_{number}" / f"rank_{rank}.txt"
            path.write_text(spy(800 + rank, *inner, line=line))
    return pg.audit(tmp_path)


WAIT = (("all_reduce",), 30)


def test_the_same_stacks_twice_say_what_they_say_once(tmp_path):
    """Rank 2 is in no communication, by four stacks and not by eight."""
    moment = [WAIT, WAIT, ((), 70), WAIT]
    verdict = stacks(tmp_path, moment, moment)
    found = verdict.findings[0]
    assert (found.code, found.ranks, found.severity) == ("PG007", (2,), "warning")
    assert "weak; 4 stacks of one moment" in str(found.notes)


def test_who_moved_between_two_stacks_is_not_stuck(tmp_path):
    """All are in a call at both moments, and in another one: nothing hangs."""
    verdict = stacks(tmp_path, [WAIT] * 4, [(("all_reduce",), 31)] * 4)
    assert [f.code for f in verdict.findings] == ["PG904"]
    assert "ranks [0-3] moved between two stacks, and did not hang then" in " ".join(
        verdict.reasons
    )


def test_one_rank_that_moves_is_told_beside_those_that_stand(tmp_path):
    """Rank 2 went on from one call to the next: it is not said to stand in another call."""
    verdict = stacks(tmp_path, [WAIT] * 4, [WAIT, WAIT, (("barrier",), 31), WAIT])
    found = verdict.findings[0]
    assert (found.code, found.severity) == ("PG502", "warning")
    assert "rank 2 moving between two stacks" in found.message


def test_two_moments_in_one_file_are_told_apart(tmp_path):
    """The same processes, one moment behind the other."""
    text = "".join(spy(800 + r, "all_reduce", line=line) for line in (30, 31) for r in range(4))
    (tmp_path / "all.txt").write_text(text)
    verdict = pg.audit(tmp_path)
    assert [f.code for f in verdict.findings] == ["PG904"]
    assert "moved between two stacks" in " ".join(verdict.reasons)


def test_a_process_that_loads_data_is_no_other_moment_of_its_rank(tmp_path):
    """Two processes of a rank are two: it did not move."""
    for rank in range(4):
        (tmp_path / f"rank_{rank}.txt").write_text(spy(800 + rank, "all_reduce"))
        (tmp_path / f"workers_of_rank_{rank}.txt").write_text(spy(900 + rank, line=99))
    verdict = pg.audit(tmp_path)
    assert "moved" not in " ".join(verdict.reasons)
    assert verdict.findings[0].message == (
        "where the ranks stood: ranks [0-3] wait in all_reduce at train.py:30"
    )


def trace(rank):
    """What a rank of a gloo job printed that rank 2 left: no line says the rank."""
    frames = [("train.py", 30, "<module>"), ("train.py", 50, "step")]
    error = "RuntimeError: [../gloo/transport/tcp/pair.cc:553] Connection closed by peer [::1]:9"
    if rank == 2:
        frames, error = [("train.py", 30, "<module>"), ("data.py", 9, "load")], "ValueError: shard"
    rows = [f'  File "{file}", line {line}, in {name}' for file, line, name in frames]
    return ["Traceback (most recent call last):", *rows, error]


def collected(path, by, ranks=range(4)):
    """The same words as three collectors keep them."""
    for rank in ranks:
        if by == "kubernetes":
            file, put = path / f"worker-{rank}.log", "2026-11-19T10:04:11.123456789Z stderr F "
        elif by == "torchrun":
            file, put = path / f"job_x/attempt_0/{rank}/stderr.log", ""
        else:
            file, put = path / "driver.log", f"(TrainWorker pid={4000 + rank}, ip=10.0.0.7) "
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as out:
            out.writelines(f"{put}{row}\n" for row in trace(rank))


@pytest.mark.parametrize("more", [(), ("torchrun",), ("ray",), ("ray", "torchrun")])
def test_what_several_collectors_kept_is_said_once(more, tmp_path):
    """Rank 2 raised, by its own file; that others repeat it makes it no less sure, and no other
    rank's.
    """
    for by in ("kubernetes", *more):
        collected(tmp_path, by)
    verdict = pg.audit(tmp_path)
    assert [(f.code, f.ranks) for f in verdict.errors] == [("PG506", (2,))]


def test_what_a_driver_repeats_is_not_of_the_rank_in_whose_log_it_stands(tmp_path):
    """Rank 0's file holds what Ray's driver collected of rank 2, whose own file is there."""
    collected(tmp_path, "kubernetes", (1, 2, 3))
    rows = [f"(TrainWorker pid=4002, ip=10.0.0.7) {row}\n" for row in trace(2)]
    (tmp_path / "worker-0.log").write_text("".join(rows))
    verdict = pg.audit(tmp_path)
    assert [f.ranks for f in verdict.findings if f.code == "PG506"] == [(2,)]


def test_the_prefix_of_kubectl_names_a_process(tmp_path):
    """``kubectl logs --prefix``: a pod, whose rank another of its lines says."""
    rows = [
        f"[pod/train-{'abcd'[rank]}/torch] {row}"
        for rank in range(4)
        for row in (f"[rank{rank}]: loading", *trace(rank))
    ]
    (tmp_path / "all.log").write_text("\n".join(rows) + "\n")
    assert [(f.code, f.ranks) for f in pg.audit(tmp_path).errors] == [("PG506", (2,))]
