"""Megatron-core's bridge between grids: gradients put together wrongly, and a hang (bugs 19, 20).

    python tests/campaigns/bugs/megatron_bridge.py

Needs megatron-core 0.16.1 and torch on a CPU. Four gloo processes for each case; what they run
is in ``tests/campaigns/sweep/bridge_jobs.py``. Prints how each case ended.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

WORLD = 4
CASES = (
    "tp2 to dp2, batch first", "tp2 to dp2, sequence first",
    "dp2 to tp2, batch first", "dp2 to tp2, sequence first",
    "pp3 to 1, batch first", "two encoders of 1, llm of 2, batch first",
    "two encoders, 1 and 2 deep, batch first", "two encoders, 2 and 1 deep, batch first",
)  # fmt: skip


def be_rank(rank: int, store: str, name: str, said: Any) -> None:
    """Run one rank of a case; say what it raised, or that it is through."""
    warnings.simplefilter("ignore")
    import torch
    import torch.distributed as dist
    from sweep import bridge_jobs

    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, WORLD), rank=rank, world_size=WORLD)
    said.put((rank, "is there"))
    try:
        bridge_jobs.JOBS[f"bridge: {name}"](rank, WORLD)
        said.put((rank, "through"))
    except RuntimeError as error:
        said.put((rank, str(error)[:120]))
    time.sleep(2)  # who fails first must not be the reason why others fail
    sys.stdout.flush()
    os._exit(0)


def play(name: str, patience: float) -> None:
    """Run a case and print how it ended."""
    import torch.multiprocessing as mp

    context = mp.get_context("spawn")
    said, last = context.Queue(), {}
    with tempfile.TemporaryDirectory() as folder:
        given = (f"{folder}/store", name, said)
        ranks = [context.Process(target=be_rank, args=(rank, *given)) for rank in range(WORLD)]
        for one in ranks:
            one.start()
        end = time.monotonic() + 240  # until all have imported Megatron-core
        while any(one.is_alive() for one in ranks) and time.monotonic() < end:
            while not said.empty():
                rank, text = said.get()
                last[rank] = text
                if len(last) == WORLD:
                    end = time.monotonic() + patience
            time.sleep(0.05)
        for one in ranks:
            one.kill()
            one.join()
    stuck = sorted(rank for rank, text in last.items() if text == "is there")
    failed = {text for text in last.values() if "gradient" in text}
    print(f"{name}: {'; '.join(sorted(failed)) or (f'ranks {stuck} hang' if stuck else 'ended')}")


def main() -> None:
    """Run the cases."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="cases with this in their name")
    parser.add_argument(
        "--patience", type=float, default=15, help="seconds until it counts as hung"
    )
    given = parser.parse_args()
    for name in CASES:
        if given.only in name:
            play(name, given.patience)


if __name__ == "__main__":
    main()
