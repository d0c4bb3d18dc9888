"""Hierarchical collectives: where the data goes, which are safe, what differing ranks do."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

import pytest

import planguard
from planguard import registry
from planguard.errors import PlanError, UsageError
from planguard.testing import check_adapter

TESTS = Path(__file__).resolve().parents[1]

from oracle.enumerator import Effort, enumerate_plan  # noqa: E402

adapter = registry.find("hiccl")

from planguard.planners.hiccl.factor import factor  # noqa: E402
from planguard.planners.hiccl.reading import COLLECTIVES, read_composition  # noqa: E402

FOLDER = TESTS.parent / "tests" / "samples" / "hiccl"
NAMES = sorted(path.name.removesuffix(".hiccl.json") for path in FOLDER.glob("*.hiccl.json"))
MODELS = ("gloo", "nccl", "nccl-eager", "mpi-sync")


def sample(name: str) -> dict:
    """Return a sample, parsed."""
    return json.loads((FOLDER / f"{name}.hiccl.json").read_text())


def described(**fields) -> dict:
    """Return a description."""
    return {"schema": "planguard.hiccl/1", **fields}


def transfers(plan: planguard.Plan) -> list[Counter]:
    """Return sends and receives of every rank."""
    ranks = json.loads(plan.source)["ranks"]
    return [
        Counter(one["op"] for batch in ranks[str(rank)]["actions"] for one in batch["ops"])
        for rank in range(len(ranks))
    ]


# --- where the data goes -------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [[8], [2, 4], [4, 2], [2, 2, 2], [3, 2]])
@pytest.mark.parametrize("ring", [False, True])
@pytest.mark.parametrize("stripe", [1, 2])
@pytest.mark.parametrize("pipeline", [1, 3])
def test_a_broadcast_reaches_every_rank_once_it_has_the_data(levels, ring, stripe, pipeline):
    """Every rank forwards only what it has, and ends with all of the bytes."""
    document = described(
        levels=levels, collective="broadcast", root=1, bytes=600, ring=ring, stripe=stripe,
        pipeline=pipeline,
    )  # fmt: skip
    composition = read_composition(document)[2][0]
    has = {rank: set() for rank in range(composition.ranks)}
    pieces = {one.label: one.bytes for step in factor(composition) for one in step}
    has[1] = set(pieces)
    for step in factor(composition):
        for one in step:
            assert one.label in has[one.src], one
        for one in step:
            assert one.label not in has[one.dst] or one.src == one.dst, one
            has[one.dst].add(one.label)
    assert sum(pieces.values()) == 600
    assert all(found == set(pieces) for found in has.values())


@pytest.mark.parametrize("levels", [[6], [2, 3], [2, 2, 2]])
@pytest.mark.parametrize("ring", [False, True])
@pytest.mark.parametrize("stripe", [1, 2])
def test_a_reduction_brings_every_contribution_to_the_root_once(levels, ring, stripe):
    """Partial sums flow to the root without losing or repeating a contribution."""
    document = described(
        levels=levels, collective="reduce", root=1, bytes=600, ring=ring, stripe=stripe
    )
    composition = read_composition(document)[2][0]
    steps = factor(composition)
    for piece in {one.label for step in steps for one in step}:
        holds = {rank: Counter([rank]) for rank in range(composition.ranks)}
        for step in steps:
            for one, moved in [(t, holds[t.src]) for t in step if t.label == piece]:
                holds[one.src] = Counter()
                holds[one.dst] = holds[one.dst] + moved
        assert holds[1] == Counter(range(composition.ranks))


# --- correct collectives -------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_is_safe_under_several_models(name):
    """Batches of one step need no buffering, so every model finds them safe."""
    for model in MODELS:
        outcome = planguard.check(FOLDER / f"{name}.hiccl.json", model=model).outcome
        assert outcome.value == "SAFE", model


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("how", [{}, {"stripe": 2}, {"ring": True, "pipeline": 2}])
def test_every_collective_is_safe(collective, how):
    """Every composition on 3 nodes of 2 is SAFE, however it is factored."""
    plan = planguard.load(described(levels=[3, 2], collective=collective, bytes=600, **how),
                          planner="hiccl")  # fmt: skip
    assert planguard.check(plan).outcome.value == "SAFE"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("broadcast-2x4", [7, 3, 3, 3, 3, 3, 3, 3]),
        ("all-gather-2x2x2", [7] * 8),
        ("all-reduce-2x4", [28] * 8),
        ("all-to-all-2x3", [5] * 6),
        ("composed-2x2", [3, 3, 3, 3]),
    ],
)
def test_every_rank_has_the_expected_sends(name, expected):
    """Sends per rank are what the factored tree or ring needs."""
    counts = transfers(planguard.load(FOLDER / f"{name}.hiccl.json"))
    assert [count["isend"] for count in counts] == expected
    assert sum(c["isend"] for c in counts) == sum(c["irecv"] for c in counts)


@pytest.mark.parametrize("name", NAMES)
def test_the_adapter_keeps_its_contract(name):
    """Sources, labels, repeatability, damage: what every adapter owes."""
    check_adapter(adapter, FOLDER / f"{name}.hiccl.json", strangers=({"schema": "other/1"},))


# --- ranks that believe something else -----------------------------------------------------------

TWO = [
    {"op": "multicast", "root": 0, "ranks": [1, 2, 3], "bytes": 4096},
    "fence",
    {"op": "multicast", "root": 1, "ranks": [0, 2, 3], "bytes": 4096},
]
MISTAKES = {
    "swap": ({"compose": TWO[::-1]}, {"MISMATCH", "DEADLOCK"}),
    "drop": ({"compose": TWO[:1]}, {"DEADLOCK"}),
    "duplicate": ({"compose": [*TWO, "fence", TWO[0]]}, {"DEADLOCK"}),
    "root": ({"compose": [TWO[0], "fence", {**TWO[2], "root": 2, "ranks": [0, 1, 3]}]},
             {"DEADLOCK"}),
    "size": ({"compose": [{**TWO[0], "bytes": 2048}, *TWO[1:]]}, {"MISMATCH"}),
    "group": ({"levels": [4]}, {"DEADLOCK"}),
    "ring": ({"pipeline": 2}, {"MISMATCH", "DEADLOCK"}),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_rank_that_differs_is_judged_as_the_enumerator_judges_it(mistake):
    """One rank with another composition is found, and the enumerator agrees."""
    change, expected = MISTAKES[mistake]
    document = described(levels=[2, 2], compose=TWO, ranks={"2": change})
    plan = planguard.load(document, planner="hiccl")
    for model in ("gloo", "nccl-serialized"):
        outcome = planguard.check(plan, model=model).outcome.value
        assert outcome in expected
        oracle = enumerate_plan(json.loads(plan.source), model, Effort(verify=0)).outcome
        assert outcome == oracle, model


# --- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"collective": "broadcast", "bytes": 1}, "'levels' is missing"),
        ({"levels": [], "collective": "broadcast", "bytes": 1}, "expected levels"),
        ({"levels": [2, 0], "collective": "broadcast", "bytes": 1}, "expected an integer"),
        ({"levels": [1 << 14, 2], "collective": "broadcast", "bytes": 1}, "expected levels"),
        ({"levels": [2], "bytes": 1}, "either 'collective' or 'compose'"),
        ({"levels": [2], "collective": "scan", "bytes": 1}, "unknown collective"),
        ({"levels": [2], "collective": "broadcast"}, "'bytes' is missing"),
        ({"levels": [2], "collective": "broadcast", "bytes": 1, "root": 2}, "from 0 to 1"),
        ({"levels": [2], "collective": "all_reduce", "bytes": 4, "root": 1}, "has no root"),
        ({"levels": [4], "collective": "all_gather", "bytes": 3}, "fewer bytes than ranks"),
        ({"levels": [2], "collective": "broadcast", "bytes": 1, "stripes": 1}, "unknown field"),
        ({"levels": [2, 2], "collective": "broadcast", "bytes": 8, "stripe": 3}, "from 1 to 2"),
        ({"levels": [2], "compose": [{"op": "multicast"}]}, "a primitive has"),
        ({"levels": [2], "collective": "broadcast", "bytes": 1, "ranks": {"2": {}}}, "no rank"),
        (
            {"levels": [2], "collective": "broadcast", "bytes": 1, "ranks": {"1": {"levels": [3]}}},
            "another number of ranks",
        ),
        ({"levels": [1] * 2000, "collective": "broadcast", "bytes": 1}, "expected levels"),
        ({"levels": [128, 128], "collective": "all_gather", "bytes": 1 << 20}, "524,288 messages"),
        (
            {"levels": [4, 9, 4, 4], "collective": "all_reduce", "bytes": 1 << 20, "stripe": 4},
            "more than 524,288 messages",
        ),
        (
            {
                "levels": [8, 8],
                "collective": "all_gather",
                "bytes": 64,
                "stripe": 8,
                "ranks": {str(rank): {"bytes": 128 + rank} for rank in range(64)},
            },
            "more than 524,288 messages",
        ),
    ],
)
def test_a_malformed_description_is_refused_with_its_path(fields, where):
    """Every defect is a PlanError with its JSON path."""
    begin = time.process_time()
    with pytest.raises(PlanError, match=where) as caught:
        planguard.load(described(**fields), planner="hiccl")
    assert caught.value.path.startswith("$")
    assert time.process_time() - begin < 10


def test_a_misspelt_option_is_refused():
    """An option that does not exist is answered with those that do."""
    with pytest.raises(UsageError, match="no option"):
        planguard.load(sample("composed-2x2"), planner="hiccl", names="x")
