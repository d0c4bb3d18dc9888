"""Scripts that name CUDA devices, played on a machine without one: their tensors are the CPU's.

Which calls a rank issues does not depend on where its tensors lie; only a program that asks for a
device could not be played at all. Where CUDA is there nothing is changed.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOTHING = ("set_device", "synchronize", "empty_cache", "reset_peak_memory_stats", "ipc_collect")
_ZERO = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")


@contextmanager
def cuda_on_cpu() -> Iterator[bool]:
    """Let ``cuda`` mean the CPU to the end of the block, if this machine has no CUDA.

    Yields:
        Whether it does.
    """
    import torch

    if torch.cuda.is_available():
        yield False
        return
    with ExitStack() as stack:
        for name in _NOTHING:
            _set(stack, torch.cuda, name, lambda *_, **__: None)
        for name in _ZERO:
            _set(stack, torch.cuda, name, lambda *_, **__: 0)
        _set(stack, torch.cuda, "current_device", lambda: int(os.environ.get("LOCAL_RANK", "0")))
        _set(stack, torch.nn.Module, "cuda", lambda module, *_: module)
        ddp = torch.nn.parallel.DistributedDataParallel
        _set(stack, ddp, "__init__", _without_devices(ddp.__init__))
        stack.enter_context(_mode_class()())
        yield True


def _set(stack: ExitStack, owner: Any, name: str, value: Any) -> None:
    stack.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)


def _without_devices(original: Any) -> Any:
    def init(ddp: Any, module: Any, *args: Any, **options: Any) -> None:
        for name in ("device_ids", "output_device"):
            options.pop(name, None)
        original(ddp, module, *([None] * min(2, len(args))), *args[2:], **options)

    return init


@cache
def _mode_class() -> Any:
    import torch
    from torch.overrides import TorchFunctionMode

    cpu = torch.device("cpu")
    moving = {torch.Tensor.cuda}
    parse = torch._C._nn._parse_to  # noqa: SLF001 - what Module.to reads its arguments with
    by_number = {torch.Tensor.to: 1, parse: 0}  # .to(0) is a device; elsewhere 0 is a number

    def moved(value: Any) -> Any:
        if isinstance(value, torch.device) and value.type == "cuda":
            return cpu
        if isinstance(value, str) and value.partition(":")[0] == "cuda":
            return cpu
        return value

    class CudaOnCpu(TorchFunctionMode):  # type: ignore[misc]  # torch is Any here
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func in moving:
                return args[0]
            args = tuple(moved(one) for one in args)
            kwargs = {name: moved(one) for name, one in (kwargs or {}).items()}
            if func in by_number:
                own = by_number[func]
                args = args[:own] + tuple(cpu if type(one) is int else one for one in args[own:])
            if type(kwargs.get("device")) is int:
                kwargs["device"] = cpu
            return func(*args, **kwargs)

    return CudaOnCpu
