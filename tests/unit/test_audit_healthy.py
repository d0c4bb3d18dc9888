"""What looks like a hang of one rank and is none: what people have in hand of jobs that run."""

from __future__ import annotations

import json
import os

import pytest
from audit_dumps import START, entry, write
from test_audit_logs import audit, caught, errors, signal, status

import planguard as pg


def said(verdict):
    """The text of a verdict, without its line breaks."""
    return " ".join(str(verdict).split())


def copied(folder):
    """Give the files of a folder the time of a copy, a year later."""
    at = START + 366 * 86_400_000_000_000
    for path in folder.iterdir():
        os.utime(path, ns=(at, at))


def test_uneven_all_to_alls_that_ended_disagree_in_nothing(tmp_path):
    """What experts get: each rank gives and takes another amount, in parts that no dump tells."""
    for rank, (into, out) in enumerate([(100, 137), (137, 100), (174, 155), (211, 230)]):
        sizes = {"input_sizes": [[into, 64]], "output_sizes": [[out, 64]]}
        rows = [entry("all_to_all", number=n, seq=n + 1, **sizes) for n in range(4)]
        write(tmp_path, rank, rows, world=4)
    verdict = pg.audit(tmp_path)
    assert verdict.safe
    assert not any("size" in claim for claim in verdict.proved)


def test_calls_that_ended_and_make_no_plan_show_no_hang(tmp_path):
    """A Flight Recorder writes no roots: other orders are open, and the answer says that."""
    for rank in range(2):
        write(tmp_path, rank, [entry("broadcast", number=0, seq=1)])
    verdict = pg.audit(tmp_path)
    assert verdict.unknown
    assert "every recorded call ended, and nothing in them shows a hang" in said(verdict)


PAIRWISE = [("SEND", 8), ("RECV", 8), ("COALESCED", 0), ("COALESCED", 2**64 - 1)]


@pytest.mark.parametrize(("op", "size"), PAIRWISE)
def test_numbers_of_sends_and_receives_tell_nobody_behind(op, size, tmp_path):
    """Each rank counts its own (seqP2P): stages of a pipeline issue other numbers of them."""
    lines = []
    for rank, seq in enumerate((17, 18, 18)):
        lines.append(caught(rank, seq, op, size, size))
        lines.append(status(rank, seq, seq + rank % 2, seq - 1, "9(pipeline)"))
    verdict = audit(tmp_path, lines)
    assert verdict.unknown
    assert errors(verdict) == []
    assert "PG007" not in {one.code for one in verdict.findings}
    assert "each rank counts its own sends and receives" in said(verdict)


def test_coalesced_collectives_with_sizes_are_counted_by_all(tmp_path):
    """The same words with sizes are of collectives, and who is behind is behind."""
    lines = [status(2, 10, 10, 10)]
    for rank in (0, 1):
        lines += [caught(rank, 11, "COALESCED", 8, 16), status(rank, 11, 11, 10)]
    assert errors(audit(tmp_path, lines)) == [("PG007", (2,))]


def test_an_error_behind_which_a_rank_waits_with_all_others_is_not_the_cause(tmp_path):
    """A sample that could not be read was logged with its traceback, and training went on."""
    lines = [
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "/workspace/data.py", line 40, in __getitem__',
        "[rank1]:     img = Image.open(p)",
        "[rank1]: PIL.UnidentifiedImageError: cannot identify image file",
    ]
    for rank in range(3):
        lines += [caught(rank, 300), status(rank, 300, 301, 299)]
    verdict = audit(tmp_path, lines)
    assert [one.code for one in verdict.findings if one.code != "PG904"] == ["PG502"]
    assert any(
        "rank 1 printed an error of its own" in one.message for one in verdict.approximations
    )


def test_an_error_of_its_device_is_the_end_of_a_rank(tmp_path):
    """The watchdog ends it before any call times out; behind a time limit it may be a victim."""
    said = (
        "[rank1]:[E1119 10:00:00.014 ProcessGroupNCCL.cpp:1895] [PG ID 0 PG GUID 0(default_pg) "
        "Rank 1] Process group watchdog thread terminated with exception: CUDA error: "
        "uncorrectable ECC error encountered"
    )
    others = [line for rank in (0, 2) for line in (caught(rank, 7), status(rank, 7, 7, 6))]
    assert errors(audit(tmp_path, [said, *others])) == [("PG506", (1,))]
    own = [caught(1, 7), status(1, 7, 7, 6)]
    assert errors(audit(tmp_path, [*own, said, *others])) == []


