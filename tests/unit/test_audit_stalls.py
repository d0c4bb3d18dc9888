"""Reports of what watches a job: Horovod, HCCL, XLA, MPI launchers, and variants of NCCL."""

from __future__ import annotations

import pytest

import planguard as pg

HOROVOD = (
    "[2026-11-19 10:05:07.345988: W horovod/common/stall_inspector.cc:105] One or more tensors "
    "were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for "
    "remainder of ranks for more than 60 seconds. This may indicate that different ranks are "
    "trying to submit different tensors or that only subset of "
    "ranks is submitting tensors, which will "
    "cause deadlock. "
)
HCCL = (
    "EI0002: The wait execution of the Notify register times out. Reason: The Notify register has "
    "not received the Notify record from remote rank: [{remote}]. base information: "
    "[streamID:[27], taskID[10], taskType[Notify Wait], "
    "tag[AllReduce_{group}_1654], AlgType(level 0-1-2):"
    "[fullmesh-ring-ring].] group information: [group:[{group}], rankSize[32], rankId[{own}]]"
)
XLA = (
    "E1119 10:05:19.000000  4242 rendezvous.cc:100] [id={n}] This thread has been waiting for "
    "`acquire clique for rank {n}; clique=devices=[4,5,6,7]; is_p2p=0; run_id=-1558191007` for 10 "
    "seconds and may be stuck. Expected 4 threads to join the rendezvous, but not all of them "
    "arrived on time."
)


