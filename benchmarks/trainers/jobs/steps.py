"""Steps of accelerate or transformers.Trainer over DDP, timed.

steps.py KIND COUNT LENGTH [SIZE]
"""

import sys

import torch
from common import folder
from transformers import GPT2Config, GPT2LMHeadModel
from ways import Ways

WAYS = Ways(int(sys.argv[3]))
mark = WAYS.step


SIZES = {
    "tiny": {"vocab_size": 512, "n_embd": 128, "n_layer": 4, "n_head": 4},
    "small": {"vocab_size": 4096, "n_embd": 256, "n_layer": 6, "n_head": 4},
}
"""One million parameters, and six."""
SIZE = SIZES[sys.argv[4] if len(sys.argv) > 4 else "tiny"]


def model():
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(n_positions=64, **SIZE))


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
    WAYS.tell()
    accelerator.end_training()


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
    WAYS.tell()


def main():
    kind, count = sys.argv[1], int(sys.argv[2])
    (with_accelerate if kind == "accelerate" else with_transformers)(count)


if __name__ == "__main__":
    main()
