"""Copies between memories in Kineto traces: to and from the host, inside a device, to another one.

CUPTI's records, as Kineto writes them (libkineto/src/CuptiActivity.cpp): category ``gpu_memcpy``,
a name such as ``Memcpy HtoD (Pinned -> Device)``, the bytes among the arguments, and the devices of
a copy from peer to peer. What the driver moves for Unified Memory is named so, as in nvprof.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

CATEGORY = "gpu_memcpy"
UNIFIED = "Unified Memory Memcpy "
_NAME = re.compile(r"(?:Unified Memory )?Memcpy (HtoD|DtoH|DtoD|PtoP)\b")
MOST = 1 << 60


@dataclass(frozen=True)
class Copied:
    """A copy: operation of the plan format, bytes, memory, devices, and times in microseconds.

    Attributes:
        op: ``h2d``, ``d2h`` or ``d2d``.
        bytes: Bytes, or None.
        is_unified: The driver moved pages of Unified Memory.
        here: Device that the copy ran on, or None.
        there: Device that it went to, where that is another one.
        start: Begin.
        end: End.
    """

    op: str
    bytes: int | None
    is_unified: bool
    here: int | None
    there: int | None
    start: float
    end: float

    @property
    def is_to_peer(self) -> bool:
        """True for a copy to the memory of another device."""
        return self.there is not None


def copied(name: str, args: dict[str, Any], start: float, end: float) -> Copied | None:
    """Return the copy of an event; None for kinds that no plan has (arrays, host to host)."""
    found = _NAME.match(name)
    if found is None:
        return None
    here = _number(args, "fromDevice")
    here = _number(args, "device") if here is None else here
    there = _number(args, "toDevice") if found[1] == "PtoP" else None
    if there == here:
        there = None
    size = _number(args, "bytes")
    # CUPTI says HtoD, a plan h2d; from one device to another is a copy between devices as well.
    op = found[1].lower().replace("to", "2").replace("p", "d")
    return Copied(op, size, name.startswith(UNIFIED), here, there, start, end)


def _number(args: dict[str, Any], name: str) -> int | None:
    value = args.get(name)
    return value if type(value) is int and 0 <= value < MOST else None
