"""What a DeepSpeed job intends, as records: commands of every stage, sizes, grid and ZeRO."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from msgspec import Struct

DEFAULT_BUCKET = 500_000_000
"""Elements: ``reduce_bucket_size`` and ``MEMORY_OPT_ALLREDUCE_SIZE`` of DeepSpeed."""

BUFFER_COMMANDS = (
    "LoadMicroBatch", "ForwardPass", "BackwardPass", "SendActivation", "RecvActivation",
    "SendGrad", "RecvGrad",
)  # fmt: skip
PLAIN_COMMANDS = ("ReduceTiedGrads", "ReduceGrads", "OptimizerStep")


class Tensor(Struct, frozen=True):
    """A tensor that is sent or reduced.

    Attributes:
        name: Parameter name; empty for what passes between stages.
        shape: Sizes.
        dtype: torch's name, for example ``float32``.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def has_gradient(self) -> bool:
        """Whether DeepSpeed sends a gradient for it: ``is_floating_point()``."""
        return self.dtype.startswith(("float", "bfloat"))


class Command(Struct, frozen=True):
    """One ``PipeInstruction``.

    Attributes:
        name: Class of the instruction.
        buffer: ``buffer_id``, -1 for instructions without one.
        place: Where it stands in the input.
    """

    name: str
    buffer: int
    place: str

    def __str__(self) -> str:
        return f"{self.name}({f'buffer_id={self.buffer}' if self.buffer >= 0 else ''})"


@dataclass(frozen=True)
class Tied:
    """A tied module: its parameters' gradients are summed over the stages that hold it."""

    key: str
    stages: tuple[int, ...]
    parameters: tuple[Tensor, ...]


@dataclass(frozen=True)
class Zero:
    """ZeRO's configuration.

    Attributes:
        stage: 0 to 3.
        reduce_bucket: Elements of a bucket of gradients.
        overlap: ``overlap_comm``: reductions run on a second stream.
    """

    stage: int = 0
    reduce_bucket: int = DEFAULT_BUCKET
    overlap: bool = False


@dataclass(frozen=True)
class Module:
    """A module as ZeRO-3 fetches it: its name and the parameters it owns itself."""

    name: str
    parameters: tuple[Tensor, ...]


@dataclass(frozen=True)
class Job:
    """A DeepSpeed job: one schedule on a grid of stages x data x model ranks.

    Attributes:
        file: Where it comes from.
        version: DeepSpeed's version.
        schedule: Class of the schedule.
        commands: Per stage the commands in order.
        data: Size of the data dimension.
        model: Size of the model (slice) dimension.
        boundaries: Tensors from stage s to stage s + 1; None if not known.
        parameters: Per stage the parameters with gradients; None if not known.
        modules: What ZeRO-3 fetches, in the order of the first forward.
        orders: Per rank another order: of parameters (ZeRO-1, 2) or modules (ZeRO-3), by name.
        tied: Tied modules.
        zero: ZeRO's configuration.
        split_activations: ``pipe_partitioned`` and more than one model rank.
        split_gradients: ``grad_partitioned`` and more than one model rank.
        broadcasts: Messages are broadcasts on groups of two, as before torch 1.8.
        first_batch: The first batch, which sends the shapes first.
        dynamic_shape: Shapes are sent with every activation.
        startup: With the messages that create the communicators.
        loss: With the loss's way back to all stages.
    """

    file: str
    version: str
    schedule: str
    commands: tuple[tuple[Command, ...], ...]
    data: int = 1
    model: int = 1
    boundaries: tuple[tuple[Tensor, ...], ...] | None = None
    parameters: tuple[tuple[Tensor, ...], ...] | None = None
    modules: tuple[Module, ...] = ()
    orders: dict[int, tuple[str, ...]] = field(default_factory=dict)
    tied: tuple[Tied, ...] = ()
    zero: Zero = Zero()
    split_activations: bool = False
    split_gradients: bool = False
    broadcasts: bool = False
    first_batch: bool = True
    dynamic_shape: bool = False
    startup: bool = False
    loss: bool = True

    @property
    def stages(self) -> int:
        """Number of pipeline stages."""
        return len(self.commands)

    @property
    def trains(self) -> bool:
        """Whether any stage runs a backward."""
        return any(c.name == "BackwardPass" for listed in self.commands for c in listed)


class Step(Struct, frozen=True):
    """One action of a stage, for every coordinate of data and model.

    Attributes:
        op: Operation of the plan format.
        label: Logical identity of the data, or name of a computation.
        place: Where the command stands.
        dtype: torch's name; empty for none.
        count: Elements; None if not known.
        peer: The other stage of a message.
        group: ``data``, ``model``, ``pipe``, ``slice`` (all of one data index) or ``tied:<key>``.
        root: Stage that a broadcast over the pipe comes from.
        work: Handle of an asynchronous operation, or that a wait waits for.
        mb: Microbatch, -1 for none.
        phase: ``forward``, ``backward`` or empty.
    """

    op: str
    label: str
    place: str
    dtype: str = ""
    count: int | None = None
    peer: int = -1
    group: str = ""
    root: int = -1
    work: str = ""
    mb: int = -1
    phase: str = ""
