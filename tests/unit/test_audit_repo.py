"""``--repo``: the user's source beside call sites, never run and never left."""

from __future__ import annotations

import json

import pytest
from audit_dumps import entry, write

import planguard as pg

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
        "plan: run.plan.json is SAFE under this model: the run is not stuck because of the plan"
    ]


def test_a_folder_that_is_not_there_is_a_usage_error(tmp_path):
    """`--repo` of no folder is said before anything is shown."""
    dumps(tmp_path / "d")
    with pytest.raises(pg.UsageError, match="no such folder"):
        pg.audit(tmp_path / "d", repo=tmp_path / "nowhere")
