"""The Python kernels say so when they do long work that nobody asked them for."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import planguard as pg

# As from a source folder: there is a package, and no native module in it.
HIDDEN = """
import sys
sys.modules["planguard._native"] = None
from planguard import kernels
kernels.NOTICED = float(sys.argv.pop(1))
from planguard.cli import main
sys.exit(main(sys.argv[1:]))
"""


def check(folder, noticed, *words, **environment):
    """Check a plan in a process that has no native kernels."""
    builder = pg.PlanBuilder(8)
    for rank in range(8):
        for _ in range(50):
            builder.program(rank).add(op="all_reduce", group="world", count=4, dtype="f32")
    plan = folder / "a.plan.json"
    plan.write_bytes(builder.build().source)
    known = {name: text for name, text in os.environ.items() if name != "PLANGUARD_KERNELS"}
    return subprocess.run(
        [sys.executable, "-c", HIDDEN, str(noticed), *words, str(plan)], cwd=folder, text=True,
        env={**known, **environment}, capture_output=True, timeout=100, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("words", [["check"], ["check", "--format", "json"], ["screen"]])
def test_it_is_said_once_on_stderr(tmp_path, words):
    """Long work of the Python kernels is told in one note with what to do; never in the output."""
    done = check(tmp_path, 0.0, *words)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("the kernels in Python do it") == 1
    assert "help: " in done.stderr
    assert "kernels in Python" not in done.stdout
    if "json" in words:
        assert json.loads(done.stdout)["outcome"] == "SAFE"


def test_nothing_is_said_without_need(tmp_path):
    """Short work, and kernels that were asked for, need no word."""
    for noticed, environment in ((60.0, {}), (0.0, {"PLANGUARD_KERNELS": "python"})):
        done = check(tmp_path, noticed, "check", **environment)
        assert (done.returncode, done.stderr) == (0, "")
