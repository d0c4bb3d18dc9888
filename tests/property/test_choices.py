from __future__ import annotations

import random
from collections import Counter

import pytest
from oracle import opened
from oracle.answers import outcome_of
from oracle.enumerator import Effort, OracleBudget
from oracle.generate import generate
from oracle.models import MODELS
from oracle.program import OracleUnsupported

import planguard
from planguard import CheckOptions
from planguard.reordering.join import says_disagreement

CHUNK = 10
TAGS = ("gloo", "gloo-detail", "mpi-eager", "mpi-sync", "mpi-pg")
DEVICES = ("nccl", "nccl-lazy", "nccl-eager")
USUAL = {"branched": 30, "wild": 40, "created": 20, "threaded": 10, "raced": 20}
EXHAUSTIVE = {
    "branched": 3_000, "wild": 3_000, "created": 3_000, "threaded": 1_000, "raced": 3_000,
}  # fmt: skip


def pytest_generate_tests(metafunc):
    """Cut the seeds into chunks; --exhaustive-differential makes more of them."""
    if "chunk" in metafunc.fixturenames:
        exhaustive = metafunc.config.getoption("--exhaustive-differential", default=False)
        seeds = EXHAUSTIVE if exhaustive else USUAL
        chunks = [(kind, first) for kind, n in seeds.items() for first in range(0, n, CHUNK)]
        metafunc.parametrize("chunk", chunks, ids=lambda chunk: f"{chunk[0]}-{chunk[1]}")


def models_of(kind):
    """The models under which a kind of plan is compared."""
    if kind in ("wild", "created"):
        return TAGS
    if kind == "threaded":
        return (*DEVICES, "nccl-serialized")
    # gloo-detail and mpi-sync differ from these in what the other kinds of plans show.
    return ("gloo", "mpi-eager", "mpi-pg", "nccl") if kind == "raced" else MODELS


def agree(verdict, expected):
    """Whether a verdict is that of the enumerator.

    Behind a message that the wrong one of several receives took, both a hang of its own and the
    consequence of the mismatch can be said of what hangs there.
    """
    outcome = verdict.outcome.value
    if outcome == expected:
        return True
    mixed = {outcome, expected} == {"DEADLOCK", "MISMATCH"}
    return mixed and any(map(says_disagreement, verdict.errors))


def compare(document, model, effort):
    """The verdicts of both, or None where one of them gives none."""
    options = CheckOptions(
        model=model, max_resident_kernels=effort.kernels, strict_start_order=effort.strict
    )
    verdict = planguard.check(planguard.load(document), options=options)
    try:
        expected = outcome_of(document, model, effort)
    except (OracleBudget, OracleUnsupported):
        return None
    return None if "UNKNOWN" in {verdict.outcome.value, expected} else (verdict, expected)


def test_open_plans_are_judged_as_the_enumerator_judges_them(chunk):
    """Where both decide a plan with branches, wildcards or threads, they give the same outcome."""
    kind, first = chunk
    differences, decided, blamed = {}, 0, 0
    for seed in range(first, first + CHUNK):
        document = getattr(opened, kind)(seed, random.Random(seed))
        for model in models_of(kind):
            found = compare(document, model, Effort(800 if kind == "raced" else 2_000, 0, seed))
            if found is None:
                continue
            decided += 1
            blamed += found[0].outcome.value != found[1]
            if not agree(*found):
                differences[seed, model] = found[1], found[0].outcome.value
    assert not differences
    assert decided >= CHUNK
    assert blamed <= 1 + decided // 50


@pytest.mark.parametrize("kernels", [1, 2, 3])
def test_pinned_kernels_are_judged_as_the_enumerator_judges_them(kernels):
    """With K resident kernels started in issue order both give the same outcome."""
    differences, decided = {}, 0
    for seed in range(40):
        document = generate(seed)
        for model in DEVICES:
            found = compare(document, model, Effort(4_000, 0, seed, kernels=kernels))
            decided += found is not None
            if found is not None and found[0].outcome.value != found[1]:
                differences[seed, model] = found[1], found[0].outcome.value
    assert not differences
    assert decided > 100


@pytest.mark.parametrize("kernels", [1, 2, None])
def test_free_starts_are_judged_as_the_enumerator_judges_them(kernels):
    """With kernels that start in any order both give the same outcome."""
    differences, decided = {}, 0
    for seed in range(20):
        document = generate(seed)
        found = compare(document, "nccl", Effort(1_000, 0, seed, kernels=kernels, strict=False))
        decided += found is not None
        if found is not None and found[0].outcome.value != found[1]:
            differences[seed] = found[1], found[0].outcome.value
    assert not differences
    assert decided >= 5


@pytest.mark.parametrize(("kind", "model"), [("branched", "gloo"), ("wild", "mpi-eager")])
def test_random_open_plans_reach_every_outcome(kind, model):
    """The random plans are worth comparing: safe ones and unsafe ones of each kind occur."""
    seen = Counter(
        planguard.check(getattr(opened, kind)(seed, random.Random(seed)), model=model).outcome
        for seed in range(100)
    )
    for outcome in ("SAFE", "DEADLOCK", "MISMATCH", "POTENTIAL_DEADLOCK"):
        assert seen[planguard.Outcome(outcome)] >= 1
