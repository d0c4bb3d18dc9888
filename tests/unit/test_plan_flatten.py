"""The flat form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from planguard.errors import PlanError
from planguard.plan.building.builder import PlanBuilder
from planguard.plan.flatten import flatten
from planguard.plan.format import read

if TYPE_CHECKING:
    from pathlib import Path


def _actions(plan: Any, rank: int = 0) -> list[dict[str, Any]]:
    return flatten(plan)["ranks"][str(rank)]["actions"]


def test_families_become_one_group_per_instance() -> None:
    """tp on a 2 x 2 mesh becomes tp0 and tp1; each rank uses its own."""
    builder = PlanBuilder(4, mesh=[("pp", 2), ("tp", 2)])
    builder.group("tp", mesh_dims=["tp"], backend="gloo")
    builder.program("0-3").barrier("tp")
    flat = flatten(builder.build())
    assert flat["groups"] == {
        "tp0": {"ranks": [0, 1], "backend": "gloo"},
        "tp1": {"ranks": [2, 3], "backend": "gloo"},
    }
    assert [flat["ranks"][str(r)]["actions"][0]["group"] for r in range(4)] == [
        "tp0",
        "tp0",
        "tp1",
        "tp1",
    ]


def test_creating_a_family_is_one_call_that_all_ranks_agree_on() -> None:
    """new_group of a family names the same group on every rank: creation orders must not differ
    because of the flat form.
    """
    builder = PlanBuilder(4, mesh=[("pp", 2), ("tp", 2)])
    builder.group("tp", mesh_dims=["tp"])
    program = builder.program("0-3")
    program.new_group("tp")
    program.barrier("tp")
    plan = builder.build()
    assert {_actions(plan, rank)[0]["group"] for rank in range(4)} == {"tp0"}
    assert read(flatten(plan)).actions == 8


def test_relative_peers_become_ranks() -> None:
    """A ring over pp is written with global ranks."""
    builder = PlanBuilder(4, mesh=[("pp", 4)])
    builder.program("0-3").isend({"pp": 1, "wrap": True}, bytes=1)
    plan = builder.build()
    assert [_actions(plan, rank)[0]["peer"] for rank in range(4)] == [1, 2, 3, 0]


def test_loops_are_unrolled_with_their_iteration() -> None:
    """Labels, ids and references get their iteration; handles keep their names."""
    builder = PlanBuilder(2)
    program = builder.program(0)
    with program.repeat(2):
        program.isend(1, bytes=4, work="w", label="a{i}", id="s.{i}")
        program.wait("w")
        program.compute("c", deps=["s.{i}"])
    builder.program(1)
    actions = _actions(builder.build())
    assert [a.get("label") for a in actions] == ["a0", None, None, "a1", None, None]
    assert [a.get("id") for a in actions] == ["s.0", None, None, "s.1", None, None]
    assert [a.get("deps") for a in actions if "deps" in a] == [["s.0"], ["s.1"]]
    assert [a.get("work") for a in actions if "work" in a] == ["w"] * 4


def test_an_id_used_in_every_iteration_stays_unique_and_means_the_latest() -> None:
    """A plain id inside a loop is numbered; a reference behind the loop names the last one."""
    builder = PlanBuilder(1)
    program = builder.program(0)
    with program.repeat(3):
        program.compute("a", id="a")
    program.compute("b", deps=["a"])
    actions = _actions(builder.build())
    assert [a.get("id") for a in actions] == ["a", "a#2", "a#3", None]
    assert actions[-1]["deps"] == ["a#3"]


def test_the_id_of_a_loop_is_that_of_its_last_action() -> None:
    """A reference to a loop waits for the end of the loop."""
    builder = PlanBuilder(1)
    program = builder.program(0)
    with program.repeat(2, id="loop"):
        program.compute("a")
        program.compute("b")
    program.compute("c", deps=["loop"])
    actions = _actions(builder.build())
    assert actions[3]["id"] == "loop"
    assert actions[4]["deps"] == ["loop"]


def test_a_loop_inside_an_unordered_block_is_a_chain() -> None:
    """Its iterations keep their order: it becomes one nested list, also in a program that had to
    be unrolled for its ids.
    """
    builder = PlanBuilder(1)
    program = builder.program(0)
    with program.unordered():
        program.compute("a", id="a", after=["l"])
        with program.repeat(2, id="l", after=None):
            program.compute("b", id="b.{i}")
    program.compute("c", deps=["b.0"])
    plan = builder.build()
    body = _actions(plan)[0]["body"]
    assert [a["id"] for a in body[1]] == ["b.0", "b.1"]
    assert body[0]["after"] == ["b.1"]
    assert read(flatten(plan)).length(0) == plan.length(0)


def test_sizes_are_numbers() -> None:
    """Tensors and shapes become count and dtype."""
    builder = PlanBuilder(2)
    builder.tensor("w", [3, 4], "f16")
    program = builder.program("0-1")
    program.all_reduce(tensor="w")
    program.all_reduce(shape=[5, 2], dtype="f32")
    with program.coalesced("all_reduce"):
        program.part(tensor="w")
    actions = _actions(builder.build())
    assert actions[0] == {"op": "all_reduce", "group": "world", "dtype": "f16", "count": 12}
    assert actions[1]["count"] == 10
    assert actions[2]["ops"] == [{"dtype": "f16", "count": 12}]


def test_fused_buffers_are_one_per_instance_with_unrolled_members() -> None:
    """A fused buffer over a family becomes one per group, its members the unrolled ids."""
    builder = PlanBuilder(4, mesh=[("pp", 2), ("dp", 2)])
    builder.group("dp", mesh_dims=["dp"])
    program = builder.program("0-3")
    with program.repeat(2), program.unordered():
        program.all_reduce("dp", id="g.{i}", bytes=4)
    builder.fusion("ddp", ["g.{i}"], group="dp")
    fusion = flatten(builder.build())["fusion"]
    assert [(f["id"], f["group"], f["members"]) for f in fusion] == [
        ("ddp@dp0", "dp0", ["g.0", "g.1"]),
        ("ddp@dp1", "dp1", ["g.0", "g.1"]),
    ]
    assert read(flatten(builder.build())).actions


def test_a_flat_form_of_gigabytes_is_refused() -> None:
    """Ten million actions are refused at once, with their number."""
    builder = PlanBuilder(1)
    program = builder.program(0)
    with program.repeat(10**7):
        program.compute("a")
    with pytest.raises(PlanError, match="10000000"):
        flatten(builder.build())


@pytest.mark.parametrize("name", ["head-to-head", "mesh-3d", "every-op", "later"])
def test_the_examples_keep_their_actions(root: Path, name: str) -> None:
    """Every example, flattened and read again, has the same actions at the same places."""
    plan = read(root / "examples" / f"{name}.plan.json")
    flat = read(flatten(plan))
    for rank in range(plan.world_size):
        assert plan.length(rank) == flat.length(rank)
        for index in range(plan.length(rank)):
            shown = plan.describe_action(rank, index).replace("  weight", "")
            if not shown.startswith("new_group"):  # a family is created by one call for all
                assert shown == flat.describe_action(rank, index)
