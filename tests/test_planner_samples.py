"""docs/planners/samples.md is what the command writes, and its rows are those of the samples."""

from __future__ import annotations

import planner_samples as campaign
import pytest

ROWS = campaign.stored()
SAMPLES = list(campaign.samples())


def test_the_page_is_what_its_rows_give():
    """The page is what ``--write`` would write."""
    assert campaign.PAGE.read_text(encoding="utf-8") == campaign.page(ROWS)


def test_every_sample_has_its_row():
    """A sample that came, went or changed since the command ran is noticed."""
    listed = {path: (planner, mark) for path, planner, mark in SAMPLES}
    assert {path: (row["planner"], row["digest"]) for path, row in ROWS.items()} == listed


@pytest.mark.parametrize("planner", sorted({planner for _, planner, _ in SAMPLES}))
def test_the_samples_give_what_their_rows_say(planner):
    """Each sample of an adapter under the model that the command line takes by default."""
    for path, own, _ in SAMPLES:
        if own != planner:
            continue
        found = campaign.decide(path, (campaign.DEFAULT,))
        row = ROWS[path]
        assert (path, found["ranks"], found["actions"]) == (path, row["ranks"], row["actions"])
        assert found["outcomes"] == {campaign.DEFAULT: row["outcomes"][campaign.DEFAULT]}
        if found["reasons"]:
            assert found["reasons"][campaign.DEFAULT] == row["reasons"][campaign.DEFAULT]


def test_what_is_undecided_is_known_and_little():
    """Four samples lack what decides them; nothing else is UNKNOWN by default."""
    undecided = {
        path for path, row in ROWS.items() if row["outcomes"][campaign.DEFAULT] == "UNKNOWN"
    }
    assert undecided == {
        "tests/samples/chakra/unordered",  # an order that nothing decides
        "tests/samples/xla/manual/differs-part.mlir",  # a partitioner has still to run
        "tests/samples/xla/mlp.mlir",
        "tests/samples/xla/mpmd/shardy-fragment-calls.mlir",  # an array changes its layout
    }
    assert campaign.undecided_share(ROWS) <= 0.02
