"""What a job with Horovod is configured to do, rank by rank."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from planguard.errors import UsageError

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
    values = _checked(given, [entry.name for entry in fields(HorovodOptions)], "")
    ranks = values.get("rank_options") or {}
    if not isinstance(ranks, Mapping):
        raise _wrong("rank_options", ranks, "a map from rank to options")
    by_rank = {}
    for rank, own in ranks.items():
        number = int(rank) if isinstance(rank, str) and rank.isdigit() else rank
        if not _is_count(number) or not 0 <= number < world_size or not isinstance(own, Mapping):
            raise _wrong("rank_options", {rank: own}, f"ranks from 0 to {world_size - 1}")
        by_rank[number] = _checked(own, ["missing", "steps"], f" of rank {number}")
    return HorovodOptions(**{**values, "rank_options": by_rank})


def _checked(given: Mapping[str, object], known: Sequence[str], where: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            near = difflib.get_close_matches(name, known)
            hint = f"did you mean {near[0]!r}?" if near else f"options: {', '.join(known)}"
            raise UsageError(f"the horovod adapter has no option {name!r}{where}", hint=hint)
        kept: Any = value
        is_list = isinstance(kept, Sequence) and not isinstance(kept, str | bytes)
        values[name] = tuple(kept) if name == "missing" and is_list else kept
        problem = _problem(name, values[name])
        if problem:
            raise _wrong(name, value, problem)
    return values


def _problem(name: str, value: Any) -> str:
    if name == "fusion_threshold" and not (_is_count(value) and 0 <= value < 1 << 63):
        return "a number of bytes, 0 for no fusion"
    if name == "compression" and value not in {"none", "fp16"}:
        return "none or fp16"
    if name == "broadcast_parameters" and not isinstance(value, bool):
        return "true or false"
    if name == "steps" and not (_is_count(value) and 1 <= value <= MAX_STEPS):
        return f"a number of steps from 1 to {MAX_STEPS}"
    names = isinstance(value, tuple) and all(isinstance(item, str) for item in value)
    if name == "missing" and not names:
        return "a list of parameter names"
    return ""


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _wrong(name: str, value: object, hint: str) -> UsageError:
    text = f"{value!r}"
    shown = text if len(text) < 80 else text[:77] + "..."
    return UsageError(f"option {name} of the horovod adapter is {shown}", hint=f"give {hint}")
