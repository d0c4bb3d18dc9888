"""The actions of a plan file as typed records: one class per operation, told apart by ``op``.

Absent fields are UNSET and are not written back, so that a document can be written exactly as it
was read. Nothing here is checked beyond types and ranges; ``compile`` and ``wellformed`` do that.

Annotations are evaluated here, not postponed: the decoder would evaluate each of them again for
every class that inherits it, which is most of its cost.
"""

from typing import Annotated, Literal, TypeAlias, get_args

from msgspec import UNSET, Meta, Struct, UnsetType

MAX_INT = 2**63 - 1

Unsigned: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_INT)]
Name: TypeAlias = Annotated[str, Meta(min_length=1)]
Duration: TypeAlias = Annotated[float, Meta(ge=0)]
Tag: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Index: TypeAlias = Annotated[int, Meta(ge=-MAX_INT - 1, le=MAX_INT)]
Offset: TypeAlias = Annotated[int, Meta(ge=-(2**30), le=2**30 - 1)]
Dtype: TypeAlias = Literal[
    "f64", "f32", "f16", "bf16", "f8", "i64", "i32", "i16", "i8", "u8", "bool"
]
ReduceName: TypeAlias = Literal[
    "sum", "avg", "product", "min", "max", "band", "bor", "bxor", "premul_sum",
    "land", "lor", "lxor", "minloc", "maxloc",
]  # fmt: skip
CoalescedName: TypeAlias = Literal["all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor"]

OptName: TypeAlias = Name | UnsetType
OptText: TypeAlias = str | UnsetType
OptNames: TypeAlias = list[Name] | UnsetType
OptUnsigned: TypeAlias = Unsigned | UnsetType
OptSplits: TypeAlias = list[Unsigned] | UnsetType
OptBool: TypeAlias = bool | UnsetType


class Src(Struct, array_like=True, forbid_unknown_fields=True, frozen=True, gc=False):
    """Where the planner made an action: ``["file.py", 212, "function"]``."""

    file: str
    line: Unsigned | None = None
    function: str | None = None


class Node(
    Struct,
    tag_field="op",
    forbid_unknown_fields=True,
    kw_only=True,
    frozen=True,
    gc=False,
    omit_defaults=True,
    repr_omit_defaults=True,
):
    """Fields that every action may have."""

    id: OptName = UNSET
    src: Src | UnsetType = UNSET
    label: OptText = UNSET
    reads: OptNames = UNSET
    writes: OptNames = UNSET
    stream: OptName = UNSET
    after: OptNames = UNSET
    ns: OptText = UNSET
    mb: Index | UnsetType = UNSET
    stage: Index | UnsetType = UNSET
    phase: OptText = UNSET


class Sized(Node, kw_only=True, frozen=True):
    """An action that moves data: ``bytes``, or ``count`` and ``dtype``, or a tensor or shape."""

    bytes: OptUnsigned = UNSET
    count: OptUnsigned = UNSET
    dtype: Dtype | UnsetType = UNSET
    tensor: OptName = UNSET
    shape: list[Unsigned] | UnsetType = UNSET


class PointToPoint(Sized, kw_only=True, frozen=True):
    """A send, a receive or a probe."""

    peer: Unsigned | Literal["any"] | dict[str, Offset | bool]
    tag: Tag | Literal["any"] | UnsetType = UNSET
    group: OptName = UNSET


class AnySend(PointToPoint, kw_only=True, frozen=True):
    """A send, blocking or not."""

    work: OptName = UNSET
    mode: Literal["standard", "synchronous", "buffered", "ready"] | UnsetType = UNSET


class AnyRecv(PointToPoint, kw_only=True, frozen=True):
    """A receive, blocking or not."""

    work: OptName = UNSET


class Send(AnySend, tag="send", frozen=True):
    """Blocking send."""


class Isend(AnySend, tag="isend", frozen=True):
    """Send that returns a work handle."""


class Recv(AnyRecv, tag="recv", frozen=True):
    """Blocking receive."""


