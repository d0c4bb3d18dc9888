"""Scripts that name CUDA devices, played on a machine with fewer of them than ranks, or with none.

Which calls a rank issues does not depend on where its tensors lie; only a program that asks for a
device could not be played at all. Without CUDA a device is the CPU. With fewer devices than a node
has ranks, ranks share them: ``cuda:3`` is ``cuda:1`` of two. Where there are enough, nothing is
changed.

A program that asks whether there is a device is told what is true, and goes its way on the CPU. Its
job has devices, unless it is one of gloo or MPI: so it is played again and told that each rank has
one (``Devices``). What fails then, since there is none, leaves its first play undecided.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from planguard.sources import is_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from planguard.capture.play.logs import RankLog

_NOTHING = ("set_device", "synchronize", "empty_cache", "reset_peak_memory_stats", "ipc_collect")
_ZERO = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
_BY_INDEX = ("torch.cuda", "torch.cuda.memory", "torch.cuda._utils")
"""Modules of torch that hold the function which reads a device's number."""
_CHOSEN = ("set_device_index", "set_device_idx", "synchronize", "empty_cache")
"""Functions of torch.accelerator that do nothing where there is none."""
KIND = "devices"
"""Of the ledger's entries: what a program was told of devices that are not there."""
ENDS = " and ends where there is none"
GOES_ON = " and goes on where there is none"
FAILS = " and fails here if it is told of one ({}): what it communicates then was not played"


@dataclass
class Devices:
    """What a program is told when it asks whether there is a device, where there is none.

    Attributes:
        are_told: It is told of one for every rank of its node.
        asked: Places where it asked and was told of none.
    """

    are_told: bool = False
    asked: list[str] = field(default_factory=list)


def wanted_in(logs: Mapping[int, RankLog]) -> str:
    """Return where a program that ended before it communicated had asked for a device.

    Empty where one rank issued something, waits, or ended without having asked.
    """
    for log in logs.values():
        if log.actions or log.left_at or not log.devices or not (log.ended or log.end):
            return ""
    return next((log.devices[0] for log in logs.values()), "")


def asked_in(logs: Mapping[int, RankLog]) -> str:
    """Return where a program asked for a device and went on without one, to its end."""
    if any(log.end for log in logs.values()):
        return ""
    return next((place for log in logs.values() for place in log.devices), "")


def note_told(logs: Mapping[int, RankLog], asked: str, why: str) -> None:
    """Say in the ledger what a program that asks for devices was told of them.

    Args:
        logs: What its ranks did.
        asked: Where it asked and was told of devices; empty where it was told of none.
        why: What else is to be said of that; empty where it was told of none, and has none.
    """
    told = "it was told that each rank has one, and played on the CPU"
    direction = "exact"
    if not asked:
        asked = next((place for log in logs.values() for place in log.devices), "")
        told = "it was told that there is none"
        direction = "under" if why else "exact"
    message = f"the program asks whether there is a GPU ({asked}){why}; {told}"
    for log in logs.values() if asked else ():
        log.notes.append((KIND, message, direction))


@contextmanager
def devices_for_ranks(devices: Devices | None = None) -> Iterator[None]:
    """Give a rank the devices that it names, as far as there are any, to the end of the block."""
    import torch

    with ExitStack() as stack:
        if not torch.cuda.is_available():
            _on_cpu(stack, devices or Devices())
        elif (there := torch.cuda.device_count()) < _local_size():
            _shared(stack, there)
        yield


def _local_size() -> int:
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def _set(stack: ExitStack, owner: Any, name: str, value: Any) -> None:
    stack.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)


def _counted(original: Any) -> Any:
    """Return a ``device_count`` that tells the program of a device for every rank of its node.

    Libraries ask whether there is a device to choose, and are told what is true.
    """

    def device_count() -> int:
        caller = sys._getframe(1).f_code.co_filename  # noqa: SLF001 - no public way
        return _local_size() if is_program(caller) else int(original())

    return device_count


