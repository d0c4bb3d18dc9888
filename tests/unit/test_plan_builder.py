"""PlanBuilder: the same plans, and the same checks, as from a file."""

from __future__ import annotations

import inspect
import sys
import time

import numpy as np
import pytest

import planguard as pg
from planguard.errors import PlanError
from planguard.plan import nodes
from planguard.plan.building import fields
from planguard.plan.building.builder import PlanBuilder
from planguard.plan.building.program import ProgramBuilder
from planguard.plan.format import read, write


def test_a_built_plan_is_the_plan_of_its_file() -> None:
    """Writing a built plan and reading it gives the same document."""
    builder = PlanBuilder(
        4, name="x", mesh=[("pp", 2), ("tp", 2)], model="gloo", producer=("tool", "1.2")
    )
    builder.group("tp", mesh_dims=["tp"])
    builder.group("odd", [1, 3], backend="gloo", created=1)
    builder.tensor("w", [2, 3], "bf16", strategy=[1, 3])
    template = builder.template("t")
    with template.repeat(3):
        template.all_reduce("tp", tensor="w", label="w.{i}", src=("a.py", 3, "f"))
        with template.batch(work="b"):
            template.isend({"pp": 1, "wrap": True}, bytes=4)
            template.irecv({"pp": -1, "wrap": True}, bytes=4)
        template.wait("b")
    with template.unordered():
        template.all_reduce("tp", id="g", bytes=4)
        with template.chain():
            template.compute("c", id="c")
            template.compute("d", deps=["c"])
    builder.use([0, 1, 2, 3], "t")
    builder.fusion("f", ["g"], group="tp", coordination="none")
    builder.approximate("k", "message", "under", actions=[(0, 1)])
    builder.topology(ranks=[{"rank": 0, "node": 0}])
    plan = builder.build()
    again = read(write(plan))
    assert again.document == plan.document
    assert (again.name, again.model, again.planner) == ("x", "gloo", "tool")
    assert list(again.document.ranks) == ["0-3"]


def test_ranks_are_given_as_numbers_lists_or_selectors() -> None:
    """program(3), program([0, 2, 4, 5]) and program("1") are selectors; a second call continues."""
    builder = PlanBuilder(6)
    builder.program(3).compute("a")
    builder.program(np.int64(3)).compute("b")
    builder.program([0, 2, 4, 5])
    builder.program("1")
    plan = builder.build()
    assert list(plan.document.ranks) == ["3", "0,2,4-5", "1"]
    assert plan.length(3) == 2


def test_numbers_of_numpy_are_numbers() -> None:
    """numpy integers and floats are accepted where Python's are."""
    builder = PlanBuilder(int(np.int64(2)))
    program = builder.program(0)
    program.send(np.int64(1), count=np.uint8(3), dtype="f32")
    program.compute("a", duration_us=np.float64(1.5))
    builder.program(1)
    assert builder.build().action_at(0, 0).fields == {"peer": 1, "count": 3, "dtype": "f32"}


def test_none_means_absent() -> None:
    """Fields given as None are left out."""
    builder = PlanBuilder(1)
    builder.program(0).compute("a", label=None, deps=None, stream=None)
    assert builder.build().action_at(0, 0).fields == {"op_name": "a"}


def test_async_has_a_python_name() -> None:
    """async_ and torch's async_op both mean the field async."""
    builder = PlanBuilder(1)
    program = builder.program(0)
    program.all_reduce(async_=True, work="a")
    program.all_reduce(async_op=True, work="b")
    program.wait(["a", "b"])
    assert [builder.build().action_at(0, i).fields["async"] for i in (0, 1)] == [True, True]


def test_unknown_names_are_refused_at_the_call() -> None:
    """A misspelt field or operation raises where it is written, with the nearest name."""
    program = PlanBuilder(1).program(0)
    with pytest.raises(PlanError, match="labelx") as error:
        program.all_reduce(labelx="x")
    assert (error.value.code, error.value.path) == ("PG906", "$.ranks.0")
    assert "label" in error.value.hint
    with pytest.raises(PlanError, match="unknown operation"):
        program.add("allreduce")
    with pytest.raises(PlanError):
        program.add("send")


def test_values_that_are_no_json_are_refused() -> None:
    """What JSON has no form for is refused where it is written."""
    for bad in (object(), {1, 2}, float("nan"), float("inf"), -1.0):
        with pytest.raises(PlanError):
            PlanBuilder(1).program(0).compute("a", duration_us=bad)


