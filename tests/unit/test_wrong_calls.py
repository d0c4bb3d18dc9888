"""Wrong calls: every argument of the public functions given what it cannot be."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import planguard as pg
from planguard.guard import Change, communication_signature, make_nogood
from planguard.parametric.check import check_for_all, check_symbolic
from planguard.parametric.dimensions import replications
from planguard.parametric.instance import instance
from planguard.plan.building.builder import PlanBuilder
from planguard.recording.compare import compare
from planguard.recording.planned import recording_of
from planguard.screen.gate import Gate

if TYPE_CHECKING:
    from collections.abc import Callable

Case = tuple["Callable[..., object]", dict[str, Any]]


def builder() -> pg.PlanBuilder:
    """A plan of a mesh, without programs."""
    return pg.PlanBuilder(4, mesh=[("pp", 2), ("tp", 2)])


def planned() -> pg.Plan:
    """Four ranks in a ring, which is stuck where sends wait for their receives."""
    made = builder()
    for rank in range(4):
        program = made.program(rank)
        program.all_reduce(bytes=4)
        program.send((rank + 1) % 4, bytes=4)
        program.recv((rank - 1) % 4, bytes=4)
    return made.build()


PLAN = planned()
VERDICT = pg.check(PLAN, model="gloo")
UNSAFE = pg.check(PLAN, model="mpi-sync")
GUARD = pg.Guard(model="gloo")
LOCAL = GUARD.incremental(PLAN)
SWAP = Change.swap(0, 0, 1)


class Odd:
    """An object of nobody's."""


def wrong() -> list[Any]:
    """Values that most arguments cannot be; new ones each time, for one is used up by a look."""
    return [
        None, True, -1, 3, 1.5, math.nan, 2**80, "swap", "\ud800", b"x", [], ["a"], [None],
        [[1, 2]], {"a": 1}, {1: 2}, {1, 2}, Odd(), Odd, len, PLAN, VERDICT,
        pg.PlanBuilder(2), iter([1]),
    ]  # fmt: skip


def of_plan(name: str) -> Callable[..., object]:
    """Call a method of a builder, and build its plan."""

    def call(**given: Any) -> object:
        made = builder()
        getattr(made, name)(**given)
        made.program("0-3")
        return made.build()

    return call


def of_program(name: str) -> Callable[..., object]:
    """Call a method of a program, enter its block, and build the plan."""

    def call(**given: Any) -> object:
        made = builder()
        block = getattr(made.program("0-3"), name)(**given)
        if hasattr(block, "__enter__"):
            with block:
                pass
        return made.build()

    return call


def change(name: str) -> Callable[..., object]:
    """Make a change, and decide it."""
    return lambda new=None, **given: LOCAL.check(
        getattr(Change, name)(*given.values(), *([] if new is None else [new]))
    )


