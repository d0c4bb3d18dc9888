"""Computation on fake tensors: shapes without storage, where a job allows it.

Not every job does. DDP's reducer and object collectives want storage, and what the dispatcher
communicates (functional collectives, and with them DTensor) would never reach the recording group:
it is refused here, since a call that is not seen is worse than none. Such jobs are played with
``compute_stub``.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from planguard.capture.groups.modes import infra_mode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.capture.groups.recorder import Recorder


class NotFakeError(BaseException):
    """This job needs storage; no ``except Exception`` of the job hides it."""


@contextmanager
def fake_compute(recorder: Recorder) -> Iterator[None]:
    """Let every tensor made in the block be a fake one.

    Raises:
        NotFakeError: If the job communicates through the dispatcher, or reads its control plane.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    recorder.is_fake = True
    with FakeTensorMode(allow_non_fake_inputs=True), _guard_class()(), _real_meshes():
        yield


@contextmanager
def _real_meshes() -> Iterator[None]:
    """Make device meshes of real tensors: a rank looks itself up in them."""
    import torch.distributed
    from torch._subclasses.fake_tensor import unset_fake_temporarily
    from torch.distributed import device_mesh

    original, make = device_mesh.init_device_mesh, device_mesh.DeviceMesh.__init__

    def really(function: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            with unset_fake_temporarily():
                return function(*args, **options)

        return call

    device_mesh.init_device_mesh = torch.distributed.init_device_mesh = really(original)
    device_mesh.DeviceMesh.__init__ = really(make)
    try:
        yield
    finally:
        device_mesh.init_device_mesh = torch.distributed.init_device_mesh = original
        device_mesh.DeviceMesh.__init__ = make


def refuse_fake(tensors: Any) -> None:
    """Refuse tensors without values where values are needed.

    Raises:
        NotFakeError: If one of them is fake.
    """
    from torch._subclasses.fake_tensor import FakeTensor

    if any(isinstance(tensor, FakeTensor) for tensor in tensors):
        raise NotFakeError("objects, shapes or sizes are exchanged")


@cache
def _guard_class() -> Any:
    class Guard(infra_mode()):  # type: ignore[misc]  # torch is Any here
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func.namespace in ("c10d", "_c10d_functional", "_dtensor"):
                raise NotFakeError(f"{func} communicates below Python")
            return func(*args, **(kwargs or {}))

    return Guard
