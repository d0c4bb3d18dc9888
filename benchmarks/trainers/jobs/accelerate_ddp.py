"""accelerate over DDP: prepare, accumulate, gather_for_metrics, save_state."""

import torch
from accelerate import Accelerator
from common import folder, net, slips
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset


def main():
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    rank = accelerator.process_index
    made = torch.Generator().manual_seed(7)
    data = TensorDataset(torch.randn(64, 16, generator=made), torch.arange(64) % 4)
    model = net()
    model, optimizer, loader = accelerator.prepare(
        model, torch.optim.AdamW(model.parameters(), lr=1e-3), DataLoader(data, batch_size=8)
    )
    for _ in range(2):
        for inputs, targets in loader:
            with accelerator.accumulate(model):
                loss = cross_entropy(model(inputs), targets)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            if rank == 0 or not slips("metrics on rank 0 only", rank):
                gathered = accelerator.gather_for_metrics(loss.detach())
        if accelerator.is_main_process:
            print(f"loss {gathered.mean():.3f}")
    accelerator.wait_for_everyone()
    accelerator.save_state(str(folder("accelerate_ddp")))
    accelerator.end_training()


if __name__ == "__main__":
    main()
