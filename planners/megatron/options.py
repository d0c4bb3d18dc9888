"""What the adapter can be told about a recording."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from planguard.errors import UsageError

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
            raise UsageError(
                f"option device_sync of the megatron adapter is {self.device_sync!r}",
                hint="give true or false",
            )


def read_options(options: Mapping[str, object]) -> MegatronOptions:
    """Make the options from keyword arguments.

    Raises:
        UsageError: An option does not exist, or its value is not possible.
    """
    known = [option.name for option in fields(MegatronOptions)]
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known)
            raise UsageError(
                f"the megatron adapter has no option {name!r}",
                hint=f"did you mean {near[0]!r}?" if near else f"options: {', '.join(known)}",
            )
    values: dict[str, Any] = dict(options)
    return MegatronOptions(**values)
