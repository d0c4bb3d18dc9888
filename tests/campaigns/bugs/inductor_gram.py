"""Inductor decides by the own shard alone whether a gather becomes all_reduces: ranks disagree.

    python tests/campaigns/bugs/inductor_gram.py              # 4 ranks; 8, 7 and 5 rows
    python tests/campaigns/bugs/inductor_gram.py --rows 5 --off
    python tests/campaigns/bugs/inductor_gram.py --rows 5 --patched

A step of Newton-Schulz, as Muon takes it, on the rows of a DTensor, under ``torch.compile`` with
``aten_distributed_optimizations.allow_comms_decompositions``. Four gloo processes, no GPU. The
graphs behind Inductor's passes are run as they are; with ``--inductor`` it generates code for them,
which takes a C++ compiler. Bug 16 of docs/bugs-found-2.md.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import warnings
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
import torch.distributed as dist
from functorch.compile import make_boxed_func
from heard import hear, last_words
from patches import patched
from torch._dynamo.backends.common import aot_autograd
from torch._guards import detect_fake_mode
from torch._inductor import config
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.fx_passes import decomp_comms
from torch._inductor.fx_passes.post_grad import lazy_init, post_grad_passes
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WORLD, COLUMNS, STEPS = 4, 4, 2
FOUND = """\
        split_result = find_split_getitem(info.entry_node, rank=rank)
"""
COUNTED = (
    FOUND
    + """\
        members = _resolve_process_group(GroupName(info.group_name)).size()
        if split_result is not None and len(split_result[0].meta["val"]) != members:
            continue
"""
)
ALL_OR_NONE = ((FOUND, COUNTED),)
"""Keep the gather on all ranks where the split has no part for each of them."""
PATIENCE = 60
"""Seconds after which gloo gives up a call; compiling takes the ranks unequally long."""


def orthogonalize(shard: Any) -> Any:
    """Gather the matrix, iterate on it, keep the own rows."""
    whole = shard.redistribute(placements=[Replicate()])
    mesh, x = whole.device_mesh, whole.to_local()
    for _ in range(STEPS):
        x = 1.5 * x - 0.5 * (x @ (x.t() @ x))
    back = DTensor.from_local(x, mesh, [Replicate()], run_check=False)
    return back.redistribute(placements=[Shard(0)]).to_local()


@contextlib.contextmanager
def watched(calls: Callable[[Any], None]) -> Iterator[Any]:
    """Show every graph behind Inductor's passes; yield a backend that then runs it as it is."""
    lower = GraphLowering.run

    def run(graph: Any, *given: Any) -> Any:
        calls(graph.module)
        return lower(graph, *given)

    def compiler(graph: Any, _: Any) -> Any:
        values = [node.meta["val"] for node in graph.graph.nodes if "val" in node.meta]
        with V.set_fake_mode(detect_fake_mode(values)):
            post_grad_passes(graph, is_inference=True)
        graph.recompile()
        calls(graph)
        return make_boxed_func(graph.forward)

    with mock.patch.object(GraphLowering, "run", run):
        yield aot_autograd(fw_compiler=compiler, decompositions=select_decomp_table())


def be_rank(rank: int, rows: int, how: dict[str, bool], store: str, said: Any) -> None:
    """Compile the function, say what its graph calls, run it, compare with eager."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, WORLD), rank=rank,
                            world_size=WORLD, timeout=timedelta(seconds=PATIENCE))  # fmt: skip
    mesh = init_device_mesh("cpu", (WORLD,))
    torch.manual_seed(0)
    shard = distribute_tensor(torch.randn(rows, COLUMNS) / 4, mesh, [Shard(0)])
    wanted = orthogonalize(shard)

    def calls(graph: Any) -> None:
        targets = [str(node.target) for node in graph.graph.nodes]
        names = [t.split(".")[1].rstrip("_") for t in targets if t.startswith("_c10d_functional")]
        said.put((rank, "calls " + ", ".join(c for c in names if c != "wait_tensor")))

    settings = {"aten_distributed_optimizations.allow_comms_decompositions": how["decompose"],
                "fx_graph_cache": False}  # fmt: skip
    with config.patch(settings), watched(calls) as backend, torch.no_grad():
        compiled = torch.compile(orthogonalize, backend="inductor" if how["whole"] else backend)
        with last_words(rank, said):
            same = torch.allclose(compiled(shard), wanted, atol=1e-4)
            said.put((rank, f"ended, {'as in eager mode' if same else 'OTHER NUMBERS'}"))


def play(rows: int, *, decompose: bool, whole: bool) -> None:
    """Run the job once and print what every rank said."""
    title = f"{rows} rows, decompositions {'on' if decompose else 'off'}"
    how = {"decompose": decompose, "whole": whole}
    hear(title, be_rank, WORLD, 10 * PATIENCE, rows, how)


def main() -> None:
    """Run every number of rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[8, 7, 5])
    parser.add_argument("--off", action="store_true", help="without the option")
    parser.add_argument("--inductor", action="store_true", help="with code generation (minutes)")
    parser.add_argument("--patched", action="store_true", help="with the proposed patch")
    given = parser.parse_args()
    logging.disable(logging.INFO)
    lazy_init()
    with patched(
        decomp_comms.decomp_gram_matrix_all_gather, *(ALL_OR_NONE if given.patched else ())
    ):
        for rows in given.rows:
            play(rows, decompose=not given.off, whole=given.inductor)


if __name__ == "__main__":
    main()
