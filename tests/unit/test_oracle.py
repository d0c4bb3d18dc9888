from __future__ import annotations

import ast
import json
import random
import sys
from itertools import pairwise
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]

from oracle.enumerator import (  # noqa: E402
    Effort,
    Oracle,
    OracleBudget,
    all_endings,
    choices,
    enumerate_plan,
    one_ending,
    order_endings,
)
from oracle.expand import expand  # noqa: E402
from oracle.generate import generate  # noqa: E402
from oracle.lowering import lower  # noqa: E402
from oracle.models import INFINITE, MODELS  # noqa: E402
from oracle.mutate import mutate  # noqa: E402
from oracle.program import OracleUnsupported  # noqa: E402
from oracle.state import Choice, System  # noqa: E402

ALL = tuple(MODELS)
NCCL = ("nccl", "nccl-lazy", "nccl-eager", "nccl-serialized")
WAIT = {"op": "wait", "work": "h"}


def plan(*programs, groups=None, **more):
    """A flat plan from one action list per rank."""
    return {
        "schema": "planguard.plan/1",
        "world_size": len(programs),
        "groups": groups or {},
        "ranks": {str(rank): {"actions": list(acts)} for rank, acts in enumerate(programs)},
        **more,
    }


def p2p(op, peer, **more):
    """A message of one element."""
    return {"op": op, "peer": peer, "count": 1, "dtype": "f32", **more}


def call(op, **more):
    """A collective of four elements."""
    size = {} if op == "barrier" else {"count": 4, "dtype": "f32"}
    return {"op": op, **size, **more}


def outcomes(document, models=ALL):
    """The outcome under each model."""
    return {model: enumerate_plan(document, model).outcome for model in models}


def test_the_oracle_shares_nothing_with_the_library():
    """Nothing under tests/oracle imports planguard, or anything but the standard library."""
    allowed = set(sys.stdlib_module_names) | {"oracle"}
    for path in (TESTS / "oracle").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert {name.partition(".")[0] for name in names} <= allowed, path.name


def test_head_to_head_sends_hang_without_buffering():
    """Two blocking sends to each other are stuck except where small sends may finish early."""
    document = plan(
        [p2p("send", 1), p2p("recv", 1)],
        [p2p("send", 0), p2p("recv", 0)],
    )
    expected = dict.fromkeys(ALL, "DEADLOCK")
    expected |= {"mpi-eager": "POTENTIAL_DEADLOCK", "mpi-pg": "POTENTIAL_DEADLOCK"}
    assert outcomes(document) == expected
    assert enumerate_plan(document, "gloo").stuck == {0: 0, 1: 0}


def test_isend_then_recv_depends_on_the_queue():
    """isend and recv on both sides pass on gloo, hang in one FIFO, and pass as a batch."""
    single = [[p2p("isend", 1 - rank, work="h"), p2p("recv", 1 - rank), WAIT] for rank in range(2)]
    batched = [
        [{"op": "batch", "ops": [p2p("isend", 1 - rank), p2p("irecv", 1 - rank)]}]
        for rank in range(2)
    ]
    assert outcomes(plan(*single), ("gloo", *NCCL)) == {
        "gloo": "SAFE",
        **dict.fromkeys(NCCL, "DEADLOCK"),
    }
    assert set(outcomes(plan(*batched), ("gloo", *NCCL)).values()) == {"SAFE"}


def test_a_ring_of_first_messages_hangs_in_the_creation_of_pairs():
    """A ring of batched messages passes on nccl-lazy; unbatched, the hosts meet in a cycle."""
    ring = [
        [p2p("isend", (rank + 1) % 4, work="h"), p2p("recv", (rank - 1) % 4), WAIT]
        for rank in range(4)
    ]
    batched = [
        [{"op": "batch", "ops": [p2p("isend", (rank + 1) % 4), p2p("irecv", (rank - 1) % 4)]}]
        for rank in range(4)
    ]
    fast = Effort(verify=0)
    assert enumerate_plan(plan(*ring), "nccl-lazy", fast).outcome == "DEADLOCK"
    assert enumerate_plan(plan(*ring), "gloo", fast).outcome == "SAFE"
    assert enumerate_plan(plan(*batched), "nccl-lazy", fast).outcome == "SAFE"


