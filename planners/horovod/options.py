"""What a job with Horovod is configured to do, rank by rank."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from ..common.options import is_integer, is_list, is_names, known_options, options_of_ranks, wrong

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FUSION_THRESHOLD = 64 << 20
"""Default of ``HOROVOD_FUSION_THRESHOLD`` in Horovod's documentation of tensor fusion."""
MAX_STEPS = 64

Compression = Literal["none", "fp16"]


@dataclass(frozen=True, kw_only=True)
class HorovodOptions:
    """Options of the ``horovod`` adapter.

    Attributes:
        fusion_threshold: Bytes of the fusion buffer; 0 turns fusion off.
        compression: ``fp16`` sends gradients in half precision.
        broadcast_parameters: Rank 0 sends the parameters first.
        steps: Optimizer steps in the plan.
        missing: Parameters whose gradients are never submitted.
        rank_options: Rank to the options that are different there (``missing``, ``steps``).
        name: Name of the plan; None takes the class of the module, or the file.
        model: Execution model the plan asks for.
    """

    fusion_threshold: int = FUSION_THRESHOLD
    compression: Compression = "none"
    broadcast_parameters: bool = True
    steps: int = 1
    missing: tuple[str, ...] = ()
    rank_options: Mapping[int, Mapping[str, Any]] | None = None
    name: str | None = None
    model: str | None = None

    def of_rank(self, rank: int) -> HorovodOptions:
        """Return the options of one rank."""
        return replace(self, **(self.rank_options or {}).get(rank, {}), rank_options=None)


def read_options(given: Mapping[str, object], world_size: int) -> HorovodOptions:
    """Make the options from keyword arguments.

    Raises:
        UsageError: An option does not exist, or its value is not possible.
    """
    values = _checked(given, HorovodOptions, "")

    def of_rank(own: Mapping[str, object], where: str) -> dict[str, Any]:
        return _checked(own, ("missing", "steps"), where)

    ranks = options_of_ranks("horovod", values.get("rank_options"), world_size, of_rank)
    return HorovodOptions(**{**values, "rank_options": ranks})


def _checked(
    given: Mapping[str, object], known: type | Sequence[str], where: str
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in known_options("horovod", given, known, where).items():
        kept: Any = value
        values[name] = tuple(kept) if name == "missing" and is_list(kept) else kept
        problem = _problem(name, values[name])
        if problem:
            raise wrong("horovod", name, value, problem)
    return values


def _problem(name: str, value: Any) -> str:
    if name == "fusion_threshold" and not is_integer(value, 0, (1 << 63) - 1):
        return "a number of bytes, 0 for no fusion"
    if name == "compression" and value not in ("none", "fp16"):
        return "none or fp16"
    if name == "broadcast_parameters" and not isinstance(value, bool):
        return "true or false"
    if name == "steps" and not is_integer(value, 1, MAX_STEPS):
        return f"a number of steps from 1 to {MAX_STEPS}"
    if name == "missing" and not is_names(value):
        return "a list of parameter names"
    return ""
