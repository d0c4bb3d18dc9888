"""The scripts that measure on a GPU, on a machine that has none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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
