"""Trace one step of ResNet-50 under DDP on four gloo ranks, beside an all_reduce too large.

    python tests/campaigns/resnet50_trace.py OUT

Writes ``OUT/rank0.json.gz`` to ``OUT/rank3.json.gz`` as torch.profiler exports them, and beside
each ``rank0.et.json.gz``, the ExecutionTrace of the same step, which has the tensors of every
operator; both without what names the machine. tests/corpus/traces/resnet50-odd comes from it.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile

RANKS = 4
ODD = 64 << 20
"""Elements of the odd all_reduce: 256 MiB, two and a half times all gradients together."""


class Bottleneck(nn.Module):
    """Three convolutions and the way around them."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.convolutions = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.around = nn.Sequential()
        if inputs != outputs or stride > 1:
            self.around = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's output."""
        return torch.relu(self.convolutions(x) + self.around(x))


def resnet50() -> nn.Module:
    """Return ResNet-50 with 1,000 classes: 25,557,032 parameters."""
    parts: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
    ]  # fmt: skip
    inputs = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            parts.append(Bottleneck(inputs, width, 1 if block else stride))
            inputs = 4 * width
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


def write(raw: Path, kept: dict[str, Any]) -> None:
    """Write what is kept of a file in its place, packed."""
    raw.unlink()
    with gzip.GzipFile(f"{raw}.gz", "wb", mtime=0) as file:
        file.write(json.dumps(kept, separators=(",", ":")).encode())


def work(rank: int, store: str, out: Path) -> None:
    """Run one rank and write its trace."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    torch.manual_seed(0)
    net = nn.parallel.DistributedDataParallel(resnet50())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    images, classes = torch.randn(2, 3, 64, 64), torch.zeros(2, dtype=torch.long)
    odd = torch.zeros(ODD)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(images), classes).backward()
        dist.all_reduce(odd)
        optimizer.step()

    step()
    dist.barrier()
    # The profiler starts the observer itself: only so do both number operators alike.
    raw, tensors = out / f"rank{rank}.json", out / f"rank{rank}.et.json"
    observer = ExecutionTraceObserver().register_callback(str(tensors))
    with profile(
        activities=[ProfilerActivity.CPU], record_shapes=True, execution_trace_observer=observer
    ) as seen:
        step()
        dist.barrier()
    seen.export_chrome_trace(str(raw))
    trace, graph = (json.loads(file.read_text()) for file in (raw, tensors))
    write(raw, {key: trace[key] for key in ("schemaVersion", "distributedInfo", "traceEvents")})
    for node in graph["nodes"]:
        node["attrs"] = [one for one in node["attrs"] if one["name"] in ("rf_id", "op_schema")]
    write(tensors, {key: graph[key] for key in ("schema", "nodes")})
    dist.destroy_process_group()


def main() -> None:
    """Start all ranks, or be one of them."""
    if len(sys.argv) == 4:
        work(int(sys.argv[2]), sys.argv[3], Path(sys.argv[1]))
        return
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        command = [sys.executable, __file__, str(out)]
        more = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        ranks = [
            subprocess.Popen([*command, str(rank), f"{folder}/store"], env=more)
            for rank in range(RANKS)
        ]
        codes = [rank.wait(timeout=300) for rank in ranks]
    sys.exit(max(codes))


if __name__ == "__main__":
    main()
