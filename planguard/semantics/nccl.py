"""The NCCL family: every call is a kernel in the FIFO of its communicator, wait is a stream edge.

The contract of the documentation, not measured: zero buffering, tags ignored, launch order of
different communicators free unless the model says otherwise.
"""

from __future__ import annotations

from dataclasses import replace

from planguard.plan.actions import Kind
from planguard.semantics.model import (
    COALESCED,
    ROOTED_FLAT,
    SPELLING,
    ExecutionModel,
    Family,
    NewGroup,
    OwnMessages,
)

NCCL = ExecutionModel(
    name="nccl",
    family=Family.DEVICE,
    use_tags=False,
    own_messages=OwnMessages.BATCHED,
    free_launch=True,
    spelling={
        **SPELLING,
        **COALESCED,
        Kind.REDUCE_SCATTER_TENSOR: Kind.REDUCE_SCATTER,
        Kind.COALESCED_REDUCE_SCATTER: Kind.REDUCE_SCATTER,
    },
    degree=dict(ROOTED_FLAT),
    mismatch=(
        "NCCL: undefined behavior when kind, count, dtype or root disagree; receive smaller than "
        "send ran silently, larger hung (NVIDIA/nccl#1938)"
    ),
)
NCCL_LAZY = replace(NCCL, name="nccl-lazy", pair_comm=True, lazy_init=True)
NCCL_EAGER = replace(NCCL, name="nccl-eager", new_group=NewGroup.WORLD)
NCCL_SERIALIZED = replace(NCCL, name="nccl-serialized", free_launch=False, serialized=True)

MODELS = (NCCL, NCCL_LAZY, NCCL_EAGER, NCCL_SERIALIZED)
