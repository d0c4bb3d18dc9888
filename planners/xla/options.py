"""What the adapter can be told about a program that the program itself does not say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from ..common.options import is_integer, known_options, wrong

LaunchOrder = Literal["issue", "free"]
Cliques = Literal["none", "start"]
_MAX_TRIPS = (1 << 40) - 1


@dataclass(frozen=True, kw_only=True)
class XlaOptions:
    """Options of the ``xla`` adapter.

    Attributes:
        launch_order: ``issue``: a device starts collectives in the order of the schedule.
            ``free``: it may start those that are in flight together in any order.
        cliques: ``start`` creates the communicator of every group before anything else, larger
            groups first, as XLA's GPU backend acquires its cliques. ``none`` leaves that to the
            execution model.
        local_calls: Targets of custom calls that do not communicate.
        trip_counts: How often a loop runs, by the name of its ``while`` instruction, where the
            compiler does not know.
        name: Name of the plan; by default the name of the module.
        model: Execution model that the plan asks for.
    """

    launch_order: LaunchOrder = "issue"
    cliques: Cliques = "none"
    local_calls: Sequence[str] = ()
    trip_counts: Mapping[str, int] = field(default_factory=dict)
    name: str | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        for name, choices in (
            ("launch_order", get_args(LaunchOrder)),
            ("cliques", get_args(Cliques)),
        ):
            if getattr(self, name) not in choices:
                raise wrong("xla", name, getattr(self, name), f"one of {', '.join(choices)}")
        counts: object = self.trip_counts
        if not isinstance(counts, Mapping) or not all(
            is_integer(count, 0, _MAX_TRIPS) for count in counts.values()
        ):
            hint = "a map from the name of a while instruction to a number"
            raise wrong("xla", "trip_counts", counts, hint)


def read_options(options: Mapping[str, object]) -> XlaOptions:
    """Make the options from keyword arguments.

    Raises:
        UsageError: An option does not exist, or its value is not possible.
    """
    values = known_options("xla", options, XlaOptions)
    if isinstance(values.get("local_calls"), str):
        values["local_calls"] = tuple(values["local_calls"].split(","))
    return XlaOptions(**values)
