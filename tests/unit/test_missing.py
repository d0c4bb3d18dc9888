"""Inputs that are no file to read."""

from __future__ import annotations

import pytest

import planguard as pg
from planguard.errors import PlanError, UsageError


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("modle.plan.json", "no such file.*did you mean 'model.plan.json'"),
        ("model.plan.yaml", "no such file.*did you mean 'model.plan.json'"),
        ("nothing_like_it", "no such file.*give the path"),
        ("nowhere/model.plan.json", "there is no folder nowhere"),
        ("*.plan.csv", "nothing matches this pattern"),
        ("plans", "a folder with 2 plan files.*planguard screen plans"),
        ("empty", "a folder in which nothing is recognized.*--planner"),
        ("empty.json", "the file is empty"),
    ],
)
def test_what_is_no_file_says_what_to_read_instead(given, words, tmp_path, monkeypatch):
    """A path that is no plan is refused with what is there instead, in words of a person."""
    monkeypatch.chdir(tmp_path)
    for name in ("model.plan.json", "plans/a.plan.json", "plans/b.plan.json", "empty.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "empty").mkdir()
    with pytest.raises(PlanError, match=f"(?s){words}") as raised:
        pg.load(given)
    assert "Errno" not in str(raised.value)
    assert raised.value.file == given


@pytest.mark.parametrize("given", [None, 3, [], object(), b"", "", {"schema": "planguard.plan/1"}])
def test_what_is_no_plan_is_refused_with_its_reason(given):
    """Whatever is given instead of a plan is a PlanError, never an error of a type deep inside."""
    with pytest.raises(PlanError):
        pg.check(given)


@pytest.mark.parametrize("options", [{"budget": "five"}, {"budget": -1}, {"budget": float("nan")},
                                     {"options": 3}, {"options": {"model": "nccl"}}])  # fmt: skip
def test_an_option_of_a_wrong_type_is_refused(options):
    """A budget that is no time and options that are none are usage errors."""
    plan = {"schema": "planguard.plan/1", "world_size": 1, "ranks": {"0": {"actions": []}}}
    for call in (lambda: pg.check(plan, **options), lambda: pg.Guard(**options)):
        with pytest.raises(UsageError, match=r"budget=|options="):
            call()
