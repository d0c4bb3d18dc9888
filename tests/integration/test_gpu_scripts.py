"""The scripts that measure on a GPU, on a machine that has none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "gpu"


def run(*options):
    """Run the command where no GPU is seen."""
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(
        [sys.executable, str(SCRIPT), *options],
        env=environment, capture_output=True, text=True, timeout=120, check=True,
    ).stdout  # fmt: skip


def test_without_a_gpu_the_command_says_so_and_ends():
    """Nothing is measured, nothing fails."""
    assert run().startswith("skipped: torch sees no GPU here")


def test_a_phase_ends_with_one_line_of_figures(tmp_path):
    """A rehearsed phase prints its figures and appends them to the results."""
    said = json.loads(run("--rehearse", "--only", "facts", "--out", str(tmp_path)))
    assert said["phase"] == "facts"
    assert said["figures"]["cores"] == os.cpu_count()
    assert json.loads((tmp_path / "gpu.jsonl").read_text()) == said


def test_a_phase_that_is_over_keeps_its_rows_and_leaves_nobody(tmp_path):
    """A command that outlives what its phase has is ended with all that it started, in whatever
    session, and the rows in front of it are on the disk.
    """
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import phases; from pathlib import Path\n"
        "rows = phases.Rows(Path(sys.argv[2]), 'made-up'); rows['first'] = 1\n"
        "inner = 'import subprocess, sys, time; subprocess.Popen([sys.executable, \"-c\", '\n"
        "inner += '\"import time; time.sleep(99.125)\"], start_new_session=True); time.sleep(99)'\n"
        "rows['second'] = phases.text_of([sys.executable, '-c', inner], 90)\n"
    )
    until = {"PLANGUARD_GPU_UNTIL": str(time.monotonic() + 8.0)}
    subprocess.run(
        [sys.executable, "-c", code, str(SCRIPT), str(tmp_path)], env=os.environ | until,
        timeout=60, check=True,
    )  # fmt: skip
    rows = json.loads((tmp_path / "made-up.json").read_text())
    assert rows["first"] == 1
    assert rows["second"].startswith("not ended after ")
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert "sleep(99.125)" not in running.stdout
