"""The door: rules that a plan must keep before the engine sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planguard.errors import PlanError
from planguard.plan.building.builder import PlanBuilder
from planguard.plan.reading.membership import _one_per_coordinate

if TYPE_CHECKING:
    from collections.abc import Callable

    from planguard.plan.building.program import ProgramBuilder


def build(make: Callable[[ProgramBuilder], None]) -> Any:
    """A plan of two ranks whose rank 0 runs what ``make`` appends."""
    builder = PlanBuilder(2)
    builder.group("g", [0, 1])
    builder.group("h", [1, 0])
    make(builder.program(0))
    builder.program(1)
    return builder.build()


def _refusal(make: Callable[[ProgramBuilder], None]) -> tuple[str, str]:
    with pytest.raises(PlanError) as error:
        build(make)
    assert error.value.hint
    return error.value.code, error.value.path.removeprefix("$.ranks.0.actions")


# --- handles


def test_a_wait_needs_a_started_handle() -> None:
    """wait, test and drop of a name that nothing bound are PG302."""
    assert _refusal(lambda p: p.wait("w")) == ("PG302", "[0].work")
    assert _refusal(lambda p: p.test("w")) == ("PG302", "[0].work")
    assert _refusal(lambda p: p.drop("w")) == ("PG302", "[0].work")

    def late(p: ProgramBuilder) -> None:
        p.wait("w")
        p.isend(1, work="w")

    assert _refusal(late) == ("PG302", "[0].work")


def test_a_handle_is_waited_once() -> None:
    """A second wait, alone or in a list, is PG303; so is a wait behind a drop."""

    def twice(p: ProgramBuilder) -> None:
        p.isend(1, work="w")
        p.wait("w")
        p.wait(["w", "w"])

    def listed(p: ProgramBuilder) -> None:
        p.isend(1, work="w")
        p.isend(1, work="v")
        p.wait(["w", "v"])
        p.wait("v")

    def dropped(p: ProgramBuilder) -> None:
        p.isend(1, work="w")
        p.drop("w")
        p.wait("w")

    assert [_refusal(make)[0] for make in (twice, listed, dropped)] == ["PG303"] * 3


def test_waiting_for_any_leaves_the_others_waitable() -> None:
    """After wait any of two handles, each may still be waited for; polling never uses one up."""

    def some(p: ProgramBuilder) -> None:
        p.isend(1, work="w")
        p.isend(1, work="v")
        p.wait(["w", "v"], mode="any")
        p.test("w")
        p.test("w")
        p.wait(["w", "v"])

    assert build(some).length(0) == 6


def test_a_handle_is_not_lost_in_a_loop() -> None:
    """A name bound again before its wait is PG308, also when only the second iteration does it."""

    def plain(p: ProgramBuilder) -> None:
        p.isend(1, work="w")
        p.irecv(1, work="w")

    def looped(p: ProgramBuilder) -> None:
        with p.repeat(2):
            p.isend(1, work="w")

    def nested(p: ProgramBuilder) -> None:
        with p.repeat(2):
            p.compute("x")
            with p.repeat(1), p.batch(work="w"):
                p.isend(1)

    assert _refusal(plain) == ("PG308", "[1].work")
    assert _refusal(looped) == ("PG308", "[0].body[0].work")
    assert _refusal(nested) == ("PG308", "[0].body[1].body[0].work")


def test_the_second_iteration_of_a_loop_is_checked_behind_a_poll() -> None:
    """A wait that only the second iteration repeats is found, although a poll precedes it."""

    def loop(p: ProgramBuilder) -> None:
        p.isend(1, work="w")
        with p.repeat(2):
            p.test("w")
            p.wait("w")

    assert _refusal(loop) == ("PG303", "[1].body[1].work")


def test_loops_that_keep_the_rules_are_accepted() -> None:
    """Bound and waited in each iteration, handed from one iteration to the next, dropped, or run
    once only: all are well formed.
    """

    def good(p: ProgramBuilder) -> None:
        with p.repeat(3):
            p.isend(1, work="a")
            p.wait("a")
        p.irecv(1, work="b")
        with p.repeat(3):
            p.wait("b")
            p.irecv(1, work="b")
        p.wait("b")
        with p.repeat(3):
            p.isend(1, work="c")
            p.drop("c")
        with p.repeat(1):
            p.isend(1, work="d")

    assert build(good).length(0) == 21


def test_deeply_nested_loops_are_checked_in_linear_time() -> None:
    """Sixty loops inside each other are walked once, not 2**60 times."""

    def deep(p: ProgramBuilder) -> None:
        blocks = [p.repeat(1) for _ in range(60)]
        for block in blocks:
            block.__enter__()
        p.isend(1, work="w")
        p.wait("w")
        for block in reversed(blocks):
            block.__exit__(None, None, None)

    assert build(deep).length(0) == 2


def test_handles_inside_undecided_blocks_need_only_be_started_somewhere() -> None:
    """Where the order is open, only a handle that is never started is refused."""

    def open_order(p: ProgramBuilder) -> None:
        with p.unordered():
            p.wait("w", after=["s"])
            p.isend(1, work="w", id="s")

    def never(p: ProgramBuilder) -> None:
        with p.unordered():
            p.wait("w")

    assert build(open_order).length(0) == 5
    assert _refusal(never) == ("PG302", "[0].body[0].work")


# --- groups


def test_groups_are_created_before_and_destroyed_after_their_use() -> None:
    """Use before new_group is PG408, use after destroy PG407, of the group or of the world."""

    def early(p: ProgramBuilder) -> None:
        p.all_reduce("g")
        p.new_group("g")

    def late(p: ProgramBuilder) -> None:
        p.destroy("g")
        p.all_reduce("g")

    def world(p: ProgramBuilder) -> None:
        p.destroy()
        p.barrier("g")

    def loop(p: ProgramBuilder) -> None:
        with p.repeat(2):
            p.barrier("g")
            p.destroy("g")

    assert _refusal(early) == ("PG408", "[1].group")
    assert _refusal(late) == ("PG407", "[1].group")
    assert _refusal(world) == ("PG407", "[1].group")
    assert _refusal(loop) == ("PG407", "[0].body[0].group")


def test_groups_may_be_created_again() -> None:
    """new_group behind destroy starts a new life, in a loop too."""

    def again(p: ProgramBuilder) -> None:
        with p.repeat(3):
            p.new_group("g")
            p.barrier("g")
            p.destroy("g")

    assert build(again).length(0) == 9


def test_new_group_follows_the_stated_order_of_creation() -> None:
    """A program that calls new_group against the groups' ``created`` is PG406."""
    builder = PlanBuilder(1)
    builder.group("a", [0], created=0)
    builder.group("b", [0], created=1)
    program = builder.program(0)
    program.new_group("b")
    program.new_group("a")
    with pytest.raises(PlanError) as error:
        builder.build()
    assert (error.value.code, error.value.path) == ("PG406", "$.ranks.0.actions[1].group")


