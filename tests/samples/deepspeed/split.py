"""Split tensors over two model ranks on four gloo processes, evenly and not (bugs found, 7).

    python tests/samples/deepspeed/split.py

Needs deepspeed 0.18.2 and torch 2.13.0 on a CPU. Groups of model ranks are 0, 1 and 2, 3. Prints,
per rank, what ``PartitionedTensor`` puts together, and whether a pipeline of two stages trains.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import socket
import sys
import time
from datetime import timedelta
from typing import Any

os.environ["DS_ACCELERATOR"] = "cpu"
SECONDS = 120


def tensors(rank: int, width: int) -> str:
    """Put a tensor together from parts, directly and from its meta data."""
    import torch
    import torch.distributed as dist
    from deepspeed.runtime.utils import PartitionedTensor  # type: ignore[import-not-found]

    group = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
    direct = PartitionedTensor(torch.arange(width).float(), group)
    said = [f"directly {_told(direct.full)}"]
    dist.barrier()
    other = PartitionedTensor.from_meta(direct.to_meta(), direct.data(), group, device="cpu")
    said.append(f"from its meta data {_told(other.full)}")
    return "; ".join(said)


def pipeline(width: int, *, split: bool) -> str:
    """Train one batch of two stages x two model ranks."""
    import deepspeed  # type: ignore[import-not-found]
    import torch
    from deepspeed.pipe import LayerSpec, PipelineModule  # type: ignore[import-not-found]
    from deepspeed.runtime.pipe.topology import (  # type: ignore[import-not-found]
        PipeModelDataParallelTopology,
    )
    from torch import nn

    torch.manual_seed(0)
    module = PipelineModule(
        layers=[LayerSpec(nn.Linear, width, width) for _ in range(2)],
        topology=PipeModelDataParallelTopology(num_pp=2, num_mp=2, num_dp=1),
        loss_fn=nn.MSELoss(), partition_method="uniform",
    )  # fmt: skip
    settings = {
        "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2,
        "optimizer": {"type": "SGD", "params": {"lr": 0.1}}, "steps_per_print": 1_000_000,
        "pipeline": {"pipe_partitioned": split, "grad_partitioned": split},
    }  # fmt: skip
    engine = deepspeed.initialize(
        model=module, config=settings, model_parameters=list(module.parameters())
    )[0]
    source = iter([(torch.ones(1, width), torch.zeros(1, width))] * 2)
    return _told(lambda: engine.train_batch(source))


def _told(call: Any) -> str:
    try:
        return str(call().tolist())
    except (RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {str(error)[:120]}"


def worker(rank: int, port: int, width: int, what: str) -> None:
    """Be one rank."""
    os.environ |= {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "4", "LOCAL_SIZE": "4",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
    }  # fmt: skip
    import deepspeed
    import torch

    torch.set_num_threads(1)
    deepspeed.init_distributed(dist_backend="gloo", timeout=timedelta(seconds=30), verbose=False)
    said = tensors(rank, width) if what == "tensor" else pipeline(width, split=what == "split")
    print(f"rank {rank}, {what}, {width} elements: {said}", flush=True)
    os._exit(0)  # the engine's threads outlive the job


def main() -> None:
    """Run every case on four processes."""
    import deepspeed.comm  # noqa: F401 - once, before the processes are made

    # Its kernel for shared memory would be compiled first, and is not needed here.
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # type: ignore[attr-defined]
    context = mp.get_context("fork")
    for what, width in (("tensor", 4), ("tensor", 5), ("split", 4), ("split", 5), ("whole", 5)):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        ranks = [context.Process(target=worker, args=(r, port, width, what)) for r in range(4)]
        for process in ranks:
            process.start()
        end = time.monotonic() + SECONDS
        for process in ranks:
            process.join(max(0.0, end - time.monotonic()))
            process.kill()


if __name__ == "__main__":
    main()