def test_names_are_taken_once() -> None:
    """A group declared twice, a selector used twice, or with template and program, is refused."""
    builder = PlanBuilder(2)
    builder.group("g", [0])
    with pytest.raises(PlanError) as error:
        builder.group("g", [1])
    assert error.value.code == "PG409"
    builder.template("t")
    builder.use("0-1", "t")
    with pytest.raises(PlanError):
        builder.use("0-1", "t")
    builder.program("0-1")
    with pytest.raises(PlanError, match="template and a program"):
        builder.build()


def test_a_block_left_by_an_exception_adds_nothing() -> None:
    """What was collected for a block that raised is dropped, and the program goes on."""
    builder = PlanBuilder(1)
    program = builder.program(0)

    def leave() -> None:
        with program.repeat(2):
            program.compute("lost")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        leave()
    program.compute("kept")
    assert builder.build().length(0) == 1


def test_actions_cost_microseconds() -> None:
    """Adding an action makes a small, fixed number of calls, and costs microseconds.

    Counted, not timed: the calls that Python makes are the same on a busy machine. The time is
    bounded loosely (100 microseconds each), against a cost that grows with what was added before.
    """
    program = PlanBuilder(2).program(0)
    program.add("send", peer=1, bytes=4096)
    calls = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        for _ in range(1000):
            program.add("send", peer=1, bytes=4096)
    finally:
        sys.setprofile(None)
    assert calls < 1000 * 25

    started = time.process_time()
    for _ in range(20_000):
        program.add("send", peer=1, bytes=4096)
    assert time.process_time() - started < 20_000 * 100e-6


# --- errors at the call ---------------------------------------------------------------------------


def here() -> int:
    """Return the line of the caller."""
    return sys._getframe(1).f_lineno


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"bytes": "4"}, ".bytes"),
        ({"bytes": -1}, ".bytes"),
        ({"count": 1.5, "dtype": "f32"}, ".count"),
        ({"bytes": 4, "tag": "all"}, ".tag"),
        ({"bytes": 4, "label": 3}, ".label"),
        ({"bytes": 4, "mode": "sync"}, ".mode"),
    ],
)
def test_a_wrong_value_is_refused_at_the_call(fields, where) -> None:
    """The error names the author's file and line and the path, and nothing is appended."""
    program = PlanBuilder(2).program(0)
    program.compute("a")
    with pytest.raises(PlanError) as error:
        program.send(1, **fields)
    line = here() - 1
    assert error.value.file == f"{__file__}:{line}"
    assert error.value.path == f"$.ranks.0.actions[1]{where}"
    assert error.value.hint
    assert len(program) == 1


def test_what_only_the_whole_plan_shows_names_the_line_of_the_call() -> None:
    """A group that nobody declares is found by `build`, which names the call, also in a block."""
    builder = PlanBuilder(2)
    program = builder.program([0, 1])
    with program.repeat(2):
        program.all_reduce(bytes=4)
        program.all_reduce("tensor-parallel", bytes=4)
    line = here() - 1
    with pytest.raises(PlanError) as error:
        builder.build()
    assert error.value.file == f"{__file__}:{line}"
    assert error.value.path.startswith("$.ranks.0-1.actions[0].body[1]")


def test_a_wrong_loop_count_is_refused_at_the_call() -> None:
    """`repeat` checks its count before its body is collected."""
    program = PlanBuilder(1).program(0)
    for times in (0, -1, "3", None):
        with pytest.raises(PlanError) as error:
            program.repeat(times)  # type: ignore[arg-type]
        assert error.value.file.startswith(__file__)


def test_a_loop_too_long_to_check_is_refused_in_time() -> None:
    """40,000,000 iterations are refused at once, with the limit and where to raise it."""
    builder = PlanBuilder(2)
    with builder.program([0, 1]).repeat(40_000_000):
        builder.program([0, 1]).all_reduce(bytes=4)
    started = time.process_time()
    with pytest.raises(PlanError, match="more than 10000000 actions") as error:
        builder.build()
    assert time.process_time() - started < 2
    assert "Limits.rank_actions" in error.value.hint


# --- blocks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["unordered", "threads", "repeat", "choice", "batch", "coalesced"])
@pytest.mark.parametrize("then", ["action", "build"])
def test_a_block_without_with_is_an_error(name, then) -> None:
    """`p.unordered()` as a statement was dropped, and a stricter plan was checked in its place."""
    builder = PlanBuilder(2)
    program = builder.program([0, 1])
    arguments = {"repeat": (2,), "choice": ("c",), "coalesced": ("all_reduce",)}.get(name, ())
    getattr(program, name)(*arguments)
    line = here() - 1
    with pytest.raises(PlanError, match=rf"{name}\(\) without `with`") as error:
        program.all_reduce(bytes=4) if then == "action" else builder.build()
    assert error.value.file == f"{__file__}:{line}"


