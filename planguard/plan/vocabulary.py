"""The vocabulary of a plan: one row for each operation, and what follows from the rows.

Whoever asks what an operation is asks here: whether it is a send, whether it has a root, what
torch, NCCL or a recorder calls it. A row is all that is known of an operation by its name;
operations that other packages register (``planguard.operations``) get a row of the same kind.
Sets and tables below are made from the rows, so that none of them can miss an operation.

``actions`` has the numbers of the same things: instruction kinds, codes and widths of element
types. How a model carries an operation out is the model's own (``semantics``).

Above 400 lines: one table, and all that is read off it.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from planguard.plan.actions import ITEM_BYTES, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FIELDS = ("bytes", "dtype", "root", "reduce_op", "splits")
"""What the members of a match can have to agree on."""


class Family(enum.Enum):
    """What sort of operation it is."""

    MESSAGE = "message"
    PROBE = "probe"
    COLLECTIVE = "collective"
    LAUNCH = "launch"
    """Several communications in one: ``batch`` and ``coalesced``."""
    HANDLE = "handle"
    """Done to the handle of a communication."""
    GROUP = "group"
    """Beginning and end of a process group and its communicator."""
    DEVICE = "device"
    """Work of the rank itself: computation, copies, events; nobody else takes part."""
    BLOCK = "block"
    """Holds other actions."""
    END = "end"


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation.

    Attributes:
        name: Its ``op`` in plan files.
        family: What sort of operation it is.
        kind: Its instruction kind; None where that depends on what it holds.
        same: The one name of the operation, of which this is another spelling: an all-gather into
            a list or into a tensor, a send that returns a handle.
        degree: Who waits for whom. ``all``: every member for every member. ``root``: the root for
            all, the others for the root only. ``prefix``: every member for those before it.
        reduces: It combines values, so that a reduce operation means something.
        splits: Fields that say how uneven its parts are: MPI's v-forms. Where one side is one
            tensor of the caller, its size says the same and the field has no place.
        agree: Which of ``FIELDS`` members must have equal.
        bytes_per_edge: What goes between two members, of an operation that is registered; what
            the built-in ones move is in ``simulate.edges``.
        coalesced: Kind of several of them in one launch.
        inverse: What brings its data back to where it was.
        mpi_only: Only MPI has it.
        why: Why a rank waits in it, whatever stands behind it; empty of what meets others.
        holds: Field with the actions that a block or launch holds.
        functions: Functions of torch.distributed that make this call, beside that of its name.
        given: Place and keyword of the tensor that a rank gives, in torch's function.
        methods: Methods of torch's ``ProcessGroup``, newest spelling first (torch 2.11 to 2.14).
        c10d: Operators ``c10d::*`` of torch's dispatcher, and the argument whose size counts.
        functional: The same of ``_c10d_functional::*``.
        records: What recorders call it beside all that, in lower case without outer underscores.
        nccl: NCCL's functions, without ``nccl``.
        chakra: Its number in Chakra's ``CollectiveCommType``.
        log: Its number in the log of a recorded run.
        mpi: Its number in the log of an MPI program.
    """

    name: str
    family: Family
    kind: Kind | None = None
    same: str = ""
    degree: Literal["all", "root", "prefix"] = "all"
    reduces: bool = False
    splits: tuple[str, ...] = ()
    agree: tuple[str, ...] = FIELDS
    bytes_per_edge: str | Callable[[int, int, int, int], int] | None = None
    coalesced: Kind | None = None
    inverse: tuple[str, ...] = ()
    mpi_only: bool = False
    why: str = ""
    holds: str = ""
    functions: tuple[str, ...] = ()
    given: tuple[int, str] | None = None
    methods: tuple[tuple[str, ...], ...] = ()
    c10d: Mapping[str, str] = field(default_factory=dict)
    functional: Mapping[str, str] = field(default_factory=dict)
    records: tuple[str, ...] = ()
    nccl: tuple[str, ...] = ()
    chakra: int | None = None
    log: int | None = None
    mpi: int | None = None


BOTH_SPLITS = ("in_splits", "out_splits")


def _collective(name: str, kind: Kind, **fields: Any) -> Operation:
    return Operation(name=name, family=Family.COLLECTIVE, kind=kind, **fields)


