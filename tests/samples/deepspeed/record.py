"""Run a real DeepSpeed engine on gloo and write what every rank asked torch.distributed for.

    DS_ACCELERATOR=cpu python tests/samples/deepspeed/record.py pp2-train OUT_FOLDER

Needs deepspeed 0.18.2 and torch 2.13.0 on a CPU. ``regenerate.py`` runs it for every job in JOBS;
the tests compare the plans of the dumps with the recordings, call by call.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "planners" / "deepspeed"))

Config = dict[str, Any]
_NO_BUFFERS = {
    "stage3_param_persistence_threshold": 0, "stage3_prefetch_bucket_size": 0,
    "stage3_max_reuse_distance": 0, "stage3_max_live_parameters": 0,
}  # fmt: skip
JOBS: dict[str, Config] = {
    "pp2-train": {"world": 2, "stages": 2, "micro_batches": 3},
    "pp4-train": {"world": 4, "stages": 4, "micro_batches": 6},
    "pp2dp2-tied": {"world": 4, "stages": 2, "micro_batches": 3, "tied": True},
    "pp2dp2-zero1": {"world": 4, "stages": 2, "micro_batches": 2, "zero": {"stage": 1}},
    "pp3-eval": {"world": 3, "stages": 3, "micro_batches": 4, "eval": True},
    "dp2-zero0": {"world": 2, "stages": 0, "micro_batches": 2},
    "dp2-zero1": {"world": 2, "stages": 0, "micro_batches": 2, "zero": {"stage": 1}},
    "dp2-zero2": {"world": 2, "stages": 0, "micro_batches": 2, "zero": {"stage": 2}},
    "dp2-zero3": {"world": 2, "stages": 0, "micro_batches": 1,
                  "zero": {"stage": 3, **_NO_BUFFERS}},
}  # fmt: skip
_CALLS = (
    "send", "recv", "all_reduce", "broadcast", "all_gather_into_tensor", "reduce_scatter_tensor",
)  # fmt: skip
_WIDTH = 8


class Log:
    """Calls of torch.distributed, in order."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def install(self) -> None:
        """Put a recorder around every call."""
        import torch.distributed as dist

        for name in _CALLS:
            setattr(dist, name, self._around(getattr(dist, name), name))

    def _around(self, call: Any, name: str) -> Any:
        import torch
        import torch.distributed as dist

        def recorded(*arguments: Any, **named: Any) -> Any:
            given = [*arguments, *named.values()]
            tensors = [value for value in given if torch.is_tensor(value)]
            group = named.get("group")
            size = tensors[-1] if name == "all_gather_into_tensor" else tensors[0]
            entry = {"op": name, "count": size.numel(), "dtype": str(size.dtype)[6:]}
            if group is not None:
                entry["group"] = dist.get_process_group_ranks(group)
            entry |= {key: named[key] for key in ("src", "dst") if key in named}
            self.calls.append(entry)
            return call(*arguments, **named)

        return recorded


