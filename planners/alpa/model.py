"""Plain records of a dump of Alpa's instructions."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import Struct


class Host(Struct, frozen=True):
    """A worker process and the ranks of its devices."""

    worker: str
    mesh: int
    devices: tuple[int, ...]


class Piece(Struct, frozen=True):
    """One message of a resharding task, or one broadcast: sender first, then receivers."""

    ranks: tuple[int, ...]
    bytes: int | None


class Gather(Struct, frozen=True):
    """The gather inside the receiving mesh: groups of ranks, and the bytes that each one has."""

    groups: tuple[tuple[int, ...], ...]
    bytes: int | None


class Task(Struct, frozen=True):
    """A resharding task.

    Attributes:
        name: Its key in the dump.
        mode: ``sendrecv`` or ``broadcast``.
        sent: Messages in the order in which the senders submit them; broadcasts in their order.
        received: Messages in the order in which the receivers submit them.
        gather: The gather behind them, if any.
        dtype: Element type in the plan's spelling, None if it has none.
    """

    name: str
    mode: str
    sent: tuple[Piece, ...]
    received: tuple[Piece, ...]
    gather: Gather | None
    dtype: str | None


class Instruction(Struct, frozen=True):
    """One instruction of a worker; ``path`` is that of its list in the dump."""

    op: str
    path: str
    number: int
    task: str = ""
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    info: str = ""
    gathers: bool = False
    skips_sync: bool = False

    @property
    def place(self) -> str:
        """Its path in the dump."""
        return f"{self.path}[{self.number}]"


class Stage(Struct, frozen=True):
    """What a RUN executes.

    Attributes:
        mesh: Mesh that runs it, None if the dump does not say.
        hlo: Text of the compiled stage, empty if unknown.
        sync_channels: Channels of the collectives that ``skip_grad_sync`` leaves out.
    """

    mesh: int | None
    hlo: str = ""
    sync_channels: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Dump:
    """A whole dump."""

    file: str
    version: str
    hosts: tuple[Host, ...]
    programs: dict[str, tuple[Instruction, ...]]
    tasks: dict[str, Task]
    stages: dict[str, Stage] | None
    inputs: dict[str, frozenset[int]] | None
    lazy: bool = False
    overlapping: bool = False
    signals: bool = False
    meshes: dict[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def world_size(self) -> int:
        """Number of devices."""
        return sum(len(host.devices) for host in self.hosts)