_COLLECTIVES = (
    _collective(
        "all_reduce", Kind.ALL_REDUCE, reduces=True, coalesced=Kind.COALESCED_ALL_REDUCE,
        given=(0, "tensor"),
        methods=(("allreduce",), ("allreduce_coalesced",)),
        c10d={"allreduce_": "tensors", "allreduce_coalesced_": "tensors"},
        functional={"all_reduce": "input", "all_reduce_": "input",
                    "all_reduce_coalesced": "inputs", "all_reduce_coalesced_": "inputs"},
        nccl=("AllReduce",), chakra=0, log=0, mpi=2,
    ),
    _collective(
        "all_gather", Kind.ALL_GATHER, splits=("out_splits",),
        given=(1, "tensor"),
        methods=(("allgather",), ("allgather_coalesced",)),
        c10d={"allgather_": "input_tensors", "allgather_coalesced_": "input_list"},
        inverse=("reduce_scatter", "scatter"),
        records=("all_gather_v",), nccl=("AllGather",), chakra=2, log=3, mpi=3,
    ),
    _collective(
        "all_gather_into_tensor", Kind.ALL_GATHER_INTO_TENSOR, same="all_gather",
        splits=("out_splits",), coalesced=Kind.COALESCED_ALL_GATHER,
        functions=("all_gather_single",), given=(1, "input_tensor"),
        methods=(("all_gather_single", "_allgather_base"),
                 ("all_gather_single_coalesced", "allgather_into_tensor_coalesced")),
        c10d={"_allgather_base_": "input_tensor", "allgather_into_tensor_coalesced_": "inputs"},
        functional={"all_gather_into_tensor": "input", "all_gather_into_tensor_out": "input",
                    "all_gather_into_tensor_coalesced": "inputs"},
        inverse=("reduce_scatter_tensor", "scatter"),
        records=("all_gather_base", "all_gather_single"), log=4,
    ),
    _collective(
        "reduce_scatter", Kind.REDUCE_SCATTER, reduces=True, splits=("in_splits",),
        given=(1, "input_list"),
        methods=(("reduce_scatter",),),
        c10d={"reduce_scatter_": "output_tensors"},
        inverse=("all_gather",),
        records=("reducescatter", "reduce_scatter_v"), nccl=("ReduceScatter",), chakra=7, log=5,
    ),
    _collective(
        "reduce_scatter_tensor", Kind.REDUCE_SCATTER_TENSOR, same="reduce_scatter", reduces=True,
        splits=("in_splits",), coalesced=Kind.COALESCED_REDUCE_SCATTER,
        functions=("reduce_scatter_single",), given=(1, "input"),
        methods=(("reduce_scatter_single", "_reduce_scatter_base"),
                 ("reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced")),
        c10d={"_reduce_scatter_base_": "output_tensor",
              "reduce_scatter_tensor_coalesced_": "outputs"},
        functional={"reduce_scatter_tensor": "input", "reduce_scatter_tensor_out": "input",
                    "reduce_scatter_tensor_coalesced": "inputs"},
        inverse=("all_gather_into_tensor",),
        records=("reduce_scatter_single",), chakra=8, log=6,
    ),
    _collective(
        "broadcast", Kind.BROADCAST, degree="root",
        given=(0, "tensor"),
        methods=(("broadcast",),),
        c10d={"broadcast_": "tensors"},
        functional={"broadcast": "input", "broadcast_": "input"},
        records=("broadcast_oop",), nccl=("Broadcast", "Bcast"), chakra=5, log=1, mpi=0,
    ),
    _collective(
        "reduce", Kind.REDUCE, degree="root", reduces=True,
        given=(0, "tensor"),
        methods=(("reduce",),),
        c10d={"reduce_": "tensors"},
        records=("reduce_oop",), nccl=("Reduce",), chakra=1, log=2, mpi=1,
    ),
    _collective(
        "gather", Kind.GATHER, degree="root", splits=("out_splits",),
        given=(0, "tensor"),
        methods=(("gather",), ("gather_single", "gather_into_tensor")),
        c10d={"gather_": "input_tensors", "gather_into_tensor_": "input_tensor"},
        inverse=("scatter",),
        nccl=("Gather",), chakra=3, log=7, mpi=7,
    ),
    _collective(
        "scatter", Kind.SCATTER, degree="root", splits=("in_splits",),
        methods=(("scatter",),),
        c10d={"scatter_": "output_tensors"},
        inverse=("gather", "all_gather"),
        nccl=("Scatter",), chakra=4, log=8, mpi=6,
    ),
    _collective(
        "all_to_all", Kind.ALL_TO_ALL, splits=BOTH_SPLITS,
        given=(1, "input_tensor_list"),
        methods=(("alltoall",),),
        c10d={"alltoall_": "input_tensors"},
        inverse=("all_to_all",),
        nccl=("AlltoAll", "AllToAll"), chakra=6, log=9, mpi=4,
    ),
    _collective(
        "all_to_all_single", Kind.ALL_TO_ALL_SINGLE, same="all_to_all", splits=BOTH_SPLITS,
        given=(1, "input"),
        methods=(("all_to_all_single", "alltoall_base"),),
        c10d={"alltoall_base_": "input"},
        functional={"all_to_all_single": "input"},
        inverse=("all_to_all_single",),
        records=("all_to_allv", "all_to_all_v_single"), log=10,
    ),
    _collective(
        "barrier", Kind.BARRIER, agree=(),  # it moves no data, whatever size it is given
        functions=("monitored_barrier",),
        methods=(("barrier",),),
        c10d={"barrier": "", "monitored_barrier_": ""},
        records=("all_reduce_barrier",), chakra=9, log=11, mpi=5,
    ),
    _collective("scan", Kind.SCAN, degree="prefix", reduces=True, mpi_only=True, mpi=8),
    _collective("exscan", Kind.EXSCAN, degree="prefix", reduces=True, mpi_only=True, mpi=9),
)  # fmt: skip

