"""Scripts that name CUDA devices, played on a machine with fewer of them than ranks, or with none.

Which calls a rank issues does not depend on where its tensors lie; only a program that asks for a
device could not be played at all. Without CUDA a device is the CPU. With fewer devices than a node
has ranks, ranks share them: ``cuda:3`` is ``cuda:1`` of two. Where there are enough, nothing is
changed.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from planguard.sources import is_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NOTHING = ("set_device", "synchronize", "empty_cache", "reset_peak_memory_stats", "ipc_collect")
_ZERO = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
_BY_INDEX = ("torch.cuda", "torch.cuda.memory", "torch.cuda._utils")
"""Modules of torch that hold the function which reads a device's number."""


@contextmanager
def devices_for_ranks() -> Iterator[None]:
    """Give a rank the devices that it names, as far as there are any, to the end of the block."""
    import torch

    with ExitStack() as stack:
        if not torch.cuda.is_available():
            _on_cpu(stack)
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


def _on_cpu(stack: ExitStack) -> None:
    """Let ``cuda`` mean the CPU."""
    import torch

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
    stack.enter_context(_mode_class()(_to_cpu, torch.device("cpu"), {torch.Tensor.cuda}))


def _to_cpu(device: Any) -> Any:
    """Return the CPU for a CUDA device; everything else as it is."""
    import torch

    if isinstance(device, torch.device) and device.type == "cuda":
        return torch.device("cpu")
    if isinstance(device, str) and device.partition(":")[0] == "cuda":
        return torch.device("cpu")
    return device


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
            if func in by_number:
                own, numbered = by_number[func], self.numbered
                rest = (numbered(one) if type(one) is int else one for one in args[own:])
                args = args[:own] + tuple(rest)
            if type(kwargs.get("device")) is int:
                kwargs["device"] = self.numbered(kwargs["device"])
            return func(*args, **kwargs)

    return Placing
