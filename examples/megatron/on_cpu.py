"""Stand-ins for CUDA, so that libraries which ask for it run on tensors of the CPU.

Only devices, streams, events and random states are replaced; nothing that communicates is. Call
``pretend`` first, and ``pretend_megatron`` once megatron.core can be imported.
"""

from __future__ import annotations

import contextlib
from typing import Any

MAKERS = ("zeros", "ones", "tensor", "empty", "full", "arange", "rand", "randn", "zeros_like")


class Stream:
    """A stream or an event: everything on the CPU has happened when a call returns."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Take what CUDA takes."""

    def __getattr__(self, name: str) -> Any:
        """Answer every method (wait_stream, record_event, synchronize) with a new one."""
        if name.startswith("__"):
            raise AttributeError(name)
        return Stream


def _on_cpu(call: Any) -> Any:
    def made(*arguments: Any, **named: Any) -> Any:
        if "cuda" in str(named.get("device", "")):
            named["device"] = "cpu"
        return call(*arguments, **named)

    return made


def pretend() -> None:
    """Let ``torch.cuda`` mean the CPU, in this process."""
    import torch

    cuda, cpu = torch.cuda, torch.device("cpu")
    for maker in MAKERS:
        setattr(torch, maker, _on_cpu(getattr(torch, maker)))
    said: dict[str, Any] = {
        "current_device": lambda: cpu, "set_device": _nothing(), "synchronize": _nothing(),
        "empty_cache": _nothing(), "_lazy_init": _nothing(), "_lazy_call": lambda call: call(),
        "current_stream": lambda *_: Stream(), "default_stream": lambda *_: Stream(),
        "Stream": Stream, "Event": Stream,
        "stream": lambda *_: contextlib.nullcontext(), "manual_seed": torch.manual_seed,
        "get_rng_state": lambda *_, **__: torch.get_rng_state(),
        "set_rng_state": lambda state, *_: torch.set_rng_state(state),
    }  # fmt: skip
    for name, stand_in in said.items():
        setattr(cuda, name, stand_in)
    for name in ("range_push", "range_pop"):
        setattr(cuda.nvtx, name, _nothing())
    torch.Tensor.cuda = lambda tensor, *_, **__: tensor  # type: ignore[assignment]
    own = torch.Tensor.type
    torch.Tensor.type = lambda tensor, *given, **named: (  # type: ignore[assignment]
        own(tensor, *given, **named) if given or named
        else own(tensor).replace("torch.", "torch.cuda.")
    )  # fmt: skip


def pretend_megatron() -> None:
    """Replace what Megatron-core has for GPUs only: states of random numbers, Apex's norm."""
    import torch
    from megatron.core.tensor_parallel import random  # type: ignore[import-not-found]
    from megatron.core.transformer.torch_norm import (  # type: ignore[import-not-found]
        WrappedTorchNorm,
    )

    random._get_cuda_rng_state = lambda *_, **__: torch.get_rng_state()  # noqa: SLF001
    random._set_cuda_rng_state = (  # noqa: SLF001 - same
        lambda state, *_, **__: torch.set_rng_state(state)
    )
    WrappedTorchNorm.__new__ = _norm


def _norm(_kind: Any, config: Any, hidden_size: int, eps: float = 1e-5, **_: Any) -> Any:
    """Return a layer norm whose parameters say what Apex's say of sequence parallelism."""
    import torch

    made = torch.nn.LayerNorm(hidden_size, eps)
    for parameter in made.parameters():
        parameter.sequence_parallel = config.sequence_parallel  # type: ignore[attr-defined]
    return made


def _nothing() -> Any:
    """Return what does nothing; each its own: torch's compiler tells functions by identity."""
    return lambda *_, **__: None