STALL = (
    "[1,0]<stderr>:[2026-11-19 10:01:40.112233: W horovod/common/stall_inspector.cc:107] One or "
    "more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are "
    "waiting for remainder of ranks for more than 60 seconds."
)
HOROVOD = [
    STALL,
    "[1,0]<stderr>:Missing ranks:",
    "[1,0]<stderr>:2: [grad.0, grad.1]",
]


def test_a_stall_behind_which_the_job_trains_on_may_be_over(tmp_path):
    """Rank 0 reports while it waits; a step printed behind it says that the job went on."""
    before = said(audit(tmp_path, HOROVOD))
    assert "evidence: medium" in before
    later = [f"[1,{rank}]<stdout>:step 40 loss 1.70" for rank in range(3)]
    behind = said(audit(tmp_path, [*HOROVOD, *later]))
    assert "evidence: weak; the job printed progress behind" in behind


def ras(status_, *told):
    """One report of RAS on eight ranks."""
    return [
        "NCCL version 2.26.2 compiled with CUDA 12.4", "Job summary", "===========", "",
        "(total)   per node  per process    (total)  (total)",
        "      1          8            1          8        8", "",
        "Communicators... (0.00s)", "=============", "",
        f"    0         1         1         8         8         8   RUNNING  {status_}", "",
        "Warnings", "========", *told, "",
    ]  # fmt: skip


def test_of_several_reports_of_ras_the_last_counts(tmp_path):
    """Ranks merely differed at the moment of the first one; a report that is cut is none."""
    differing = ras(
        "MISMATCH",
        "#0-0 (27a079b828ff1a75) MISMATCH",
        "  Communicator ranks have different AllReduce operation counts",
        "  7 ranks have launched up to operation 6650",
        "  1 rank has launched up to operation 6649",
        "  Rank 5 has launched up to operation 6649 -- GPU 5 managed by process 7 on node n",
    )
    calm = ras("OK")
    assert "PG007" in {one.code for one in audit(tmp_path, differing).findings}
    verdict = audit(tmp_path, [*differing, *calm])
    assert "PG007" not in {one.code for one in verdict.findings}
    assert any("2 reports of RAS" in one.message for one in verdict.approximations)
    for lines in ([*calm, *differing], [*differing, *calm[:4]]):
        assert "PG007" in {one.code for one in audit(tmp_path, lines).findings}


def table(*rows):
    """The summary of torchrun: rank, exit code and second, the first failure last."""
    lines = []
    for place, (rank, code, second) in enumerate(rows):
        lines += ["Failures:"] if not place else []
        lines += ["Root Cause (first observed failure):"] if place == len(rows) - 1 else []
        lines += [
            f"[{place}]:", f"  time      : 2026-11-19_10:05:{second}", "  host      : node-a",
            f"  rank      : {rank} (local_rank: {rank})", f"  exitcode  : {code} (pid: {rank})",
        ]  # fmt: skip
    return lines


def test_of_those_that_were_killed_in_one_second_nobody_was_first(tmp_path):
    """The agent looks at its processes in turn; those that it ended itself show another code."""
    together = audit(tmp_path, table((0, -9, 13), (1, -9, 13), (3, -9, 13)))
    assert "in the same second as ranks 0 and 1" in said(together)
    assert "before any other" not in said(together)
    for rows in (((0, -15, 13), (3, -9, 13)), ((0, -9, 14), (3, -9, 13))):
        assert "before any other process" in said(audit(tmp_path, table(*rows)))