def test_opposite_orders_on_two_groups():
    """Async calls on two groups in opposite order: fine on gloo, potential on nccl and where the
    workers of a process take turns, certain when the device has one queue or every call first
    synchronizes.
    """
    later = {"async": True}
    programs = [
        [
            call("all_reduce", group=a, work="a", **later),
            call("all_reduce", group=b, work="b", **later),
            {"op": "wait", "work": ["a", "b"]},
        ]
        for a, b in (("A", "B"), ("B", "A"))
    ]
    groups = {"A": {"ranks": [0, 1]}, "B": {"ranks": [0, 1]}}
    found = outcomes(plan(*programs, groups=groups))
    assert found == {
        "gloo": "SAFE",
        "gloo-detail": "DEADLOCK",
        "nccl": "POTENTIAL_DEADLOCK",
        "nccl-lazy": "DEADLOCK",
        "nccl-eager": "POTENTIAL_DEADLOCK",
        "nccl-serialized": "DEADLOCK",
        "mpi-eager": "SAFE",
        "mpi-sync": "SAFE",
        "mpi-pg": "POTENTIAL_DEADLOCK",
    }


@pytest.mark.parametrize(("missing", "stuck"), [(0, {1, 2, 3}), (1, {0, 3}), (2, {0}), (3, {1})])
def test_a_broadcast_goes_down_a_tree_on_gloo(missing, stuck):
    """Of four ranks in a gloo broadcast, those hang that need the missing one's data or ear."""
    programs = [[] if rank == missing else [call("broadcast", root=0)] for rank in range(4)]
    assert set(enumerate_plan(plan(*programs), "gloo").stuck) == stuck


def test_a_hang_that_a_mismatch_explains_is_a_mismatch():
    """Differing kinds hang on gloo and everything behind them does; the outcome is MISMATCH. A
    second, unrelated hang makes it DEADLOCK.
    """
    explained = plan(
        [call("all_reduce"), call("broadcast", root=0)],
        [call("broadcast", root=0)],
    )
    verdict = enumerate_plan(explained, "gloo")
    assert (verdict.outcome, verdict.stuck) == ("MISMATCH", {0: 0, 1: 0})
    unrelated = plan([call("all_reduce"), p2p("recv", 1)], [call("broadcast", root=0)])
    assert enumerate_plan(unrelated, "gloo").outcome == "DEADLOCK"


def test_a_dropped_receive_breaks_its_pair_in_both_directions():
    """After a dropped irecv swallowed a message, gloo's pair hears nothing either way."""
    for last in ("send", "recv"):
        document = plan(
            [p2p("irecv", 1, work="h"), {"op": "drop", "work": "h"}, p2p(last, 1)],
            [p2p("send", 0), p2p({"send": "recv", "recv": "send"}[last], 0)],
        )
        assert enumerate_plan(document, "gloo").outcome == "POTENTIAL_DEADLOCK"
        assert enumerate_plan(document, "mpi-sync").outcome == "SAFE"


def test_a_wildcard_receive_is_judged_by_every_pick():
    """A receive from any source that may take the message of a later receive may hang."""
    document = plan([p2p("recv", "any"), p2p("recv", 1)], [p2p("send", 0)], [p2p("send", 0)])
    assert outcomes(document, ("gloo", "mpi-sync")) == {
        "gloo": "POTENTIAL_DEADLOCK",
        "mpi-sync": "POTENTIAL_DEADLOCK",
    }
    with pytest.raises(OracleUnsupported):
        enumerate_plan(document, "nccl")


