"""Inductor's overlap scheduling orders collectives by what a rank's own shard costs.

    python tests/campaigns/bugs/inductor_uneven.py            # 16 rows, and 9, shared unevenly
    python tests/campaigns/bugs/inductor_uneven.py --rows 10

Four gloo processes, no GPU, no C++ compiler: layers sharded by DTensor and gathered for use
(SimpleFSDP); the graphs of AOTAutograd are given to Inductor's passes and then run as they are.
Bug 18 of docs/bugs-found-2.md.
"""

from __future__ import annotations

import argparse
import logging
import warnings
from datetime import timedelta
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from functorch.compile import make_boxed_func
from heard import hear, last_words
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._guards import detect_fake_mode
from torch._inductor import config
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.fx_passes.post_grad import lazy_init, post_grad_passes
from torch._inductor.virtualized import V
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor

WORLD, WIDTH, LAYERS, PATIENCE = 4, 16, 4, 20
SPEED = {"get_gpu_dram_gbps": lambda *_: 10.0, "get_device_tflops": lambda *_: 1e-4}
"""What the pass asks a GPU for, the same on all ranks: as slow as these layers are small."""
PREFIX = "aten_distributed_optimizations."
OPTIONS = {"enable_overlap_scheduling": True, "compute_estimator": "analytical",
           "pre_bucketing_fsdp_collectives": False, "insert_overlap_deps": False}  # fmt: skip


class Layer(nn.Module):
    """A weight whose rows the ranks share."""

    def __init__(self, mesh: Any, rows: int) -> None:
        super().__init__()
        self.rows = rows
        whole = torch.randn(rows, WIDTH) / 4
        self.weight = nn.Parameter(distribute_tensor(whole, mesh, [Shard(0)]))

    def forward(self, x: Any) -> Any:
        """Gather the weight and multiply."""
        whole = self.weight.redistribute(placements=[Replicate()])
        return (x[:, : self.rows] @ whole.to_local(grad_placements=[Partial("avg")])).relu()


def be_rank(rank: int, rows: int, bucket: bool, store: str, said: Any) -> None:
    """Take one step in eager mode and one compiled; say the calls and how it ended."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, WORLD), rank=rank,
                            world_size=WORLD, timeout=timedelta(seconds=PATIENCE))  # fmt: skip
    mesh = init_device_mesh("cpu", (WORLD,))
    torch.manual_seed(0)
    model = nn.Sequential(*[Layer(mesh, rows) for _ in range(LAYERS)])
    x = torch.randn(6, WIDTH)

    def compiler(graph: Any, _: Any) -> Any:
        values = [node.meta["val"] for node in graph.graph.nodes if "val" in node.meta]
        options = {**OPTIONS, "collective_bucketing": bucket}
        with (
            mock.patch.multiple("torch.utils._runtime_estimation", **SPEED),
            mock.patch.multiple("torch._inductor.utils", **SPEED),
            config.patch({PREFIX + name: value for name, value in options.items()}),
            V.set_fake_mode(detect_fake_mode(values)),
        ):
            post_grad_passes(graph, is_inference=False)
        graph.recompile()
        nodes = [node for node in graph.graph.nodes if "c10d_functional" in str(node.target)]
        said.put((rank, " ".join(shown(node) for node in nodes if "wait" not in str(node.target))))
        return make_boxed_func(graph.forward)

    def gradients(job: Any) -> list[Any]:
        model.zero_grad()
        job(x).sum().backward()
        return [layer.weight.grad.to_local().clone() for layer in model]

    wanted = gradients(model)
    backend = aot_autograd(fw_compiler=compiler, bw_compiler=compiler,
                           decompositions=select_decomp_table())  # fmt: skip
    with last_words(rank, said):
        got = gradients(torch.compile(model, backend=backend))
        wrong = [n for n in range(LAYERS) if not torch.allclose(got[n], wanted[n], atol=1e-4)]
        said.put((rank, f"ended, {f'WRONG gradients of layers {wrong}' if wrong else 'right'}"))


def shown(node: Any) -> str:
    """Name a call by its kind, and a gather by the layers whose weights it moves."""
    kind = str(node.target).split(".")[1]
    short = {"all_gather_into_tensor": "gather", "all_gather_into_tensor_out": "gather"}
    todo, found = [node], set()
    while todo:
        one = todo.pop()
        found |= {one.name.rpartition("_")[2]} if one.op == "placeholder" else set()
        todo += one.all_input_nodes
    layers = ",".join(sorted(found)) if kind in short and len(found) <= LAYERS else ""
    return f"{short.get(kind, kind)}{f'({layers})' if layers else ''}"


def play(rows: int, *, bucket: bool) -> None:
    """Run the job once and print what the ranks said."""
    title = f"{rows} rows, collective_bucketing {bucket}"
    hear(title, be_rank, WORLD, 10 * PATIENCE, rows, bucket)


def main() -> None:
    """Run with every number of rows, without and with buckets."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[16, 9])
    given = parser.parse_args()
    logging.disable(logging.INFO)
    lazy_init()
    for rows in given.rows:
        for bucket in (False, True):
            play(rows, bucket=bucket)


if __name__ == "__main__":
    main()