def test_a_signal_that_a_process_gives_itself_is_its_own(tmp_path):
    """SIGSEGV is sent by nobody; SIGKILL is, and mp.spawn tells the place among its processes."""
    assert errors(audit(tmp_path, table((3, -11, 13)))) == [("PG506", (3,))]
    assert errors(audit(tmp_path, table((3, -9, 13)))) == []
    spawned = "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal"
    verdict = audit(tmp_path, ["Traceback (most recent call last):", f"{spawned} SIGKILL"])
    assert errors(verdict) == []
    assert ("PG506", (1,)) in [(one.code, one.ranks) for one in verdict.findings]


def test_one_call_from_another_line_moves_nothing(tmp_path):
    """A retry calls from a line of its own in place of the usual one: the others are behind."""
    for rank in range(4):
        lines = [120, 130] * 7
        if rank == 1:
            lines[4] = 7
        count = 13 if rank == 1 else 12
        rows = [entry(number=n, seq=n + 1, line=lines[n]) for n in range(count)]
        if rank == 1:
            rows[-1]["state"] = "started"
        write(tmp_path, rank, rows, world=4)
    verdict = pg.audit(tmp_path)
    assert [one.ranks for one in verdict.errors] == [(0, 2, 3)]
    assert "alone calls" not in said(verdict)


def test_that_a_rank_has_not_sent_yet_is_no_strong_evidence(tmp_path):
    """Rank 0 computes between two sends; two ranks that wait for each other tell of themselves."""
    write(tmp_path, 0, [entry("send 0->1", number=0, seq=1)])
    waiting = entry("recv 1<-0", number=1, seq=2, state="started")
    write(tmp_path, 1, [entry("recv 1<-0", number=0, seq=1), waiting])
    assert "evidence: medium, since it was made 600 s before" in said(pg.audit(tmp_path))
    copied(tmp_path)
    assert "evidence: weak, since nothing says how long" in said(pg.audit(tmp_path))
    other = entry("recv 0<-1", number=1, seq=2, state="started")
    write(tmp_path, 0, [entry("send 0->1", number=0, seq=1), other])
    assert "evidence: strong; both sides tell of themselves" in said(pg.audit(tmp_path))


@pytest.mark.parametrize("is_dated", [True, False])
def test_a_straggler_is_no_deadlock_where_nothing_says_how_long_others_wait(is_dated, tmp_path):
    """Rank 3 computes on; the times of files are those of copies, or entries have no times."""
    for rank in range(4):
        rows = [entry(number=n, seq=n + 1) for n in range(3)]
        rows += [entry(number=3, seq=4, state="started")] if rank < 3 else []
        for row in rows:
            row["time_created_ns"] *= is_dated
        write(tmp_path, rank, rows, world=4)
    assert bool(pg.audit(tmp_path).errors) is is_dated
    copied(tmp_path)
    verdict = pg.audit(tmp_path)
    assert verdict.unknown
    assert (verdict.findings[0].code, verdict.findings[0].ranks) == ("PG007", (3,))
    assert "evidence: weak, since nothing says how long the call has waited" in said(verdict)
    late = [line for rank in range(3) for line in (caught(rank, 4), status(rank, 4, 4, 3))]
    assert errors(audit(tmp_path, late, name="job.log")) == [("PG007", (3,))]


def test_later_calls_of_a_rank_say_how_long_it_waits(tmp_path):
    """Rank 0 went on for a minute behind the call in which it waits, by its own clock."""
    groups = {"own": [0]}
    rows = [entry(number=0, seq=1), entry(number=1, seq=2, state="started")]
    rows.append(entry(number=2, seq=1, group="own", time_created_ns=START + 60_000_000_000))
    write(tmp_path, 0, rows, groups)
    write(tmp_path, 1, [entry(number=0, seq=1)], groups)
    copied(tmp_path)
    assert errors(pg.audit(tmp_path)) == [("PG007", (1,))]


def test_dumps_of_two_jobs_in_one_folder_prove_nothing(tmp_path):
    """Their default groups have other members: nothing that they disagree on is a mismatch."""
    for rank in range(4):
        size = {"input_sizes": [[4 if rank < 2 else 8]], "output_sizes": [[4 if rank < 2 else 8]]}
        rows = [entry(number=n, seq=n + 1, **size) for n in range(3)]
        write(tmp_path, rank, rows, world=2 if rank < 2 else 4)
    verdict = pg.audit(tmp_path)
    assert verdict.unknown
    assert not verdict.errors
    assert "these are dumps of several jobs" in said(verdict)


