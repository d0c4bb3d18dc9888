"""Early stopping with accelerate; with --bug, each rank stops by its own loss.

planguard precheck with_accelerate.py --ranks 2 --samples 3 -- --bug
"""

import argparse

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset


def main():
    """Train until the loss is low."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bug", action="store_true")
    args = parser.parse_args()
    accelerator = Accelerator(cpu=True)
    rows = torch.tensor([0.1, 0.1, 1.0, 0.1]).repeat_interleave(8).reshape(32, 1)
    loader = DataLoader(TensorDataset(rows), batch_size=4)
    model = torch.nn.Linear(1, 1)
    torch.nn.init.ones_(model.weight)
    torch.nn.init.zeros_(model.bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for (batch,) in loader:
        loss = model(batch).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        seen = loss.detach()
        if not args.bug:
            seen = accelerator.reduce(seen, reduction="mean")
        if seen.item() > 0.3:
            break
    accelerator.wait_for_everyone()


if __name__ == "__main__":
    main()