BARRIER = {"op": "barrier"}
BUILDING: dict[str, Case] = {
    "PlanBuilder": (
        lambda **given: pg.PlanBuilder(**given).build(),
        {"world_size": 2, "name": "x", "mesh": [("a", 2)], "model": "gloo", "producer": "x"},
    ),
    "group": (
        of_plan("group"),
        {"name": "g", "ranks": [0, 1], "mesh_dims": None, "backend": None, "created": None},
    ),
    "template": (of_plan("template"), {"name": "t"}),
    "program": (of_plan("program"), {"ranks": 0}),
    "use": (of_plan("use"), {"ranks": "0-3", "template": "t"}),
    "tensor": (of_plan("tensor"), {"name": "w", "shape": [1], "dtype": "f32", "strategy": None}),
    "fusion": (of_plan("fusion"), {"id": "f", "members": ["a"], "cap_bytes": None, "buffer": 1}),
    "approximate": (
        of_plan("approximate"),
        {"kind": "k", "message": "m", "direction": "exact", "actions": (), "scope": "actions"},
    ),
    "topology": (of_plan("topology"), {"ranks": (), "links": ()}),
    "build": (lambda **given: builder().build(**given), {"limits": None}),
    "send": (
        of_program("send"),
        {"peer": 1, "bytes": 4, "dtype": None, "label": None, "tag": None, "src": None},
    ),
    "all_reduce": (of_program("all_reduce"), {"group": "world", "bytes": 4, "work": None}),
    "wait": (of_program("wait"), {"work": "x", "mode": None}),
    "compute": (of_program("compute"), {"op_name": "x", "deps": None, "duration_us": None}),
    "repeat": (of_program("repeat"), {"times": 2}),
    "coalesced": (of_program("coalesced"), {"kind": "all_reduce", "group": "world"}),
    "choice": (of_program("choice"), {"name": "x", "uniform": False}),
    "add": (of_program("add"), {"op": "barrier"}),
    "extend": (of_program("extend"), {"actions": [BARRIER]}),
}
DECIDING: dict[str, Case] = {
    "check": (
        pg.check,
        {"plan": PLAN, "model": "gloo", "budget": None, "options": None, "planner": None,
         "fix": False, "rules": False},
    ),
    "load": (pg.load, {"obj": PLAN.to_json(), "planner": None}),
    "Guard": (
        lambda **given: pg.Guard(**given).check(PLAN),
        {"model": "gloo", "budget": None, "max_entries": 10, "options": None, "load": None},
    ),
    "Guard.check": (GUARD.check, {"candidate": PLAN}),
    "Guard.codes": (GUARD.codes, {"candidate": PLAN}),
    "Guard.nogood": (GUARD.nogood, {"candidate": PLAN, "verdict": None}),
    "Guard.incremental": (GUARD.incremental, {"base": PLAN}),
    "Incremental.check": (LOCAL.check, {"edit": SWAP}),
    "Incremental.edited": (LOCAL.edited, {"edit": SWAP}),
    "Incremental.accept": (LOCAL.accept, {"edit": SWAP}),
    "Incremental.actions": (LOCAL.actions, {"rank": 0}),
    "Change": (
        lambda **given: LOCAL.check(Change(**given)),
        {"rank": 0, "start": 0, "stop": 1, "actions": ()},
    ),
    "swap": (change("swap"), {"rank": 0, "one": 0, "other": 1}),
    "move": (change("move"), {"rank": 0, "action": 0, "to": 1}),
    "delete": (change("delete"), {"rank": 0, "action": 0}),
    "insert": (change("insert"), {"rank": 0, "action": 0, "new": BARRIER}),
    "replace": (change("replace"), {"rank": 0, "action": 0, "new": BARRIER}),
    "communication_signature": (communication_signature, {"plan": PLAN, "options": None}),
    "make_nogood": (make_nogood, {"plan": PLAN, "verdict": UNSAFE, "options": None}),
    "check_for_all": (check_for_all, {"plan": PLAN, "dims": ["pp"], "options": None}),
    "check_symbolic": (check_symbolic, {"plan": PLAN, "options": None}),
    "replications": (replications, {"plan": PLAN}),
    "instance": (instance, {"plan": PLAN, "sizes": {"pp": 2}}),
}  # fmt: skip
TELLING: dict[str, Case] = {
    "audit": (
        lambda **given: pg.audit(given.pop("paths"), **given),
        {"paths": "/nowhere", "plan": None, "prefix": None, "world_size": None, "groups": ()},
    ),
    "screen": (
        lambda **given: [*pg.screen(executor="inline", **given)],
        {"plans": [PLAN], "jobs": 1, "store": None, "model": None, "budget": None, "planner": None,
         "options": None, "limits": None, "cache": True, "only": None, "params": None},
    ),
    "Gate": (
        lambda **given: Gate(lambda _: PLAN, **given)(0),
        {"planner": None, "model": None, "budget": None, "allow_unknown": False},
    ),
    "Gate.to_plan": (Gate, {"to_plan": planned}),
    "explain": (pg.explain, {"verdict": VERDICT, "plan": PLAN, "width": 80}),
    "execution_graph": (pg.execution_graph, {"plan": PLAN, "model": "nccl"}),
    "replay": (pg.replay, {"plan": PLAN, "backend": "none", "delay_seed": None}),
    "to_json": (VERDICT.to_json, {"reproducible": True}),
    "report": (VERDICT.report, {"plan": PLAN}),
    "matrix": (
        VERDICT.matrix,
        {"plan": PLAN, "algorithm": "ring", "by_node": False, "family": "p2p", "kind": "x"},
    ),
    "length": (PLAN.length, {"rank": 0}),
    "describe_action": (PLAN.describe_action, {"rank": 0, "index": 0, "member": None}),
    "location": (PLAN.location, {"rank": 0, "index": 0, "member": None}),
    "compare": (compare, {"recording": recording_of(PLAN), "plan": PLAN}),
    "recording_of": (recording_of, {"plan": PLAN}),
}  # fmt: skip


def told(call: Callable[..., object], given: dict[str, Any]) -> str:
    """Return what is wrong with how a wrong call was answered, "" if nothing."""
    try:
        call(**given)
    except pg.PlanGuardError as error:
        return "" if error.message.strip() else "no message"
    except Exception as error:  # noqa: BLE001 - that is the question
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.parametrize("name", [*BUILDING, *DECIDING, *TELLING])
def test_a_wrong_value_is_refused_in_our_words(name, tmp_path, monkeypatch) -> None:
    """No public function answers one with an error of its insides: it takes it, or says what it is.

    A value may fit by chance; what counts is that nothing but a PlanGuardError is raised.
    """
    monkeypatch.chdir(tmp_path)
    call, usual = (BUILDING | DECIDING | TELLING)[name]
    found = [
        (argument, repr(value)[:40], said)
        for argument in usual
        for value in wrong()
        if (said := told(call, usual | {argument: value}))
    ]
    assert not found


