"""Run a schedule of Megatron-core on real gloo processes, and say whether it ends.

    python tests/samples/megatron/run.py --pipeline 4 --virtual 2 --microbatches 4 \
        variable_seq_lengths=true

Needs what ``regenerate.py`` needs. Megatron-core's own ``schedules.py`` and ``P2PCommunicator``
run on CPU tensors; nothing that communicates is replaced. Stages are multiplications by one
parameter each. Prints the gradient of every stage, or where each rank was when time was up.
"""

from __future__ import annotations

import argparse
import faulthandler
import functools
import json
import os
import socket
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "planners" / "megatron"))
SHAPE = (4, 2, 8)
START_S = 300
"""Seconds that the processes may take to import what they need."""


class Silent:
    """Stands for the recorder of ``recorder._chunk``: nothing is noted."""

    def name(self, tensor: Any, name: str) -> None:
        """Note nothing."""

    def note(self, **event: Any) -> None:
        """Note nothing."""


def run(rank: int, given: dict[str, Any], port: int, folder: str) -> None:
    """Be one rank: one batch, then write the gradients of this rank's stages."""
    warnings.simplefilter("ignore")
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=given["pipeline"])
    chunks, train = _prepared(dist, given)
    dist.barrier()
    trace = Path(folder, f"{rank}.stack").open("w", encoding="utf-8")  # noqa: SIM115 - till the end
    faulthandler.dump_traceback_later(given["seconds"] * 0.7, file=trace)
    train()
    found = {chunk.stage: float(chunk.scale.grad) for chunk in chunks}
    Path(folder, f"{rank}.json").write_text(json.dumps(found), encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)


def _prepared(dist: Any, given: dict[str, Any]) -> tuple[list[Any], Any]:
    """Return the model chunks of this rank, and what runs one batch."""
    import recorder  # type: ignore[import-not-found]
    import torch
    from megatron.core.pipeline_parallel import (  # type: ignore[import-not-found]
        p2p_communication,
        schedules,
    )
    from megatron.core.process_groups_config import (  # type: ignore[import-not-found]
        ProcessGroupCollection,
    )
    from megatron.core.transformer import TransformerConfig  # type: ignore[import-not-found]

    torch.cuda.current_device = lambda: "cpu"  # type: ignore[assignment, return-value]
    torch.cuda.synchronize = lambda *_: None
    for make in ("zeros", "tensor"):
        setattr(torch, make, recorder._on_cpu(getattr(torch, make)))
    pipeline, virtual = given["pipeline"], given["virtual"]
    group = dist.new_group(list(range(pipeline)))
    alone = [dist.new_group([other]) for other in range(pipeline)][dist.get_rank()]
    config = TransformerConfig(
        num_layers=pipeline * virtual, hidden_size=SHAPE[2], num_attention_heads=1,
        pipeline_model_parallel_size=pipeline,
        virtual_pipeline_model_parallel_size=virtual if virtual > 1 else None,
        pipeline_dtype=torch.float32, **given["flags"],
    )  # fmt: skip
    chunks = [recorder._chunk(Silent(), config, group, n, SHAPE) for n in range(virtual)]
    for chunk in chunks:
        torch.nn.init.constant_(chunk.scale, 1 + chunk.stage / 10)
    groups = ProcessGroupCollection()
    groups.tp = groups.cp = groups.dp_cp = alone
    groups.embd = groups.pos_embd = None
    groups.pp = group
    train = functools.partial(
        schedules.get_forward_backward_func(pipeline, virtual if virtual > 1 else None),
        forward_step_func=lambda source, chunk: (
            chunk.step(next(source)), lambda output: (output.sum(), {}),
        ),
        data_iterator=[iter(range(given["microbatches"])) for _ in chunks],
        model=chunks, num_microbatches=given["microbatches"], seq_length=SHAPE[0],
        micro_batch_size=SHAPE[1], forward_only=False,
        p2p_communicator=p2p_communication.P2PCommunicator(group, config), pg_collection=groups,
    )  # fmt: skip
    return chunks, train


def play(given: dict[str, Any]) -> tuple[dict[str, float], dict[int, str]]:
    """Run one batch on processes of this machine.

    Args:
        given: ``pipeline``, ``virtual``, ``microbatches``, ``flags``, ``seconds``.

    Returns:
        The gradient of every stage, and the stack of every rank that did not come to its end.
    """
    import torch.multiprocessing as mp

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        context = mp.get_context("spawn")
        ranks = [
            context.Process(target=run, args=(rank, given, port, folder))
            for rank in range(given["pipeline"])
        ]
        for process in ranks:
            process.start()
        end = time.monotonic() + START_S
        while not all(Path(folder, f"{rank}.stack").exists() for rank in range(len(ranks))):
            if time.monotonic() > end or any(process.exitcode for process in ranks):
                break
            time.sleep(0.2)
        end = time.monotonic() + given["seconds"]
        for process in ranks:
            process.join(max(0.0, end - time.monotonic()))
        gradients, stuck = {}, {}
        for rank, process in enumerate(ranks):
            process.kill()
            process.join()
            result = Path(folder, f"{rank}.json")
            if result.exists():
                gradients |= json.loads(result.read_text(encoding="utf-8"))
            else:
                stack = Path(folder, f"{rank}.stack")
                stuck[rank] = stack.read_text(encoding="utf-8") if stack.exists() else ""
    return dict(sorted(gradients.items(), key=lambda item: int(item[0]))), stuck


def place(stack: str) -> str:
    """Return the lines of a stack that belong to Megatron-core's pipeline, innermost first."""
    lines = [line.strip() for line in stack.splitlines() if "pipeline_parallel" in line]
    short = [line.rpartition("/")[2].replace('"', "") for line in lines[:3]]
    return "; ".join(short) or "no stack"


def main() -> int:
    """Run one batch; exit 1 when it hangs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pipeline", type=int, required=True)
    parser.add_argument("--virtual", type=int, default=1)
    parser.add_argument("--microbatches", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=15, help="until it counts as hung")
    parser.add_argument("flags", nargs="*", help="fields of TransformerConfig: NAME=JSON")
    given = vars(parser.parse_args())
    given["flags"] = {name: json.loads(value) for name, _, value in
                      (flag.partition("=") for flag in given["flags"])}  # fmt: skip
    if given["flags"].get("variable_seq_lengths"):
        given["flags"].setdefault("moe_token_dispatcher_type", "alltoall")
    gradients, stuck = play(given)
    for rank, stack in stuck.items():
        print(f"rank {rank} did not end: {place(stack)}")
    print("gradients of the stages:", " ".join(f"{n}:{g:.4f}" for n, g in gradients.items()))
    return 1 if stuck else 0


if __name__ == "__main__":
    raise SystemExit(main())
