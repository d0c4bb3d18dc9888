"""Write the graph dumps of this folder with torch itself, on 8 ranks and without a device.

    python tests/samples/fx/regenerate.py [--check] [NAME ...]

Each model is captured by ``planguard.capture.fx`` on torch's fake process group. ``--check``
compares instead of writing. The files come from torch 2.13.
"""

# ruff: noqa: ARG004 - autograd passes a context

from __future__ import annotations

import argparse
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
WORLD = 8


def tp_mlp() -> Any:
    """Tensor-parallel MLP: column-wise up, row-wise down, one all_reduce each way."""
    import torch
    from torch.distributed.tensor import parallel as tp

    def shard(module: Any, mesh: Any) -> Any:
        plan = {"up": tp.ColwiseParallel(), "down": tp.RowwiseParallel()}
        return tp.parallelize_module(module, mesh["tp"], plan)

    inputs = (torch.randn(4, 16, requires_grad=True),)
    return _capture(_mlp(), inputs, {"dp": 2, "tp": 4}, shard)


def sp_mlp() -> Any:
    """Sequence-parallel MLP: activations sharded over the sequence outside of the block."""
    import torch
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor import parallel as tp

    def shard(module: Any, mesh: Any) -> Any:
        plan = {
            "norm": tp.SequenceParallel(),
            "up": tp.ColwiseParallel(input_layouts=Shard(1)),
            "down": tp.RowwiseParallel(output_layouts=Shard(1)),
        }
        return tp.parallelize_module(module, mesh["tp"], plan)

    inputs = (torch.randn(2, 4, 16, requires_grad=True),)
    return _capture(_mlp(norm=True), inputs, {"dp": 2, "tp": 4}, shard)


def dp_tp() -> Any:
    """Data x tensor parallel by hand: all_reduce over tp in the layers, over dp for gradients."""
    import torch

    inputs = (torch.randn(4, 16, requires_grad=True),)
    return _capture(_dp_tp_model, inputs, {"dp": 2, "tp": 4}, lambda make, mesh: make(mesh))


def fsdp() -> Any:
    """Fully sharded layers (the SimpleFSDP idea): all_gather forward, reduce_scatter backward."""
    import torch

    inputs = (torch.randn(2, 32, requires_grad=True),)
    return _capture(_fsdp_model, inputs, {"dp": 8}, lambda make, mesh: make(mesh))


def moe() -> Any:
    """Mixture of experts: tokens to the experts and back by all_to_all, uneven by rank."""
    import torch

    def build(_: Any, mesh: Any) -> Any:
        rank = mesh.get_rank()
        sent = [1 + (rank + peer) % 2 for peer in range(WORLD)]
        received = [1 + (peer + rank) % 2 for peer in range(WORLD)]
        return _moe_model(sent, received)

    def tokens(_: Any) -> Any:
        return (torch.randn(12, 16, requires_grad=True),)

    return _capture(None, tokens, {"ep": 8}, build)


def routed_moe() -> Any:
    """Experts whose tokens a router picks: counts are exchanged first, then tokens, there and back.

    The step is one joint graph, forward and backward, as torchtitan traces it.
    """
    import torch

    def inputs(_: Any) -> Any:
        x, weight = (torch.randn(rows, 16, requires_grad=True) for rows in (12, 16))
        return x, weight, torch.randint(0, WORLD * 2, (12,))

    return _capture(_routed_step, inputs, {"ep": 8}, None, tracer="make_fx", tracing_mode="fake")


def ring_attention() -> Any:
    """Ring attention: keys and values travel around the ring by permute_tensor."""
    import torch

    inputs = (torch.randn(4, 16), torch.randn(4, 16), torch.randn(4, 16))
    return _capture(_ring, inputs, {"cp": 8}, None)


SAMPLES: dict[str, Callable[[], Any]] = {
    f.__name__.replace("_", "-"): f
    for f in (tp_mlp, sp_mlp, dp_tp, fsdp, moe, routed_moe, ring_attention)
}


def _capture(target: Any, inputs: Any, mesh: dict[str, int], prepare: Any, **options: Any) -> Any:
    import planguard.capture

    return planguard.capture.fx(
        target, inputs, WORLD, mesh=mesh, ranks="all", prepare=prepare, **options
    )


