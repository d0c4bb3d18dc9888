"""What is read, compiled or checked in one go is what it would be one by one."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from pathlib import Path

import pytest
from msgspec import structs
from planguard.planners.common import module, reading
from planguard.planners.fx import dump
from planguard.planners.fx.flatten import flatten
from planguard.planners.fx.model import refs
from planguard.planners.mscclpp import joins
from planguard.planners.mscclpp.model import Counter, Event, Span

import planguard
from planguard import PlanBuilder, PlanError
from planguard.plan.format import read, write
from planguard.plan.reading import lifecycle
from planguard.semantics import hazards

SAMPLES = Path(__file__).resolve().parents[1] / "samples"


def _files(adapter, suffix=".json"):
    return sorted(SAMPLES.joinpath(adapter).rglob(f"*{suffix}"))


@pytest.mark.parametrize("path", _files("fx"), ids=lambda path: path.name)
def test_fx_nodes_are_those_that_are_read_one_by_one(path, monkeypatch):
    """The records of a graph give the nodes that ``_node`` gives."""
    at_once = dump.read_bundle(path)
    monkeypatch.setattr(dump, "records", lambda _at, _kind: None)
    assert dump.read_bundle(path) == at_once


@pytest.mark.parametrize("path", _files("fx"), ids=lambda path: path.name)
def test_what_fx_nodes_use_is_what_their_arguments_name(path):
    """It is noted where a node is read and where it is renamed, in the order of the arguments."""
    seen = 0
    for program in dump.read_bundle(path).programs.values():
        for graph in program.graphs:
            for node in (*graph.nodes, *flatten(graph), *flatten(graph, "later.")):
                named = [name for arg in (*node.args, *node.kwargs.values()) for name in refs(arg)]
                assert list(node.used) == named
                seen += len(named)
    assert seen


def test_operations_behind_a_join_lead_to_the_same_whether_it_is_kept(monkeypatch):
    """What operations of MSCCL++ lead to is kept of the first ones, and found anew behind them."""
    rng = random.Random(5)
    counters = (Counter("memory", 0, 1, 0), Counter("memory", 0, 2, 0))
    packets = (Span(0, Fraction(0), Fraction(1)),)
    made = [(Event("nop"), False, [], []), (Event("barrier", barrier=(0, 2)), False, [], [])]
    for _ in range(12):
        moves = rng.random() < 0.6
        event = Event(
            "put", moves=moves, waits=counters[: rng.randrange(3)],
            signals=counters[: rng.randrange(3)], reads=packets[: rng.randrange(2)],
        )  # fmt: skip
        low = [rng.randrange(6) for _ in range(2)]
        parts = [[("i", at, at + 2)] if rng.random() < 0.5 else [] for at in low]
        made.append((event, rng.random() < 0.3, *parts))
    late = set()
    for _ in range(60):
        row = [rng.choice(made[2:] + made[:2] * 3) for _ in range(120)]
        found = []
        for kept in (64, 3, 0):
            monkeypatch.setattr(joins, "_KEPT", kept)
            judge = joins.Joins()
            found.append(
                [judge.is_late(e, port=port, reads=r, writes=w) for e, port, r, w in row * 2]
            )
        assert found[0] == found[1] == found[2]
        late |= set(found[0])
    assert late == {False, True}


def test_fx_takes_no_reference_to_a_node_that_is_not_there():
    """A reference is a text that names a node before it; null is none."""
    document = json.loads((SAMPLES / "fx" / "tp-mlp.fx.json").read_text())
    node = next(one for one in document["programs"]["p0"][0]["nodes"] if one["name"] == "addmm")
    for wrong in (None, 3, ["view"], "relu", "x" * 10_001):
        node["args"][1] = {"ref": wrong}
        with pytest.raises(PlanError):
            planguard.load(document, planner="fx")


@pytest.mark.parametrize("path", _files("mscclpp"), ids=lambda path: path.name)
def test_mscclpp_operations_that_are_alike_are_read_as_if_they_were_not(path):
    """A parsed object has no keys: each operation of it is read by itself."""
    apart = planguard.load(json.loads(path.read_text()), planner="mscclpp")
    alike = planguard.load(path, planner="mscclpp")
    assert write(alike).decode().replace(str(path), "program.json") == write(apart).decode()


@pytest.mark.parametrize("path", _files("ddp") + _files("fsdp"), ids=lambda path: path.name)
def test_tensors_are_those_that_are_read_one_by_one(path, monkeypatch):
    """The rows of a module give the tensors that ``_read_tensor`` gives."""
    at_once = planguard.load(path).source
    monkeypatch.setattr(module, "records", lambda _at, _kind: None)
    assert planguard.load(path).source == at_once


@pytest.mark.parametrize(
    "change", [{"shape": [2**40, 2**40]}, {"dtype": "f32"}, {"name": "0.bias"}]
)
def test_a_tensor_that_is_wrong_is_told_with_its_place(tmp_path, change):
    """Of rows that cannot be taken at once the reader of one says what is wrong."""
    path = _files("ddp")[0]
    document = json.loads(path.read_text())
    document["parameters"] = [
        {"name": "0.weight", "shape": [2], "dtype": "float32"},
        {"name": "0.bias", "shape": [2], "dtype": "float32"},
        {"name": "1.weight", "shape": [2], "dtype": "float32", **change},
    ]
    file = tmp_path / path.name
    file.write_text(json.dumps(document))
    with pytest.raises(PlanError) as caught:
        planguard.load(file)
    assert caught.value.path.startswith("$.parameters[2]")


def test_equal_values_of_a_file_have_one_key():
    """True is no 1 and 1.0 is none either; what is in memory has no key."""
    values = [1, True, 1.0, "1", {"a": 1}, {"a": 1}, {"a": True}]
    keys = reading.keys_of(reading.At(values, file="x.json"))
    assert len(set(keys)) == len(values) - 1
    assert keys[4] == keys[5]
    assert reading.keys_of(reading.At(values)) == [None] * len(values)


# --- programs of equal words ---------------------------------------------------------------------


def _ring(ranks, *, wait="all"):
    builder = PlanBuilder(ranks)
    for rank in range(ranks):
        program = builder.program(rank)
        handle = program.all_reduce(count=4, dtype="f32", async_=True, work="h")
        program.compute("between", writes=["x"])
        if wait:
            program.wait(handle)
    return builder


def test_ranks_that_do_the_same_share_their_words_and_keep_their_places():
    """One list of words, and yet each action stands in the program of its own rank."""
    plan = _ring(3).build()
    first, *others = plan.code.programs
    assert all(other.code is first.code for other in others)
    assert [plan.location(rank, 1).pointer for rank in range(3)] == [
        f"$.ranks.{rank}.actions[1]" for rank in range(3)
    ]
    again = read(plan.source)
    assert [one.code for one in again.code.programs] == [one.code for one in plan.code.programs]
    assert write(again) == write(plan)


def test_a_defect_of_programs_that_are_alike_names_the_first():
    """The reader of a file would name that one, too."""
    builder = PlanBuilder(2)
    for rank in range(2):
        builder.program(rank).extend([{"op": "wait", "work": "never"}])
    with pytest.raises(PlanError) as caught:
        builder.build()
    assert (caught.value.code, caught.value.path) == ("PG302", "$.ranks.0.actions[0].work")


def test_hazards_of_programs_that_are_alike_are_told_of_each():
    """A handle that nobody waits for is one of every rank."""
    found = hazards.find_hazards(_ring(3, wait=None).build().code)
    assert [(one.code, one.program) for one in found] == [("PG301", rank) for rank in range(3)]


def test_an_action_can_be_appended_to_several_programs():
    """``action`` makes it, ``extend`` checks it."""
    builder = PlanBuilder(2)
    action = builder.program(0).action("all_reduce", count=4, dtype="float32")
    for rank in range(2):
        builder.program(rank).extend([action])
    assert builder.build().document.ranks["1"].actions[0].dtype == "f32"
    wrong = builder.program(0).action("all_reduce", count=-4, dtype="f32")
    with pytest.raises(PlanError):
        builder.program(0).extend([wrong])


# --- handles in turn -----------------------------------------------------------------------------

CALL = {"op": "all_reduce", "count": 1, "dtype": "f32", "async": True}
READER = {"op": "compute", "op_name": "f"}
A, B = {**CALL, "work": "a"}, {**CALL, "work": "b"}


def _wait(*work, **more):
    return {"op": "wait", "work": work[0] if len(work) == 1 else list(work), **more}


PROGRAMS = {
    "in turn": [A, _wait("a"), A, _wait("a")],
    "both at once": [A, B, _wait("a", "b")],
    "left running": [A, B, _wait("b")],
    "waited twice": [A, _wait("a"), _wait("a")],
    "never started": [A, B, _wait("a", "b"), _wait("b")],
    "bound again": [A, A, _wait("a")],
    "any of two": [A, B, _wait("a", "b", mode="any"), _wait("a", "b", mode="any")],
    "dropped": [A, {"op": "drop", "work": "a"}, _wait("a")],
    "polled": [A, {"op": "test", "work": "a"}, _wait("a")],
    "in a loop": [{"op": "repeat", "times": 2, "body": [A, _wait("a")]}],
    "around a loop": [A, {"op": "repeat", "times": 2, "body": [_wait("a")]}],
    "in a block": [A, {"op": "unordered", "body": [B, _wait("a")]}, _wait("b")],
    "buffers": [{**A, "writes": ["x"]}, {**READER, "reads": ["x"]}, _wait("a")],
    "a destroyed group": [A, {"op": "destroy", "group": "world"}, _wait("a")],
}  # fmt: skip


def _judged(actions):
    document = {"schema": "planguard.plan/1", "world_size": 1, "ranks": {"0": {"actions": actions}}}
    try:
        return hazards.find_hazards(read(document).code)
    except PlanError as error:
        return error.code, error.path, error.message


@pytest.mark.parametrize("name", PROGRAMS)
def test_handles_in_turn_are_judged_as_by_the_walk(name, monkeypatch):
    """The short way gives what the walk gives: the same refusal, or the same hazards."""
    short = _judged(PROGRAMS[name])
    monkeypatch.setattr(lifecycle, "left_running", lambda _program, _aux: None)
    monkeypatch.setattr(hazards, "left_running", lambda _program, _aux: None)
    assert _judged(PROGRAMS[name]) == short


def test_what_is_left_running_is_known_only_of_handles_in_turn():
    """Of anything else the walk says more."""
    found = {}
    for name in ("in turn", "both at once", "left running", "polled", "in a loop", "in a block"):
        document = {"schema": "planguard.plan/1", "world_size": 1}
        plan = read(document | {"ranks": {"0": {"actions": PROGRAMS[name]}}})
        found[name] = lifecycle.left_running(plan.code.programs[0], plan.code.aux)
    assert found == {
        "in turn": set(), "both at once": set(), "left running": {0}, "polled": None,
        "in a loop": None, "in a block": None,
    }  # fmt: skip


# --- events --------------------------------------------------------------------------------------

RECORD, AWAIT = ({"op": op, "event": "e"} for op in ("event_record", "event_wait"))
OTHER = {"op": "event_record", "event": "f"}
BLOCKING = {"op": "all_reduce", "count": 1, "dtype": "f32"}
EVENTS = {
    "recorded first": ([RECORD, BLOCKING, AWAIT, AWAIT], []),
    "never recorded": ([OTHER, AWAIT], [1]),
    "recorded later": ([AWAIT, RECORD, AWAIT], [0]),
    "later in a loop": ([{"op": "repeat", "times": 3, "body": [AWAIT, RECORD]}], [0]),
    "first in a loop": ([{"op": "repeat", "times": 3, "body": [RECORD, AWAIT]}], []),
    "before a loop": ([RECORD, {"op": "repeat", "times": 2, "body": [AWAIT]}], []),
    "a send in flight": ([A, RECORD, AWAIT], []),
    "buffers": ([RECORD, {**READER, "reads": ["x"]}, AWAIT, {**READER, "writes": ["x"]}], []),
}  # fmt: skip


@pytest.mark.parametrize("name", EVENTS)
def test_events_are_judged_as_by_the_walk(name, monkeypatch):
    """A program that starts nothing has hazards of events alone, which one pass sees or not."""
    actions, places = EVENTS[name]
    short = _judged(actions)
    assert [one.action for one in short if one.code == "PG309"] == places
    monkeypatch.setattr(hazards, "_only_events", lambda _ops: False)
    assert _judged(actions) == short


def test_an_event_of_a_program_that_starts_nothing_needs_no_walk(monkeypatch):
    """FSDP writes three of them for each unit; the walk took a fifth of its check."""
    monkeypatch.setattr(hazards, "_Walk", None)
    assert _judged(EVENTS["recorded first"][0]) == []
    with pytest.raises(TypeError):
        _judged(EVENTS["never recorded"][0])


# --- one for all ---------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, 3, 4, 9])
def test_actions_are_counted_alike_for_few_programs_and_for_many(ranks):
    """Each rank counts with the length of its own program."""
    builder = PlanBuilder(2 * ranks)
    for rank in range(ranks):
        builder.program([rank, rank + ranks]).extend([BLOCKING] * (rank + 1))
    plan = builder.build()
    assert plan.actions == sum(plan.length(rank) for rank in range(2 * ranks))


def test_what_is_left_running_is_not_that_of_other_words():
    """It is kept with a program, and found anew where a copy of the program has other words."""
    codes = [
        read({"schema": "planguard.plan/1", "world_size": 1, "ranks": {"0": {"actions": actions}}})
        for actions in (PROGRAMS["in turn"], PROGRAMS["left running"])
    ]
    first, second = (plan.code.programs[0] for plan in codes)
    copied = structs.replace(first, code=second.code)
    assert lifecycle.left_running(first, codes[0].code.aux) == set()
    assert lifecycle.left_running(copied, codes[1].code.aux) == {0}
    assert lifecycle.left_running(first, codes[0].code.aux) == set()
