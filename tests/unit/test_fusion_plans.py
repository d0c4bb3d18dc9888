"""Plans with fused buffers: the verdict against every order of readiness of every rank."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

import pytest

import planguard
from planguard.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

PLANS = 200


def gradient(name: str, nbytes: int = 4) -> dict[str, Any]:
    """Return a member: an asynchronous all_reduce with a handle of its own."""
    fixed = {"op": "all_reduce", "async": True}
    return {**fixed, "bytes": nbytes, "id": name, "label": name, "work": name}


def plan_of(programs: list[list[dict[str, Any]]], **buffer: Any) -> dict[str, Any]:
    """Return a plan of one fused buffer over all ranks."""
    blocks = [item for actions in programs for item in actions if item["op"] == "unordered"]
    members = dict.fromkeys(
        item["id"] for block in blocks for item in block["body"] if "id" in item
    )
    return {
        "schema": "planguard.plan/1",
        "world_size": len(programs),
        "fusion": [{"id": "fused", "group": "world", "members": list(members), **buffer}],
        "ranks": {str(rank): {"actions": actions} for rank, actions in enumerate(programs)},
    }


def settle(blocks: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return a program: blocks of members, then a wait for all of them."""
    names = [item["id"] for body in blocks for item in body]
    return [
        *({"op": "unordered", "body": body} for body in blocks),
        {"op": "wait", "work": names},
    ]


def random_blocks(rng: random.Random, sizes: dict[str, int]) -> list[list[dict[str, Any]]]:
    """Return the members in one or two blocks, some ordered by `after`."""
    names = list(sizes)
    rng.shuffle(names)
    cut = rng.randint(0, len(names) - 1)
    blocks = []
    for part in (names[:cut], names[cut:]):
        body = []
        for place, name in enumerate(part):
            earlier = [other for other in part[:place] if rng.random() < 0.6]
            body.append(gradient(name, sizes[name]) | ({"after": earlier} if earlier else {}))
        blocks.append(body)
    return [body for body in blocks if body]


def readiness(blocks: list[list[dict[str, Any]]]) -> Iterator[list[str]]:
    """Yield every order in which the members of a program become ready, by permuting."""
    per_block = []
    for body in blocks:
        needs = {item["id"]: item.get("after", []) for item in body}
        per_block.append(
            [
                order
                for order in itertools.permutations(needs)
                if all(order.index(f) < order.index(n) for n in needs for f in needs[n])
            ]
        )
    for orders in itertools.product(*per_block):
        yield [name for order in orders for name in order]


def greedy(order: list[str], sizes: dict[str, int], cap: int) -> list[frozenset[str]]:
    """Return buckets filled in order and flushed before they overflow."""
    buckets: list[list[str]] = []
    for name in order:
        if not buckets or sum(sizes[held] for held in buckets[-1]) + sizes[name] > cap:
            buckets.append([])
        buckets[-1].append(name)
    return [frozenset(bucket) for bucket in buckets]


def flushed(
    order: list[str], members: list[str], sizes: dict[str, int], policy: dict[str, Any]
) -> tuple[frozenset[str], ...]:
    """Return what one rank flushes, in order: the meaning of the policy, played through."""
    if policy["membership"] == "fill":
        return tuple(greedy(order, sizes, policy["cap_bytes"]))
    count = policy.get("buffers", 1)
    dealt = [greedy(members[k::count], sizes, policy["cap_bytes"]) for k in range(count)]
    dealt = [buckets for buckets in dealt if buckets]
    if policy["launch"] == "ordered":
        every = [bucket for buckets in dealt for bucket in buckets]
        return tuple(sorted(every, key=lambda b: max(members.index(name) for name in b)))
    last = [] if policy["drain"] == "free" else [buckets[-1] for buckets in dealt]
    waiting = [b for buckets in dealt for b in buckets if b not in last]
    done = []
    for length in range(1, len(order) + 1):
        ready = [bucket for bucket in waiting if bucket <= set(order[:length])]
        done += ready
        waiting = [bucket for bucket in waiting if bucket not in ready]
    return (*done, *last)