_OTHERS = (
    Operation(
        name="send", family=Family.MESSAGE, kind=Kind.SEND,
        methods=(("send",),), c10d={"send": "tensors"}, nccl=("Send",),
    ),
    Operation(
        name="recv", family=Family.MESSAGE, kind=Kind.RECV,
        methods=(("recv",), ("recv_anysource",)),
        c10d={"recv_": "tensors", "recv_any_source_": "tensors"}, nccl=("Recv",),
    ),
    Operation(
        name="isend", family=Family.MESSAGE, kind=Kind.SEND, same="send",
        functional={"isend": "tensor"}, log=12,
    ),
    Operation(
        name="irecv", family=Family.MESSAGE, kind=Kind.RECV, same="recv",
        functional={"irecv": "tensor"}, log=13,
    ),
    Operation(name="probe", family=Family.PROBE, kind=Kind.PROBE, mpi_only=True),
    Operation(name="batch", family=Family.LAUNCH, kind=Kind.BATCH, holds="ops",
              functions=("batch_isend_irecv",)),
    Operation(name="coalesced", family=Family.LAUNCH, holds="ops", log=14),
    Operation(name="wait", family=Family.HANDLE, kind=Kind.WAIT, why="wait-handle"),
    Operation(name="test", family=Family.HANDLE, kind=Kind.TEST),
    Operation(name="drop", family=Family.HANDLE, kind=Kind.DROP),
    Operation(name="init", family=Family.GROUP, kind=Kind.INIT,
              functions=("init_process_group",)),
    Operation(name="new_group", family=Family.GROUP, kind=Kind.NEW_GROUP),
    Operation(name="destroy", family=Family.GROUP, kind=Kind.DESTROY,
              functions=("destroy_process_group",)),
    Operation(name="compute", family=Family.DEVICE, kind=Kind.COMPUTE, why="dependency"),
    Operation(name="host_sync", family=Family.DEVICE, kind=Kind.HOST_SYNC, why="stream-edge"),
    Operation(name="event_record", family=Family.DEVICE, kind=Kind.EVENT_RECORD),
    Operation(name="event_wait", family=Family.DEVICE, kind=Kind.EVENT_WAIT, why="event"),
    Operation(name="h2d", family=Family.DEVICE, kind=Kind.COPY),
    Operation(name="d2h", family=Family.DEVICE, kind=Kind.COPY),
    Operation(name="d2d", family=Family.DEVICE, kind=Kind.COPY),
    Operation(name="unordered", family=Family.BLOCK, kind=Kind.UNORDERED_BEGIN, holds="body"),
    Operation(name="threads", family=Family.BLOCK, kind=Kind.THREADS_BEGIN, holds="threads"),
    Operation(name="choice", family=Family.BLOCK, kind=Kind.CHOICE_BEGIN, holds="branches"),
    Operation(name="repeat", family=Family.BLOCK, kind=Kind.REPEAT, holds="body"),
    Operation(name="exit", family=Family.END, kind=Kind.EXIT),
)  # fmt: skip