class Irecv(AnyRecv, tag="irecv", frozen=True):
    """Receive that returns a work handle."""


class Probe(PointToPoint, tag="probe", frozen=True):
    """MPI probe: waits for a message and leaves it there."""


class Collective(Sized, rename={"async_": "async"}, kw_only=True, frozen=True):
    """A call that every member of the group makes."""

    group: OptName = UNSET
    reduce_op: ReduceName | UnsetType = UNSET
    root: OptUnsigned = UNSET
    in_splits: OptSplits = UNSET
    out_splits: OptSplits = UNSET
    async_: OptBool = UNSET
    work: OptName = UNSET


class AllReduce(Collective, tag="all_reduce", frozen=True):
    """Sum (or another reduction) to every rank."""


class AllGather(Collective, tag="all_gather", frozen=True):
    """Every rank's tensor to every rank, as a list."""


class AllGatherIntoTensor(Collective, tag="all_gather_into_tensor", frozen=True):
    """Every rank's tensor to every rank, as one tensor."""


class ReduceScatter(Collective, tag="reduce_scatter", frozen=True):
    """Reduce a list of tensors and keep the own one."""


class ReduceScatterTensor(Collective, tag="reduce_scatter_tensor", frozen=True):
    """Reduce one tensor and keep the own part."""


class Broadcast(Collective, tag="broadcast", frozen=True):
    """The root's tensor to every rank."""


class Reduce(Collective, tag="reduce", frozen=True):
    """Reduction to the root."""


class Gather(Collective, tag="gather", frozen=True):
    """Every rank's tensor to the root."""


class Scatter(Collective, tag="scatter", frozen=True):
    """One part of the root's tensor to each rank."""


class AllToAll(Collective, tag="all_to_all", frozen=True):
    """One tensor from every rank to every rank."""


class AllToAllSingle(Collective, tag="all_to_all_single", frozen=True):
    """One part of a tensor from every rank to every rank."""


class Barrier(Collective, tag="barrier", frozen=True):
    """Wait for every member."""


class Scan(Collective, tag="scan", frozen=True):
    """MPI inclusive prefix reduction."""


class Exscan(Collective, tag="exscan", frozen=True):
    """MPI exclusive prefix reduction."""


class Part(Struct, forbid_unknown_fields=True, kw_only=True, frozen=True, gc=False):
    """One tensor of a coalesced collective."""

    op: CoalescedName | UnsetType = UNSET
    label: OptText = UNSET
    reads: OptNames = UNSET
    writes: OptNames = UNSET
    bytes: OptUnsigned = UNSET
    count: OptUnsigned = UNSET
    dtype: Dtype | UnsetType = UNSET
    tensor: OptName = UNSET
    shape: list[Unsigned] | UnsetType = UNSET


class Coalesced(Node, tag="coalesced", rename={"async_": "async"}, kw_only=True, frozen=True):
    """Several collectives of one kind merged into one launch; the lists must agree."""

    kind: CoalescedName
    ops: list[Part]
    group: OptName = UNSET
    reduce_op: ReduceName | UnsetType = UNSET
    async_: OptBool = UNSET
    work: OptName = UNSET


class Wait(Node, tag="wait", kw_only=True, frozen=True):
    """Completes when its handles do."""

    work: Name | list[Name]
    mode: Literal["all", "any", "some"] | UnsetType = UNSET


class Test(Node, tag="test", kw_only=True, frozen=True):
    """Polls a handle and never blocks."""

    work: Name


class Drop(Node, tag="drop", kw_only=True, frozen=True):
    """The handle dies unwaited."""

    work: Name


class Batch(Node, tag="batch", kw_only=True, frozen=True):
    """One launch of several operations: ``ncclGroup`` or ``batch_isend_irecv``."""

    ops: "list[Member]"
    work: OptName = UNSET


