"""What the adapter can be told about a workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..common.options import known_options, wrong

_CHOICES = {
    "order": ("dependencies", "ids"),
    "sends": ("rendezvous", "buffered"),
    "labels": ("names", "none"),
}


@dataclass(frozen=True, kw_only=True)
class ChakraOptions:
    """Options of the ``chakra`` adapter.

    Attributes:
        order: What puts the communications of one queue in order. ``ids``: the simulator takes
            them by id where dependencies leave it open. ``dependencies``: only these do, so an
            order that they leave open is not decided.
        sends: Whether a send is done when the receiver is there, or at once (``buffered``).
        labels: Whether the names of collectives must agree (``names``) or not (``none``).
        groups: Process group to its ranks, where ``comm_groups.json`` does not say it.
        name: Name of the plan.
        model: Execution model that the plan asks for, by default ``gloo``, whose calls block and
            end as nodes do.
    """

    order: str = "dependencies"
    sends: str = "rendezvous"
    labels: str = "names"
    groups: Mapping[str, tuple[int, ...]] | None = None
    name: str | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise wrong("chakra", name, getattr(self, name), f"one of {', '.join(choices)}")
        if self.groups is not None and not isinstance(self.groups, Mapping):
            raise wrong("chakra", "groups", self.groups, 'a map, for example {"tp": [0]}')


def read_options(options: Mapping[str, object]) -> ChakraOptions:
    """Make the options from keyword arguments.

    Raises:
        UsageError: An option does not exist, or its value is not possible.
    """
    return ChakraOptions(**known_options("chakra", options, ChakraOptions))
