"""The examples of docs/how-to/precheck-scripts.md: broken they are told, mended they are SAFE."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "precheck"
NEEDS = {
    "with_accelerate": "accelerate",
    "with_lightning": "lightning",
    "with_trainer": "transformers",
}
WORDS = {
    "like_torchtitan": ["--samples", "2"],
    "like_verl": ["--samples", "2"],
    "with_accelerate": ["--samples", "3"],
}
DECIDED = {
    "plain_torch": "if step == 3 and",
    "like_torchtitan": "if size.item() > 1:",
    "like_verl": "for _ in range(micro_batches",
    "with_accelerate": "if seen.item() > 0.3:",
    "with_lightning": "if index == 1 and",
    "with_trainer": "if state.global_step == 2 and",
}
"""The line that the finding must name, for the broken form."""

pytestmark = [pytest.mark.processes, pytest.mark.wheel, pytest.mark.timeout(400)]


def told(name, *arguments):
    """Return exit code and result of an example."""
    command = [sys.executable, "-W", "ignore", "-m", "planguard", "precheck", f"{name}.py"]
    options = ["--ranks", "2", "--format", "json", "--budget", "300", *WORDS.get(name, [])]
    done = subprocess.run(
        [*command, *options, "--", *arguments],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    assert done.returncode in (0, 1, 3), done.stderr
    return done.returncode, json.loads(done.stdout)


def test_every_example_has_its_line():
    """No example is left out."""
    assert {path.stem for path in FOLDER.glob("*.py")} == set(DECIDED)


@pytest.mark.parametrize("name", sorted(DECIDED))
def test_an_example_is_told_broken_and_safe_mended(name):
    """Exit 1 and the line that decides with --bug; exit 0 without."""
    package = NEEDS.get(name)
    if package is not None and importlib.util.find_spec(package) is None:
        pytest.skip(f"needs {package}")  # test-all brings accelerate, and no larger trainer
    lines = (FOLDER / f"{name}.py").read_text().splitlines()
    number = next(at for at, line in enumerate(lines, 1) if DECIDED[name] in line)
    code, broken = told(name, "--bug")
    notes = [note for finding in broken["findings"] for note in finding.get("notes", [])]
    assert code == 1, broken["outcome"]
    assert any(f"{name}.py:{number}" in note for note in notes), notes
    code, mended = told(name)
    assert (code, mended["outcome"]) == (0, "SAFE")
