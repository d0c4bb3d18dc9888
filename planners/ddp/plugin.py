"""The adapter: a module, a wrapped module or a file in, a plan out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.errors import PlanError

from ..common.job import Job, JobReader
from ..common.module import is_module
from ..common.reading import At, load_json, starts_with_schema
from .emit import emit
from .options import DdpOptions, read_options

if TYPE_CHECKING:
    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.plan import Plan


JOBS = JobReader("ddp", read_options)


class DdpAdapter:
    """Adapter for ``DistributedDataParallel`` (torch 2.11 to 2.14).

    Attributes:
        name: ``ddp``.
    """

    name = "ddp"

    def sniff(self, obj: object) -> bool:
        """Recognize a wrapped module or a file ``planguard.ddp/1``.

        A plain ``nn.Module`` says nothing about how it is parallelized: name the adapter for it.
        """
        if isinstance(obj, str | Path):
            return starts_with_schema(obj, JOBS.schema)
        if isinstance(obj, dict):
            return obj.get("schema") == JOBS.schema
        return is_wrapped(obj)

    def adapt(self, obj: object, builder: type[PlanBuilder], **options: object) -> Plan:
        """Turn a module and its options into a plan, without running it.

        Args:
            obj: An ``nn.Module`` (with ``world_size``), a module wrapped in
                ``DistributedDataParallel``, or a file ``planguard.ddp/1`` as path or object.
            builder: The ``PlanBuilder`` class.
            options: ``world_size`` and the fields of ``DdpOptions``.

        Raises:
            PlanError: The file is malformed, or an option names an unknown parameter.
            UsageError: An option does not exist or has an impossible value.
        """
        return emit(_job(obj, dict(options)), builder)


def is_wrapped(obj: object) -> bool:
    """Tell whether an object is a ``DistributedDataParallel``, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(obj, torch.nn.parallel.DistributedDataParallel)


def _job(obj: object, given: dict[str, Any]) -> Job[DdpOptions]:
    if isinstance(obj, str | Path):
        return JOBS.of_file(load_json(Path(obj)), given)
    if isinstance(obj, dict):
        return JOBS.of_file(At(obj), given)
    if is_wrapped(obj):
        return _from_wrapped(obj, given)
    if is_module(obj):
        return JOBS.of_module(obj, given)
    raise PlanError(
        "not a module for DDP",
        path="input",
        value=type(obj).__name__,
        hint="give an nn.Module, a DistributedDataParallel or a file planguard.ddp/1",
    )


def _from_wrapped(wrapped: Any, given: dict[str, Any]) -> Job[DdpOptions]:
    """Read the options that a wrapped module was made with."""
    config = wrapped._bucket_config  # noqa: SLF001 - torch has no public way
    megabytes = 1 << 20
    found: dict[str, Any] = {
        "find_unused_parameters": bool(wrapped.find_unused_parameters),
        "static_graph": bool(wrapped.static_graph),
        "broadcast_buffers": bool(wrapped.broadcast_buffers),
        "gradient_as_bucket_view": bool(wrapped.gradient_as_bucket_view),
    }
    if config.per_bucket_bytes_caps:
        caps = config.per_bucket_bytes_caps
        found["bucket_cap_mb_list"] = [cap / megabytes for cap in caps]
    elif config.first_bucket_bytes_cap == config.bucket_bytes_cap:
        found["bucket_cap_mb"] = config.bucket_bytes_cap / megabytes
    hooks = getattr(wrapped, "_comm_hooks", [])
    if hooks:
        found["comm_hook"] = _hook(hooks[0][0])
    given.setdefault("world_size", wrapped.process_group.size())
    return JOBS.of_module(wrapped.module, given, found)


def _hook(hook: Any) -> str:
    names = {
        "allreduce_hook": "allreduce",
        "fp16_compress_hook": "fp16_compress",
        "bf16_compress_hook": "bf16_compress",
        "noop_hook": "noop",
    }
    return names.get(getattr(hook, "__name__", ""), "custom")


def dump(module: Any, path: str | Path, *, world_size: int, **options: Any) -> None:
    """Write a module and its options as a file ``planguard.ddp/1``, which needs no code to read.

    Args:
        module: An ``nn.Module``; it is not run.
        path: Where to write.
        world_size: Number of ranks.
        options: Fields of ``DdpOptions``.

    Raises:
        UsageError: An option does not exist or has an impossible value.
    """
    JOBS.dump(module, path, world_size, options)
