"""One process that plays one rank: the fake process group of torch, which communicates nothing.

The fake group is global to its process, and torch caches what it learns of groups, so a process
plays one rank only once.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from planguard.capture.restarts import RESTARTS
from planguard.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Mesh = tuple[tuple[str, int], ...]
"""Names and sizes of mesh dimensions, outermost first."""


def read_mesh(mesh: Mapping[str, int] | Sequence[tuple[str, int]] | None, world_size: int) -> Mesh:
    """Check a mesh given as ``{"dp": 2, "tp": 4}`` or as pairs.

    Raises:
        UsageError: If it does not tile the world.
    """
    if mesh is None:
        return ()
    pairs = mesh.items() if hasattr(mesh, "items") else mesh
    dims = tuple((str(name), int(size)) for name, size in pairs)
    total = 1
    for _, size in dims:
        total *= size
    if total != world_size:
        raise UsageError(
            f"the mesh {dict(dims)} has {total} ranks, the world has {world_size}",
            hint="the product of the mesh dimensions is the world size",
        )
    return dims


def refuse_real_group() -> None:
    """Refuse to work where a process group exists already.

    Raises:
        UsageError: If ``torch.distributed`` is initialized in this process.
    """
    import torch.distributed as dist

    if dist.is_initialized():
        raise UsageError(
            f"torch.distributed is already initialized (backend {dist.get_backend()})",
            hint="capture before init_process_group: a capture brings its own fake process group",
        )


_OTHERS = {
    "NODE_RANK": "GROUP_RANK", "SLURM_NODEID": "GROUP_RANK", "SLURM_PROCID": "RANK",
    "SLURM_LOCALID": "LOCAL_RANK", "SLURM_NTASKS": "WORLD_SIZE", "PMI_RANK": "RANK",
    "OMPI_COMM_WORLD_RANK": "RANK", "OMPI_COMM_WORLD_LOCAL_RANK": "LOCAL_RANK",
    "OMPI_COMM_WORLD_SIZE": "WORLD_SIZE", "PMI_SIZE": "WORLD_SIZE", "PMIX_RANK": "RANK",
    "OMPI_COMM_WORLD_NODE_RANK": "LOCAL_RANK", "MPI_LOCALRANKID": "LOCAL_RANK",
    "MV2_COMM_WORLD_RANK": "RANK", "MV2_COMM_WORLD_LOCAL_RANK": "LOCAL_RANK",
    "MV2_COMM_WORLD_SIZE": "WORLD_SIZE", "SLURM_NPROCS": "WORLD_SIZE",
    "PALS_RANKID": "RANK", "PALS_LOCAL_RANKID": "LOCAL_RANK", "FLUX_TASK_RANK": "RANK",
    "FLUX_TASK_LOCAL_ID": "LOCAL_RANK", "JSM_NAMESPACE_RANK": "RANK",
    "JSM_NAMESPACE_LOCAL_RANK": "LOCAL_RANK", "JSM_NAMESPACE_SIZE": "WORLD_SIZE",
    "HOROVOD_RANK": "RANK", "HOROVOD_LOCAL_RANK": "LOCAL_RANK", "HOROVOD_SIZE": "WORLD_SIZE",
    "PADDLE_TRAINER_ID": "RANK", "PADDLE_TRAINERS_NUM": "WORLD_SIZE",
}  # fmt: skip
"""What other launchers say in other words, where this process was started by one of them."""


@contextmanager
def environment(rank: int, world_size: int, local_size: int | None = None) -> Iterator[None]:
    """Set the variables that torchrun sets, and restore them."""
    node = local_size or world_size
    wanted = {
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_RANK": str(rank % node),
        "LOCAL_WORLD_SIZE": str(node),
        "GROUP_RANK": str(rank // node),
        "GROUP_WORLD_SIZE": str(-(-world_size // node)),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": "29500",
        "TORCHELASTIC_RUN_ID": "planguard",
        RESTARTS: os.environ.get(RESTARTS, "0"),
    }
    others = {name: wanted[of] for name, of in _OTHERS.items() if name in os.environ}
    wanted |= others
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def make_mesh(dims: Mesh) -> Any:
    """Build the DeviceMesh of this process, None without dimensions."""
    if not dims:
        return None
    from torch.distributed.device_mesh import init_device_mesh

    sizes = tuple(size for _, size in dims)
    return init_device_mesh("cpu", sizes, mesh_dim_names=tuple(name for name, _ in dims))


@contextmanager
def fake_world(rank: int, world_size: int) -> Iterator[None]:
    """Play one rank: initialize the fake process group, and destroy it at the end."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    refuse_real_group()
    with environment(rank, world_size):
        dist.init_process_group("fake", rank=rank, world_size=world_size, store=FakeStore())
        try:
            yield
        finally:
            dist.destroy_process_group()