def test_an_error_that_python_drops_ends_nobody(tmp_path):
    """A finalizer of the DataLoader fails on the rank that all others then wait for nothing of."""
    lines = [
        "[rank1]: Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f>",
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "/opt/torch/utils/data/dataloader.py", line 1618, in __del__',
        "[rank1]:     self._shutdown_workers()",
        "[rank1]: AssertionError: can only test a child process",
    ]
    for rank in range(3):
        lines += [caught(rank, 300), status(rank, 300, 301, 299)]
    verdict = audit(tmp_path, lines)
    assert [one.code for one in verdict.findings if one.code != "PG904"] == ["PG502"]


def test_a_kernel_that_fails_in_python_is_the_ranks_own(tmp_path):
    """Before any of its calls timed out; behind that, and a lost link, may come of a peer."""
    trace = [
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "/workspace/train.py", line 200, in main',
        "[rank1]:     loss.backward()",
        "[rank1]: RuntimeError: CUDA error: {}",
    ]
    illegal = [line.format("an illegal memory access was encountered") for line in trace]
    link = [line.format("uncorrectable NVLink error detected") for line in trace]
    others = [line for rank in (0, 2) for line in (caught(rank, 7), status(rank, 7, 7, 6))]
    assert errors(audit(tmp_path, [*illegal, *others])) == [("PG506", (1,))]
    own = [caught(1, 7), status(1, 7, 7, 6)]
    for lines in ([*own, *illegal, *others], [*link, *others]):
        assert ("PG506", (1,)) not in errors(audit(tmp_path, lines))


def test_two_calls_of_one_number_on_one_rank_are_of_two_jobs(tmp_path):
    """Two jobs on one console: which of them disagree with which is not known."""
    lines = []
    for op in ("ALLREDUCE", "BROADCAST"):
        for rank in range(2):
            lines += [caught(rank, 7, op), status(rank, 7, 7, 6)]
    verdict = audit(tmp_path, lines)
    assert verdict.unknown
    assert not errors(verdict)
    assert "two jobs in one log" in said(verdict)


def test_watchdogs_that_spoke_days_apart_are_of_several_runs(tmp_path):
    """A log of another day lies beside those of the hang; past midnight and new year it is one."""
    lines = []
    for rank in (0, 1, 3):
        lines += [caught(rank, 11), status(rank, 11, 12, 10)]
    late = status(2, 10, 10, 10)
    for others, own, is_sure in (
        ("1119", "1119", True), ("1119", "1120", True), ("0101", "1231", True),
        ("1119", "1003", False), ("0101", "1229", False),
    ):  # fmt: skip
        told = [line.replace("E1119", f"E{others}") for line in lines]
        verdict = audit(tmp_path, [*told, late.replace("E1119", f"E{own}")])
        assert errors(verdict) == ([("PG007", (2,))] if is_sure else []), (others, own)
        assert ("days apart" in said(verdict)) is not is_sure


def test_who_works_in_a_group_of_its_own_may_still_come(tmp_path):
    """Ranks 0 and 1 evaluate while 2 and 3 wait for them; where they stopped long ago it stands."""
    groups = {"e": [0, 1]}
    for rank in range(4):
        rows = [entry(number=0, seq=1)]
        if rank < 2:
            rows += [entry(number=n, seq=n, group="e") for n in range(2, 40)]
        else:
            rows.append(entry(number=1, seq=2, state="started"))
        write(tmp_path, rank, rows, groups, world=4)
    for seconds, strength in ((0.1, "weak"), (600, "medium")):
        for rank in range(4):
            at = START + 40_000_000 + int(seconds * 1e9)
            os.utime(tmp_path / f"rank_{rank}", ns=(at, at))
        verdict = pg.audit(tmp_path)
        assert f"evidence: {strength}" in said(verdict), seconds
        assert bool(verdict.errors) is (strength == "medium")


