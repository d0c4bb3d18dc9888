"""What an nnScaler plan says, as plain data: steps of a rank, and the tensors they move."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

Shape: TypeAlias = tuple[int, ...]
Where: TypeAlias = tuple[str, int, str]
"""File, line and function."""

Ranks: TypeAlias = tuple[int, ...]

DTYPES = {
    "float64": "f64", "double": "f64", "float32": "f32", "float": "f32", "float16": "f16",
    "half": "f16", "bfloat16": "bf16", "int64": "i64", "long": "i64", "int32": "i32", "int": "i32",
    "int16": "i16", "short": "i16", "int8": "i8", "uint8": "u8", "bool": "bool",
    "float8_e4m3fn": "f8", "float8_e5m2": "f8",
}  # fmt: skip
"""Name in torch to name in the plan format."""


@dataclass(frozen=True)
class Label:
    """Identity of what a communication carries, before the microbatches are known.

    Attributes:
        stem: Tensor or parameters.
        call: Number of the step call it belongs to, None for what no microbatch owns.
    """

    stem: str
    call: int | None


@dataclass(frozen=True, kw_only=True)
class Comm:
    """One communication of one rank.

    Attributes:
        op: Operation of the plan format.
        where: Source.
        ranks: Members of the group; empty for the default group, on which messages run.
        peer: Other side of a message.
        root: Global rank of a rooted collective.
        shape: Of the tensor that counts for the size, None if unknown.
        dtype: None if unknown.
        reduce_op: Of a reduction.
        work: Handle, for asynchronous calls.
        label: What it carries.
        phase: ``F``, ``B`` or "" for what is neither.
        drop: True if the handle dies at once.
        reads: Buffers that are in flight while they are read.
        expression: What an unknown size is computed from (``Tensor.expression``).
    """

    op: str
    where: Where
    ranks: Ranks = ()
    peer: int | None = None
    root: int | None = None
    shape: Shape | None = None
    dtype: str | None = None
    reduce_op: str | None = None
    work: str | None = None
    label: Label | None = None
    phase: str = ""
    drop: bool = False
    reads: tuple[str, ...] = ()
    expression: str = ""


@dataclass(frozen=True)
class Wait:
    """Wait for handles."""

    works: tuple[str, ...]
    where: Where


@dataclass(frozen=True)
class Drop:
    """Handles die without a wait."""

    works: tuple[str, ...]
    where: Where


@dataclass(frozen=True)
class Compute:
    """A segment runs on values that earlier steps of the rank made.

    Attributes:
        name: Segment.
        phase: ``F`` or ``B``.
        call: Number of the step call.
        deps: Indices of steps of this rank.
        where: Source.
    """

    name: str
    phase: str
    call: int
    deps: tuple[int, ...]
    where: Where


@dataclass(frozen=True)
class NewGroup:
    """The rank calls ``new_group``."""

    ranks: Ranks
    where: Where


@dataclass(frozen=True)
class Window:
    """Collectives that each rank may launch in any order within one backward."""

    comms: tuple[Comm, ...]
    chain: tuple[Comm, ...]
    where: Where


@dataclass(frozen=True)
class Leave:
    """The code raises here, so the rank gets no further.

    Attributes:
        error: Python's words.
        where: Source.
    """

    error: str
    where: Where


Step: TypeAlias = Comm | Wait | Drop | Compute | NewGroup | Window | Leave


@dataclass(frozen=True)
class Call:
    """One call of the step function: a segment, an adapter or a backward.

    Attributes:
        callee: What is called.
        names: Variables in and out; what one call touches belongs to one microbatch.
    """

    callee: str
    names: tuple[str, ...]


@dataclass
class Program:
    """What one rank does.

    Attributes:
        rank: The rank.
        steps: In program order.
        calls: Of the step function, in order; labels refer to them by number.
        outputs: Variables returned, per microbatch.
        samples: Variables read from the data loader, in order.
        notes: Entries for the ledger: kind, message, direction.
    """

    rank: int
    steps: list[Step] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    outputs: list[tuple[str, ...]] = field(default_factory=list)
    samples: list[str] = field(default_factory=list)
    notes: list[tuple[str, str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class NnScalerPlan:
    """Everything the plan needs: the programs of all ranks and how the plan was made.

    Attributes:
        programs: One per rank.
        groups: Process groups in order of creation by the first rank that creates them.
        microbatches: Per step.
        name: Of the directory or the graph.
        producer: Tool and version.
        notes: Entries for the ledger: kind, message, direction.
    """

    programs: tuple[Program, ...]
    groups: tuple[Ranks, ...]
    microbatches: int
    name: str
    producer: tuple[str, str]
    notes: tuple[tuple[str, str, str], ...] = ()


def elements(shape: Shape) -> int:
    """Return the number of elements of a shape."""
    total = 1
    for size in shape:
        total *= size
    return total


def of_gradient(comm: Comm) -> Comm:
    """Name a communication of a gradient after its tensor: ``gx`` becomes ``x.grad``."""
    if comm.label is None or not comm.label.stem.startswith("g"):
        return comm
    return replace(comm, label=Label(f"{comm.label.stem[1:]}.grad", comm.label.call))
