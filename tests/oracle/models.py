"""The nine execution models, one row each, as the enumerator reads them.

Every column is a question the transition system asks. Nothing else in this package knows a model
by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

INFINITE = 1 << 30
ALL_REDUCE_SLOT = frozenset({"all_reduce", "reduce_scatter", "reduce_scatter_tensor"})
# Two spellings of one operation. That the all-gathers and the all-to-alls meet is measured on
# gloo; there the list form and the tensor form of reduce_scatter abort or hang (measured), while
# NCCL has one reduce-scatter under both.
SPELLINGS = {"all_gather_into_tensor": "all_gather", "all_to_all_single": "all_to_all"}
NCCL_SPELLINGS = {**SPELLINGS, "reduce_scatter_tensor": "reduce_scatter"}
# A gather and a scatter are a set of sends and receives with the root on gloo and NCCL. MPI moves
# them along trees of its own (measured with MPICH and Open MPI): there anybody may be needed.
FUSED = frozenset({"gather", "scatter"})
# Of nothing these return at once and alone on gloo; the others wait as for any size (measured).
EMPTY_ALONE = frozenset(
    {
        "all_reduce",
        "all_gather",
        "all_gather_into_tensor",
        "reduce",
        "reduce_scatter",
        "reduce_scatter_tensor",
    }
)


class Queue(Enum):
    """Which earlier actions of a rank must be complete before an action may start."""

    OWN = "none: it starts when it is issued"
    COMMUNICATOR = "those on the same communicator"
    DEVICE = "all communication"
    WORKER = "collectives on the same communicator; messages start when they are issued"


class Creation(Enum):
    """What `new_group` does to the host."""

    NOTHING = "advances the creation counter"
    MEMBERS = "blocks until all members made the same creation"
    ENTERED = "blocks until every rank makes a creation of which it is a member"
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
        eager_bytes: sends and senders of rooted collectives up to this size may leave early, and in
            rooted collectives of any size nobody but the root needs the others; a choice.
        neighbors: collectives that need only those they exchange data with, not everybody.
        own_arguments: with whom a member exchanges follows from its own kind and root, so that
            members that disagree wait for each other in vain.
        empty_alone: collectives of nothing need nobody.
        spellings: kinds that are one operation, by the name of that operation.
        checked: a collective first makes the host wait for the same call of all members.
        numbers_calls: members of a collective must have made equally many calls on the group.
        barrier_blocks: a barrier blocks the host even where other calls block a stream.
        barrier_last: a barrier starts after the rank's earlier collectives of the group.
        fused_batch: a batch is one launch for each communicator, in the order of first use.
        kinds_hang: a round whose members differ in kind never completes (else: no prediction).
        short_is_fine: a message may be shorter than the receive that takes it.
        lists_are_a_kind: a coalesced call of one tensor is another call than that of the tensor.
        blocking_is_a_kind: a blocking call never matches a nonblocking one.
        fragile_handles: a point-to-point handle that dies before its match breaks the pair.
        posted_order: a message goes to the receive that was posted first (any source included).
        exit_withdraws: an exiting process takes its incomplete asynchronous operations away.
        creation: what `new_group` costs.
        modes: a send may be synchronous (never early) or buffered (always early).
        one_lock: of the threads of a process, the host and one for each communicator, one at a time
            is in the library: through a blocking collective, a wait for a message, a creation.
        own_messages: a rank may send to itself outside of a batch, too.
    """

    queue: Queue
    host_waits: bool
    tags: bool
    pairs: bool = False
    lazy: bool = False
    residency: bool = False
    eager_bytes: int | None = None
    neighbors: frozenset[str] = FUSED
    own_arguments: bool = False
    empty_alone: frozenset[str] = frozenset()
    spellings: Mapping[str, str] = field(default_factory=lambda: SPELLINGS)
    checked: bool = False
    numbers_calls: bool = False
    barrier_blocks: bool = False
    barrier_last: bool = False
    fused_batch: bool = False
    kinds_hang: bool = False
    short_is_fine: bool = False
    lists_are_a_kind: bool = False
    blocking_is_a_kind: bool = False
    fragile_handles: bool = False
    posted_order: bool = True
    exit_withdraws: bool = False
    creation: Creation = Creation.NOTHING
    modes: bool = False
    one_lock: bool = False
    own_messages: bool = False


GLOO = Model(
    Queue.OWN,
    host_waits=True,
    tags=True,
    neighbors=FUSED | {"broadcast"},
    own_arguments=True,
    empty_alone=EMPTY_ALONE,
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
    neighbors=FUSED | {"broadcast"},
    own_arguments=True,
    checked=True,
    numbers_calls=True,
    lists_are_a_kind=True,
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
    spellings=NCCL_SPELLINGS,
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
    spellings=NCCL_SPELLINGS,
)
NCCL_EAGER = Model(
    Queue.COMMUNICATOR,
    host_waits=False,
    tags=False,
    residency=True,
    barrier_blocks=True,
    fused_batch=True,
    spellings=NCCL_SPELLINGS,
    creation=Creation.WORLD,
)
NCCL_SERIALIZED = Model(
    Queue.DEVICE,
    host_waits=False,
    tags=False,
    barrier_blocks=True,
    fused_batch=True,
    spellings=NCCL_SPELLINGS,
)
MPI_EAGER = Model(
    Queue.OWN,
    host_waits=True,
    tags=True,
    neighbors=frozenset(),
    eager_bytes=4096,
    kinds_hang=True,
    short_is_fine=True,
    blocking_is_a_kind=True,
    creation=Creation.MEMBERS,
    modes=True,
    own_messages=True,
)
MPI_SYNC = Model(
    Queue.OWN,
    host_waits=True,
    tags=True,
    neighbors=frozenset(),
    kinds_hang=True,
    short_is_fine=True,
    blocking_is_a_kind=True,
    creation=Creation.MEMBERS,
    modes=True,
    own_messages=True,
)
MPI_PG = Model(
    Queue.WORKER,
    host_waits=True,
    one_lock=True,
    tags=True,
    neighbors=frozenset(),
    eager_bytes=4096,
    kinds_hang=True,
    creation=Creation.ENTERED,
    own_messages=True,
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


def same_kind(model: Model, kind: str, other: str) -> bool:
    """Tell whether two spellings name one operation."""
    return model.spellings.get(kind, kind) == model.spellings.get(other, other)


def same_slot(model: Model, kind: str, other: str) -> bool:
    """Tell whether two kinds of one round meet at all, as equals or not.

    On gloo all pairs but the all-reduce family wait for each other forever (measured).
    """
    family = model.own_arguments and {kind, other} <= ALL_REDUCE_SLOT
    return not model.kinds_hang or family or same_kind(model, kind, other)
