"""Which gradients share a bucket: torch's own rule, asked for shapes only."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING

from ..common.module import ITEM_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..common.module import TensorInfo

FIRST_BUCKET_BYTES = 1 << 20
"""``torch.distributed._DEFAULT_FIRST_BUCKET_BYTES``."""
NO_LIMIT = sys.maxsize

Bucket = tuple[int, ...]


def has_torch() -> bool:
    """Tell whether torch's own assignment can be asked."""
    return importlib.util.find_spec("torch") is not None


def assign(
    parameters: Sequence[TensorInfo], limits: Sequence[int], ready: Sequence[int] | None = None
) -> tuple[Bucket, ...]:
    """Return the buckets as indices of parameters.

    Args:
        parameters: The parameters of the reducer.
        limits: Capacity of the first, second, ... bucket, bytes; the last one goes for the rest.
        ready: Indices in the order of readiness, for a rebuild; None sorts buckets by index.
    """
    if not parameters:
        return ()
    if has_torch():
        return _of_torch(parameters, limits, ready)
    return by_size(parameters, limits, ready)


def _of_torch(
    parameters: Sequence[TensorInfo], limits: Sequence[int], ready: Sequence[int] | None
) -> tuple[Bucket, ...]:
    import torch
    import torch.distributed as dist

    kinds = [(parameter.shape, parameter.dtype) for parameter in parameters]
    made = {  # of few shapes, mostly
        (shape, dtype): torch.empty(shape, dtype=getattr(torch, dtype), device="meta")
        for shape, dtype in set(kinds)
    }
    tensors = [made[kind] for kind in kinds]
    if ready is not None:
        tensors = [tensors[at] for at in ready]
    sparse = [parameter.sparse for parameter in parameters]
    buckets, _ = dist._compute_bucket_assignment_by_size(  # noqa: SLF001 - DDP itself calls it
        tensors, list(limits), sparse, [] if ready is None else list(ready)
    )
    return tuple(tuple(bucket) for bucket in buckets)


def by_size(
    parameters: Sequence[TensorInfo], limits: Sequence[int], ready: Sequence[int] | None = None
) -> tuple[Bucket, ...]:
    """Return what torch's rule gives, without torch (``compute_bucket_assignment_by_size``).

    A bucket is closed when it holds its limit or more. Tensors of different dtypes never share one.
    What is left at the end of a rebuild comes in the order of first use here, which torch leaves
    open for several dtypes.
    """
    done: list[Bucket] = []
    open_: dict[str, list[int]] = {}
    sizes: dict[str, int] = {}
    closed: dict[str, int] = {}
    for at in range(len(parameters)) if ready is None else ready:
        parameter = parameters[at]
        if parameter.sparse:
            done.append((at,))
            continue
        key = parameter.dtype
        open_.setdefault(key, []).append(at)
        sizes[key] = sizes.get(key, 0) + parameter.count * ITEM_BYTES[key]
        if sizes[key] >= limits[min(closed.get(key, 0), len(limits) - 1)]:
            done.append(tuple(open_.pop(key)))
            sizes[key] = 0
            closed[key] = closed.get(key, 0) + 1
    done += [tuple(bucket) for bucket in open_.values()]
    return tuple(done if ready is not None else sorted(done, key=min))
