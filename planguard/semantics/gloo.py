"""gloo: pure rendezvous, wait blocks the host, collectives keyed by the slot of their kind.

Measured on torch 2.13 over TCP; docs/explanation/semantics.md lists the programs.
"""

from __future__ import annotations

from planguard.plan.actions import Kind
from planguard.semantics.model import (
    ROOTED_FLAT,
    SPELLING,
    Degree,
    ExecutionModel,
    Family,
    NewGroup,
)

GLOO = ExecutionModel(
    name="gloo",
    family=Family.HOST,
    kind_slots=True,
    barrier_last=True,
    empty_alone=(
        Kind.ALL_REDUCE,
        Kind.ALL_GATHER,
        Kind.ALL_GATHER_INTO_TENSOR,
        Kind.REDUCE,
        Kind.REDUCE_SCATTER,
        Kind.REDUCE_SCATTER_TENSOR,
    ),
    slots={
        Kind.REDUCE_SCATTER: Kind.ALL_REDUCE,
        Kind.REDUCE_SCATTER_TENSOR: Kind.ALL_REDUCE,
        Kind.COALESCED_REDUCE_SCATTER: Kind.ALL_REDUCE,
    },
    drops_kill=True,
    exit_withdraws=True,
    new_group=NewGroup.MEMBERS,
    degree={**ROOTED_FLAT, Kind.BROADCAST: Degree.TREE},
    mismatch=(
        "gloo, measured: sent > received aborts the receiving process, sent < received is silent; "
        "kinds or roots that disagree hang; swapped same-size collectives corrupt silently"
    ),
)

GLOO_DETAIL = ExecutionModel(
    name="gloo-detail",
    family=Family.HOST,
    spelling=dict(SPELLING),  # its fingerprints tell a coalesced call from a plain one (measured)
    pre_barrier=True,
    barrier_last=True,
    drops_kill=True,
    exit_withdraws=True,
    new_group=NewGroup.MEMBERS,
    mismatch=(
        "TORCH_DISTRIBUTED_DEBUG=DETAIL, measured: an error for kind, shape and dtype; root, "
        "reduce op and point-to-point sizes are not seen"
    ),
)

MODELS = (GLOO, GLOO_DETAIL)
