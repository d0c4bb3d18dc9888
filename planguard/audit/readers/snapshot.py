"""Snapshots of torch's allocator (``torch.cuda.memory._dump_snapshot``), read without running code.

The format is that of ``torch.cuda.memory._snapshot`` of torch 2.13.0, with what older releases left
out: times (before 2.1), addresses of blocks, and stacks kept in a ``history`` of the block. A list
of segments alone, as ``torch.cuda.memory_snapshot()`` returns it, is read too.

A pickle may hold one object in many places, so a small file may be a large document: more blocks
and entries than bytes are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from planguard.audit.readers.safe import load_pickle
from planguard.errors import PlanError
from planguard.recording.memory import ACTIONS, INACTIVE, Block, Entry, Segment, Snapshot
from planguard.recording.sites import Frame

if TYPE_CHECKING:
    from collections.abc import Mapping

AGAIN = "take it with torch.cuda.memory._dump_snapshot, which stores no objects of classes"
"""What to do about a snapshot that is refused."""
SMALLER = "keep fewer entries (max_entries of _record_memory_history), or stacks of Python only"
"""What to do about one that is too large: trace and stacks make up nearly all of it."""
HEAD = 512
"""First bytes of a file that say whether it is a snapshot."""
MOST = 1 << 50
"""Most bytes of a block or a segment: no device has as many."""
FRAMES = 400
"""Most frames of a stack that are read."""
_LARGEST = 1 << 64
_STATES = {"active_allocated", "active_pending_free", "active_awaiting_free", INACTIVE}


def is_snapshot(head: bytes) -> bool:
    """Tell by the first bytes of a pickle whether it is a snapshot."""
    if head[:1] != b"\x80":
        return False
    first = head[:64]
    return b"segments" in first or b"device_traces" in first or b"total_size" in head[:HEAD]


def read_snapshot(data: bytes, file: str, name: str) -> Snapshot:
    """Read a snapshot.

    Args:
        data: The pickle.
        file: Where it is, for errors.
        name: What it is called.

    Raises:
        PlanError: It needs code (PG905), cannot be read, or is no snapshot.
    """
    return _Reader(file, len(data)).snapshot(load_pickle(data, file, AGAIN), name)


class _Reader:
    """Reads one document, and says where in it something is wrong."""

    def __init__(self, file: str, budget: int) -> None:
        self.file = file
        self.budget = budget
        self.stacks: dict[tuple[Frame, ...], int] = {(): 0}
        self.seen: dict[int, int] = {}  # lists of frames that were read, by identity

    def snapshot(self, document: Any, name: str) -> Snapshot:
        if isinstance(document, list):
            document = {"segments": document}
        if not isinstance(document, dict) or "segments" not in document:
            hint = "write it with torch.cuda.memory._dump_snapshot(FILE)"
            raise PlanError("a pickle, but not a memory snapshot of torch: it has no segments",
                            file=self.file, hint=hint)  # fmt: skip
        listed = self.items(document["segments"], "$.segments")
        segments = tuple(self.segment(one, f"$.segments[{at}]") for at, one in enumerate(listed))
        traces = []
        for device, trace in enumerate(self.items(document.get("device_traces", []), "$.traces")):
            path = f"$.device_traces[{device}]"
            rows = self.items(trace, path)
            traces.append(tuple(self.entry(one, f"{path}[{at}]") for at, one in enumerate(rows)))
        if not segments and not any(traces):
            raise PlanError("an empty snapshot: no segment, and no history", file=self.file,
                            hint="take it while tensors are on the device")  # fmt: skip
        return Snapshot(name, segments, tuple(traces), tuple(self.stacks))

    def segment(self, given: Any, path: str) -> Segment:
        one = self.mapping(given, path)
        start = one.get("address")
        address = 0 if start is None else self.number(one, "address", path, _LARGEST)
        blocks, at = [], address
        for index, row in enumerate(self.items(one.get("blocks", []), f"{path}.blocks")):
            blocks.append(self.block(row, at, f"{path}.blocks[{index}]"))
            at += blocks[-1].size
        total = self.number(one, "total_size", path)
        if blocks and at - address != total:
            self.refuse(f"its blocks have {at - address:,} bytes, not {total:,}", path, total)
        kind = one.get("segment_type", "")
        return Segment(
            self.number(one, "device", path, 4096) if "device" in one else 0,
            address,
            total,
            self.number(one, "stream", path, _LARGEST),
            kind if isinstance(kind, str) and kind in {"small", "large"} else "",
            self.pool(one.get("segment_pool_id"), path),
            tuple(blocks),
        )

    def pool(self, given: Any, path: str) -> str:
        """Return the name of a private pool; "" for the allocator's own."""
        if given is None:
            return ""
        parts = self.items(given, f"{path}.segment_pool_id")
        if len(parts) != 2 or not all(type(p) is int and 0 <= p < _LARGEST for p in parts):
            self.refuse("not two numbers", f"{path}.segment_pool_id", given)
        return "" if tuple(parts) == (0, 0) else f"{parts[0]}, {parts[1]}"

    def block(self, given: Any, address: int, path: str) -> Block:
        one = self.mapping(given, path)
        state = one.get("state")
        if not isinstance(state, str) or state not in _STATES:
            self.refuse("not a state of a block", f"{path}.state", state)
        if state == "active_awaiting_free":  # what the documentation calls it
            state = "active_pending_free"
        size = self.number(one, "size", path)
        requested, frames = size, one.get("frames", ())
        history = one.get("history")
        if "requested_size" in one:
            requested = self.number(one, "requested_size", path)
        elif isinstance(history, list) and history:  # before torch 2.1
            first = self.mapping(history[0], f"{path}.history[0]")
            requested = self.number(first, "real_size", f"{path}.history[0]")
            frames = first.get("frames", ())
        if requested > size and state != INACTIVE:
            self.refuse(f"more than its {size:,} bytes", f"{path}.requested_size", requested)
        return Block(address, size, requested, state, self.stack(frames, path))

    def entry(self, given: Any, path: str) -> Entry:
        one = self.mapping(given, path)
        action = one.get("action")
        if not isinstance(action, str) or action not in ACTIONS:
            self.refuse("not an action of the allocator", f"{path}.action", action)
        place = "device_free" if action == "oom" else "addr"
        address = self.number(one, place, path, _LARGEST) if place in one else 0
        time = self.number(one, "time_us", path, _LARGEST) if "time_us" in one else None
        is_change = action != "snapshot"
        size = self.number(one, "size", path) if is_change else 0
        stack = self.stack(one.get("frames", ()), path) if is_change else 0
        return Entry(action, address, size, time, stack)

    def stack(self, given: Any, path: str) -> int:
        """Return the number of a stack; equal ones have one number."""
        known = self.seen.get(id(given))  # the document keeps what it holds alive
        if known is None:
            rows = self.items(given, f"{path}.frames")[:FRAMES]
            frames = tuple(self.frame(row, f"{path}.frames[{at}]") for at, row in enumerate(rows))
            known = self.stacks.setdefault(frames, len(self.stacks))
            self.seen[id(given)] = known
        return known

    def frame(self, given: Any, path: str) -> Frame:
        one = self.mapping(given, path)
        file, name = one.get("filename", ""), one.get("name", "")
        if not isinstance(file, str) or not isinstance(name, str):
            self.refuse("not a frame", path, file)
        return Frame(file, self.number(one, "line", path, _LARGEST) if "line" in one else 0, name)

    def items(self, given: Any, path: str) -> list[Any] | tuple[Any, ...]:
        if not isinstance(given, list | tuple):
            self.refuse("not a list", path, given)
        self.budget -= len(given)
        if self.budget < 0:
            hint = "no snapshot repeats itself; take it again"
            raise PlanError("refused: it holds more items than bytes", code="PG905",
                            file=self.file, hint=hint)  # fmt: skip
        return given

    def mapping(self, given: Any, path: str) -> Mapping[str, Any]:
        if not isinstance(given, dict):
            self.refuse("not an object", path, given)
        return given

    def number(self, one: Mapping[str, Any], name: str, path: str, most: int = MOST) -> int:
        found = one.get(name)
        if type(found) is not int or not 0 <= found <= most:
            self.refuse(f"not a whole number from 0 to {most:,}", f"{path}.{name}", found)
        return found

    def refuse(self, message: str, path: str, value: Any) -> NoReturn:
        """Say what is wrong; a value may be large, or hold itself, so only a plain one is shown."""
        is_plain = isinstance(value, str | float) or (type(value) is int and value < _LARGEST)
        plain = value if is_plain else type(value).__name__
        message, hint = f"not a memory snapshot of torch: {message}", "take the snapshot again"
        raise PlanError(message, file=self.file, path=path, value=plain, hint=hint)
