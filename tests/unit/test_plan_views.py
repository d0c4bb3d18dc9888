"""Single actions of a symbolic plan: found, described, located."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from planguard.errors import UsageError
from planguard.plan.building.builder import PlanBuilder
from planguard.plan.format import read, write

if TYPE_CHECKING:
    from pathlib import Path

    from planguard.plan.plan import Plan


@pytest.fixture
def plan() -> Plan:
    """Four ranks on a mesh of two stages; nested loops, a batch, a family."""
    builder = PlanBuilder(4, mesh=[("pp", 2), ("tp", 2)])
    builder.group("tp", mesh_dims=["tp"])
    program = builder.program("0-3")
    with program.repeat(2, id="outer"):
        program.compute("fwd layer", label="mb{i}", src=("train.py", 7, "step"))
        with program.repeat(3):
            program.all_reduce("tp", count=2**21, dtype="f16", label="a{i}", id="ar.{i}")
        with program.batch():
            program.isend({"pp": 1, "wrap": True}, bytes=512, label="out")
            program.irecv({"pp": -1, "wrap": True}, bytes=512, tag=3)
    program.host_sync()
    return builder.build()


def test_action_indices_unroll_loops_and_count_a_batch_once(plan: Plan) -> None:
    """The lengths and operations of the unrolled program."""
    ops = [plan.action_at(1, index).op for index in range(plan.length(1))]
    assert ops == ["compute", *["all_reduce"] * 3, "batch"] * 2 + ["host_sync"]
    assert plan.actions == 4 * 11


def test_iterations_are_those_of_every_enclosing_loop(plan: Plan) -> None:
    """Index 7 is iteration 1 of the inner loop in iteration 1 of the outer one."""
    view = plan.action_at(0, 7)
    assert (view.iterations, view.label, view.id) == ((1, 1), "a1", "ar.1")
    assert view.pointer == "$.ranks.0-3.actions[0].body[1].body[0]"


def test_members_of_a_batch_are_found(plan: Plan) -> None:
    """A member has its own operation, label and place."""
    view = plan.action_at(2, 4, member=1)
    assert (view.op, view.pointer) == ("irecv", "$.ranks.0-3.actions[0].body[2].ops[1]")
    with pytest.raises(UsageError):
        plan.action_at(2, 4, member=2)


@pytest.mark.parametrize("index", [-1, 11, 10**9])
def test_actions_that_are_not_there_are_refused(plan: Plan, index: int) -> None:
    """Indices outside the program are a wrong call."""
    with pytest.raises(UsageError):
        plan.action_at(0, index)


def test_actions_are_described_in_one_line(plan: Plan) -> None:
    """Peer, group instance, label, size and type as a person reads them."""
    assert [plan.describe_action(3, index) for index in (0, 1, 4, 10)] == [
        "compute  fwd layer  mb0",
        "all_reduce on tp1  a0  4.00 MiB f16",
        "batch(isend -> 1 out, irecv <- 1)",
        "host_sync",
    ]
    assert plan.describe_action(3, 4, 1) == "irecv <- 1  tag 3  512 B"


def test_every_kind_of_action_has_a_description(root: Path) -> None:
    """No operation of the format breaks the renderer, and every line is printable ASCII."""
    for name in ("every-op", "later"):
        source = read(root / "examples" / f"{name}.plan.json")
        for rank in range(source.world_size):
            for index in range(source.length(rank)):
                line = source.describe_action(rank, index)
                assert line
                assert line.isascii()
                assert line.isprintable()


def test_names_of_the_plan_cannot_forge_a_line() -> None:
    """Control characters, ANSI escapes and bidirectional marks of names are shown as escapes."""
    builder = PlanBuilder(1)
    builder.program(0).compute("a\nverdict: SAFE\x1b[2J", label="\u202egnp")
    line = builder.build().describe_action(0, 0)
    assert "\n" not in line
    assert line.isprintable()
    assert line.isascii()


def test_a_location_carries_what_a_finding_needs(plan: Plan) -> None:
    """Rank, action, source, text, pointer and operation of one action."""
    location = plan.location(0, 0)
    assert (location.rank, location.action, location.op) == (0, 0, "compute")
    assert (location.source.file, location.source.line, location.source.function) == (
        "train.py",
        7,
        "step",
    )
    assert location.pointer == "$.ranks.0-3.actions[0].body[0]"


def test_lines_are_those_of_the_file(plan: Plan, tmp_path: Path) -> None:
    """line_of names the line that holds the action, in a plain and in a compressed file."""
    import gzip

    text = write(plan)
    lines = text.decode().splitlines()
    for name, data in (("a.plan.json", text), ("a.plan.json.gz", gzip.compress(text))):
        path = tmp_path / name
        path.write_bytes(data)
        found = read(path)
        for index in range(found.length(0)):
            line = lines[found.line_of(0, index) - 1]
            assert f'"op":"{found.action_at(0, index).op}"' in line
    assert plan.line_of(0, 0) is None


def test_group_instances_have_their_own_name() -> None:
    """Instance 4 of family tp is tp4, unless a group has that name."""
    builder = PlanBuilder(4, mesh=[("pp", 2), ("tp", 2)])
    builder.group("tp", mesh_dims=["tp"])
    builder.group("tp1", [0, 1])
    builder.program("0-3").barrier("tp")
    plan = builder.build()
    names = {plan.group_name("tp", rank) for rank in range(4)}
    assert len(names) == 2
    assert "tp0" in names
    assert "tp1" not in names


def test_a_plan_travels_to_another_process_as_its_text(plan: Plan) -> None:
    """A pickled plan comes back equal, with its file name, and its actions are found again."""
    import pickle

    again = pickle.loads(pickle.dumps(plan))  # noqa: S301 - what was dumped on this line
    assert again.document == plan.document
    assert again.describe_action(3, 7) == plan.describe_action(3, 7)
    assert len(pickle.dumps(plan)) < len(plan.source) + 500
