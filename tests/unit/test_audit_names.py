"""Names of files with numbers that are no ranks of the job: nodes, jobs, tasks of an array."""

from __future__ import annotations

import pytest
from in_hand_cases import at, behind, caught, lines, signaled, work

import planguard as pg

INSIDE = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 5, in step\n'
    '  File "/x/torch/distributed/distributed_c10d.py", line 1, in {call}\n'
    "RuntimeError: Timed out waiting 8000ms\n"
)


def put(folder, names, odd=()):
    """Write what each process printed; some stand in a barrier, the others in a reduction."""
    for name in names:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(INSIDE.format(call="barrier" if name in odd else "all_reduce"))


def first(verdict):
    """Code and ranks of the first finding."""
    return verdict.findings[0].code, verdict.findings[0].ranks


def text(verdict):
    """All that is said."""
    notes = [one.message for one in verdict.approximations]
    return " ".join([*verdict.reasons, *notes, *(str(one) for one in verdict.findings)])


@pytest.mark.parametrize(
    "form", ["node{n}_rank{r}.log", "node-{n}/rank{r}.err", "ip-10-0-0-{n}_rank_{r}.txt"]
)
def test_ranks_of_two_nodes_with_one_number_are_two_processes(form, tmp_path):
    """Each node counts its own from 0 on; where one shows how many, the rank of the job follows."""
    names = [form.format(n=n, r=r) for n in (3, 4) for r in (0, 1)]
    folder = tmp_path / "crash of node0_rank0"  # whoever names a folder says nothing of ranks
    folder.mkdir()
    put(folder, names, odd=names[3:])
    verdict = pg.audit(folder)
    assert first(verdict) == ("PG211", (3,))
    assert not verdict.errors
    assert "2 on each are taken, node by node" in text(verdict)


def test_a_rank_on_a_node_without_the_number_of_ranks_on_it_is_not_known(tmp_path):
    """Rank 1 of two nodes: how many are on each is not shown, and nobody is named."""
    put(tmp_path, ["node0_rank1.log", "node1_rank1.log"], odd=["node1_rank1.log"])
    verdict = pg.audit(tmp_path)
    assert not verdict.safe
    assert not [f for f in verdict.findings if f.code.startswith(("PG0", "PG2"))]


def test_a_node_in_front_of_the_rank_of_the_job_changes_nothing(tmp_path):
    """The numbers go on from node to node: they are ranks of the job."""
    names = [f"node{r // 2}_rank{r}.log" for r in range(4)]
    put(tmp_path, names, odd=names[2:3])
    verdict = pg.audit(tmp_path)
    assert first(verdict) == ("PG211", (2,))
    assert "counted on" not in text(verdict)


def test_a_folder_called_by_its_rank_says_whose_files_it_holds(tmp_path):
    """`rank3/stderr.log`; a folder with more in its name may be of anything."""
    put(tmp_path, [f"rank{r}/stderr.log" for r in range(4)], odd=["rank2/stderr.log"])
    verdict = pg.audit(tmp_path)
    assert first(verdict) == ("PG211", (2,))
    assert not verdict.errors
    put(tmp_path, ["rank9 hangs/stderr.log"])
    assert "nor its content says a rank" in text(pg.audit(tmp_path / "rank9 hangs"))
    for node in ("node0", "node1"):
        (tmp_path / "job" / node).mkdir(parents=True)
        put(tmp_path / "job" / node, [f"rank{r}/stderr.log" for r in range(2)])
    assert "nor its content says a rank" in text(pg.audit(tmp_path / "job"))


def test_two_attempts_of_one_rank_are_no_nodes(tmp_path):
    """A number that is none of a node leaves the rank what it is."""
    put(tmp_path, [f"attempt{a}_rank{r}.log" for a in (0, 1) for r in (0, 1)])
    assert pg.audit(tmp_path).stats.ranks == 2


def job(late, number):
    """The log of one job: rank `late` of three issued ten calls, the others wait in the next."""
    rows = []
    for rank in range(3):
        group = f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}]"
        if rank == late:
            told = signaled(group, "another rank", number - 1, number - 1)
            rows.append(at("2.7", rank, 1800, told))
            continue
        rows.append(at("2.7", rank, 632, caught(rank, work(number))))
        rows.append(at("2.7", rank, 2268, behind(group, number, number, number - 1)))
    return lines(*rows)


@pytest.mark.parametrize("names", [("slurm-4711_0.out", "slurm-4711_1.out"),
                                   ("slurm-4711.out", "slurm-4712.out")])  # fmt: skip
