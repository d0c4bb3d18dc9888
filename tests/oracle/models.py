"""The nine execution models, one row each, as the enumerator reads them.

Every column is a question the transition system asks. Nothing else in this package knows a model
by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

INFINITE = 1 << 30
ALL_REDUCE_SLOT = frozenset({"all_reduce", "reduce_scatter", "reduce_scatter_tensor"})
# One operation under two spellings: the list form and the tensor form of the same exchange.
SPELLINGS = {
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_to_all_single": "all_to_all",
}


class Queue(Enum):
    """Which earlier actions of a rank must be complete before an action may start."""

    OWN = "none: it starts when it is issued"
    COMMUNICATOR = "those on the same communicator"
    DEVICE = "all communication"
    PROCESS = "all communication, operation by operation even inside a batch"


class Creation(Enum):
    """What `new_group` does to the host."""

    NOTHING = "advances the creation counter"
    MEMBERS = "blocks until all members made the same creation"
    WORLD = "blocks until every rank made its creation"


@dataclass(frozen=True)
class Model:
    """One execution model.

    Attributes:
        queue: the queue policy of communication.
        host_waits: a sync call or a wait blocks the host (else it leaves a stream edge).
        tags: tags separate point-to-point channels.
        pairs: unbatched point-to-point runs on a communicator of the two ranks.
        lazy: the first use of a communicator creates it, which blocks the host.
        residency: K is a choice, 1 to infinity (else it is infinite).
        eager_bytes: sends and rooted collectives up to this size may leave early; a choice.
        degrees: rooted collectives need only their neighbors in the algorithm, not everybody.
        empty_alone: an all_reduce of nothing needs nobody.
        checked: a collective first makes the host wait for the same call of all members.
        barrier_blocks: a barrier blocks the host even where other calls block a stream.
        barrier_last: a barrier starts after the rank's earlier collectives of the group.
        fused_batch: a batch is one launch.
        kinds_hang: a round whose members differ in kind never completes (else: no prediction).
        blocking_is_a_kind: a blocking call never matches a nonblocking one.
        fragile_handles: a point-to-point handle that dies before its match breaks the pair.
        posted_order: a message goes to the receive that was posted first (any source included).
        exit_withdraws: an exiting process takes its incomplete asynchronous operations away.
        creation: what `new_group` costs.
    """

    queue: Queue
    host_waits: bool
    tags: bool
    pairs: bool = False
    lazy: bool = False
    residency: bool = False
    eager_bytes: int | None = None
    degrees: bool = False
    empty_alone: bool = False
    checked: bool = False
    barrier_blocks: bool = False
    barrier_last: bool = False
    fused_batch: bool = False
    kinds_hang: bool = False
    blocking_is_a_kind: bool = False
    fragile_handles: bool = False
    posted_order: bool = True
    exit_withdraws: bool = False
    creation: Creation = Creation.NOTHING


GLOO = Model(
    Queue.OWN,
    host_waits=True,
    tags=True,
    degrees=True,
    empty_alone=True,
    barrier_last=True,
    kinds_hang=True,
    fragile_handles=True,
    posted_order=False,
    exit_withdraws=True,
    creation=Creation.MEMBERS,
)
GLOO_DETAIL = Model(
    Queue.OWN,
    host_waits=True,
    tags=True,
    degrees=True,
    checked=True,
    barrier_last=True,
    fragile_handles=True,
    posted_order=False,
    exit_withdraws=True,
    creation=Creation.MEMBERS,
)
NCCL = Model(
    Queue.COMMUNICATOR,
    host_waits=False,
    tags=False,
    residency=True,
    barrier_blocks=True,
    fused_batch=True,
)
NCCL_LAZY = Model(
    Queue.COMMUNICATOR,
    host_waits=False,
    tags=False,
    pairs=True,
    lazy=True,
    residency=True,
    barrier_blocks=True,
    fused_batch=True,
)
NCCL_EAGER = Model(
    Queue.COMMUNICATOR,
    host_waits=False,
    tags=False,
    residency=True,
    barrier_blocks=True,
    fused_batch=True,
    creation=Creation.WORLD,
)
NCCL_SERIALIZED = Model(
    Queue.DEVICE,
    host_waits=False,
    tags=False,
    barrier_blocks=True,
    fused_batch=True,
)
MPI_EAGER = Model(
    Queue.OWN,
    host_waits=True,
    tags=True,
    eager_bytes=4096,
    kinds_hang=True,
    blocking_is_a_kind=True,
    creation=Creation.MEMBERS,
)
MPI_SYNC = Model(
    Queue.OWN,
    host_waits=True,
    tags=True,
    kinds_hang=True,
    blocking_is_a_kind=True,
    creation=Creation.MEMBERS,
)
MPI_PG = Model(
    Queue.PROCESS,
    host_waits=True,
    tags=True,
    eager_bytes=4096,
    kinds_hang=True,
    creation=Creation.MEMBERS,
)

MODELS = {
    "gloo": GLOO,
    "gloo-detail": GLOO_DETAIL,
    "nccl": NCCL,
    "nccl-lazy": NCCL_LAZY,
    "nccl-eager": NCCL_EAGER,
    "nccl-serialized": NCCL_SERIALIZED,
    "mpi-eager": MPI_EAGER,
    "mpi-sync": MPI_SYNC,
    "mpi-pg": MPI_PG,
}


def same_kind(kind: str, other: str) -> bool:
    """Tell whether two spellings name one operation."""
    return SPELLINGS.get(kind, kind) == SPELLINGS.get(other, other)


def same_slot(kind: str, other: str) -> bool:
    """Tell whether gloo lets two kinds meet (measured: all but the all-reduce family hang)."""
    return same_kind(kind, other) or {kind, other} <= ALL_REDUCE_SLOT
