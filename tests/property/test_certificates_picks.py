"""Certificates over branches and picks: ours are accepted, corrupted ones are not, and no plan that
the enumerator finds unsafe has one, by whatever means it is made.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections import Counter
from typing import Any

import campaign
import pytest
from oracle.models import MODELS

import planguard
from planguard.certificate.agreement import RejectedError
from planguard.certificate.format import digest, encode
from planguard.certificate.verify import verify
from planguard.errors import InternalError, PlanError
from planguard.execution.certifying.certify import certify
from planguard.execution.running.expand import expand
from planguard.options import CheckOptions
from planguard.plan.flatten import flat_lines
from planguard.semantics.model import find_model

SHAPES = ("branched", "wild", "threaded", "raced", "mixed")
UNSAFE = {"DEADLOCK", "POTENTIAL_DEADLOCK", "MISMATCH"}


def plans(first, count):
    """Yield seed, random numbers, and a plan of the campaign in which something is picked."""
    for seed in range(first, first + count):
        shape, document = campaign.draw(seed)
        if shape in SHAPES:
            try:
                plan = planguard.load(document)
            except PlanError:
                continue
            yield seed, random.Random(seed), plan, b"".join(flat_lines(plan))


def certified(plan, model):
    """Give the verdict with its certificate."""
    return planguard.check(plan, options=CheckOptions(model=model, certificate=True))


def accepts(flat, proof):
    """Tell whether the checker accepts a certificate, under a correct hash."""
    try:
        verify(flat, encode(proof | {"plan_sha256": digest(flat)}))
    except (RejectedError, KeyError, TypeError, ValueError, IndexError, AttributeError):
        return False
    return True


@pytest.mark.timeout(7200)
def test_what_is_safe_has_a_certificate(pytestconfig):
    """Nearly all of them, and none of another kind than the plan asks for."""
    found = Counter()
    count = 4_000 if pytestconfig.getoption("--slow") else 96
    for seed, _, plan, flat in plans(0, count):
        for model in list(MODELS)[seed % 2 :: 2]:
            verdict = certified(plan, model)
            if verdict.certificate is not None:
                assert verdict.safe, (seed, model)
                assert accepts(flat, verdict.certificate), (seed, model)
                found[verdict.certificate["kind"]] += 1
            elif verdict.safe:
                assert verdict.reasons[-1].startswith("no certificate: "), (seed, model)
                # The engine follows who leaves a rooted collective early, and the checker does not.
                is_left = re.search(
                    r"`(broadcast|reduce|gather|scatter)` beside", str(verdict.reasons)
                )
                found["left early" if is_left else "without"] += 1
    assert found["left early"] * 20 < found.total()
    assert found["without"] * 20 < found.total()
    assert min(found["cases"], found["picks"], found["order"]) > count // 15


def corrupted(proof, rng):
    """Edit a certificate so that it says something that no plan could make true."""
    proof = copy.deepcopy(proof)
    many = proof["cases"] if proof["kind"] == "cases" else proof["endings"]
    at = rng.randrange(len(many))
    kind = rng.choice(["cut", "more", "inside", "inside", "form", "model"])
    if kind == "cut":
        del many[at]
    elif kind == "more":
        many.insert(at, copy.deepcopy(rng.choice(many)))
    elif kind == "form":
        proof["schema"] = "planguard.certificate/2"
    elif kind == "model":
        proof["model"] = rng.choice(["none", "", "gloo "])
    elif proof["kind"] == "picks":
        many[at] = _other_picks(many[at], rng)
    else:
        case = many[at]
        steps = case.get("order", case.get("endings"))
        steps.insert(rng.randint(0, len(steps)), rng.choice([*steps, [0, 99], [99, 0], [-1, 0]]))
    return proof


def _other_picks(picks, rng):
    at = rng.randint(0, len(picks))
    other = ["take", [rng.randrange(3), rng.randrange(6), None], [9, 9, None]]
    return [*picks[:at], other, *picks[at + rng.randint(0, 1) :]]


@pytest.mark.timeout(7200)
def test_a_corrupted_certificate_is_rejected(pytestconfig):
    """A case or an end too few or too many, or one that is none; another form, model or plan."""
    wanted, edits = (5_000, 40) if pytestconfig.getoption("--slow") else (240, 8)
    found, last = Counter(), {}
    for seed, rng, plan, flat in plans(10_000, 1_000_000):
        model = rng.choice(list(MODELS))
        proof = certified(plan, model).certificate
        if proof is None or proof["kind"] not in {"cases", "picks"}:
            continue
        assert accepts(flat, proof)
        for _ in range(edits):
            wrong = corrupted(proof, rng)
            assert not accepts(flat, wrong), (seed, model, wrong)
            found[proof["kind"]] += 1
        with pytest.raises(RejectedError, match="another plan"):
            verify(flat + b" ", encode(proof))
        if proof["kind"] in last:  # of the plan before: its cases and ends are not those of this
            other = last[proof["kind"]]
            same = other["kind"] == "cases" or other["endings"] == proof["endings"]
            assert not accepts(flat, {**other, "model": model}) or same, seed
        last[proof["kind"]] = proof
        if found.total() >= wanted:
            break
    assert min(found["cases"], found["picks"]) > wanted // 5


def edited(document: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Edit one action of a flat plan, or the order of two, or what is picked."""
    document = copy.deepcopy(document)
    lists = [
        body for body in _lists([use["actions"] for use in document["ranks"].values()]) if body
    ]
    body = rng.choice(lists)
    at = rng.randrange(len(body))
    item, kind = body[at], rng.choice(["drop", "swap", "field", "field", "pick", "pick", "twice"])
    if kind == "drop" or not isinstance(item, dict):
        del body[at]
    elif kind == "swap":
        other = rng.randrange(len(body))
        body[at], body[other] = body[other], body[at]
    elif kind == "twice":
        body.insert(at, copy.deepcopy(item))
    elif kind == "pick" and item["op"] == "choice":
        if item.pop("uniform", None) is None:
            rng.choice(item["branches"]).append({"op": "all_reduce", "bytes": 4})
    elif kind == "pick" and item["op"] in {"recv", "irecv"}:
        item["peer"] = "any"
    else:
        field = rng.choice(["label", "bytes", "count", "tag", "group", "root", "mode", "peer"])
        groups = ["world", *document.get("groups", {})]
        values = {"group": groups, "mode": ["any", "all"], "label": ["x", "t0", "t1"]}
        if field in item:
            item[field] = rng.choice(values.get(field, [0, 1, 2]))
    return document