def _without_devices(original: Any) -> Any:
    def init(ddp: Any, module: Any, *args: Any, **options: Any) -> None:
        for name in ("device_ids", "output_device"):
            options.pop(name, None)
        original(ddp, module, *([None] * min(2, len(args))), *args[2:], **options)

    return init


# --- no device -----------------------------------------------------------------------------------


def _on_cpu(stack: ExitStack, devices: Devices) -> None:
    """Let ``cuda`` mean the CPU."""
    import torch

    _set(
        stack, torch.cuda, "is_available", _answered(torch.cuda.is_available, devices, lambda: True)
    )
    # A build for CUDA names it as its accelerator also where there is no device.
    built_for = torch.accelerator.current_accelerator()
    if built_for is None or built_for.type == "cuda":
        _accelerated(stack, devices)
    for name in _NOTHING:
        _set(stack, torch.cuda, name, lambda *_, **__: None)
    for name in _ZERO:
        _set(stack, torch.cuda, name, lambda *_, **__: 0)
    _set(stack, torch.cuda, "current_device", lambda: int(os.environ.get("LOCAL_RANK", "0")))
    _set(stack, torch.cuda, "device_count", _counted(torch.cuda.device_count))
    _set(stack, torch.nn.Module, "cuda", lambda module, *_: module)
    ddp = torch.nn.parallel.DistributedDataParallel
    _set(stack, ddp, "__init__", _without_devices(ddp.__init__))
    loading = torch.serialization
    _set(stack, loading, "default_restore_location", _restoring(loading.default_restore_location))
    scaler = torch.amp.GradScaler
    _set(stack, scaler, "__init__", _scaling(scaler.__init__))
    # A backward pass runs below the mode, and a DTensor moves tensors to its mesh there.
    mesh = sys.modules["torch.distributed.device_mesh"].DeviceMesh
    _set(stack, mesh, "__init__", _meshed(mesh.__init__))
    stays = {torch.Tensor.cuda, torch.Tensor.pin_memory}  # the second is for what is copied from
    stack.enter_context(_mode_class()(_to_cpu, torch.device("cpu"), stays))


def _answered(original: Any, devices: Devices, told: Callable[[], Any]) -> Any:
    """Return a function that answers the program as ``devices`` says, and libraries truly."""

    def answer(*args: Any, **options: Any) -> Any:
        frame = sys._getframe(1)  # noqa: SLF001 - no public way
        if not is_program(frame.f_code.co_filename):
            return original(*args, **options)
        if devices.are_told:
            return told()
        devices.asked.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        return original(*args, **options)

    return answer


def _accelerated(stack: ExitStack, devices: Devices) -> None:
    """Let ``torch.accelerator`` be CUDA's where the program is told of devices."""
    import torch
    import torch.distributed as dist

    accelerator, cuda = torch.accelerator, torch.device("cuda")  # made before it means the CPU
    for name in _CHOSEN:
        _set(stack, accelerator, name, lambda *_, **__: None)
    _set(stack, accelerator, "device_index", lambda *_, **__: nullcontext())
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    told: dict[str, Callable[[], Any]] = {
        "is_available": lambda: True,
        "current_accelerator": lambda: cuda,
        "device_count": _local_size,
        "current_device_index": lambda: rank,
        "current_device_idx": lambda: rank,
    }
    for name, value in told.items():
        _set(stack, accelerator, name, _answered(getattr(accelerator, name), devices, value))
    if devices.are_told:  # what names a device is the CPU by now, and the backend is the device's
        name = "get_default_backend_for_device"
        _set(stack, dist, name, _answered(getattr(dist, name), devices, lambda: "nccl"))


def _to_cpu(device: Any) -> Any:
    """Return the CPU for a CUDA device; everything else as it is."""
    import torch

    if isinstance(device, torch.device) and device.type == "cuda":
        return torch.device("cpu")
    if isinstance(device, str) and device.partition(":")[0] == "cuda":
        return torch.device("cpu")
    return device


