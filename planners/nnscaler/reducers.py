"""Gradient reduction: buckets as nnScaler builds them, and what one bucket communicates.

Read from ``nnscaler/runtime/adapter/reducer.py`` of nnScaler 0.8: parameters join a bucket in order
while it fits, each padded to 16 bytes, the bucket to the number of members; the list of buckets is
then reversed.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from planguard.plan.actions import ITEM_BYTES

from .model import Comm, Label, Ranks, Where, elements
from .prims import Raises

if TYPE_CHECKING:
    from .module import Parameter, RankModule, ReducerSpec

_ALIGNED = 16
"""Bytes to which nnScaler pads every parameter."""

_ASYNC_CAP = 25 * 1024 * 1024
"""Bucket of an asynchronous reducer by default, in bytes."""

_OPS = {"sum": "sum", "avg": "avg", "mean": "avg", "min": "min", "max": "max"}


@dataclass(frozen=True)
class Bucket:
    """One transmission unit of a reducer.

    Attributes:
        reducer: Its name.
        number: Place in the order of ``sync_grads``.
        params: Attribute names.
        label: Original parameter names.
        count: Elements of the buffer, padding included.
        dtype: Of the buffer.
        ranks: All members.
        shard: Members of this rank's ZeRO subgroup.
        cross: Ranks at the same place in the other subgroups, empty with one subgroup.
        reduce_op: Of the reduction.
        asynchronous: True if a gradient hook launches it.
        zero: True if it is sharded.
        scatters: True if gradients are scattered instead of reduced everywhere.
    """

    reducer: str
    number: int
    params: tuple[str, ...]
    label: str
    count: int
    dtype: str | None
    ranks: Ranks
    shard: Ranks
    cross: Ranks
    reduce_op: str
    asynchronous: bool
    zero: bool
    scatters: bool

    def launch(self, where: Where, work: str | None) -> tuple[Comm, ...]:
        """Return the communication that reduces the gradients.

        Raises:
            Raises: nnScaler refuses the combination.
        """
        if not (self.zero and self.scatters):
            return (self._comm("all_reduce", self.ranks, self.count, where, work),)
        part = self.count // len(self.shard)
        if self.shard == self.ranks:
            op = "reduce_scatter" if work else "reduce_scatter_tensor"
            return (self._comm(op, self.ranks, part, where, work),)
        if work:
            raise Raises(
                "AssertionError: group zero + reducescatter is not supported in async mode"
            )
        return (
            self._comm("all_reduce", self.cross, self.count, where, None),
            self._comm("reduce_scatter_tensor", self.shard, part, where, None),
        )

    def gather(self, where: Where) -> Comm:
        """Return the communication that gathers updated parameters, with ZeRO."""
        return Comm(
            op="all_gather_into_tensor", where=where, ranks=self.shard,
            shape=(self.count // len(self.shard),), dtype=self.dtype,
            label=Label(self.label, None),
        )  # fmt: skip

    def _comm(self, op: str, ranks: Ranks, count: int, where: Where, work: str | None) -> Comm:
        return Comm(
            op=op, where=where, ranks=ranks, shape=(count,), dtype=self.dtype, work=work,
            reduce_op=self.reduce_op, label=Label(f"{self.label}.grad", None), phase="B",
        )  # fmt: skip


def build_buckets(module: RankModule, rank: int) -> dict[str, tuple[Bucket, ...]]:
    """Return the buckets of every reducer, in the order of ``sync_grads``.

    Raises:
        PlanError: Settings are missing or contradict each other.
    """
    return {name: _buckets(module, spec, rank) for name, spec in module.reducers.items()}


def _buckets(module: RankModule, spec: ReducerSpec, rank: int) -> tuple[Bucket, ...]:
    params = [module.parameters[name] for name in spec.params]
    params = [param for param in params if param.trained]
    if not params:
        _fail(module, spec, "a reducer without parameters")
    if len({param.dtype for param in params}) > 1:
        _fail(module, spec, "parameters of one reducer have different dtypes")
    settings = _settings(module, spec, rank)
    packed = _pack(params, settings["cap"])
    found = [
        Bucket(
            reducer=spec.name, number=number, params=tuple(param.name for param in members),
            label=_label(members), count=_padded(members, len(spec.ranks)),
            dtype=members[0].dtype, ranks=spec.ranks, **settings["shared"],
        )
        for number, members in enumerate(reversed(packed))
    ]  # fmt: skip
    return tuple(found)


def _settings(module: RankModule, spec: ReducerSpec, rank: int) -> dict[str, Any]:
    fields = spec.fields
    if rank not in spec.ranks:
        _fail(module, spec, f"rank {rank} is no member of its reducer", code="PG401")
    op = _OPS.get(str(fields.get("reduce_op", "sum")).lower())
    cap = fields.get("max_bucket_size_bytes") or 0
    if op is None or isinstance(cap, bool) or not isinstance(cap, int) or cap < 0:
        _fail(module, spec, "not a setting of a reducer")
    asynchronous, zero = bool(fields.get("async_op")), bool(fields.get("zero"))
    scatters = bool(fields.get("zero_use_reduce_scatter"))
    shard, cross = _subgroups(module, spec, rank, zero=zero, scatters=scatters)
    shared = {
        "shard": shard, "cross": cross, "reduce_op": op, "asynchronous": asynchronous,
        "zero": zero, "scatters": scatters,
    }  # fmt: skip
    return {"cap": cap or (_ASYNC_CAP if asynchronous else 0), "shared": shared}


def _subgroups(
    module: RankModule, spec: ReducerSpec, rank: int, *, zero: bool, scatters: bool
) -> tuple[Ranks, Ranks]:
    parts = spec.fields.get("zero_ngroups", 1)
    if not isinstance(parts, int) or isinstance(parts, bool) or parts < 1:
        _fail(module, spec, "zero_ngroups is no positive integer")
    if parts == 1:
        return spec.ranks, ()
    if not zero or scatters or len(spec.ranks) % parts:
        _fail(module, spec, f"zero_ngroups={parts} does not go with these settings")
    width = len(spec.ranks) // parts
    place = spec.ranks.index(rank)
    first = place // width * width
    return spec.ranks[first : first + width], spec.ranks[place % width :: width]


def _pack(params: list[Parameter], cap: int) -> list[list[Parameter]]:
    packed: list[list[Parameter]] = []
    filled = 0
    for param in params:
        size = _aligned(param) * _width(param)
        if packed and (not cap or filled + size <= cap):
            packed[-1].append(param)
            filled += size
        else:
            packed.append([param])
            filled = size
    return packed


def _width(param: Parameter) -> int:
    return ITEM_BYTES.get(param.dtype or "f32", 4)


def _aligned(param: Parameter) -> int:
    width = _width(param)
    return -(-elements(param.shape) * width // _ALIGNED) * _ALIGNED // width


def _padded(members: list[Parameter], ranks: int) -> int:
    total = sum(_aligned(param) for param in members)
    unit = _ALIGNED // _width(members[0]) * ranks
    return total + (unit - total % unit) % ranks


def _label(members: list[Parameter]) -> str:
    """Name the parameters of a bucket; of many, the first and the last."""
    names = sorted(param.origin for param in members)
    if len(names) <= 4:
        return "+".join(names)
    return f"{names[0]}+..+{names[-1]} ({len(names)} parameters)"


def _fail(module: RankModule, spec: ReducerSpec, message: str, code: str = "PG901") -> NoReturn:
    node = ast.Pass(lineno=spec.where[1], col_offset=0)
    module.source.fail(node, message, value=spec.name, code=code)