# --- members


def _mesh_plan(make: Callable[[ProgramBuilder], None], ranks: str) -> Any:
    builder = PlanBuilder(8, mesh=[("pp", 2), ("dp", 2), ("tp", 2)])
    builder.group("tp", mesh_dims=["tp"])
    builder.group("pp", mesh_dims=["pp"])
    builder.group("low", [0, 1, 2])
    rest = sorted(set(range(8)) - {r for p in _ranges(ranks, builder) for r in p})
    make(builder.program(ranks))
    if rest:
        builder.program(rest)
    return builder.build()


def _ranges(ranks: str, builder: PlanBuilder) -> list[range]:
    from planguard.plan.groups import Mesh
    from planguard.plan.selectors import parse

    mesh = Mesh.of([("pp", 2), ("dp", 2), ("tp", 2)])
    return parse(ranks, builder.world_size, mesh)


@pytest.mark.parametrize(
    ("make", "ranks", "code"),
    [
        (lambda p: p.barrier("low"), "2-3", "PG401"),
        (lambda p: p.init("low"), "3", "PG401"),
        (lambda p: p.send(1, group="low"), "3", "PG401"),
        (lambda p: p.send(3, group="low"), "0", "PG403"),
        (lambda p: p.send(2, group="tp"), "0", "PG403"),
        (lambda p: p.send(1, group="tp"), "0,2", "PG403"),
        (lambda p: p.send({"pp": 1}, group="tp"), "pp=0", "PG403"),
        (lambda p: p.send({"tp": 1}, group="low"), "0,2", "PG403"),
        (lambda p: p.send({"pp": 1}), "0-7", "PG402"),
        (lambda p: p.send({"pp": -1}), "pp=0", "PG402"),
        (lambda p: p.broadcast(3, "low"), "0", "PG404"),
        (lambda p: p.add("d2d", peer=8, bytes=1), "0", "PG402"),
        (lambda p: p.add("h2d", tensor="w"), "0", "PG901"),
        (lambda p: p.broadcast(0, "tp"), "0-3", "PG404"),
        (lambda p: p.broadcast(9), "0-3", "PG404"),
        (lambda p: p.all_to_all_single("tp", in_splits=[1]), "0-3", "PG901"),
        (lambda p: p.broadcast(None), "0", "PG901"),
        (lambda p: p.add("all_reduce", root=0), "0", "PG901"),
        (lambda p: p.add("all_gather", reduce_op="sum"), "0", "PG901"),
    ],
)
def test_ranks_peers_and_roots_must_be_members(
    make: Callable[[ProgramBuilder], None], ranks: str, code: str
) -> None:
    """Membership is checked for every rank that runs a program, relative peers included."""
    with pytest.raises(PlanError) as error:
        _mesh_plan(make, ranks)
    assert error.value.code == code


