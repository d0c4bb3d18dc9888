"""What a job with DDP is configured to do, rank by rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from ..common.options import is_integer, is_list, known_options, options_of_ranks, wrong
from .buckets import FIRST_BUCKET_BYTES, NO_LIMIT

Launch = Literal["ordered", "any"]
Hook = Literal["allreduce", "fp16_compress", "bf16_compress", "noop", "custom"]

MAX_STEPS = 64
_MB = 1 << 20
_DEFAULT_CAP_MB = 25


@dataclass(frozen=True, kw_only=True)
class DdpOptions:
    """Options of the ``ddp`` adapter; the first block is that of ``DistributedDataParallel``.

    Attributes:
        bucket_cap_mb: Capacity of a bucket in MiB; None is torch's 25 with a first bucket of 1.
        bucket_cap_mb_list: Capacity of the first, second, ... bucket in MiB.
        find_unused_parameters: Look for parameters without a gradient; buckets are never rebuilt.
        static_graph: The first iteration learns the graph; buckets are rebuilt in the third.
        gradient_as_bucket_view: Changes no communication.
        broadcast_buffers: Rank 0 sends the buffers before each forward.
        init_sync: When the module is wrapped, shapes are compared and rank 0 sends parameters and
            buffers.
        init: Put the calls of the constructor into the plan.
        steps: Iterations in the plan; the third one is the last that can differ from the next.
        no_sync: Iterations under ``no_sync()``.
        unused: Parameters that get no gradient.
        ready_order: Parameters in the order in which their gradients become ready; by default the
            reverse of their registration.
        comm_hook: The communication hook; ``custom`` stands for any other.
        launch: ``ordered`` is DDP's; ``any`` a hook that may start the buckets in any order.
        branches: Data-dependent branches of the module, name to the parameters that only they use.
        uniform: Whether all ranks take the same branches.
        rank_options: Rank to the options that are different there.
        name: Name of the plan; None takes the class of the module.
        model: Execution model the plan asks for.
    """

    bucket_cap_mb: float | None = None
    bucket_cap_mb_list: tuple[float, ...] = ()
    find_unused_parameters: bool = False
    static_graph: bool = False
    gradient_as_bucket_view: bool = False
    broadcast_buffers: bool = True
    init_sync: bool = True
    init: bool = True
    steps: int = 2
    no_sync: tuple[int, ...] = ()
    unused: tuple[str, ...] = ()
    ready_order: tuple[str, ...] = ()
    comm_hook: Hook = "allreduce"
    launch: Launch = "ordered"
    branches: Mapping[str, Sequence[str]] | None = None
    uniform: bool = False
    rank_options: Mapping[int, Mapping[str, Any]] | None = None
    name: str | None = None
    model: str | None = None

    @property
    def cap(self) -> int:
        """Capacity of the buckets after the first, bytes."""
        cap_mb = _DEFAULT_CAP_MB if self.bucket_cap_mb is None else self.bucket_cap_mb
        return int(max(self.bucket_cap_mb_list or (cap_mb,)) * _MB)

    @property
    def rebuild_limits(self) -> list[int]:
        """Capacities when buckets are built again in the order of readiness."""
        if self.bucket_cap_mb_list:
            return [int(cap * _MB) for cap in self.bucket_cap_mb_list]
        first = FIRST_BUCKET_BYTES if self.bucket_cap_mb is None else self.cap
        return [first, self.cap]

    @property
    def first_limits(self) -> list[int]:
        """Capacities of the first iteration: one bucket, if the buckets are going to be rebuilt."""
        if self.bucket_cap_mb_list:
            return self.rebuild_limits
        if self.rebuilds:
            return [NO_LIMIT]
        limits = self.rebuild_limits
        return limits if limits[0] < limits[1] else limits[1:]

    @property
    def rebuilds(self) -> bool:
        """Whether the reducer builds its buckets again after an iteration."""
        return self.static_graph or not self.find_unused_parameters

    def of_rank(self, rank: int) -> DdpOptions:
        """Return the options of one rank."""
        own = (self.rank_options or {}).get(rank, {})
        return replace(self, **own, rank_options=None) if own else replace(self, rank_options=None)


_LISTS = ("no_sync", "unused", "ready_order", "bucket_cap_mb_list")
_FLAGS = (
    "find_unused_parameters", "static_graph", "gradient_as_bucket_view", "broadcast_buffers",
    "init_sync", "init", "uniform",
)  # fmt: skip
_PER_RANK = (
    "bucket_cap_mb", "bucket_cap_mb_list", "find_unused_parameters", "static_graph",
    "broadcast_buffers", "steps", "no_sync", "unused", "ready_order", "comm_hook", "launch",
    "gradient_as_bucket_view",
)  # fmt: skip


def read_options(given: Mapping[str, object], world_size: int) -> DdpOptions:
    """Make the options from keyword arguments.

    Raises:
        UsageError: An option does not exist, or its value is not possible.
    """
    values = _checked(given, DdpOptions, "")

    def of_rank(own: Mapping[str, object], where: str) -> dict[str, Any]:
        return _checked(own, _PER_RANK, where)

    ranks = options_of_ranks("ddp", values.get("rank_options"), world_size, of_rank)
    return DdpOptions(**{**values, "rank_options": ranks})


def _checked(
    given: Mapping[str, object], known: type | Sequence[str], where: str
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in known_options("ddp", given, known, where).items():
        kept: Any = value
        values[name] = tuple(kept) if name in _LISTS and is_list(kept) else kept
        _check(name, values[name])
    return values


def _check(name: str, value: Any) -> None:
    if name in _FLAGS and not isinstance(value, bool):
        raise wrong("ddp", name, value, "true or false")
    if name == "steps" and not is_integer(value, 1, MAX_STEPS):
        raise wrong("ddp", name, value, f"a number of iterations from 1 to {MAX_STEPS}")
    if name in _LISTS and not isinstance(value, tuple):
        raise wrong("ddp", name, value, "a list")
    if name == "no_sync" and not all(is_integer(step, 0) for step in value):
        raise wrong("ddp", name, value, "a list of iterations, counted from 0")
    if name in {"unused", "ready_order"} and not all(isinstance(item, str) for item in value):
        raise wrong("ddp", name, value, "a list of parameter names")
    caps = value if name == "bucket_cap_mb_list" else [value] if name == "bucket_cap_mb" else []
    if caps != [None] and not all(map(_is_size, caps)):
        raise wrong("ddp", name, value, "sizes in MiB, greater than 0")
    choices = {"comm_hook": get_args(Hook), "launch": get_args(Launch)}.get(name)
    if choices and value not in choices:
        raise wrong("ddp", name, value, f"one of {', '.join(choices)}")
    if name == "branches" and value is not None and not _is_branches(value):
        raise wrong(
            "ddp", name, value, "a map from a name to a list of parameter names, six at most"
        )


def _is_branches(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and len(value) <= 6
        and all(isinstance(name, str) and is_list(names) for name, names in value.items())
        and all(isinstance(item, str) for names in value.values() for item in names)
    )


def _is_size(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1 << 40
