"""ZeRO-1 and ZeRO-2 where ranks use different layers: gradients of two layers are summed (bug 21).

    python tests/campaigns/bugs/zero_branches.py

Needs DeepSpeed 0.18.2 and torch on a CPU. Four gloo processes take one step of a network with two
branches of one shape; even ranks use the one, odd ranks the other. Prints the norms of the weights
after the step. Without ZeRO gradients that a rank does not have count as zero.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

WORLD = 4
SETTINGS: dict[str, dict[str, Any]] = {
    "no ZeRO": {}, "ZeRO-1": {"zero": {"stage": 1}}, "ZeRO-2": {"zero": {"stage": 2}},
    "ZeRO-2, overlapped": {"zero": {"stage": 2, "overlap_comm": True}},
    "ZeRO-2, no reduce-scatter": {"zero": {"stage": 2, "reduce_scatter": False}},
}  # fmt: skip


def be_rank(rank: int, store: str, given: dict[str, Any], said: Any) -> None:
    """Take one step; rank 0 says what its weights are."""
    import deepspeed  # type: ignore[import-not-found]
    import torch
    import torch.distributed as dist
    from sweep import deepspeed_jobs as jobs

    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, WORLD), rank=rank, world_size=WORLD)
    jobs.ready(rank, WORLD)
    model = jobs.Branches(rank)
    engine = deepspeed.initialize(
        model=model, config=jobs.settings(given), model_parameters=list(model.parameters())
    )[0]
    jobs.train(engine, {"steps": 1}, rank)
    if rank == 0:
        said.put({n: float(p.detach().norm()) for n, p in engine.module.named_parameters()})
    time.sleep(2)
    os._exit(0)


def main() -> None:
    """Run every setting and print the norms."""
    import torch.multiprocessing as mp

    context = mp.get_context("spawn")
    for name, given in SETTINGS.items():
        with tempfile.TemporaryDirectory() as folder:
            said = context.Queue()
            ranks = [
                context.Process(target=be_rank, args=(rank, f"{folder}/store", given, said))
                for rank in range(WORLD)
            ]
            for one in ranks:
                one.start()
            norms = said.get(timeout=240)
            for one in ranks:
                one.kill()
                one.join()
        print(f"{name}: {' '.join(f'{n}={v:.5f}' for n, v in norms.items())}", flush=True)


if __name__ == "__main__":
    main()
