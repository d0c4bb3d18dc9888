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
    found = {one.__name__ for one in job_modules.reached([lambda: [step()]]).modules}
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


def test_variables_of_an_import_are_named_and_sets_are_played(step):
    """A variable is taken to be the same on all ranks: who reads the verdict must know."""
    before = own_answers.before_of(step)
    answers = own_answers.Answers(0)
    with own_answers.own_answers(answers, before):
        step()
    assert answers.variables["A_VARIABLE_OF_NOBODY"].endswith("of_step.py:11")
    assert any(kind == own_answers.ORDER for kind, _ in answers.sites)


def _said(tmp_path, monkeypatch, text):
    """Return what is said of a module with this text, and the variables that it reads."""
    (tmp_path / "of_left.py").write_text(text + "\ndef step():\n    return None\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    try:
        before = own_answers.before_of(importlib.import_module("of_left").step)
    finally:
        del sys.modules["of_left"]
    return before.said(), before.imports.variables


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("import random\nLUCK = random.random()", "random.random"),
        ("import torch\nLUCK = torch.randn(2)", "torch.randn"),
        ("with open(__file__) as file:\n    TEXT = file.read()", "open"),
        ("import pathlib\nTEXT = pathlib.Path(__file__).read_text()", "read_text"),
        ("import subprocess\nSAID = subprocess.getoutput('true')", "subprocess.getoutput"),
        ("import sqlite3\nBASE = sqlite3.connect(':memory:')", "sqlite3.connect"),
        ("import threading\nRUN = threading.Thread(target=int)\nRUN.start()", "RUN.start"),
        ("import time\ndef now():\n    return time.time()\nBEGAN = now()", "time.time"),
        ("import time\nclass A:\n    def __init__(self):\n        self.at = time.time()\nB = A()",
         "time.time"),
        ("L = []\nfor x in {'a', 'b'}:\n    L.append(x)", "the order of a set"),
        ("try:\n    import of_no_package\nexcept ImportError:\n    print()", "an import under"),
        ("import importlib\nNAME = 'js' + 'on'\nM = importlib.import_module(NAME)",
         "a module of a computed name"),
    ],
)  # fmt: skip
def test_what_an_import_asked_and_nobody_asks_again_is_said(tmp_path, monkeypatch, text, named):
    """With its line."""
    said, _ = _said(tmp_path, monkeypatch, text)
    assert said.startswith("taken to be the same on all ranks: what modules asked")
    assert named in said
    assert "of_left.py:" in said


@pytest.mark.parametrize(
    "text",
    [
        "import random\nDICE = random.Random(3)",
        "import random\nrandom.seed(3)",
        "import random\ndef later():\n    return random.random()",
        "KNOWN = {'a', 'b'}\nORDER = list(KNOWN)",  # is asked again
        "import random\nif __name__ == '__main__':\n    random.random()",
    ],
)
def test_what_is_asked_again_or_not_at_all_is_not_said(tmp_path, monkeypatch, text):
    """A seed is the same everywhere; what a function asks later is played."""
    assert _said(tmp_path, monkeypatch, text)[0] == ""


def test_variables_are_named_however_they_are_read(tmp_path, monkeypatch):
    """Not those of PlanGuard's own, nor those that a launcher gives each rank, if asked again."""
    monkeypatch.setenv("OF_B", "1")
    text = """
import os
from os import environ, getenv
A = getenv("OF_A")
B = os.environ["OF_B"]
C = "OF_C" in environ
def read():
    return environ.get("OF_D")
D = read()
E = os.environ.get("PLANGUARD_E")
RANK = int(environ.get("RANK", "0"))
"""
    assert set(_said(tmp_path, monkeypatch, text)[1]) == {"OF_A", "OF_B", "OF_C", "OF_D"}


def test_objects_behind_the_limit_are_said(monkeypatch):
    """Of a step that holds more than are looked at."""
    monkeypatch.setattr(job_modules, "_MOST_OBJECTS", 3)
    assert job_modules.reached([[object(), object(), object(), object()]]).missed
    assert not job_modules.reached([[1, 2, 3, 4]]).missed
