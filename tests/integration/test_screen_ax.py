"""Ax behind the gate: the page and the example with the real library, the edges without."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import planguard as pg
from planguard.screen import ax as hook
from planguard.screen.ax import Screened

ROOT = Path(__file__).resolve().parents[2]


def to_plan(params):
    """Two ranks share the steps: an odd number leaves one rank alone."""
    plan = pg.PlanBuilder(2)
    for rank in (0, 1):
        program = plan.program(rank)
        for _ in range((params["batches"] + 1 - rank) // 2):
            program.all_reduce(bytes=4)
    return plan.build()


class EndedError(Exception):
    """What stands for Ax's own error."""


class Client:
    """Suggests given numbers in turn, as ``get_next_trials`` does; None raises."""

    def __init__(self, *numbers):
        self._left = list(enumerate(numbers))
        self.abandoned = []

    def get_next_trials(self, max_trials):
        """Return the next suggestions."""
        if self._left and self._left[0][1] is None:
            raise EndedError
        given, self._left = self._left[:max_trials], self._left[max_trials:]
        return {index: {"batches": number} for index, number in given}

    def mark_trial_abandoned(self, index):
        """Note what was abandoned."""
        self.abandoned.append(index)


@pytest.fixture
def without_ax(monkeypatch):
    """Stand-ins for the modules of Ax that the hook imports."""
    for name in ("ax", "ax.exceptions", "ax.exceptions.core"):
        module = types.ModuleType(name)
        module.AxError = EndedError
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.usefixtures("without_ax")
def test_unsafe_trials_are_abandoned_and_others_asked_for():
    """As many as were asked for may run; the others have their reason and are abandoned."""
    client = Client(3, 4, 5, 7, 6, 8)
    behind = Screened(client, to_plan)
    assert behind.get_next_trials(2) == {1: {"batches": 4}, 4: {"batches": 6}}
    assert client.abandoned == [0, 2, 3]
    assert {index: said.code for index, said in behind.blocked.items()} == {
        0: "PG007", 2: "PG007", 3: "PG007",
    }  # fmt: skip
    assert behind.get_next_trials(2) == {5: {"batches": 8}}
    assert behind.get_next_trials(2) == {}


@pytest.mark.usefixtures("without_ax")
def test_what_was_found_is_given_where_ax_has_no_more():
    """An error of Ax ends the search for more, and is raised where there is nothing to give."""
    behind = Screened(Client(4, 3, None), to_plan)
    assert behind.get_next_trials(2) == {0: {"batches": 4}}
    with pytest.raises(EndedError):
        behind.get_next_trials(1)


@pytest.mark.usefixtures("without_ax")
def test_a_space_without_a_safe_trial_ends(monkeypatch):
    """So many unsafe ones in a row are enough; none is given to train."""
    monkeypatch.setattr(hook, "MOST_BLOCKED", 8)
    client = Client(*[3] * 100)
    assert Screened(client, to_plan).get_next_trials(4) == {}
    assert len(client.abandoned) == 8


def run(script, *args):
    """Return what a script prints; Ax stays out of this process and of its warnings."""
    if importlib.util.find_spec("ax") is None:
        pytest.skip("the extra ax is not installed")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script, *args],
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


BEFORE = """
from planguard import PlanBuilder


def to_plan(params):
    plan = PlanBuilder(2)
    for rank in (0, 1):
        program = plan.program(rank)
        for _ in range((params["batches"] + 1 - rank) // 2):
            program.all_reduce(bytes=4)
    return plan.build()


def train(params):
    return float(params["batches"])
"""
AFTER = """
table = client.summarize()
status = dict(zip(table["trial_index"], table["trial_status"], strict=True))
odd = {i for i, n in zip(table["trial_index"], table["batches"], strict=True) if n % 2}
assert odd
assert odd == set(behind.blocked), (odd, behind.blocked)
assert odd == {index for index, word in status.items() if word == "ABANDONED"}, status
assert [word for i, word in status.items() if i not in odd] == ["COMPLETED"] * 6, status
best, *_ = client.get_best_parameterization()
assert best["batches"] % 2 == 0, best
"""


@pytest.mark.timeout(600)  # the models that Ax fits take seconds each
def test_the_code_of_the_page_runs_with_the_real_library(tmp_path):
    """The page's search: odd numbers are abandoned, even ones train, the best of them is found."""
    text = (ROOT / "docs/how-to/screen-experiments.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "page.py").write_text(
        BEFORE + next(block for block in blocks if "ax.api" in block) + AFTER, "utf-8"
    )
    run(tmp_path / "page.py")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_example_ends_well():
    """An experiment under a metric of its own ends with blocked trials, and its asserts hold."""
    said = run(ROOT / "examples/automl/with_ax.py")
    assert re.match(r"8 trials trained, [1-9]\d* abandoned: \{'PG007': \d+\}\n", said)
