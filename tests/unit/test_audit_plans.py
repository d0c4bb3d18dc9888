"""Plans among the files of an audit, and evidence where a plan is wanted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from audit_dumps import entry, write

import planguard as pg
from planguard.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
SENDS, SENDS_PLAN = EXAMPLES / "audit/sends", EXAMPLES / "audit/sends.plan.json"
CSV = EXAMPLES / "pipelining/interleaved1f1b-4x8.csv"


def plan(*ops, world=2):
    """A plan of ranks that all make these calls."""
    actions = [{"op": op, "count": 4, "dtype": "f32"} for op in ops]
    ranks = {f"0-{world - 1}": {"actions": actions}}
    return json.dumps({"schema": "planguard.plan/1", "world_size": world, "ranks": ranks})


def remarks(verdict):
    """What is told and limits nothing."""
    return [one.message for one in verdict.approximations]


def hang(folder):
    """Rank 1 never comes to the call that rank 0 waits in."""
    folder.mkdir()
    write(folder, 0, [entry(number=0, seq=1, state="started")])
    write(folder, 1, [])


@pytest.mark.parametrize("path", [SENDS_PLAN, CSV, EXAMPLES / "msccl/hierarchical-8x2.xml"])
def test_a_plan_alone_is_no_evidence(path, capsys):
    """A plan file or a planner's output alone is one error that names check, exit code 2."""
    assert main(["audit", str(path)]) == 2
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("error[") == 1
    assert f"is a plan, and no evidence of a run --> {path} " in said
    assert f"planguard check {path} decides the plan" in said


def test_a_plan_with_a_branch_is_never_safe_by_an_audit(tmp_path):
    """Of a plan that branches a recording would hold one side only: no answer is made of that."""
    wait = [{"op": "barrier"}, {"op": "all_reduce", "bytes": 4}]
    branches = [{"op": "choice", "branches": [wait[:1], wait]}]
    ranks = {"0": {"actions": wait[:1]}, "1": {"actions": branches}}
    text = json.dumps({"schema": "planguard.plan/1", "world_size": 2, "ranks": ranks})
    (tmp_path / "run.plan.json").write_text(text)
    assert not pg.check(tmp_path / "run.plan.json").safe
    with pytest.raises(pg.PlanError, match="no evidence"):
        pg.audit(tmp_path)
    with pytest.raises(pg.PlanError, match="no evidence"):
        pg.audit(tmp_path / "run.plan.json")
    verdict = pg.audit(tmp_path, plan=tmp_path / "run.plan.json")
    assert verdict.unknown


def test_a_plan_beside_dumps_is_what_they_are_compared_with(tmp_path):
    """Named, or in the folder, a plan is read as `--plan` reads it."""
    meant = pg.audit(SENDS, plan=SENDS_PLAN)
    assert meant.outcome.value == "DEADLOCK"
    shutil.copytree(SENDS, tmp_path / "d")
    shutil.copy(SENDS_PLAN, tmp_path / "d")
    for found in (pg.audit(SENDS, SENDS_PLAN), pg.audit(SENDS_PLAN, SENDS), pg.audit(tmp_path)):
        assert found.outcome is meant.outcome
        assert [f.code for f in found.findings] == [f.code for f in meant.findings]
        assert any("is the plan that is compared with" in one for one in remarks(found))


def test_a_plan_beside_a_hang_changes_no_culprit(tmp_path):
    """Dumps in which rank 1 is missing stay that, whatever plan lies beside them."""
    hang(tmp_path / "d")
    (tmp_path / "d/run.plan.json").write_text(plan("all_reduce"))
    verdict = pg.audit(tmp_path / "d")
    assert [(f.code, f.ranks) for f in verdict.findings if f.severity == "error"] == [
        ("PG007", (1,))
    ]


def test_a_plan_of_another_size_is_left_out(tmp_path):
    """A plan for other ranks than those of the job is told and makes no rank missing."""
    hang(tmp_path / "d")
    before = pg.audit(tmp_path / "d")
    (tmp_path / "d/other.plan.json").write_text(plan("all_reduce", world=8))
    verdict = pg.audit(tmp_path / "d")
    assert verdict.stats.ranks == 2
    assert [f.code for f in verdict.findings] == [f.code for f in before.findings]
    assert any("other.plan.json is a plan of 8 ranks, the job had 2" in m for m in remarks(verdict))