@pytest.mark.parametrize(
    "call",
    [
        lambda made: made.group("g", 3),
        lambda made: made.group("g", [0], backend="tcp"),
        lambda made: (made.group("g", [0]), made.group("g", [1])),
        lambda made: made.group("tp", ["tp"]),
        lambda made: made.program({"pp": 1}),
        lambda made: made.use(0, 1),
        lambda made: (made.use(0, "t"), made.use(0, "t")),
        lambda made: made.template(3),
        lambda made: made.tensor("w", [2], "f33"),
        lambda made: made.tensor("w", 2, "f32"),
        lambda made: (made.tensor("w", [2], "f32"), made.tensor("w", [3], "f32")),
        lambda made: made.fusion("f", ["a"], size=3),
        lambda made: made.approximate("k", "m", "sideways"),
        lambda made: made.topology(ranks=[3]),
    ],
)
def test_a_refusal_of_a_builder_names_the_line(call) -> None:
    """Groups, selectors, templates and tensors are refused where they are written."""
    with pytest.raises(pg.PlanError) as refused:
        call(builder())
    assert refused.value.file == f"{__file__}:{call.__code__.co_firstlineno}"


@pytest.mark.parametrize(
    ("make", "where"),
    [
        (lambda made: made.group("g", [0, 9]), "$.groups.g"),
        (lambda made: made.group("g", mesh_dims=["ep"]), "$.groups.g"),
        (lambda made: made.program("0-9"), "$.ranks.0-9"),
        (lambda made: made.use("pp=9", "t"), '$.ranks["pp=9"]'),
        (lambda made: made.use("0", "absent"), "$.ranks.0"),
        (lambda made: (made.program("0-3"), made.fusion("f", ["absent"])), "$.fusion[0]"),
    ],
)
def test_what_only_the_plan_shows_names_the_line_of_its_declaration(make, where) -> None:
    """`build`, `check` and a guard refuse a group or selector with the line that declared it."""
    for ask in (PlanBuilder.build, pg.check, pg.Guard().check):
        made = builder()
        make(made)
        made.template("t")
        with pytest.raises(pg.PlanError) as refused:
            ask(made)
        assert refused.value.path.startswith(where)
        assert refused.value.file == f"{__file__}:{make.__code__.co_firstlineno}"


def test_a_rank_without_a_program_is_refused_where_the_plan_is_built() -> None:
    """No declaration is to blame, so the line is that of `build`; a mesh is its builder's."""
    made = builder()
    made.program("0-2")
    with pytest.raises(pg.PlanError) as refused:
        made.build()
    assert (refused.value.file or "").startswith(f"{__file__}:")
    with pytest.raises(pg.PlanError, match="mesh") as refused:
        pg.PlanBuilder(4, mesh=[("pp", 0)])
    assert (refused.value.file or "").startswith(f"{__file__}:")


def test_a_change_is_one() -> None:
    """A name of a change is none, and says how one is made; places of numpy are places."""
    with pytest.raises(pg.UsageError, match="'swap' is no change") as refused:
        LOCAL.check("swap")
    assert "Change.swap" in refused.value.hint
    with pytest.raises(pg.UsageError, match="no whole number"):
        Change.swap(0, 0, 10**12)
    made = Change.swap(np.int64(0), np.int64(0), np.int64(1))
    assert made == SWAP
    assert LOCAL.check(made).outcome is LOCAL.check(SWAP).outcome


def test_a_rank_below_zero_is_none() -> None:
    """The last rank is not meant by -1."""
    with pytest.raises(pg.UsageError, match="no rank -1"):
        PLAN.length(-1)


def test_a_threshold_that_is_none_is_refused() -> None:
    """An unknown rule, an unknown name and a text were taken for no threshold."""
    for rules in (
        {"PG699": {"threshold": 1}},
        {"PG610": {"limit": 1}},
        {"PG610": {"threshold": "1"}},
    ):
        with pytest.raises(pg.UsageError):
            pg.check(PLAN, rules=rules)


@pytest.mark.parametrize("timeout", [-1, 0, math.nan, math.inf, "3", True])
def test_a_time_that_is_none_makes_nobody_stuck(timeout) -> None:
    """`replay` and `precheck` refuse it before they start a process."""
    pytest.importorskip("torch")
    from planguard.capture import precheck

    for call in (lambda: pg.replay(PLAN, timeout=timeout), lambda: precheck(2, timeout=timeout)):
        with pytest.raises(pg.UsageError, match="no number of seconds above 0"):
            call()


@pytest.mark.parametrize("world", ["2", 0, -1, 2.0, True])
def test_a_world_without_ranks_is_refused(world) -> None:
    """`precheck` says which argument is wrong."""
    pytest.importorskip("torch")
    from planguard.capture import precheck

    with pytest.raises(pg.UsageError, match=r"Precheck\(world_size=...\)"):
        precheck(world)
