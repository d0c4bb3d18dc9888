"""The models of dl2's first question, with the shapes of the paper.

MLP needs torch only; the others are the implementations of transformers, with random weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH = 8
LENGTH = 512
Names = tuple[str, ...]
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Model:
    """How to build and run a model.

    Attributes:
        build: Makes the module.
        batch: Makes one batch: positional arguments of ``loss``.
        loss: Runs the module, perhaps wrapped, on a batch and returns a scalar.
        pairs: Linear layers split by columns, then rows (ends of their names).
        singles: Layers split by columns and gathered.
    """

    build: Callable[[], nn.Module]
    batch: Callable[[], tuple[torch.Tensor, ...]]
    loss: Callable[..., torch.Tensor]
    pairs: Pairs = ()
    singles: Names = ()


def causal(length: int) -> torch.Tensor:
    """Return a mask over earlier positions; transformers looks at the values of smaller ones."""
    return torch.full((BATCH, 1, length, length), -1e9).triu(1)


def everything(length: int) -> torch.Tensor:
    """Return a mask that hides nothing."""
    return torch.zeros(BATCH, 1, length, length)


def mlp() -> Model:
    """16 linear layers, hidden size 1024."""

    def build() -> nn.Module:
        def pair() -> nn.Module:
            return nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU())

        return nn.Sequential(*(pair() for _ in range(8)))

    return Model(
        build,
        lambda: (torch.randn(BATCH, 1024),),
        lambda module, x: module(x).square().mean(),
        pairs=((".0", ".2"),),
    )


def gpt2() -> Model:
    """6 layers, 12 heads, hidden size 768, sequence length 512."""
    from transformers import GPT2Config, GPT2LMHeadModel

    def build() -> nn.Module:
        config = GPT2Config(n_layer=6, n_head=12, n_embd=768, n_positions=512, use_cache=False)
        return GPT2LMHeadModel(config)

    return Model(
        build,
        lambda: (torch.randint(0, 50257, (BATCH, LENGTH)),),
        lambda module, ids: module(input_ids=ids, attention_mask=causal(LENGTH)).logits.mean(),
        pairs=(("mlp.c_fc", "mlp.c_proj"),),
        singles=("attn.c_attn", "attn.c_proj"),
    )


def mbart() -> Model:
    """2 layers each side, 8 heads, hidden size 128, sequence length 512."""
    from transformers import MBartConfig, MBartForConditionalGeneration

    def build() -> nn.Module:
        sides = {
            f"{side}_{what}": value
            for side in ("encoder", "decoder")
            for what, value in (("layers", 2), ("attention_heads", 8), ("ffn_dim", 512))
        }
        config = MBartConfig(
            d_model=128, max_position_embeddings=512, use_cache=False, vocab_size=50265, **sides
        )
        return MBartForConditionalGeneration(config)

    def loss(module: nn.Module, ids: torch.Tensor) -> torch.Tensor:
        masks = {"attention_mask": everything(LENGTH), "decoder_attention_mask": causal(LENGTH)}
        return module(input_ids=ids, decoder_input_ids=ids, **masks).logits.mean()

    return Model(
        build,
        lambda: (torch.randint(4, 50265, (BATCH, LENGTH)),),
        loss,
        pairs=(("fc1", "fc2"),),
        singles=("q_proj", "k_proj", "v_proj", "out_proj"),
    )


def swin() -> Model:
    """The tiny variant: 4 stages of 2, 2, 6, 2 blocks, images of 224 x 224."""
    from transformers import SwinConfig, SwinForImageClassification

    return Model(
        lambda: SwinForImageClassification(SwinConfig(num_labels=1000)),
        lambda: (torch.randn(BATCH, 3, 224, 224),),
        lambda module, images: module(pixel_values=images).logits.mean(),
        pairs=(("fc1", "fc2"),),
        singles=("q_proj", "k_proj", "v_proj", "o_proj", "reduction"),
    )


def openfold() -> Model:
    """2 blocks of ESMFold's trunk, 128 for pairs and sequences: OpenFold's pair stack."""
    from transformers.models.esm.configuration_esm import TrunkConfig
    from transformers.models.esm.modeling_esmfold import EsmFoldTriangularSelfAttentionBlock

    config = TrunkConfig(sequence_state_dim=128, pairwise_state_dim=128)

    class Trunk(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(
                EsmFoldTriangularSelfAttentionBlock(config) for _ in range(2)
            )

        def forward(self, single: torch.Tensor, pair: torch.Tensor) -> Any:
            for block in self.blocks:
                single, pair = block(single, pair)
            return single, pair

    def loss(module: nn.Module, single: torch.Tensor, pair: torch.Tensor) -> torch.Tensor:
        single, pair = module(single, pair)
        return single.mean() + pair.mean()

    return Model(
        Trunk,
        lambda: (torch.randn(BATCH, 32, 128), torch.randn(BATCH, 32, 32, 128)),
        loss,
        pairs=(("mlp.1", "mlp.3"),),
        singles=("linear_q", "linear_k", "linear_v", "linear_o", "o_proj", "linear_z"),
    )


def inception(schedule: int, *, is_one_block: bool = False) -> Model:
    """Inception-V3; the order of its branches on this rank is drawn, of one block or of all."""
    from dl2.inception import SHAPE, scheduled

    return Model(
        lambda: scheduled(schedule, is_one_block=is_one_block),
        lambda: (torch.randn(SHAPE),),
        lambda module, images: module(images).square().mean(),
        singles=("conv",),
    )


MODELS: dict[str, Callable[..., Model]] = {
    "inception": inception,
    "mlp": mlp,
    "gpt2": gpt2,
    "mbart": mbart,
    "swin": swin,
    "openfold": openfold,
}