def test_jobs_of_slurm_are_not_compared(names, tmp_path):
    """Two tasks of an array, or two jobs: rank 2 is behind in the last, and only that is said."""
    for name, late, number in zip(names, (1, 2), (900, 20), strict=True):
        (tmp_path / name).write_text(job(late, number))
    verdict = pg.audit(tmp_path)
    assert first(verdict) == ("PG007", (2,))
    assert "#20" in verdict.findings[0].message
    assert "#900" not in text(verdict)
    assert f"{names[0]} are of other jobs than {names[1]}" in text(verdict)
    assert verdict.findings[0].message.startswith(f"of {names[1]}, the last of 2 jobs that failed")


def test_a_later_job_of_slurm_without_a_failure_is_said_first(tmp_path):
    """The job that hung is not the last one, which may be well."""
    (tmp_path / "slurm-4711.out").write_text(job(1, 20))
    (tmp_path / "slurm-4712.out").write_text("step 1 loss 2.0\nstep 2 loss 1.9\n")
    verdict = pg.audit(tmp_path)
    assert first(verdict) == ("PG007", (1,))
    said = "the last job, slurm-4712.out, tells of no failure; of slurm-4711.out: "
    assert verdict.findings[0].message.startswith(said)


def test_two_logs_in_one_of_which_a_call_ended_are_of_several_runs(tmp_path):
    """Rank 0 timed out in both, in a call that had ended by the other: nothing is certain."""
    for name, late, number in (("a.log", 1, 20), ("b.log", 2, 22)):
        (tmp_path / name).write_text(job(late, number))
    verdict = pg.audit(tmp_path)
    assert not verdict.errors
    assert "and ended in the other: they may be of several runs" in text(verdict)
    (tmp_path / "b.log").write_text(job(1, 20))
    assert [(f.code, f.ranks) for f in pg.audit(tmp_path).errors] == [("PG007", (1,))]


def test_a_task_of_an_array_is_no_rank(tmp_path):
    """Files that say no rank: the index of an array is not taken for one."""
    names = [f"slurm-4711_{task}.out" for task in range(4)]
    put(tmp_path, names, odd=names[2:3])
    verdict = pg.audit(tmp_path)
    assert not [f for f in verdict.findings if f.code.startswith(("PG0", "PG2"))]
    assert not verdict.safe


def test_a_name_by_job_and_rank_may_be_of_an_array(tmp_path):
    """``%j_%t`` and ``%A_%a`` look alike: what follows is a hint."""
    names = [f"train_47110815_{task}.out" for task in range(4)]
    for name in names:
        timed_out = INSIDE.format(call="all_reduce")
        own = timed_out.replace("RuntimeError: Timed out waiting 8000ms", "ValueError: x")
        (tmp_path / name).write_text(own if name == names[2] else timed_out)
    verdict = pg.audit(tmp_path)
    assert first(verdict) == ("PG506", (2,))
    assert verdict.findings[0].severity == "warning"
    assert "may be tasks of an array" in text(verdict)


def test_a_rank_whose_error_was_caught_stands_where_it_waited_behind_it(tmp_path):
    """Its first traceback is of an error that it handled, and no place where it hangs."""
    names = [f"rank{rank}.err" for rank in range(3)]
    put(tmp_path, names)
    caught = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nKeyError: 3\n\n'
    during = "During handling of the above exception, another exception occurred:\n\n"
    path = tmp_path / names[1]
    path.write_text(caught + during + path.read_text())
    verdict = pg.audit(tmp_path)
    assert first(verdict) == ("PG502", (0, 1, 2))
    assert "printed an error of its own before it stood there: KeyError: 3" in text(verdict)


@pytest.mark.parametrize("is_before", [True, False])
def test_who_is_killed_behind_the_end_of_a_step_is_a_victim(is_before, tmp_path):
    """Slurm cancels the step, and srun tells that its tasks were killed."""
    rows = [
        "srun: error: nid001097: task 5: Killed",
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
        "slurmstepd: error: *** STEP 4711_4.0 ON nid1 CANCELLED AT 2026-03-01T11:00:00 ***",
        "srun: error: nid001096: task 0: Killed",
    ]
    (tmp_path / "job.log").write_text("\n".join(rows if is_before else rows[1:]) + "\n")
    verdict = pg.audit(tmp_path)
    assert not verdict.safe
    assert [f.ranks for f in verdict.findings if f.code == "PG506"] == [(5,)] * is_before
