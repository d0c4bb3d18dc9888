"""The top level of ``planguard.plan/1`` as typed records."""

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from planguard.plan.nodes import (
    MAX_INT,
    Action,
    Dtype,
    Index,
    Name,
    OptBool,
    OptName,
    OptText,
    OptUnsigned,
    Unsigned,
)

SCHEMA = "planguard.plan/1"

Positive: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_INT)]
Number: TypeAlias = Annotated[float, Meta(ge=0)]


class Record(
    Struct,
    forbid_unknown_fields=True,
    kw_only=True,
    frozen=True,
    gc=False,
    omit_defaults=True,
    repr_omit_defaults=True,
):
    """Base of every record that is not an action."""


class MeshSpec(Record, kw_only=True, frozen=True):
    """A device mesh; the last dimension varies fastest."""

    dims: list[tuple[Name, Positive]]


class GroupSpec(Record, kw_only=True, frozen=True):
    """A process group: explicit ``ranks``, or a family over ``mesh_dims``."""

    ranks: list[Unsigned] | UnsetType = UNSET
    mesh_dims: list[Name] | UnsetType = UNSET
    backend: Literal["nccl", "gloo", "mpi"] | UnsetType = UNSET
    created: OptUnsigned = UNSET


class Use(Record, kw_only=True, frozen=True):
    """What the ranks of one selector run."""

    template: OptName = UNSET
    actions: list[Action] | UnsetType = UNSET


class FusionSpec(Record, kw_only=True, frozen=True):
    """A fused buffer: members that become ready in any order and leave in merged collectives."""

    id: Name
    group: OptName = UNSET
    cap_bytes: OptUnsigned = UNSET
    buffers: Positive | UnsetType = UNSET
    coordination: Literal["none", "rank0-broadcast", "negotiated"] | UnsetType = UNSET
    membership: Literal["fixed", "fill"] | UnsetType = UNSET
    launch: Literal["ordered", "when-ready"] | UnsetType = UNSET
    drain: Literal["ordered", "free"] | UnsetType = UNSET
    members: list[Name]


class TensorSpec(Record, kw_only=True, frozen=True):
    """A tensor that actions may name instead of a size."""

    shape: list[Unsigned]
    dtype: Dtype
    strategy: list[Index] | UnsetType = UNSET


class RankPlace(Record, kw_only=True, frozen=True):
    """Where a rank runs."""

    rank: Unsigned
    node: OptUnsigned = UNSET
    device: OptUnsigned = UNSET
    nic: OptUnsigned = UNSET


class Link(Record, kw_only=True, frozen=True):
    """A link between the devices of two ranks, for pictures and cost models."""

    src: Unsigned
    dst: Unsigned
    type: OptText = UNSET
    bandwidth: Number | UnsetType = UNSET
    latency_us: Number | UnsetType = UNSET
    duplex: OptBool = UNSET


class TopologySpec(Record, kw_only=True, frozen=True):
    """Places of the ranks and links between them."""

    ranks: list[RankPlace] | UnsetType = UNSET
    links: list[Link] | UnsetType = UNSET


class ProducerSpec(Record, kw_only=True, frozen=True):
    """The tool that wrote the plan."""

    tool: str
    version: OptText = UNSET


class ApproximationSpec(Record, kw_only=True, frozen=True):
    """One entry of the approximation ledger of the tool that wrote the plan."""

    kind: Name
    message: str
    direction: Literal["over", "under", "exact"] | UnsetType = UNSET
    scope: Literal["actions", "onward", "plan"] | UnsetType = UNSET
    actions: list[tuple[Unsigned, Unsigned]] | UnsetType = UNSET


class Document(Record, kw_only=True, frozen=True):
    """A plan file."""

    schema: Literal["planguard.plan/1"]
    name: OptText = UNSET
    world_size: Positive
    mesh: MeshSpec | UnsetType = UNSET
    model: OptText = UNSET
    producer: ProducerSpec | UnsetType = UNSET
    approximations: list[ApproximationSpec] | UnsetType = UNSET
    topology: TopologySpec | UnsetType = UNSET
    tensors: dict[str, TensorSpec] | UnsetType = UNSET
    groups: dict[str, GroupSpec] | UnsetType = UNSET
    fusion: list[FusionSpec] | UnsetType = UNSET
    templates: dict[str, list[Action]] | UnsetType = UNSET
    ranks: dict[str, Use]
