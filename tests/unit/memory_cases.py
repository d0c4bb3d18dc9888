"""Memory snapshots in the format of torch 2.13.0, from an allocator that knows what is true.

The allocator splits blocks of segments as torch's does, in the small: it rounds sizes, caches what
is freed, takes segments from the device and gives them back. Every change of a byte is booked while
it happens, so what was in use after each entry of the history does not come from the history.
"""

from __future__ import annotations

import random
from typing import Any

MIB = 1 << 20
SITES = [f"model{n}.py:{10 * n + 5}:layer{n}" for n in range(6)]
CPP = {"name": "c10::cuda::CUDACachingAllocator::Native::malloc", "filename": "", "line": 0}
TORCH = {"name": "linear", "filename": "/usr/lib/python3/site-packages/torch/nn/functional.py",
         "line": 2300}  # fmt: skip


def frames(site: str) -> list[dict[str, Any]]:
    """Return a stack, innermost first: the allocator, torch, the program's line, its caller."""
    file, line, name = site.split(":")
    main = {"name": "main", "filename": "/job/train.py", "line": 99}
    return [CPP, TORCH, {"name": name, "filename": f"/job/{file}", "line": int(line)}, main]


class Allocator:
    """A device: its capacity, its segments, its history, and the truth.

    Attributes:
        used: Bytes that were asked for and are in use, after every entry.
        reserved: Bytes of segments, after every entry.
        held: Address and size of every segment, after every entry.
        live: Address of every block in use: bytes asked for, call site.
    """

    def __init__(self, seed: int, capacity: int = 256 * MIB) -> None:
        self.random = random.Random(seed)
        self.capacity, self.next = capacity, 0x7F0000000000
        self.clock = 1_700_000_000_000_000 + 977 * seed
        self.segments: list[dict[str, Any]] = []
        self.trace: list[dict[str, Any]] = []
        self.used, self.reserved, self.held = [], [], []
        self.live: dict[int, tuple[int, str]] = {}
        self.states: list[dict[int, tuple[int, str]]] = []

    def note(self, action: str, address: int, size: int, site: str, stream: int = 0) -> None:
        """Write an entry of the history."""
        self.clock += self.random.randrange(1, 500)
        place = "device_free" if action == "oom" else "addr"
        told = {"stream": stream, "time_us": self.clock, "pool_id": (0, 0), "frames": frames(site)}
        self.trace.append({"action": action, place: address, "size": size, **told})
        self.used.append(sum(size for size, _ in self.live.values()))
        self.reserved.append(sum(segment["total_size"] for segment in self.segments))
        self.states.append(dict(self.live))
        self.held.append({s["address"]: s["total_size"] for s in self.segments})

    def alloc(self, size: int, site: str, stream: int = 0) -> int | None:
        """Give a block, or say that memory is out and return None."""
        rounded = -(-size // 512) * 512
        for _ in range(4):
            for segment in self.segments:
                if segment["stream"] != stream:
                    continue
                for at, block in enumerate(segment["blocks"]):
                    if block["state"] == "inactive" and block["size"] >= rounded:
                        return self.take(segment, at, rounded, size, site)
            need = max(2 * MIB, -(-rounded // (2 * MIB)) * 2 * MIB)
            left = self.capacity - sum(segment["total_size"] for segment in self.segments)
            if need > left and self.empty_cache():
                continue  # as torch does before it says so
            if need > left:
                self.note("oom", left, size, site, stream)
                return None
            self.segments.append({
                "device": 0, "address": self.next, "total_size": need, "stream": stream,
                "segment_type": "large" if need > 2 * MIB else "small", "segment_pool_id": (0, 0),
                "is_expandable": False, "frames": [],
                "blocks": [{"address": self.next, "size": need, "requested_size": 0,
                            "state": "inactive", "frames": []}]})  # fmt: skip
            self.note("segment_alloc", self.next, need, site, stream)
            self.next += need + 2 * MIB
        raise AssertionError("a segment that was just taken is too small")

    def take(self, segment, at, rounded, size, site) -> int:
        """Split a block and give its first part."""
        block = segment["blocks"][at]
        rest = block["size"] - rounded
        made = {"address": block["address"], "size": rounded, "requested_size": size,
                "state": "active_allocated", "frames": frames(site)}  # fmt: skip
        left = {"address": block["address"] + rounded, "size": rest, "requested_size": 0,
                "state": "inactive", "frames": []}  # fmt: skip
        segment["blocks"][at : at + 1] = [made, left] if rest else [made]
        self.live[made["address"]] = (size, site)
        self.note("alloc", made["address"], size, site, segment["stream"])
        return made["address"]

    def free(self, address: int, *, waits: bool = False) -> None:
        """Take a block back; ``waits``: a stream still uses it."""
        segment, block = next((s, b) for s in self.segments for b in s["blocks"]
                              if b["address"] == address)  # fmt: skip
        size, _ = self.live[address]
        if block["state"] == "active_allocated":
            self.note("free_requested", address, size, SITES[0], segment["stream"])
        block["state"] = "active_pending_free"
        if not waits:
            block.update(state="inactive", frames=[])
            merge(segment["blocks"])
            del self.live[address]
            self.note("free_completed", address, size, SITES[0], segment["stream"])

    def empty_cache(self) -> bool:
        """Give idle segments back; whether there were any."""
        before = len(self.segments)
        for segment in list(self.segments):
            if all(block["state"] == "inactive" for block in segment["blocks"]):
                self.segments.remove(segment)
                self.note("segment_free", segment["address"], segment["total_size"], SITES[0])
        return len(self.segments) < before

    def play(self, steps: int) -> None:
        """Do random things."""
        for _ in range(steps):
            what = self.random.random()
            if what < 0.55 or not self.live:
                size = self.random.choice([1, 700, 40_000, 3 * MIB, 9 * MIB + 13])
                self.alloc(size, self.random.choice(SITES), self.random.choice([0, 0, 0, 7]))
            elif what < 0.97:
                self.free(self.random.choice(list(self.live)), waits=self.random.random() < 0.2)
            elif what < 0.985:
                self.empty_cache()
            else:
                self.note("snapshot", 0, 0, SITES[0])

    def snapshot(self, last: int | None = None) -> dict[str, Any]:
        """Return the snapshot, with so many of the last entries of the history."""
        kept = self.trace if last is None else self.trace[len(self.trace) - last :]
        return {"segments": self.segments, "device_traces": [kept], "external_annotations": [],
                "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False,
                                       "roundup_power2_divisions": {"1": 0, "2": 0}}}  # fmt: skip


def merge(blocks: list[dict[str, Any]]) -> None:
    """Make one of free neighbors."""
    for at in range(len(blocks) - 1, 0, -1):
        if blocks[at]["state"] == blocks[at - 1]["state"] == "inactive":
            blocks[at - 1]["size"] += blocks.pop(at)["size"]


def played(seed: int, steps: int = 300, capacity: int = 256 * MIB) -> Allocator:
    """Return an allocator after some random steps."""
    made = Allocator(seed, capacity)
    made.play(steps)
    return made


def training(batch: int, capacity: int = 1700 * MIB, steps: int = 3) -> Allocator:
    """Return the allocator of some steps of training; a large batch runs out of memory."""
    made = Allocator(batch, capacity)
    for layer in range(12):
        made.alloc((20 + layer % 3) * MIB, "model.py:14:__init__")
    state: list[int] = []
    for step in range(steps):
        kept, gradients = [], []
        for layer in range(12):
            kept.append(made.alloc(batch * 4 * MIB + layer, "model.py:41:attention"))
            kept.append(made.alloc(batch * 2 * MIB, "model.py:58:feed_forward"))
            if None in kept:
                return made
        kept.append(made.alloc(batch * 6 * MIB, "train.py:23:loss"))
        for layer in reversed(range(12)):
            gradients.append(made.alloc((20 + layer % 3) * MIB, "train.py:24:backward"))
            for _ in range(2):
                if (gone := kept.pop()) is not None:
                    made.free(gone)
        if step == 0:
            state += [made.alloc(40 * MIB, "train.py:27:optimizer_step") or 0 for _ in range(12)]
        for one in (*gradients, *kept):
            if one is not None:
                made.free(one)
    return made