@pytest.mark.parametrize("model", ["nccl", "gloo"])
@pytest.mark.parametrize("membership", ["fill", "fixed"])
def test_random_plans_agree_with_every_order(membership: str, model: str) -> None:
    """SAFE iff all ranks flush alike in all orders of readiness; else MISMATCH, never UNKNOWN."""
    rng = random.Random(f"{membership} {model}")
    seen: dict[Outcome, int] = {}
    for _ in range(PLANS):
        sizes = {f"g{n}": 4 * rng.randint(1, 4) for n in range(rng.randint(1, 5))}
        policy = {
            "membership": membership,
            "launch": rng.choice(["ordered", "when-ready", "when-ready"]),
            "drain": rng.choice(["ordered", "free"]),
            "coordination": "none",
            "cap_bytes": 4 * rng.randint(1, 10),
        }
        if membership == "fixed" and rng.random() < 0.4:
            policy["buffers"] = rng.randint(1, 3)
        blocks = [random_blocks(rng, sizes) for _ in range(rng.randint(2, 3))]
        if rng.random() < 0.5:
            blocks = [blocks[0]] * len(blocks)
        plan = plan_of([settle(body) for body in blocks], **policy)
        members = plan["fusion"][0]["members"]
        sequences = {
            flushed(order, members, sizes, policy) for body in blocks for order in readiness(body)
        }
        expected = Outcome.SAFE if len(sequences) == 1 else Outcome.MISMATCH
        verdict = planguard.check(plan, model=model)
        assert verdict.outcome is expected, (plan, [f.message for f in verdict.findings])
        seen[expected] = seen.get(expected, 0) + 1
        if verdict.unsafe:
            assert {f.code for f in verdict.errors} <= {"PG103", "PG104"}
    assert min(seen[Outcome.SAFE], seen[Outcome.MISMATCH]) > PLANS // 10


@pytest.mark.parametrize("coordination", ["rank0-broadcast", "negotiated"])
@pytest.mark.parametrize("launch", ["ordered", "when-ready"])
def test_coordinated_buffers_are_safe(coordination: str, launch: str) -> None:
    """Ranks that agree on one order are SAFE, and the agreement is stated as an assumption."""
    program = settle([[gradient("a"), gradient("b"), gradient("c")]])
    plan = plan_of([program, program], cap_bytes=8, launch=launch, coordination=coordination)
    verdict = planguard.check(plan)
    assert verdict.outcome is Outcome.SAFE
    assert "coordinated-fusion" in verdict.assumptions
    assert "fusion-order" in verdict.proved
    assert verdict.evidence.route[0] == "fusion"


def test_witness_names_both_sequences_and_the_largest_safe_policy() -> None:
    """PG103 shows two sequences of flushes, the order of readiness and what would be safe."""
    program = settle([[gradient("a"), gradient("b"), gradient("c")]])
    buffer = {"cap_bytes": 8, "coordination": "none", "membership": "fixed"}
    verdict = planguard.check(plan_of([program, program], launch="when-ready", **buffer))
    finding = next(f for f in verdict.findings if f.code == "PG103")
    assert finding.witness is not None
    assert finding.certainty == "some-execution"
    text = "\n".join(finding.notes)
    assert "{c}, {a, b}" in text
    assert "{a, b}, {c}" in text
    assert "cap >= 12 B, or with ordered launch" in text
    assert [(c.kind, c.buffers) for c in verdict.safe_iff] == [("fusion-order", ("fused",))]
    assert planguard.check(plan_of([program, program], launch="ordered", **buffer)).safe
    assert planguard.check(
        plan_of([program, program], launch="when-ready", **{**buffer, "cap_bytes": 12})
    ).safe


def test_missing_member_is_a_divergent_layout() -> None:
    """A rank without one of the members builds another layout: PG104."""
    buffer = {"cap_bytes": 8, "membership": "fixed", "launch": "ordered", "coordination": "none"}
    full, short = settle([[gradient("a"), gradient("b")]]), settle([[gradient("a")]])
    verdict = planguard.check(plan_of([full, short], **buffer))
    assert verdict.outcome is Outcome.MISMATCH
    assert {f.code for f in verdict.errors} == {"PG104"}


def test_residual_without_a_wait_is_never_flushed() -> None:
    """What is left in a filled buffer that nothing waits for is PG307; the rest is decided."""
    body = [{"op": "unordered", "body": [gradient(name)]} for name in "abc"]
    program = [*body, {"op": "wait", "work": ["a"]}]
    verdict = planguard.check(plan_of([program, program], cap_bytes=8, membership="fill"))
    assert [f.code for f in verdict.findings] == ["PG307"]
    assert verdict.outcome is Outcome.SAFE
    assert "holds c " in verdict.findings[0].message


