"""Certificates over all orders: every plan that is safe by a linear route has one, no other has.

What the checker accepts is judged by the enumerator, which tries every order of every rank and
shares nothing with it. Certificates are also forged: made the way the engine makes them, whatever
the engine says of the plan.
"""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from typing import Any

import pytest
from oracle.models import MODELS
from property.test_certificates import any_order, seeds
from property.test_orders import documents, expected

import planguard
from planguard.certificate.agreement import OutsideError, RejectedError
from planguard.certificate.format import Certificate, digest, encode
from planguard.certificate.orders import Orders
from planguard.certificate.verify import verify
from planguard.errors import PlanError
from planguard.execution.certifying.orders import settle_all
from planguard.options import CheckOptions
from planguard.plan.flatten import flat_lines

LINEAR = {("any-order",), ("weak-order",)}


def flat_text(document: Any) -> bytes:
    """Give the text of the flat form."""
    return b"".join(flat_lines(planguard.load(document)))


def is_accepted(flat: bytes, certificate: dict[str, Any]) -> bool:
    """Tell what the checker says of a certificate, under a correct hash."""
    try:
        verify(flat, encode(certificate | {"plan_sha256": digest(flat)}))
    except (RejectedError, KeyError, TypeError, ValueError):
        return False
    return True


def forged(flat: bytes, model: str) -> dict[str, Any] | None:
    """Make a certificate without asking the engine; None where an order gets stuck."""
    try:
        orders = Orders(json.loads(flat), model)
        fixed = json.dumps(orders.fixed).encode()
        order = [
            [rank, orders.numbers[rank][at], *member]
            for rank, at, *member in any_order(fixed, model, random.Random(0))
        ]
        orders.follow(order)
    except (OutsideError, RejectedError, KeyError):
        return None
    settled, _ = settle_all(orders)
    steps = [tuple(step) for step in order]
    return Certificate(model, digest(flat), tuple(steps), tuple(settled)).to_json()


@pytest.mark.timeout(1200)
def test_what_a_linear_route_calls_safe_has_a_certificate(pytestconfig):
    """Safe by `any-order` or `weak-order`: a certificate, which the checker accepts; unsafe: none,
    and none that is forged is accepted either.
    """
    found = Counter()
    for seed in seeds(pytestconfig, 40, 1000):
        for document in documents(seed):
            plan, flat = planguard.load(document), flat_text(document)
            for model in MODELS:
                options = CheckOptions(model=model, certificate=True)
                verdict = planguard.check(plan, options=options)
                where = seed, model
                if verdict.certificate is not None:
                    assert verdict.safe, where
                    text = encode(verdict.certificate)
                    assert verify(flat, text).startswith(f"{plan.world_size} ranks"), where
                    found[verdict.certificate["kind"], verdict.evidence.route] += 1
                elif verdict.safe:
                    assert verdict.evidence.route not in LINEAR, (where, verdict.reasons)
                    found["without"] += 1
                elif verdict.unsafe:
                    forgery = forged(flat, model)
                    assert forgery is None or not is_accepted(flat, forgery), where
                    found["forged", forgery is not None] += 1
    assert found["orders", ("weak-order",)] > 50
    assert found["forged", True] > 25


def corrupt(settled: list[Any], rng: random.Random) -> list[Any]:
    """Edit a list of settled waits so that it says something else."""
    settled = [list(place) for place in settled]
    at = rng.randrange(len(settled))
    kind = rng.choice(["drop", "twice", "rank", "action", "cut", "extra", "none"])
    if kind == "drop":
        del settled[at]
    elif kind == "twice":
        settled.insert(rng.randrange(len(settled) + 1), settled[at])
    elif kind in {"rank", "action"}:
        place = settled[at]
        place[kind == "action"] = (place[kind == "action"] + rng.choice([1, 2, 50])) % 97
    elif kind == "cut":
        del settled[at:]
    else:
        settled.insert(at, rng.choice([[0, 99], [99, 0], [-1, 0], [0, -1], [0]]))
    return settled