def audit(tmp_path, *lines):
    """Audit one log."""
    (tmp_path / "job.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return pg.audit(tmp_path)


def first(verdict):
    """Code, ranks and text of the first finding."""
    one = verdict.findings[0]
    return one.code, one.ranks, one.message


def certain(verdict):
    """What is stated with certainty."""
    return [f.code for f in verdict.findings if f.severity == "error"]


@pytest.mark.parametrize(
    "rows",
    [
        ("Missing ranks:", "2: [grad.3, grad.7]", "3: [grad.3, grad.7]"),
        ("Stalled ranks:", "2!: [grad.3, grad.7]", "3!: [grad.3, grad.7]"),
        ("Stalled ops:", "grad.3 [missing ranks: 2, 3]", "grad.7 [missing ranks: 2, 3]"),
    ],
)
def test_a_stall_report_of_horovod_names_who_did_not_come(rows, tmp_path):
    """All forms of the report give the missing ranks and the tensors, as a hint."""
    verdict = audit(tmp_path, HOROVOD, *rows)
    code, ranks, text = first(verdict)
    assert (code, ranks) == ("PG007", (2, 3))
    assert "grad.3, grad.7" in text
    assert verdict.unknown
    assert certain(verdict) == []


def test_the_oldest_stall_report_names_those_that_came(tmp_path):
    """`[ready ranks: ...]` says who came and not how many there are: nobody is blamed."""
    verdict = audit(tmp_path, f"WARNING: {HOROVOD}Stalled ops: grad.3 [ready ranks: 0, 1]")
    code, ranks, text = first(verdict)
    assert (code, ranks) == ("PG501", ())
    assert "ranks 0, 1 came" in text


def test_the_last_stall_report_counts(tmp_path):
    """Who was late in an earlier report and not in the last one has come."""
    early = [HOROVOD, "Missing ranks:", "1: [a]", "2: [a]", ""]
    assert first(audit(tmp_path, *early, HOROVOD, "Missing ranks:", "2: [b]"))[1] == (2,)


def test_who_is_named_as_missing_counts_among_the_ranks(tmp_path):
    """The log of rank 0 names rank 3: the job has four ranks at least, and not one."""
    verdict = audit(tmp_path, HOROVOD, "Missing ranks:", "1: [a, b]", "3: [a]")
    assert verdict.stats.ranks == 4
    assert pg.audit(tmp_path, world_size=4).stats.ranks == 4


@pytest.mark.parametrize("is_before", [True, False])
def test_a_job_that_was_once_slow_is_told_from_one_that_stands(is_before, tmp_path):
    """Steps behind the report: who was late may have come. In front of it they say nothing."""
    step, report = ["step 41/100 loss=2.1"], [HOROVOD, "Missing ranks:", "2: [grad.3]", ""]
    verdict = audit(tmp_path, *(step + report if is_before else report + step))
    assert verdict.findings[0].ranks == (2,)
    went_on = "weak; the job printed progress behind the word of Horovod's stall inspector"
    assert (went_on in str(verdict.findings[0].notes)) != is_before


def test_many_missing_ranks_are_no_labels_of_slurm(tmp_path):
    """Rows `7: [tensor]` are rows of the report, however many of them there are."""
    rows = [f"{rank}: [grad.3]" for rank in range(1, 40)]
    assert first(audit(tmp_path, HOROVOD, "Missing ranks:", *rows))[1] == tuple(range(1, 40))


def test_hccl_names_places_of_a_group_and_nobody_is_blamed(tmp_path):
    """The remote rank of EI0002 is a place in its group."""
    own = "[ERROR] 2025-10-11-15:09:34 (PID:2969, Device:0, RankID:101) ERR00100 PTA call failed."
    verdict = audit(tmp_path, own, HCCL.format(remote=24, group="group_name_16", own=25))
    code, ranks, text = first(verdict)
    assert (code, ranks) == ("PG007", ())
    assert "places 24 did not come to all_reduce" in text
    assert "101" not in text
    assert certain(verdict) == []


def test_hccl_says_the_place_of_who_speaks(tmp_path):
    """`rankId` is its place in the group, and in the world group its rank; RankID is its rank."""
    own = "[ERROR] 2025-10-11-15:09:34 (PID:2969, Device:0, RankID:101) ERR00100 PTA call failed."
    verdict = audit(tmp_path, own, HCCL.format(remote="unknown", group="group_name_16", own=25))
    assert "places 25 came" in first(verdict)[2]
    verdict = audit(tmp_path, HCCL.format(remote=3, group="hccl_world_group", own=25))
    assert first(verdict)[:2] == ("PG007", (3,))
    assert verdict.findings[0].primary.rank == 25


def test_hccl_in_the_world_group_names_ranks_and_folds_those_that_wait(tmp_path):
    """Rank 0 waits for 1 and rank 1 for 3: rank 3 is the one to look at."""
    lines = []
    for rank, remote in ((0, 1), (1, 3)):
        lines.append(f"[ERROR] 2025-10-11-15:09:34 (PID:29, Device:{rank}, RankID:{rank}) ERR00100")
        lines.append(HCCL.format(remote=remote, group="hccl_world_group", own=rank))
    verdict = audit(tmp_path, *lines)
    assert first(verdict)[:2] == ("PG007", (3,))
    assert [f.code for f in verdict.findings].count("PG007") == 1


def test_hccl_with_an_unknown_remote_rank_blames_nobody(tmp_path):
    """`remote rank: [unknown]` is an answer that names nobody."""
    assert first(audit(tmp_path, HCCL.format(remote="unknown", group="g", own=25)))[:2] == (
        "PG501",
        (),
    )


def test_a_rendezvous_of_xla_says_who_waits_by_their_places(tmp_path):
    """Three of four places of a clique wait; the fourth is named as a place, never as a rank."""
    verdict = audit(tmp_path, *(XLA.format(n=n) for n in (0, 1, 3)))
    code, ranks, text = first(verdict)
    assert (code, ranks) == ("PG007", ())
    assert "places 2 did not come" in text
    assert "devices [4,5,6,7]" in text
    assert certain(verdict) == []


def test_a_rendezvous_that_went_on_is_no_stall(tmp_path):
    """`Thread is unstuck!` takes the warning back."""
    unstuck = "E1119 rendezvous.cc:120] Thread is unstuck! Warning above was a false-positive."
    verdict = audit(tmp_path, XLA.format(n=0), unstuck)
    assert [f.code for f in verdict.findings] == ["PG904"]
    assert "it begins: E1119" in verdict.findings[0].message


def test_a_rendezvous_whose_leader_is_stuck_misses_nobody(tmp_path):
    """All threads joined: the leader's callback is stuck, and nobody is missing."""
    line = (
        "[id=1] This thread has been waiting for `first call to collective operation 190` for 20 "
        "seconds and may be stuck. All 2 threads joined the rendezvous, however the leader has not "
        "marked the rendezvous as completed."
    )
    assert first(audit(tmp_path, line))[:2] == ("PG502", ())


def test_the_watchdog_of_xla_tells_what_did_not_end(tmp_path):
    """XLA ends itself after a time limit: what it did is named, and nobody is blamed."""
    said = "E1119 10:05:19.000000  4242 hang_watchdog.cc:75] "
    what = "Execute module jit_step on device 3"
    verdict = audit(
        tmp_path,
        f"{said}{what} failed to finish in 5m.",
        f"{said}{what}: prepare to abort the process to avoid infinite hangs.",
    )
    code, ranks, text = first(verdict)
    assert (code, ranks) == ("PG501", ())
    assert what in text


ENDS = {
    "openmpi-abort": [
        "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD",
        "with errorcode 1.",
    ],
    "mpich-abort": [
        "Abort(1) on node 3: application called MPI_Abort(MPI_COMM_WORLD, 1) - process 3",
    ],
    "openmpi-signal": [
        "mpirun noticed that process rank 3 with PID 4257 on node n2 exited on signal 9 (Killed)."
    ],
    "prrte-signal": [
        "prterun noticed that process rank 3 with PID 0 on node n2 exited on signal 11 (Segm.)."
    ],
    "openmpi-code": [
        "mpirun detected that one or more processes exited with non-zero status, thus causing",
        "the job to be terminated. The first process to do so was:",
        "",
        "  Process name: [[58265,1],3]",
        "  Exit code:    1",
    ],
    "intel": [
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        "=   RANK 3 PID 20066 RUNNING AT node01",
        "=   KILLED BY SIGNAL: 9 (Killed)",
    ],
    "torchrun": [
        "Root Cause (first observed failure):",
        "[0]:",
        "  time      : 2026-11-19_10:05:12",
        "  rank      : 3 (local_rank: 3)",
        "  exitcode  : -9 (pid: 4002)",
    ],
    "torchrun-cut": [
        "E1119 api.py:1002] failed (exitcode: -9) local_rank: 3 (pid: 4002) of binary: python",
    ],
}


@pytest.mark.parametrize("launcher", sorted(ENDS))
def test_a_launcher_names_the_process_that_ended_first(launcher, tmp_path):
    """Whoever was killed or asked for the end is PG506, as a hint: who did that is not said.

    Signal 11 is its own.
    """
    verdict = audit(tmp_path, *ENDS[launcher])
    assert first(verdict)[:2] == ("PG506", (3,))
    assert certain(verdict) == (["PG506"] if launcher == "prrte-signal" else [])


VICTIMS = [
    ["mpirun noticed that process rank 3 with PID 4257 on node n2 exited on signal 6 (Aborted)."],
    ["MPI_ABORT was invoked on rank 3 in communicator MPI COMMUNICATOR 4 SPLIT FROM 0"],
    [*ENDS["intel"], *[row.replace("RANK 3", "RANK 4") for row in ENDS["intel"]]],
    [row.replace("-9", "-6") for row in ENDS["torchrun"]],
]


@pytest.mark.parametrize("lines", VICTIMS)
def test_who_was_aborted_or_cannot_be_told_is_not_blamed(lines, tmp_path):
    """An abort by a watchdog, a place of another communicator and a clean-up blame nobody."""
    verdict = audit(tmp_path, *lines)
    assert verdict.unknown
    assert [(f.code, f.ranks) for f in verdict.findings] == [("PG904", ())]


@pytest.mark.parametrize("name", ["XCCL", "HCCL", "CNCL", "MCCL", "ECCL"])
def test_watchdogs_of_other_backends_are_read_like_that_of_nccl(name, tmp_path):
    """Backends that copy the lines of NCCL under their own names tell the same."""
    lines = []
    for rank in range(4):
        head = f"[rank{rank}]:[E1119 10:04:11.589000000 ProcessGroup{name}.cpp:2271]"
        group = f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}]"
        if rank == 2:
            lines.append(
                f"{head} {group} Received a dump signal due to a collective timeout from  rank 0 "
                f"and we will try our best to dump the debug info. Last enqueued {name} work: 10, "
                f"last completed {name} work: 10."
            )
            continue
        lines.append(
            f"{head} [Rank {rank}] Watchdog caught collective operation timeout: Work{name}(SeqNum="
            "11, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600010 "
            "milliseconds before timing out."
        )
        lines.append(
            f"{head} {group}  failure detected by watchdog at work sequence id: 11 PG status: last "
            "enqueued work: 12, last completed work: 10"
        )
    verdict = audit(tmp_path, *lines)
    assert [(f.code, f.ranks) for f in verdict.errors] == [("PG007", (2,))]


