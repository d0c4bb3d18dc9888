"""The backends that a recorded program asked for: made as torch makes them, and named."""

from __future__ import annotations

from typing import Any

from planguard.capture.run.record_group import record_group_class
from planguard.errors import UsageError


def asked_for(backend: Any, device: Any) -> str:
    """Return the name that torch gives what ``init_process_group`` is asked for.

    Without a backend that is the device's own, for all the job does: on ``cuda`` nccl, and no gloo
    beside it. With neither it is ``undefined``, which ``BackendConfig`` makes the accelerator's, or
    gloo where there is none (torch 2.13.0, ``distributed_c10d.py``).
    """
    import torch
    import torch.distributed as dist

    if backend is not None:
        return str(backend).lower()
    if isinstance(device, int):
        device = torch.accelerator.current_accelerator()
    known: dict[str, str] = dist.Backend.default_device_backend_map
    return known.get(getattr(device, "type", ""), str(dist.Backend.UNDEFINED))


def _by_device(wanted: str) -> dict[str, str]:
    """Return the backend of each device, as torch reads the name."""
    import torch.distributed as dist

    return dict(dist.BackendConfig(dist.Backend(wanted)).get_device_backend_map())


def inner_group(wanted: str, options: Any, backend_options: Any, device: Any = None) -> Any:
    """Make the group that communicates: torch's own, with the backend of every device.

    Args:
        wanted: Backend that the program asked for.
        options: What torch tells an extended backend of the group.
        backend_options: The program's own ``pg_options``, or None.
        device: Device that the group is bound to. NCCL's communicators are then made at once, and
            those of later groups by splitting, as without the recorder.
    """
    import torch
    import torch.distributed as dist

    group = dist.ProcessGroup(options.store, options.group_rank, options.group_size)
    if device is not None:
        group.bound_device_id = device  # before its backends: they take it from their group
    made: dict[str, Any] = {}
    for where, name in _by_device(wanted).items():
        if name not in made:
            store = dist.PrefixStore(f"{name}/", options.store)
            made[name] = _backend(name, store, options, backend_options)
        kind, backend = made[name]
        group._register_backend(torch.device(where), kind, backend)  # noqa: SLF001 - as torch does
    default, _ = made.get("nccl") or next(iter(made.values()))
    group._set_default_backend(default)  # noqa: SLF001 - as torch does
    group._set_group_name(options.group_id)  # noqa: SLF001 - as torch does
    return group


def _backend(name: str, store: Any, options: Any, backend_options: Any) -> tuple[Any, Any]:
    import torch.distributed as dist
    from torch.distributed import distributed_c10d as c10d

    kinds = dist.ProcessGroup.BackendType
    rank, size, timeout = options.group_rank, options.group_size, options.timeout
    if name == "gloo":
        made = dist.ProcessGroupGloo(store, rank, size, timeout=timeout)
        _say_who(made.options, options)
        made._set_sequence_number_for_group()  # noqa: SLF001 - as torch does
        return kinds.GLOO, made
    if name == "nccl":
        given = backend_options
        if given is None:
            given = dist.ProcessGroupNCCL.Options()
            given.is_high_priority_stream = False
        given._timeout = timeout  # noqa: SLF001 - as torch does
        source = _split_source()
        if source is not None:
            given.split_from = source
            color = c10d._process_group_color  # noqa: SLF001 - as torch does
            given.split_color = color(list(options.global_ranks_in_group))
        _say_who(given, options)
        made = dist.ProcessGroupNCCL(store, rank, size, given)
        made._set_sequence_number_for_group()  # noqa: SLF001 - as torch does
        return kinds.NCCL, made
    raise UsageError(f"the backend {name!r} cannot be recorded", hint="gloo and nccl can")


def _say_who(given: Any, options: Any) -> None:
    """Name the group in what a backend says of itself: its dumps, and its watchdog's lines."""
    given.global_ranks_in_group = list(options.global_ranks_in_group)
    given.group_name = options.group_id


def _split_source() -> Any:
    """Return what a group's communicator is split from, as ``_new_process_group_helper`` does.

    Only a default group that is bound to a device has a communicator for sure.
    """
    import torch.distributed as dist
    from torch.distributed import distributed_c10d as c10d

    if not dist.is_initialized() or not dist.group.WORLD.bound_device_id:
        return None
    return c10d._get_split_source(dist.group.WORLD)  # noqa: SLF001 - as torch does


def of_devices(wanted: str) -> str:
    """Return the one backend that the devices of this machine leave of what was asked for.

    ``cpu:gloo,cuda:nccl`` without a GPU communicates by gloo alone. With one, the list stays: what
    moves on which device is not told by it.
    """
    import torch

    by_device = _by_device(wanted)
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
