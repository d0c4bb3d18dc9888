"""The page of the four seeds: every row that works names a test that there is."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "seeds.md"


def rows() -> list[list[str]]:
    """Return the cells of every row."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[1] in ("W", "w", "A", "N")]


def test_every_test_that_the_page_names_is_there():
    """A row names file and test; both exist, so the page claims nothing that nobody runs."""
    named = [name for row in rows() for name in re.findall(r"`(tests/[^`]+)`", row[2])]
    assert len(named) >= 30
    for name in named:
        file, _, test = name.partition("::")
        assert f"def {test}(" in (ROOT / file).read_text(), name


def test_what_works_is_shown_and_what_does_not_says_why():
    """W has a test; w and N say what falls short; nothing is absent."""
    for row in rows():
        assert len(row) == 4, row
        assert row[1] != "A", row
        assert row[2] if row[1] == "W" else row[3], row
