"""One rank of a real FSDP2 job; run by ``recorded_gloo.record``."""

from __future__ import annotations

import warnings
from fnmatch import fnmatchcase
from typing import Any

from recorded_gloo import serve


def make(name: str) -> Any:
    """Return a module that shows something of FSDP2."""
    import torch
    from torch import nn

    class Model(nn.Module):
        """An embedding and a head in the root, blocks between them."""

        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Linear(30, 30)
            self.blocks = nn.ModuleList(
                nn.Sequential(nn.Linear(30, 30), nn.Linear(30, 30)) for _ in range(4)
            )
            self.head = nn.Linear(30, 7)
            self.run = range(4)

        def forward(self, x: Any) -> Any:
            x = self.embed(x)
            for block in self.run:
                x = self.blocks[block](x)
            return self.head(x)

    torch.manual_seed(0)
    if name == "linears":
        return nn.Sequential(*[nn.Linear(30, 30) for _ in range(4)])
    if name == "frozen":
        module = nn.Sequential(*[nn.Linear(30, 30) for _ in range(4)])
        module[0].requires_grad_(requires_grad=False)
        module[2].bias.requires_grad_(requires_grad=False)
        return module
    return Model()


def shard(module: Any, options: dict[str, Any], world: int) -> None:
    """Apply ``fully_shard`` to the units and the root."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    copies = options.get("replicate", 1)
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("shard",))
    if copies > 1:
        names = ("replicate", "shard")
        mesh = init_device_mesh("cpu", (copies, world // copies), mesh_dim_names=names)
    dtypes = {
        key: getattr(torch, options[key])
        for key in ("param_dtype", "reduce_dtype")
        if key in options
    }
    policy = MixedPrecisionPolicy(**dtypes)
    given = {"mesh": mesh, "mp_policy": policy}
    for name, inner in reversed(list(module.named_modules())):
        unit = any(
            len(name.split(".")) == len(p.split(".")) and fnmatchcase(name, p)
            for p in options["units"]
        )
        if name and unit:
            value = options.get("reshard_units", {}).get(name, options.get("reshard_after_forward"))
            fully_shard(inner, reshard_after_forward=value, **given)
    if options.get("root", True):
        fully_shard(module, reshard_after_forward=options.get("reshard_after_forward"), **given)
    units = [inner for name, inner in module.named_modules() if name and _is_unit(inner)]
    ahead, back = options.get("forward_prefetch", 0), options.get("backward_prefetch")
    for at, unit in enumerate(units):
        if ahead:
            unit.set_modules_to_forward_prefetch(units[at + 1 : at + 1 + ahead])
        if back:
            unit.set_modules_to_backward_prefetch(units[max(at - back, 0) : at][::-1])


def _is_unit(module: Any) -> bool:
    from torch.distributed.fsdp import FSDPModule

    return isinstance(module, FSDPModule)


def body(rank: int, world: int, job: dict[str, Any]) -> None:
    """Train a module for some iterations."""
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    options = {**job["options"], **job.get("rank_options", {}).get(str(rank), {})}
    module = make(job["module"])
    shard(module, options, world)
    if "order" in options:
        module.run = [int(name.rpartition(".")[2]) for name in options["order"]]
    for step in range(options.get("steps", 1)):
        module.set_requires_gradient_sync(step not in options.get("no_sync", ()))
        module(torch.randn(4, 30)).sum().backward()


if __name__ == "__main__":
    serve(body)
