"""What the adapter can be told about an execution plan of MSCCL++."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..common.options import known_options, wrong

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class MscclppOptions:
    """Options of the ``mscclpp`` adapter.

    Attributes:
        chunk_bytes: Bytes of a chunk, which decide how often a pipeline goes around. By default
            two units of the largest pipeline.
        name: Name of the plan.
        model: Execution model that the plan asks for, by default ``gloo``, whose calls block and
            end as the operations of a thread block do.
    """

    chunk_bytes: int | None = None
    name: str | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        given = self.chunk_bytes
        if given is not None and (type(given) is not int or not 1 <= given < 1 << 62):
            raise wrong("mscclpp", "chunk_bytes", given, "a positive integer")


def read_options(options: Mapping[str, object]) -> MscclppOptions:
    """Make the options from keyword arguments.

    Raises:
        UsageError: An option does not exist, or its value is not possible.
    """
    return MscclppOptions(**known_options("mscclpp", options, MscclppOptions))
