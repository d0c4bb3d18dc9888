"""Incidents that really happened, as a user has them in hand, against their truth."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

import planguard as pg

FOLDER = Path(__file__).parent / "in_hand"
LABELS = {label["id"]: label for label in json.loads((FOLDER / "labels.json").read_text("utf-8"))}


def load_benchmark():
    """The comparison with labels, which benchmarks/in_hand.py makes for any folder."""
    path = Path(__file__).parents[2] / "benchmarks" / "in_hand.py"
    spec = importlib.util.spec_from_file_location("in_hand", path)
    module = sys.modules["in_hand"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row(name):
    """How the audit of one incident compares with its label."""
    result = json.loads(json.dumps(pg.audit(FOLDER / name).to_json(reproducible=True)))
    return load_benchmark().judged(LABELS[name], result)


@pytest.mark.parametrize("name", sorted(LABELS))
def test_an_incident_is_understood_and_nothing_wrong_is_certain(name):
    """The cause and the rank are named where the files tell them; nothing wrong is a certainty."""
    found = row(name)
    assert found.wrong == [], found.said
    if LABELS[name]["determinable"]:
        assert found.is_class, found.said
        assert found.is_rank, found.said


@pytest.mark.parametrize("name", sorted(n for n, one in LABELS.items() if one["cause"] != "none"))
def test_no_incident_is_safe(name):
    """A run that was stuck, crashed or slow is never called SAFE."""
    assert not pg.audit(FOLDER / name).safe


@pytest.mark.parametrize(
    "name", sorted(n for n, one in LABELS.items() if one["cause"] in ("none", "slow"))
)
def test_a_job_that_moves_is_no_error(name):
    """Stacks of a healthy or slow job are undecided, with what would settle it, and no error."""
    verdict = pg.audit(FOLDER / name)
    assert verdict.unknown
    assert not verdict.errors
    assert any("next" in note for f in verdict.findings for note in f.notes)


def test_there_are_enough_of_them():
    """At least twelve incidents were recorded, and every one has its folder."""
    assert len(LABELS) >= 12
    assert {path.name for path in FOLDER.iterdir() if path.is_dir()} >= set(LABELS)
