"""Cost of the recorder per communication, and of a step, beside the run without it.

    python benchmarks/recorder.py [CALLS]

One process on gloo, a world of one rank: nothing is sent, so what is measured is the recorder.
Prints a table of microseconds of processor time per all_reduce of 8 floats (best of 3), of a step
of about 50 ms with ten communications, and of a step of a small transformer whose computation is
left undone.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist

from planguard.capture import start, stop
from planguard.capture.play.compute_stub import stub_compute

MODES = {
    "no recorder": None,
    "recorder, no stacks": {"frames": 0},
    "recorder, 16 frames": {"frames": 16},
    "recorder, 16 frames, values": {"frames": 16, "values": True},
    "recorder, 16 frames, witness": {"frames": 16, "witness": True},
}


def per_call(calls: int) -> float:
    """Return microseconds of processor time of one all_reduce, best of 3; all threads count."""
    x = torch.arange(8.0)  # in a world of one rank it keeps its values
    best = float("inf")
    for _ in range(3):
        begin = time.process_time()
        for _ in range(calls):
            dist.all_reduce(x)
        best = min(best, (time.process_time() - begin) / calls * 1e6)
    return best


def per_step() -> float:
    """Return milliseconds of processor time of a step of ten communications, best of 7.

    Processor time, since on a shared machine the clock measures the neighbors.
    """
    x, weights = torch.ones(8), torch.ones(512, 512)
    best = float("inf")
    for _ in range(7):
        begin = time.thread_time()
        for _ in range(10):
            for _ in range(2):
                torch.mm(weights, weights)
            dist.all_reduce(x)
        best = min(best, (time.thread_time() - begin) * 1e3)
    return best


def measure(name: str, calls: int) -> tuple[float, float]:
    """Return microseconds per call and milliseconds per step under one setting."""
    options = MODES[name]
    with tempfile.TemporaryDirectory() as folder:
        if options is not None:
            start(Path(folder) / "run", **options)
        store = dist.HashStore()
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)
        found = per_call(calls), per_step()
        dist.destroy_process_group()
        if options is not None:
            stop()
    return found


def stubbed() -> tuple[float, float]:
    """Return seconds of the second step of a transformer, for real and with its work left out."""
    layer = torch.nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True, dropout=0.0)
    model, x = (
        torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False),
        torch.ones(4, 256, 256),
    )

    def step() -> float:
        begin = time.perf_counter()
        model(x).sum().backward()
        return time.perf_counter() - begin

    step()
    real = step()
    with stub_compute():
        step()
        return real, step()


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    base: tuple[float, float] | None = None
    print(f"{'setting':<30} {'us/call':>9} {'added':>9} {'ms/step':>9} {'ratio':>7}")
    for name in MODES:
        call, step = measure(name, calls)
        base = base or (call, step)
        added, ratio = call - base[0], step / base[1]
        print(f"{name:<30} {call:9.2f} {added:9.2f} {step:9.2f} {ratio:7.3f}")
    real, stub = stubbed()
    print(f"transformer step: {real:.3f} s real, {stub:.3f} s stubbed ({real / stub:.0f}x)")


if __name__ == "__main__":
    main()
