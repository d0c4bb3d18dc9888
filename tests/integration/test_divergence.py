"""Programs whose ranks decide for themselves, against what real gloo processes did with them.

``tests/divergence`` holds pairs of a bug and its usual fix, and how each ended for assignments of
samples to ranks (its README says how that was measured). By default every program is played with
one assignment that ended and one that did not; with ``--slow``, with all of them.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.processes,
    pytest.mark.wheel,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(300),
]
pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "divergence"
TRUTH = json.loads((FOLDER / "truth.json").read_text())
UNDECIDED = {
    "a_max_then_range_bug": "reduce leaves a rank that is not the root with no promised value",
    "c_early_return_bug": "where all ranks return at once there is nothing to check (PG910)",
    "c_exit_zero_bug": "the same",
    "b21_abort_by_clock_bug": "nor what a clock answers",
    "c33_exists_on_nfs_bug": "what a file system answers is nothing that a play can know",
}
"""Programs some of whose rows are rightly undecided, and why."""


def measuring():
    """Return benchmarks/divergence.py, which is no package."""
    file = ROOT / "benchmarks" / "divergence.py"
    spec = importlib.util.spec_from_file_location("divergence_measure", file)
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["divergence_measure"] = module
    spec.loader.exec_module(module)
    return module


MEASURE = measuring()


def answers(name, runs, door):
    """Play runs of a program and return the rows."""
    rows = []
    for run in runs:
        file = FOLDER / "programs" / f"{name}.py"
        said, reason = MEASURE.DOORS[door](file, run["samples"])
        rows.append(
            MEASURE.Row(name, tuple(run["samples"]), run["outcome"], said, reason, seconds=0.0)
        )
    return rows


def judged(rows):
    """Assert that no row is wrong, and that what is undecided has a reason."""
    assert not [row for row in rows if row.kind.startswith("wrong")]
    unknown = [row for row in rows if row.kind == "unknown"]
    assert all(row.reason for row in unknown)
    return unknown


def some(runs):
    """Return the last run that ended, and the last that did not: mixed samples come last."""
    found = {run["outcome"] == "ends": run for run in runs}
    return list(found.values())


@pytest.mark.parametrize("name", sorted(TRUTH))
def test_a_program_is_told_as_it_ended(name):
    """SAFE where the real processes ended, unsafe where they hung, raised or were corrupt."""
    unknown = judged(answers(name, some(TRUTH[name]["runs"]), "precheck"))
    assert not unknown or name in UNDECIDED


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TRUTH))
def test_every_assignment_of_samples_is_told_as_it_ended(name):
    """The same for every assignment that was measured."""
    unknown = judged(answers(name, TRUTH[name]["runs"], "precheck"))
    assert not unknown or name in UNDECIDED


@pytest.mark.parametrize("name", ["a_float_threshold_bug", "a_float_threshold_fix"])
def test_the_command_says_what_the_call_says(name):
    """``dryrun --stub`` plays by the same mechanism and gives the same answer."""
    judged(answers(name, some(TRUTH[name]["runs"]), "stub"))


def writing():
    """Return tests/divergence/write_table.py, which is no package."""
    spec = importlib.util.spec_from_file_location("divergence_table", FOLDER / "write_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLE = writing()
PUBLIC = {path.stem: (path, module, *thread) for path, module, *thread in TABLE.programs()}


def shown(name):
    """Return the row of the page that begins as that of a program does."""
    start = TABLE.head(*PUBLIC[name])
    rows = [row for row in TABLE.PAGE.read_text().splitlines() if row.startswith(start)]
    assert len(rows) == 1
    return rows[0], start


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_a_public_problem_is_in_the_table(name):
    """The thread, what is wrong, the line that decides, and that the fix is SAFE."""
    row, _ = shown(name)
    assert f"decided at line {PUBLIC[name][1].BY}, `" in row
    assert row.endswith("| SAFE |")
    runs = TRUTH[name.replace("_bug", "_fix")]["runs"]
    assert {run["outcome"] for run in runs} == {"ends"}
    assert {run["outcome"] for run in TRUTH[name]["runs"]} != {"ends"}


def test_there_are_twenty_five_public_problems():
    """Of classes A to C, each thread once."""
    threads = {(module.KIND[0], *thread) for _, module, *thread in PUBLIC.values()}
    assert len(threads) >= 25
    assert {kind for kind, *_ in threads} == {"A", "B", "C"}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_the_table_says_what_is_answered_today(name):
    """Outcome, code, line and the fix, asked again."""
    row, start = shown(name)
    assert row == start + TABLE.answer(*PUBLIC[name][:2])