def test_a_blocking_call_never_meets_a_nonblocking_one_in_mpi():
    """all_reduce against its asynchronous form is a mismatch in MPI and nothing elsewhere."""
    document = plan([call("all_reduce")], [call("all_reduce", work="h", **{"async": True}), WAIT])
    expected = dict.fromkeys(ALL, "SAFE") | {"mpi-eager": "MISMATCH", "mpi-sync": "MISMATCH"}
    assert outcomes(document) == expected


def test_nothing_to_check_is_not_safe():
    """A plan in which nothing matches anything is UNKNOWN, unless the group has one rank."""
    lonely = plan([p2p("isend", 1)], [])
    assert enumerate_plan(lonely, "gloo").outcome == "UNKNOWN"
    alone = plan([call("all_reduce", group="A")], [], groups={"A": {"ranks": [0]}})
    assert enumerate_plan(alone, "gloo").outcome == "SAFE"


def reordered(*, labels=False, after=False):
    """Two calls in a block that may be issued in either order."""
    first, second = call("all_reduce", id="x"), call("all_reduce", id="y")
    if labels:
        first["label"], second["label"] = "x", "y"
    if after:
        second["after"] = ["x"]
    return {"op": "unordered", "body": [first, second]}


def test_reordering_is_judged_over_every_order():
    """Two equal calls in a block may meet out of round; `after` forbids it; without labels only
    the place in a shared template can tell them apart.
    """
    block = reordered(labels=True)
    assert set(outcomes(plan([block], [block])).values()) == {"MISMATCH"}
    chain = reordered(labels=True, after=True)
    assert set(outcomes(plan([chain], [chain])).values()) == {"SAFE"}
    shared = plan([], [], templates={"t": [reordered()]})
    shared["ranks"] = {"0-1": {"template": "t"}}
    assert set(outcomes(shared).values()) == {"MISMATCH"}
    assert set(outcomes(plan([reordered()], [reordered()])).values()) == {"UNKNOWN"}


def test_blocking_calls_on_two_groups_may_deadlock_in_some_order():
    """Unordered blocking calls on two groups hang in some of the orders, and not in others."""
    body = [call("all_reduce", group=name, label=name) for name in ("A", "B")]
    groups = {"A": {"ranks": [0, 1]}, "B": {"ranks": [0, 1]}}
    document = plan(*[[{"op": "unordered", "body": body}]] * 2, groups=groups)
    assert enumerate_plan(document, "gloo").outcome == "POTENTIAL_DEADLOCK"


@pytest.mark.parametrize("model", ALL)
def test_runs_of_a_fixed_order_are_confluent(model):
    """Whatever happens first, maximal runs of chains end in one state (full interleaving)."""
    checked = 0
    for seed in range(30):
        lowered = lower(expand(generate(seed)), MODELS[model])
        for choice in choices(lowered, MODELS[model]):
            system = System(lowered, MODELS[model], choice)
            try:
                maximal, states = all_endings(system, 300)
            except OracleBudget:
                continue
            if Oracle(lowered, MODELS[model], Effort()).openness.name == "NOTHING":
                assert maximal == {one_ending(system, random.Random(seed))}
                checked += states
    assert checked > 500


@pytest.mark.parametrize("model", ["nccl", "nccl-lazy", "nccl-eager"])
def test_one_and_infinitely_many_resident_kernels_decide_all_others(model):
    """What completes with K = 1 completes for every K; what is stuck without a bound always is."""
    stuck_somewhere = 0
    for seed in range(120):
        verdict = enumerate_plan(generate(seed), model, Effort(verify=0))
        stuck = {ending.choice.residency: bool(ending.stuck) for ending in verdict.endings}
        stuck_somewhere += any(stuck.values())
        order = sorted(stuck)
        assert sorted(stuck.values(), reverse=True) == [stuck[bound] for bound in order]
    assert stuck_somewhere > 15


