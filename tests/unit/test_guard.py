"""Guard: answers, statistics, threads, lazy verdicts, edits, symbolic plans, the examples."""

from __future__ import annotations

import copy
import importlib.util
import json
import multiprocessing
import pickle
import re
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import planguard
from planguard import Guard, UsageError
from planguard.cli import main
from planguard.guard import Change
from planguard.options import CheckOptions
from planguard.parametric import LazyVerdict, check_for_all, check_symbolic, replications

ROOT = Path(__file__).resolve().parents[2]
MESH = ROOT / "examples" / "mesh-3d.plan.json"


def ring(size, *, crossed=False, label="x"):
    """Every rank hands something on around a ring; crossed, everybody sends first."""
    ranks = {}
    for rank in range(size):
        send = {"op": "send", "peer": (rank + 1) % size, "bytes": 8, "label": label}
        recv = {"op": "recv", "peer": (rank - 1) % size, "bytes": 8, "label": label}
        order = [send, recv] if crossed or rank else [recv, send]
        ranks[str(rank)] = {"actions": order}
    return {"schema": "planguard.plan/1", "world_size": size, "ranks": ranks}


def test_a_guard_counts_what_it_does():
    """Hits, misses, renamed hits and explained answers add up."""
    guard = Guard(model="gloo")
    assert guard.check(ring(3)).safe
    assert guard.check(ring(3)).safe
    assert guard.check(ring(3, label="y")).safe
    crossed = guard.check(ring(3, crossed=True))
    again = guard.check(ring(3, crossed=True, label="y"))
    stats = guard.stats
    assert (stats.hits, stats.misses, stats.checks) == (3, 2, 5)
    assert stats.rate == 0.6
    assert stats.explained == 0
    assert again.unsafe
    assert again.findings[0].code == crossed.findings[0].code
    assert guard.stats.explained == 1
    guard.clear()
    assert guard.stats.entries == 0
    assert guard.check(ring(3)).safe
    assert guard.stats.misses == 3


def test_least_recently_used_answers_go_first():
    """A guard keeps ``max_entries`` answers; 0 keeps none; a negative number is refused."""
    guard = Guard(model="gloo", max_entries=2)
    for size in (2, 3, 4, 5, 4, 2):
        guard.check(ring(size))
    assert (guard.stats.hits, guard.stats.misses, guard.stats.entries) == (1, 5, 2)
    plain = Guard(model="gloo", max_entries=0)
    plain.check(ring(2))
    plain.check(ring(2))
    assert (plain.stats.hits, plain.stats.misses) == (0, 2)
    with pytest.raises(UsageError):
        Guard(max_entries=-1)


def test_options_and_models_do_not_mix():
    """The same plan under another model, or with another default of its own, is another entry."""
    plan = ring(2, crossed=True)
    guard = Guard()
    assert guard.check(plan).model == "nccl"
    assert guard.check({**plan, "model": "mpi-eager"}).model == "mpi-eager"
    assert guard.check({**plan, "model": "mpi-eager"}).outcome.value == "POTENTIAL_DEADLOCK"
    assert guard.check(plan).outcome.value == "DEADLOCK"
    assert guard.stats.misses == 2
    full = Guard(model="all").check(ring(2))
    assert set(full.models) == set(planguard.check(ring(2), model="all").models)


def bucketed(launch, *, crossed=False):
    """Two ranks reduce four gradients in buckets, behind messages that may cross."""
    later = [
        {"op": "all_reduce", "bytes": 8, "label": f"g{n}", "id": f"g{n}", "async": True,
         "work": f"g{n}"} for n in range(4)
    ]  # fmt: skip
    names = [one["id"] for one in later]
    ends = [{"op": "unordered", "body": later}, {"op": "wait", "work": names}]
    plan = ring(2, crossed=crossed)
    for program in plan["ranks"].values():
        program["actions"] += ends
    policy = {"membership": "fixed", "launch": launch, "cap_bytes": 16}
    plan["fusion"] = [{"id": "ddp", "group": "world", "members": names, **policy}]
    return plan


