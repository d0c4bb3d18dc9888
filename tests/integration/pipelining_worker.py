"""One rank of a real pipeline step on gloo; test_pipelining_torch.py starts two of them.

    python pipelining_worker.py RANK STORE_FILE CLASS DEFER RENDEZVOUS OUTPUT

Two ranks, four stages of one Linear(64, 64), four microbatches, equal seeds. Writes losses and
gradient norms as JSON. RENDEZVOUS=1 waits for every send at once instead of at the end of the step.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, schedules
from torch.distributed.pipelining._utils import generate_stage_to_rank_mapping

RANKS, STAGES, MICROBATCHES, WIDTH = 2, 4, 4, 64
V_SHAPED = ("ScheduleZBVZeroBubble", "ScheduleDualPipeV")


def rendezvous_sends() -> None:
    """Make every isend of the run loop wait for its receiver at once."""
    issue = schedules._batch_p2p

    def issue_and_wait(ops, desc=None):
        works = issue(ops, desc)
        if all(op.op is dist.isend for op in ops):
            for work in works:
                work.wait()
            return []  # gloo never returns from a second wait for the same work
        return works

    schedules._batch_p2p = issue_and_wait


def main() -> None:
    """Run one training step and write what came out."""
    rank, store, class_name, defer, rendezvous, output = sys.argv[1:]
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        rank=int(rank),
        world_size=RANKS,
        init_method=f"file://{store}",
        timeout=timedelta(seconds=60),
    )
    if int(rendezvous):
        rendezvous_sends()
    rank_of = generate_stage_to_rank_mapping(
        RANKS, STAGES, "v" if class_name in V_SHAPED else "loop"
    )
    torch.manual_seed(0)
    modules = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(STAGES)]
    mine = [stage for stage in range(STAGES) if rank_of[stage] == int(rank)]
    cpu = torch.device("cpu")
    stages = [PipelineStage(modules[stage], stage, STAGES, cpu) for stage in mine]
    schedule = getattr(schedules, class_name)(
        stages, MICROBATCHES, loss_fn=torch.nn.functional.mse_loss, defer_pp_recv=bool(int(defer))
    )
    torch.manual_seed(1)
    data, target = torch.randn(16, WIDTH), torch.randn(16, WIDTH)
    losses: list[torch.Tensor] = []
    inputs = (data,) if 0 in mine else ()
    last = {"target": target, "losses": losses} if STAGES - 1 in mine else {}
    schedule.step(*inputs, **last)
    norms = {
        str(stage): sum(float(p.grad.norm()) ** 2 for p in modules[stage].parameters()) ** 0.5
        for stage in mine
    }
    result = {"norms": norms, "losses": [float(loss) for loss in losses]}
    Path(output).write_text(json.dumps(result))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
