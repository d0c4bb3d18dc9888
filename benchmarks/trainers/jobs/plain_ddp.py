"""DDP and nothing beside it: three steps, as the plan of its adapter has them."""

import torch.distributed as dist
from common import SLIP, batches, net
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

CAP_MB = 0.002
STEPS = 3


def main():
    dist.init_process_group("gloo")
    model = DistributedDataParallel(net(), bucket_cap_mb=CAP_MB)
    # On all ranks: the job ends well, and yet is not what was planned.
    count = STEPS - (SLIP == "one step fewer on all ranks")
    for inputs, targets in batches(dist.get_rank(), count):
        cross_entropy(model(inputs), targets).backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
