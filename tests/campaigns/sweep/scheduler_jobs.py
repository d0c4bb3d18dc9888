"""Jobs of four ranks whose code Inductor makes and orders; torch_sweep.py runs them.

The passes below the graph (``torch/_inductor/comms.py``) move collectives, waits and compute of the
scheduler's nodes. Every job of ``inductor_models``, and a few that recompute what they gathered,
takes a step in eager mode and one compiled; a rank raises if their gradients differ. The compiler's
results are kept between jobs, which needs a folder for itself (``TORCHINDUCTOR_CACHE_DIR``).
"""

from __future__ import annotations

import functools
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn
from torch._inductor import config, config_comms
from torch.utils.checkpoint import checkpoint

from sweep import inductor_models as models

PATIENCE = timedelta(seconds=45)
"""How long a call may take: ranks do not compile equally fast."""
RECOMMENDED = ["reorder_communication_preserving_peak_memory", "sink_waits_iterative",
               "reorder_communication_preserving_peak_memory"]  # fmt: skip
ALIGNED = "runtime_estimations_align_across_all_distributed_ranks"
UNSAFE = ("reorder_iterative_unsafe_collectives_reorder",
          "sink_waits_iterative_unsafe_collectives_reorder")  # fmt: skip
ESTIMATED = ("reorder_iterative_use_runtime_estimations", "sink_iterative_use_runtime_estimations")
GROUPED = ("reorder_iterative_group_with_collectives", "sink_waits_iterative_swap_with_collectives")
BUDGETS = ("reorder_iterative_peak_memory_budget", "sink_iterative_peak_memory_budget")
LISTS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "recommended": (RECOMMENDED, {}),
    "recommended, unsafe options off": (RECOMMENDED, dict.fromkeys(UNSAFE, False)),
    "recommended, aligned": (RECOMMENDED, {ALIGNED: True}),
    "recommended, by estimates": (RECOMMENDED, dict.fromkeys(ESTIMATED, True)),
    "recommended, by estimates, aligned": (
        RECOMMENDED, {ALIGNED: True} | dict.fromkeys(ESTIMATED, True)),
    "recommended, with collectives": (RECOMMENDED, dict.fromkeys(GROUPED, True)),
    "recommended, no more memory": (RECOMMENDED, dict.fromkeys(BUDGETS, 0.0)),
    "memory": (RECOMMENDED[:1], {}),
    "sink waits one by one": (["sink_waits_iterative"], {}),
    "sink waits, raise": (["sink_waits", "raise_comms"], {}),
    "compute for overlap": (["reorder_compute_for_overlap"], {}),
}  # fmt: skip
"""Name to passes in their order and options of ``config_comms``."""


class Recomputed(nn.Module):
    """A sharded layer whose forward pass is taken again in the backward pass."""

    def __init__(self, group: Any) -> None:
        super().__init__()
        rows = models.WIDTH // models.WORLD
        self.weight, self.group = nn.Parameter(torch.randn(rows, models.WIDTH) / 4), group

    def forward(self, x: Any) -> Any:
        """Gather, multiply, clip."""
        return checkpoint(self.inside, x, use_reentrant=False)

    def inside(self, x: Any) -> Any:
        """Gather the weight; its gradient is scattered."""
        return (x @ funcol.all_gather_tensor_autograd(self.weight, 0, self.group)).relu()


def recomputed(mesh: Any) -> Any:
    """Six such layers."""
    return nn.Sequential(*[Recomputed(mesh.get_group()) for _ in range(6)])


DEEP = {"a": 4}
MODELS = models.MODELS | {
    "recomputed": (DEEP, recomputed),
    "recomputed, rank 0 does more": (DEEP, lambda m: models.Extra(recomputed(m))),
    "recomputed, a row less on rank 3": (DEEP, recomputed),
}


def batch(name: str) -> Any:
    """Return the input of this rank."""
    whole = models.batch()
    short = "a row less" in name and dist.get_rank() == models.WORLD - 1
    return whole[:5].detach().requires_grad_() if short else whole


def run(rank: int, _world: int, name: str, passes: list[str], options: dict[str, Any]) -> None:
    """Take both steps; raise if they differ.

    Raises:
        ArithmeticError: The compiled step has other gradients.
    """
    from torch.distributed.device_mesh import init_device_mesh

    dims, make = MODELS[name]
    mesh = init_device_mesh("cpu", tuple(dims.values()), mesh_dim_names=tuple(dims))
    for group in [None, *mesh.get_all_groups()]:
        dist.distributed_c10d._set_pg_timeout(PATIENCE, group)
    torch.manual_seed(rank if name.startswith("recomputed") else 0)
    model, x = make(mesh), batch(name)
    wanted = step(model, model, x)
    name = "reorder_for_compute_comm_overlap"
    given = {name: True, f"{name}_passes": passes, "compile_threads": 1, "fx_graph_cache": False}
    with config.patch(given), config_comms.patch(options):
        got = step(model, torch.compile(model, fullgraph=True), x)
    if not all(torch.allclose(a, b, atol=1e-3) for a, b in zip(got, wanted, strict=True)):
        raise ArithmeticError("other numbers")


def step(model: Any, job: Any, x: Any) -> list[torch.Tensor]:
    """Return the output of a step and its gradients."""
    model.zero_grad()
    result = job(x)
    if result.requires_grad:
        result.float().sum().backward()
    gradients = [one.grad for one in model.parameters() if one.grad is not None]
    local = [one.to_local() if hasattr(one, "to_local") else one for one in gradients]
    return [result.detach().clone(), *[one.clone() for one in local]]


JOBS = {
    f"{name}; {said}": functools.partial(run, name=name, passes=passes, options=options)
    for name in MODELS
    for said, (passes, options) in LISTS.items()
}