def _meshed(original: Any) -> Any:
    """Let a mesh of CUDA devices be one of the CPU."""

    def init(mesh: Any, device_type: str, *args: Any, **options: Any) -> None:
        original(mesh, str(_to_cpu(device_type)), *args, **options)

    return init


def _restoring(original: Any) -> Any:
    """Let what ``torch.load`` brings to a CUDA device stay where it is (torch 2.13.0)."""

    def default_restore_location(storage: Any, location: Any) -> Any:
        return original(storage, str(_to_cpu(location)))

    return default_restore_location


def _scaling(original: Any) -> Any:
    """Let a gradient scaler for CUDA scale on the CPU: torch would switch it off.

    A scaler that is switched off reads no ``found_inf``, on which every rank decides for itself.
    """

    def init(scaler: Any, device: str = "cuda", *args: Any, **options: Any) -> None:
        original(scaler, str(_to_cpu(device)), *args, **options)

    return init


# --- fewer devices than ranks --------------------------------------------------------------------


def _shared(stack: ExitStack, there: int) -> None:
    """Count the numbers of devices round: ranks share those that there are."""
    import torch

    def placed(device: Any) -> Any:
        given = torch.device(device) if _names_cuda(device) else device
        if isinstance(given, torch.device) and given.type == "cuda" and given.index is not None:
            return torch.device("cuda", given.index % there)
        return device

    for name in _BY_INDEX:
        module = sys.modules.get(name)
        if module is not None and hasattr(module, "_get_device_index"):
            _set(stack, module, "_get_device_index", _indexed(module._get_device_index, there))  # noqa: SLF001 - torch has no public way
    _set(stack, torch.cuda, "device_count", _counted(torch.cuda.device_count))
    ddp = torch.nn.parallel.DistributedDataParallel
    _set(stack, ddp, "__init__", _without_devices(ddp.__init__))
    stack.enter_context(_mode_class()(placed, lambda n: torch.device("cuda", n % there), set()))


def _names_cuda(device: Any) -> bool:
    return isinstance(device, str) and device.partition(":")[0] == "cuda"


def _indexed(original: Any, there: int) -> Any:
    def index(*args: Any, **options: Any) -> int:
        return int(original(*args, **options)) % there

    return index


# --- both ----------------------------------------------------------------------------------------


@cache
def _mode_class() -> Any:
    import torch
    from torch.overrides import TorchFunctionMode

    parse = torch._C._nn._parse_to  # noqa: SLF001 - what Module.to reads its arguments with
    # .to(0) is a device, and .cuda(0); elsewhere 0 is a number.
    by_number = {torch.Tensor.to: 1, torch.Tensor.cuda: 1, parse: 0}

    class Placing(TorchFunctionMode):  # type: ignore[misc]  # torch is Any here
        """Replaces devices in the arguments of torch's functions.

        Args:
            placed: Returns the device for one that is named, anything else as it is.
            numbered: The device of a number, or a function of it.
            moving: Functions that return their first argument here.
        """

        def __init__(self, placed: Callable[[Any], Any], numbered: Any, moving: set[Any]) -> None:
            super().__init__()
            self.placed, self.moving = placed, moving
            self.numbered = numbered if callable(numbered) else lambda _: numbered

        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func in self.moving:
                return args[0]
            if func is torch.device:  # of a name, of a number, or of a kind and a number
                if len(args) == 1 and type(args[0]) is int:
                    return self.numbered(args[0])
                return self.placed(func(*args, **(kwargs or {})))
            args = tuple(self.placed(one) for one in args)
            kwargs = {name: self.placed(one) for name, one in (kwargs or {}).items()}
            if self.moving and kwargs.get("pin_memory"):
                kwargs["pin_memory"] = False
            if func in by_number:
                own, numbered = by_number[func], self.numbered
                rest = (numbered(one) if type(one) is int else one for one in args[own:])
                args = args[:own] + tuple(rest)
            if type(kwargs.get("device")) is int:
                kwargs["device"] = self.numbered(kwargs["device"])
            return func(*args, **kwargs)

    return Placing
