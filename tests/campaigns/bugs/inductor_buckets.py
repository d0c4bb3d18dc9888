"""Inductor's buckets join gathers across a message, and two ranks wait for each other.

    python tests/campaigns/bugs/inductor_buckets.py            # without buckets, then with them
    python tests/campaigns/bugs/inductor_buckets.py --overlap  # and by overlap scheduling
    python tests/campaigns/bugs/inductor_buckets.py --patched  # with the patch of docs/upstream/

Two gloo processes, no GPU, no C++ compiler: the graphs of AOTAutograd are given to Inductor's
passes and then run as they are. Rank 0 gathers, sends what it gathered, and gathers again; rank 1
gathers, receives, and gathers what it received. Bug 17 of docs/bugs-found-2.md.
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
import torch.distributed._functional_collectives as funcol
from functorch.compile import make_boxed_func
from heard import hear, last_words
from patches import patched
from torch._dynamo.backends.common import aot_autograd
from torch._guards import detect_fake_mode
from torch._inductor import config
from torch._inductor.fx_passes import bucketing
from torch._inductor.fx_passes.post_grad import lazy_init, post_grad_passes
from torch._inductor.virtualized import V

WORLD, PATIENCE = 2, 20
KEYED = "                group_key = node_group_key(coll_node)\n"
NUMBERED = """\
                group_key = (node_group_key(coll_node), others_before[coll_node])
"""
LISTED = "    nodes_groups: list[list[torch.fx.Node]] = []\n"
COUNTED = (
    LISTED
    + """\
    others_before: dict[torch.fx.Node, int] = {}
    others = 0
    for node in g.nodes:
        if filter_node(node):
            others_before[node] = others
        elif "c10d" in str(node.target) and not is_wait_tensor(node):
            others += 1
"""
)
NO_BUCKET_ACROSS = ((KEYED, NUMBERED), (LISTED, COUNTED))
"""End a bucket at a communication of another kind."""
SPEED = {"get_gpu_dram_gbps": lambda *_: 2000.0, "get_device_tflops": lambda *_: 100.0}
"""What overlap scheduling asks a GPU for; buckets do not."""
OVERLAP = {"aten_distributed_optimizations.enable_overlap_scheduling": True,
           "aten_distributed_optimizations.compute_estimator": "analytical"}  # fmt: skip


def step(first: Any, second: Any) -> Any:
    """Gather, send or receive, gather."""
    group, ops = dist.group.WORLD, torch.ops._c10d_functional
    one = funcol.all_gather_tensor(first, 0, group)
    if dist.get_rank() == 0:
        ops.wait_tensor(ops.isend(one[:4] * 2, 1, 0, group.group_name))
    else:
        message = ops.irecv(torch.empty(4, 8), 0, 0, group.group_name)
        second = second + ops.wait_tensor(message)
    return one + funcol.all_gather_tensor(second, 0, group)


def be_rank(rank: int, settings: dict[str, Any], store: str, said: Any) -> None:
    """Compile and run the step; say the order of its calls, and how it ended."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, WORLD), rank=rank,
                            world_size=WORLD, timeout=timedelta(seconds=PATIENCE))  # fmt: skip

    def compiler(graph: Any, _: Any) -> Any:
        values = [node.meta["val"] for node in graph.graph.nodes if "val" in node.meta]
        with (
            mock.patch.multiple("torch.utils._runtime_estimation", **SPEED),
            mock.patch.multiple("torch._inductor.utils", **SPEED),
            config.patch(settings),
            V.set_fake_mode(detect_fake_mode(values)),
        ):
            post_grad_passes(graph, is_inference=True)
        graph.recompile()
        targets = [str(node.target) for node in graph.graph.nodes]
        calls = [t.split(".")[1] for t in targets if t.startswith("_c10d_functional")]
        said.put((rank, ", ".join(c.replace("all_gather_into_tensor", "gather") for c in calls)))
        return make_boxed_func(graph.forward)

    with torch.no_grad():
        compiled = torch.compile(step, backend=aot_autograd(fw_compiler=compiler))
        first, second = torch.full((4, 8), rank + 1.0), torch.zeros(4, 8)
        with last_words(rank, said):
            compiled(first, second)
            said.put((rank, "ended"))


def play(settings: dict[str, Any]) -> None:
    """Run the job once and print what the ranks said."""
    title = ", ".join(settings) or "no buckets"
    hear(title, be_rank, WORLD, 10 * PATIENCE, settings)


def main() -> None:
    """Run the step under every setting."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--overlap", action="store_true", help="try overlap scheduling as well")
    parser.add_argument("--patched", action="store_true", help="with the proposed patch")
    given = parser.parse_args()
    logging.disable(logging.INFO)
    lazy_init()
    edits = NO_BUCKET_ACROSS if given.patched else ()
    with patched(bucketing.greedy_bucket_collective_by_mb, *edits):
        for settings in [{}, {"bucket_all_gathers_fx": "all"}, *([OVERLAP] * given.overlap)]:
            play(settings)


if __name__ == "__main__":
    main()
