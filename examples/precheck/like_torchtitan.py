"""FSDP2 as torchtitan trains; with --bug, gradients are clipped on the ranks where they are large.

planguard precheck like_torchtitan.py --ranks 2 --samples 2 -- --bug
"""

import argparse

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, TensorDataset


def main():
    """Train for four steps."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bug", action="store_true")
    args = parser.parse_args()
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("dp",))
    model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(4)))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters())
    scales = torch.tensor([0.1, 10.0]).repeat_interleave(4).repeat(4)
    rows = torch.ones(32, 8) * scales[:, None]
    for (batch,) in DataLoader(TensorDataset(rows), batch_size=4):
        model(batch).square().mean().backward()
        size = batch.abs().max()
        if not args.bug:
            dist.all_reduce(size, dist.ReduceOp.MAX)
        if size.item() > 1:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).full_tensor()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
