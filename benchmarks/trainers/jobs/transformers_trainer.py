"""transformers.Trainer: checkpoints, evaluation, early stopping, best model at the end."""

import torch
from common import folder, gpt, slips
from torch.utils.data import Dataset
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainingArguments


class Tokens(Dataset):
    def __init__(self, count):
        made = torch.Generator().manual_seed(3)
        self.rows = torch.randint(0, 64, (count, 16), generator=made)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, place):
        return {"input_ids": self.rows[place], "labels": self.rows[place]}


class Logs(TrainerCallback):
    """Averages the loss over the ranks when something is logged, which only rank 0 does."""

    def on_step_end(self, args, state, control, **_):
        if slips("a callback reduces on rank 0 only", state.is_world_process_zero, True):
            torch.distributed.all_reduce(torch.ones(1))


def main():
    arguments = TrainingArguments(
        output_dir=str(folder("transformers_trainer")),
        use_cpu=True,
        ddp_backend="gloo",
        max_steps=4,
        per_device_train_batch_size=2,
        per_device_eval_batch_size=2,
        eval_strategy="steps",
        eval_steps=2,
        save_strategy="steps",
        save_steps=2,
        logging_steps=2,
        load_best_model_at_end=True,
        metric_for_best_model="eval_loss",
        report_to=[],
        disable_tqdm=True,
    )
    trainer = Trainer(
        model=gpt(),
        args=arguments,
        train_dataset=Tokens(32),
        eval_dataset=Tokens(8),
        callbacks=[EarlyStoppingCallback(early_stopping_patience=1), Logs()],
    )
    trainer.train()


if __name__ == "__main__":
    main()