BUILT_IN: tuple[Operation, ...] = (*_COLLECTIVES, *_OTHERS)
"""The operations of the plan format itself."""

OPERATIONS: dict[str, Operation] = {row.name: row for row in BUILT_IN}
"""Every operation by name, registered ones too: ``plan.compiling.operations`` adds and removes."""


def _of(*families: Family) -> frozenset[str]:
    return frozenset(row.name for row in BUILT_IN if row.family in families)


# --- families ------------------------------------------------------------------------------------
#
# Sets of built-in operations. Of what is registered while a plan is read, COLLECTIVE_KIND knows.

MESSAGES = _of(Family.MESSAGE)
SENDS = frozenset(name for name in MESSAGES if OPERATIONS[name].kind == Kind.SEND)
RECEIVES = MESSAGES - SENDS
POINT_TO_POINT = MESSAGES | _of(Family.PROBE)
COLLECTIVES = _of(Family.COLLECTIVE)
LAUNCHES = _of(Family.LAUNCH)
ROUNDS = COLLECTIVES | {"coalesced"}
"""Calls that take the next round of their group."""
ROOTED = frozenset(row.name for row in BUILT_IN if row.degree == "root")
EVERYONE = frozenset(row.name for row in _COLLECTIVES if row.degree == "all")
"""Collectives that complete on nobody before every member has come."""
REDUCING = frozenset(row.name for row in BUILT_IN if row.reduces)
FUSIBLE = REDUCING & EVERYONE
"""Collectives of which several can travel as one in a fused buffer: sizes add up."""
IN_PLACE = frozenset(row.name for row in _COLLECTIVES if "tensors" in row.c10d.values())
"""Collectives that give back the tensors they take: torch's schema calls both ``tensors``."""
HANDLES = _of(Family.HANDLE)
LIFETIME = _of(Family.GROUP)
CREATIONS = LIFETIME - {"destroy"}
DEVICE = _of(Family.DEVICE)
"""What a rank does by itself, on its device or for it."""
WHY_OF_OP = {row.name: row.why for row in BUILT_IN if row.why}
"""Why a rank waits in what meets nobody, whatever the run saw on the lanes behind it."""
COPIES = frozenset(name for name in DEVICE if OPERATIONS[name].kind == Kind.COPY)
BLOCKS = {row.name: row.holds for row in BUILT_IN if row.family is Family.BLOCK}
"""Operation to the field with the actions that it holds."""
HOLDS = {row.name: row.holds for row in BUILT_IN if row.holds}
"""The same of launches, too."""
OPEN_BLOCKS = {name: field for name, field in BLOCKS.items() if name != "repeat"}
"""Blocks whose order, interleaving or branch the plan leaves open."""
ORDER_BLOCKS = {name: field for name, field in OPEN_BLOCKS.items() if name != "choice"}
"""Blocks all of whose actions are issued, in an order that the plan leaves open."""
LASTING = LIFETIME | {"drop", "exit"}
"""Operations after which other calls mean something else."""
STRAYING = LASTING | {"probe", "test"}
"""Operations whose effect or answer depends on where among other calls they are issued."""
ALONE = DEVICE | HANDLES | LIFETIME | {"exit"}
"""Operations that communicate with nobody, or only to make and end groups."""
HOST = LIFETIME | {"host_sync", "barrier", "exit"}
"""What holds up the host even where a device carries out the rest."""
QUEUED = ((COLLECTIVES | MESSAGES | LAUNCHES) - HOST) | {"compute", "wait"}
"""What holds no host up where calls go to a queue of the device: there a wait is a stream edge."""
MPI_ONLY = tuple(
    sorted((row for row in BUILT_IN if row.mpi_only), key=lambda row: row.kind or Kind.NOP)
)

STARTED = {row.same: row.name for row in BUILT_IN if row.name in MESSAGES and row.same}
"""Blocking message to the same one with a handle."""
BLOCKING = {name: same for same, name in STARTED.items()}
"""Message with a handle to the blocking one."""

SPELLINGS = {row.name: row.same for row in BUILT_IN if row.same}
"""Spellings of one operation: recorders differ in which one they write."""


def is_async(fields: Mapping[str, Any]) -> bool:
    """Tell whether an action of a plan file returns before it is complete."""
    return fields["op"] in BLOCKING or bool(fields.get("async"))


# --- kinds ---------------------------------------------------------------------------------------

