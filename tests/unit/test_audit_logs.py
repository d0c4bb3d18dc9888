"""Logs of ranks: what the watchdog, gloo, RAS and launchers print, however prefixed."""

from __future__ import annotations

import json
import re
import time

import pytest
from audit_dumps import entry, write

import planguard as pg
from planguard.audit.readers.ras import read_ras

NEW, OLD = "2.7", "2.1"


def caught(rank, seq, op="ALLREDUCE", into=1024, out=None, *, version=NEW, place=None):
    """The line of a call that timed out."""
    who = place if place is not None else rank
    sizes = f"NumelIn={into}, NumelOut={out or into}, "
    line = (
        f"[Rank {who}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, "
        f"OpType={op}, {sizes}Timeout(ms)=600000) ran for 600010 milliseconds before timing out."
    )
    if version == OLD:
        return f"[E ProcessGroupNCCL.cpp:474] {line}"
    return f"[rank{rank}]:[E1119 10:04:11.588000000 ProcessGroupNCCL.cpp:632] {line}"


def status(rank, failed, enqueued, completed, group="0(default_pg)", *, place=None):
    """The line that says how far a rank came in a group (torch 2.6 on)."""
    who = place if place is not None else rank
    return (
        f"[rank{rank}]:[E1119 10:04:11.589000000 ProcessGroupNCCL.cpp:2271] [PG ID 0 PG GUID "
        f"{group} Rank {who}]  failure detected by watchdog at work sequence id: {failed} PG "
        f"status: last enqueued work: {enqueued}, last completed work: {completed}"
    )


def signal(rank, enqueued, completed):
    """The only line of a rank that has nothing pending."""
    return (
        f"[rank{rank}]:[E1119 10:04:12.001 ProcessGroupNCCL.cpp:1746] [PG ID 0 PG GUID "
        f"0(default_pg) Rank {rank}] Received a dump signal due to a collective timeout from  rank "
        f"0 and we will try our best to dump the debug info. Last enqueued NCCL work: {enqueued}, "
        f"last completed NCCL work: {completed}.This is most likely caused by incorrect usages"
    )


def behind(late=2, world=4):
    """A log in which one rank has issued ten calls, and the others wait in the eleventh."""
    lines = []
    for rank in range(world):
        if rank == late:
            lines.append(signal(rank, 10, 10))
        else:
            lines += [caught(rank, 11), status(rank, 11, 12, 10)]
    return lines


