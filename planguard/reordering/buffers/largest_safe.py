"""The largest policy of a fused buffer under which no two ranks flush differently."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.reordering.buffers.flushes import conflict, flushes, same_down_to
from planguard.semantics.fusion import smallest_safe_cap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.reordering.buffers.members import Buffer, Ready

_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def safe_cap(buffer: Buffer, ranks: Sequence[Ready]) -> int | None:
    """Return the least capacity from which on all ranks always flush alike, bytes, or None.

    Args:
        buffer: The policy; its own capacity is ignored.
        ranks: The members of the buffer on every rank that has it.
    """
    total = max(ready.total for ready in ranks)

    def check(cap: int) -> int | None:
        sequences = set()
        for ready in ranks:
            if conflict(buffer, ready, cap) is not None:
                return None
            done = flushes(buffer, ready, cap, range(len(ready.leaves)))
            sequences.add(tuple(frozenset(ready.name(e) for e in f.elements) for f in done))
        return max(same_down_to(buffer, r, cap) for r in ranks) if len(sequences) == 1 else None

    return smallest_safe_cap(total, check)


def largest_safe(buffer: Buffer, ranks: Sequence[Ready]) -> tuple[str, int | None]:
    """Return under which policy the flushes of all ranks agree: in words, and the capacity.

    Both are about the order of flushes of this buffer; what else a plan does is not part of it.
    """
    ordered = (
        "ordered launch" if buffer.membership == "fixed" else "fixed membership and ordered launch"
    )
    cap = safe_cap(buffer, ranks)
    if cap is None:
        return f"one order of flushes for no capacity, but with {ordered}", None
    return f"one order of flushes for cap >= {_size(cap)}, or with {ordered}", cap


def _size(count: int) -> str:
    """Return bytes, rounded up to hundredths of the unit so that the bound still holds."""
    for unit, scale in _UNITS:
        if count >= scale:
            hundredths = -(-count * 100 // scale)
            whole, rest = divmod(hundredths, 100)
            return f"{whole} {unit}" if not rest else f"{whole}.{rest:02d} {unit}"
    return f"{count} B"
