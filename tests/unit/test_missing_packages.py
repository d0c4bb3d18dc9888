"""Every command where something that it needs is missing: torch, a package, a recording."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from planguard.audit.readers.blocks import _Zstd
from planguard.cli import COMMANDS, main
from planguard.cli.complete import Complete
from planguard.errors import PACKAGES, PlanGuardError
from planguard.screen.ax import Screened
from planguard.screen.dask import dask_executor
from planguard.screen.export import _arrow
from planguard.screen.optuna import screened as screened_objective
from planguard.screen.ray import ray_executor
from planguard.screen.tune import screened as screened_trainable

ROOT = Path(__file__).resolve().parents[2]
PLAN = str(ROOT / "examples/head-to-head.plan.json")
HOW = "hint: pip install torch; a CPU build does: --index-url https://download.pytorch.org/whl/cpu"

HIDE = """
import os, sys
from importlib.machinery import PathFinder

class Hiding(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        hidden = name.partition(".")[0] in os.environ["HIDDEN"].split()
        return None if hidden else super().find_spec(name, path, target)

sys.meta_path[:] = [Hiding if finder is PathFinder else finder for finder in sys.meta_path]
"""
"""Makes packages absent for ``import`` and for ``find_spec``, in every process that is started."""

WITHOUT_TORCH = {
    ("check", PLAN): 1,
    ("init",): 0,
    ("convert", "CSV"): 0,
    ("schema", "plan"): 0,
    ("explain", "PG001"): 0,
    ("audit", str(ROOT / "examples/audit/skipped")): 1,
    ("screen", PLAN): 1,
    ("precheck", "train.py", "--ranks", "2"): "planguard precheck",
    ("dryrun", "-o", "a", "--", "torchrun", "--nproc-per-node", "2", "train.py"): "torchrun",
    ("dryrun", "--stub", "-o", "b", "--", "torchrun", "--nproc-per-node", "2", "train.py"): (
        "planguard dryrun"
    ),
    ("guard", "--", "torchrun", "--nproc-per-node", "2", "train.py"): "torchrun",
    ("report", PLAN, "-o", "report.html"): 0,
    ("replay", PLAN): "a replay",
    ("replay", PLAN, "--backend", "nccl"): "a replay",
    ("replay", PLAN, "--script", "replay.py"): 0,
    ("doctor",): 0,
}
"""What each command does without torch: its exit code, or who it says needs torch."""


def ask(arguments: list[str], folder: Path, hidden: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, with packages hidden and no torchrun to be found."""
    hiding = folder / "hiding"
    hiding.mkdir()
    (hiding / "sitecustomize.py").write_text(HIDE, encoding="utf-8")
    (folder / "train.py").write_text("import torch\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(hiding), "HIDDEN": hidden, "PATH": "/bin"}
    return subprocess.run(
        [sys.executable, "-m", "planguard", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_every_command_is_asked_without_torch():
    """The table below names every command, shell completion aside, which never asks for torch."""
    assert {line[0] for line in WITHOUT_TORCH} == {c.name for c in COMMANDS} - {"complete"}


@pytest.mark.parametrize("line", WITHOUT_TORCH, ids=" ".join)
def test_a_command_works_without_torch_or_says_in_one_line_what_is_missing(line, tmp_path):
    """Without torch a command does its work, or ends with 2: one error, one hint, nothing else."""
    expected = WITHOUT_TORCH[line]
    schedule = str(ROOT / "examples/pipelining/interleaved1f1b-4x8.csv")
    done = ask([schedule if w == "CSV" else w for w in line], tmp_path, "torch")
    assert "Traceback" not in done.stderr
    if isinstance(expected, int):
        assert done.returncode == expected, done.stderr
        return
    assert done.stderr.splitlines() == [
        f"error: {expected} needs torch, which is not installed",
        HOW,
    ]
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize("name", ["z3", "networkx", "numpy", "msgspec", "rich"])
def test_a_missing_dependency_is_named_or_not_needed(name, tmp_path):
    """Where a dependency was removed, a check answers as ever or ends with 2 and its name."""
    done = ask(["check", PLAN], tmp_path, name)
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr
    assert done.returncode in {1, 2}
    if done.returncode == 2:
        assert f"needs {name}, which is not installed" in done.stderr
    else:
        assert "verdict: DEADLOCK" in done.stdout


OPTIONAL = {
    "ray": lambda: ray_executor(None, 1),
    "distributed": lambda: dask_executor(None, 1),
    "optuna": lambda: screened_objective(None, to_plan=None),
    "ax": lambda: Screened(None, to_plan=None),
    "ray.tune": lambda: screened_trainable(None, to_plan=None, metric="loss"),
    "pyarrow": _arrow,
    "zstandard": lambda: _Zstd("rank_0.zst"),
    "shtab": lambda: Complete().run(argparse.Namespace(shell="bash")),  # noqa: S604  no subprocess: the name of a shell
}
"""Where an optional package is imported, by its name."""


@pytest.mark.parametrize("name", OPTIONAL)
def test_a_missing_optional_package_has_one_text(name, monkeypatch):
    """Whoever needs an optional package says so in the same words, and how to install it."""
    for module in (name, name.partition(".")[0]):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(PlanGuardError) as caught:
        OPTIONAL[name]()
    assert caught.value.message.endswith(f" needs {name}, which is not installed")
    assert caught.value.hint.startswith(PACKAGES[name])


def test_a_job_that_fails_by_itself_is_told_so(tmp_path):
    """A dry run of a job that ends before any group points to the job's own error."""
    done = ask(["dryrun", "-o", "run", "--", sys.executable, "train.py"], tmp_path, "torch")
    assert done.returncode == 2
    assert "No module named 'torch'" in done.stderr  # the job's own words
    assert done.stderr.splitlines()[-2:] == [
        "error: no rank wrote a log into run: the job ended with code 1",
        "hint: its own error stands above; make it run without planguard first",
    ]


@pytest.mark.parametrize(
    ("line", "error", "hint"),
    [
        (["audit"], "nothing to read: no dump, log or stack given", "give a folder, or the files"),
        (["audit", "nowhere"], "no such file or folder: nowhere", "is the path right?"),
    ],
)
def test_an_audit_of_nothing_says_what_to_give(line, error, hint, capsys):
    """Without a recording, or with a wrong path, audit ends with 2 and says what to do."""
    assert main(line) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"error: {error}"
    assert said[1].startswith(f"hint: {hint}")