COLLECTIVE_KIND: dict[str, Kind] = {
    row.name: row.kind for row in _COLLECTIVES if row.kind is not None
}
"""Operation name to kind for every collective that is not coalesced, registered ones too."""

COALESCED_KIND = {row.name: row.coalesced for row in BUILT_IN if row.coalesced is not None}
"""``kind`` of a ``coalesced`` action to its instruction kind."""

COALESCED_NAME: dict[int, str] = {kind: name for name, kind in COALESCED_KIND.items()}
"""The other way round."""

ROOTED_KINDS = frozenset(COLLECTIVE_KIND[name] for name in ROOTED)
REDUCING_KINDS = frozenset(COLLECTIVE_KIND[name] for name in REDUCING) | {
    kind for name, kind in COALESCED_KIND.items() if name in REDUCING
}
SPLIT_FIELDS: dict[int, tuple[str, ...]] = {
    COLLECTIVE_KIND[row.name]: row.splits for row in _COLLECTIVES if row.splits
}
"""Kinds whose parts can be uneven, and the fields that say how."""


def takes_round(name: str) -> bool:
    """Tell whether a call takes the next round of its group, be it built in or registered."""
    return name in COLLECTIVE_KIND or name == "coalesced"


# --- names elsewhere -----------------------------------------------------------------------------


def _numbered(field: str) -> tuple[str, ...]:
    numbers = {getattr(row, field): row.name for row in BUILT_IN}
    return tuple(numbers[number] for number in range(len(numbers) - 1))  # None is not one of them


C10D = {operator: (row.name, sized) for row in BUILT_IN for operator, sized in row.c10d.items()}
"""Operators of ``c10d``: operation, and the argument whose size counts."""

FUNCTIONAL = {
    operator: (row.name, sized) for row in BUILT_IN for operator, sized in row.functional.items()
}
"""Operators of ``_c10d_functional``."""

METHODS = tuple(names for row in BUILT_IN for names in row.methods)
"""Methods of a process group that communicate: the spellings of each, newest first."""

FUNCTIONS = frozenset(
    name
    for row in BUILT_IN
    for name in (row.name, *row.functions)
    if (row.methods or row.same or row.functions or row.family is Family.GROUP)
    and name not in {"init", "destroy", "batch"}
)
"""Functions of torch.distributed that communicate or make and end groups."""

NCCL = {name: row.name for row in BUILT_IN for name in row.nccl}
"""NCCL's functions."""

NCCL_DTYPES = (
    "i8", "u8", "i32", "u32", "i64", "u64", "f16", "f32", "f64", "bf16", "f8", "f8",
)  # fmt: skip
"""Element types in the order of ``ncclDataType_t`` (nccl.h); plans have no ``u32`` and ``u64``."""

NCCL_REDUCE_OPS = ("sum", "product", "max", "min", "avg")
"""Reduce operations in the order of ``ncclRedOp_t``."""

CHAKRA = _numbered("chakra")
"""Operations in the order of Chakra's ``CollectiveCommType``."""

LOGGED = _numbered("log")
"""Operations in the order of their numbers in the log of a recorded run."""

MPI_LOGGED = _numbered("mpi")
"""Operations in the order of their numbers in the log of an MPI program."""

RECORDED = {
    name.strip("_"): row.name
    for row in BUILT_IN
    for name in (
        row.name, *row.functions, *row.records, *row.c10d, *row.functional, *sum(row.methods, ()),
    )
    if row.c10d or row.functional
}  # fmt: skip
"""What recorders write, in lower case without outer underscores, to operations."""

# --- sizes ---------------------------------------------------------------------------------------


def bytes_of(
    fields: Mapping[str, Any],
    tensors: Mapping[str, Any] = MappingProxyType({}),
    *,
    dtype: str | None = None,
) -> int | None:
    """Return the bytes an action of a plan file says it moves; None where it does not say.

    Args:
        fields: The action: ``bytes``, ``count`` or ``shape`` with ``dtype``, or a ``tensor``.
        tensors: The plan's ``tensors``.
        dtype: Element type of an action that names none.
    """
    size = fields.get("bytes")
    if size is not None:
        return int(size)
    whole = {**tensors.get(fields.get("tensor", ""), {}), **fields}
    count, shape = whole.get("count"), whole.get("shape")
    if count is None and shape is not None:
        count = math.prod(shape)
    width = ITEM_BYTES.get(whole.get("dtype") or dtype or "")
    return None if count is None or width is None else int(count) * width
