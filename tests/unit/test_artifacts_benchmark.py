"""The artifacts of the benchmark are plans, of the size and shape that it says."""

from __future__ import annotations

import artifacts
import pytest

import planguard


@pytest.mark.parametrize("name", sorted(artifacts.KINDS))
def test_each_artifact_is_read_and_decided_at_two_sizes(name, tmp_path):
    """The smallest, and the same grown twice: more actions or ranks, SAFE, and plainly parsed."""
    kind = artifacts.KINDS[name]
    counts = []
    for size in (1, 2):
        files = kind.grow(size)
        kind.parse(files)
        (tmp_path / str(size)).mkdir()
        plan = planguard.load(artifacts.written(tmp_path / str(size), files))
        counts.append(plan.actions)
        assert planguard.check(plan, model="gloo").safe
    assert counts[1] > counts[0]


def test_a_row_says_how_often_plain_parsing_it_takes():
    """Load and check together, in times of the parser's time; and what the plan alone takes."""
    row = artifacts.Row("fx", 2_000_000, 8, 100, "SAFE", parse=0.1, load=0.3, check=0.2, plan=0.1)
    assert row.times == pytest.approx(5)
    assert row.floor == pytest.approx(3)
    assert artifacts.line(row).split(" | ")[-4:] == ["4.00", "200", "5.0", "3.0 |"]
