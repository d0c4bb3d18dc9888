"""The page of the four seeds is written from its rows and from what their tests gave."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import psutil
import pytest
import seeds

ROOT = seeds.ROOT
REPORT = """<testsuites><testsuite>
<testcase file="tests/a.py" name="test_one[x]" time="1.5"/>
<testcase file="tests/a.py" name="test_one[y]" time="0.5"><skipped message="no ranks"/></testcase>
<testcase file="tests/a.py" name="test_two" time="0"><skipped message="no  browser"/></testcase>
<testcase file="tests/a.py" name="test_three[x]" time="2"/>
<testcase file="tests/a.py" name="test_three[y]" time="2"><failure message="1 | 2"/></testcase>
</testsuite></testsuites>"""


def test_the_page_is_what_its_rows_and_results_give():
    """docs/seeds.md is what would be written: rows, claims of the tests, results of their run."""
    assert seeds.PAGE.read_text(encoding="utf-8") == seeds.page(seeds.rows(), seeds.results())


def test_what_works_is_shown_and_what_does_not_says_why():
    """A row that says W names tests that are there and passed when the page was made; w and N say
    what falls short; nothing is absent.
    """
    every = seeds.rows()
    assert sum(bool(row.tests) for row in every) >= 30
    assert seeds.broken(every, seeds.results()) == []
    for row in every:
        for test in row.tests:
            assert seeds.claim(test), test


def test_a_test_that_is_not_there_makes_no_page():
    """A row whose test does not exist is an error, not an empty cell."""
    row = seeds.Row("dl2", "a claim", "W", ("tests/test_seeds.py::test_nowhere",))
    with pytest.raises(LookupError, match="test_nowhere"):
        seeds.page([row], {})


def test_outcomes_are_those_of_the_report():
    """One failed case fails a test, skipped ones alone skip it, and what is missing has failed."""
    names = [f"tests/a.py::test_{name}" for name in ("one", "two", "three", "four")]
    one, two, three, four = seeds.read_report(REPORT.encode(), names).values()
    assert (one["outcome"], one["counts"], one["seconds"]) == (
        "passed",
        {"passed": 1, "skipped": 1},
        2,
    )
    assert (two["outcome"], two["reason"]) == ("skipped", "no browser")
    assert (three["outcome"], three["counts"]) == ("failed", {"passed": 1, "failed": 1})
    assert four["outcome"] == "failed"


def test_a_row_that_says_works_and_does_not_is_named():
    """W without a test, not run, skipped or failed is wrong; so is w without a reason."""
    gave = {name: {"outcome": name} for name in ("passed", "failed", "skipped")}
    states = [("W", ("passed",), ""), ("W", ("passed", "failed"), ""), ("W", ("skipped",), "")]
    states += [("W", ("new",), ""), ("W", (), ""), ("w", (), ""), ("w", ("failed",), "why")]
    every = [seeds.Row("dl2", f"row {at}", *one) for at, one in enumerate(states)]
    assert [one.partition(":")[0] for one in seeds.broken(every, gave)] == [
        "row 1", "row 2", "row 3", "row 4", "row 5",
    ]  # fmt: skip


def worked_on(command):
    """Wait until the ranks of a test are there, and return all processes of a command."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = command.children(recursive=True)
        if sum("live_worker.py" in " ".join(one.cmdline()) for one in found) > 2:
            return found
        time.sleep(0.1)
    raise AssertionError("no rank was started")


@pytest.mark.processes
def test_interrupted_it_ends_with_its_tests_and_stores_nothing(tmp_path):
    """SIGINT while tests run: the command ends with 130, and no process of it goes on."""
    code = (
        "import pathlib, seeds, sys; folder = pathlib.Path(sys.argv[1]);"
        "seeds.RESULTS, seeds.PAGE = folder / 'results.json', folder / 'page.md';"
        "sys.exit(seeds.main(['--only', 'stacks of every named rank']))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT / "tests" / "campaigns",
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert "== 1 of 1" in process.stdout.readline() + process.stdout.readline()
    started = worked_on(psutil.Process(process.pid))
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert not [one for one in started if one.is_running() and one.status() != "zombie"]
    assert process.returncode == 130
    assert "interrupted" in said
    assert not (tmp_path / "results.json").exists()
