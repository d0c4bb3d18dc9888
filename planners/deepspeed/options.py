"""What the adapter can be told beyond what a dump or a list of commands says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..common.module import ITEM_BYTES
from ..common.options import is_integer, known_options, wrong

if TYPE_CHECKING:
    from collections.abc import Mapping

_LARGEST = 1 << 40
_TYPES = ", ".join(ITEM_BYTES)


@dataclass(frozen=True, kw_only=True)
class DeepSpeedOptions:
    """Options of the ``deepspeed`` adapter; each given one replaces what the dump says.

    Attributes:
        data_parallel: Size of the data dimension.
        model_parallel: Size of the model dimension.
        transport: ``send_recv``, or ``broadcast`` on groups of two.
        first_batch: With the shapes that the first batch sends.
        dynamic_shape: Shapes are sent with every activation.
        startup: With the messages that create the communicators when the engine is made.
        loss: With the loss's way back to all stages.
        shape: Shape of what passes between stages, for commands in memory; a dump has its own.
        dtype: Its type; None is ``float32``.
        name: Name of the plan.
        model: Execution model that the plan asks for.
    """

    data_parallel: int | None = None
    model_parallel: int | None = None
    transport: str | None = None
    first_batch: bool | None = None
    dynamic_shape: bool | None = None
    startup: bool | None = None
    loss: bool | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    name: str | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        for name in ("data_parallel", "model_parallel"):
            value = getattr(self, name)
            if value is not None and not is_integer(value, 1, _LARGEST):
                raise wrong("deepspeed", name, value, "a number of ranks")
        if self.transport not in (None, "send_recv", "broadcast"):
            raise wrong("deepspeed", "transport", self.transport, "send_recv or broadcast")
        for name in ("first_batch", "dynamic_shape", "startup", "loss"):
            if not isinstance(getattr(self, name), bool | None):
                raise wrong("deepspeed", name, getattr(self, name), "true or false")
        if self.shape is not None and not all(is_integer(size, 1, _LARGEST) for size in self.shape):
            raise wrong("deepspeed", "shape", self.shape, "a list of sizes")
        is_type = isinstance(self.dtype, str) and self.dtype in ITEM_BYTES
        if self.dtype is not None and not (is_type and self.shape is not None):
            raise wrong("deepspeed", "dtype", self.dtype, f"beside shape, one of {_TYPES}")


def read_options(options: Mapping[str, object]) -> DeepSpeedOptions:
    """Make the options from keyword arguments.

    Raises:
        UsageError: An option does not exist, or its value is not possible.
    """
    values = known_options("deepspeed", options, DeepSpeedOptions)
    if isinstance(values.get("shape"), list):
        values["shape"] = tuple(values["shape"])
    if not isinstance(values.get("shape", ()), tuple | None):
        raise wrong("deepspeed", "shape", values["shape"], "a list of sizes")
    return DeepSpeedOptions(**values)
