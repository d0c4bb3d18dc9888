"""Slips of scripts with accelerate, each with its mend: a batch that one rank skips, or gathers.

Each is played with any of some batches of its loader on each rank, or as it is.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

pytest.importorskip("torch")

pytestmark = [pytest.mark.processes, pytest.mark.wheel, pytest.mark.timeout(400)]

ACCELERATE = """\
import sys
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True)
rows = torch.tensor([1.0, float("nan")]).repeat_interleave(8).reshape(16, 1)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
loader = DataLoader(TensorDataset(rows), batch_size=4)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for (batch,) in loader:
    loss = model(batch).square().mean()
    bad = loss.detach().isnan().float()
    if "--bug" not in sys.argv:
        bad = accelerator.reduce(bad, reduction="sum")
    if bad.item() > 0:  # skip it
        continue
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
accelerator.wait_for_everyone()
"""
GATHERED = """\
import sys
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True)
loader = accelerator.prepare(DataLoader(TensorDataset(torch.randn(16, 4)), batch_size=4))
found = []
for (batch,) in loader:
    if "--bug" not in sys.argv:
        found.append(accelerator.gather_for_metrics(batch.mean(1)))
    elif accelerator.is_main_process:  # who else needs the metrics?
        found.append(accelerator.gather_for_metrics(batch.mean(1)))
if accelerator.is_main_process:
    print(torch.cat(found).mean())
accelerator.wait_for_everyone()
"""
SLIPS = {
    "accelerate, a loss that is NaN": (
        "accelerate",
        ACCELERATE,
        ["--samples", "3"],
        "if bad.item()",
    ),
    "accelerate, metrics of one rank": ("accelerate", GATHERED, [], "elif accelerator.is_main"),
}


def told(script, options, *arguments):
    """Return exit code and result of a script."""
    command = [sys.executable, "-W", "ignore", "-m", "planguard", "precheck", script.name]
    words = ["--ranks", "2", "--format", "json", "--budget", "300", *options, "--", *arguments]
    done = subprocess.run(
        [*command, *words],
        cwd=script.parent,
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    assert done.returncode in (0, 1, 3), done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("name", SLIPS)
def test_a_slip_is_told_with_its_line_and_its_mend_is_safe(tmp_path, name):
    """Exit 1 and the line that decides with --bug; exit 0 without."""
    package, text, options, decides = SLIPS[name]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"needs {package}")  # test-all brings accelerate, and no larger trainer
    script = tmp_path / "train.py"
    script.write_text(text)
    line = next(at for at, one in enumerate(text.splitlines(), 1) if decides in one)
    code, broken = told(script, options, "--bug")
    notes = [note for finding in broken["findings"] for note in finding.get("notes", [])]
    assert code == 1, broken["outcome"]
    assert any(f"train.py:{line} " in note for note in notes), notes
    code, mended = told(script, options)
    assert (code, mended["outcome"]) == (0, "SAFE"), mended["reasons"]
