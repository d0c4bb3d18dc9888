"""What the adapter can be told about a hierarchical collective."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from planguard.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class HicclOptions:
    """Options of the ``hiccl`` adapter.

    Attributes:
        name: Name of the plan.
        model: Execution model that the plan asks for.
    """

    name: str | None = None
    model: str | None = None


def read_options(options: Mapping[str, object]) -> HicclOptions:
    """Make the options from keyword arguments.

    Raises:
        UsageError: An option does not exist.
    """
    known = [option.name for option in fields(HicclOptions)]
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known)
            raise UsageError(
                f"the hiccl adapter has no option {name!r}",
                hint=f"did you mean {near[0]!r}?" if near else f"options: {', '.join(known)}",
            )
    values: dict[str, Any] = dict(options)
    return HicclOptions(**values)
