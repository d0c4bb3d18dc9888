"""Operations that other packages register."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from oracle.enumerator import enumerate_plan

import planguard as pg
from planguard import operations
from planguard.cli.doctor import examine
from planguard.errors import PlanError, UsageError
from planguard.operations import OperationSpec, register, unregister
from planguard.options import MODEL_NAMES
from planguard.plan.format import read, write
from planguard.testing import check_operation

HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "add-an-operation.md"
RING = OperationSpec(name="ring_shift", agree=("dtype",))
DEAL = OperationSpec(name="deal", degree="root")
VOTE = OperationSpec(name="vote")
ALIKE = OperationSpec(name="my_gather", spelling="all_gather")


@pytest.fixture(autouse=True)
def clean():
    """Forget what a test registers."""
    from planguard.plan.compiling import operations as tables

    yield
    for spec in operations.registered():
        unregister(spec.name)
    tables._problems.clear()


def plan_of(*programs: list[Any]) -> dict[str, Any]:
    """A plan of one explicit program per rank."""
    uses = {str(rank): {"actions": program} for rank, program in enumerate(programs)}
    return {"schema": "planguard.plan/1", "world_size": len(programs), "ranks": uses}


def codes(plan: dict[str, Any], model: str = "nccl") -> list[str]:
    """The codes of the findings of a plan."""
    return [finding.code for finding in pg.check(read(plan), model=model).findings]


def test_the_how_to_runs_and_is_short() -> None:
    """The example of the how-to runs as it stands and has fewer than 40 lines."""
    example = re.search(r"```python\n(.*?)```", HOW_TO.read_text(), re.DOTALL)
    assert example is not None
    assert len(example[1].splitlines()) < 40
    exec(compile(example[1], str(HOW_TO), "exec"), {})  # noqa: S102 - the repository's own page


@pytest.mark.parametrize(
    "spec",
    [
        RING,
        DEAL,
        VOTE,
        ALIKE,
        OperationSpec(name="any_size_deal", degree="root", agree=("root",)),
        OperationSpec(name="careless", agree=(), bytes_per_edge="share"),
        OperationSpec(name="my_reduce", spelling="reduce"),
    ],
    ids=lambda spec: spec.name,
)
def test_specifications_conform(spec: OperationSpec) -> None:
    """Every way to write a specification passes its conformance test, with all four outcomes."""
    found = check_operation(spec, plans=25)
    assert set(found.outcomes) >= {"SAFE", "DEADLOCK", "MISMATCH", "POTENTIAL_DEADLOCK"}
    assert spec not in operations.registered()


def test_the_python_kernels_conform_too() -> None:
    """The Python twin of the kernels passes the same conformance tests as the native ones."""
    script = (
        "from planguard import kernels\n"
        "from planguard.operations import OperationSpec\n"
        "from planguard.testing import check_operation\n"
        "assert kernels.IMPLEMENTATION == 'python'\n"
        "check_operation(OperationSpec(name='deal', degree='root'), plans=15)\n"
        "check_operation(OperationSpec(name='ring_shift', agree=('splits',)), plans=15)\n"
    )
    environment = {**os.environ, "PLANGUARD_KERNELS": "python"}
    subprocess.run([sys.executable, "-c", script], env=environment, timeout=100, check=True)


@pytest.mark.parametrize("edge", [lambda *_: -1, lambda *_: 0.5])
def test_conformance_refuses_edges_that_carry_no_bytes(edge) -> None:
    """A function for edges that gives a negative or broken number fails the conformance test."""
    with pytest.raises(AssertionError, match="bytes_per_edge"):
        check_operation(OperationSpec(name="ring_shift", bytes_per_edge=edge))


def test_conformance_sees_wrong_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operation that does not wait as it declares fails the conformance test."""
    monkeypatch.setattr("planguard.semantics.model.rooted_kinds", lambda: ())
    with pytest.raises(AssertionError, match="but with scatter"):
        check_operation(DEAL)


