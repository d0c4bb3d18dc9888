"""The rules of one execution model and the signatures of a plan, for the Python kernels."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

ARRIVE, AWAIT = 1, 2
"""Flags of a word of lane code."""


class Family(enum.IntEnum):
    """Which queue an action occupies."""

    HOST = 0
    WORKER = 1
    DEVICE = 2


class Degree(enum.IntEnum):
    """Who must have arrived before a member of a collective may leave."""

    ALL = 0
    FLAT = 1
    TREE = 2


class Creation(enum.IntEnum):
    """What creating a process group waits for."""

    FREE = 0
    MEMBERS = 1
    WORLD = 2
    ENTERING = 3


class LaneKind(enum.IntEnum):
    """What a lane is: a program or stream, the queue of a communicator, the host."""

    PROGRAM = 0
    QUEUE = 1
    HOST = 2


class Why(enum.IntEnum):
    """Why an instruction of a lane is there."""

    SEND = 0
    RECV = 1
    COLLECTIVE = 2
    WAIT_HANDLE = 3
    STREAM_EDGE = 4
    EVENT = 5
    QUEUE = 6
    DEPENDENCY = 7
    INIT = 8
    GATE = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What one execution model says; ``struct Rules`` of ``lanes.h`` explains every field."""

    family: int
    single_queue: bool
    use_tags: bool
    pair_comm: bool
    lazy_init: bool
    kind_slots: bool
    pre_barrier: bool
    barrier_last: bool
    counts_messages: bool
    sync_is_a_kind: bool
    send_modes: bool
    eager: bool
    poison_drops: bool
    exit_withdraws: bool
    new_group: int
    eager_bytes: int
    degree: bytes
    empty_alone: bytes
    spelling: bytes
    slot_class: bytes

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Rules:
        """Take the fields out of a dict.

        Raises:
            ValueError: A table by kind does not have 64 bytes.
        """
        tables = ("degree", "empty_alone", "spelling", "slot_class")
        if any(len(given[name]) != 64 for name in tables):
            raise ValueError("tables by kind have 64 bytes")
        return cls(**{name: given[name] for name in cls.__slots__})

    @property
    def device(self) -> bool:
        """Whether actions are kernels in queues."""
        return self.family == Family.DEVICE

    @property
    def worker(self) -> bool:
        """Whether one worker thread does all communication of a process."""
        return self.family == Family.WORKER

    @property
    def parallel(self) -> bool:
        """Whether every communicator has a queue of its own."""
        return self.device and not self.single_queue


@dataclass(frozen=True, slots=True)
class Signatures:
    """What the members of a match must agree on, one column per field."""

    kind: Sequence[int]
    bytes: Sequence[int]
    dtype: Sequence[int]
    redop: Sequence[int]
    root: Sequence[int]
    layout: Sequence[int]
    splits: Sequence[int]


@dataclass(frozen=True, slots=True)
class LowerOptions:
    """What is asked of lowering.

    Attributes:
        origins: Keep the entry and the reason of every instruction.
        forced: Rounds whose members meet whatever they issue there.
        threads: The calls of a host are those of several threads, which are told apart later.
    """

    origins: bool
    forced: Collection[int]
    threads: bool = False
