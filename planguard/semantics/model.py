"""ExecutionModel: one small table per model, and the rules the kernels run under.

Everything that depends on a model is read from these tables. ``docs/reference/execution-models.md``
lists them, and says where the rows come from.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

from planguard.plan.actions import Kind
from planguard.plan.compiling.operations import rooted_kinds
from planguard.plan.defects import unknown_model

UNLIMITED = (1 << 64) - 1
"""Buffering without a limit, bytes; also the size of an action whose size is not known."""


class Family(enum.IntEnum):
    """Which queue an action occupies."""

    HOST = 0
    """Nothing queues: a wait blocks the host, asynchronous actions progress on their own."""
    DEVICE = 2
    """One FIFO per communicator on the device; a wait is a stream edge."""


class Degree(enum.IntEnum):
    """Who must have arrived before a member of a collective may leave (measured on gloo)."""

    ALL = 0
    FLAT = 1
    """The root exchanges with every other member; the others need only the root."""
    TREE = 2
    """gloo's binomial broadcast: own parent and own children."""


class NewGroup(enum.IntEnum):
    """What creating a process group waits for."""

    FREE = 0
    MEMBERS = 1
    WORLD = 2
    ENTERING = 3
    """Only members make the call, and it waits for a call of every rank of the world."""


class OwnMessages(enum.Enum):
    """Which messages of a rank to itself a backend has; the text follows its name."""

    NONE = "refuses"
    BATCHED = "has only within one batch"
    ASYNCHRONOUS = "has only as `isend` and `irecv`"
    ALL = "has"


ROOTED_FLAT = {Kind.GATHER: Degree.FLAT, Kind.SCATTER: Degree.FLAT}
ROOTED_EARLY = {**ROOTED_FLAT, Kind.BROADCAST: Degree.FLAT, Kind.REDUCE: Degree.FLAT}

SPELLING = {
    Kind.ALL_GATHER_INTO_TENSOR: Kind.ALL_GATHER,
    Kind.ALL_TO_ALL_SINGLE: Kind.ALL_TO_ALL,
}
"""List and tensor forms that are one operation everywhere (measured on gloo)."""

COALESCED = {
    Kind.COALESCED_ALL_REDUCE: Kind.ALL_REDUCE,
    Kind.COALESCED_ALL_GATHER: Kind.ALL_GATHER,
    Kind.COALESCED_REDUCE_SCATTER: Kind.REDUCE_SCATTER_TENSOR,
}
"""A list of tensors is the call of its kind, and a list of one is the call itself.

Measured on gloo (torch 2.13, two ranks): one side through the coalescing manager, the other not,
all three kinds end with right values. NCCL runs a group of one. Only the fingerprints of
``TORCH_DISTRIBUTED_DEBUG=DETAIL`` tell them apart. Members whose lists differ in length disagree
in their layout (PG202).
"""


