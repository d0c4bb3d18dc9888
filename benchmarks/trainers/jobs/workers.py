"""DDP fed by DataLoader workers and a DistributedSampler; a batch that fails is skipped, or not."""

import torch
import torch.distributed as dist
from common import net, slips
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    data = TensorDataset(torch.randn(64, 16), torch.arange(64) % 4)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler, num_workers=2)
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for number, (inputs, targets) in enumerate(loader):
            try:
                if number == 1 and slips("an exception is swallowed", rank):
                    raise ValueError("a bad batch")
                optimizer.zero_grad()
                cross_entropy(model(inputs), targets).backward()
                optimizer.step()
            except ValueError:
                continue
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
