"""What the adapter can be told about a dump."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..common.options import known_options, wrong

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class AlpaOptions:
    """Options of the ``alpa`` adapter.

    Attributes:
        communicators: ``eager`` or ``lazy`` creation of the communicators between meshes; by
            default what the dump says (``eagerly_create_communicators``).
        p2p: ``blocking``: a message holds up what is behind it on its device, as Alpa's streams do
            without ``enable_overlapping``. ``async``: it holds up only who needs the data. By
            default what the dump says.
        local_stages: True if stages without a text do not communicate.
        name: Name of the plan.
        model: Execution model that the plan asks for.
    """

    communicators: str | None = None
    p2p: str | None = None
    local_stages: bool = False
    name: str | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        for name, choices in (("communicators", ("eager", "lazy")), ("p2p", ("blocking", "async"))):
            value = getattr(self, name)
            if value is not None and value not in choices:
                raise wrong("alpa", name, value, f"one of {', '.join(choices)}")


def read_options(options: Mapping[str, object]) -> AlpaOptions:
    """Make the options from keyword arguments.

    Raises:
        UsageError: An option does not exist, or its value is not possible.
    """
    return AlpaOptions(**known_options("alpa", options, AlpaOptions))