@pytest.mark.parametrize(
    ("plan", "outcome", "runs"),
    [
        (bucketed("ordered"), "SAFE", 1),
        (bucketed("when-ready"), "MISMATCH", 2),
        (bucketed("when-ready", crossed=True), "DEADLOCK", 1),
    ],
)
def test_a_guard_decides_each_order_of_flushes_once(plan, outcome, runs, monkeypatch):
    """What is asked for its outcome only is not decided again for findings nobody looks at."""
    from planguard import engine

    decided = []
    routed = engine._routed

    def counted(plan, *args, **fields):
        decided.append(plan)
        return routed(plan, *args, **fields)

    monkeypatch.setattr(engine, "_routed", counted)
    assert Guard(model="gloo").check(plan).outcome.value == outcome
    assert len(decided) == 1 + runs  # the open plan, and the orders of its flushes
    monkeypatch.undo()
    assert planguard.check(plan, model="gloo").outcome.value == outcome


def test_findings_asked_for_after_the_outcome_are_complete():
    """A case that was decided for its outcome first still gets its witness when it is shown."""
    verdict = planguard.check(bucketed("when-ready"), model="gloo")
    assert verdict.outcome.value == "MISMATCH"
    assert verdict.findings[0].witness is not None


def test_a_guard_can_be_pickled():
    """A pool of processes gets a guard with the same options, and without its answers."""
    guard = Guard(model="gloo", budget="50ms", max_entries=7)
    guard.check(ring(3))
    other = pickle.loads(pickle.dumps(guard))  # noqa: S301  our own bytes
    assert other.options == guard.options
    assert (other.stats.checks, guard.stats.checks) == (0, 1)
    assert other.check(ring(3, crossed=True)).unsafe
    assert guard.stats.checks == 1
    for size in range(2, 12):
        other.check(ring(size))
    assert other.stats.entries <= 7


def test_threads_share_a_guard():
    """Concurrent checks give the verdicts of single ones and lose no count."""
    guard = Guard(model="gloo", max_entries=8)
    plans = [ring(2 + i % 6, crossed=bool(i % 2), label=f"l{i % 3}") for i in range(240)]
    with ThreadPoolExecutor(8) as pool:
        verdicts = list(pool.map(guard.check, plans))
    for plan, verdict in zip(plans, verdicts, strict=True):
        assert verdict.outcome is planguard.check(plan, model="gloo").outcome
    assert guard.stats.checks == 240


def mixed_plans():
    """Plans of fixed and of open order, and with fused buffers, each of them several times."""
    body = [
        {"op": "all_reduce", "bytes": 4, "group": name, "label": name, "async": True, "work": name}
        for name in ("a", "b")
    ]
    actions = [{"op": "unordered", "body": body}, {"op": "wait", "work": ["a", "b"]}]
    ranks = {str(rank): {"actions": actions} for rank in range(2)}
    groups = {name: {"ranks": [0, 1]} for name in ("a", "b")}
    opened = {"schema": "planguard.plan/1", "world_size": 2, "groups": groups, "ranks": ranks}
    one_way = copy.deepcopy(opened)
    one_way["ranks"]["1"]["actions"] = [*body[::-1], {"op": "wait", "work": ["a", "b"]}]
    fused = [bucketed(launch) for launch in ("ordered", "when-ready")]
    return [*fused, opened, one_way, ring(3), ring(3, crossed=True)] * 8


def test_threads_share_a_guard_with_plans_of_open_order():
    """So it is with fused buffers and open orders, explained by other threads than decided."""
    guard, plans = Guard(model="gloo"), mixed_plans()
    with ThreadPoolExecutor(8) as pool:
        verdicts = list(pool.map(guard.check, plans))
        findings = list(pool.map(lambda verdict: verdict.findings, verdicts))
    for plan, verdict, found in zip(plans, verdicts, findings, strict=True):
        alone = planguard.check(plan, model="gloo")
        assert (verdict.outcome, found) == (alone.outcome, alone.findings)
    assert guard.stats.checks == len(plans)