def test_what_rank_0_never_waits_for_may_not_be_sent() -> None:
    """Rank 0 would keep the last bucket of a filled buffer: whether others get it is not known."""
    body = {"op": "unordered", "body": [gradient("a"), gradient("b")]}
    wait = {"op": "wait", "work": ["a", "b"]}

    def outcome(first: list[dict[str, Any]], second: list[dict[str, Any]], **more: Any) -> Outcome:
        plan = plan_of([first, second], coordination="rank0-broadcast", **more)
        return planguard.check(plan, model="gloo").outcome

    assert outcome([body], [body, wait]) is Outcome.UNKNOWN
    assert outcome([body], [body, wait], membership="fixed") is Outcome.SAFE
    assert outcome([body, wait], [body]) is Outcome.SAFE
    assert outcome([body], [body]) is Outcome.SAFE
    own = {"op": "wait", "work": ["a"]}
    assert outcome([body, own], [body, wait]) is Outcome.SAFE
    assert outcome([body, own], [body, wait], cap_bytes=4) is Outcome.UNKNOWN


def test_a_wait_of_rank_0_may_end_a_bucket_of_the_order_that_it_sends() -> None:
    """Sent with the bucket that the wait ended all goes well; sent without, the wait never ends."""
    program = [
        {"op": "unordered", "body": [gradient("a")]},
        {"op": "wait", "work": ["a"]},
        {"op": "unordered", "body": [gradient("b")]},
        {"op": "wait", "work": ["b"]},
    ]

    def outcome(**more: Any) -> Outcome:
        plan = plan_of([program, program], coordination="rank0-broadcast", **more)
        return planguard.check(plan, model="gloo").outcome

    assert outcome(cap_bytes=8) is Outcome.UNKNOWN
    assert outcome(cap_bytes=4) is Outcome.SAFE
    assert outcome(cap_bytes=4, membership="fixed") is Outcome.SAFE
    assert outcome(cap_bytes=8, membership="fixed") is Outcome.DEADLOCK


def test_places_where_a_wait_may_end_a_bucket_are_counted() -> None:
    """An early wait leaves 33 million layouts of 26 members in one order: UNKNOWN, with the limit
    without a budget and by the clock with one. Where no bucket has room for two there is one.
    """
    names = [f"g{number}" for number in range(26)]
    program = [
        *map(gradient, names[:2]),
        {"op": "wait", "work": ["g0"]},
        *map(gradient, names[2:]),
        {"op": "wait", "work": names[1:]},
    ]
    plan = plan_of([program, program], coordination="rank0-broadcast", membership="fill")
    plan["fusion"][0]["members"] = names

    def reasons(budget: float | None = None) -> str:
        verdict = planguard.check(plan, model="gloo", budget=budget)
        assert verdict.outcome is Outcome.UNKNOWN
        return " ".join(finding.message for finding in verdict.findings)

    assert "more than 5,040 ways in which rank 0 may fill fused buffer fused" in reasons()
    assert "ways in which rank 0 may fill fused buffer fused" in reasons(0.2)
    plan["fusion"][0]["cap_bytes"] = 4
    assert planguard.check(plan, model="gloo").outcome is Outcome.SAFE


