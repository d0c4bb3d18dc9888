"""What the adapter can be told about an algorithm of MSCCL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..common.options import known_options, wrong

if TYPE_CHECKING:
    from collections.abc import Mapping

_LIMIT = 1 << 30


@dataclass(frozen=True, kw_only=True)
class MscclOptions:
    """Options of the ``msccl`` adapter.

    Attributes:
        slots: Steps that may be on their way on a connection. NCCL has 8 (``NCCL_STEPS``). None: a
            step takes none until the receiver is there, or any number, as the execution model says.
        chunk_bytes: Bytes of a chunk.
        name: Name of the plan.
        model: Execution model that the plan asks for; None for ``gloo``, whose calls block and end
            as the steps of a thread block do (``mpi-eager`` without ``slots``).
    """

    slots: int | None = 8
    chunk_bytes: int = 1
    name: str | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        for name in ("slots", "chunk_bytes"):
            value = getattr(self, name)
            if value is None and name == "slots":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _LIMIT:
                raise wrong("msccl", name, value, f"an integer from 1 to {_LIMIT}")


def read_options(options: Mapping[str, object]) -> MscclOptions:
    """Make the options from keyword arguments.

    Raises:
        UsageError: An option does not exist, or its value is not possible.
    """
    return MscclOptions(**known_options("msccl", options, MscclOptions))
