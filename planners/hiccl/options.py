"""What the adapter can be told about a hierarchical collective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..common.options import known_options

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
    return HicclOptions(**known_options("hiccl", options, HicclOptions))
