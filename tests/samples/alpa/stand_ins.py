"""What stands in for the rest of Alpa and for jax 0.3.22 while its planner code runs.

jax's ``ShardingSpec``; stages with their variables; hosts that take every task and run none.
"""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

# --- what of jax 0.3.22 is needed --------------------------------------------------------------


@dataclass(frozen=True)
class NoSharding:
    """A dimension that is not split."""


@dataclass(frozen=True)
class Chunked:
    """A dimension split into chunks."""

    chunks: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "chunks", list(self.chunks))


@dataclass(frozen=True)
class ShardedAxis:
    """A mesh dimension along which a chunked axis runs."""

    axis: int


@dataclass(frozen=True)
class Replicated:
    """A mesh dimension along which the data repeats."""

    replicas: int


@dataclass
class ShardingSpec:
    """How an array lies on a mesh."""

    sharding: Any
    mesh_mapping: Any

    def __post_init__(self) -> None:
        self.sharding, self.mesh_mapping = tuple(self.sharding), tuple(self.mesh_mapping)

    def sharding_proto(self) -> Any:
        """Return tile dimensions and devices, as ``sharding_spec_sharding_proto`` of jax does."""
        import numpy as np

        sizes = [c for s in self.sharding for c in (s.chunks if isinstance(s, Chunked) else [])]
        shape = [
            m.replicas if isinstance(m, Replicated) else sizes[m.axis] for m in self.mesh_mapping
        ]
        order = sorted(
            (n for n, m in enumerate(self.mesh_mapping) if isinstance(m, ShardedAxis)),
            key=lambda n: self.mesh_mapping[n].axis,
        )
        copies = [n for n, m in enumerate(self.mesh_mapping) if isinstance(m, Replicated)]
        devices = np.arange(int(np.prod(shape))).reshape(shape).transpose(order + copies)
        dims = [int(np.prod(s.chunks)) if isinstance(s, Chunked) else 1 for s in self.sharding]
        extra = [int(np.prod([shape[n] for n in copies]))] if copies else []
        return types.SimpleNamespace(
            tile_assignment_dimensions=dims + extra, tile_assignment_devices=devices.flatten()
        )


# --- stages, hosts and devices -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Var:
    """A variable with its shape and type."""

    name: str
    shape: tuple[int, ...]

    @property
    def aval(self) -> Any:
        """Return the abstract value."""
        import numpy as np

        return types.SimpleNamespace(shape=self.shape, dtype=np.dtype("float32"))


class Stage:
    """A stage as the emitters see it: variables in and out, with their shardings."""

    def __init__(self, text: str, invars: Any, outvars: Any, donated: Any = ()) -> None:
        self.text = text
        self.invars = [var for var, _ in invars]
        self.outvars = [var for var, _ in outvars]
        self.input_sharding_specs = [spec for _, spec in invars]
        self.output_sharding_specs = [spec for _, spec in outvars]
        self.donated_invars = [var in donated for var in self.invars]
        self.stage_plan = None

    def get_spmd_partitioned(self) -> Any:
        """Return the module for all devices of the mesh, of which only the text is asked."""
        return types.SimpleNamespace(to_string=lambda: self.text)

    def get_hlo_text(self) -> str:
        """Return no text; nothing is compiled here."""
        return ""


class Worker:
    """A host: it takes every task and runs none."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return types.SimpleNamespace(remote=lambda *_, **__: None)


class Mesh:
    """Hosts with devices."""

    def __init__(self, number: int, hosts: int, width: int) -> None:
        self.mesh_id = number
        self.host_ips = [f"10.0.{number}.{host}" for host in range(hosts)]
        self.host_info = [{"NodeManagerAddress": ip} for ip in self.host_ips]
        self.num_hosts, self.num_devices_per_host = hosts, width
        self.num_devices = hosts * width
        self.shape = (hosts, width)
        self.devices = [list(range(width))] * hosts
        self.device_strs = [f"{ip}:{d}" for ip in self.host_ips for d in range(width)]
        self.workers = [Worker(f"m{number}h{host}") for host in range(hosts)]


class MeshGroup(list):  # type: ignore[type-arg]
    """All meshes, and the groups between two of them."""

    collective_groups: Any

    def establish_nccl_group(self, *_: Any, **__: Any) -> None:
        """Create nothing."""