BARRIER = {"op": "barrier"}
SYNCHRONOUS = {"op": "all_reduce", "bytes": 4, "id": "b", "label": "b"}
DECIDED = {
    "other communication in the block, before any flush": (
        [
            {"op": "unordered", "body": [gradient("a"), gradient("b"), BARRIER]},
            {"op": "wait", "work": ["a", "b"]},
        ],
        {"cap_bytes": 64, "membership": "fill"},
        Outcome.SAFE,
    ),
    "other communication in the block, around a flush": (
        [
            {"op": "unordered", "body": [gradient("a"), gradient("b"), BARRIER]},
            {"op": "wait", "work": ["a", "b"]},
        ],
        {"cap_bytes": 8, "membership": "fixed"},
        Outcome.MISMATCH,
    ),
    "waited for before the next block": (
        [
            {"op": "unordered", "body": [gradient("a")]},
            {"op": "wait", "work": "a"},
            {"op": "unordered", "body": [gradient("b")]},
            {"op": "wait", "work": "b"},
        ],
        {"cap_bytes": 64, "membership": "fill"},
        Outcome.SAFE,
    ),
    "waited for before its fixed bucket is complete": (
        [
            {"op": "unordered", "body": [gradient("a")]},
            {"op": "wait", "work": "a"},
            {"op": "unordered", "body": [gradient("b")]},
            {"op": "wait", "work": "b"},
        ],
        {"cap_bytes": 64, "membership": "fixed"},
        Outcome.DEADLOCK,
    ),
    "polled": (
        [
            {"op": "unordered", "body": [gradient("a"), gradient("b")]},
            {"op": "test", "work": "a"},
            {"op": "wait", "work": ["a", "b"]},
        ],
        {"cap_bytes": 64, "membership": "fill"},
        Outcome.SAFE,
    ),
    "synchronous member": (
        [
            {"op": "unordered", "body": [gradient("a"), SYNCHRONOUS]},
            {"op": "wait", "work": ["a"]},
        ],
        {"cap_bytes": 64, "membership": "fill"},
        Outcome.MISMATCH,
    ),
    "a pool that is filled, one member each": (
        [
            {"op": "unordered", "body": [gradient("a"), gradient("b")]},
            {"op": "wait", "work": ["a", "b"]},
        ],
        {"cap_bytes": 64, "membership": "fill", "buffers": 2},
        Outcome.SAFE,
    ),
    "a pool that is filled and overflows": (
        [
            {"op": "unordered", "body": [gradient("a"), gradient("b")]},
            {"op": "unordered", "body": [gradient("c"), gradient("d")]},
            {"op": "wait", "work": ["a", "b", "c", "d"]},
        ],
        {"cap_bytes": 4, "membership": "fill", "buffers": 2},
        Outcome.MISMATCH,
    ),
    "reduce_scatter": (
        [
            {"op": "unordered", "body": [
                gradient("a") | {"op": "reduce_scatter_tensor"},
                gradient("b") | {"op": "reduce_scatter_tensor"},
            ]},
            {"op": "wait", "work": ["a", "b"]},
        ],
        {"cap_bytes": 8, "membership": "fixed"},
        Outcome.SAFE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", DECIDED)
def test_coupled_uses_are_decided(why: str) -> None:
    """Waits between blocks, polls, pools, and communication beside members have an outcome."""
    program, policy, expected = DECIDED[why]
    for model in ("nccl", "gloo"):
        verdict = planguard.check(plan_of([program, program], **policy), model=model)
        assert verdict.outcome is expected, (model, [f.message for f in verdict.findings])


def test_a_wait_that_never_ends_says_so() -> None:
    """The finding of a stuck wait names the buffer's member, not the receive that stands for it."""
    program, policy, _ = DECIDED["waited for before its fixed bucket is complete"]
    verdict = planguard.check(plan_of([program, program], **policy))
    messages = [finding.message for finding in verdict.errors]
    assert any("member of a fused buffer that is never flushed" in text for text in messages)
    assert all(f.primary is None or f.primary.op == "wait" for f in verdict.errors)


def test_two_buffers_in_one_block_are_coupled() -> None:
    """Two buffers of one group are SAFE alone and mix together, unless `after` orders them."""

    def plan(*, ordered: bool) -> dict[str, Any]:
        last = gradient("d") | ({"after": ["a", "b"]} if ordered else {})
        body = [gradient("a"), gradient("b"), gradient("c") | {"after": ["a"]}, last]
        settled = [{"op": "unordered", "body": body}, {"op": "wait", "work": list("abcd")}]
        found = plan_of([settled, settled], cap_bytes=8, membership="fixed")
        spec = found["fusion"][0]
        found["fusion"] = [
            spec | {"id": "one", "members": ["a", "b"]},
            spec | {"id": "two", "members": ["c", "d"]},
        ]
        return found

    assert planguard.check(plan(ordered=True)).outcome is Outcome.SAFE
    verdict = planguard.check(plan(ordered=False))
    assert verdict.outcome is Outcome.MISMATCH
    assert {finding.code for finding in verdict.errors} == {"PG103"}


def test_caps_that_depend_on_the_rank() -> None:
    """One buffer per rank with capacities of their own: SAFE iff the layouts are alike."""
    program = settle([[gradient("a")], [gradient("b")], [gradient("c")]])

    def plan(first: int, second: int) -> dict[str, Any]:
        found = plan_of([program, program])
        renamed = [
            {**item, "body": [{**one, "id": one["id"] + "'"} for one in item["body"]]}
            if "body" in item
            else item
            for item in program
        ]
        found["ranks"]["1"] = {"actions": renamed}
        spec = {"group": "world", "membership": "fixed", "launch": "ordered"}
        found["fusion"] = [
            {"id": "zero", "members": ["a", "b", "c"], "cap_bytes": first, **spec},
            {"id": "one", "members": ["a'", "b'", "c'"], "cap_bytes": second, **spec},
        ]
        return found

    assert planguard.check(plan(8, 11)).outcome is Outcome.SAFE
    verdict = planguard.check(plan(8, 12))
    assert verdict.outcome in {Outcome.DEADLOCK, Outcome.MISMATCH}
    assert verdict.errors


def test_a_tensor_that_one_rank_never_submits_stalls_the_others() -> None:
    """Negotiated: what one rank lacks is never launched, and who waits for it is stuck."""
    full = settle([[gradient("a"), gradient("b")]])
    short = settle([[gradient("a")]])
    plan = plan_of([full, full, short], coordination="negotiated")
    for model in ("gloo", "nccl"):
        assert planguard.check(plan, model=model).outcome is Outcome.DEADLOCK


def test_negotiated_members_of_two_dtypes() -> None:
    """Two negotiated buffers of one group, one per dtype, are launched in one agreed order."""
    halves = [gradient(name) | {"dtype": "f16"} for name in "ab"]
    singles = [gradient(name) | {"dtype": "f32"} for name in "cd"]
    first = settle([[*halves, *singles]])
    second = settle([[*singles], [*halves]])
    plan = plan_of([first, second], coordination="negotiated")
    spec = plan["fusion"][0]
    plan["fusion"] = [
        spec | {"id": "f16", "members": ["a", "b"]},
        spec | {"id": "f32", "members": ["c", "d"]},
    ]
    for model in ("gloo", "nccl"):
        verdict = planguard.check(plan, model=model)
        assert verdict.outcome is Outcome.SAFE, verdict.reasons
        assert "coordinated-fusion" in verdict.assumptions


@pytest.mark.parametrize(
    ("ordered", "expected"), [(False, Outcome.POTENTIAL_DEADLOCK), (True, Outcome.SAFE)]
)
def test_a_blocking_call_may_keep_a_rank_from_submitting(ordered: bool, expected: Outcome) -> None:
    """A negotiated member is submitted by the host, which another collective may hold up first."""
    other = {"op": "all_reduce", "group": "pair", "bytes": 4, "label": "x"}
    beside = other | ({"after": ["a"]} if ordered else {})
    first = [
        {"op": "unordered", "body": [gradient("a")]},
        {"op": "wait", "work": "a"},
        other,
    ]
    second = [
        {"op": "unordered", "body": [gradient("a"), beside]},
        {"op": "wait", "work": "a"},
    ]
    plan = plan_of([first, second], coordination="negotiated")
    plan["fusion"][0]["members"] = ["a"]
    plan["groups"] = {"pair": {"ranks": [0, 1]}}
    assert planguard.check(plan, model="mpi-sync").outcome is expected


UNDECIDED = {
    "several dtypes in one flush": [
        {
            "op": "unordered",
            "body": [gradient("a") | {"dtype": "f16"}, gradient("b") | {"dtype": "f32"}],
        },
        {"op": "wait", "work": ["a", "b"]},
    ],
    "a wait for one of several": [
        {"op": "unordered", "body": [gradient("a"), gradient("b")]},
        {"op": "wait", "work": ["a", "b"], "mode": "any"},
    ],
    "a stream of its own": [
        {"op": "unordered", "body": [gradient("a") | {"stream": "side"}]},
        {"op": "wait", "work": ["a"]},
    ],
}


@pytest.mark.parametrize("why", UNDECIDED)
def test_what_is_not_decided_is_unknown(why: str) -> None:
    """Uses of a buffer that have no meaning here are UNKNOWN with a reason, not SAFE."""
    program = UNDECIDED[why]
    plan = plan_of([program, program], cap_bytes=64, membership="fill")
    verdict = planguard.check(plan)
    assert verdict.outcome is Outcome.UNKNOWN
    assert verdict.reasons


def test_agreed_flush_beside_other_communication() -> None:
    """A flush that a coordinator launches at a time of its own may pass collectives of its group;
    those of other groups it cannot hold up where groups are independent, and may where they share
    a device.
    """

    def plan(beside: dict[str, Any], coordination: str) -> dict[str, Any]:
        program = [
            {"op": "unordered", "body": [gradient("a"), gradient("b")]},
            beside,
            {"op": "wait", "work": ["a", "b"]},
        ]
        found = plan_of([program, program], cap_bytes=4, coordination=coordination)
        return found | {"groups": {"pair": {"ranks": [0, 1]}}}

    other = {"op": "all_reduce", "group": "pair", "bytes": 4, "label": "x"}
    passed = planguard.check(plan(BARRIER, "negotiated"))
    assert passed.outcome is Outcome.POTENTIAL_DEADLOCK
    assert planguard.check(plan(BARRIER, "rank0-broadcast")).outcome is Outcome.SAFE
    assert planguard.check(plan(other, "negotiated"), model="gloo").outcome is Outcome.SAFE
    found = planguard.check(plan(other, "negotiated"), model="nccl")
    assert found.outcome is Outcome.POTENTIAL_DEADLOCK


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("m x", "m x", Outcome.SAFE),
        ("x m", "x m", Outcome.SAFE),
        ("x m", "m x", Outcome.DEADLOCK),  # neither is reached: x and the wait for m cross
        ("later m", "later m", Outcome.SAFE),
        ("later m", "m x", Outcome.SAFE),  # behind the launch on one, before it on the other
        ("early x", "early x", Outcome.SAFE),
        ("early x", "x m", Outcome.SAFE),  # the second reports when x has met
    ],
)
def test_a_negotiated_launch_meets_no_other_call(
    first: str, second: str, expected: Outcome
) -> None:
    """A negotiated member is launched on a communicator of its own: where its launch stands among
    other calls of the group is no matter, if all ranks get as far as to report it.
    """
    plan = beside_a_call([first, second])
    assert planguard.check(plan, model="gloo").outcome is expected


