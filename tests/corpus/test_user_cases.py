from __future__ import annotations

import json
from pathlib import Path

import pytest
import write_user_cases
from oracle.enumerator import Effort, OracleBudget, enumerate_plan

import planguard
from planguard.options import CheckOptions

BUGS = sorted(write_user_cases.BUGS.glob("*.plan.json"))
ROOT = Path(__file__).resolve().parents[2]
# Above this the enumerator's one state at a time takes seconds; the expectation stands alone.
SMALL = 40
TOO_MANY_STATES = "rccl-2191.bug.plan.json"


def cases(end: str) -> list[tuple[Path, str]]:
    """Give every plan of one kind with every model of its expectation."""
    found = [path for path in BUGS if path.name.endswith(f".{end}.plan.json")]
    return [(path, model) for path in found for model in read(path)["x-expect"]]


def small() -> list[Path]:
    """Give the plans that the enumerator can take one state at a time."""
    return [path for path in BUGS if planguard.load(path).actions <= SMALL]


def read(path):
    """Give a decoded plan."""
    return json.loads(path.read_text("utf-8"))


def check(path, model):
    """Give the plan and the verdict under the options of the file."""
    plan = planguard.load(path)
    options = CheckOptions(model=model, **read(path).get("x-options", {}))
    return plan, planguard.check(plan, options=options)


def named(plan, finding) -> set[tuple[int, int]]:
    """Give the actions that a finding names: where it stands, what it waits for, what is in front.

    A wait names the calls of its handles: the message says which of them.
    """
    places = [finding.primary, *finding.related_actions]
    for edge in finding.cycle:
        places += [edge.at, edge.waits_for, edge.behind]
    found = {(place.rank, place.action) for place in places if place is not None}
    for rank, action in sorted(found):
        view = plan.action_at(rank, action)
        if view.op == "wait":
            works = view.fields["work"]
            wanted = [works] if isinstance(works, str) else works
            found |= {
                (rank, at)
                for at in range(action)
                if plan.action_at(rank, at).fields.get("work") in wanted
                and plan.action_at(rank, at).op != "wait"
            }
    return found


def test_the_files_are_those_of_the_cases():
    """Running write_user_cases.py again would change no plan."""
    expected = write_user_cases.files()
    assert sorted(expected) == [path.name for path in BUGS]
    assert {path.name: path.read_text("utf-8") for path in BUGS} == expected


def test_the_page_shows_what_is_answered():
    """The table of the page is the one of the cases, with the answers of today."""
    text = write_user_cases.PAGE.read_text("utf-8")
    assert write_user_cases.page(text) == text


def test_every_row_is_there():
    """34 rows; 26 are caught, 7 partly, and one is no matter of a plan."""
    rows = [(case.number, case.catch) for case in write_user_cases.CASES]
    assert [number for number, _ in rows] == list(range(1, 35))
    caught = [sum(catch == kind for _, catch in rows) for kind in ("yes", "partly", "no")]
    assert caught == [26, 7, 1]
    assert all(case.pairs for case in write_user_cases.CASES if case.catch != "no")


@pytest.mark.parametrize(("path", "model"), cases("bug"), ids=lambda p: getattr(p, "stem", p))
def test_what_failed_is_caught_and_blamed(path, model):
    """The failing plan gets its outcome, and the first finding names the action at fault."""
    expected = read(path)["x-expect"][model]
    plan, verdict = check(path, model)
    assert verdict.outcome.value in expected["outcomes"]
    if verdict.safe and not verdict.errors:
        return
    finding = verdict.errors[0]
    assert finding.code in expected["codes"]
    assert named(plan, finding) & {tuple(place) for place in expected["blamed"]}
    if "safe_iff" in expected:
        assert expected["safe_iff"] in {condition.kind for condition in verdict.safe_iff}


@pytest.mark.parametrize(("path", "model"), cases("fix"), ids=lambda p: getattr(p, "stem", p))
def test_what_works_is_safe(path, model):
    """The fixed plan is SAFE, without any error."""
    _, verdict = check(path, model)
    assert verdict.outcome.value in read(path)["x-expect"][model]["outcomes"]
    assert not verdict.errors


@pytest.mark.parametrize("path", small(), ids=lambda path: path.name)
def test_the_enumerator_agrees(path):
    """Under the first model the enumerator, which shares nothing with the checker, agrees; it
    gives up on one plan only.
    """
    document = read(path)
    model = next(iter(document["x-expect"]))
    options = document.get("x-options", {})
    effort = Effort(2_000, 0, strict=options.get("strict_start_order", True))
    plan = {"groups": {}, "templates": {}, **document}
    if path.name == TOO_MANY_STATES:
        with pytest.raises(OracleBudget):
            enumerate_plan(plan, model, effort)
        return
    assert enumerate_plan(plan, model, effort).outcome in document["x-expect"][model]["outcomes"]
