"""gloo: pure rendezvous, wait blocks the host, collectives keyed by the slot of their kind.

Measured on torch 2.13 over TCP (docs/explanation/blocking-and-matching.md).

``gloo-detail`` counts calls. ``ProcessGroupWrapper::runCollectiveChecks`` (pytorch
``torch/csrc/distributed/c10d/ProcessGroupWrapper.cpp``, commit 017943b7) takes the sequence number
of the group, puts it into the ``CollectiveFingerPrint`` beside kind, shapes and element types, and
compares the fingerprints of all members; its ``send``, ``recv`` and ``recvAnysource`` compare
nothing. Measured with ``_get_sequence_number_for_group`` (torch 2.13, two and three ranks): each
``send``, ``recv``, ``isend``, ``irecv``, receive from any source and member of a batch adds 1, at
the call, also of nothing; a wait adds nothing. A collective, ``async_op`` and coalesced ones and
barriers too, adds 1, both forms of reduce-scatter that are a list or coalesced 2, which is the same
on all members of a round. Groups count apart. ``monitored_barrier`` adds 2 for each other rank on
rank 0 and 2 on the others: of three ranks or more it breaks the next collective. A plan has a
``barrier`` for it, and an entry of the ledger that counts here alone.
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

MONITORED = "monitored-barrier"
"""Kind of a ledger entry: under models that count calls, and only there, SAFE rests on it."""
MONITORED_RANKS = 3
"""Members from which on a monitored barrier leaves their numbers of calls different."""

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
    counts_messages=True,
    barrier_last=True,
    drops_kill=True,
    exit_withdraws=True,
    new_group=NewGroup.MEMBERS,
    mismatch=(
        "TORCH_DISTRIBUTED_DEBUG=DETAIL, measured: an error for kind, shape, dtype and the number "
        "of calls before; root, reduce op and point-to-point sizes are not seen"
    ),
)

MODELS = (GLOO, GLOO_DETAIL)
