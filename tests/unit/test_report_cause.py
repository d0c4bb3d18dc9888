"""Which finding is the cause, and in which order the others are read."""

from __future__ import annotations

from dataclasses import replace

import pytest

import planguard
from planguard.report.page.cause import cause, missing, ordered
from planguard.verdict import Finding


def finding(code, ranks, *notes, severity="error"):
    """Return a finding of these ranks."""
    return Finding(code, code, severity, "certain", "execution", code, ranks, notes=notes)


@pytest.fixture
def verdict(root):
    """Return any unsafe verdict; its findings are replaced."""
    return planguard.check(root / "examples" / "head-to-head.plan.json")


def test_a_finding_that_names_nobody_follows(verdict):
    """PG501 before PG007 is read after it; advice comes last."""
    found = replace(
        verdict,
        findings=(
            finding("PG640", (), severity="warning"),
            finding("PG501", (0, 1)),
            finding("PG007", (0,), "missing participant: rank 2"),
        ),
    )
    assert ordered(found) == ([2, 1, 0], {1})


def test_who_waits_for_a_rank_that_is_held_up_follows(verdict):
    """Rank 0 waits for rank 1, which waits for rank 2, which left: the last is the cause."""
    found = replace(
        verdict,
        findings=(
            finding("PG007", (0,), "missing participant: rank 1"),
            finding("PG006", (1,), "missing participant: rank 2"),
        ),
    )
    assert ordered(found) == ([1, 0], {0})


def test_two_that_wait_for_each_other_are_both_causes(verdict):
    """Neither of two findings that hold up each other follows from the other."""
    found = replace(
        verdict,
        findings=(
            finding("PG007", (0,), "missing participant: rank 1"),
            finding("PG007", (1,), "missing participant: rank 0"),
        ),
    )
    assert ordered(found) == ([0, 1], frozenset())


@pytest.mark.parametrize(
    ("note", "ranks"),
    [
        ("missing participant: rank 4", (4,)),
        ("missing participant: ranks 4 and 7", (4, 7)),
        ("missing participant: ranks [0-2,5]", (0, 1, 2, 5)),
        ("missing participant: not a cycle in 3 ranks", ()),
    ],
)
def test_missing_ranks_are_read_as_they_are_written(note, ranks):
    """What ``name_ranks`` writes comes back; a sentence names nobody."""
    assert missing(finding("PG007", (0,), note)) == ranks


def test_a_safe_plan_has_no_cause(root):
    """Nothing is blamed where nothing is wrong, nor where nothing was decided."""
    file = root / "examples" / "mesh-3d.plan.json"
    plan = planguard.load(file)
    assert cause(planguard.check(plan), plan, None) is None


def test_ranks_of_one_cause_are_told_together(root):
    """Four groups that wait for four ranks at one line are one cause with four ranks."""
    plan = planguard.load(root / "examples" / "xla" / "skipped.hlo")
    told = cause(planguard.check(plan), plan, None)
    assert told["who"] == [4, 5, 6, 7]
    assert told["alike"] == 4
    assert [stop[0] for stop in told["stopped"]] == [4, 5, 6, 7]
    assert sorted(rank for row in told["waits"] for rank in row[0]) == [0, 1, 2, 3]
