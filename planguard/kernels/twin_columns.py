"""What the Python kernels hand on: columns, lanes, the state of a run. Same names as ``_native``.

``native/include/planguard`` documents every field; arrays are ``array.array``.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field


def words() -> array[int]:
    """Return an empty array of unsigned 32-bit words."""
    return array("I")


def offsets() -> array[int]:
    """Return an empty array of unsigned 64-bit offsets."""
    return array("Q")


def octets() -> array[int]:
    """Return an empty array of bytes."""
    return array("B")


@dataclass(slots=True)
class Columns:
    """One entry per action; batch members follow their batch (``columns.h``)."""

    world_size: int
    rank_off: array[int] = field(default_factory=offsets)
    op: array[int] = field(default_factory=octets)
    arg: array[int] = field(default_factory=words)
    sig: array[int] = field(default_factory=words)
    label: array[int] = field(default_factory=words)
    stream: array[int] = field(default_factory=octets)
    aux: array[int] = field(default_factory=words)
    ginst_group: array[int] = field(default_factory=words)
    ginst_off: array[int] = field(default_factory=words)
    slot_rank: array[int] = field(default_factory=words)
    slot_ginst: array[int] = field(default_factory=words)
    slot_count: array[int] = field(default_factory=words)
    chan_ginst: array[int] = field(default_factory=words)
    chan_src: array[int] = field(default_factory=words)
    chan_dst: array[int] = field(default_factory=words)
    chan_tag: array[int] = field(default_factory=words)
    chan_src_slot: array[int] = field(default_factory=words)
    chan_dst_slot: array[int] = field(default_factory=words)
    send_count: array[int] = field(default_factory=words)
    recv_count: array[int] = field(default_factory=words)
    has_markers: bool = False
    has_new_group: bool = False
    has_any_source: bool = False
    has_any_tag: bool = False
    has_probe: bool = False
    has_drop: bool = False
    has_stream: bool = False
    has_wait_choice: bool = False
    failure: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)


Key = tuple[int, int, int, int]
"""Name of an extra match: type and detail, then what the type says (``lanes.h``)."""


@dataclass(slots=True)
class Lanes:
    """Sequences that block alone, and the matches at which they meet (``lanes.h``)."""

    code: array[int] = field(default_factory=words)
    lane_off: array[int] = field(default_factory=offsets)
    lane_rank: array[int] = field(default_factory=words)
    lane_kind: array[int] = field(default_factory=octets)
    lane_soft: array[int] = field(default_factory=offsets)
    need: array[int] = field(default_factory=words)
    origin: array[int] = field(default_factory=words)
    why: array[int] = field(default_factory=octets)
    comm_base: array[int] = field(default_factory=words)
    comm_ginst: array[int] = field(default_factory=words)
    class_base: array[int] = field(default_factory=words)
    class_chan: array[int] = field(default_factory=words)
    p2p_base: int = 0
    ext_base: int = 0
    ext_keys: list[Key] = field(default_factory=list)
    mismatched: array[int] = field(default_factory=words)
    split_rounds: array[int] = field(default_factory=words)
    mixed_async: array[int] = field(default_factory=words)
    broken: array[int] = field(default_factory=words)
    n_mismatched: int = 0
    overflow: bool = False

    def ext(self, match: int) -> Key:
        """Return the name of an extra match.

        Raises:
            IndexError: The match is a round or a pair.
        """
        if not self.ext_base <= match < self.ext_base + len(self.ext_keys):
            raise IndexError("not an extra match")
        return self.ext_keys[match - self.ext_base]


@dataclass(frozen=True, slots=True)
class RunState:
    """Where every lane stands at the end, and which arrivals every match still misses."""

    pc: array[int]
    need: array[int]
    executed: int
    stuck_lanes: int


@dataclass(frozen=True, slots=True)
class Blockers:
    """Stuck lanes, the matches they wait at, and the arrivals that stuck lanes owe to those."""

    lane: array[int] = field(default_factory=words)
    match: array[int] = field(default_factory=words)
    owed_match: array[int] = field(default_factory=words)
    owed_lane: array[int] = field(default_factory=words)
    owed_at: array[int] = field(default_factory=offsets)
