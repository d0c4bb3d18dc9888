from __future__ import annotations

import json
import random
from collections import Counter

import planguard
from planguard import CheckOptions
from planguard.certificate.agreement import RejectedError
from planguard.certificate.format import digest, encode
from planguard.certificate.orders import Orders
from planguard.certificate.verify import verify
from planguard.execution.certifying.orders import settle_all
from planguard.execution.certifying.refute import refutation
from planguard.plan.flatten import flat_lines


def circles(rng):
    """A plan whose waits make circles, some of which an order may be able to follow.

    Rank ``i`` has the chains ``ax by`` and ``bx ay``: it stands at ``ay`` while it is late for
    ``ax``, or at ``by`` while late for ``bx``, not both. A link ``[t.x, s.y]`` leads a circle from
    one such side to another.
    """
    count = rng.randint(2, 4)
    sides = [f"{side}{number}" for number in range(count) for side in "ab"]
    chains = [[[f"a{n}x", f"b{n}y"], [f"b{n}x", f"a{n}y"]] for n in range(count)]
    for _ in range(rng.randint(len(sides) - 1, len(sides) + 2)):
        first, second = rng.sample(sides, 2)
        chains.append([[f"{second}x", f"{first}y"]])
    groups = {}
    for rank, mine in enumerate(chains):
        for name in (name for chain in mine for name in chain):
            groups.setdefault(name, {"ranks": []})["ranks"].append(rank)
    ranks = {}
    for rank, mine in enumerate(chains):
        body = [
            [{"op": "all_reduce", "group": name, "bytes": 4, "label": name} for name in chain]
            for chain in mine
        ]
        block = [{"op": "unordered", "body": body}] if len(body) > 1 else body[0]
        ranks[str(rank)] = {"actions": block}
    head = {"schema": "planguard.plan/1", "world_size": len(chains)}
    return {**head, "groups": groups, "ranks": ranks}


def flat_text(plan):
    """The text of the flat form."""
    return b"".join(flat_lines(plan))


def says(flat, certificate):
    """What the checker says of a certificate, under a correct hash; empty if it accepts."""
    try:
        verify(flat, encode(certificate | {"plan_sha256": digest(flat)}))
    except (RejectedError, KeyError, TypeError, ValueError) as error:
        return str(error) or "rejected"
    return ""


def wrong(refuted, size, rng):
    """A list of clauses that is no refutation, whatever the formula is."""
    kind = rng.choice(["open end", "none", "unknown", "text", "nothing"])
    if kind == "open end":
        return [*refuted[:-1], refuted[-1] or [1]]
    if kind == "none":
        return []
    at = rng.randrange(len(refuted))
    bad = {"unknown": [size + 1 + rng.randrange(9)], "text": ["1"], "nothing": [0]}[kind]
    return [*refuted[:at], bad, *refuted[at:]]


def of_cycles(seeds):
    """Yield plans whose waits make circles, with the verdict, the flat text and the certificate."""
    for seed in seeds:
        rng = random.Random(seed)
        plan = planguard.load(circles(rng))
        model = rng.choice(["gloo", "mpi-sync", "nccl-serialized", "gloo-detail"])
        verdict = planguard.check(plan, options=CheckOptions(model=model, certificate=True))
        yield seed, rng, plan, model, verdict


def test_circles_that_no_order_follows_are_refuted(pytestconfig):
    """Safe plans with circles of waits get a refutation that is accepted; what is none is rejected,
    and clauses that do not follow are rejected by number.
    """
    count = 2_000 if pytestconfig.getoption("--slow") else 70
    found = Counter()
    for seed, rng, plan, _, verdict in of_cycles(range(count)):
        if not verdict.safe:
            continue
        found["safe"] += 1
        proof = verdict.certificate
        assert proof is not None, (seed, verdict.reasons)
        if "refuted" not in proof:
            continue
        found["refuted"] += 1
        flat = flat_text(plan)
        assert not says(flat, proof), seed
        del_key = {key: value for key, value in proof.items() if key != "refuted"}
        assert says(flat, del_key), seed
        for _ in range(6):
            bad = wrong(proof["refuted"], 10_000, rng)
            assert says(flat, {**proof, "refuted": bad}), (seed, bad)
            found["corrupted"] += 1
        cut = {**proof, "settled": proof["settled"][: rng.randrange(len(proof["settled"]) or 1)]}
        found["cut", bool(says(flat, cut))] += 1
    assert found["refuted"] > count // 40
    assert found["corrupted"] >= count // 10


def test_no_refutation_is_accepted_of_circles_that_some_order_follows(pytestconfig):
    """Unsafe plans: the engine finds no refutation, and no clauses are accepted as one."""
    count = 1_000 if pytestconfig.getoption("--slow") else 40
    found = Counter()
    for seed, rng, plan, model, verdict in of_cycles(range(10_000, 10_000 + count)):
        if not verdict.unsafe:
            continue
        flat = flat_text(plan)
        orders = Orders(json.loads(flat), model)
        order = _completed(orders, model)
        if order is None:
            continue
        settled, missing = settle_all(orders)
        assert missing, seed
        assert refutation(orders) is None, seed
        about = {"schema": "planguard.certificate/1", "kind": "orders", "model": model}
        forged = {**about, "order": order, "settled": [list(place) for place in settled]}
        for lemmas in _guesses(rng):
            assert says(flat, {**forged, "refuted": lemmas}), (seed, lemmas)
            found["forged"] += 1
    assert found["forged"] > count // 4


def _completed(orders, model):
    """The completions of the written order, followed; None where it gets stuck."""
    from planguard.execution.certifying.orders import completions
    from planguard.semantics.model import find_model

    try:
        order = [list(step) for step in completions(orders, find_model(model))]
        orders.follow(order)
    except (RejectedError, KeyError):
        return None
    return order


def _guesses(rng):
    """Clauses that somebody might try: nothing, the empty one, and all units before it."""
    yield [[]]
    yield [[-number] for number in range(1, 5)] + [[]]
    yield [[rng.choice([1, -1]) * rng.randint(1, 6) for _ in range(2)] for _ in range(5)] + [[]]
