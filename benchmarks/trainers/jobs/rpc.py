"""DDP beside torch.distributed.rpc: rank 0 asks the others for their losses."""

import torch
import torch.distributed as dist
from common import batches, net, slips
from torch.distributed import rpc
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

LAST = [0.0]


def last():
    return LAST[0]


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world)
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = batches(rank, 3 if slips("one batch fewer", rank) else 4)
    for inputs, targets in data:
        optimizer.zero_grad()
        loss = cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        LAST[0] = float(loss.detach())
    dist.barrier()
    if rank == 0:
        print([rpc.rpc_sync(f"worker{other}", last) for other in range(1, world)])
    rpc.shutdown()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