def lives(tmp_path, last, *, anew=(0, 1, 2), done=3):
    """Dumps of ranks that destroyed their default group and made it again: numbers begin anew."""
    for rank in range(3):
        rows = [entry(number=n, seq=n + 1) for n in range(6)]
        if rank in anew:
            rows += [entry(number=6 + n, seq=n + 1) for n in range(done)]
            rows.append(entry(number=9, seq=done + 1, state=last))
        write(tmp_path, rank, rows, world=3)
    return pg.audit(tmp_path)


def test_numbers_that_begin_anew_hide_no_call_that_stands(tmp_path):
    """The fourth call of the second life is not the fourth of the first, which ended long ago."""
    assert "PG502" in {one.code for one in lives(tmp_path, "started").findings}
    assert lives(tmp_path, "completed").safe
    rows = [entry(number=n, seq=n + 1) for n in range(6)]
    rows += [entry(number=6 + n, seq=n + 1) for n in range(3)]
    lives(tmp_path, "started")
    write(tmp_path, 1, rows, world=3)
    assert [one.ranks for one in pg.audit(tmp_path).errors] == [(1,)]


def test_who_does_not_begin_anew_with_the_others_may_be_behind(tmp_path):
    """Rank 2 is in the first life: none of its calls is compared with the second of the others."""
    verdict = lives(tmp_path, "started", anew=(0, 1), done=0)
    assert verdict.unknown
    assert not verdict.errors
    assert ("PG007", (2,)) in [(one.code, one.ranks) for one in verdict.findings]
    assert "began anew on ranks 0 and 1 only" in said(verdict)


def test_a_send_that_met_its_receive_and_did_not_end_is_no_safe_run(tmp_path):
    """Nobody is missing, as in a collective to which all came."""
    for rank, op in ((0, "send 0->1"), (1, "recv 1<-0")):
        rows = [entry(op, number=n, seq=n + 1) for n in range(3)]
        write(tmp_path, rank, [*rows, entry(op, number=3, seq=4, state="started")])
    verdict = pg.audit(tmp_path)
    assert verdict.unknown
    assert "PG502" in {one.code for one in verdict.findings}
    assert "met its receive on rank 1, and did not complete" in said(verdict)
    for rank in (2, 3):
        write(tmp_path, rank, [entry(number=0, seq=1, state="started")], world=4)
    for rank, op in ((0, "send 0->1"), (1, "recv 1<-0")):
        rows = [
            entry(op, number=0, seq=1, state="started"),
            entry(number=1, seq=1, state="scheduled"),
        ]
        write(tmp_path, rank, rows, world=4)
    verdict = pg.audit(tmp_path)
    assert not verdict.errors
    assert "met its receive" in said(verdict)


def test_a_recorder_that_was_switched_on_late_lacks_no_calls(tmp_path):
    """Its first number says what it does not hold; all that is there ended."""
    for rank in range(3):
        first = 30 if rank == 2 else 0
        rows = [entry(number=n - first, seq=n + 1) for n in range(first, 40)]
        write(tmp_path, rank, rows, world=3)
    verdict = pg.audit(tmp_path)
    assert verdict.unknown
    assert not verdict.errors
    assert "begin at other rounds (#1 on rank 0, #31 on rank 2)" in said(verdict)


def test_members_that_were_concluded_may_not_be_all(tmp_path):
    """A dump without members of its groups: one that was not seen in it may be missing."""
    for rank in range(3):
        rows = [entry(number=0, seq=1)]
        rows += [entry(number=1, seq=1, group="tp", state="started")] if rank < 2 else []
        write(tmp_path, rank, rows, world=3)
    text = said(pg.audit(tmp_path))
    assert "every member" not in text
    assert "no member is missing" not in text