def test_a_chain_without_with_is_an_error_where_its_block_ends() -> None:
    """Inside a block, too; the block that held it is not appended."""
    program = PlanBuilder(1).program(0)
    with pytest.raises(PlanError, match=r"chain\(\) without"), program.unordered():
        program.chain()
    assert len(program) == 0


def test_a_plan_is_not_built_while_a_block_is_open() -> None:
    """What an open block has collected is not in the plan, so there is none yet."""
    builder = PlanBuilder(1)
    program = builder.program(0)
    with program.unordered():
        program.all_reduce(bytes=4)
        with pytest.raises(PlanError, match="still open"):
            builder.build()
    assert len(program) == 1
    assert builder.build().actions


# --- handles --------------------------------------------------------------------------------------


def test_asynchronous_calls_return_what_wait_takes() -> None:
    """isend, irecv, asynchronous collectives and batches; names are made only where used."""
    builder = PlanBuilder(2)
    for rank in range(2):
        p = builder.program(rank)
        unused = p.irecv(1 - rank, bytes=4)
        sent = p.isend(1 - rank, bytes=4)
        reduced = p.all_reduce(bytes=8, async_=True)
        with p.batch(work="b") as batch:
            p.isend(1 - rank, bytes=4)
            p.irecv(1 - rank, bytes=4)
        with p.coalesced("all_reduce", async_=True) as merged:
            p.part(bytes=4)
        p.test(sent)
        p.wait([sent, reduced])
        p.wait(batch)
        p.drop(merged)
        assert unused.name is None
    plan = builder.build()
    works = [plan.action_at(0, at).fields.get("work") for at in range(9)]
    assert works[0] is None
    assert works[1] == works[5]
    assert works[6] == [works[1], works[2]]
    assert pg.check(plan, model="gloo").outcome.value in {"SAFE", "POTENTIAL_DEADLOCK"}


def test_a_synchronous_call_has_no_handle() -> None:
    """Waiting for it is an error that says how to make the call asynchronous."""
    program = PlanBuilder(2).program(0)
    assert program.all_reduce(bytes=4) is None
    with pytest.raises(PlanError, match="no handle") as error:
        program.wait(program.all_reduce(bytes=4))
    assert "async_=True" in error.value.hint


def test_handles_stay_in_their_program() -> None:
    """A rank cannot wait for the call of another one, nor for a member of a batch."""
    builder = PlanBuilder(2)
    first, second = builder.program(0), builder.program(1)
    work = first.isend(1, bytes=4)
    with pytest.raises(PlanError, match="another program"):
        second.wait(work)
    with first.batch():
        member = first.irecv(1, bytes=4)
    with pytest.raises(PlanError, match="member of a batch"):
        first.wait(member)


# --- what other libraries write -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        ("f32", "f32"), ("float32", "f32"), ("torch.bfloat16", "bf16"), ("int64", "i64"),
        (np.float16, "f16"), (np.dtype("int32"), "i32"), (np.bool_, "bool"), (bool, "bool"),
        ("float8_e4m3fn", "f8"),
    ],
)  # fmt: skip
def test_dtypes_of_torch_and_numpy_are_understood(dtype, name) -> None:
    """A name or an object of either library is the plan's element type."""
    builder = PlanBuilder(1)
    builder.program(0).all_reduce(count=4, dtype=dtype)
    assert builder.build().action_at(0, 0).fields["dtype"] == name


def test_dtypes_of_torch_are_understood() -> None:
    """torch.float32 and its like; what the format has no name for is refused."""
    torch = pytest.importorskip("torch")
    builder = PlanBuilder(1)
    program = builder.program(0)
    program.all_reduce(count=4, dtype=torch.float32)
    with program.coalesced("all_reduce"):
        program.part(count=4, dtype=torch.int8)
    assert builder.build().action_at(0, 0).fields["dtype"] == "f32"
    for wrong in (torch.complex64, "flaot32", float, object()):
        with pytest.raises(PlanError, match="unknown dtype"):
            program.all_reduce(count=4, dtype=wrong)


def test_the_typed_fields_are_those_of_the_format() -> None:
    """`fields.py` names every field of every operation, and no other."""
    for op, cls in nodes.OP_CLASSES.items():
        method = getattr(ProgramBuilder, op, None)
        if method is None:
            continue
        parameters = inspect.signature(method).parameters
        unpacked = parameters["fields"].annotation.removeprefix("Unpack[").removesuffix("]")
        given = {*parameters, *getattr(fields, unpacked).__annotations__} - {"self", "fields"}
        given = {{"async_op": "async_"}.get(name, name) for name in given}
        known = set(cls.__struct_fields__) - {"ops", "body", "threads", "branches"}
        # The format has one class for collectives; the reader refuses a root where none can be.
        assert given == known - ({"root"} - {*parameters}), op


