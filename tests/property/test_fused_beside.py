"""Members of fused buffers beside calls of other groups: all orders of readiness, by brute force.

Plans of three ranks with up to eight members in buffers of every policy, blocking and asynchronous
calls of one or two other groups among them, waits and creations of communicators at random places.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

from oracle.enumerator import Effort, combine, enumerate_plan
from oracle.flushes import chain, every_execution, extensions
from oracle.program import OracleUnsupported

import planguard

if TYPE_CHECKING:
    import pytest

CI, CAMPAIGN = 16, 1_000
EXTENSIONS, EXECUTIONS = 24, 30
"""Plans with more orders on a rank, or more executions, are passed over."""
MODELS = ("gloo", "nccl", "nccl-serialized", "nccl-lazy", "gloo-detail", "mpi-sync")

Item = dict[str, Any]


def call(rng: random.Random, name: str, group: str) -> Item:
    """Return a call of another group."""
    found: Item = {"op": "all_reduce", "bytes": 8, "group": group, "label": name, "id": name}
    return found if rng.random() < 0.6 else {**found, "async": True, "work": name}


def body(rng: random.Random, items: list[Item], density: float) -> list[Any]:
    """Return items as a block: some after others, some in chains."""
    items = list(items)
    made: list[Any] = []
    for at, item in enumerate(items):
        after = [one["id"] for one in items[:at] if rng.random() < density]
        made.append({**item, "after": after} if after else item)
    return made


def spread(rng: random.Random, items: list[Item], density: float, spice: float) -> list[Item]:
    """Return items over one to three blocks, with waits for some of them in and between."""
    actions: list[Item] = []
    left = list(items)
    while left:
        size = rng.randint(max(1, len(left) // 2), len(left))
        part, left = left[:size], left[size:]
        inside = body(rng, part, density)
        if rng.random() < spice:
            one = rng.choice(part)
            if "work" in one:
                inside.append({"op": "wait", "work": one["work"], "after": [one["id"]]})
        if rng.random() < spice / 2:
            inside.insert(rng.randint(0, len(inside)), {"op": "init", "group": "other"})
        if rng.random() < 0.1:
            actions += [{k: v for k, v in one.items() if k != "after"} for one in part]
        else:
            actions.append({"op": "unordered", "body": inside})
        if left and rng.random() < 0.3:
            ids = [one["work"] for one in part if "work" in one]
            waited = {one.get("work") for one in inside if one["op"] == "wait"}
            ids = [name for name in ids if name not in waited]
            if ids:
                actions.append({"op": "wait", "work": rng.choice(ids)})
    waited = {
        name
        for item in actions
        for one in item.get("body", [item])
        if one["op"] == "wait"
        for name in (one["work"] if isinstance(one["work"], list) else [one["work"]])
    }
    rest = [one["work"] for one in items if "work" in one and one["work"] not in waited]
    return [*actions, {"op": "wait", "work": rest}] if rest else actions


def random_plan(seed: int) -> Item:
    """Return a plan of three ranks."""
    rng = random.Random(seed)
    world = 3 if rng.random() < 0.7 else 2
    everybody = list(range(world))
    groups = {"grads": {"ranks": everybody}, "other": {"ranks": everybody},
              "third": {"ranks": everybody[: rng.choice([2, world])]}}  # fmt: skip
    fusion, items = [], []
    for number in range(rng.choice([1, 1, 1, 2])):
        names = [f"{'ab'[number]}{n}" for n in range(rng.randint(2, 8 if not number else 3))]
        group = rng.choice(["grads", "grads", "world"]) if not number else "world"
        policy = rng.choice([
            {"membership": "fixed", "launch": "ordered"},
            {"membership": "fixed", "launch": "ordered"},
            {"membership": "fixed", "launch": "ordered", "coordination": "rank0-broadcast"},
            {"membership": "fixed", "launch": "when-ready"},
            {"membership": "fixed", "launch": "when-ready", "drain": "ordered"},
            {"membership": "fill"},
        ])  # fmt: skip
        cap = rng.choice([4, 8, 12, 24])
        spec = {"id": f"buf{number}", "group": group, "members": names, "cap_bytes": cap, **policy}
        if rng.random() < 0.2:
            spec["buffers"] = 2
        fusion.append(spec)
        for name in names:
            size = 4 * (1 + sum(map(ord, name)) % 2)
            items.append({"op": "all_reduce", "bytes": size, "group": group, "id": name,
                          "label": name, "async": True, "work": name})  # fmt: skip
            if rng.random() < 0.04:
                del items[-1]["async"], items[-1]["work"]
    others = [
        call(rng, f"x{n}", rng.choice(["other", "other", "third"]))
        for n in range(rng.randint(1, 3))
    ]
    density = rng.choice([0.3, 0.5, 0.7, 0.9])
    spice = rng.choice([0.0, 0.0, 0.3])
    head = [{"op": "init", "group": name} for name in ("grads", "other", "third", "world")]
    first = rng.random() < 0.5
    mixed = items + others
    rng.shuffle(mixed)
    shared = rng.randint(0, 1 << 30)
    ranks = {}
    for rank in everybody:
        own = random.Random(shared if rng.random() < 0.85 else seed * 7 + rank)
        mine = [
            one for one in mixed if rank in groups.get(one["group"], {"ranks": everybody})["ranks"]
        ]
        actions = spread(own, mine, density, spice)
        made = [
            one for one in head if rank in groups.get(one["group"], {"ranks": everybody})["ranks"]
        ]
        ranks[str(rank)] = {"actions": [*(made if first else []), *actions]}
    return {"schema": "planguard.plan/1", "world_size": world, "groups": groups,
            "fusion": fusion, "ranks": ranks}  # fmt: skip


def is_small(plan: Item) -> bool:
    """Whether no rank has more orders than are played through."""
    for rank in plan["ranks"].values():
        total = 1
        for item in rank["actions"]:
            found: list[Any] = []
            chain([item], frozenset(), found)
            count = 0
            for count, _ in enumerate(extensions(found, []), 1):
                if count > EXTENSIONS:
                    return False
            total *= count
        if total > EXTENSIONS:
            return False
    return True


def compare(seeds: range) -> Counter[tuple[str, str]]:
    """Check random plans; return how often which outcome met which."""
    seen: Counter[tuple[str, str]] = Counter()
    for seed in seeds:
        plan = random_plan(seed)
        model = MODELS[seed % len(MODELS)]
        try:
            found = planguard.check(plan, model=model).outcome.value
        except planguard.PlanError:
            seen["refused", "-"] += 1
            continue
        if not is_small(plan):
            seen["passed over", found] += 1
            continue
        executions = every_execution(plan)
        if len(executions) > EXECUTIONS:
            seen["passed over", found] += 1
            continue
        try:
            endings = [
                ending
                for fixed in executions
                for ending in enumerate_plan(fixed, model, Effort(verify=0)).endings
            ]
        except OracleUnsupported:
            seen["not played", found] += 1
            continue
        expected = combine(endings, 0).outcome
        if found not in {expected, "UNKNOWN"}:
            own = {planguard.check(fixed, model=model).outcome.value for fixed in executions}
            agreed = "MISMATCH" if "MISMATCH" in own else "POTENTIAL_DEADLOCK"
            assert found == (own.pop() if len(own) == 1 else agreed), (seed, model, expected, found)
            assert "SAFE" not in {found, expected}
            expected = "fixed plans differ"
        seen[expected, found] += 1
    return seen


def test_members_beside_other_calls_agree_with_brute_force(request: pytest.FixtureRequest) -> None:
    """The outcome is that of all orders of readiness on all ranks."""
    count = CAMPAIGN if request.config.getoption("--slow") else CI
    seen = compare(range(count))
    print(seen)
    decided = Counter(found for (expected, found), n in seen.items() for _ in range(n)
                      if found != "UNKNOWN" and " " not in expected)  # fmt: skip
    assert decided["SAFE"] > count // 10
    assert decided.total() > count // 2
    unknown = sum(n for (_, found), n in seen.items() if found == "UNKNOWN")
    assert unknown <= count // 10


def beside(members: int, others: list[Item], **policy: str) -> Item:
    """Return a plan of four ranks: many members and other calls, all free in one block."""
    names = [f"g{n}" for n in range(members)]
    grads = [
        {
            "op": "all_reduce",
            "bytes": 4,
            "group": "dp",
            "async": True,
            "id": n,
            "label": n,
            "work": n,
        }
        for n in names
    ]
    waits = [*names, *(one["work"] for one in others if "work" in one)]
    actions = [{"op": "unordered", "body": [*grads, *others]}, {"op": "wait", "work": waits}]
    return {
        "schema": "planguard.plan/1", "world_size": 4,
        "groups": {"dp": {"ranks": [0, 1, 2, 3]}, "tp": {"ranks": [0, 1, 2, 3]}},
        "fusion": [{"id": "ddp", "group": "dp", "members": names, "cap_bytes": 8,
                    "membership": "fixed", "launch": "ordered", **policy}],
        "ranks": {"0-3": {"actions": actions}},
    }  # fmt: skip


BLOCKING: Item = {"op": "all_reduce", "bytes": 8, "group": "tp", "label": "stats", "id": "stats"}


def test_forty_members_beside_a_call_of_another_group_are_decided() -> None:
    """40! orders of readiness: under gloo a blocking call beside asynchronous buckets is SAFE, with
    one queue per device the bucket and the call may change places on one rank.
    """
    plan = beside(40, [BLOCKING])
    assert planguard.check(plan, model="gloo").outcome.value == "SAFE"
    for model in ("nccl", "nccl-serialized"):
        verdict = planguard.check(plan, model=model)
        assert verdict.outcome.value == "POTENTIAL_DEADLOCK"
        assert verdict.errors[0].witness is not None
        assert verdict.errors[0].certainty == "some-execution"


def test_a_call_behind_all_members_is_safe_at_any_size() -> None:
    """Where every member comes before the call on every rank, no queue turns round."""
    last = {**BLOCKING, "after": [f"g{n}" for n in range(40)]}
    for model in ("gloo", "nccl", "nccl-serialized"):
        assert planguard.check(beside(40, [last]), model=model).outcome.value == "SAFE"


def test_a_bucket_that_two_calls_complete_leaves_no_room_behind_them() -> None:
    """Calls X after a and Y after b, a bucket of both, and Z: the order X, Y, Z, bucket exists in
    the relaxed program only, and a pair of them can be turned round all the same.
    """
    x, y, z = ({**BLOCKING, "id": n, "label": n, "group": "tp", **more}
               for n, more in (("x", {"after": ["g0"]}), ("y", {"after": ["g1", "x"]}),
                               ("z", {"after": ["y"]})))  # fmt: skip
    assert planguard.check(beside(2, [x, y, z]), model="gloo").outcome.value == "SAFE"
    assert planguard.check(beside(2, [x, y, z]), model="nccl").outcome.value == "POTENTIAL_DEADLOCK"


def test_a_wait_for_a_bucket_that_may_launch_later_can_get_stuck_alone() -> None:
    """A wait in the block for a member whose bucket another member completes: stuck in the orders
    in which the wait comes first, whatever the other ranks do.
    """
    wait = {"op": "wait", "work": "g0", "after": ["g0"]}
    plan = beside(12, [wait])
    plan["ranks"]["0-3"]["actions"][1]["work"].remove("g0")
    verdict = planguard.check(plan, model="gloo")
    assert verdict.outcome.value == "POTENTIAL_DEADLOCK"
    wait = {**wait, "after": ["g0", "g1"]}
    plan = beside(12, [wait])
    plan["ranks"]["0-3"]["actions"][1]["work"] = [f"g{n}" for n in range(1, 12)]
    assert planguard.check(plan, model="gloo").outcome.value == "SAFE"