@dataclass(frozen=True, kw_only=True)
class ExecutionModel:
    """Named rules that say when an action may start, match and complete.

    Attributes:
        name: One of ``MODEL_NAMES``.
        family: Queue of an action and meaning of wait.
        use_tags: Tags separate point-to-point channels.
        serialized: Always one queue per device (K = 1).
        free_launch: Launch order of several communicators is free: K anywhere in 1..inf.
        eager: Sends of at most ``CheckOptions.eager_bytes`` may finish before their receive.
        pair_comm: Unbatched point-to-point uses a communicator of the pair.
        lazy_init: The first use of a communicator blocks the host of all its members.
        kind_slots: Collectives of different kinds never meet (gloo's slot prefixes).
        pre_barrier: Every collective first synchronizes its group on the host.
        barrier_last: A barrier starts after the rank's earlier rounds of its group.
        counts_messages: A collective carries how many messages its member made before on the group.
        sync_is_a_kind: A blocking collective never matches a nonblocking one.
        empty_alone: Kinds that return at once and alone when they move nothing.
        spelling: Kinds that are another spelling of one operation.
        slots: Further kinds that share a slot, where kinds otherwise never meet.
        send_modes: MPI send modes are honored.
        drops_kill: A point-to-point handle that dies before its match poisons the pair.
        exit_withdraws: ``exit`` may take the rank's unwaited actions with it.
        new_group: What ``new_group`` waits for.
        own_messages: Which messages of a rank to itself the backend has.
        is_mpi: The library is MPI, which has operations that the others lack (``MPI_ONLY``).
        one_lock: Threads of a process that call the library take turns (``execution.one_lock``).
        degree: Synchronization degree by kind where it is not ALL.
        early_degree: The same in the executions in which rooted collectives finish early.
        short_ok: A receive larger than its send is accepted.
        mismatch: What is known of a formed mismatch (never predicted).
    """

    name: str
    family: Family
    use_tags: bool = True
    serialized: bool = False
    free_launch: bool = False
    eager: bool = False
    pair_comm: bool = False
    lazy_init: bool = False
    kind_slots: bool = False
    pre_barrier: bool = False
    barrier_last: bool = False
    counts_messages: bool = False
    sync_is_a_kind: bool = False
    empty_alone: tuple[Kind, ...] = ()
    spelling: dict[Kind, Kind] = field(default_factory=lambda: {**SPELLING, **COALESCED})
    slots: dict[Kind, Kind] = field(default_factory=dict)
    send_modes: bool = False
    drops_kill: bool = False
    exit_withdraws: bool = False
    new_group: NewGroup = NewGroup.FREE
    own_messages: OwnMessages = OwnMessages.NONE
    is_mpi: bool = False
    one_lock: bool = False
    degree: dict[Kind, Degree] = field(default_factory=dict)
    early_degree: dict[Kind, Degree] | None = None
    short_ok: bool = False
    mismatch: str = "undefined: hang, abort or silent corruption"

    @cached_property
    def tables(self) -> dict[tuple[bool, tuple[Kind, ...]], dict[str, bytes]]:
        """Tables by kind that were made of it: rooted operations early or not, and which exist."""
        return {}

    @property
    def blocks_host(self) -> bool:
        """Whether a wait blocks the host instead of placing a stream edge."""
        return self.family is not Family.DEVICE


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One point of a model's range of executions.

    Under every model progress grows from ``strict`` to ``lenient``, so the two ends decide a
    fixed plan: SAFE iff the strict end completes, DEADLOCK iff the lenient end is stuck
    ("Why one run is exact" in docs/explanation/blocking-and-matching.md).
    """

    single_queue: bool = False
    eager_bytes: int | None = None
    poison_drops: bool = False
    exits_withdraw: bool = False
    early: bool = False


def strict(model: ExecutionModel) -> Scenario:
    """Return the execution that makes the least progress."""
    return Scenario(
        single_queue=model.serialized or model.free_launch,
        poison_drops=model.drops_kill,
        exits_withdraw=model.exit_withdraws,
    )


def lenient(model: ExecutionModel, eager_bytes: int) -> Scenario:
    """Return the execution that makes the most progress.

    Args:
        model: The execution model.
        eager_bytes: Message threshold of the eager models, bytes.
    """
    return Scenario(
        single_queue=model.serialized,
        eager_bytes=eager_bytes if model.eager else None,
        early=model.eager,
    )


def buffered(scenario: Scenario, eager_bytes: int = UNLIMITED) -> Scenario:
    """Return the scenario with sends of at most ``eager_bytes`` buffered."""
    return replace(scenario, eager_bytes=eager_bytes)


def rules_for(model: ExecutionModel, scenario: Scenario) -> dict[str, Any]:
    """Return the rules of one scenario in the form the kernels take."""
    # The tables by kind depend on nothing else: what is registered is known when a plan is read.
    key = scenario.early, rooted_kinds()
    tables = model.tables.get(key)
    if tables is None:
        tables = model.tables[key] = _tables(model, scenario)
    return {
        "family": int(model.family),
        "single_queue": scenario.single_queue,
        "use_tags": model.use_tags,
        "pair_comm": model.pair_comm,
        "lazy_init": model.lazy_init,
        "kind_slots": model.kind_slots,
        "pre_barrier": model.pre_barrier,
        "barrier_last": model.barrier_last,
        "counts_messages": model.counts_messages,
        "sync_is_a_kind": model.sync_is_a_kind,
        "send_modes": model.send_modes,
        "eager": scenario.eager_bytes is not None,
        "eager_bytes": scenario.eager_bytes or 0,
        "poison_drops": scenario.poison_drops,
        "exit_withdraws": scenario.exits_withdraw,
        "new_group": int(model.new_group),
        **tables,
    }


def _tables(model: ExecutionModel, scenario: Scenario) -> dict[str, bytes]:
    """Return what the rules say of every kind."""
    degree = model.degree
    if scenario.early and model.early_degree is not None:
        degree = model.early_degree
    rooted = degree.get(Kind.SCATTER, Degree.ALL)
    degree = {**degree, **dict.fromkeys(rooted_kinds(), rooted)}
    return {
        "degree": bytes(int(degree.get(kind, Degree.ALL)) for kind in _kinds()),
        "slot_class": _table({**model.spelling, **model.slots}),
        "spelling": _table(model.spelling),
        "empty_alone": bytes(int(kind in model.empty_alone) for kind in _kinds()),
    }


def _kinds() -> list[Any]:
    known = {int(kind): kind for kind in Kind}
    return [known.get(number) for number in range(64)]


def _table(same: dict[Kind, Kind]) -> bytes:
    """Return the class of every kind: its own number, or that of the kind it is the same as."""
    classes = list(range(64))
    for kind, other in same.items():
        classes[kind] = int(other)
    return bytes(classes)


def find_model(name: object) -> ExecutionModel:
    """Return the model called ``name``.

    Raises:
        PlanError: PG907, with the known names.
    """
    model = known_model(name)
    if model is None:
        raise unknown_model(name, "$.model")
    return model


def known_model(name: object) -> ExecutionModel | None:
    """Return the model called ``name``; None where a result that was read names another."""
    return _models().get(name) if isinstance(name, str) else None


@cache
def _models() -> dict[str, ExecutionModel]:
    from planguard.semantics import gloo, mpi, nccl

    return {model.name: model for model in (*gloo.MODELS, *nccl.MODELS, *mpi.MODELS)}
