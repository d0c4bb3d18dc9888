"""``dryrun --stub`` decides on what a small model computes: its gradients and losses are real."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.processes, pytest.mark.wheel]
torch = pytest.importorskip("torch")

from planguard.capture.play.compute_stub import LEAST, stub_compute  # noqa: E402 - torch first
from planguard.capture.play.mailbox import (  # noqa: E402 - what needs torch behind its skip
    LARGE_BYTES,
    SMALL_BYTES,
    size_for,
)
from planguard.capture.play.meta_shapes import SPARED  # noqa: E402 - same
from planguard.capture.values.made_up import is_marked, mark  # noqa: E402 - same

JOB = """
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

slip, width = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(width, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
own = torch.Generator().manual_seed(rank)
count = 3 if slip == "batch" and rank == 1 else 4
data = [torch.randn(4, width, generator=own) for _ in range(count)]
best = float("inf")
for _ in range(2):
    for batch in data:
        optimizer.zero_grad()
        model(batch).pow(2).mean().backward()
        optimizer.step()
    with torch.no_grad():
        loss = model.module(data[0]).pow(2).mean()
    if slip != "own":
        dist.all_reduce(loss)
    if loss.item() < best:
        best = loss.item()
        if not (slip == "save" and rank == 1):
            dist.barrier()  # rank 0 has saved
"""


def verdict(folder: Path, slip: str, width: int, *options: str) -> tuple[str, str]:
    """Return the word of the verdict, and all that was said."""
    (folder / "job.py").write_text(JOB)
    words = ["dryrun", "--stub", "--model", "gloo", *options, "-o", "run", "--", "torchrun"]
    words += ["--nproc-per-node", "2", "job.py", slip, str(width)]
    ended = subprocess.run(
        [sys.executable, "-m", "planguard", *words],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    said = [line for line in ended.stdout.splitlines() if line.startswith("verdict: ")]
    assert said, ended.stderr
    return said[-1].split()[1], ended.stdout + ended.stderr


def test_a_small_model_is_decided(tmp_path):
    """The best loss of all ranks: agreed on, so that all save; it is that of a real run."""
    word, said = verdict(tmp_path, "", 64)
    assert word == "SAFE", said


@pytest.mark.parametrize("slip", ["batch", "save"])
def test_a_slip_beside_a_loss_is_found(tmp_path, slip):
    """One batch fewer, and saving on rank 0 only: UNKNOWN as long as losses were made up."""
    word, said = verdict(tmp_path, slip, 64)
    assert word in ("MISMATCH", "DEADLOCK"), said
    assert "job.py:" in said


def test_each_rank_decides_by_its_own_loss(tmp_path):
    """Ranks may part, and what was played does not say whether: never SAFE."""
    word, said = verdict(tmp_path, "own", 64)
    assert word != "SAFE", said
    assert "job.py:" in said


def test_a_large_model_is_not(tmp_path):
    """Its gradients do not travel, so that what is agreed on is made up, and the line is told."""
    assert LARGE_BYTES < 4 * 8 * 16_384
    word, said = verdict(tmp_path, "", 16_384)
    assert word == "UNKNOWN", said
    assert "PG505" in said


def test_operators_of_middle_size_are_computed(tmp_path):
    """Some thousand weights: left undone, a step of the optimizer made every loss a guess."""
    assert LEAST < 8 * 800 * 8 < SPARED
    word, said = verdict(tmp_path, "", 800)
    assert word == "SAFE", said


@pytest.mark.parametrize("most", [0, 20_000, 1 << 20])
def test_no_more_is_computed_than_was_allowed(most):
    """What is known is computed as long as it lasts; results that grow, and guesses, are not."""
    one = torch.ones(5000)
    with stub_compute(most=most) as mode:
        made = [one + 1 for _ in range(4)]
        known = [not is_marked(tensor) for tensor in made]
        assert known == [most >= 5000 * (at + 1) for at in range(4)]
        assert all(
            bool((tensor == 2).all()) for tensor, kept in zip(made, known, strict=True) if kept
        )
        left = mode.left
        assert is_marked(torch.outer(one, one))
        assert is_marked(mark_as_made_up(one + 0) * 2)
        assert mode.left >= left - 5000  # the one copy that was allowed


def mark_as_made_up(tensor):
    """Return a tensor whose values are said to be made up."""
    mark([tensor])
    return tensor


def test_many_ranks_send_less():
    """Everybody gets what everybody sent: what one receives in a call stays below 2 MiB."""
    assert size_for(2) == size_for(8) == LARGE_BYTES
    assert size_for(1 << 20) == SMALL_BYTES
    assert all(size_for(n) * n <= 8 * LARGE_BYTES for n in (9, 16, 100, 1000, 2048))
