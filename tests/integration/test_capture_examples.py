from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import planguard

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "fx"
SAYS = {
    "capture_tensor_parallel.py": ["8 ranks captured", "verdict: SAFE"],
    "precheck_script.py": ["PG201: rank 5", "of train_step", "verdict: MISMATCH"],
    "validate_a_pass.py": [
        "pass sink_waits: valid; all ranks: SAFE",
        "missing-wait: rank 0: nothing waits for reduce_a",
        "the ranks together are MISMATCH",
    ],
}


@pytest.mark.wheel
@pytest.mark.timeout(300)
@pytest.mark.parametrize("script", sorted(path.name for path in FOLDER.glob("*.py")))
def test_an_example_script_says_what_its_text_says(script):
    """Every script of examples/fx runs to its end and prints the answers it is about."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(FOLDER / script)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    for line in SAYS[script]:
        assert line in done.stdout


@pytest.mark.parametrize(
    ("name", "outcome"),
    [("tp-mlp.fx.json", "SAFE"), ("swapped-gathers.fx.json", "MISMATCH")],
)
def test_the_example_dumps_have_the_outcome_that_the_docs_state(name, outcome):
    """One real graph as torch made it, and one with two gathers swapped on rank 2."""
    assert planguard.check(FOLDER / name, planner="fx").outcome.value == outcome
