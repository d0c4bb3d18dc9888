"""What a strategy does not say of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..common.job import MAX_WORLD
from ..common.options import is_integer, known_options, wrong

if TYPE_CHECKING:
    from collections.abc import Mapping

DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
"""Galvatron's name of a precision to torch's name of the dtype."""
PIPELINES = ("gpipe", "pipedream_flush")
DP_TYPES = ("ddp", "zero2", "zero3")


@dataclass(frozen=True, kw_only=True)
class GalvatronOptions:
    """Options of the ``galvatron`` adapter.

    Attributes:
        world_size: Number of ranks; not needed where the file has ``world_size``.
        layers: Layers of the model, to be compared with those of the strategy.
        seq_length: Tokens of a sample; without it and ``hidden_size`` messages have no sizes.
        hidden_size: Elements of a token.
        mixed_precision: ``bf16``, ``fp16`` or ``fp32``: the type of activations.
        pipeline_type: The schedule where the file names none: ``gpipe`` or ``pipedream_flush``.
        default_dp_type: ``ddp``, ``zero2`` or ``zero3`` where the file names none.
        rank_options: By rank, fields of the file that this rank reads otherwise.
        name: Name of the plan.
        model: Execution model that the plan asks for.
    """

    world_size: int | None = None
    layers: int | None = None
    seq_length: int | None = None
    hidden_size: int | None = None
    mixed_precision: str = "bf16"
    pipeline_type: str | None = None
    default_dp_type: str | None = None
    rank_options: Mapping[str, Any] | None = None
    name: str | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        most = {"world_size": MAX_WORLD, "layers": 1 << 16, "seq_length": 1 << 32,
                "hidden_size": 1 << 24}  # fmt: skip
        for name, high in most.items():
            value = getattr(self, name)
            if value is not None and not is_integer(value, 1, high):
                raise wrong("galvatron", name, value, f"an integer from 1 to {high}")
        for name, allowed in (
            ("mixed_precision", tuple(DTYPES)),
            ("pipeline_type", (None, *PIPELINES)),
            ("default_dp_type", (None, *DP_TYPES)),
        ):
            value = getattr(self, name)
            if value not in allowed:
                raise wrong("galvatron", name, value, ", ".join(filter(None, allowed)))
        if (self.seq_length is None) != (self.hidden_size is None):
            missing = "seq_length" if self.seq_length is None else "hidden_size"
            raise wrong("galvatron", missing, None, "both seq_length and hidden_size, or neither")


def read_options(options: Mapping[str, object]) -> GalvatronOptions:
    """Make the options from keyword arguments.

    Raises:
        UsageError: An option does not exist, or its value is not possible.
    """
    return GalvatronOptions(**known_options("galvatron", options, GalvatronOptions))
