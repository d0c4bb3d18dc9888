"""Several starts of a job in one log that prints no steps: lines of a launch tell them apart."""

from __future__ import annotations

import json

import pytest
from test_audit_logs import audit, behind, caught, errors, signal, status

OMP = (
    "W1119 10:00:00.000 4711 site-packages/torch/distributed/run.py:792] Setting OMP_NUM_THREADS "
    "environment variable for each process to be 1 in default, to avoid your system being overloa"
)
DETR = [f"| distributed init (rank {rank}): env://" for rank in range(4)]
CRASH = [
    "[rank1]: Traceback (most recent call last):",
    '[rank1]:   File "/w/train.py", line 9, in main',
    "[rank1]: ValueError: no such file",
]
OVER = [
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
    "Root Cause (first observed failure):",
    "[0]:",
    "  time      : 2026-11-19_10:00:09",
    "  rank      : 1 (local_rank: 1)",
    "  exitcode  : 1 (pid: 4712)",
]
NCCL = "NCCL version 2.21.5+cuda12.4"


def codes(verdict):
    """Codes and ranks of what is said to be stuck or to have ended."""
    return [
        (f.code, f.ranks) for f in verdict.findings if f.code.startswith(("PG0", "PG2", "PG506"))
    ]


@pytest.mark.parametrize("launch", [[OMP], DETR, ["Initializing distributed: GLOBAL_RANK: 0"]])
def test_a_launch_that_is_printed_again_behind_an_end_is_of_a_later_start(launch, tmp_path):
    """Rank 1 raised in the first start; in the second one rank 2 is behind: only that counts."""
    verdict = audit(tmp_path, [*launch, *CRASH, *launch, *behind(2)])
    assert codes(verdict) == [("PG007", (2,))]
    assert errors(verdict) == [("PG007", (2,))]
    assert "2 starts of the job: number 2" in json.dumps(verdict.to_json())


@pytest.mark.parametrize("launch", [NCCL, OMP, "Calling dist.init_process_group with nccl"])
def test_whatever_launches_behind_the_end_of_all_is_of_a_later_start(launch, tmp_path):
    """The log begins within the first start, whose launcher says that it is over."""
    verdict = audit(tmp_path, [*CRASH, *OVER, launch, *behind(2)])
    assert codes(verdict) == [("PG007", (2,))]


@pytest.mark.parametrize(
    "rows",
    [
        [DETR[1], *CRASH, DETR[0], DETR[2]],
        [NCCL, *CRASH, NCCL],
        [OMP, OMP, *CRASH, "raise RuntimeError('make sure to call init_process_group.')"],
        [*CRASH, OMP],
    ],
)
def test_a_rank_that_launches_behind_the_error_of_another_is_of_the_same_start(rows, tmp_path):
    """One rank raised while others were still on their way: it stays the cause."""
    verdict = audit(tmp_path, [*rows, *(row for r in (0, 2) for row in waits(r))])
    assert ("PG506", (1,)) in codes(verdict)
    assert "starts of the job" not in json.dumps(verdict.to_json())


def waits(rank):
    """A rank that timed out in call 11."""
    return [caught(rank, 11), status(rank, 11, 11, 10)]


@pytest.mark.parametrize("end", [[], OVER])
def test_logs_of_two_nodes_one_behind_the_other_are_one_start(end, tmp_path):
    """Each node prints its launch and its end: their ranks have nothing in common."""
    one = [OMP, *waits(0), *waits(1), *end]
    two = [OMP, *waits(2), signal(3, 10, 10), *end]
    verdict = audit(tmp_path, [*one, *two])
    assert "starts of the job" not in json.dumps(verdict.to_json())
    assert codes(verdict)[0] == ("PG007", (3,))


@pytest.mark.parametrize(("ranks", "is_one"), [((4, 5, 6, 7), True), ((2, 3, 4), False)])
def test_one_rank_of_a_node_in_front_of_another_node_is_of_the_same_start(ranks, is_one, tmp_path):
    """Rank 1 raised on the first node, all of the second wait; or a later run lacks its words."""
    rows = [OMP, *CRASH, *OVER, OMP, *(row for rank in ranks for row in waits(rank))]
    verdict = audit(tmp_path, rows)
    assert (("PG506", (1,)) in codes(verdict)) == is_one
    assert ("starts of the job" in json.dumps(verdict.to_json())) != is_one


def test_a_run_that_came_to_its_end_before_is_no_evidence(tmp_path):
    """The first run printed an error that it caught, and finished; the second one hangs."""
    done = "INFO 2026-11-19 11:05:02,120 api.py:879] [default] worker group successfully finished."
    verdict = audit(tmp_path, [OMP, *CRASH, done, OMP, *behind(2)])
    assert codes(verdict) == [("PG007", (2,))]


def step_ends(step, rank, why="Exited with exit code 1"):
    """What Slurm prints where a task of a step failed, and the others are ended."""
    return [
        f"srun: error: nid001: task {rank}: {why}",
        f"srun: launch/slurm: _step_signal: Terminating StepId=77.{step}",
        f"slurmstepd: error: *** STEP 77.{step} ON nid001 CANCELLED AT 2026-11-19T10:00:00 ***",
        f"srun: Force Terminated StepId=77.{step}",
    ]


LIMIT = [
    "slurmstepd: error: *** STEP 77.1 ON n1 CANCELLED AT 2026-11-19T12:00:00 DUE TO TIME LIMIT ***",
]


@pytest.mark.parametrize("last", [LIMIT, step_ends(1, 0)])
@pytest.mark.parametrize(
    ("one", "two", "said"),
    [
        ([*behind(2), *step_ends(0, 0)], CRASH, [("PG506", (1,))]),
        (step_ends(0, 1, "Killed"), behind(2), [("PG007", (2,))]),
        ([*behind(1), *step_ends(0, 0)], behind(2), [("PG007", (2,))]),
    ],
)
def test_of_steps_of_a_slurm_job_in_one_log_the_last_counts(one, two, said, last, tmp_path):
    """Two ``srun`` of one script, one behind the other, and no line of a launch in between."""
    verdict = audit(tmp_path, [*one, *two, *last])
    assert codes(verdict) == said
    assert "2 starts of the job: number 2" in json.dumps(verdict.to_json())


def test_a_step_that_says_nothing_leaves_the_one_before(tmp_path):
    """The second step ended well enough to print nothing of its calls."""
    verdict = audit(tmp_path, [*behind(2), *step_ends(0, 0), *LIMIT])
    assert codes(verdict) == [("PG007", (2,))]
    assert "the last start of the job tells of no failure" in json.dumps(verdict.to_json())


def test_steps_that_ran_beside_each_other_are_one_start(tmp_path):
    """One ``srun`` for each node: rank 1 raised on the first, the second is ended before it."""
    rows = [*CRASH, *waits(2), *step_ends(1, 2), *step_ends(0, 1), *waits(3), *step_ends(1, 3)]
    verdict = audit(tmp_path, rows)
    assert ("PG506", (1,)) in codes(verdict)
    assert "starts of the job" not in json.dumps(verdict.to_json())
