"""accelerate over FSDP2, a model of transformers; its state is gathered at the end."""

import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from common import folder, gpt, slips


def main():
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2,
        auto_wrap_policy="transformer_based_wrap",
        transformer_cls_names_to_wrap=["GPT2Block"],
        reshard_after_forward=True,
        cpu_offload=False,
    )
    accelerator = Accelerator(cpu=True, fsdp_plugin=plugin)
    rank = accelerator.process_index
    model = gpt(2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer = accelerator.prepare(model, optimizer)
    made = torch.Generator().manual_seed(rank)
    for _ in range(3):
        tokens = torch.randint(0, 64, (2, 16), generator=made)
        loss = model(input_ids=tokens, labels=tokens).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    if rank == 0 or not slips("state gathered on rank 0 only", rank):
        state = accelerator.get_state_dict(model)
        if accelerator.is_main_process:
            torch.save(state, folder("accelerate_fsdp2") / "model.pt")
    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main()