def test_members_of_two_sizes_mismatch_beside_another_call() -> None:
    """Members of two sizes are a mismatch, whatever stands beside them, and whatever has no label;
    under one lock, which a launch takes at a time of its own, it stays open.
    """
    plan = beside_a_call(["early x", "early x"], sizes=(4, 8))
    assert planguard.check(plan, model="gloo").outcome is Outcome.MISMATCH
    assert planguard.check(plan, model="nccl").outcome is Outcome.MISMATCH
    assert planguard.check(plan, model="mpi-pg").outcome is Outcome.UNKNOWN
    unlabeled = beside_a_call(["early x", "early x"], sizes=(4, 8), label={})
    assert planguard.check(unlabeled, model="gloo").outcome is Outcome.MISMATCH


@pytest.mark.parametrize("before", ["calls of two kinds", "a call in a thread"])
def test_a_negotiated_launch_does_not_meet_a_call_in_front(before: str) -> None:
    """What one rank alone calls on the group in front of the members is stuck, and no mismatch with
    them: neither a message that takes the place of a round elsewhere, nor a call in a thread.
    """
    call = {"op": "all_reduce", "bytes": 8, "label": "x", "async": True, "work": "x"}
    member = [gradient("m"), {"op": "wait", "work": "m"}]
    first = [call, *member, {"op": "wait", "work": "x"}]
    others = [[{"op": "recv", "peer": 2, "bytes": 4}], [{"op": "send", "peer": 1, "bytes": 4}]]
    if before == "a call in a thread":
        first[0] = {"op": "threads", "threads": [[call], [{"op": "compute"}]]}
        others = [[], []]
    plan = plan_of([first, *(one + member for one in others)], coordination="negotiated")
    plan["fusion"][0]["members"] = ["m"]
    assert planguard.check(plan, model="gloo").outcome is Outcome.DEADLOCK


