"""The report page of an audit: who, where it stopped, who waits, what is not known."""

from __future__ import annotations

import json

from audit_dumps import entry, write

import planguard as pg
from planguard.cli import main
from planguard.plan.format import read
from planguard.report.page.said import said


def stuck(tmp_path, ranks):
    """Dumps of ranks of which only rank 2 does not come to the second round."""
    for rank in ranks:
        rows = [entry(number=0, seq=1), entry(number=1, seq=2, state="started")]
        write(tmp_path, rank, rows[: 1 if rank == 2 else 2], world=3)
    return pg.audit(tmp_path)


def told(verdict):
    """What the page says first of an audit."""
    actions = [{"op": "all_reduce", "count": 4, "dtype": "f32"}] * 2
    ranks = {str(rank): {"actions": actions} for rank in range(3)}
    plan = {"schema": "planguard.plan/1", "world_size": 3, "ranks": ranks}
    return said(verdict, read(json.dumps(plan).encode(), "x.plan.json"))["audit"]


def test_the_culprit_comes_first_with_where_it_stopped_and_who_waits(tmp_path):
    """Rank 2 is the culprit, certain; it stopped after its first call; ranks 0 and 1 wait."""
    found = told(stuck(tmp_path, (0, 1, 2)))
    assert (found["culprit"], found["certain"], found["finding"]) == ([2], True, 0)
    assert found["notes"]["stopped"][0].startswith("rank 2 after all_reduce")
    assert found["notes"]["waiting"][0].startswith("ranks 0 and 1 in all_reduce #2")
    assert found["notes"]["evidence"][0].startswith("medium")


def test_where_nobody_can_be_named_nobody_is(tmp_path):
    """Rank 2 left no dump: the waiting ranks are no culprits, and what is not known is said."""
    found = told(stuck(tmp_path, (0, 1)))
    assert found["culprit"] == []
    assert not found["certain"]
    assert any("no dump from rank 2" in text for text in found["unknown"])


def test_the_verdict_of_a_check_has_no_such_box(tmp_path):
    """A plan that was checked has no recorded culprit."""
    actions = [{"op": "barrier"}]
    plan = {"schema": "planguard.plan/1", "world_size": 1, "ranks": {"0": {"actions": actions}}}
    path = tmp_path / "a.plan.json"
    path.write_text(json.dumps(plan))
    assert told(pg.check(path)) is None


def test_the_command_draws_dumps_with_the_box(tmp_path, capsys):
    """`planguard report dumps/` writes a page whose script knows the box."""
    (tmp_path / "d").mkdir()
    stuck(tmp_path / "d", (0, 1, 2))
    main(["report", str(tmp_path / "d"), "-o", str(tmp_path / "page.html")])
    capsys.readouterr()
    assert "auditBox" in (tmp_path / "page.html").read_text("utf-8")
