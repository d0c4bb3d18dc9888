"""What modules asked at their import is read of the step's modules, once, and changes nothing."""

from __future__ import annotations

import importlib
import random
import sys

import pytest

pytest.importorskip("torch")

from planguard.capture.names import job_modules
from planguard.capture.values import own_answers

STEP = """
import os
import random
import subprocess

from of_step_settings import ORDER

FIRST = ORDER[0]
PLAIN = sorted([3, 1, 2])
LUCK = random.random()
TOLD = os.environ.get("A_VARIABLE_OF_NOBODY", "none")
SAID = subprocess.getoutput("echo told >> {log}")


def step():
    return FIRST
"""
SETTINGS = 'ORDER = list({"a", "b", "c"})\n'
OTHER = 'ORDER = list({"x", "y"})\n'


@pytest.fixture
def step(tmp_path, monkeypatch):
    """A step whose module imports another one; a third one is loaded and has nothing to do."""
    for name, text in (
        ("of_step", STEP.format(log=tmp_path / "log")),
        ("of_step_settings", SETTINGS),
        ("of_nobody", OTHER),
    ):
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("of_nobody", "of_step"):
        importlib.import_module(name)
    yield sys.modules["of_step"].step
    for name in ("of_nobody", "of_step", "of_step_settings"):
        del sys.modules[name]


def test_modules_of_a_step_are_those_that_it_imports(step):
    """Not what is loaded beside it."""
    found = {one.__name__ for one in job_modules.reached([lambda: [step()]])}
    assert {"of_step", "of_step_settings"} <= found
    assert "of_nobody" not in found


def test_only_what_may_differ_is_asked_again_and_nothing_is_changed(step, tmp_path):
    """No dice are thrown, and no other program is run."""
    state, told = random.getstate(), (tmp_path / "log").read_text()
    before = own_answers.before_of(step)
    kept = [name for *_, names in before._kept for name in names]
    assert {"ORDER", "TOLD"} <= set(kept)
    assert not {"PLAIN", "LUCK", "SAID"} & set(kept)
    assert random.getstate() == state
    assert (tmp_path / "log").read_text() == told


@pytest.mark.usefixtures("step")
def test_a_file_is_parsed_once_and_again_where_it_changed(tmp_path):
    """Known by its lines."""
    module = sys.modules["of_step_settings"]
    first = job_modules.statements_of(module)
    assert job_modules.statements_of(module) is first
    (tmp_path / "of_step_settings.py").write_text(SETTINGS + "MORE = 1\n")
    assert len(job_modules.statements_of(module).given) == 2


def test_variables_that_are_asked_again_are_none_of_the_step(step):
    """The sets are."""
    before = own_answers.before_of(step)
    answers = own_answers.Answers(0)
    with own_answers.own_answers(answers, before):
        step()
    assert "A_VARIABLE_OF_NOBODY" not in answers.variables
    assert any(kind == own_answers.ORDER for kind, _ in answers.sites)
