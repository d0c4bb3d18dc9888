"""Five questions of a planner's author, each answered by calls."""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import planguard as pg
from planguard.errors import PlanError, UsageError
from planguard.parametric import check_for_all


def exchange(builder):
    """Let two ranks send to each other, and receive then."""
    for rank in range(2):
        program = builder.program(rank)
        program.send(1 - rank, bytes=1 << 10, label=f"x{rank}")
        program.recv(1 - rank, bytes=1 << 10, label=f"x{1 - rank}")
    return builder


def line_of(text):
    """Return the line of ``exchange`` that has some words."""
    lines, first = inspect.getsourcelines(exchange)
    return next(first + at for at, line in enumerate(lines) if text in line)


def test_which_line_of_my_planner_made_the_call_that_hangs():
    """With ``lines=True`` findings name file, line and function; without, the builder adds none."""
    verdict = pg.check(exchange(pg.PlanBuilder(2, lines=True)), model="gloo")
    source = verdict.findings[0].primary.source
    assert (source.file, source.line) == (__file__, line_of("program.send"))
    assert source.function == "exchange"
    assert f"test_planner_questions.py:{source.line}" in pg.explain(verdict)
    plain = pg.check(exchange(pg.PlanBuilder(2)), model="gloo")
    assert plain.findings[0].primary.source is None


def test_a_line_that_the_author_gives_is_kept_and_blocks_have_one():
    """``src`` comes before the line of the call; ``extend`` and blocks name theirs."""
    builder = pg.PlanBuilder(2, lines=True)
    program = builder.template("both")
    program.barrier(src=("planner.conf", 7, "stage"))
    program.extend([{"op": "barrier"}, {"op": "barrier", "src": ["planner.conf", 8, "last"]}])
    with program.repeat(2):
        program.barrier()
    with program.batch():
        program.all_reduce(bytes=1)
    here = inspect.currentframe().f_lineno
    builder.program(0).barrier()
    builder.program(1).barrier()
    actions = builder.build().to_json()["templates"]["both"]
    assert actions[0]["src"] == ["planner.conf", 7, "stage"]
    assert actions[1]["src"] == [__file__, here - 5, inspect.currentframe().f_code.co_name]
    assert actions[2]["src"] == ["planner.conf", 8, "last"]
    assert actions[3]["src"][1] == here - 4
    assert actions[3]["body"][0]["src"][1] == here - 3
    assert actions[4]["src"][1] == here - 2
    assert actions[4]["ops"][0]["src"][1] == here - 1


def test_what_is_the_smallest_change_and_the_plan_with_it():
    """A repair that was proved is applied by a call; the plan that was checked stays as it is."""
    plan = exchange(pg.PlanBuilder(2)).build()
    before = plan.to_json()
    repair = pg.check(plan, model="gloo", fix=True).findings[0].fixes[0]
    assert repair.applicability == "verified"
    better = repair.applied(plan)
    assert pg.check(better, model="gloo").safe
    assert pg.check(plan, model="gloo").unsafe
    assert plan.to_json() == before
    assert isinstance(better, pg.Plan)


def test_a_repair_fits_its_plan_alone():
    """Another plan is a PlanError, and a repair without edits a UsageError."""
    plan = exchange(pg.PlanBuilder(2)).build()
    repair = pg.check(plan, model="gloo", fix=True).findings[0].fixes[0]
    single = pg.PlanBuilder(1)
    single.program(0).compute("nothing")
    with pytest.raises(PlanError, match="place that the plan does not have"):
        repair.applied(single.build())
    with pytest.raises(UsageError, match="no edits of a plan"):
        replace(repair, edits=()).applied(plan)


@pytest.mark.parametrize("name", ["rejected.plan.json", "rejected.plan.json.gz"])
def test_how_do_i_keep_a_candidate_for_the_command_line(name, tmp_path):
    """A saved plan is what was built, and the command line reads it."""
    plan = exchange(pg.PlanBuilder(2, name="candidate")).build()
    plan.save(tmp_path / name)
    again = pg.load(tmp_path / name)
    assert again.to_json() == plan.to_json() == pg.load(plan.to_json()).to_json()
    again.save(tmp_path / f"second-{name}")
    assert pg.load(tmp_path / f"second-{name}").to_json() == plan.to_json()
    done = subprocess.run(
        [sys.executable, "-m", "planguard", "check", str(tmp_path / name), "--model", "gloo"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "PG001" in done.stdout
    with pytest.raises(UsageError):
        plan.save(tmp_path / "not" / "there.plan.json")
    assert not (tmp_path / "not").exists()


def test_does_it_hold_on_other_backends_and_other_sizes():
    """All models in one call, and every size of a dimension in another."""
    outcomes = pg.check(exchange(pg.PlanBuilder(2)), model="all").models
    assert outcomes["gloo"] is pg.Outcome.DEADLOCK
    assert outcomes["mpi-eager"] is pg.Outcome.POTENTIAL_DEADLOCK
    builder = pg.PlanBuilder(4, mesh=[("dp", 4)])
    builder.program(range(4)).all_reduce(bytes=4, label="loss")
    verdict = check_for_all(builder.build(), "dp")
    assert verdict.safe
    assert any("every dp" in claim for claim in verdict.proved)


def test_what_does_it_move_for_my_cost_model():
    """Bytes and counts between ranks as arrays, senders as rows."""
    plan = exchange(pg.PlanBuilder(2)).build()
    moved = pg.check(plan, model="mpi-eager").matrix(plan)
    assert moved.bytes.tolist() == [[0, 1 << 10], [1 << 10, 0]]
    assert moved.counts.tolist() == [[0, 1], [1, 0]]


def test_a_module_of_the_package_is_nobodys_line():
    """What PlanGuard's own adapters write keeps the planner's places, and no line of an adapter."""
    path = Path(__file__).resolve().parents[1] / "samples" / "hiccl" / "all-reduce-2x4.hiccl.json"
    verdict = pg.check(path, model="gloo")
    assert "adapter.py" not in str(pg.load(path).to_json())
    assert verdict.safe
