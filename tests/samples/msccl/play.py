"""Play an algorithm of MSCCL on numbers, many times in random order, and look at the result.

    python tests/samples/msccl/play.py tests/samples/msccl/found/alltonext-forward-3.xml

Needs nothing but Python. Thread blocks take their steps in a random order that connections
(8 slots), flags and program order allow, as MSCCL's kernel takes them: ``s`` sends from its source,
``r`` writes to its destination, a fused ``rcs`` writes its *own* copy to its destination and passes
it on. What is looked for is an all-to-next: rank r ends with the input of rank r - 1.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

Chunk = tuple[tuple[int, int], ...]
"""What a chunk is the sum of: ``(gpu, index)`` of inputs, sorted."""
SENDS, RECEIVES = {"s", "rcs", "rrs", "rrcs"}, {"r", "rcs", "rrc", "rrs", "rrcs"}
SLOTS = 8


@dataclass
class Block:
    """A thread block: its steps, and how many are over."""

    gpu: int
    send: tuple[int, int, int]
    recv: tuple[int, int, int]
    steps: list[dict[str, Any]]
    done: int = 0


@dataclass
class Machine:
    """All thread blocks, their connections and the memory of the gpus."""

    blocks: dict[tuple[int, int], Block]
    memory: dict[tuple[int, str, int], Chunk] = field(default_factory=dict)
    queues: dict[tuple[int, int, int], deque[list[Chunk]]] = field(default_factory=dict)

    def ready(self, block: Block) -> bool:
        """Whether the next step of a block can be taken."""
        if block.done == len(block.steps):
            return False
        step = block.steps[block.done]
        flag = step["depid"] < 0 or self.blocks[block.gpu, step["depid"]].done > step["deps"]
        data = step["type"] not in RECEIVES or self.queues.get(block.recv)
        room = step["type"] not in SENDS or len(self.queues.get(block.send, ())) < SLOTS
        return bool(flag and data and room)

    def take(self, block: Block) -> None:
        """Take the next step of a block."""
        step = block.steps[block.done]
        block.done += 1
        kind, count = step["type"], step["cnt"]
        if kind == "nop":
            return
        came = self.queues[block.recv].popleft() if kind in RECEIVES else []
        own = [self._read(block.gpu, step["srcbuf"], step["srcoff"] + n) for n in range(count)]
        value = own if kind in {"s", "cpy"} else came
        if kind in {"rrc", "rrs", "rrcs"}:
            value = [_sum(a, b) for a, b in zip(came, own, strict=True)]
        if kind == "re":
            value = [_sum(self._read(block.gpu, step["dstbuf"], step["dstoff"] + n), chunk)
                     for n, chunk in enumerate(own)]  # fmt: skip
        if kind in {"r", "rcs", "rrc", "rrcs", "cpy", "re"}:
            for n, chunk in enumerate(value):
                self.memory[block.gpu, step["dstbuf"], step["dstoff"] + n] = chunk
        if kind in SENDS:
            self.queues.setdefault(block.send, deque()).append(value)

    def _read(self, gpu: int, buffer: str, index: int) -> Chunk:
        first: Chunk = ((gpu, index),) if buffer == "i" else ()
        return self.memory.get((gpu, buffer, index), first)


def _sum(first: Chunk, second: Chunk) -> Chunk:
    return tuple(sorted(first + second))


def load(path: Path) -> tuple[Machine, int]:
    """Read an algorithm; also return the number of chunks of an output."""
    blocks = {}
    root = ET.parse(path).getroot()  # noqa: S314 - what this folder's compiler wrote
    for gpu in root:
        rank = int(gpu.get("id", ""))
        for block in gpu:
            number, chan = int(block.get("id", "")), int(block.get("chan", ""))
            steps = [
                {name: value if name in {"type", "srcbuf", "dstbuf"} else int(value)
                 for name, value in step.attrib.items()}
                for step in block
            ]  # fmt: skip
            send, recv = int(block.get("send", "")), int(block.get("recv", ""))
            blocks[rank, number] = Block(rank, (rank, send, chan), (recv, rank, chan), steps)
    return Machine(blocks), max(int(gpu.get("o_chunks", "")) for gpu in root)


def play(path: Path, seed: int) -> Machine:
    """Play an algorithm in one random order until nothing goes on."""
    machine, draw = load(path)[0], random.Random(seed)
    while ready := [block for block in machine.blocks.values() if machine.ready(block)]:
        machine.take(draw.choice(ready))
    return machine


def wrong(machine: Machine, chunks: int) -> list[str]:
    """Return what a rank holds in its output that is not the input of the rank before it."""
    found = []
    for rank in sorted({gpu for gpu, _ in machine.blocks})[1:]:
        for n in range(chunks):
            held = machine.memory.get((rank, "o", n))
            if held != ((rank - 1, n),):
                found.append(f"gpu {rank} o[{n}] holds {held}, not chunk {n} of gpu {rank - 1}")
    return found


def main() -> int:
    """Play and count; exit 1 when a run is stuck or its result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("algorithm", type=Path)
    parser.add_argument("--runs", type=int, default=200)
    given = parser.parse_args()
    _, chunks = load(given.algorithm)
    seen, stuck, bad = Counter[str](), 0, 0
    for seed in range(given.runs):
        machine = play(given.algorithm, seed)
        stuck += any(block.done < len(block.steps) for block in machine.blocks.values())
        found = wrong(machine, chunks)
        bad += bool(found)
        seen.update(found)
    print(f"{given.runs} runs: {stuck} stuck, {bad} with a wrong result")
    for line, count in seen.most_common(5):
        print(f"  {count:4} times {line}")
    return 1 if stuck or bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
