"""One rank of a gloo job that shows how torch's functional collectives wait and count ranks."""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

C = torch.ops._c10d_functional
PATIENCE = timedelta(seconds=4)


def root_of_a_group(rank, group):
    """Broadcast from rank 1 of the group [1, 2], which is global rank 2."""
    if rank:
        value = torch.full((4,), float(rank))
        return C.wait_tensor(C.broadcast(value, 1, group.group_name))[0].item()
    return 0.0


def second_wait(rank, group):
    """Wait twice, and for a tensor that nothing is pending on."""
    if rank:
        total = C.all_reduce(torch.full((4,), float(rank)), "sum", group.group_name)
        C.wait_tensor(C.wait_tensor(total))
        C.wait_tensor(torch.ones(3))
        return total[0].item()
    return 0.0


def wait_on_a_view(rank, group):
    """Wait for a collective through a view of its result."""
    if rank:
        total = C.all_reduce(torch.full((4,), float(rank)), "sum", group.group_name)
        C.wait_tensor(total.view(2, 2)[1])
        return total[0].item()
    return 0.0


def send_waits_for_its_receiver(rank, group):
    """Wait for an isend whose receive is posted one second later; peers are ranks of the group."""
    if rank == 1:
        start = time.monotonic()
        C.wait_tensor(C.isend(torch.ones(4), 1, 0, group.group_name))
        return float(time.monotonic() - start > 0.5)
    if rank == 2:
        time.sleep(1)
        value = C.irecv(torch.zeros(4), 0, 0, group.group_name)
        return C.wait_tensor(value)[0].item()
    return 0.0


if __name__ == "__main__":
    fact, own, store = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=own, world_size=3, timeout=PATIENCE
    )
    pair = dist.new_group([1, 2], timeout=PATIENCE)
    print(globals()[fact](own, pair), flush=True)
    dist.barrier()
    os._exit(0)
