"""What the adapter can be told about an execution plan of MSCCL++."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from planguard.errors import UsageError

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
            raise UsageError(
                f"option chunk_bytes of the mscclpp adapter is {given!r}",
                hint="give a positive integer",
            )


def read_options(options: Mapping[str, object]) -> MscclppOptions:
    """Make the options from keyword arguments.

    Raises:
        UsageError: An option does not exist, or its value is not possible.
    """
    known = [option.name for option in fields(MscclppOptions)]
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known)
            raise UsageError(
                f"the mscclpp adapter has no option {name!r}",
                hint=f"did you mean {near[0]!r}?" if near else f"options: {', '.join(known)}",
            )
    values: dict[str, Any] = dict(options)
    return MscclppOptions(**values)