def beside_a_call(
    texts: list[str], sizes: tuple[int, int] = (4, 4), label: dict[str, str] | None = None
) -> dict[str, Any]:
    """Return a plan of one negotiated member (m, with its wait) and a call x of its group."""
    wait, x_wait = {"op": "wait", "work": "m"}, {"op": "wait", "work": "x"}
    call = {"op": "all_reduce", "bytes": 8, **({"label": "x"} if label is None else label)}
    programs = []
    for text, size in zip(texts, sizes, strict=True):
        member = gradient("m", size)
        words = {"m": [member, wait], "x": [call], "early": [member],
                 "later": [call | {"async": True, "work": "x"}]}  # fmt: skip
        program = [action for word in text.split() for action in words[word]]
        ends = {"early": wait, "later": x_wait}
        programs.append(program + [end for word, end in ends.items() if word in text])
    plan = plan_of(programs, cap_bytes=64, coordination="negotiated")
    plan["fusion"][0]["members"] = ["m"]
    return plan


def on_mesh(**buffer: Any) -> dict[str, Any]:
    """Return a plan of 2 x 2 ranks with a tensor-parallel collective between gradients."""

    def member(name: str) -> dict[str, Any]:
        return {key: value for key, value in gradient(name).items() if key != "label"} | {
            "group": "dp"
        }

    actions = [
        {"op": "unordered", "body": [member("a"), member("b")]},
        {"op": "all_reduce", "group": "tp", "bytes": 4},
        {"op": "unordered", "body": [member("c")]},
        {"op": "wait", "work": ["a", "b", "c"]},
    ]
    spec = {"id": "fused", "group": "dp", "members": ["a", "b", "c"], "cap_bytes": 8}
    return {
        "schema": "planguard.plan/1",
        "world_size": 4,
        "mesh": {"dims": [["dp", 2], ["tp", 2]]},
        "groups": {"dp": {"mesh_dims": ["dp"]}, "tp": {"mesh_dims": ["tp"]}},
        "fusion": [spec | buffer],
        "ranks": {"0-3": {"actions": actions}},
    }


