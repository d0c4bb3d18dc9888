from __future__ import annotations

import random
from collections import Counter

import pytest
from oracle import opened

import planguard
from planguard.options import MODEL_NAMES
from planguard.reordering import branches_decide


def differences(monkeypatch, seeds, models=()):
    """Decide random plans by clauses and one by one; give what differs, and how many were both."""
    differ, both = {}, Counter()
    for seed in seeds:
        plan = planguard.load(opened.branched(seed, random.Random(seed)))
        for model in models or random.Random(seed).sample(MODEL_NAMES, 2):
            monkeypatch.setattr(branches_decide, "FEW", 256)
            monkeypatch.setattr(branches_decide, "LIMIT", 2_000)
            expected = planguard.check(plan, model=model)
            monkeypatch.setattr(branches_decide, "FEW", -1)
            monkeypatch.setattr(branches_decide, "LIMIT", -1)
            found = planguard.check(plan, model=model)
            if "smt" not in found.evidence.route:
                continue
            both[found.outcome.value] += 1
            same = found.outcome is expected.outcome and found.safe_iff == expected.safe_iff
            # Not complete: every combination that was decided is a deadlock.
            if not same and (found.complete or expected.safe or found.safe):
                differ[seed, model] = expected.outcome.value, found.outcome.value
    return differ, both


def test_clauses_and_enumeration_agree(monkeypatch):
    """On random plans with branches both give the same outcome and the same condition."""
    differ, both = differences(monkeypatch, range(2_000, 2_050))
    assert not differ
    assert both["SAFE"] > 3
    assert both.total() > 30


@pytest.mark.slow
def test_clauses_and_enumeration_agree_on_many_plans(monkeypatch):
    """The same on 1,500 plans under nine models."""
    differ, both = differences(monkeypatch, range(3_000, 4_500), MODEL_NAMES)
    assert not differ
    assert both["SAFE"] > 500
    assert both.total() > 5_000