# --- where a builder can go -----------------------------------------------------------------------


def test_a_builder_is_checked_as_it_stands() -> None:
    """check, require, load and Guard take a builder."""
    builder = PlanBuilder(2)
    builder.program([0, 1]).all_reduce(bytes=4)
    assert pg.check(builder).safe
    assert pg.require(builder).safe
    assert pg.load(builder).world_size == 2
    assert pg.Guard(model="gloo").check(builder).safe
    builder.program(0)
    with pytest.raises(PlanError):
        pg.check(builder)


MANY = [
    {"op": "isend", "peer": 1, "bytes": 4, "work": "s", "id": "s"},
    {"op": "batch", "work": "b", "ops": [{"op": "irecv", "peer": 1, "bytes": np.int64(2)}]},
    {"op": "all_reduce", "group": "world", "async": True, "work": "r", "reduce_op": "avg"},
    {"op": "wait", "work": ["s", "b", "r"]},
]
"""Actions as a plan file has them, one with a number of another library."""


def test_many_actions_at_once_are_those_added_one_by_one() -> None:
    """Byte for byte the same plan, between other calls and inside a block."""

    def made(*, at_once: bool) -> bytes:
        builder = PlanBuilder(2)
        program = builder.program(0)
        program.barrier()
        with program.repeat(2):
            if at_once:
                program.extend(MANY)
            else:
                program.isend(1, bytes=4, work="s", id="s")
                with program.batch(work="b"):
                    program.irecv(1, bytes=2)
                program.all_reduce(async_=True, work="r", reduce_op="avg")
                program.wait(["s", "b", "r"])
        builder.program(1).exit()
        return builder.build().source

    assert made(at_once=True) == made(at_once=False)


@pytest.mark.parametrize(
    ("action", "where", "value"),
    [
        ({"op": "send", "peer": 0, "bytes": -1}, "$.ranks.0.actions[1].bytes", "-1"),
        ({"op": "send", "peer": 0, "size": 4}, "$.ranks.0", "size"),
        ({"op": "sends", "peer": 0}, "$.ranks.0", "sends"),
        ({"peer": 0}, "$.ranks.0", ""),
    ],
)
def test_one_wrong_action_of_many_is_named(action, where, value) -> None:
    """The error is that of the call that would have added it, with the line of ``extend``."""
    program = PlanBuilder(1).program(0)
    with pytest.raises(PlanError) as refused:
        program.extend([{"op": "barrier"}, action, {"op": "exit"}])
    assert refused.value.path.startswith(where)
    assert refused.value.value == value
    assert (refused.value.file or "").startswith(__file__)


def test_what_a_stranger_writes_is_told_what_to_write() -> None:
    """Dimensions as ranks, coordinates as an object, torch's name of a field: a hint each."""
    builder = pg.PlanBuilder(4, mesh=[("pp", 2), ("tp", 2)])
    for given in ({"ranks": ["tp"]}, {"ranks": "tp"}, {"mesh_dims": "tp"}):
        with pytest.raises(PlanError, match="a list of ranks, or of dimensions") as refused:
            builder.group("tensor", **given)
        assert "group('tensor', mesh_dims=['tp'])" in refused.value.hint
    with pytest.raises(PlanError, match="not a choice of ranks") as refused:
        builder.program({"pp": 1})
    assert '"pp=0,tp=1"' in refused.value.hint
    with pytest.raises(PlanError, match="no field 'op'") as refused:
        builder.program("pp=0").all_reduce(op="sum", bytes=4)
    assert "reduce_op" in refused.value.hint


def test_an_empty_program_is_a_program() -> None:
    """``if program`` asks whether there is one, not whether it has an action."""
    assert pg.PlanBuilder(1).program(0)


def test_a_builder_is_told_and_drawn_as_its_plan() -> None:
    """``check`` takes a builder as it stands, and so do ``explain`` and a verdict's methods."""
    builder = pg.PlanBuilder(2)
    builder.program(0).send(1, bytes=4)
    builder.program(1).recv(0, bytes=4)
    verdict = pg.check(builder, model="gloo")
    assert pg.explain(verdict, builder) == pg.explain(verdict, builder.build())
    assert verdict.matrix(builder).bytes.sum() == 4
    assert verdict.report(builder).data == verdict.report(builder.build()).data