@pytest.mark.parametrize("model", MODEL_NAMES)
def test_the_enumerator_agrees_about_a_rooted_operation(model: str) -> None:
    """Ranks that use different roots in different orders end as the enumerator says of scatter."""
    register(DEAL)

    def programs(op: str) -> dict[str, Any]:
        first, second = ({"op": op, "root": root, "bytes": 8} for root in (0, 1))
        message = [{"op": "send", "peer": 1, "bytes": 8}, {"op": "recv", "peer": 0, "bytes": 8}]
        return plan_of(
            [message[0], first, second], [first, message[1], second], [first, second]
        )  # fmt: skip

    own = pg.check(read(programs("deal")), model=model).outcome
    assert own.value == enumerate_plan(programs("scatter"), model).outcome


def test_plan_file_and_builder_make_the_same_plan() -> None:
    """A registered operation is read from a file, built in Python and written back unchanged."""
    register(RING)
    builder = pg.PlanBuilder(4)
    builder.group("even", [0, 2])
    with builder.program("0,2").repeat(3):
        builder.program("0,2").add("ring_shift", group="even", bytes=4, async_=True, work="w")
        builder.program("0,2").wait("w")
    builder.program("1,3").actions.clear()
    text = {
        "schema": "planguard.plan/1",
        "world_size": 4,
        "groups": {"even": {"ranks": [0, 2]}},
        "ranks": {
            "0,2": {
                "actions": [
                    {
                        "op": "repeat",
                        "times": 3,
                        "body": [
                            {"op": "ring_shift", "group": "even", "bytes": 4, "async": True,
                             "work": "w"},
                            {"op": "wait", "work": "w"},
                        ],
                    }
                ]
            },
            "1,3": {"actions": []},
        },
    }  # fmt: skip
    plan = read(text)
    assert plan.document == builder.build().document
    assert read(write(plan)).document == plan.document
    assert b'"op":"ring_shift"' in write(plan)
    assert pg.check(plan).assumptions[-1] == "operation:ring_shift"


def test_every_block_may_hold_one() -> None:
    """Batches, chains, threads, branches and templates may hold a registered operation."""
    register(VOTE)
    vote = {"op": "vote", "bytes": 4}
    blocks = [
        {"op": "batch", "ops": [vote]},
        {"op": "unordered", "body": [[vote], {"op": "compute"}]},
        {"op": "choice", "uniform": True, "branches": [[vote], [vote]]},
        {"op": "threads", "threads": [[vote], []]},
    ]
    plan = plan_of([], []) | {"templates": {"t": blocks}, "ranks": {"0-1": {"template": "t"}}}
    assert read(write(read(plan))).document == read(plan).document
    assert write(read(plan)).count(b'"op":"vote"') == 5
    assert codes(plan_of(blocks[:2], blocks[:2])) == []


def test_only_the_fields_that_must_agree_are_compared() -> None:
    """Sizes that differ are a mismatch only of an operation whose sizes must agree."""
    register(RING)
    register(VOTE)
    for op, expected in (("ring_shift", []), ("vote", ["PG202"])):
        calls = [{"op": op, "bytes": size, "dtype": "f32"} for size in (4, 8)]
        assert codes(plan_of(calls[:1], calls[1:])) == expected


def test_a_loosened_field_proposes_no_candidate() -> None:
    """Rounds whose sizes need not agree are not handed to the slow comparison one by one."""
    from planguard.execution.running.executor import execute
    from planguard.execution.running.expand import expand
    from planguard.semantics.model import find_model, strict

    register(RING)
    rounds = [[{"op": "ring_shift", "bytes": 4 + rank}] * 50 for rank in range(3)]
    plan, model = read(plan_of(*rounds)), find_model("gloo")
    execution = execute(plan, expand(plan), model, strict(model))
    assert execution.completes
    assert not len(execution.lanes.mismatched)


def test_another_spelling_meets_the_original() -> None:
    """A spelling of all_gather meets all_gather under every model, and compares like it."""
    register(ALIKE)
    for model in MODEL_NAMES:
        other = {"op": "all_gather", "bytes": 4}
        assert codes(plan_of([{"op": "my_gather", "bytes": 4}], [other]), model) == []
        assert codes(plan_of([{"op": "my_gather", "bytes": 8}], [other]), model) == ["PG202"]