@pytest.mark.parametrize("model", ["mpi-eager", "mpi-pg"])
def test_more_buffering_never_adds_a_hang(model):
    """For chains without wildcards, what completes with few buffered sends completes with more."""
    differs = 0
    for seed in range(120):
        document = generate(seed)
        lowered = lower(expand(document), MODELS[model])
        completed = []
        for bound in (0, 1, 2, INFINITE):
            system = System(lowered, MODELS[model], Choice(buffer=bound))
            completed.append(one_ending(system, random.Random(0)).completed)
        for fewer, more in pairwise(completed):
            assert fewer & more == fewer
        differs += completed[0] != completed[-1]
    assert differs > 2


def test_picking_orders_one_rank_at_a_time_loses_no_ending():
    """The reduced search over issue orders finds the endings of the full interleaving."""
    groups = {"A": {"ranks": [0, 1]}, "B": {"ranks": [0, 1]}}
    body = [
        call("all_reduce", group="A", label="a", **{"async": True}),
        call("all_reduce", group="B", label="b"),
        [call("barrier", group="A"), call("all_reduce", group="A", label="c")],
    ]
    document = plan(*[[{"op": "unordered", "body": body}]] * 2, groups=groups)
    for model in ("gloo", "nccl"):
        system = System(lower(expand(document), MODELS[model]), MODELS[model], Choice())
        full, visited = all_endings(system, 100_000)
        reduced, points = order_endings(system, 100_000)
        assert reduced == full
        assert points < visited


def test_unjudged_constructs_raise():
    """What the enumerator does not judge it refuses, by name."""
    for action in ({"op": "choice", "branches": [[]]}, {"op": "scan", "bytes": 4}):
        with pytest.raises(OracleUnsupported, match=action["op"]):
            enumerate_plan(plan([action], []), "gloo")


def test_a_seed_always_gives_the_same_plan():
    """Generation depends on the seed alone."""
    assert [generate(seed) for seed in range(50)] == [generate(seed) for seed in range(50)]


def test_random_plans_are_small_and_about_half_complete():
    """Generated plans stay small, use every kind of action, and about half are safe on gloo."""
    kinds, safe = set(), 0
    for seed in range(300):
        document = generate(seed)
        program = expand(document)
        kinds |= {action.kind for rank in program.ranks for action in rank}
        assert 2 <= program.world_size <= 4
        assert max(len(rank) for rank in program.ranks) <= 16
        safe += enumerate_plan(document, "gloo", Effort(verify=0)).outcome == "SAFE"
    assert kinds >= {"send", "irecv", "batch", "wait", "init", "new_group", "drop", "event_wait"}
    assert kinds >= {"exit", "host_sync", "compute", "broadcast", "all_to_all_single", "barrier"}
    assert 120 <= safe <= 220


def test_a_mutation_changes_a_copy():
    """`mutate` leaves its argument alone and nearly always changes something."""
    changed = 0
    for seed in range(200):
        before = generate(seed)
        text = json.dumps(before)
        changed += mutate(before, random.Random(seed)) != before
        assert json.dumps(before) == text
    assert changed > 170


def test_every_combination_of_branches_is_tried_where_one_stands_inside_another():
    """A branch inside another is met only where that one is taken, and all of it is tried there;
    equal names are one variable of a rank unless every choice of that name is uniform.
    """

    def choice(name, *branches, **more):
        return {"op": "choice", "name": name, "branches": list(branches), **more}

    other = [call("all_reduce")]
    inner = choice("c", [], [call("all_reduce")])
    nested = plan([choice("b", [inner], [])], [choice("a", other, other)])
    assert outcomes(nested, ["gloo"]) == {"gloo": "POTENTIAL_DEADLOCK"}
    linked = choice("b", [choice("b", [call("barrier")], [], uniform=True)], [call("barrier")])
    assert outcomes(plan([linked], [call("barrier")]), ["gloo"]) == {"gloo": "SAFE"}
    agreed = choice("b", [call("barrier")], [], uniform=True)
    assert outcomes(plan([agreed], [agreed]), ["gloo"]) == {"gloo": "SAFE"}
