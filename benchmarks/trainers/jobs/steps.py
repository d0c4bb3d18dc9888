"""Steps of accelerate or transformers.Trainer over DDP, timed: ``steps.py KIND COUNT``."""

import json
import os
import statistics
import sys
import time
from itertools import pairwise
from pathlib import Path

import torch
from common import folder
from transformers import GPT2Config, GPT2LMHeadModel

TIMES = []


def mark():
    TIMES.append((time.process_time(), time.monotonic()))


def model():
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=512, n_positions=64, n_embd=128, n_layer=4, n_head=4)
    return GPT2LMHeadModel(config)


def tokens(count):
    return torch.randint(0, 512, (count, 64), generator=torch.Generator().manual_seed(5))


def with_accelerate(count):
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    accelerator, net = Accelerator(cpu=True), model()
    net, optimizer, loader = accelerator.prepare(
        net, torch.optim.AdamW(net.parameters()), DataLoader(tokens(count * 8), batch_size=4)
    )
    for rows in loader:
        accelerator.backward(net(input_ids=rows, labels=rows).loss)
        optimizer.step()
        optimizer.zero_grad()
        mark()
    accelerator.end_training()
    return accelerator.process_index


def with_transformers(count):
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Marks(TrainerCallback):
        def on_step_end(self, *_, **__):
            mark()

    arguments = TrainingArguments(
        output_dir=str(folder("steps")), use_cpu=True, ddp_backend="gloo", max_steps=count,
        per_device_train_batch_size=4, save_strategy="no", report_to=[], disable_tqdm=True,
    )  # fmt: skip
    rows = [{"input_ids": row, "labels": row} for row in tokens(count * 8)]
    trainer = Trainer(model=model(), args=arguments, train_dataset=rows, callbacks=[Marks()])
    trainer.train()
    return arguments.process_index


def main():
    kind, count = sys.argv[1], int(sys.argv[2])
    rank = (with_accelerate if kind == "accelerate" else with_transformers)(count)
    if rank == 0:
        pairs = list(pairwise(TIMES[5:]))
        told = {
            name: 1000 * statistics.median(after[n] - before[n] for before, after in pairs)
            for n, name in enumerate(("cpu", "wall"))
        }
        Path(os.environ["TRAINERS_STEPS"]).write_text(json.dumps(told))


if __name__ == "__main__":
    main()