def task(number, job="jax_worker"):
    """The name of a task."""
    return f"/job:{job}/replica:0/task:{number}"


def barrier(late, *, first=13, came=8, total=16, job="jax_worker"):
    """A barrier that timed out, as ``CheckBarrierTimeout`` of XLA words it."""
    return [
        (
            "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: "
            "0_async_write_complete.0.1. This usually happens because a task triggered the barrier "
            "too early or too slowly. Please look at the task logs (both timed out and first task) "
            "to debug further."
        ),
        f"# of tasks that reached the barrier: {came}/{total}.",
        f"The first task at the barrier: {task(first)}. Some timed out task names:",
        *(task(number, job) for number in late),
        "",
        "",
        "RPC: /tensorflow.CoordinationService/Barrier",
    ]


def silent(*tasks):
    """Tasks without heartbeats, as XLA words it since 2023."""
    return [
        (
            "F0926 17:26:32.075587  157988 client.h:77] Terminating process because the JAX "
            "distributed service detected fatal errors. absl::Status: UNAVAILABLE: The following "
            "tasks are unhealthy (stopped sending heartbeats):"
        ),
        *map(task, tasks),
        "The tasks have crashed. Check the task logs for an earlier error, or scheduler events.",
    ]


LATE = (6, 0, 4, 5, 2, 3, 7, 1)


