"""``--repo``: the user's source beside call sites, never run and never left."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from audit_dumps import entry, write

import planguard as pg
from planguard.capture.run.log import Kind, RunLogWriter

EXAMPLES = Path(__file__).parents[2] / "examples"
SOURCE = """\
import os
os.environ["OWNED"] = "1"

def step(rank, loss):
    dist.all_reduce(loss)
    if rank != 2:
        dist.all_reduce(loss)
    else:
        log(loss)
"""


def dumps(folder, name="/workspace/app/train.py", lines=(5, 7)):
    """Ranks 0 and 1 wait in the second call, which rank 2 never makes."""
    folder.mkdir()
    for rank in range(3):
        rows = []
        for n, line in enumerate(lines[: 1 if rank == 2 else 2]):
            frames = [{"filename": name, "line": line, "name": "step"}]
            state = "started" if n else "completed"
            rows.append(entry(number=n, seq=n + 1, state=state, frames=frames))
        write(folder, rank, rows, world=3)


def notes(verdict, start="source: "):
    """What is said of the repository."""
    return [n for f in verdict.findings for n in f.notes if n.startswith(start)]


def repo(tmp_path, *names, text=SOURCE):
    """A folder of source files."""
    for name in names:
        path = tmp_path / "repo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "repo"


def test_lines_and_branches_of_call_sites_are_shown(tmp_path):
    """The line of each site is shown, with the branch under which it is reached."""
    dumps(tmp_path / "d")
    said = notes(pg.audit(tmp_path / "d", repo=repo(tmp_path, "app/train.py")))
    assert "source: app/train.py:5: dist.all_reduce(loss)" in said
    assert "source: app/train.py:7: dist.all_reduce(loss)" in said
    assert "source: only if `if rank != 2` (line 6)" in said


def test_the_other_side_of_a_branch_is_told_apart(tmp_path):
    """A line in the else part is reached unless its condition holds."""
    dumps(tmp_path / "d", lines=(5, 9))
    said = notes(pg.audit(tmp_path / "d", repo=repo(tmp_path, "app/train.py")))
    assert "source: only unless `if rank != 2` (line 6)" in said


def test_a_file_that_is_not_there_is_said(tmp_path):
    """A site of which the repository has no file, or a shorter one, is said to be that."""
    dumps(tmp_path / "d", "/workspace/other.py", lines=(5, 700))
    found = repo(tmp_path, "app/train.py")
    said = notes(pg.audit(tmp_path / "d", repo=found))
    assert "source: other.py:5 is not in the repository" in said
    (found / "other.py").write_text("one\n")
    said = notes(pg.audit(tmp_path / "d", repo=found))
    assert "source: other.py has no line 700: it is of another version" in said


def test_of_two_files_that_fit_equally_none_is_shown(tmp_path):
    """Two files of one name, and nothing in the recorded path tells them apart."""
    dumps(tmp_path / "d", "train.py")
    said = notes(pg.audit(tmp_path / "d", repo=repo(tmp_path, "a/train.py", "b/train.py")))
    assert "source: train.py:5 may be any of 2 files of the repository" in said
    dumps(tmp_path / "e", "/x/b/train.py")
    said = notes(pg.audit(tmp_path / "e", repo=tmp_path / "repo"))
    assert "source: b/train.py:5: dist.all_reduce(loss)" in said


@pytest.mark.parametrize("name", ["../secret.py", "/etc/passwd", "..\\secret.py", "secret.py\0"])
def test_a_recorded_path_leads_nowhere(name, tmp_path, monkeypatch):
    """Whatever path a dump names, nothing outside of the repository is shown or run."""
    monkeypatch.delenv("OWNED", raising=False)
    (tmp_path / "secret.py").write_text("SECRET = 1\n" * 9)
    found = repo(tmp_path, "app/train.py")
    (found / "secret.py").symlink_to(tmp_path / "secret.py")
    dumps(tmp_path / "d", name)
    said = notes(pg.audit(tmp_path / "d", repo=found))
    assert said
    assert not any("SECRET" in note for note in said)
    import os

    assert "OWNED" not in os.environ


def plan(*ops):
    """A plan of three ranks that make these calls."""
    actions = [{"op": op, "count": 4, "dtype": "f32"} for op in ops]
    ranks = {str(rank): {"actions": actions} for rank in range(3)}
    return {"schema": "planguard.plan/1", "world_size": 3, "ranks": ranks}


def test_plans_of_the_repository_are_asked(tmp_path):
    """A plan for as many ranks that is SAFE acquits itself; one of another size is left alone."""
    dumps(tmp_path / "d")
    found = repo(tmp_path, "app/train.py")
    (found / "run.plan.json").write_text(json.dumps(plan("all_reduce", "all_reduce")))
    other = plan("all_reduce") | {"world_size": 7}
    (found / "seven.plan.json").write_text(json.dumps(other))
    (found / "table.csv").write_text("a,b\n1,2\n")
    said = notes(pg.audit(tmp_path / "d", repo=found), "plan: ")
    assert said == [
        "plan: run.plan.json is SAFE under this model: the run is not stuck because of the plan",
        "plan: run.plan.json has rank 2 go on to all_reduce 16 B f32",
    ]


def test_a_folder_that_is_not_there_is_a_usage_error(tmp_path):
    """`--repo` of no folder is said before anything is shown."""
    dumps(tmp_path / "d")
    with pytest.raises(pg.UsageError, match="no such folder"):
        pg.audit(tmp_path / "d", repo=tmp_path / "nowhere")


def step(folder, *programs):
    """A recorded step: a call of each line, on every rank."""
    folder.mkdir(parents=True)
    for rank, program in enumerate(programs):
        log = RunLogWriter(folder, rank, len(programs))
        group = log.string(json.dumps(",".join(map(str, range(len(programs))))))
        for op, line in program:
            stack = log.string(json.dumps([["/home/me/app/train.py", line, "step", 0]]))
            fields = {"count": 4, "dtype": "f32"}
            fields |= {"reduce_op": "sum"} if op == "all_reduce" else {"root": 0}
            log.call(Kind.CALL, op, work=0, group=group, stack=stack, batch=0, fields=fields)
            log.small(Kind.DONE, 0)
        log.end()


STEP = [("all_reduce", 5), ("all_reduce", 7), ("broadcast", 9)]


@pytest.mark.parametrize("place", ["repo/run", "repo/runs/monday", "run"])
def test_a_recorded_step_says_what_the_missing_rank_had_to_do(place, tmp_path):
    """A step of `planguard dryrun` in the repository or beside it is asked, and names the site."""
    dumps(tmp_path / "d")
    found = repo(tmp_path, "app/train.py")
    step(tmp_path / place, STEP, STEP, STEP)
    said = notes(pg.audit(tmp_path / "d", repo=found), "plan: ")
    assert len(said) == 2
    assert ", a recorded step, is SAFE under this model: the run is not stuck" in said[0]
    assert said[1].endswith("has rank 2 go on to all_reduce 16 B f32 at train.py:7")


def test_the_call_site_at_which_a_rank_left_the_step_is_named(tmp_path):
    """A rank that calls something else than in the recorded step is told with both sites."""
    dumps(tmp_path / "d")
    frames = [{"filename": "/workspace/app/train.py", "line": 9, "name": "step"}]
    first = [{"filename": "/workspace/app/train.py", "line": 5, "name": "step"}]
    rows = [entry(number=0, seq=1, frames=first)]
    rows.append(entry("broadcast", number=1, seq=2, state="started", frames=frames))
    write(tmp_path / "d", 2, rows, world=3)
    found = repo(tmp_path, "app/train.py")
    step(found / "run", STEP, STEP, STEP)
    said = notes(pg.audit(tmp_path / "d", repo=found), "plan: ")
    planned = "all_reduce 16 B f32 at train.py:7 is planned"
    recorded = "broadcast 16 B f32 at train.py:9"
    assert said == [
        "plan: run, a recorded step, is SAFE under this model, and the job left it",
        f"plan: run, a recorded step, rank 2 left it first where {planned}: recorded {recorded}",
    ]


def test_a_job_longer_than_the_step_is_acquitted_of_nothing(tmp_path):
    """What a job did behind the end of the recorded step was not laid beside it: that is said."""
    dumps(tmp_path / "d")
    found = repo(tmp_path, "app/train.py")
    step(found / "run", STEP[:1], STEP[:1], STEP[:1])
    said = notes(pg.audit(tmp_path / "d", repo=found), "plan: ")
    part = "of the job only a part could be laid beside it"
    assert said == [f"plan: run, a recorded step, is SAFE under this model; {part}"]


def test_a_plan_that_hangs_where_the_job_stands_has_this_hang(tmp_path):
    """Every rank that waits stands where the plan gets stuck, or the hang is another one."""
    found = tmp_path / "repo"
    found.mkdir()
    sends = EXAMPLES / "audit/sends.plan.json"
    shutil.copy(sends, found)
    verdict = pg.audit(EXAMPLES / "audit/sends", repo=found, plan=sends)
    assert notes(verdict, "plan: sends.plan.json")[0].startswith(
        "plan: sends.plan.json has this hang: PG001, "
    )
    dumps(tmp_path / "d", lines=(5, 7))
    other = plan("all_reduce", "all_reduce", "all_reduce")
    calls = other["ranks"]["2"]["actions"]
    for rank in (0, 1):
        send = {"op": "send", "peer": 1 - rank, "bytes": 4}
        other["ranks"][str(rank)] = {"actions": [*calls, send]}
    (found / "late.plan.json").write_text(json.dumps(other))
    said = notes(pg.audit(tmp_path / "d", repo=found), "plan: late.plan.json")
    assert said[0].startswith("plan: late.plan.json has a hang of its own: ")


def test_a_run_is_not_compared_with_itself(tmp_path):
    """The logs that are audited are no plan beside themselves, wherever they lie."""
    found = repo(tmp_path, "app/train.py")
    step(found / "run", STEP, STEP, STEP[:1])
    verdict = pg.audit(found / "run", repo=found)
    assert verdict.findings
    assert notes(verdict, "plan: ") == []


def test_links_beside_the_repository_are_not_followed(tmp_path):
    """A link to a recorded step, inside or beside the repository, leads nowhere."""
    dumps(tmp_path / "d")
    found = repo(tmp_path, "app/train.py")
    step(tmp_path / "far/away/run", STEP, STEP, STEP)
    (found / "run").symlink_to(tmp_path / "far/away/run")
    (tmp_path / "run").symlink_to(tmp_path / "far/away/run")
    assert notes(pg.audit(tmp_path / "d", repo=found), "plan: ") == []


SCRIPT = """import torch.distributed as dist


