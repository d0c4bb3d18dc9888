"""One rank of a real DDP job; run by ``recorded_gloo.record``."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

from recorded_gloo import serve

CONSTRUCTOR = (
    "bucket_cap_mb",
    "bucket_cap_mb_list",
    "find_unused_parameters",
    "static_graph",
    "gradient_as_bucket_view",
    "broadcast_buffers",
    "init_sync",
)


def make(name: str) -> Any:
    """Return a module that shows something of DDP."""
    import torch
    from torch import nn

    class Branched(nn.Module):
        """Leaves out parts by name, as a data-dependent branch would."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(32, 32)
            self.middle = nn.Linear(32, 32, bias=False)
            self.outer = nn.Linear(32, 8)
            self.skipped: set[str] = set()

        def forward(self, x: Any) -> Any:
            x = self.inner(x)
            if "middle.weight" not in self.skipped:
                x = self.middle(x)
            return self.outer(x)

    class Mixed(nn.Module):
        """Parameters of two dtypes, one of them frozen, one shared."""

        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(32, 32)
            self.second = nn.Linear(32, 32).double()
            self.last = nn.Linear(32, 32)
            self.last.weight = self.first.weight
            self.first.bias.requires_grad_(False)

        def forward(self, x: Any) -> Any:
            return self.last(self.second(self.first(x).double()).float())

    torch.manual_seed(0)
    if name == "linears":
        return nn.Sequential(*[nn.Linear(32, 32) for _ in range(6)])
    if name == "norms":
        blocks = [nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(32)) for _ in range(3)]
        return nn.Sequential(*blocks)
    if name == "transformer":
        return nn.TransformerEncoderLayer(32, 2, dim_feedforward=64, batch_first=True)
    return {"branched": Branched, "mixed": Mixed}[name]()


def body(rank: int, _: int, job: dict[str, Any]) -> None:
    """Train a module for some iterations."""
    import torch
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    options = {**job["options"], **job.get("rank_options", {}).get(str(rank), {})}
    module = make(job["module"])
    module.skipped = set(options.get("unused", ()))
    given = {key: value for key, value in options.items() if key in CONSTRUCTOR}
    wrapped = torch.nn.parallel.DistributedDataParallel(module, **given)
    if options.get("comm_hook") == "fp16_compress":
        wrapped.register_comm_hook(None, default_hooks.fp16_compress_hook)
    for step in range(options.get("steps", 2)):
        quiet = step in options.get("no_sync", ())
        with wrapped.no_sync() if quiet else contextlib.nullcontext():
            shape = (4, 5, 32) if job["module"] == "transformer" else (4, 32)
            wrapped(torch.randn(shape)).sum().backward()


if __name__ == "__main__":
    serve(body)
