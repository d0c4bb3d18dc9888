"""The models behind the samples: an MLP and a small GPT, written for ``use_end2end``."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

MLP_INPUTS = {"data": [4, 16], "target": [4, 16]}
GPT_INPUTS = {"ids": ([2, 8], "i64"), "labels": ([2, 8], "i64")}


class MLP(nn.Module):
    """Linear layers without bias, and a loss."""

    def __init__(self, width: int = 16, layers: int = 8) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width, bias=False) for _ in range(layers)])
        self.loss = nn.BCELoss()

    def forward(self, data: dict[str, Any]) -> torch.Tensor:
        """Return the loss of one sample."""
        x = data["data"]
        for layer in self.layers:
            x = layer(x)
        return self.loss(torch.sigmoid(x), data["target"])


class Block(nn.Module):
    """A transformer block that asks its input for its shape, as GPT code does."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return attention and MLP of a sequence, with residuals."""
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        q = q.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        k = k.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        v = v.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        y = (a @ v).transpose(1, 2).contiguous().view(b, t, d)
        x = x + self.proj(y)
        return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))


class GPT(nn.Module):
    """A GPT with learned positions."""

    def __init__(
        self, layers: int = 4, vocabulary: int = 64, length: int = 8, width: int = 16
    ) -> None:
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, 2) for _ in range(layers)])
        self.lnf, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("position", torch.arange(length))

    def forward(self, data: dict[str, Any]) -> torch.Tensor:
        """Return the loss of one batch of token sequences."""
        x = self.tok(data["ids"]) + self.pos(self.position)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.lnf(x))
        labels = data["labels"].view(-1)
        return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)


def mlp_sample() -> dict[str, torch.Tensor]:
    """Return a sample for the MLP."""
    return {"data": torch.randn(4, 16), "target": torch.rand(4, 16)}


def gpt_sample() -> dict[str, torch.Tensor]:
    """Return a sample for the GPT."""
    return {"ids": torch.randint(0, 64, (2, 8)), "labels": torch.randint(0, 64, (2, 8))}
