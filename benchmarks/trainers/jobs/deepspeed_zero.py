"""deepspeed, ZeRO stage 0, 1 or 2, gradients clipped, a checkpoint at the end."""

import sys

import deepspeed
import torch
from common import batches, folder, net, slips
from torch.nn.functional import cross_entropy


def main():
    stage = int(sys.argv[1])
    deepspeed.init_distributed("gloo", verbose=False)
    rank = torch.distributed.get_rank()
    model = net()
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3),
        config={
            "train_micro_batch_size_per_gpu": 8,
            "gradient_accumulation_steps": 2,
            "gradient_clipping": 1.0,
            "zero_allow_untested_optimizer": True,
            "zero_optimization": {"stage": stage, "reduce_bucket_size": 1000},
            "steps_per_print": 1000000,
        },
    )
    for inputs, targets in batches(rank):
        loss = cross_entropy(engine(inputs), targets)
        engine.backward(loss)
        engine.step()
    if rank == 0 or not slips("checkpoint on rank 0 only", rank):
        engine.save_checkpoint(str(folder(f"deepspeed_zero{stage}")))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
