"""What the jobs share: a small model, batches, and which slip they are asked to make."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import torch

SLIP = os.environ.get("TRAINERS_SLIP", "")
"""Name of the slip that this job makes; none if empty."""


def slips(name: str, rank: int, who: int = 1) -> bool:
    """Tell whether this rank makes a slip here."""
    return name == SLIP and rank == who


def folder(name: str) -> Path:
    """Return a folder that all ranks of this job write into."""
    place = Path(os.environ.get("TRAINERS_OUT", tempfile.gettempdir())) / name
    place.mkdir(parents=True, exist_ok=True)
    return place


def net() -> torch.nn.Module:
    """Return a small model, the same one on every rank."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))


def batches(rank: int, count: int = 4) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return batches of a rank's own."""
    made = torch.Generator().manual_seed(100 + rank)
    return [
        (torch.randn(8, 16, generator=made), torch.randint(0, 4, (8,), generator=made))
        for _ in range(count)
    ]


def gpt(layers: int = 1):
    """Return a tiny language model of transformers with random weights."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=layers, n_head=2)
    )
