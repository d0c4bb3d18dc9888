"""What a job with FSDP2 is configured to do, rank by rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..common.module import ITEM_BYTES
from ..common.options import is_integer, is_list, is_names, known_options, options_of_ranks, wrong

MAX_STEPS = 64
Reshard = bool | int | None
Prefetch = int | Mapping[str, Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class FsdpOptions:
    """Options of the ``fsdp`` adapter.

    Attributes:
        units: Modules that ``fully_shard`` is applied to, as names or patterns (``layers.*``); a
            part of a name between dots matches a part. The root is one of them unless ``root`` is
            false.
        root: Whether ``fully_shard`` is applied to the whole module, too.
        replicate: Replicas of the sharded model (HSDP): the mesh is ``replicate`` x ``shard``.
        reshard_after_forward: As in ``fully_shard``; None is True, and False for the root.
        reshard_units: The same for single units.
        param_dtype: Dtype of the gathered parameters, in torch's words; None is their own.
        reduce_dtype: Dtype of the reduction; None is that of the gradients.
        forward_prefetch: How many units ahead a unit gathers in forward
            (``set_modules_to_forward_prefetch``), or a map from a unit to the units it prefetches.
        backward_prefetch: The same in backward; None is torch's default, the unit that ran before.
        order: Units in the order in which forward runs them; by default that of registration.
        inputs_require_grad: Whether the inputs of the whole module do.
        steps: Iterations in the plan.
        no_sync: Iterations with ``set_requires_gradient_sync(False)``.
        rank_options: Rank to the options that are different there.
        name: Name of the plan; None takes the class of the module.
        model: Execution model the plan asks for.
    """

    units: tuple[str, ...] = ()
    root: bool = True
    replicate: int = 1
    reshard_after_forward: Reshard = None
    reshard_units: Mapping[str, Reshard] = field(default_factory=dict)
    param_dtype: str | None = None
    reduce_dtype: str | None = None
    forward_prefetch: Prefetch = 0
    backward_prefetch: Prefetch | None = None
    order: tuple[str, ...] | None = None
    inputs_require_grad: bool = False
    steps: int = 1
    no_sync: tuple[int, ...] = ()
    rank_options: Mapping[int, Mapping[str, Any]] | None = None
    name: str | None = None
    model: str | None = None

    def of_rank(self, rank: int) -> FsdpOptions:
        """Return the options of one rank."""
        own = (self.rank_options or {}).get(rank, {})
        return replace(self, **own, rank_options=None)

    def reshard(self, unit: str) -> bool | int:
        """Return what a unit does with its parameters after forward."""
        value = self.reshard_units.get(unit, self.reshard_after_forward)
        return bool(unit) if value is None else value


_PER_RANK = (
    "order", "steps", "no_sync", "forward_prefetch", "backward_prefetch", "reshard_after_forward",
    "reshard_units",
)  # fmt: skip


def read_options(given: Mapping[str, object], world_size: int) -> FsdpOptions:
    """Make the options from keyword arguments.

    Raises:
        UsageError: An option does not exist, or its value is not possible.
    """
    values = _checked(given, FsdpOptions, "")

    def of_rank(own: Mapping[str, object], where: str) -> dict[str, Any]:
        return _checked(own, _PER_RANK, where)

    ranks = options_of_ranks("fsdp", values.get("rank_options"), world_size, of_rank)
    options = FsdpOptions(**{**values, "rank_options": ranks})
    _check_mesh(options, world_size)
    return options


def _check_mesh(options: FsdpOptions, world_size: int) -> None:
    if world_size % options.replicate:
        raise wrong("fsdp", "replicate", options.replicate, f"a divisor of {world_size} ranks")
    shard = world_size // options.replicate
    own = [ranks.get("reshard_units", {}) for ranks in (options.rank_options or {}).values()]
    every = [ranks.get("reshard_after_forward") for ranks in (options.rank_options or {}).values()]
    values = [options.reshard_after_forward, *options.reshard_units.values(), *every]
    values += [value for units in own for value in units.values()]
    sizes = {value for value in values if is_integer(value)}
    if len(sizes) > 1:
        raise wrong(
            "fsdp", "reshard_units", sorted(map(str, sizes)), "one number of ranks for all units"
        )
    for size in sizes:
        if not isinstance(size, int) or not 1 < size < shard or shard % size:
            raise wrong(
                "fsdp", "reshard_after_forward", size, f"true, false or a divisor of {shard}"
            )


def _checked(
    given: Mapping[str, object], known: type | Sequence[str], where: str
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in known_options("fsdp", given, known, where).items():
        kept: Any = value
        listed = name in {"units", "order", "no_sync"} and is_list(kept)
        values[name] = tuple(kept) if listed else kept
        problem = _problem(name, values[name])
        if problem:
            raise wrong("fsdp", name, value, problem)
    return values


def _problem(name: str, value: Any) -> str:  # noqa: PLR0911 - one line per kind of option
    if name in {"root", "inputs_require_grad"} and not isinstance(value, bool):
        return "true or false"
    if name in {"steps", "replicate"} and not is_integer(value, 1, 1 << 20):
        return "a number from 1"
    if name == "steps" and value > MAX_STEPS:
        return f"at most {MAX_STEPS} iterations"
    if name == "no_sync" and not (isinstance(value, tuple) and all(map(is_integer, value))):
        return "a list of iterations, counted from 0"
    if name == "units" and not is_names(value):
        return "a list of names or patterns"
    if name == "order" and not (value is None or is_names(value)):
        return "a list of units"
    if name in {"param_dtype", "reduce_dtype"} and not _is_dtype(value):
        return f"one of {', '.join(ITEM_BYTES)}"
    if name == "reshard_after_forward" and not _is_reshard(value):
        return "true, false or a number of ranks"
    if name == "reshard_units" and not (
        isinstance(value, Mapping) and all(map(_is_reshard, value.values()))
    ):
        return "a map from unit to true, false or a number of ranks"
    is_default = name == "backward_prefetch" and value is None
    if name in {"forward_prefetch", "backward_prefetch"} and not (
        is_default or _is_prefetch(value)
    ):
        return "a number of units, or a map from unit to units"
    return ""


def _is_dtype(value: object) -> bool:
    return value is None or (isinstance(value, str) and value in ITEM_BYTES)


def _is_prefetch(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(is_names(tuple(names)) for names in value.values() if is_list(names)) and all(
            is_list(names) for names in value.values()
        )
    return is_integer(value, 0)


def _is_reshard(value: object) -> bool:
    return value is None or isinstance(value, bool) or is_integer(value)