@pytest.mark.parametrize(
    ("make", "ranks"),
    [
        (lambda p: p.barrier("low"), "0-2"),
        (lambda p: p.send({"pp": 1}, group="pp"), "pp=0"),
        (lambda p: p.send({"pp": 1, "wrap": True}, group="pp"), "0-7"),
        (lambda p: p.send({"tp": 1}, group="low"), "0"),
        (lambda p: p.recv(group="low"), "0-2"),
        (lambda p: p.send(1, group="tp"), "0"),
        (lambda p: p.broadcast(0, "tp"), "0-1"),
        (lambda p: p.all_to_all_single("tp", in_splits=[1, 2], out_splits=[0, 3]), "0-3"),
    ],
)
def test_members_are_accepted(make: Callable[[ProgramBuilder], None], ranks: str) -> None:
    """What is inside the group, the family instance and the mesh is accepted."""
    assert _mesh_plan(make, ranks).actions


def test_the_hint_names_the_members() -> None:
    """A peer outside its family instance is told which ranks the instance has."""
    with pytest.raises(PlanError) as error:
        _mesh_plan(lambda p: p.send(2, group="tp"), "0")
    assert "0, 1" in error.value.hint


# --- order inside blocks


def test_a_cyclic_after_is_refused() -> None:
    """after in a circle, against a chain, or naming itself leaves no order."""

    def circle(p: ProgramBuilder) -> None:
        with p.unordered():
            p.compute("a", id="a", after=["b"])
            p.compute("b", id="b", after=["a"])

    def chained(p: ProgramBuilder) -> None:
        with p.unordered(), p.chain():
            p.compute("a", id="a", after=["b"])
            p.compute("b", id="b")

    def itself(p: ProgramBuilder) -> None:
        with p.unordered():
            p.compute("a", id="a", after=["a"])

    for make in (circle, chained, itself):
        code, path = _refusal(make)
        assert code == "PG901"
        assert path.endswith("after")


