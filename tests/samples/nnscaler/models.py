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


class RMSNorm(nn.Module):
    """Normalization by the root of the mean square."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the input, normalized along its last dimension."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class LlamaBlock(nn.Module):
    """Attention without biases, and a gated feed-forward network."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.head = heads, width // heads
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return attention and feed-forward network of a sequence, with residuals."""
        b, t, d = x.size(0), x.size(1), self.heads * self.head
        y = self.norm1(x)
        q, k, v = (
            linear(y).view(b, t, self.heads, self.head).transpose(1, 2)
            for linear in (self.q, self.k, self.v)
        )
        scores = q @ k.transpose(-2, -1) * self.head**-0.5 + mask
        a = torch.softmax(scores, dim=-1) @ v
        x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        y = self.norm2(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """A decoder in the manner of Llama, with a causal mask."""

    def __init__(self, layers: int = 2, vocabulary: int = 64, width: int = 16) -> None:
        super().__init__()
        self.tok = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList([LlamaBlock(width, 2) for _ in range(layers)])
        self.norm, self.head = RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("mask", torch.full((8, 8), -1e9).triu(1))

    def forward(self, data: dict[str, Any]) -> torch.Tensor:
        """Return the loss of one batch of token sequences."""
        x = self.tok(data["ids"])
        for block in self.blocks:
            x = block(x, self.mask)
        logits = self.head(self.norm(x))
        labels = data["labels"].view(-1)
        return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), labels)


class Vision(nn.Module):
    """Patches as tokens, mixed along both dimensions, and a class for each image."""

    def __init__(self, layers: int = 2, width: int = 16, patches: int = 8) -> None:
        super().__init__()
        self.patch = nn.Linear(12, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2 * layers)])
        self.tokens = nn.ModuleList([nn.Linear(patches, patches) for _ in range(layers)])
        self.channels = nn.ModuleList([nn.Linear(width, width) for _ in range(layers)])
        self.classes = nn.Linear(width, 8)

    def forward(self, data: dict[str, Any]) -> torch.Tensor:
        """Return the loss of one batch of images, cut into patches."""
        x = self.patch(data["patches"])
        for at, (tokens, channels) in enumerate(zip(self.tokens, self.channels, strict=True)):
            y = tokens(self.norms[2 * at](x).transpose(1, 2)).transpose(1, 2)
            x = x + nn.functional.gelu(y)
            x = x + nn.functional.gelu(channels(self.norms[2 * at + 1](x)))
        return nn.functional.cross_entropy(self.classes(x.mean(dim=1)), data["labels"])


class Translator(nn.Module):
    """An encoder, and a decoder that attends to it."""

    def __init__(self, width: int = 16, vocabulary: int = 64) -> None:
        super().__init__()
        self.source, self.target = (nn.Embedding(vocabulary, width) for _ in range(2))
        self.encode = nn.Linear(width, width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, data: dict[str, Any]) -> torch.Tensor:
        """Return the loss of one batch of pairs of sentences."""
        memory = nn.functional.relu(self.encode(self.source(data["source"])))
        x = self.target(data["ids"])
        scores = torch.softmax(self.q(x) @ self.k(memory).transpose(1, 2) / 4, dim=-1)
        x = self.norm(x + self.o(scores @ self.v(memory)))
        logits = self.head(x).flatten(0, 1)
        return nn.functional.cross_entropy(logits, data["labels"].flatten())


class Mixture(nn.Module):
    """Experts that all see every row, mixed by a gate."""

    def __init__(self, width: int = 16, experts: int = 4) -> None:
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = nn.ModuleList([nn.Linear(width, width) for _ in range(experts)])
        self.out = nn.Linear(width, width)

    def forward(self, data: dict[str, Any]) -> torch.Tensor:
        """Return the loss of one batch of rows."""
        x = data["data"]
        weights = torch.softmax(self.gate(x), dim=-1)
        parts = [torch.tanh(expert(x)) for expert in self.experts]
        y = torch.stack(parts, dim=-1) * weights.unsqueeze(1)
        return nn.functional.mse_loss(self.out(y.sum(dim=-1)), data["target"])


VISION_INPUTS = {"patches": [4, 8, 12], "labels": ([4], "i64")}
TRANSLATOR_INPUTS = {
    "source": ([4, 6], "i64"), "ids": ([4, 8], "i64"), "labels": ([4, 8], "i64"),
}  # fmt: skip
INPUTS = {
    "mlp": MLP_INPUTS, "wide": {"data": [64, 1024], "target": [64, 1024]}, "gpt": GPT_INPUTS,
    "gpt1": GPT_INPUTS, "llama": GPT_INPUTS, "big": GPT_INPUTS,
    "vision": VISION_INPUTS, "translator": TRANSLATOR_INPUTS, "mixture": MLP_INPUTS,
}  # fmt: skip
"""Shapes of the sample of every model."""


def sample(kind: str) -> dict[str, torch.Tensor]:
    """Return a sample for a model: integers below 8 for what has them, else uniform numbers."""
    made = {}
    for key, shape in INPUTS[kind].items():
        if isinstance(shape, tuple):
            made[key] = torch.randint(0, 8, shape[0])
        else:
            made[key] = torch.rand(shape)
    return made