@pytest.mark.timeout(1200)
def test_a_corrupted_list_of_waits_is_rejected(pytestconfig):
    """A list that lacks a wait, or has one twice, or one that is none, is rejected; shuffled it is
    accepted only where every wait still comes after those that may hold its partners up.
    """
    wanted = 5000 if pytestconfig.getoption("--slow") else 300
    rejected, reordered, seed = 0, Counter(), 0
    while rejected < wanted:
        seed += 1
        rng = random.Random(seed)
        document, model = documents(seed)[1], rng.choice(list(MODELS))
        options = CheckOptions(model=model, certificate=True)
        proof = planguard.check(planguard.load(document), options=options).certificate
        if proof is None or not proof.get("settled"):
            continue
        flat = flat_text(document)
        for _ in range(5):
            wrong = corrupt(proof["settled"], rng)
            if sorted(wrong) == sorted(proof["settled"]):
                continue
            assert not is_accepted(flat, {**proof, "settled": wrong}), (seed, model, wrong)
            rejected += 1
        other = rng.sample(proof["settled"], len(proof["settled"]))
        reordered[is_accepted(flat, {**proof, "settled": other})] += 1
        assert not is_accepted(flat, {**proof, "kind": "order"})
    assert min(reordered.values()) > wanted // 50


def nodes(document: dict[str, Any]) -> list[Any]:
    """Give every list of actions of a plan, down to the bodies of blocks and their chains."""
    found, todo = [], [use["actions"] for use in document["ranks"].values()]
    while todo:
        body = todo.pop()
        found.append(body)
        for item in body:
            if isinstance(item, list):
                todo.append(item)
            elif item["op"] == "unordered":
                todo.append(item["body"])
    return [body for body in found if body]


def name_handles(body: list[Any], started: dict[str, Any]) -> None:
    """Say that each wait of a block is after its start: the enumerator reads only `after`."""
    for item in body:
        if isinstance(item, list):
            name_handles(item, started)
        elif item["op"] == "unordered":
            name_handles(item["body"], started)
        elif item["op"] == "wait":
            works = item["work"] if isinstance(item["work"], list) else [item["work"]]
            starts = [started[work] for work in works if work in started]
            names = [start.setdefault("id", f"start-{start['work']}") for start in starts]
            if names:
                item["after"] = sorted({*item.get("after", []), *names})
        elif "work" in item:
            started[item["work"]] = item


def loosened(document: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Edit the order of a plan, or an action."""
    document = copy.deepcopy(document)
    body = rng.choice(nodes(document))
    at = rng.randrange(len(body))
    item, kind = body[at], rng.choice(["after", "wrap", "swap", "spread", "field", "drop"])
    if kind == "after" and isinstance(item, dict):
        item.pop("after", None)
    elif kind == "wrap" and len(body) > 1:
        end = at + rng.choice([2, 2, 3])
        body[at:end] = [{"op": "unordered", "body": body[at:end]}]
    elif kind == "swap":
        other = rng.randrange(len(body))
        body[at], body[other] = body[other], body[at]
    elif kind == "spread" and (isinstance(item, list) or item["op"] == "unordered"):
        body[at : at + 1] = item if isinstance(item, list) else item["body"]
    elif kind == "field" and isinstance(item, dict) and item["op"] != "unordered":
        field = rng.choice(["op", "group", "label", "async", "root", "peer"])
        values = {
            "op": ["all_reduce", "barrier", "broadcast"],
            "group": ["world", *document.get("groups", {})],
            "label": ["x", "c0", "c1"],
            "async": [True, False],
        }
        if field in item:
            item[field] = rng.choice(values.get(field, [0, 1]))
    else:
        del body[at]
    for use in document["ranks"].values():
        for action in use["actions"]:
            if isinstance(action, dict) and action["op"] == "unordered":
                name_handles([action], {})
    return document


@pytest.mark.timeout(1800)
def test_no_certificate_is_accepted_for_a_plan_that_became_unsafe(pytestconfig):
    """The order of a certified plan is edited: the old certificate and a forged one are accepted
    only if the enumerator finds no order of the edited plan that gets stuck or disagrees.
    """
    wanted = 2000 if pytestconfig.getoption("--slow") else 250
    found, seed = Counter(), 1000
    while found["unsafe"] < wanted:
        seed += 1
        rng = random.Random(seed)
        document, model = documents(seed)[1], rng.choice(list(MODELS))
        options = CheckOptions(model=model, certificate=True)
        proof = planguard.check(planguard.load(document), options=options).certificate
        if proof is None:
            continue
        for _ in range(4):
            other = loosened(document, rng)
            try:
                flat, truth = flat_text(other), expected(other, model, seed)
            except (PlanError, KeyError):
                continue  # no plan any more, or `after` names what is written later
            if truth is None:
                continue
            forgery = forged(flat, model)
            accepted = is_accepted(flat, proof) or (
                forgery is not None and is_accepted(flat, forgery)
            )
            assert truth == "SAFE" or not accepted, (seed, model, truth, other)
            found["unsafe" if truth != "SAFE" else "accepted" if accepted else "lost"] += 1
    assert found["accepted"] > wanted // 6
