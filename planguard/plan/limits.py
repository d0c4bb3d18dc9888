"""Limits of the reader: what an untrusted plan may cost."""

from __future__ import annotations

from msgspec import Struct


class Limits(Struct, frozen=True, kw_only=True):
    """How large a plan may be; exceeding a limit is a ``PlanError``.

    Attributes:
        file_bytes: Bytes of the file, and of its text after decompression.
        nesting: Depth of blocks inside blocks (``repeat``, ``unordered``, ``threads``, ``choice``).
        world_size: Number of ranks.
        actions: Actions of all ranks together, loops unrolled.
        rank_actions: Actions of one rank, loops unrolled. A check holds the actions of every
            distinct program in memory, some 80 bytes each, and goes through them without a stop.
        unroll: Actions that may be unrolled while reading, per program. Only a plan that refers
            to one iteration of a loop from outside that loop is unrolled.
    """

    file_bytes: int = 128 * 2**20
    nesting: int = 64
    world_size: int = 2**22
    actions: int = 10**8
    rank_actions: int = 10**7
    unroll: int = 10**5


DEFAULT_LIMITS = Limits()
