"""Two gloo processes that compile a step with Inductor's recommended passes, and ask each other.

    python ask_worker.py 6 5        # rows of the batch of each rank

Prints a line for each rank: how the block under ``inductor_guard(others="ask")`` ended.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
import warnings
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn
from torch._inductor import config
from torch.utils.checkpoint import checkpoint

from planguard.capture import inductor_guard

WIDTH, LAYERS = 16, 6
PASSES = ["reorder_communication_preserving_peak_memory", "sink_waits_iterative",
          "reorder_communication_preserving_peak_memory"]  # fmt: skip


class Layer(nn.Module):
    """A weight whose rows the ranks share, gathered for use."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH // 2, WIDTH))

    def forward(self, x):
        """Gather and multiply, and again in the backward pass."""
        return checkpoint(self.inside, x, use_reentrant=False)

    def inside(self, x):
        """Gather the weight; its gradient is scattered."""
        return (x @ funcol.all_gather_tensor_autograd(self.weight, 0, dist.group.WORLD)).relu()


def be_rank(rank, rows, folder):
    """Compile and take one step."""
    signal.alarm(240)  # whatever hangs
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/cache{rank}"
    store = dist.FileStore(f"{folder}/store", 2)
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=2, timeout=timedelta(seconds=60)
    )
    model, x = nn.Sequential(*[Layer() for _ in range(LAYERS)]), torch.randn(rows[rank], WIDTH)
    options = {"reorder_for_compute_comm_overlap": True, "compile_threads": 1,
               "reorder_for_compute_comm_overlap_passes": PASSES}  # fmt: skip
    try:
        with config.patch(options), inductor_guard(others="ask", patience=60) as report:
            torch.compile(model, fullgraph=True)(x).sum().backward()
        said = f"ended, {report.watched} watched, skipped {report.skipped}"
    except Exception as error:  # noqa: BLE001  Inductor wraps what is raised while it compiles
        said = next((line for line in str(error).splitlines() if "order:" in line), str(error))
    Path(folder, f"said{rank}").write_text(said.strip(), encoding="utf-8")
    store.add("done", 1)
    while store.add("done", 0) < 2:  # stay until both are through
        time.sleep(0.01)
    os._exit(0)


def main():
    """Run both ranks and print what they said."""
    rows = [int(one) for one in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(2):
            child = os.fork()
            if not child:
                be_rank(rank, rows, folder)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        for rank in range(2):
            print(f"rank {rank}: {Path(folder, f'said{rank}').read_text(encoding='utf-8')}")


if __name__ == "__main__":
    main()
