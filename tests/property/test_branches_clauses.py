from __future__ import annotations

import random
from collections import Counter

import pytest
from oracle import opened

import planguard
from planguard.options import MODEL_NAMES
from planguard.plan.flatten import flatten
from planguard.reordering.branches import decide as branches_decide


def with_creations(document, seed):
    """The plan with creations of its groups outside the branches, mostly in one order and first."""
    rng = random.Random(seed)
    document = flatten(planguard.load(document))
    members = {"world": range(document["world_size"])}
    if "new_group" not in repr(document):  # a group exists no earlier than that
        members |= {name: group["ranks"] for name, group in document.get("groups", {}).items()}
    names = sorted(members)
    rng.shuffle(names)
    for rank, body in document["ranks"].items():
        made = [name for name in names if int(rank) in members[name] and rng.random() < 0.9]
        if rng.random() < 0.15:
            made.reverse()
        for name in reversed(made):
            at = 0 if rng.random() < 0.8 else rng.randrange(len(body["actions"]) + 1)
            body["actions"].insert(at, {"op": "init", "group": name})
    return document


def differences(monkeypatch, seeds, models=(), make=lambda document, _: document):
    """Decide random plans by clauses and one by one; give what differs, and how many were both."""
    differ, both = {}, Counter()
    for seed in seeds:
        document = make(opened.branched(seed, random.Random(seed)), seed)
        plan = planguard.load(document)
        for model in models or random.Random(seed).sample(MODEL_NAMES, 2):
            monkeypatch.setattr(branches_decide, "FEW", 256)
            monkeypatch.setattr(branches_decide, "LIMIT", 2_000)
            expected = planguard.check(plan, model=model)
            monkeypatch.setattr(branches_decide, "FEW", -1)
            monkeypatch.setattr(branches_decide, "LIMIT", -1)
            monkeypatch.setattr(branches_decide, "STRETCHES", -1)
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


NCCL = ("nccl", "nccl-lazy", "nccl-eager", "nccl-serialized")


def test_clauses_and_enumeration_agree_behind_creations(monkeypatch):
    """A creation is one more rendezvous of the clauses: outcomes as by enumeration."""
    models = ("gloo", "nccl", "nccl-lazy")
    differ, both = differences(monkeypatch, range(5_000, 5_024), models, with_creations)
    assert not differ
    assert both["SAFE"] >= 3
    assert both.total() >= 30


@pytest.mark.slow
def test_clauses_and_enumeration_agree_behind_creations_on_many_plans(monkeypatch):
    """The same on 400 plans under five models."""
    differ, both = differences(monkeypatch, range(6_000, 6_400), ("gloo", *NCCL), with_creations)
    assert not differ
    assert both.total() > 400
