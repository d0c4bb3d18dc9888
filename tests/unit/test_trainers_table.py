"""What the trainers' suite calls wrong, and its table."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

SUITE = Path(__file__).parents[2] / "benchmarks" / "trainers"


@pytest.fixture
def made(monkeypatch):
    """The table's functions, and a row in which nothing is wrong."""
    monkeypatch.setattr(sys, "path", [str(SUITE), *sys.path])
    monkeypatch.delitem(sys.modules, "table", raising=False)
    import table

    commands = dict.fromkeys(table.COMMANDS, "SAFE")
    whys = {f"{name}_why": [] for name in table.COMMANDS}
    slip = dict.fromkeys(table.COMMANDS, "DEADLOCK")
    row = {
        "trainer": "t", "slip": "s", "bare_code": 0, "equal": True, "recorded": {0: {"barrier": 2}},
        "counted": {}, **commands, **whys,
        "broken": {"truth": "hangs", "guard_ranks": [0, 1], "guard_said": [], **slip, **whys},
    }  # fmt: skip
    yield table, row
    sys.modules.pop("table", None)


def test_what_must_not_be_said_is_told(made):
    """A SAFE of a slip that does harm, an unsafe verdict of the job as it is, counts that differ,
    a guard that names nobody beside a job that hangs, and a slip without harm are each a problem.
    """
    table, row = made
    assert table.problems(row) == []
    broken = row["broken"]
    for wrong, text in (
        ({**row, "stub": "MISMATCH"}, "wrong alarm: stub"),
        ({**row, "equal": False}, "counts differ"),
        ({**row, "broken": {**broken, "precheck": "SAFE"}}, "wrong SAFE: precheck"),
        ({**row, "broken": {**broken, "guard_ranks": []}}, "the guard names nobody"),
        ({**row, "broken": {**broken, "truth": "ends"}}, "does no harm"),
        ({**row, "dryrun": "UNKNOWN"}, "dryrun is UNKNOWN"),
    ):
        assert any(text in problem for problem in table.problems(wrong)), text


def test_the_table_says_what_was_not_run(made):
    """Calls a rank, all verdicts and the ranks that the guard named stand in the row; a guard that
    was left out is no guard that named nobody.
    """
    table, row = made
    line = table.table([row]).splitlines()[-1]
    assert line == (
        "| t | 2 = | SAFE | SAFE | SAFE | s | hangs | DEADLOCK, DEADLOCK | 0, 1 | DEADLOCK |"
    )
    del row["broken"]["guard_ranks"]
    assert "| not run |" in table.table([row])