class Compute(Node, tag="compute", kw_only=True, frozen=True):
    """Computation: blocks its stream and carries data dependencies."""

    op_name: OptText = UNSET
    deps: OptNames = UNSET
    duration_us: Duration | UnsetType = UNSET
    flops: Duration | UnsetType = UNSET
    bytes: OptUnsigned = UNSET


class HostSync(Node, tag="host_sync", frozen=True):
    """The host waits for everything queued, or for one stream."""


class EventRecord(Node, tag="event_record", kw_only=True, frozen=True):
    """Marks a point of a stream."""

    event: Name


class EventWait(Node, tag="event_wait", kw_only=True, frozen=True):
    """A stream waits for a recorded event."""

    event: Name


class Init(Node, tag="init", kw_only=True, frozen=True):
    """Creation of a communicator: collective over its members."""

    group: OptName = UNSET


class NewGroup(Node, tag="new_group", kw_only=True, frozen=True):
    """The torch call; the creation counter of this rank advances."""

    group: Name


class Destroy(Node, tag="destroy", kw_only=True, frozen=True):
    """The group ends on this rank."""

    group: OptName = UNSET


class Unordered(Node, tag="unordered", kw_only=True, frozen=True):
    """Items that may be issued in any order that ``after`` allows; a list is a chain."""

    body: "list[Action | list[Action]]"


class Threads(Node, tag="threads", kw_only=True, frozen=True):
    """Host threads: each keeps its own order and blocks alone; the end joins all."""

    threads: "list[list[Action]]"


class Choice(Node, tag="choice", kw_only=True, frozen=True):
    """A data-dependent branch; ``uniform`` means that every rank takes the same one."""

    name: OptText = UNSET
    uniform: OptBool = UNSET
    branches: Annotated["list[list[Action]]", Meta(min_length=1)]


class Repeat(Node, tag="repeat", kw_only=True, frozen=True):
    """A loop, kept symbolic."""

    times: Annotated[int, Meta(ge=1, le=MAX_INT)]
    body: "list[Action]"


class Copy(Sized, kw_only=True, frozen=True):
    """A copy between host and device memory, for pictures."""

    path: Literal["peer", "via_host", "nic", "local"] | UnsetType = UNSET
    memory: Literal["explicit", "unified", "zero-copy"] | UnsetType = UNSET


class HostToDevice(Copy, tag="h2d", frozen=True):
    """Copy from the host to this rank's device."""


class DeviceToHost(Copy, tag="d2h", frozen=True):
    """Copy from this rank's device to the host."""


class DeviceToDevice(Copy, tag="d2d", kw_only=True, frozen=True):
    """Copy to the device of another rank."""

    peer: Unsigned | UnsetType = UNSET


class Exit(Node, tag="exit", frozen=True):
    """The rank ends here."""


Member: TypeAlias = (
    Send | Recv | Isend | Irecv | AllReduce | AllGather | AllGatherIntoTensor | ReduceScatter
    | ReduceScatterTensor | Broadcast | Reduce | Gather | Scatter | AllToAll | AllToAllSingle
)  # fmt: skip
"""What may stand inside a ``batch``."""

Action: TypeAlias = (
    Send | Recv | Isend | Irecv | Probe | AllReduce | AllGather | AllGatherIntoTensor
    | ReduceScatter | ReduceScatterTensor | Broadcast | Reduce | Gather | Scatter | AllToAll
    | AllToAllSingle | Barrier | Scan | Exscan | Coalesced | Wait | Test | Drop | Batch | Compute
    | HostSync | EventRecord | EventWait | Init | NewGroup | Destroy | Unordered | Threads | Choice
    | Repeat | HostToDevice | DeviceToHost | DeviceToDevice | Exit
)  # fmt: skip
"""Any action of a plan."""

OP_CLASSES: dict[str, type[Node]] = {
    str(cls.__struct_config__.tag): cls for cls in get_args(Action)
}
"""Operation name to its class."""


def op_name(node: Node) -> str:
    """Return the ``op`` of an action."""
    return str(node.__struct_config__.tag)