def test_processes_get_a_guard_each():
    """A pool of processes is given the guard itself, and gives whole verdicts back."""
    guard, plans = Guard(model="nccl"), mixed_plans()[:6]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        verdicts = list(pool.map(guard.check, plans))
    for plan, verdict in zip(plans, verdicts, strict=True):
        alone = planguard.check(plan, model="nccl")
        assert (verdict.outcome, verdict.findings) == (alone.outcome, alone.findings)


def test_a_budget_that_ran_out_is_not_kept():
    """UNKNOWN for want of time is decided again."""
    body = [
        {"op": "all_reduce", "bytes": 4, "group": f"g{i % 3}", "label": f"l{i}"} for i in range(40)
    ]
    document = {
        "schema": "planguard.plan/1",
        "world_size": 3,
        "groups": {f"g{i}": {"ranks": [0, 1, 2]} for i in range(3)},
        "ranks": {"0-2": {"actions": [{"op": "unordered", "body": body}]}},
    }
    guard = Guard(model="gloo", budget=1e-6)
    codes = [[f.code for f in guard.check(document).findings] for _ in range(2)]
    if codes[0] == ["PG903"]:
        assert guard.stats.hits == 0
    else:
        assert codes[0] == codes[1]


class TestLazyVerdict:
    """A verdict that explains itself when it is looked at."""

    def test_it_is_a_verdict(self):
        """It equals the full verdict, and can be replaced, pickled, written and printed."""
        plan = planguard.load(ring(3, crossed=True))
        full = planguard.check(plan, model="gloo")
        made = []

        def complete():
            made.append(1)
            return full

        lazy = LazyVerdict.of(complete, outcome=full.outcome, models=full.models)
        assert lazy.unsafe
        assert not lazy.unknown
        assert not made
        assert lazy == full
        assert full == lazy
        assert made == [1]
        assert lazy.is_complete
        assert replace(lazy, model="nccl") == replace(full, model="nccl")
        assert pickle.loads(pickle.dumps(lazy)) == full  # noqa: S301  our own bytes
        assert lazy.to_json() == full.to_json()
        assert str(lazy) == str(full)
        with pytest.raises(TypeError):
            bool(lazy)

    def test_a_contradiction_is_no_verdict(self):
        """When the full check disagrees with what was known, that is an error, never an answer."""
        full = planguard.check(ring(2), model="gloo")
        lazy = LazyVerdict.of(lambda: full, is_unsafe=True)
        with pytest.raises(planguard.PlanGuardError, match="contradicts"):
            _ = lazy.findings


def test_a_template_that_no_rank_runs_is_no_finding():
    """A handle that is never waited for in an unused template does not matter."""
    reduce = {"op": "all_reduce", "bytes": 4, "async": True, "work": "w"}
    document = {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "templates": {"unused": [reduce], "used": [{"op": "barrier"}]},
        "ranks": {"0-1": {"template": "used"}},
    }
    assert planguard.check(document).findings == ()


class TestNogood:
    """The core of an unsafe plan as a predicate."""

    def test_it_looks_at_the_core_only(self):
        """It holds for plans that differ elsewhere, and not for the repaired plan."""
        guard = Guard(model="gloo")
        bad = ring(2, crossed=True)
        nogood = guard.nogood(bad)
        assert nogood is not None
        assert nogood.code == "PG001"
        assert nogood.ranks == (0, 1)
        assert nogood.actions == ((0, 0), (1, 0)) or len(nogood.actions) >= 2
        more = copy.deepcopy(bad)
        for rank in "01":
            more["ranks"][rank]["actions"].insert(0, {"op": "barrier"})
            more["ranks"][rank]["actions"].append({"op": "all_reduce", "bytes": 4})
        assert nogood(planguard.load(more))
        assert not nogood(planguard.load(ring(2)))
        assert guard.nogood(ring(2)) is None