def test_different_operations_do_not_meet() -> None:
    """Two registered operations in one round are a mismatch that names both."""
    register(RING)
    register(VOTE)
    plan = plan_of([{"op": "ring_shift", "bytes": 4}], [{"op": "vote", "bytes": 4}])
    for model in MODEL_NAMES:
        (finding,) = pg.check(read(plan), model=model).findings
        assert finding.code == "PG201"
        assert "ring_shift" in finding.message
        assert "vote" in finding.message


def test_an_unused_operation_is_no_assumption() -> None:
    """A verdict names the operations of its plan, not those that happen to be registered."""
    register(RING)
    plan = plan_of([{"op": "barrier"}], [{"op": "barrier"}])
    assert not [name for name in pg.check(read(plan)).assumptions if ":" in name]


@pytest.mark.parametrize(
    ("action", "path", "message"),
    [
        ({"op": "deal", "bytes": 4}, "[1]", "deal needs a root"),
        ({"op": "deal", "root": 9}, "[1].root", "outside"),
        ({"op": "deal", "root": 0, "byts": 4}, "[1].byts", "unknown field"),
        ({"op": "deal", "root": "x"}, "[1].root", "Expected"),
        ({"op": "dael", "root": 0}, "[1].op", "did you mean 'deal'"),
    ],
)
def test_mistakes_are_refused_at_their_place(action, path: str, message: str) -> None:
    """A wrong field of a registered operation is refused like one of a built-in operation."""
    register(DEAL)
    with pytest.raises(PlanError) as caught:
        read(plan_of([{"op": "barrier"}, action], []))
    assert caught.value.path == f"$.ranks.0.actions{path}"
    assert message in str(caught.value)
    assert "all_to_all" not in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (OperationSpec(name="Ring"), "not a name"),
        (OperationSpec(name="all_reduce"), "taken"),
        (OperationSpec(name="x", degree="tree"), "degree"),  # type: ignore[arg-type]
        (OperationSpec(name="x", agree=("size",)), "size"),
        (OperationSpec(name="x", degree="root", agree=()), "root"),
        (OperationSpec(name="x", spelling="barrier"), "no built-in"),
        (OperationSpec(name="x", spelling="send"), "no built-in"),
        (OperationSpec(name="x", spelling="all_gather", agree=()), "like the original"),
        (OperationSpec(name="x", bytes_per_edge="some"), "formula"),
    ],
)
def test_contradictions_are_refused(spec: OperationSpec, message: str) -> None:
    """A specification that contradicts itself or the format is not registered."""
    with pytest.raises(UsageError, match=message):
        register(spec)
    assert not operations.registered()


def test_the_eighth_operation_is_refused() -> None:
    """Seven operations have room; the eighth is an error that lists them, a spelling is not."""
    for number in range(7):
        register(OperationSpec(name=f"op_{number}"))
        register(OperationSpec(name=f"op_{number}"))
    with pytest.raises(UsageError, match="7 operations are registered") as caught:
        register(OperationSpec(name="op_7"))
    assert "op_0, op_1" in str(caught.value.hint)
    register(ALIKE)
    unregister("op_3")
    register(OperationSpec(name="op_7", degree="root"))
    plan = plan_of(*[[{"op": "op_7", "root": 0}, {"op": "op_6"}]] * 2)
    assert codes(plan) == []


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Install a third-party distribution with one operation, as pip would lay it out."""
    monkeypatch.delenv("PLANGUARD_NO_PLUGINS", raising=False)

    def _install(name: str, source: str) -> None:
        module = f"module_{uuid.uuid4().hex}"  # imports are remembered by name
        info = tmp_path / "thirdparty-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: thirdparty\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[planguard.operations]\n{name} = {module}:spec\n")
        (tmp_path / f"{module}.py").write_text(dedent(source))
        monkeypatch.syspath_prepend(str(tmp_path))

    return _install


SOURCE = """
    from planguard.operations import OperationSpec
    spec = OperationSpec(name="ring_shift")
