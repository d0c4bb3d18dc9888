"""NVIDIA/Megatron-LM#5370 in small: members of a bridge wait for a broadcast that a leader skips.

A module of two ranks (0 and 1) sends to one of two ranks (2 and 3). Leaders exchange messages and
broadcast what came to the members of their module. Groups are made at their first use, where not
all ranks come (``--eager`` makes them before, on all), and a leader that has nothing to send skips
its broadcast, which members expect in every step (``--always`` broadcasts). The pull request does
both.
"""

from __future__ import annotations

import argparse

import torch
import torch.distributed as dist

SOURCE, SINK = (0, 1), (2, 3)
STEPS = 3


def groups_of(cache: dict[tuple[int, ...], object], ranks: tuple[int, ...]) -> object:
    """Return the group of some ranks, made at its first use."""
    if ranks not in cache:
        cache[ranks] = dist.new_group(list(ranks))
    return cache[ranks]


def exchange(
    rank: int, cache: dict[tuple[int, ...], object], *, has_output: bool, always: bool
) -> None:
    """Send an activation forward and get a gradient back, as the combined operation of a bridge."""
    side = SOURCE if rank in SOURCE else SINK
    if rank in (SOURCE[0], SINK[0]):
        other = SINK[0] if side is SOURCE else SOURCE[0]
        got = torch.zeros(4)
        if has_output:
            mine = torch.ones(4)
            parts = [
                dist.P2POp(dist.isend, mine, other),
                dist.P2POp(dist.irecv, got, other),
            ]
            for work in dist.batch_isend_irecv(parts):
                work.wait()
        if has_output or always:
            dist.broadcast(got, side[0], group=groups_of(cache, side))
        return
    dist.broadcast(torch.zeros(4), side[0], group=groups_of(cache, side))


def main() -> None:
    """Run three steps; in the second the source module has no output."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--always", action="store_true")
    given = parser.parse_args()
    dist.init_process_group("gloo")
    cache: dict[tuple[int, ...], object] = {}
    if given.eager:
        for ranks in (SOURCE, SINK):
            groups_of(cache, ranks)
    for step in range(STEPS):
        exchange(dist.get_rank(), cache, has_output=step != 1, always=given.always)


if __name__ == "__main__":
    main()