@pytest.mark.parametrize("form", ["plain", "labels", "one line"])
def test_the_names_at_a_barrier_that_timed_out_are_those_that_did_not_come(form, tmp_path):
    """Eight of sixteen tasks came, task 13 first; the eight that are listed had not."""
    rows = barrier(LATE)
    if form == "labels":
        rows = [f"{rank}: {row}" for row in rows for rank in (13, 9)]
    elif form == "one line":
        rows = ["XlaRuntimeError('" + "\\n".join(rows) + "')"]
    verdict = audit(tmp_path, *rows)
    code, ranks, text = first(verdict)
    assert (code, ranks) == ("PG007", tuple(range(8)))
    assert "8 of 16 tasks reached it" in text
    assert "ranks 13 came" in text
    assert certain(verdict) == []
    assert verdict.stats.ranks == 16


@pytest.mark.parametrize(
    ("rows", "ranks"),
    [
        (barrier((), came=7), ()),
        (barrier((13, 2), came=14), ()),
        (barrier(LATE[:2], job="worker", came=14), ()),
    ],
)
def test_a_barrier_that_names_nobody_for_sure_blames_nobody(rows, ranks, tmp_path):
    """The list is cut off, mixed with another one, or of two jobs that are numbered each."""
    verdict = audit(tmp_path, *rows)
    assert first(verdict)[1] == ranks
    assert certain(verdict) == []
    assert not verdict.safe


@pytest.mark.parametrize(
    "rows",
    [
        silent(3, 5),
        [row for r in (0, 1) for row in silent(3, 5)],
        [
            "E coordination_service_agent.cc:678] Coordination agent is in ERROR: UNAVAILABLE: "
            f"Task {task(n)} heartbeat timeout. This indicates that the remote task has failed, "
            "got preempted, or crashed unexpectedly."
            for n in (3, 5)
        ],
    ],
)
def test_tasks_without_heartbeats_are_a_hint(rows, tmp_path):
    """The service takes them for crashed; they may be alive, and cut off."""
    verdict = audit(tmp_path, *rows)
    assert first(verdict)[:2] == ("PG506", (3, 5))
    assert "stopped sending heartbeats" in first(verdict)[2]
    assert certain(verdict) == []


def test_a_task_that_says_why_it_ended_is_named_once(tmp_path):
    """The error of rank 3 is the cause, that its heartbeats ended a consequence."""
    rows = [f"0: {row}" for row in silent(3)] + [
        "3: Traceback (most recent call last):",
        '3:   File "/w/train.py", line 9, in main',
        "3: ValueError: no such file",
    ]
    verdict = audit(tmp_path, *rows)
    assert [(f.code, f.ranks) for f in verdict.findings if f.code == "PG506"] == [("PG506", (3,))]
    assert "ValueError" in first(verdict)[2]