def audit(tmp_path, lines, name="train.log"):
    """Audit one log."""
    (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return pg.audit(tmp_path)


def errors(verdict):
    """Codes and ranks of what is stated with certainty."""
    return [(f.code, f.ranks) for f in verdict.errors if f.certainty != "heuristic"]


def test_who_says_that_it_never_issued_the_call_is_named(tmp_path):
    """The last enqueued number of a rank is its own word: it never came to the round."""
    assert errors(audit(tmp_path, behind())) == [("PG007", (2,))]


PREFIXES = {
    "colours": lambda n, line: f"\x1b[36m(Worker pid={70 + n}, ip=10.0.0.1)\x1b[0m {line}",
    "kubernetes": lambda _, line: f"2026-11-19T10:04:11.123456789Z stderr F {line}",
    "slurm": lambda n, line: f"{n}: {line}",
    "mpi": lambda n, line: f"[1,{n}]<stderr>:{line}",
    "torchrun": lambda n, line: f"[default{n}]:{line}",
    "bar": lambda _, line: f" 42%|####     | 10/24 [00:01<00:02,  1.37it/s]{line}",
    "docker": lambda _, line: json.dumps({"log": line + "\n", "stream": "stderr", "time": "x"}),
    "mark": lambda _, line: f"\ufeff{line}\r",
    "broken": lambda _, line: f"{line[:120]}\n{line[120:]}" if "Watchdog" in line else line,
}


@pytest.mark.parametrize("prefix", sorted(PREFIXES))
def test_prefixes_of_launchers_change_nothing(prefix, tmp_path):
    """Colours, prefixes, bars, JSON lines, CRLF and broken lines give the same answer."""
    put = PREFIXES[prefix]
    ranks = [int(line[5 : line.index("]")]) for line in behind()]
    lines = [put(rank, line) for rank, line in zip(ranks, behind(), strict=True)]
    assert errors(audit(tmp_path, lines)) == [("PG007", (2,))]


def test_lines_of_two_ranks_glued_together_are_told_apart(tmp_path):
    """Two ranks that wrote without a line feed between them are still two."""
    lines = behind()
    assert errors(audit(tmp_path, ["".join(lines[:3]), *lines[3:]])) == [("PG007", (2,))]


def test_a_rank_within_a_group_is_not_the_rank_of_the_job(tmp_path):
    """``Rank 1`` of mesh_tp on global rank 13: nobody is blamed by its place in the group."""
    lines = [caught(13, 3, "BROADCAST", 1, place=1), status(13, 3, 3, 2, "20(mesh_tp)", place=1)]
    verdict = audit(tmp_path, lines)
    assert verdict.unknown
    assert errors(verdict) == []
    assert verdict.findings[0].ranks == (13,)


def test_groups_are_closed_where_their_places_leave_no_other_member(tmp_path):
    """Ranks 2 and 3 are places 0 and 1 of a group whose calls show two members: both are there."""
    lines = []
    for place, rank in enumerate((2, 3)):
        op = ("_ALLGATHER_BASE", 8, 16)
        lines += [caught(rank, 5, *op, place=place), status(rank, 5, 5, 4, "7(tp)", place=place)]
    verdict = audit(tmp_path, lines)
    assert verdict.unknown
    assert "PG502" in {f.code for f in verdict.findings}


def test_another_kind_in_one_round_of_one_group_is_a_mismatch(tmp_path):
    """A broadcast among all_reduces of one number is PG201 on its rank."""
    lines = []
    for rank in range(4):
        op = "BROADCAST" if rank == 2 else "ALLREDUCE"
        lines += [caught(rank, 11, op), status(rank, 11, 11, 10)]
    assert errors(audit(tmp_path, lines)) == [("PG201", (2,))]


def test_a_line_that_is_cut_says_who_timed_out_and_nothing_false(tmp_path):
    """Wherever the last line of rank 2 ends: the call, its kind and its size are no mismatch; from
    the number of its call on, rank 2 is known to stand in it.
    """
    whole = caught(2, 11, "ALLREDUCE_SPARSE")
    others = [caught(rank, 11, "ALLREDUCE_SPARSE") for rank in (0, 1, 3)]
    place = whole.index(", OpType=A") + len(", OpType=A")
    for end in range(1, len(whole)):
        verdict = audit(tmp_path, [*others, whole[:end]])
        assert errors(verdict) == []
        assert {f.code for f in verdict.findings}.isdisjoint({"PG201", "PG202", "PG203"}), end
        named = [f for f in audit(tmp_path, [whole[:end]]).findings if f.code == "PG501"]
        assert bool(named) == (end >= place), end
    assert (
        "all_reduce"
        in audit(tmp_path, [whole.replace("_SPARSE", "")[: place + 9]]).findings[0].message
    )


RESTART = (
    "INFO 2026-11-19 10:05:02,120 api.py:944] [default] Worker group FAILED. 3/3 attempts left; "
    "will restart worker group"
)


def test_two_starts_of_a_job_are_not_compared(tmp_path):
    """Numbers begin again with each start: round 11 of one is not round 11 of the other."""
    first = [caught(0, 11), status(0, 11, 11, 10)]
    second = [line for r in (1, 2) for line in (caught(r, 11, "BROADCAST"), status(r, 11, 11, 10))]
    assert [code for code, _ in errors(audit(tmp_path, [*first, *second]))] == ["PG201"]
    verdict = audit(tmp_path, [*first, RESTART, *second])
    assert "PG201" not in {f.code for f in verdict.findings}
    assert "2 starts of the job: number 2" in json.dumps(verdict.to_json())


def test_what_was_said_before_a_restart_is_audited_where_nothing_follows(tmp_path):
    """The agent starts the job anew, and the log ends there."""
    alone = errors(audit(tmp_path, behind()))
    verdict = audit(tmp_path, [*behind(), RESTART, "epoch 1 of 3"])
    assert errors(verdict) == alone != []
    assert "2 starts of the job: number 1" in json.dumps(verdict.to_json())


def test_before_the_group_was_printed_nothing_is_certain(tmp_path):
    """One number and two operations of torch 2.1 may be of two groups: a hint at most."""
    lines = [caught(r, 11, "BROADCAST" if r == 2 else "ALLREDUCE", version=OLD) for r in range(4)]
    verdict = audit(tmp_path, lines)
    assert errors(verdict) == []
    assert verdict.findings[0].ranks == (2,)


FINISHED = (
    "INFO 2026-11-19 11:05:02,120 api.py:879] [default] worker group successfully finished. "
    "Waiting 300 seconds for other agents to finish."
)


STEPS = ("step 1 loss 3.2", "step 40 loss 2.9")


def test_steps_that_begin_again_behind_a_failure_are_of_a_later_start(tmp_path):
    """One log of two runs: the words of the first say nothing of the second."""
    verdict = audit(tmp_path, [*STEPS, *behind(), *STEPS, "step 900 loss 1.1", "training done"])
    assert "the last start of the job tells of no failure; start 1 of 2" in str(verdict)
    (tmp_path / "train.log").unlink()
    verdict = audit(tmp_path, [*STEPS, *behind(2), *STEPS, *behind(1)])
    assert errors(verdict) == [("PG007", (1,))]


@pytest.mark.parametrize(
    "later", [[], ["step 41 loss 2.9"], ["step 40 loss 2.9", "step 41 loss 2"]]
)
def test_steps_that_go_on_are_of_the_same_start(later, tmp_path):
    """Another rank may print its last steps behind the words of the first that fails."""
    verdict = audit(tmp_path, [*STEPS, "step 40 loss 2.9", *behind(), *later])
    assert errors(verdict) == [("PG007", (2,))]
    assert "start 1" not in str(verdict)


def test_where_the_last_start_came_to_its_end_that_is_said_first(tmp_path):
    """The first one hung: that is told of it, and the job is not said to be stuck."""
    verdict = audit(tmp_path, [*behind(), RESTART, "epoch 1 of 3", FINISHED])
    assert verdict.unknown
    assert errors(verdict) == []
    assert verdict.findings[0].ranks == (2,)
    assert verdict.findings[0].message.startswith(
        "the last start of the job came to its end; start 1 of 2: rank 2 never reached"
    )


def test_dumps_beside_a_log_whose_last_start_came_to_its_end_are_of_an_earlier_one(tmp_path):
    """The dumps show a hang: it is told of an earlier start, and nothing is stuck any more."""
    for rank in range(4):
        rows = [entry(number=n, seq=n + 1) for n in range(10 if rank == 2 else 11)]
        rows[-1]["state"] = "completed" if rank == 2 else "started"
        write(tmp_path, rank, rows, world=4)
    assert errors(pg.audit(tmp_path)) == [("PG007", (2,))]
    verdict = audit(tmp_path, [*behind(), RESTART, FINISHED])
    assert errors(verdict) == []
    assert verdict.findings[0].message.startswith("the last start of the job came to its end;")


@pytest.mark.parametrize("is_last", [True, False])
def test_starts_in_the_folders_of_torchrun_are_told_apart(is_last, tmp_path):
    """Rank 1 is behind in the last start; or that tells nothing, and rank 2 was in the first."""
    for attempt, rows in enumerate((behind(late=2), behind(late=1) if is_last else [])):
        for rank in range(4):
            path = tmp_path / f"job_x/attempt_{attempt}/{rank}/stderr.log"
            path.parent.mkdir(parents=True)
            own = [row for row in rows if row.startswith(f"[rank{rank}]")]
            path.write_text("\n".join([*own, "epoch 1"]) + "\n")
    verdict = pg.audit(tmp_path)
    assert errors(verdict) == [("PG007", (1 if is_last else 2,))]
    assert verdict.errors[0].message.startswith("the last start of the job tells of no") != is_last


def unnumbered(rank, op="ALLREDUCE"):
    """The line of torch 1.8 to 1.12: no number, no size, no group."""
    return (
        f"[E ProcessGroupNCCL.cpp:566] [Rank {rank}] Watchdog caught collective operation timeout: "
        f"WorkNCCL(OpType={op}, Timeout(ms)=1800000) ran for 180271{rank} milliseconds before "
        "timing out."
    )


def test_a_call_without_its_number_is_where_its_rank_stood(tmp_path):
    """Which calls meet is not known: where others wait in another one is a hint, as of a stack."""
    verdict = audit(
        tmp_path, [unnumbered(r, "BROADCAST" if r == 2 else "ALLREDUCE") for r in range(4)]
    )
    assert verdict.unknown
    (found,) = [f for f in verdict.findings if f.code == "PG211"]
    assert (found.ranks, found.severity) == ((2,), "warning")
    assert "rank 2 waits in broadcast" in found.message
    assert "evidence: weak; what 4 ranks printed, without rounds and groups" in str(found.notes)


def test_ranks_in_calls_without_numbers_wait_for_who_printed_nothing(tmp_path):
    """Three of four ranks timed out in one kind of call: the hint names the fourth."""
    rows = [unnumbered(rank) for rank in (0, 1, 3)]
    verdict = audit(tmp_path, [*rows, rows[0][:-120]])  # the last line is cut in the call's name
    assert errors(verdict) == []
    assert verdict.findings[0].message == (
        "ranks [0-1,3] wait in all_reduce; nothing is known of rank 2"
    )


def test_who_prints_nothing_is_a_hint(tmp_path):
    """Before torch 2.2 a rank without a pending call prints nothing: PG501 and PG911."""
    lines = [caught(rank, 11, version=OLD) for rank in (0, 1, 3)]
    verdict = audit(tmp_path, lines)
    assert errors(verdict) == []
    assert [f.ranks for f in verdict.findings if f.code == "PG911"] == [(2,)]


def test_uneven_splits_are_no_mismatch(tmp_path):
    """The sizes of an all_to_all differ by design."""
    lines = []
    for rank in range(4):
        lines += [caught(rank, 9, "ALLTOALL_BASE", 100 + rank, 103 - rank), status(rank, 9, 9, 8)]
    verdict = audit(tmp_path, lines)
    assert verdict.unknown
    assert errors(verdict) == []


def test_a_number_that_was_never_set_is_no_count(tmp_path):
    """torch 2.3 prints garbage for the last completed call before the first one."""
    lines = []
    for rank in range(3):
        group = f"[PG 0 Rank {rank}]"
        lines.append(
            f"[rank{rank}]:[E ProcessGroupNCCL.cpp:1537] {group} Timeout at NCCL work: 1, last "
            "enqueued NCCL work: 1, last completed NCCL work: 93459313471793."
        )
        lines.append(caught(rank, 1))
    verdict = audit(tmp_path, lines)
    assert verdict.unknown
    assert errors(verdict) == []


SUMMARY = """torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
Root Cause (first observed failure):
[0]:
  time      : 2026-11-19_10:05:12
  rank      : {rank} (local_rank: {rank})
  exitcode  : {code} (pid: 4005)
"""


@pytest.mark.parametrize("code", [-6, -15, 1])
def test_the_first_process_that_ended_is_no_culprit(code, tmp_path):
    """torchrun's root cause with -6 was aborted by its watchdog: nothing is said of it."""
    lines = [*behind(late=2), SUMMARY.format(rank=1, code=code)]
    assert errors(audit(tmp_path, lines)) == [("PG007", (2,))]


def test_a_killed_process_is_a_hint(tmp_path):
    """SIGKILL before anything else is told, and not who sent it."""
    verdict = audit(tmp_path, [SUMMARY.format(rank=1, code=-9)])
    assert errors(verdict) == []
    assert (verdict.findings[0].code, verdict.findings[0].ranks) == ("PG506", (1,))


def trace(rank, error, call="all_reduce"):
    """A traceback of one rank."""
    return [
        f"[rank{rank}]: {line}"
        for line in (
            "Traceback (most recent call last):",
            '  File "train.py", line 30, in step',
            f'  File "/x/torch/distributed/distributed_c10d.py", line 3252, in {call}',
            error,
        )
    ]


@pytest.mark.parametrize(
    "error",
    [
        "RuntimeError: [/x/gloo/tcp/unbound_buffer.cc:78] Timed out waiting 8000ms for recv",
        "RuntimeError: [/x/gloo/tcp/pair.cc:553] Connection closed by peer [10.0.0.1]:123",
        "KeyboardInterrupt",
        "torch.distributed.DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:1",
        "RuntimeError: DDP expects same model across all ranks, but Rank 0 has 5 params,",
        "RuntimeError: [2]: params[3] with sizes [4] appears not to match sizes of the same param",
    ],
)
def test_an_error_that_others_cause_is_no_crash(error, tmp_path):
    """A rank that timed out, lost its neighbor or was interrupted is a victim."""
    verdict = audit(tmp_path, [*trace(0, error), *trace(1, error)])
    assert verdict.unknown
    assert errors(verdict) == []
    assert "PG506" not in {f.code for f in verdict.findings}


MEMORY = [
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.35 GiB. GPU 3 has a total",
    "RuntimeError: CUDA out of memory. Tried to allocate 1024.00 MiB (GPU 0; 15.90 GiB total",
    "torch.cuda.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB",
    "RuntimeError: NPU out of memory. Tried to allocate 32.00 MiB (NPU 0; 29.50 GiB total",
]


@pytest.mark.parametrize("line", MEMORY)
def test_memory_that_ran_out_is_told_without_its_traceback(line, tmp_path):
    """The others wait for that rank; a program that goes on behind such a line is thought of."""
    waiting = [row for rank in (0, 1, 2) for row in (caught(rank, 11), status(rank, 11, 12, 10))]
    verdict = audit(tmp_path, [f"[rank3]: {line}", *waiting])
    told = {f.code: f for f in verdict.findings}
    assert told["PG506"].ranks == (3,)
    assert "out of memory" in told["PG506"].message
    said = " ".join(note for f in verdict.findings for note in f.notes)
    assert "without its traceback" in said + " ".join(verdict.reasons)
    assert not errors(verdict)


def test_memory_that_a_process_of_mpi_could_not_get_names_its_rank(tmp_path):
    """mpirun puts the rank in front; the signal of the abort alone would be a victim's, too."""
    ended = "terminate called after throwing an instance of 'std::bad_alloc'"
    said = ["[1,0]<stdout>:epoch 1", f"[1,2]<stderr>:{ended}", "[1,2]<stderr>:  what():  bad"]
    verdict = audit(tmp_path, said)
    assert [f.ranks for f in verdict.findings if f.code == "PG506"] == [(2,)]
    assert not errors(verdict)


def test_memory_alone_is_not_refused(tmp_path):
    """One pasted line says who is to be asked next."""
    verdict = audit(tmp_path, [f"[rank3]: {MEMORY[0]}"])
    assert verdict.unknown
    assert [f.ranks for f in verdict.findings if f.code == "PG506"] == [(3,)]


def test_a_tracebacks_own_error_is_told_once(tmp_path):
    """A traceback tells where; its last line is no second error."""
    lines = ["[rank3]: Traceback (most recent call last):", '[rank3]:   File "a.py", line 3, in f']
    verdict = audit(tmp_path, [*lines, f"[rank3]: {MEMORY[0]}"])
    assert sum(f.code == "PG506" for f in verdict.findings) == 1
    assert "without its traceback" not in " ".join(verdict.reasons)


def test_one_number_in_one_name_is_a_guess(tmp_path):
    """A file 10.txt alone may be of rank 10, of the tenth try, or of October."""
    (tmp_path / "10.txt").write_text(
        'Process 7: python train.py\nThread 7 (idle): "MainThread"\n'
        "    all_reduce (torch/distributed/distributed_c10d.py:2810)\n    main (train.py:3)\n"
    )
    said = " ".join(note for one in pg.audit(tmp_path).findings for note in one.notes)
    assert "the number of 10.txt is taken for the rank" in said


def test_an_error_of_its_own_is_a_crash_and_not_a_missing_rank_as_well(tmp_path):
    """One cause is one finding: the others wait for the rank that raised."""
    crash = ["[rank2]: Traceback (most recent call last):", '[rank2]:   File "a.py", line 3, in f']
    lines = [*crash, "[rank2]: IndexError: list index out of range"]
    for rank in (0, 1):
        lines += [caught(rank, 11), status(rank, 11, 11, 10)]
    verdict = audit(tmp_path, lines)
    assert errors(verdict) == [("PG506", (2,))]
    assert verdict.outcome.value == "DEADLOCK"


REPORT = """Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      1          8            1          8        8

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         1         8         8         8   RUNNING  MISMATCH

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different AllReduce operation counts
  {rest} ranks have launched up to operation {most}
{listed}
"""


def ras(rest, most, listed):
    """A report in which a smaller set of ranks is listed."""
    rows = "\n".join(
        f"  Rank {rank} has launched up to operation {count} -- GPU {rank} managed by process 9"
        for rank, count in listed.items()
    )
    return REPORT.format(rest=rest, most=most, listed=rows)


def test_one_report_of_ras_is_a_moment(tmp_path):
    """Counts that differ once may differ in a healthy job."""
    verdict = audit(tmp_path, [ras(7, 50, {3: 49})], "ras.txt")
    assert errors(verdict) == []
    assert verdict.findings[0].ranks == (3,)


def test_two_equal_reports_of_ras_name_who_is_behind_also_where_others_are_listed(tmp_path):
    """RAS lists the smaller set: here the two that are ahead, and six are behind."""
    for minute in (0, 5):
        (tmp_path / f"ras.{minute}.txt").write_text(ras(6, 49, {1: 50, 4: 50}))
    assert errors(pg.audit(tmp_path)) == [("PG007", (0, 2, 3, 5, 6, 7))]


def test_one_who_is_ahead_of_all_others_by_the_counts_of_ras_is_the_odd_one(tmp_path):
    """One rank launched a call more than seven: whether it alone makes it is said to be open."""
    for minute in (0, 5):
        (tmp_path / f"ras.{minute}.txt").write_text(ras(7, 50, {5: 51}))
    (found,) = pg.audit(tmp_path).errors
    assert (found.code, found.ranks) == ("PG007", (5,))
    assert "by majority rank 5 is one call ahead" in found.message
    assert any(note.startswith("evidence: medium") for note in found.notes)
    assert any("a call that the others do not make, or all of them" in note for note in found.notes)


def test_one_who_is_two_calls_ahead_is_no_odd_one(tmp_path):
    """Others that are further behind, or not all at one place, are behind by more than a call."""
    for minute in (0, 5):
        (tmp_path / f"ras.{minute}.txt").write_text(ras(7, 49, {5: 51}))
    assert [one.ranks for one in pg.audit(tmp_path).errors] == [(0, 1, 2, 3, 4, 6, 7)]


def test_the_members_of_a_large_job_are_one_tuple():
    """A tuple of all ranks for each of them would take gigabytes at the size of a real job."""
    text = re.sub(r"8 +8(\n\nComm|   RUNNING)", r"20000 20000\1", ras(19_999, 50, {3: 49}))
    parts = read_ras(text.encode(), "ras.txt")
    assert len(parts) == 20_000
    assert len({id(group.ranks) for part in parts for group in part.groups.values()}) == 1


@pytest.mark.parametrize("digits", [7, 18, 5000])
def test_a_report_of_more_ranks_than_there_are_takes_neither_memory_nor_time(tmp_path, digits):
    """Who changes a digit of a report gets an answer of what was not read, and no fault."""
    text = re.sub(r"8\n\nComm", f"{'8' * digits}\n\nComm", ras(7, 50, {3: 49}))
    verdict = audit(tmp_path, [text], "ras.txt")
    assert errors(verdict) == []
    assert not verdict.safe
    if digits <= 18:
        assert "it was not read" in verdict.findings[0].message


def test_blank_lines_of_a_report_of_ras_cost_no_more_than_their_number():
    """Looked through from each of them, a quarter of a million would take minutes."""
    began = time.process_time()
    assert read_ras(ras(7, 50, {3: 49}).encode() + b"\n" * 250_000, "ras.txt")
    assert time.process_time() - began < 5


@pytest.mark.parametrize("is_one_file", [True, False])
def test_two_reports_of_ras_between_which_it_moved_show_no_stall(is_one_file, tmp_path):
    """Rank 3 was behind at both moments, and launched forty operations in between."""
    texts = [ras(7, 50, {3: 49}), ras(7, 90, {3: 89})]
    for number, text in enumerate(["\n".join(texts)] if is_one_file else texts):
        (tmp_path / f"ras.{number}.txt").write_text(text)
    verdict = pg.audit(tmp_path)
    assert [f.code for f in verdict.findings] == ["PG904"]
    assert verdict.unknown
    assert "made progress between two reports, from operation 49 to 89" in str(verdict.reasons)


@pytest.mark.parametrize("is_one_file", [True, False])
def test_a_rank_that_stands_while_others_launch_ahead_is_still_told(is_one_file, tmp_path):
    """The seven others launched eight more operations, rank 3 none: a hint, as of one moment."""
    texts = [ras(7, 50, {3: 49}), ras(7, 58, {3: 49})]
    for number, text in enumerate(["\n".join(texts)] if is_one_file else texts):
        (tmp_path / f"ras.{number}.txt").write_text(text)
    verdict = pg.audit(tmp_path)
    assert errors(verdict) == []
    assert (verdict.findings[0].code, verdict.findings[0].ranks) == ("PG007", (3,))


def test_two_equal_reports_of_ras_in_one_file_stand(tmp_path):
    """Nothing moved in between: what they say is no passing moment."""
    verdict = audit(tmp_path, [ras(7, 40, {3: 39}), ras(7, 50, {3: 49}), ras(7, 50, {3: 49})])
    assert errors(verdict) == [("PG007", (3,))]


def test_folded_lines_are_told(tmp_path):
    """Where Ray left repeated lines out, a rank that prints nothing may have printed."""
    lines = [caught(r, 5) + " [repeated 3x across cluster]" for r in (0, 1)]
    verdict = audit(tmp_path, [*lines, status(0, 5, 5, 4), status(1, 5, 5, 4)])
    assert any("folds repeated lines" in str(one) for one in verdict.approximations)
    assert errors(verdict) == []


def test_calls_of_nccl_without_their_communicators_are_read(tmp_path):
    """A log of COLL lines alone: each process has one communicator, of all ranks."""
    for rank in range(3):
        rows = [
            f"node:{70 + rank}:1 [{rank}] NCCL INFO AllReduce: opCount {n:x} sendbuff 0x1 recvbuff "
            f"0x1 count 8 datatype 7 op 0 root 0 comm 0xa{rank} [nranks=3] stream 0x1"
            for n in range(5 if rank == 1 else 6)
        ]
        (tmp_path / f"nccl.rank{rank}.log").write_text("\n".join(rows) + "\n")
    verdict = pg.audit(tmp_path)
    assert (verdict.findings[0].code, verdict.findings[0].ranks) == ("PG007", (1,))


def rccl(host, rank, calls, *, prefix="", device=0, size=4):
    """Lines of RCCL: those of NCCL, with ``task`` and the rank in the communicator at the end."""
    return [
        f"{host}:{70 + rank}:{70 + rank} [{device}] NCCL INFO {prefix}{op}: opCount {n:x} sendbuff "
        f"0x7f5dd32b2100 recvbuff 0x7f5dd32b2100 count {count} datatype 7 op 0 root 0 "
        f"comm 0x55{rank} [nranks={size}] stream 0x55bef0208bd0 task {n} globalrank {rank}"
        for n, (op, count) in enumerate(calls)
    ]


@pytest.mark.parametrize("prefix", ["", "mscclFunc"])
def test_lines_of_rccl_say_their_ranks_on_any_host(prefix, tmp_path):
    """Devices repeat on two hosts: the place in the communicator is the rank, and MSCCL's names."""
    both = [("AllReduce", 9984512), ("AllReduce", 8149504)]
    text = []
    for rank in range(4):
        calls = both[:1] if rank == 2 else both
        text += rccl(f"node{rank // 2}", rank, calls, prefix=prefix, device=rank % 2)
    verdict = audit(tmp_path, text)
    (finding,) = [f for f in verdict.findings if f.code == "PG007"]
    assert finding.ranks == (2,)
    assert "all_reduce" in finding.message
    assert verdict.unknown
    assert finding.severity == "warning"
    assert "for its rank" not in str(verdict.findings)


def test_a_mismatch_in_a_log_of_rccl_is_a_hint(tmp_path):
    """ROCm/rccl#429: rank 2 calls AllGather where the others call AllReduce (no globalrank)."""
    text = []
    for rank in range(4):
        op, count, dtype, pid = (
            ("AllGather", 59205120, 0, 45012) if rank == 2 else ("AllReduce", 9984512, 7, 45006)
        )
        text.append(
            f"h03r3n06:{pid + rank}:{pid + rank} [{rank}] NCCL INFO {op}: opCount 28c sendbuff "
            f"0x7f5dd32b2100 recvbuff 0x7f5dd32b2100 count {count} datatype {dtype} op 0 root 0 "
            f"comm 0x55bef020137{rank} [nranks=4] stream 0x55bef0208bd0"
        )
    verdict = audit(tmp_path, text)
    first = verdict.findings[0]
    assert (first.code, first.ranks, first.severity) == ("PG201", (2,), "warning")
    assert verdict.unknown


MADE = {
    "rccl": "nvmlDev 0 busId c000 parent 0x5 color 0 key 1 commId 0x5ae77eb5ea4ec1ee localSize 280 "
    "used 1053792 bytes on core 12 - Init COMPLETE",
    "old": "busId b1000 - Init COMPLETE",
}


@pytest.mark.parametrize("kind", sorted(MADE))
def test_the_creation_of_a_communicator_says_places_in_every_version(kind, tmp_path):
    """RCCL's line of a split is NCCL's; one of NCCL 2.7 (NVIDIA/nccl#429) has no identity."""
    text = []
    for rank in range(4):
        head = f"node{rank // 2}:{70 + rank}:{70 + rank} [{rank % 2}] NCCL INFO "
        made = f"comm 0x55{rank} rank {rank} nranks 4 cudaDev {rank % 2} {MADE[kind]}"
        text.append(head + ("ncclCommSplit " if kind == "rccl" else "") + made)
        calls = [("AllReduce", 8)] * (1 if rank == 2 else 2)
        rows = rccl(f"node{rank // 2}", rank, calls, device=rank % 2)
        text += [row.partition(" task ")[0] for row in rows]
    verdict = audit(tmp_path, text)
    (finding,) = [f for f in verdict.findings if f.code == "PG007"]
    assert finding.ranks == (2,)
    assert finding.severity == "warning"  # the logs do not say which calls ended


STRANGE = {
    "ranks": "[rank1]:" * 200_000,
    "threads": "Thread 0x1 (" * 100_000,
    "frames": "#0 a from " * 100_000,
    "processes": "Process 1: " * 90_000,
    "works": "Work" + "A" * 1_000_000,
    "blanks": " " * 2_000_000 + "Watchdog caught collective",
    "brackets": "[" * 1_000_000,
    "digits": "1" * 1_000_000 + ": x",
    "tracebacks": "Traceback (most recent call last):\n" * 30_000,
}


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", sorted(STRANGE))
def test_a_strange_text_is_read_in_a_bounded_time(name, tmp_path):
    """Runs of one mark cost no more than their length."""
    (tmp_path / "rank0.log").write_text("Watchdog caught collective\n" + STRANGE[name])
    (tmp_path / "rank1.log").write_text("\n".join(behind()))
    assert not pg.audit(tmp_path).safe


@pytest.mark.parametrize("dtypes", [(12, 12), (7, 6)])
def test_sizes_that_bytes_do_not_tell_apart_are_told_as_elements(dtypes, tmp_path):
    """A type that has no name here, or two of which as many bytes are sent: elements differ."""
    rows = [
        f"h:400{r}:1 [{r}] NCCL INFO ncclCommInitRank comm 0xa{r} rank {r} nranks 2 cudaDev {r} "
        f"nvmlDev {r} busId {r}000 commId 0xabc - Init COMPLETE"
        for r in range(2)
    ]
    rows += [
        f"h:400{r}:1 [{r}] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x1 count "
        f"{1024 << r} datatype {dtypes[r]} op 0 root 0 comm 0xa{r} [nranks=2] stream 0x9"
        for r in range(2)
    ]
    (found,) = audit(tmp_path, ["\n".join(rows) + "\n"], "nccl.log").errors
    assert found.code == "PG202"
    assert "1,024 elements" in found.message
    assert "2,048 elements" in found.message


def test_sizes_that_watchdogs_say_are_told(tmp_path):
    """A watchdog says elements and no type: those are what differs."""
    for rank in range(3):
        count = 512 if rank == 1 else 1024
        (tmp_path / f"rank{rank}.log").write_text(
            f"[rank{rank}]:[E1003 18:37:01.832146912 ProcessGroupNCCL.cpp:632] [PG ID 0 PG GUID "
            f"0(default_pg) Rank {rank}] Watchdog caught collective operation timeout: "
            f"WorkNCCL(SeqNum=42, OpType=ALLREDUCE, NumelIn={count}, NumelOut={count}, "
            "Timeout(ms)=600000) ran for 600011 milliseconds before timing out.\n"
        )
    (found,) = pg.audit(tmp_path).errors
    assert (found.code, found.ranks) == ("PG202", (1,))
    assert "512 elements on rank 1" in found.message
