"""How many bytes every action moves in a replay: the plan's sizes, scaled down together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LARGEST_MESSAGE = 1 << 20
MEMORY = 1 << 29


def action_dtype(action: Mapping[str, Any], tensors: Mapping[str, Any]) -> str | None:
    """Return the data type an action names, directly or through its tensor."""
    if "dtype" in action:
        return str(action["dtype"])
    tensor = tensors.get(action.get("tensor", ""), {})
    return tensor.get("dtype") if tensor else None


@dataclass(frozen=True)
class Scale:
    """A strictly increasing map from the plan's sizes to the sizes played.

    Equal sizes stay equal and different ones stay different, so that what disagrees in the plan
    disagrees in the replay. Ratios are exact where the divisor divides both sizes.

    Attributes:
        divisor: Roughly how many times smaller the replayed sizes are; 1 keeps all of them.
        table: Plan size to played size, bytes.
    """

    divisor: int
    table: Mapping[int, int]

    def __call__(self, size: int) -> int:
        """Return the played size of one of the plan's sizes, bytes."""
        return self.table[size]


def scale_sizes(sizes: Iterable[int], buffers: int) -> Scale:
    """Choose the scale for a set of sizes.

    Args:
        sizes: Every size in the plan, bytes.
        buffers: How many buffers of the largest size may be alive at once, over all processes.
    """
    distinct = sorted(set(sizes))
    largest = distinct[-1] if distinct else 0
    cap = min(LARGEST_MESSAGE, max(64, MEMORY // max(1, buffers)))
    divisor = -(-largest // cap) if largest > cap else 1
    if divisor == 1:
        return Scale(1, {size: size for size in distinct})
    # A power of two divides the usual tensor sizes exactly.
    divisor = 1 << (divisor - 1).bit_length()
    table: dict[int, int] = {}
    last = 0
    for size in distinct:
        # Keep the alignment, or elements would no longer fit a whole number of times.
        step = math.gcd(size, 8) if size else 1
        scaled = -(-size // (divisor * step)) * step
        while size and scaled <= last:
            scaled += step
        table[size] = last = scaled
    return Scale(divisor, table)
