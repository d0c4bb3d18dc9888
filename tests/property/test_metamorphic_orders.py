"""Relations between plans that leave an order open: what fewer orders and larger buckets may do."""

from __future__ import annotations

import copy
import random
from collections import Counter
from typing import Any

import pytest

import planguard

CI, CAMPAIGN = 80, 1_000
pytestmark = pytest.mark.timeout(3_600)  # a thousand plans take minutes
Item = dict[str, Any]


@pytest.fixture(name="count")
def _count(request: pytest.FixtureRequest) -> int:
    """How many plans a relation is tried on."""
    return CAMPAIGN if request.config.getoption("--slow") else CI


def outcome(document: Item, model: str) -> str:
    """The outcome of a plan under a model."""
    return planguard.check(document, model=model).outcome.value


def block(rng: random.Random, labels: list[str], group_of: dict[str, str]) -> list[Item]:
    """An unordered block of asynchronous reductions with random precedences, and its waits."""
    shuffled = list(labels)
    if rng.random() < 0.3:
        rng.shuffle(shuffled)
    body: list[Item] = []
    for label in shuffled:
        call: Item = {"op": "all_reduce", "bytes": 4, "label": label, "id": label}
        call |= {"group": group_of[label], "async": True, "work": label}
        earlier = [one["id"] for one in body if rng.random() < 0.6]
        body.append(call | ({"after": earlier} if earlier else {}))
    return [{"op": "unordered", "body": body}, {"op": "wait", "work": list(labels)}]


def open_plan(seed: int) -> Item:
    """Two or three ranks that reduce on one or two groups in an order that is partly open."""
    rng = random.Random(seed)
    world = rng.choice([2, 2, 3])
    labels = [f"t{number}" for number in range(rng.randint(2, 4))]
    groups = rng.choice([["world"], ["world", "pair"]])
    group_of = {label: rng.choice(groups) for label in labels}
    common = block(rng, labels, group_of)
    own = block(rng, labels, group_of) if rng.random() < 0.5 else common
    return {
        "schema": "planguard.plan/1",
        "world_size": world,
        "groups": {"pair": {"ranks": list(range(world))}},
        "ranks": {
            str(rank): {"actions": copy.deepcopy(own if rank == 0 else common)}
            for rank in range(world)
        },
    }


def made_synchronous(document: Item, label: str) -> Item:
    """The plan in which one reduction blocks its host on every rank."""
    changed = copy.deepcopy(document)
    for program in changed["ranks"].values():
        start, wait = program["actions"]
        for call in start["body"]:
            if call["label"] == label:
                del call["async"], call["work"]
        wait["work"].remove(label)
        if not wait["work"]:
            program["actions"].remove(wait)
    return changed


@pytest.mark.parametrize("model", ["gloo", "nccl", "mpi-sync"])
def test_a_synchronous_call_adds_no_wrong_match(model: str, count: int) -> None:
    """Fewer orders can get stuck where more did not, but never match what could not match."""
    seen: Counter[tuple[str, str]] = Counter()
    for seed in range(count):
        document = open_plan(seed)
        before = outcome(document, model)
        if before != "SAFE":
            seen["passed over", before] += 1
            continue
        label = f"t{seed % 2}"
        after = outcome(made_synchronous(document, label), model)
        assert after != "MISMATCH", seed
        seen[before, after] += 1
    assert seen["SAFE", "SAFE"] > count // 20


def fused_plan(seed: int, cap: int) -> Item:
    """Equal tensors in fixed buckets of ``cap`` bytes that are launched when they are full."""
    rng = random.Random(seed)
    labels = [f"g{number}" for number in range(8)]
    body: list[Item] = []
    for label in labels:
        call: Item = {"op": "all_reduce", "bytes": 4, "label": label, "id": label}
        call |= {"async": True, "work": label}
        earlier = [one["id"] for one in body if rng.random() < 0.5]
        body.append(call | ({"after": earlier} if earlier else {}))
    actions = [{"op": "unordered", "body": body}, {"op": "wait", "work": labels}]
    buffer: Item = {"id": "buffer", "group": "world", "members": labels, "cap_bytes": cap}
    buffer |= {"membership": "fixed", "launch": "when-ready", "coordination": "none"}
    return {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "fusion": [buffer],
        "ranks": {"0-1": {"actions": actions}},
    }


@pytest.mark.parametrize("model", ["gloo", "nccl"])
def test_merging_neighboring_buckets_keeps_a_safe_plan_safe(model: str, count: int) -> None:
    """A bucket precedes another if each of its tensors precedes one of the other's, so what held
    for both halves holds for the whole: the smaller limit admits every order of the larger one.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    for seed in range(count):
        found = tuple(outcome(fused_plan(seed, cap), model) for cap in (4, 8, 16, 32))
        assert "UNKNOWN" not in found, seed
        safe = [one == "SAFE" for one in found]
        assert safe == sorted(safe), (seed, found)
        assert safe[-1], seed  # one bucket has nothing to change places with
        seen[found] += 1
    assert len(seen) > 2, seen


def windowed_plan(seed: int, width: int) -> Item:
    """Reductions on several groups; each may overtake those less than a width before it."""
    rng = random.Random(seed)
    labels = [f"g{number}" for number in range(6)]
    names = ["world", "second", "third", "fourth"]
    offset = rng.randrange(4)
    body: list[Item] = []
    for number, label in enumerate(labels):
        group = names[(number + offset) % 4] if rng.random() < 0.9 else rng.choice(names)
        call: Item = {"op": "all_reduce", "bytes": 4, "label": label, "id": label, "group": group}
        call |= {"async": True, "work": label} if rng.random() < 0.9 else {}
        body.append(call | ({"after": labels[: number - width + 1]} if number >= width else {}))
    works = [call["work"] for call in body if "work" in call]
    actions = [
        {"op": "unordered", "body": body},
        *([{"op": "wait", "work": works}] if works else []),
    ]
    return {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "groups": {name: {"ranks": [0, 1]} for name in names[1:]},
        "ranks": {"0-1": {"actions": actions}},
    }


@pytest.mark.parametrize("model", ["gloo", "nccl", "mpi-sync"])
def test_a_smaller_window_keeps_a_safe_plan_safe(model: str, count: int) -> None:
    """Where order is free inside the limit, the larger one admits every order of the smaller."""
    seen: Counter[tuple[str, ...]] = Counter()
    for seed in range(count if count == CAMPAIGN else count // 4):
        found = tuple(outcome(windowed_plan(seed, width), model) for width in range(1, 7))
        assert "UNKNOWN" not in found, seed
        safe = [one == "SAFE" for one in found]
        assert safe == sorted(safe, reverse=True), (seed, found)
        assert safe[0], seed  # a window of one is a fixed order
        seen[found] += 1
    assert len(seen) > 2, seen