class TestIncremental:
    """Edits of one plan."""

    def test_ways_and_base(self):
        """A neutral edit is answered by the order; the base never changes."""
        checker = Guard(model="gloo").incremental(ring(4))
        assert checker.check(Change.insert(0, 1, {"op": "compute", "op_name": "c"})).safe
        assert checker.counts == {"order": 1, "run": 0, "full": 0}
        assert checker.check(Change.swap(1, 0, 1)).safe
        assert checker.check(Change.swap(0, 0, 1)).unsafe
        assert checker.check(()).safe
        assert checker.accept(Change.swap(0, 0, 1)).verdict.unsafe

    def test_edits_outside_are_refused(self):
        """A rank or an action that does not exist is a wrong call."""
        checker = Guard(model="gloo").incremental(ring(2))
        for change in (Change.delete(7, 0), Change.delete(0, 9), Change.swap(1, 0, 5)):
            with pytest.raises(UsageError):
                checker.check(change)

    def test_an_edit_that_the_reader_refuses(self):
        """An edit that leaves a wait without its start is a PlanError."""
        document = ring(2)
        document["ranks"]["0"]["actions"] += [
            {"op": "all_reduce", "bytes": 4, "async": True, "work": "w"},
            {"op": "wait", "work": "w"},
        ]
        document["ranks"]["1"]["actions"] += [{"op": "all_reduce", "bytes": 4}]
        checker = Guard(model="gloo").incremental(document)
        with pytest.raises(planguard.PlanError):
            checker.check(Change.delete(0, 2))

    def test_a_large_plan_is_checked_again_in_a_millisecond(self):
        """Most edits of a 100,000-action plan take less than a millisecond of processor time."""
        import pipeline_plan

        plan = planguard.load(pipeline_plan.make(*pipeline_plan.SIZES["1e5"]))
        checker = Guard(model="gloo").incremental(plan)
        times = []
        for rank in range(0, 512, 8):
            for place in range(20, 60, 10):
                if "wait" in {checker.actions(rank)[place + side]["op"] for side in (0, 1)}:
                    continue
                started = time.process_time()
                assert checker.check(Change.swap(rank, place, place + 1)).safe
                times.append(time.process_time() - started)
        assert len(times) > 100
        assert sorted(times)[len(times) // 2] < 1e-3
        assert checker.counts["full"] == 0


class TestParametric:
    """Plans decided for every size."""

    def test_why_a_dimension_is_not_replicated(self):
        """A pipeline dimension, an absolute root and a listed group are named as reasons."""
        plan = planguard.load(MESH)
        found = replications(plan)
        assert found["dp"].cutoff == 2
        assert "different programs" in found["pp"].reason
        verdict = check_for_all(plan, "pp")
        assert verdict.unknown
        assert verdict.findings[0].code == "PG902"
        with pytest.raises(UsageError):
            check_for_all(plan, "depth")
        rooted = json.loads(MESH.read_text())
        rooted["templates"]["last"].append({"op": "broadcast", "root": 15, "bytes": 4})
        for name in ("first", "middle"):
            rooted["templates"][name].append({"op": "broadcast", "root": 15, "bytes": 4})
        assert "rank 15" in replications(planguard.load(rooted))["dp"].reason

    def test_the_command_line(self, capsys):
        """``check --for-all`` exits 0, 2 and 3 as any check, and says for which sizes."""
        assert main(["check", "--for-all", "dp", "--for-all", "tp", str(MESH)]) == 0
        assert "every dp >= 2 and every tp >= 2" in " ".join(capsys.readouterr().out.split())
        assert main(["check", "--for-all", "pp", str(MESH)]) == 3
        assert main(["check", "--for-all", "depth", str(MESH)]) == 2

    def test_a_hundred_thousand_ranks(self):
        """A plan of 131,072 ranks is decided on its smallest instance, with the size it has."""
        import pipeline_plan

        plan = planguard.load(pipeline_plan.make(*pipeline_plan.SIZES["3e7"]))
        verdict = check_symbolic(plan, CheckOptions(model="gloo"))
        assert verdict.safe
        assert verdict.stats.ranks == 131_072
        assert verdict.stats.actions == 31_064_064
        assert "quotient" in verdict.evidence.route
        guard = Guard(model="gloo")
        assert guard.check(plan).safe
        assert guard.check(plan).safe
        assert guard.stats.hits == 1


@pytest.mark.parametrize("name", ["alpa_style", "nnscaler_style", "pipelining_schedules"])
def test_search_examples(name):
    """Each example search rejects plans, and what it returns is safe."""
    path = ROOT / "examples" / "search" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if name == "alpa_style":
        guard = Guard(model="gloo")
        best, _, pruned, rejected = module.search(guard, 600)
        assert planguard.check(module.communications(*best), model="gloo").safe
        assert pruned + rejected + guard.stats.checks > 600
        assert rejected > 50
        assert guard.stats.rate > 0.5
    elif name == "nnscaler_style":
        orders, found, checker = module.search(Guard(model="gloo"), steps=600)
        assert planguard.check(module.plan_of(orders), model="gloo").safe
        assert checker.verdict.safe
        assert module.memory(orders) < module.memory(module.start())
        assert found["unsafe"] > 20
    else:
        schedule, found, nogoods = module.search(Guard(model="nccl"), steps=40)
        assert planguard.check(module.as_plan(schedule), model="nccl").safe
        assert found["unsafe"] > 3
        assert nogoods


def test_what_a_guard_is_given_is_read_when_it_is_made():
    """An unknown model and a budget that is no duration are errors with the value and a hint; a
    budget may be text, as on the command line.
    """
    with pytest.raises(planguard.PlanError, match="glooo") as found:
        Guard(model="glooo")
    assert "gloo" in found.value.hint
    for budget in ("fifty", "5 parsecs", -1, float("nan")):
        with pytest.raises(UsageError, match="budget"):
            Guard(budget=budget)
    assert (
        Guard(model="gloo", budget="50ms")
        .check(
            {
                "schema": "planguard.plan/1",
                "world_size": 2,
                "ranks": {"0-1": {"actions": [{"op": "barrier"}]}},
            }
        )
        .safe
    )


def test_element_types_have_one_table_of_widths():
    """The plan's is the only one of the package: but for the certificate checker, which imports the
    standard library alone and whose own has to be equal, and for what works beside a plan.
    """
    from planguard.certificate import agreement
    from planguard.plan.actions import ITEM_BYTES
    from planguard.plan.dtypes import NAMES

    assert agreement.ITEM_BYTES == ITEM_BYTES
    assert set(NAMES.values()) <= set(ITEM_BYTES)
    rooms = ("execution", "semantics", "recording", "reordering", "repair", "replay", "guard")
    tables = [
        file
        for room in rooms
        for file in (ROOT / "planguard" / room).rglob("*.py")
        if re.search(r"[\"']bf16[\"']: 2\b", file.read_text(encoding="utf-8"))
    ]
    assert tables == []


def test_a_guard_explains_a_verdict_only_when_it_is_looked_at() -> None:
    """Outcomes of unsafe and safe candidates, with and without open order, cost no witness; what is
    looked at later is what a check says.
    """
    stuck = {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "ranks": {
            str(rank): {"actions": [{"op": op, "peer": 1 - rank, "bytes": 4}
                                    for op in ("send", "recv")]}
            for rank in range(2)
        },
    }  # fmt: skip
    guard = planguard.Guard(model="gloo")
    found = guard.check(stuck)
    assert found.outcome.value == "DEADLOCK"
    assert not found.is_complete
    assert found.errors[0].witness is not None
    assert [f.code for f in found.errors] == [
        f.code for f in planguard.check(stuck, model="gloo").errors
    ]
