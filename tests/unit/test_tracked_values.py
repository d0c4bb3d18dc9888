"""Parameters of runs with odd values: kept as they are, or refused by name."""

from __future__ import annotations

import pytest

from planguard.errors import UsageError
from planguard.screen.tracked import tracked


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_no_store_holds_stays_text(tmp_path, text):
    """Python writes the first three into JSON."""
    file = tmp_path / "runs.json"
    file.write_text('[{"name": "a", "lr": ' + text + ', "LR": 2, "n": 1' + 30 * "0" + "}]")
    found = tracked([str(file)]).of("a")
    assert found["lr"] == text
    assert found["LR"] == 2
    assert found["n"] == 10**30


def test_a_name_that_is_there_twice_is_refused(tmp_path):
    """The first value was lost without a word."""
    for name, text in (("a.json", '[{"name": "a", "lr": 1, "lr": 2}]'),
                       ("a.csv", "name,lr,LR,lr\na,1,2,3\n")):  # fmt: skip
        (tmp_path / name).write_text(text)
        with pytest.raises(UsageError, match="lr is there twice"):
            tracked([str(tmp_path / name)])