def test_of_two_plans_none_is_taken(tmp_path):
    """Two plans that fit are named, and neither is compared with; `--plan` decides."""
    hang(tmp_path / "d")
    for name in ("a", "b"):
        (tmp_path / f"d/{name}.plan.json").write_text(plan("barrier"))
    verdict = pg.audit(tmp_path / "d")
    assert "PG503" not in {f.code for f in verdict.findings}
    assert any("name one with --plan" in one for one in remarks(verdict))
    named = pg.audit(tmp_path / "d", plan=tmp_path / "d/a.plan.json")
    assert any("left out, since --plan names another" in one for one in remarks(named))


def test_a_damaged_plan_costs_nothing_else(tmp_path):
    """A plan that cannot be read is told; what the dumps say stands."""
    hang(tmp_path / "d")
    (tmp_path / "d/run.plan.json").write_text(plan("all_reduce").replace("all_reduce", "al_reduce"))
    verdict = pg.audit(tmp_path / "d")
    assert [f.code for f in verdict.findings if f.severity == "error"] == ["PG007"]
    assert any("run.plan.json is a plan that is left out" in one for one in remarks(verdict))


def test_two_plans_of_different_sizes_are_refused():
    """A plan in the place of evidence is compared with one of as many ranks, or refused."""
    with pytest.raises(pg.UsageError, match="the two plans have 4 and 2 ranks"):
        pg.audit(CSV, plan=SENDS_PLAN)


def test_evidence_where_a_plan_is_wanted_names_audit(tmp_path, capsys):
    """`check` of dumps, of a log or of stacks: one error that names audit; `report` draws them."""
    log = tmp_path / "rank_0.log"
    said = "WorkNCCL(SeqNum=11, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=9) ran for 9"
    log.write_text(f"[Rank 0] Watchdog caught collective operation timeout: {said}\n")
    stack = tmp_path / "s/rank_0.txt"
    stack.parent.mkdir()
    rows = ("Process 7: python a.py", 'Thread 7 (idle): "MainThread"', "    f (a.py:3)")
    stack.write_text("\n".join(rows) + "\n")
    for path in (str(log), str(stack.parent), str(SENDS), str(SENDS / "rank_0.pickle")):
        assert main(["check", path]) == 2
        printed = capsys.readouterr()
        words = " ".join((printed.out + printed.err).split())
        assert "is evidence of a run and no plan" in words
        assert "planguard audit " in words
        page = tmp_path / "page.html"
        assert main(["report", path, "-o", str(page), "--force"]) == 0
        assert b"culprit" in page.read_bytes()
        capsys.readouterr()


def test_a_text_that_is_neither_names_the_adapters(tmp_path, capsys):
    """A file that no reader knows is not sent to audit."""
    (tmp_path / "notes.txt").write_text("hello\n")
    assert main(["check", str(tmp_path / "notes.txt")]) == 2
    assert "no planner adapter recognizes" in capsys.readouterr().out


def test_a_picture_of_a_recording_takes_no_plan(tmp_path):
    """`report` of dumps beside a plan draws the dumps; what the plan says has no place in them."""
    from planguard.cli import report_inputs

    shutil.copytree(SENDS, tmp_path / "d")
    shutil.copy(SENDS_PLAN, tmp_path / "d")
    alone = report_inputs._recording(str(SENDS))
    beside = report_inputs._recording(str(tmp_path / "d"))
    assert [f.code for f in beside.verdict.findings] == [f.code for f in alone.verdict.findings]
    assert beside.plan.length(0) == alone.plan.length(0)


def test_a_watched_folder_with_a_plan_is_looked_at_again(tmp_path, capsys):
    """A plan that waits for its dumps ends no `--watch`: what comes later is audited."""
    (tmp_path / "run.plan.json").write_text(plan("all_reduce"))
    assert main(["audit", "--watch", str(tmp_path), "--rounds", "2", "--interval", "0.01"]) == 2
    assert "no evidence of a run" in capsys.readouterr().out
