"""Jobs of four ranks that send between grids with Megatron-core's bridge; torch_sweep.py runs them.

``BridgeCommunicator`` and ``MultiModulePipelineCommunicator`` join modules of different layouts (an
encoder and a language model). No schedule of 0.16.1 calls them, so the order of calls is 1F1B with
as many warm-up microbatches as the communicator itself says. Its groups are made for NCCL by name;
here they are gloo's. The last module returns twice what it got, so every rank can tell what its
gradients must be.
"""

from __future__ import annotations

import functools
from typing import Any

import megatron.core  # type: ignore[import-not-found]
import torch
import torch.distributed as dist
from megatron.core.hyper_comm_grid import HyperCommGrid  # type: ignore[import-not-found]
from megatron.core.model_parallel_config import (  # type: ignore[import-not-found]
    ModelParallelConfig,
)
from megatron.core.pipeline_parallel.multimodule_communicator import (  # type: ignore[import-not-found]
    MultiModulePipelineCommunicator,
)

from sweep import on_cpu

on_cpu.pretend()

DIMENSIONS = ["tp", "cp", "pp", "dp"]
SHAPES = {"batch first": {"b": 0, "s": 1, "h": 2}, "sequence first": {"s": 0, "b": 1, "h": 2}}
MICROBATCHES = 4
Grids = dict[str, list[int]]


def version() -> str:
    """Name the planner and its version."""
    return f"megatron-core {megatron.core.__version__}"


def grids_of(sizes: Grids) -> dict[str, Any]:
    """Make the grids, one after another over the ranks."""
    own, found, offset = dist.new_subgroups_by_enumeration, {}, 0
    dist.new_subgroups_by_enumeration = lambda ranks, **_: own(ranks)
    for name, shape in sizes.items():
        found[name] = HyperCommGrid(shape, DIMENSIONS, rank_offset=offset)
        found[name].create_pg(["pp"])
        offset += int(found[name].size)
    return found


def value(microbatch: int, mapping: dict[str, int], batch: int) -> torch.Tensor:
    """Return an activation whose elements all differ: sequence 3, batch, width 2."""
    shape = [0, 0, 0]
    for name, size in (("s", 3), ("b", batch), ("h", 2)):
        shape[mapping[name]] = size
    return torch.arange(6 * batch).float().view(shape) + 100 * microbatch


def run(rank: int, _world: int, sizes: Grids, edges: dict[str, list[str]], shape: str) -> None:
    """Run 1F1B over the modules."""
    grids, mapping = grids_of(sizes), SHAPES[shape]
    config = ModelParallelConfig(pipeline_dtype=torch.float32, variable_seq_lengths=True)
    both = MultiModulePipelineCommunicator(grids, edges, config, dim_mapping=mapping)
    name = next(one for one, grid in grids.items() if both.is_current_rank_in_grid(grid))
    source, sink = both.is_pp_first_stage, both.is_pp_last_stage
    replicas = dict(zip(DIMENSIONS, sizes[name], strict=True))["dp"]
    made = [value(n, mapping, 4 // replicas) for n in range(MICROBATCHES)]
    warm = min(both.num_warmup_microbatches, MICROBATCHES)
    print("rank", rank, name, "warm-up", warm, flush=True)
    kept: list[Any] = []

    def forward(number: int, given: dict[str, Any]) -> dict[str, Any]:
        kept.append(made[number] if source else next(iter(given.values())))
        return {name: kept[-1]}

    def backward(given: Any) -> dict[str, Any]:
        mine = kept.pop(0)
        gradient = 2 * mine if sink else next(iter(given.values()))
        if gradient.shape != mine.shape or not torch.equal(gradient, 2 * mine):
            told = f"rank {rank}: gradient of {tuple(mine.shape)} is {tuple(gradient.shape)}"
            raise RuntimeError(f"{told}, off by {_off(gradient, 2 * mine)}")
        came_from = [one for one, outs in edges.items() if name in outs]
        return dict.fromkeys([name, *came_from], gradient)

    schedule(both, warm, forward, backward, tuple(made[0].shape))


def _off(first: torch.Tensor, second: torch.Tensor) -> float:
    return float((first.flatten() - second.flatten()).abs().max())


def schedule(both: Any, warm: int, forward: Any, backward: Any, shape: tuple[int, ...]) -> None:
    """Call what the one-forward-one-backward schedule calls, in its order."""
    for number in range(warm):
        both.send_forward(forward(number, both.recv_forward(shape)))
    left = MICROBATCHES - warm
    given = both.recv_forward(shape) if left else {}
    for number in range(left):
        gradients = both.send_forward_recv_backward(forward(warm + number, given), shape)
        if number == left - 1:
            both.send_backward(backward(gradients))
        else:
            given = both.send_backward_recv_forward(backward(gradients), shape)
    for _ in range(warm):
        both.send_backward(backward(both.recv_backward(shape)))


CHAIN = {"encoder": ["llm"], "llm": []}
JOIN = {"image": ["llm"], "audio": ["llm"], "llm": []}
CASES: dict[str, tuple[Grids, dict[str, list[str]]]] = {
    "1 to 1, tp2": ({"encoder": [2, 1, 1, 1], "llm": [2, 1, 1, 1]}, CHAIN),
    "dp2 to dp2": ({"encoder": [1, 1, 1, 2], "llm": [1, 1, 1, 2]}, CHAIN),
    "tp2 to dp2": ({"encoder": [2, 1, 1, 1], "llm": [1, 1, 1, 2]}, CHAIN),
    "dp2 to tp2": ({"encoder": [1, 1, 1, 2], "llm": [2, 1, 1, 1]}, CHAIN),
    "pp2 to pp2": ({"encoder": [1, 1, 2, 1], "llm": [1, 1, 2, 1]}, CHAIN),
    "pp2 to dp2": ({"encoder": [1, 1, 2, 1], "llm": [1, 1, 1, 2]}, CHAIN),
    "dp2 to pp2": ({"encoder": [1, 1, 1, 2], "llm": [1, 1, 2, 1]}, CHAIN),
    "pp3 to 1": ({"encoder": [1, 1, 3, 1], "llm": [1, 1, 1, 1]}, CHAIN),
    "three modules": (
        {"encoder": [1, 1, 1, 1], "llm": [1, 1, 2, 1], "generator": [1, 1, 1, 1]},
        {"encoder": ["llm"], "llm": ["generator"], "generator": []}),
    "two encoders of 1, llm of 2": (
        {"image": [1, 1, 1, 1], "audio": [1, 1, 1, 1], "llm": [1, 1, 2, 1]}, JOIN),
    "two encoders, 1 and 2 deep": (
        {"image": [1, 1, 1, 1], "audio": [1, 1, 2, 1], "llm": [1, 1, 1, 1]}, JOIN),
    "two encoders, 2 and 1 deep": (
        {"image": [1, 1, 2, 1], "audio": [1, 1, 1, 1], "llm": [1, 1, 1, 1]}, JOIN),
}  # fmt: skip
JOBS = {
    f"bridge: {title}, {shape}": functools.partial(run, sizes=sizes, edges=edges, shape=shape)
    for title, (sizes, edges) in CASES.items()
    for shape in SHAPES
}
