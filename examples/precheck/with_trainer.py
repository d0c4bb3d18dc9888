"""transformers.Trainer; with --bug, a callback of rank 0 alone waits for all at the second step.

planguard precheck with_trainer.py --ranks 2 -- --bug
"""

import argparse
import tempfile

import torch
import torch.distributed as dist
from transformers import Trainer, TrainerCallback, TrainingArguments


class Model(torch.nn.Module):
    """One layer, and its loss."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def forward(self, rows):
        """Return what a Trainer takes."""
        return {"loss": self.layer(rows).square().mean()}


class Save(TrainerCallback):
    """Waits for all ranks behind a checkpoint."""

    def __init__(self, has_bug):
        self.has_bug = has_bug

    def on_step_end(self, args, state, control, **_):
        """Wait for all, where a checkpoint is written."""
        if state.global_step == 2 and (state.is_world_process_zero or not self.has_bug):
            dist.barrier()


def main():
    """Train for four steps."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bug", action="store_true")
    args = parser.parse_args()
    rows = [{"rows": torch.randn(8)} for _ in range(32)]
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            folder,
            use_cpu=True,
            max_steps=4,
            per_device_train_batch_size=2,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        Trainer(Model(), settings, train_dataset=rows, callbacks=[Save(args.bug)]).train()


if __name__ == "__main__":
    main()
