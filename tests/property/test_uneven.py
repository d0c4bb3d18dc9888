"""Rounds in which members say different things: every judge of agreement says the same.

The two kernels, the check, the certificate checker and the independent enumerator are asked about
rounds of two to four members that say some of size, element type, splits, and labels of parts.
"""

from __future__ import annotations

import contextlib
import json
import random

import pytest
from oracle.enumerator import Effort, enumerate_plan

import planguard
from planguard.certificate.agreement import RejectedError
from planguard.certificate.checker import check
from planguard.certificate.format import Certificate, digest, encode
from planguard.engine import Decider
from planguard.execution.running.expand import expand
from planguard.kernels import use
from planguard.options import CheckOptions
from planguard.plan.flatten import flat_lines
from planguard.semantics.model import find_model

CHUNK = 60
MODELS = ("gloo", "nccl", "mpi-eager")
UNEVEN = {
    "all_to_all": ("in_splits", "out_splits"),
    "all_to_all_single": ("in_splits", "out_splits"),
    "all_gather": ("out_splits",),
    "all_gather_into_tensor": ("out_splits",),
    "gather": ("out_splits",),
    "reduce_scatter": ("in_splits",),
    "reduce_scatter_tensor": ("in_splits",),
    "scatter": ("in_splits",),
}


def sized(rng, count):
    """A size, or less than that."""
    return rng.choice(
        [
            {"count": count, "dtype": "i32"},
            {"count": count, "dtype": "i32"},
            {"count": count, "dtype": rng.choice(["i32", "f32", "f16"])},
            {"bytes": 4 * count},
            {"bytes": 4 * count, "dtype": "i32"},
            {"dtype": "i32"},
            {},
        ]
    )


def uneven(rng, world):
    """A round of an uneven collective, right in most of what it says."""
    op = rng.choice([*UNEVEN])
    root = {"root": rng.randrange(world)} if op in {"gather", "scatter"} else {}
    table = [[rng.randint(1, 3) for _ in range(world)] for _ in range(world)]
    calls = []
    for rank in range(world):
        own = [row[rank] for row in table]
        gives, gets = table[rank], own
        count = sum(gives)
        if not op.startswith("all_to_all"):
            gives = gets = [table[0][place] for place in range(world)]
            count = table[0][rank]
        call = {"op": op, **root, **sized(rng, count)}
        for field in UNEVEN[op]:
            if rng.random() < 0.6:
                call[field] = list(gives if field == "in_splits" else gets)
        calls.append(call)
    if rng.random() < 0.4:
        call = rng.choice(calls)
        for field in UNEVEN[op]:
            if field in call:
                call[field][rng.randrange(world)] += 1
                break
    return calls


def parts(rng, world):
    """A round of a coalesced collective whose parts have labels here and there."""
    names = rng.sample("abcd", 2)
    calls = []
    for _ in range(world):
        listed = [
            {**sized(rng, 2), **({"label": name} if rng.random() < 0.7 else {})} for name in names
        ]
        if rng.random() < 0.2:
            listed.reverse()
        call = {"op": "coalesced", "kind": "all_reduce", "ops": listed}
        calls.append({**call, **({"label": rng.choice("xxxy")} if rng.random() < 0.5 else {})})
    return calls


def plain(rng, world):
    """A round of all_reduce with as much of its size and type as each member says."""
    return [{"op": "all_reduce", **sized(rng, rng.choice([2, 2, 2, 4]))} for _ in range(world)]


def accepted(flat, model, world):
    """Tell whether the checker accepts that everybody completes."""
    steps = tuple((rank, 0) for rank in range(world))
    try:
        check(flat, encode(Certificate(model, digest(flat), steps).to_json()))
    except RejectedError:
        return False
    return True


def decided(plan, model, kernel):
    """Give the outcome of a fixed plan by one of the kernels."""
    columns = expand(plan, implementation=kernel)
    return Decider(plan, columns, find_model(model), CheckOptions(), kernel).decide().outcome


@pytest.mark.parametrize("first", range(0, 300, CHUNK))
def test_every_judge_says_the_same(first):
    """Kernels, check, certificate checker and enumerator agree about every round."""
    outcomes = set()
    kernels = [use("python")]
    with contextlib.suppress(ImportError):
        kernels.append(use("native"))
    for seed in range(first, first + CHUNK):
        rng = random.Random(seed)
        world = rng.randint(2, 4)
        calls = rng.choice([uneven, uneven, parts, plain])(rng, world)
        ranks = {str(rank): {"actions": [call]} for rank, call in enumerate(calls)}
        document = {"schema": "planguard.plan/1", "world_size": world, "ranks": ranks}
        plan = planguard.load(document)
        flat = b"".join(flat_lines(plan))
        for model in MODELS:
            outcome = planguard.check(plan, model=model).outcome.value
            outcomes.add(outcome)
            found = [decided(plan, model, kernel) for kernel in kernels]
            assert {one.value for one in found} == {outcome}, (seed, model)
            expected = enumerate_plan(document, model, Effort(20_000, 0, seed)).outcome
            assert expected == outcome, (seed, model, json.dumps(calls))
            assert accepted(flat, model, world) == (outcome == "SAFE"), (seed, model)
    assert outcomes == {"SAFE", "MISMATCH"}
