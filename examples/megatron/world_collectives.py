"""NVIDIA/Megatron-LM#6683 in small: groups made by WORLD calls, as often as a rank has domains.

``_build_gtp_group`` gathers every rank's wish and makes the groups together: calls of all ranks. It
is reached once for each kind of parameters that a rank's own stage has. Stage 0 has dense ones
only, stage 1 experts as well, and asks once more. ``--fixed`` asks for every kind on every rank.
"""

from __future__ import annotations

import argparse

import torch
import torch.distributed as dist

KINDS = ("dense", "expert")


def build_group() -> object:
    """Make the groups of a kind of parameters, all ranks together, and return this rank's."""
    rank, world = dist.get_rank(), dist.get_world_size()
    wish = torch.tensor([rank // 2])
    wishes = [torch.zeros_like(wish) for _ in range(world)]
    dist.all_gather(wishes, wish)
    sets = {int(wish): [] for wish in wishes}
    for member, told in enumerate(wishes):
        sets[int(told)].append(member)
    own, _ = dist.new_subgroups_by_enumeration(list(sets.values()))
    return own


def main() -> None:
    """Wire the optimizers, then run one step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    given = parser.parse_args()
    dist.init_process_group("gloo")
    has = KINDS if dist.get_rank() >= 2 or given.fixed else KINDS[:1]
    groups = {kind: build_group() for kind in has}
    for group in groups.values():
        dist.all_reduce(torch.ones(4), group=group)
    dist.all_reduce(torch.ones(1))


if __name__ == "__main__":
    main()