"""


def test_an_entry_point_is_loaded_by_the_plan_that_needs_it(install) -> None:
    """A plan or a builder that names an operation loads its plug-in; other plans do not."""
    install("ring_shift", SOURCE)
    read(plan_of([{"op": "barrier"}]))
    assert not operations.registered()
    read(plan_of([{"op": "ring_shift", "bytes": 4}]))
    assert [spec.name for spec in operations.registered()] == ["ring_shift"]
    unregister("ring_shift")
    pg.PlanBuilder(1).program(0).add("ring_shift", bytes=4)
    assert [spec.name for spec in operations.registered()] == ["ring_shift"]


def test_plug_ins_can_be_turned_off(install, monkeypatch: pytest.MonkeyPatch) -> None:
    """PLANGUARD_NO_PLUGINS=1 leaves the operations of other distributions unknown."""
    install("ring_shift", SOURCE)
    monkeypatch.setenv("PLANGUARD_NO_PLUGINS", "1")
    with pytest.raises(PlanError, match="ring_shift"):
        read(plan_of([{"op": "ring_shift", "bytes": 4}]))


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise RuntimeError('no license')", "no license"),
        ("spec = 3", "not an OperationSpec"),
        ("from planguard.operations import OperationSpec as S; spec = S(name='other')", "itself"),
        (SOURCE.replace('")', "\", agree=('x',))"), "agree names x"),
    ],
)  # fmt: skip
def test_a_broken_plug_in_is_reported(install, source: str, reason: str) -> None:
    """A plug-in that fails is in the refusal of the plan that needs it and in doctor's list."""
    install("ring_shift", source)
    with pytest.raises(PlanError) as caught:
        read(plan_of([{"op": "ring_shift", "bytes": 4}]))
    assert reason in caught.value.hint
    (line,) = [line for line in examine() if line.subject == "operations: ring_shift"]
    assert line.level == "problem"
    assert reason in line.text


def test_a_working_plug_in_is_listed(install) -> None:
    """Doctor lists an operation that can be used."""
    install("ring_shift", SOURCE)
    (line,) = [line for line in examine() if line.subject == "operations: ring_shift"]
    assert line.level == "ok"


def moved(spec: OperationSpec, *, size: int = 12) -> tuple[dict[tuple[int, int], int], str]:
    """What three ranks move that call an operation twice, and the notes of the picture."""
    from planguard.simulate.traffic import traffic

    register(spec)
    call = {"op": spec.name, "bytes": size, **({"root": 0} if spec.degree == "root" else {})}
    loop = {"op": "repeat", "times": 2, "body": [call]}
    ranks = {str(rank): {"actions": [loop]} for rank in range(3)}
    found = traffic(read({"schema": "planguard.plan/1", "world_size": 3, "ranks": ranks}))
    cells = [item for edges in found.edges.values() for item in edges.items()]
    return {ends: cell[0] for ends, cell in cells}, " ".join(found.notes)


def test_pictures_count_what_a_registered_operation_says_that_it_moves():
    """``bytes_per_edge`` is what goes between two members in a call: by name or as a function."""
    shift, notes = moved(OperationSpec(name="ring_shift", bytes_per_edge="next"))
    assert shift == {(0, 1): 24, (1, 2): 24, (2, 0): 24}
    assert "not counted" not in notes
    shares, _ = moved(OperationSpec(name="swap_parts", bytes_per_edge="share"))
    assert shares == {(a, b): 8 for a in range(3) for b in range(3) if a != b}
    to_last = OperationSpec(
        name="to_last", bytes_per_edge=lambda src, dst, n, size: size * (src < dst == n - 1)
    )
    last, _ = moved(to_last)
    assert last == {(0, 2): 24, (1, 2): 24}
    nothing, notes = moved(VOTE)
    assert nothing == {}
    assert "calls of registered operations are not counted" in notes


def test_many_actions_at_once_may_be_registered_ones() -> None:
    """``extend`` takes a registered operation among the others, as ``add`` does."""
    register(RING)
    builder = pg.PlanBuilder(2)
    for rank in range(2):
        builder.program(rank).extend(
            [{"op": "barrier"}, {"op": "ring_shift", "count": 4, "dtype": "f32"}]
        )
    assert pg.check(builder.build()).outcome.value == "SAFE"
