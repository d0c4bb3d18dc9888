"""``planguard precheck --vary``: scripts whose batches are made up, like the first of a loader."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")

from planguard.cli import main

pytestmark = [pytest.mark.processes, pytest.mark.wheel, pytest.mark.timeout(300)]

HEAD = """\
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

ROWS = [{"ids": [1, 2, 3], "image": 1.0}] * 2


def one(rows):
    return rows[0]


def main():
    dist.init_process_group("gloo")
    loader = DataLoader(ROWS, batch_size=1, collate_fn=one)
"""
ALONE = """\
    for batch in loader:
        if "image" in batch:
            dist.all_reduce(torch.ones(2))
        dist.all_reduce(torch.ones(1))
"""
AGREED = """\
    for batch in loader:
        found = torch.tensor(float("image" in batch))
        dist.all_reduce(found, dist.ReduceOp.MAX)
        if found.item() > 0:
            dist.all_reduce(torch.ones(2))
        dist.all_reduce(torch.ones(1))
"""
BY_NEXT = """\
    batches = iter(loader)
    batch = next(batches)
    for row in batch["ids"]:
        dist.all_reduce(torch.ones(1))
"""
HANDED_ON = """\
    def step(batch):
        return len(batch["ids"]) > 3

    for number, batch in enumerate(loader):
        if step(batch):
            dist.barrier()
        dist.all_reduce(torch.ones(1))
"""
UNTURNED = """\
    import zlib

    for batch in loader:
        if zlib.crc32(str(batch["ids"]).encode()) == 1:
            dist.barrier()
        dist.all_reduce(torch.ones(1))
"""
HARMLESS = UNTURNED.replace("dist.barrier()", "print('found')")


def decided(folder, capsys, body, *options):
    """Check a script on two ranks, and return its result."""
    script = folder / "train.py"
    script.write_text(f"{HEAD}{body}\n\nmain()\n")
    code = main(["precheck", str(script), "--ranks", "2", "--vary", "--format", "json", *options])
    out = capsys.readouterr().out
    return code, json.loads(out) if out.startswith("{") else {}


@pytest.mark.parametrize("body", [ALONE, BY_NEXT, HANDED_ON], ids=["key", "next", "handed on"])
def test_a_batch_that_one_rank_may_get_decides(tmp_path, capsys, body):
    """The finding says that such a batch is assumed, and which loader gives it."""
    code, result = decided(tmp_path, capsys, body)
    assert code == 1
    notes = " ".join(note for one in result["findings"] for note in one["notes"])
    assert "assumes that a rank can get a batch that was made up" in notes
    assert "train.py:14" in notes


@pytest.mark.parametrize("body", [AGREED, HARMLESS], ids=["agreed", "harmless"])
def test_what_is_agreed_on_or_decides_nothing_is_safe(tmp_path, capsys, body):
    """Every test that depends on a batch went both ways, one of them by force."""
    code, result = decided(tmp_path, capsys, body)
    assert code == 0, result
    assert any(one["kind"] == "varied" for one in result["approximations"])


def test_a_side_that_no_batch_takes_is_left_open_with_its_line(tmp_path, capsys):
    """Forced, the ranks do not agree: nobody knows whether a batch does it."""
    code, result = decided(tmp_path, capsys, UNTURNED)
    assert code == 3
    assert "train.py:18" in " ".join(result["reasons"])


def test_a_module_of_the_program_is_told_as_well(tmp_path, capsys):
    """Its tests depend on what the script takes from a loader."""
    (tmp_path / "steps.py").write_text(
        "import zlib\nimport torch.distributed as dist\n\n\n"
        "def step(ids):\n"
        "    if zlib.crc32(str(ids).encode()) == 1:\n"
        "        dist.barrier()\n"
    )
    body = "    import steps\n\n    for batch in loader:\n        steps.step(batch['ids'])\n"
    code, result = decided(tmp_path, capsys, f"{body}        dist.all_reduce(torch.ones(1))\n")
    assert code == 3
    assert "steps.py:6" in " ".join(result["reasons"])


def test_a_time_that_is_over_claims_nothing(tmp_path, capsys):
    """What was not varied in the time is left open."""
    code, result = decided(tmp_path, capsys, AGREED, "--budget", "0.1s")
    assert code == 3
    assert "budget" in " ".join(result["reasons"])


@pytest.mark.parametrize(
    ("body", "options", "said"),
    [
        ("    dist.barrier()\n", (), "walks no torch DataLoader, so that --vary varies nothing"),
        (ALONE, ("--samples", "2"), "--vary makes batches up"),
    ],
    ids=["no loader", "with samples"],
)
def test_what_cannot_be_varied_is_refused(tmp_path, capsys, body, options, said):
    """A usage error, not a SAFE that says less than it seems to."""
    script = tmp_path / "train.py"
    script.write_text(f"{HEAD}{body}\n\nmain()\n")
    assert main(["precheck", str(script), "--ranks", "2", "--vary", *options]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