def test_after_must_name_an_action_of_the_block_or_before_it() -> None:
    """Unknown ids and ids of later actions are refused, with the nearest name."""

    def unknown(p: ProgramBuilder) -> None:
        with p.unordered():
            p.compute("a", id="first")
            p.compute("b", after=["firsty"])

    def later(p: ProgramBuilder) -> None:
        p.compute("a", after=["b"])
        p.compute("b", id="b")

    with pytest.raises(PlanError, match="first"):
        build(unknown)
    assert _refusal(later) == ("PG901", "[0].after")


def test_ids_are_unique_in_one_program() -> None:
    """The same id twice is refused, in nested blocks too; two programs may share one."""

    def twice(p: ProgramBuilder) -> None:
        p.compute("a", id="a")
        with p.repeat(2):
            p.compute("a", id="a")

    assert _refusal(twice) == ("PG901", "[1].body[0].id")
    builder = PlanBuilder(2)
    builder.program(0).compute("a", id="a")
    builder.program(1).compute("a", id="a")
    assert builder.build().actions == 2


def test_batches_hold_plain_operations() -> None:
    """Inside a batch there is no handle, stream, order, other kind of action, nor nothing."""

    def inner(**fields: Any) -> Callable[[ProgramBuilder], None]:
        def make(p: ProgramBuilder) -> None:
            with p.batch():
                p.isend(1, **fields)

        return make

    def empty(p: ProgramBuilder) -> None:
        with p.batch():
            pass

    def barrier(p: ProgramBuilder) -> None:
        with p.batch():
            p.barrier()

    assert _refusal(inner(work="w")) == ("PG901", "[0].ops[0].work")
    assert _refusal(inner(stream="s")) == ("PG901", "[0].ops[0].stream")
    assert _refusal(inner(after=["x"])) == ("PG901", "[0].ops[0].after")
    assert _refusal(empty) == ("PG901", "[0].ops")
    assert _refusal(barrier) == ("PG901", "[0].ops[0].op")


def test_fused_members_are_reductions_of_one_buffer() -> None:
    """A member that is no reduction, or of two buffers, is refused."""

    def plan(**changes: Any) -> PlanBuilder:
        builder = PlanBuilder(1)
        program = builder.program(0)
        with program.unordered():
            program.all_reduce(id="g0", bytes=4)
            program.barrier(id="b")
        builder.fusion("ddp", **{"members": ["g0"], **changes})
        return builder

    assert plan().build().fusion[0].members == ["g0"]
    with pytest.raises(PlanError, match="reductions only"):
        plan(members=["b"]).build()
    twice = plan()
    twice.fusion("other", members=["g0"])
    with pytest.raises(PlanError, match="already the member"):
        twice.build()


def test_fused_members_are_called_on_the_group_of_their_buffer() -> None:
    """On another group a member is refused; ranks of two groups may use one name, each its own."""

    def plan(*groups: str | None, called: str = "g") -> PlanBuilder:
        builder = PlanBuilder(4)
        builder.group("g", [0, 1])
        builder.group("h", [2, 3])
        for rank in range(4):
            builder.program(rank).all_reduce(called if rank < 2 else "h", id="m", bytes=4)
        for group in groups:
            builder.fusion(f"of {group}", members=["m"], **({"group": group} if group else {}))
        return builder

    assert len(plan("g", "h").build().fusion) == 2
    for groups in ((None,), ("g",), ("h",), ("g", None)):
        with pytest.raises(PlanError, match=r"called on group [gh], while the fused buffer is of"):
            plan(*groups).build()
    with pytest.raises(PlanError, match="called on group world, while the fused buffer is of"):
        plan("g", "h", called="world").build()


@given(st.integers(0, 40), st.integers(1, 60), st.integers(1, 9), st.data())
def test_every_coordinate_of_a_range_is_looked_at(
    start: int, count: int, step: int, data: st.DataObject
) -> None:
    """The ranks that stand for a range, where relative peers are checked, have its coordinates."""
    size, stride = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 12))
    ranks = range(start, start + count * step, step)
    looked = {r // stride % size for r in _one_per_coordinate(ranks, size, stride)}
    assert looked == {r // stride % size for r in ranks}