def main(rank):
    if rank != 2:
        dist.all_reduce(1)


open("ran", "w")
"""
STACKS = """Process 9: python {file}
Thread 9 (idle): "MainThread"
    all_reduce (/usr/lib/python3/site-packages/torch/distributed/distributed_c10d.py:2806)
    main (/job/{file}:6)
    <module> (/job/{file}:9)
"""


def _played(tmp_path, ranks, text=STACKS):
    """What is said of the script of a job of which every rank left a stack."""
    folder = tmp_path / "stacks"
    folder.mkdir()
    for rank in range(ranks):
        (folder / f"rank_{rank}.txt").write_text(text.format(file="train.py"))
    verdict = pg.audit(folder, repo=repo(tmp_path, "train.py", text=SCRIPT))
    return notes(verdict, "next: planguard precheck"), notes(verdict)


def test_the_script_of_the_job_is_named_with_the_command_that_plays_it(tmp_path):
    """The outermost frame is the script; it is not run, and the branch is weak evidence."""
    command, said = _played(tmp_path, 4)
    script = tmp_path / "repo" / "train.py"
    assert command[0].startswith(f"next: planguard precheck {script} --ranks 4 says")
    assert "source: only if `if rank != 2` (line 5)" in said
    assert not Path("ran").exists()
    assert "source: which side of a branch a rank took is not recorded: weak" in said


def test_a_large_job_is_played_with_fewer_ranks_and_that_is_said(tmp_path):
    """One machine plays a few ranks: what needs all of them is not found so."""
    command, _ = _played(tmp_path, 20)
    assert "--ranks 8 " in command[0]
    assert "a hang that needs all 20 ranks is not in it" in command[0]


def test_a_script_outside_of_the_repository_is_not_named(tmp_path):
    """A frame of another file is no script that could be played."""
    command, _ = _played(
        tmp_path, 4, STACKS.replace("<module> (/job/{file}", "<module> (/job/x.py")
    )
    assert command == []


def _standing(folder, *frames):
    """Stacks of ranks, each in a call of torch at a line of a function of train.py."""
    folder.mkdir()
    for rank, (call, line, function) in enumerate(frames):
        (folder / f"rank_{rank}.txt").write_text(
            f'Process {rank + 9}: python train.py\nThread {rank + 9} (idle): "MainThread"\n'
            f"    {call} (torch/distributed/distributed_c10d.py:2806)\n"
            f"    {function} (train.py:{line})\n"
        )
    return folder


def test_a_step_without_the_line_of_a_stack_was_left(tmp_path):
    """Stacks alone: the step calls nothing from the line at which rank 2 stands. No other rank is
    acquitted or blamed by it, since what they did before was not recorded.
    """
    found = repo(tmp_path, "app/train.py")
    step(found / "run", STEP, STEP, STEP)
    at = ("all_reduce", 7, "step")
    job = _standing(tmp_path / "d", at, at, ("barrier", 8, "step"))
    said = notes(pg.audit(job, repo=found), "plan: ")
    assert said == [
        "plan: run, a recorded step, is SAFE under this model, and the job left it",
        "plan: run, a recorded step, rank 2 stands in barrier at train.py:8, which is not in it",
    ]
    job = _standing(tmp_path / "e", at, at, at)
    part = "of the job only a part could be laid beside it"
    said = notes(pg.audit(job, repo=found), "plan: ")
    assert said == [f"plan: run, a recorded step, is SAFE under this model; {part}"]


def test_a_line_of_another_function_is_of_another_version(tmp_path):
    """The checkout moved on: at that line there is another function now."""
    found = repo(tmp_path, "app/train.py")
    at = ("all_reduce", 7, "evaluate")
    said = notes(pg.audit(_standing(tmp_path / "d", at, at), repo=found))
    assert said == ["source: line 7 of app/train.py is not in evaluate(): it is of another version"]


@pytest.mark.parametrize(
    ("name", "says"),
    [("examples/pipelining/pytorch-172668.csv", "has this hang: PG012"),
     ("tests/samples/pipelining/interleaved1f1b-2x4.csv", "is SAFE under this model, and the job")],
)  # fmt: skip
def test_a_schedule_of_the_repository_is_asked(name, says, tmp_path):
    """Two stages wait in their sends; one schedule has them wait just there, the other has not."""
    job = tmp_path / "d"
    job.mkdir()
    for rank, first in ((0, "send 0->1"), (1, "recv 1<-0")):
        rows = [entry(first, number=0, seq=1)]
        rows.append(entry(f"send {rank}->{1 - rank}", number=1, seq=2, state="started"))
        rows.append(entry(f"recv {rank}<-{1 - rank}", number=2, seq=3, state="scheduled"))
        write(job, rank, rows)
    found = repo(tmp_path, "app/train.py")
    shutil.copy(EXAMPLES.parent / name, found / "schedule.csv")
    said = notes(pg.audit(job, repo=found), "plan: schedule.csv ")
    assert said[0].startswith(f"plan: schedule.csv {says}")
