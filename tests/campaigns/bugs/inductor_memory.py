"""Inductor's recommended passes order collectives by what a rank's own batch takes of memory.

    python tests/campaigns/bugs/inductor_memory.py           # batches of 6 and 6 rows, then 6 and 5
    python tests/campaigns/bugs/inductor_memory.py --rows 6 12
    python tests/campaigns/bugs/inductor_memory.py --rows 6 5 --safe

Two gloo processes, no GPU; a C++ compiler, since Inductor makes the code. Layers that are gathered
for use, again for the backward pass, and whose gradients are scattered (FSDP), with the passes that
``torch/_inductor/config.py`` recommends. Bug 22 of docs/bugs-found-2.md.
"""

from __future__ import annotations

import argparse
import logging
import os
import warnings
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from heard import hear, last_words
from torch import nn
from torch._inductor import comms, config, config_comms
from torch.utils.checkpoint import checkpoint

WORLD, WIDTH, LAYERS, PATIENCE = 2, 16, 6, 20
PASSES = ["reorder_communication_preserving_peak_memory", "sink_waits_iterative",
          "reorder_communication_preserving_peak_memory"]  # fmt: skip
"""The comment of config.reorder_for_compute_comm_overlap_passes calls this the recommended one."""
UNSAFE = ("reorder_iterative_unsafe_collectives_reorder",
          "sink_waits_iterative_unsafe_collectives_reorder")  # fmt: skip
ALIGNED = "runtime_estimations_align_across_all_distributed_ranks"
"""What the comment of the two options above asks for."""


class Layer(nn.Module):
    """A weight whose rows the ranks share."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH // WORLD, WIDTH) / 4)

    def forward(self, x: Any) -> Any:
        """Gather, multiply, clip; again in the backward pass, so that no whole weight is kept."""
        return checkpoint(self.inside, x, use_reentrant=False)

    def inside(self, x: Any) -> Any:
        """Gather the weight; its gradient is scattered."""
        return (x @ funcol.all_gather_tensor_autograd(self.weight, 0, dist.group.WORLD)).relu()


def spied(rank: int, said: Any) -> Any:
    """Say in which order a graph's collectives leave the passes, by their place before."""
    own = comms.reorder_compute_and_comm_for_overlap

    def reorder(nodes: Any) -> Any:
        before = [node.get_name() for node in nodes if comms.contains_collective(node)]
        kinds = {node.get_name(): str(node.node.op_overload).split(".")[1][:10] for node in nodes
                 if comms.contains_collective(node)}  # fmt: skip
        new = own(nodes)
        names = [node.get_name() for node in new if comms.contains_collective(node)]
        said.put((rank, " ".join(f"{kinds[name]}#{before.index(name)}" for name in names)))
        return new

    return reorder


def be_rank(rank: int, rows: tuple[int, ...], safe: bool, store: str, said: Any) -> None:
    """Take one step in eager mode and one compiled; say the calls and how it ended."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{store}-cache{rank}"
    dist.init_process_group("gloo", store=dist.FileStore(store, WORLD), rank=rank,
                            world_size=WORLD, timeout=timedelta(seconds=PATIENCE))  # fmt: skip
    torch.manual_seed(rank)
    model = nn.Sequential(*[Layer() for _ in range(LAYERS)])
    x = torch.randn(rows[rank], WIDTH, requires_grad=True)
    comms.reorder_compute_and_comm_for_overlap = spied(rank, said)

    def gradients(job: Any) -> list[Any]:
        model.zero_grad()
        job(x).sum().backward()
        return [layer.weight.grad.clone() for layer in model]

    wanted = gradients(model)
    options = {"reorder_for_compute_comm_overlap": True, "compile_threads": 1,
               "reorder_for_compute_comm_overlap_passes": PASSES}  # fmt: skip
    given = {ALIGNED: True} | dict.fromkeys(UNSAFE if safe else (), False)
    with last_words(rank, said):
        with config.patch(options), config_comms.patch(given):
            got = gradients(torch.compile(model, fullgraph=True))
        wrong = [n for n in range(LAYERS) if not torch.allclose(got[n], wanted[n], atol=1e-4)]
        said.put((rank, f"ended, {f'WRONG gradients of layers {wrong}' if wrong else 'right'}"))


def main() -> None:
    """Run with every pair of batches."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs=WORLD, help="of the batch of each rank")
    parser.add_argument("--safe", action="store_true", help="the two unsafe options off")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    for rows in [tuple(given.rows)] if given.rows else [(6, 6), (6, 5)]:
        title = f"batches of {rows[0]} and {rows[1]} rows{', unsafe options off' * given.safe}"
        hear(title, be_rank, WORLD, 15 * PATIENCE, rows, given.safe)


if __name__ == "__main__":
    main()
