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


def test_a_rehearsal_has_more_time_and_a_run_on_a_gpu_keeps_its_limits():
    """The limits of a real run hold ten minutes; a rehearsal has four times as much."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import phases, ranks\n"
        "print(ranks.left(25), ranks.allowed(sum(limit for _, limit in phases.PHASES.values())))\n"
    )
    command = [sys.executable, "-c", code, str(SCRIPT)]
    for rehearsal, expected in (("0", "25 600"), ("1", "100.0 2400.0")):
        environment = os.environ | {"PLANGUARD_GPU_REHEARSAL": rehearsal}
        said = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, check=True
        ).stdout
        assert said.split() == expected.split()


def test_a_warning_of_the_guard_is_kept_where_there_is_no_report():
    """Ranks that stand while another computes are told on standard error alone."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import phases\n"
        "print(phases.warned(['other', 'first\\nwarning[PG502]: none\\n  r0 waits\\nrest']))\n"
        "print(phases.warned(['other']))\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", code, str(SCRIPT)],
        capture_output=True, text=True, timeout=60, check=True,
    ).stdout.splitlines()  # fmt: skip
    assert said == ["['warning[PG502]: none', '  r0 waits']", "[]"]