def engine_of(config: Config) -> Any:
    """Return an engine of a small MLP: a pipeline, or plain when ``stages`` is 0."""
    import deepspeed  # type: ignore[import-not-found]
    import torch
    from deepspeed.pipe import (  # type: ignore[import-not-found]
        LayerSpec,
        PipelineModule,
        TiedLayerSpec,
    )
    from deepspeed.runtime.pipe.topology import (  # type: ignore[import-not-found]
        PipeDataParallelTopology,
    )
    from torch import nn

    torch.manual_seed(0)
    stages = config["stages"]
    if stages:
        layers = [LayerSpec(nn.Linear, _WIDTH, _WIDTH) for _ in range(stages)]
        if config.get("tied"):
            ends = [TiedLayerSpec("ends", nn.Linear, _WIDTH, _WIDTH) for _ in range(2)]
            layers = [ends[0], *layers, ends[1]]
        topology = PipeDataParallelTopology(stages, config["world"] // stages)
        model: Any = PipelineModule(
            layers=layers, topology=topology, loss_fn=nn.MSELoss(), partition_method="uniform"
        )
    else:
        model = nn.Sequential(*[nn.Linear(_WIDTH, _WIDTH) for _ in range(4)])
    settings: Config = {
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": config["micro_batches"],
        "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
        "zero_allow_untested_optimizer": True,
        "steps_per_print": 1_000_000,
    }
    if "zero" in config:
        zero = {"reduce_bucket_size": 150, "overlap_comm": False, **config["zero"]}
        settings["zero_optimization"] = zero
    return deepspeed.initialize(
        model=model, config=settings, model_parameters=list(model.parameters())
    )[0]


def train(engine: Any, config: Config) -> None:
    """Run one batch."""
    import torch

    def batches() -> Any:
        while True:
            yield torch.randn(2, _WIDTH), torch.randn(2, _WIDTH)

    source = batches()
    if config["stages"]:
        engine.eval_batch(source) if config.get("eval") else engine.train_batch(source)
        return
    for _ in range(config["micro_batches"]):
        inputs, target = next(source)
        engine.backward(((engine(inputs) - target) ** 2).mean())
        engine.step()


def fields_of(config: Config) -> Config:
    """Return what the hook is told about a pipeline of these jobs."""
    stages = config["stages"]
    layer = [("weight", [_WIDTH, _WIDTH]), ("bias", [_WIDTH])]

    def named(name: str, kept: int = 2) -> list[Config]:
        return [{"name": f"{name}.{n}", "shape": s, "dtype": "float32"} for n, s in layer[:kept]]

    parameters = [named(f"{stage}") for stage in range(stages)]
    fields: Config = {
        "boundaries": [[{"shape": [2, _WIDTH], "dtype": "float32"}]] * (stages - 1),
        "parameters": parameters,
    }
    if config.get("tied"):
        for stage in (0, -1):
            parameters[stage] += named("tied.ends")
        fields["tied"] = [
            {"key": "ends", "stages": [0, stages - 1], "parameters": named("ends", 1)}
        ]
    return fields


def worker(rank: int, name: str, port: int, folder: str) -> None:
    """Be one rank: make the engine, dump what it intends, then record one batch."""
    import torch

    config = JOBS[name]
    os.environ |= {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(config["world"]),
        "LOCAL_SIZE": str(config["world"]), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        "DS_ACCELERATOR": "cpu",
    }  # fmt: skip
    torch.set_num_threads(1)
    log = Log()
    log.install()
    import deepspeed
    import hook  # type: ignore[import-not-found]
    from deepspeed.runtime.pipe import schedule  # type: ignore[import-not-found]

    deepspeed.init_distributed(dist_backend="gloo")
    engine = engine_of(config)
    if rank == 0:
        chosen = schedule.InferenceSchedule if config.get("eval") else None
        fields = fields_of(config) if config["stages"] else {}
        hook.dump_engine(engine, f"{folder}/{name}.deepspeed.json", chosen, **fields)
    log.calls.clear()
    train(engine, config)
    Path(f"{folder}/{name}.{rank}.calls").write_text(json.dumps(log.calls), encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)  # the engine's threads outlive the job


def main() -> None:
    """Record one job."""
    import torch.multiprocessing as mp

    name, folder = sys.argv[1:]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    world = JOBS[name]["world"]
    mp.spawn(worker, (name, port, folder), nprocs=world)
    ranks = [
        json.loads(Path(f"{folder}/{name}.{rank}.calls").read_text(encoding="utf-8"))
        for rank in range(world)
    ]
    for rank in range(world):
        Path(f"{folder}/{name}.{rank}.calls").unlink()
    lines = [f" {json.dumps(calls)}" for calls in ranks]
    text = "[\n" + ",\n".join(lines) + "\n]\n"
    Path(folder, "recorded", f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
