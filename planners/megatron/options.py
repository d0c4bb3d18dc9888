"""What the adapter can be told about a recording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..common.options import known_options, wrong

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class MegatronOptions:
    """Options of the ``megatron`` adapter.

    Attributes:
        device_sync: False leaves out ``torch.cuda.synchronize()`` after batches
            (``batch_p2p_sync``).
        name: Name of the plan.
        model: Execution model that the plan asks for.
    """

    device_sync: bool = True
    name: str | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.device_sync, bool):
            raise wrong("megatron", "device_sync", self.device_sync, "true or false")


def read_options(options: Mapping[str, object]) -> MegatronOptions:
    """Make the options from keyword arguments.

    Raises:
        UsageError: An option does not exist, or its value is not possible.
    """
    return MegatronOptions(**known_options("megatron", options, MegatronOptions))
