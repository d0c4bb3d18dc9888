"""A LightningModule; with --bug, rank 0 alone logs a value that is reduced over the ranks.

planguard precheck with_lightning.py --ranks 2 -- --bug
"""

import argparse

import lightning
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset


class Module(lightning.LightningModule):
    """One layer."""

    def __init__(self, has_bug):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
        self.has_bug = has_bug

    def training_step(self, batch, index):
        """Return the loss; once, look at its mean."""
        loss = self.layer(batch[0]).square().mean()
        if index == 1 and (self.global_rank == 0 or not self.has_bug):
            mean = loss.detach().clone()
            dist.all_reduce(mean)
        return loss

    def configure_optimizers(self):
        """Return the optimizer."""
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main():
    """Train for an epoch."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bug", action="store_true")
    args = parser.parse_args()
    trainer = lightning.Trainer(
        accelerator="cpu",
        strategy="ddp",
        devices=2,
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Module(args.bug), DataLoader(TensorDataset(torch.randn(32, 8)), batch_size=4))


if __name__ == "__main__":
    main()
