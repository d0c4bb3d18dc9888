"""The backends that a recorded program asked for: made as torch makes them, and named."""

from __future__ import annotations

from typing import Any

from planguard.capture.run.record_group import record_group_class
from planguard.errors import UsageError


def inner_group(wanted: str, options: Any, backend_options: Any) -> Any:
    """Make the group that communicates: torch's own, with the backend of every device."""
    import torch
    import torch.distributed as dist

    by_device = dict(part.split(":") for part in wanted.split(",")) if ":" in wanted else {}
    if not by_device:
        by_device = {"cuda" if wanted == "nccl" else "cpu": wanted}
        if wanted == "gloo" and torch.cuda.is_available():
            by_device["cuda"] = "gloo"
    group = dist.ProcessGroup(options.store, options.group_rank, options.group_size)
    made: dict[str, Any] = {}
    for device, name in by_device.items():
        if name not in made:
            store = dist.PrefixStore(f"{name}/", options.store)
            made[name] = _backend(name, store, options, backend_options)
        kind, backend = made[name]
        group._register_backend(torch.device(device), kind, backend)  # noqa: SLF001 - as torch does
    group._set_default_backend(next(iter(made.values()))[0])  # noqa: SLF001 - as torch does
    group._set_group_name(options.group_id)  # noqa: SLF001 - as torch does
    return group


def _backend(name: str, store: Any, options: Any, backend_options: Any) -> tuple[Any, Any]:
    import torch.distributed as dist

    kinds = dist.ProcessGroup.BackendType
    rank, size, timeout = options.group_rank, options.group_size, options.timeout
    if name == "gloo":
        made = dist.ProcessGroupGloo(store, rank, size, timeout=timeout)
        made._set_sequence_number_for_group()  # noqa: SLF001 - as torch does
        return kinds.GLOO, made
    if name == "nccl":
        given = backend_options or dist.ProcessGroupNCCL.Options()
        given._timeout = timeout  # noqa: SLF001 - as torch does
        made = dist.ProcessGroupNCCL(store, rank, size, given)
        made._set_sequence_number_for_group()  # noqa: SLF001 - as torch does
        return kinds.NCCL, made
    raise UsageError(f"the backend {name!r} cannot be recorded", hint="gloo and nccl can")


def of_devices(wanted: str) -> str:
    """Return the one backend that the devices of this machine leave of a list by device.

    ``cpu:gloo,cuda:nccl`` without a GPU communicates by gloo alone. With one, the list stays: what
    moves on which device is not told by it.
    """
    import torch

    by_device = dict(part.split(":", 1) for part in wanted.split(",") if ":" in part)
    if not by_device:
        return wanted
    if "cpu" in by_device and not torch.cuda.is_available():
        return by_device["cpu"]
    names = set(by_device.values())
    return names.pop() if len(names) == 1 else wanted


def named(original: Any) -> Any:
    """Let ``get_backend`` name the backend that the program asked for."""

    def get_backend(group: Any = None) -> Any:
        import torch.distributed as dist

        found = group if group is not None else dist.group.WORLD
        return found.backend if isinstance(found, record_group_class()) else original(group)

    return get_backend


def configured(original: Any) -> Any:
    """Let ``get_backend_config`` do so, too."""

    def get_backend_config(group: Any = None) -> str:
        import torch.distributed as dist

        found = group if group is not None else dist.group.WORLD
        if not isinstance(found, record_group_class()):
            return str(original(group))
        original(group)  # who is no member is told so
        return str(dist.BackendConfig(dist.Backend(found.backend)))

    return get_backend_config