def _mlp(*, norm: bool = False) -> Any:
    from torch import nn

    class Mlp(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(16) if norm else nn.Identity()
            self.up = nn.Linear(16, 32)
            self.down = nn.Linear(32, 16)

        def forward(self, x: Any) -> Any:
            hidden = self.up(self.norm(x))
            return self.down(hidden.relu())

    return Mlp()


def _dp_tp_model(mesh: Any) -> Any:
    import torch
    import torch.distributed._functional_collectives as funcol
    from torch import nn
    from torch.distributed.tensor import DTensor, Partial, Replicate

    class EnterTensorParallel(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return funcol.all_reduce(grad.contiguous(), "sum", mesh["tp"])

    class LeaveTensorParallel(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return funcol.all_reduce(x.contiguous(), "sum", mesh["tp"])

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = self._replicated(16, 8)
            self.down = self._replicated(8, 16)

        def _replicated(self, rows: int, columns: int) -> Any:
            local = torch.randn(rows, columns)
            return nn.Parameter(DTensor.from_local(local, mesh["dp"], [Replicate()]))

        def _averaged(self, weight: Any) -> Any:
            """Use a replicated weight so that its gradient is averaged over dp."""
            whole = weight.redistribute(placements=[Replicate()])
            return whole.to_local(grad_placements=[Partial("avg")])

        def forward(self, x: Any) -> Any:
            up, down = self._averaged(self.up), self._averaged(self.down)
            hidden = EnterTensorParallel.apply(x) @ up
            return LeaveTensorParallel.apply(hidden.relu() @ down)

    return nn.Sequential(Block(), Block())


def _fsdp_model(mesh: Any) -> Any:
    import torch
    from torch import nn
    from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(distribute_tensor(torch.randn(32, 32), mesh, [Shard(0)]))

        def forward(self, x: Any) -> Any:
            whole = self.weight.redistribute(placements=[Replicate()])
            return (x @ whole.to_local(grad_placements=[Partial("avg")])).relu()

    return nn.Sequential(*[Layer() for _ in range(4)])


def _moe_model(sent: list[int], received: list[int]) -> Any:
    import torch.distributed as dist
    import torch.distributed._functional_collectives as funcol
    from torch import nn

    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.expert = nn.Linear(16, 16)

        def forward(self, x: Any) -> Any:
            world = dist.group.WORLD
            there = funcol.all_to_all_single_autograd(x, received, sent, world)
            done = self.expert(there).relu()
            return funcol.all_to_all_single_autograd(done, sent, received, world)

    return Experts()


def _routed_step(x: Any, weight: Any, routing: Any) -> Any:
    import torch
    import torch.distributed as dist
    import torch.distributed._functional_collectives as funcol

    world = dist.group.WORLD
    counts = torch.zeros(WORLD * 2, dtype=torch.int64)
    counts = counts.scatter_add(0, routing, torch.ones_like(routing))
    counted = funcol.wait_tensor(funcol.all_to_all_single(counts, None, None, world))
    sent = counts.view(WORLD, -1).sum(dim=1).tolist()
    received = counted.view(WORLD, -1).sum(dim=1).tolist()
    tokens = x[torch.argsort(routing, stable=True)]
    there = funcol.all_to_all_single_autograd(tokens, received, sent, world)
    done = (there @ weight).relu()
    back = funcol.all_to_all_single_autograd(done, sent, received, world)
    return torch.autograd.grad(back.sum(), (x, weight))


def _ring(query: Any, key: Any, value: Any) -> Any:
    import torch
    import torch.distributed as dist
    import torch.distributed._functional_collectives as funcol

    to_next = [(rank + 1) % WORLD for rank in range(WORLD)]
    out = torch.zeros_like(query)
    for _ in range(3):
        # permute_tensor takes numel() for the split of dimension 0, so it needs flat tensors.
        next_key = funcol.permute_tensor(key.view(-1), to_next, dist.group.WORLD)
        next_value = funcol.permute_tensor(value.view(-1), to_next, dist.group.WORLD)
        out = out + torch.softmax(query @ key.T, dim=-1) @ value
        key, value = next_key.view_as(key), next_value.view_as(value)
    return out


def _without_paths(bundle: Any) -> Any:
    """Make source locations relative to the repository, so that the files are the same anywhere."""

    def node(item: Any) -> Any:
        if item.source is None:
            return item
        path = Path(item.source[0])
        name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
        return replace(item, source=(name, *item.source[1:]))

    def graph(item: Any) -> Any:
        return replace(
            item,
            nodes=tuple(node(n) for n in item.nodes),
            subgraphs={key: graph(value) for key, value in item.subgraphs.items()},
        )

    programs = {
        rank: replace(program, graphs=tuple(graph(g) for g in program.graphs))
        for rank, program in bundle.programs.items()
    }
    return replace(bundle, programs=programs, producer=("torch", bundle.producer[1].split("+")[0]))


def main(argv: list[str]) -> int:
    """Write or compare the dumps; return the number of differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("names", nargs="*", default=[], help=", ".join(SAMPLES))
    args = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    differ = 0
    for name in args.names or SAMPLES:
        from planguard.planners.fx.dump import dump_text

        text = dump_text(_without_paths(replace(SAMPLES[name](), name=name)))
        path = HERE / f"{name}.fx.json"
        if not args.check:
            path.write_text(text)
        same = path.exists() and path.read_text() == text
        differ += not same
        print(f"{name}: {len(text)} bytes{'' if same else ', differs'}")
    return differ


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