def _lists(item):
    if isinstance(item, list):
        if item and isinstance(item[0], dict):
            yield item
        for one in item:
            yield from _lists(one)
    elif isinstance(item, dict):
        for key in ("body", "threads", "branches"):
            yield from _lists(item.get(key, []))


@pytest.mark.timeout(7200)
def test_no_unsafe_plan_has_an_accepted_certificate(pytestconfig):
    """A certified plan is edited until the enumerator finds it unsafe: neither the old certificate
    is accepted, nor one that is made for the edited plan as if it were safe.
    """
    wanted, edits = (2_000, 20) if pytestconfig.getoption("--slow") else (60, 6)
    found = Counter()
    for seed, rng, plan, flat in plans(20_000, 1_000_000):
        model = rng.choice(list(MODELS))
        proof = certified(plan, model).certificate
        if proof is None or proof["kind"] == "order":
            continue
        for _ in range(edits):
            other = edited(json.loads(flat), rng)
            try:
                twin = planguard.load(other)
                truth = campaign.expected_of(other, model, 2_000, seed)
            except (PlanError, KeyError):
                continue
            if truth not in UNSAFE:
                continue
            text = b"".join(flat_lines(twin))
            assert not accepts(text, proof), (seed, model, truth, other)
            try:
                made = certify(twin, expand(twin), find_model(model)).certificate
            except InternalError:
                made = None  # the checker rejected it
            except PlanError:
                continue
            assert made is None, (seed, model, truth, other)
            found[proof["kind"], truth] += 1
        if found.total() >= wanted:
            break
    kinds = Counter(kind for kind, _ in found.elements())
    assert min(kinds["cases"], kinds["picks"]) > wanted // 6