def described(rank, calls):
    """A Kineto trace of NCCL: calls as name, elements in and out, and what else is said of them."""
    world = {"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1]}
    about = {"backend": "nccl", "rank": rank, "world_size": 2, "pg_config": [world]}
    events = [
        {
            "ph": "X", "cat": "cpu_op", "name": "record_param_comms", "ts": 10.0 + number,
            "dur": 1.0,
            "args": {
                "Collective name": name, "In msg nelems": into, "Out msg nelems": out,
                "Group size": 2, "dtype": "Float", "Process Group Name": "0",
                "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1]",
                "Rank": rank, **more,
            },
        }
        for number, (name, into, out, more) in enumerate(calls)
    ]  # fmt: skip
    return json.dumps({"schemaVersion": 1, "distributedInfo": about, "traceEvents": events})


def test_uneven_all_to_alls_in_traces_disagree_in_nothing(tmp_path):
    """NCCL's ``all_to_allv`` with its parts, which fit pair by pair; where they do not, PG206."""
    for rank, (into, out) in enumerate([([10, 15], [10, 13]), ([13, 11], [15, 11])]):
        parts = {"In split size": str(into), "Out split size": str(out)}
        row = ("all_to_allv", sum(into), sum(out), parts)
        (tmp_path / f"rank{rank}.json").write_text(described(rank, [row, row]))
    assert not pg.audit(tmp_path).findings
    parts = {"In split size": "[13, 11]", "Out split size": "[14, 11]"}
    (tmp_path / "rank1.json").write_text(described(1, [("all_to_allv", 24, 25, parts)] * 2))
    assert "PG206" in {one.code for one in pg.audit(tmp_path).errors}


def test_traces_that_begin_at_other_calls_prove_nothing(tmp_path):
    """A window of a profiler says neither numbers nor where it begins; nor are they SAFE."""
    rows = [("allreduce", 4, 4, {}), ("allreduce", 8, 8, {})] * 4
    for rank in range(2):
        (tmp_path / f"rank{rank}.json").write_text(described(rank, rows[rank : rank + 6]))
    verdict = pg.audit(tmp_path)
    assert verdict.unknown
    assert not verdict.errors
    assert "evidence: weak; traces do not say at which call of the job they begin" in said(verdict)


def test_what_other_files_tell_of_trouble_is_never_safe(tmp_path):
    """Dumps in which all ended lie beside a report of RAS, or last words of a rank."""
    for rank in range(4):
        write(tmp_path, rank, [entry(number=n, seq=n + 1) for n in range(3)], world=4)
    assert pg.audit(tmp_path).safe
    stuck = (
        "[rank1]:[F1119 10:04:11.014 ProcessGroupNCCL.cpp:1895] [PG ID 0 PG GUID 0(default_pg) "
        "Rank 1] Terminating the process after attempting to dump debug info, due to "
        "ProcessGroupNCCL watchdog got stuck for 480 seconds"
    )
    told = ras(
        "MISMATCH",
        "#0-0 (27a079b828ff1a75) MISMATCH",
        "  Communicator ranks have different AllReduce operation counts",
        "  3 ranks have launched up to operation 55",
        "  1 rank has launched up to operation 54",
        "  Rank 1 has launched up to operation 54 -- GPU 1 managed by process 7 on node n",
    )
    four = [line.replace("        8        8", "        4        4") for line in told]
    four = [
        line.replace("8         8         8   RUN", "4         4         4   RUN") for line in four
    ]
    late = [caught(1, 4), status(1, 4, 4, 3)]
    for lines, words in (
        ([stuck], "made no progress"), (four, "reports ranks that differ"), (late, "did not end"),
    ):  # fmt: skip
        verdict = audit(tmp_path, lines, name="rank1.log")
        assert not verdict.safe, words


@pytest.mark.parametrize(
    "lines",
    [
        [signal(0, 3, 3).replace("Last enqueued", "Enqueued")],
        ["RuntimeError: something that nobody knows", "Aborted (core dumped)"],
        ["terminate called after throwing an instance of 'gloo::EnforceNotMet'",
         "  what():  [enforce fail at pair.cc:456] op.preamble.length <= op.nbytes. 512 vs 496"],
    ],
)  # fmt: skip
def test_words_of_trouble_of_nobody_are_never_safe(lines, tmp_path):
    """Beside dumps in which all ended; words of a run that is well leave it SAFE."""
    for rank in range(2):
        write(tmp_path, rank, [entry(number=n, seq=n + 1) for n in range(3)])
    assert not audit(tmp_path, lines, name="console.log").safe
    assert audit(tmp_path, ["step 1 loss 2.0", "step 2 loss 1.9"], name="console.log").safe
