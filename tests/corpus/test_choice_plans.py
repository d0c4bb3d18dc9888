from __future__ import annotations

import json
from pathlib import Path

import pytest
from oracle.enumerator import Effort, enumerate_plan
from oracle.program import OracleUnsupported

import planguard

FILES = sorted((Path(__file__).parent / "choices").glob("*.plan.json"))
CASES = [(path, model) for path in FILES for model in json.loads(path.read_text())["x-expect"]]


@pytest.mark.parametrize(("path", "model"), CASES, ids=lambda part: getattr(part, "stem", part))
def test_plans_with_choices_get_their_outcome(path, model):
    """The outcome is the expected one, under every model with an expectation, and so is the
    condition under which the plan is safe.
    """
    document = json.loads(path.read_text())
    verdict = planguard.check(planguard.load(path), model=model)
    assert verdict.outcome.value in document["x-expect"][model]["outcomes"]
    assert verdict.complete
    found = [list(safe.branches) for safe in verdict.safe_iff if safe.kind == "uniform-branch"]
    wanted = document.get("x-safe-iff")
    assert found == ([wanted] if wanted else [])


@pytest.mark.parametrize(("path", "model"), CASES, ids=lambda part: getattr(part, "stem", part))
def test_the_enumerator_gives_the_same_outcome(path, model):
    """The enumerator, which shares nothing with the checker, finds the same outcome."""
    document = {"groups": {}, "templates": {}, **json.loads(path.read_text())}
    try:
        outcome = enumerate_plan(document, model, Effort(50_000, 0)).outcome
    except OracleUnsupported as reason:
        pytest.fail(f"not judged: {reason}")
    assert outcome in document["x-expect"][model]["outcomes"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_witnesses_of_picks_are_real_executions(path):
    """Every error of a plan whose picks decide names what was picked, and has a witness."""
    document = json.loads(path.read_text())
    for model in document["x-expect"]:
        verdict = planguard.check(planguard.load(path), model=model)
        for finding in verdict.errors:
            if finding.code in {"PG106", "PG110"}:
                assert finding.certainty == "some-execution"
                assert finding.witness is not None
                assert any("takes" in note or "take branch" in note for note in finding.notes)