@pytest.mark.parametrize(
    ("buffer", "expected"),
    [
        ({}, Outcome.SAFE),
        ({"cap_bytes": 4}, Outcome.MISMATCH),
        ({"coordination": "rank0-broadcast"}, Outcome.SAFE),
        ({"coordination": "negotiated"}, Outcome.POTENTIAL_DEADLOCK),  # a or tp's call is first
        ({"membership": "fixed", "launch": "ordered", "cap_bytes": 4}, Outcome.SAFE),
    ],
)
def test_family_of_groups_with_other_communication(
    buffer: dict[str, Any], expected: Outcome
) -> None:
    """A buffer over a family is one per instance; other collectives lie between its blocks."""
    assert planguard.check(on_mesh(**buffer)).outcome is expected


@pytest.mark.parametrize("coordination", ["rank0-broadcast", "negotiated"])
def test_sizes_of_members_are_not_hidden_by_their_sum(coordination: str) -> None:
    """Two members that have each other's size on one rank: the launches are as large, and mixed."""
    right = settle([[gradient("a", 8), gradient("b", 12)]])
    swapped = settle([[gradient("a", 12), gradient("b", 8)]])
    policy = {"coordination": coordination, "launch": "ordered", "cap_bytes": 64}
    for model in ("gloo", "mpi-sync", "nccl"):
        assert planguard.check(plan_of([right, right], **policy), model=model).safe
        assert not planguard.check(plan_of([right, swapped], **policy), model=model).safe


def test_a_deadlock_before_any_member_is_one_in_every_order() -> None:
    """Head-to-head sends in front of buckets that ranks launch in their own order: DEADLOCK after
    one run, certain, and not one of all orders of readiness.
    """
    names = [f"g{n}" for n in range(9)]
    programs = [
        [
            {"op": "send", "peer": 1 - rank, "bytes": 4},
            {"op": "recv", "peer": 1 - rank, "bytes": 4},
            *settle([[gradient(name) for name in names]]),
        ]
        for rank in range(2)
    ]
    plan = plan_of(programs, membership="fixed", launch="when-ready", cap_bytes=8)
    verdict = planguard.check(plan, model="gloo")
    assert verdict.outcome is Outcome.DEADLOCK
    assert verdict.errors[0].certainty == "all-executions"
    assert verdict.evidence.engine != "explorer"
    behind = [[*program[2:], *program[:2]] for program in programs]
    later = planguard.check(plan_of(behind, membership="fixed", cap_bytes=8), model="gloo")
    assert later.outcome is not Outcome.SAFE
