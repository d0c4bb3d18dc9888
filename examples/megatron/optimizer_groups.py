"""NVIDIA/Megatron-LM#6616: stages order the optimizer's groups by what they see first.

The stages' models are one layer each. Stage 0 has a dense weight in front of its expert, stage 1
has the expert first. Megatron-core's own ``_get_param_groups`` sorts the groups by their overrides,
which are equal, so the order of a rank's own parameters decides. Then the norm of each group is
summed: dense gradients over the stages of a column, those of experts over all ranks. ``--fixed``
puts the expert flag into the key, as the pull request does.
"""

from __future__ import annotations

import argparse

import on_cpu

on_cpu.pretend()

import torch  # noqa: E402 - behind the stand-ins
import torch.distributed as dist  # noqa: E402
from megatron.core.optimizer import OptimizerConfig, _get_param_groups  # noqa: E402


class Stage(torch.nn.Module):
    """A stage with a dense weight and one of an expert, in an order of its own."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        for name in names:
            weight = torch.nn.Parameter(torch.ones(4, 4))
            weight.allreduce = name != "expert"  # how Megatron marks what experts own
            self.register_parameter(name, weight)


def main() -> None:
    """Sum the norm of every group."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    given = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    columns = [dist.new_group([column, column + 2]) for column in (0, 1)]
    everywhere = dist.new_group([0, 1, 2, 3])
    stage = Stage(["dense", "expert"] if rank < 2 else ["expert", "dense"])
    groups = _get_param_groups([stage], OptimizerConfig(lr=0.1), {})
    if given.fixed:
        groups.sort(key=lambda group: group["is_expert_parallel"])
    for group in groups:
        norm = torch.stack([parameter.sum() for parameter in group["params"]]).sum()
        where = everywhere if group["is_expert_parallel"] else columns[rank % 2]
        dist.all_reduce(norm.detach(), group=where)


if __name__ == "__main__":
    main()
