"""Gradients in buckets, parameters in parts: ``stage_1_and_2.py`` and ``stage3.py`` of 0.18.2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.errors import PlanError

from ..common.module import joined
from .model import DEFAULT_BUCKET, Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .model import Job, Module, Tensor

_ALIGNMENT = 2
"""``nccl_start_alignment_factor`` of ``stage_1_and_2.py``: a flat group is padded to twice dp."""


def partition(count: int, parts: int) -> list[int]:
    """Return the sizes of uniform parts, the larger ones first (``partition_uniform``)."""
    return [count // parts + (part < count % parts) for part in range(parts)]


class ZeroSteps:
    """What ZeRO, or plain data parallelism, does around the commands of one rank."""

    def __init__(self, job: Job, stage: int, rank: int) -> None:
        self._job, self._rank = job, rank
        self._number = job.zero.stage
        self._parameters = job.parameters[stage] if job.parameters is not None else ()
        self._open: list[str] = []

    def forward(self, mb: int, place: str) -> list[Step]:
        """Return the fetches before a forward."""
        return [self._fetch(m, "forward", mb, place) for m in self._modules()]

    def backward(self, mb: int, place: str) -> list[Step]:
        """Return what happens during and at the end of a backward."""
        if self._number == 3:
            return self._fetching_backward(mb, place)
        if self._number == 2:
            names = [tensor.name for tensor in reversed(self._parameters)]
            return self._buckets(self._ordered(names), f" {mb}", place)
        return []

    def reduce(self, place: str) -> list[Step]:
        """Return the reductions of ``ReduceGrads``."""
        names = [tensor.name for tensor in self._parameters]
        if self._number == 1:
            return self._buckets(self._ordered(names), "", place)
        if self._number == 0:
            return self._plain(place)
        return []

    def step(self, place: str) -> list[Step]:
        """Return the waits, the norm and the gathering of new parameters of an optimizer step."""
        steps = [Step("wait", "", place, work=work) for work in self._open]
        self._open = []
        if self._number == 0 or (self._number < 3 and not self._parameters):
            return steps
        norm = "float32" if self._number < 3 else "float64"
        steps.append(Step("all_reduce", "gradient norm", place, norm, 1, group="data"))
        if self._number == 3:
            return steps
        steps.append(Step("all_reduce", "gradient norm", place, "float32", 1, group="slice"))
        for dtype, tensors in _by_dtype(self._parameters).items():
            unit = _ALIGNMENT * self._job.data
            total = -(-sum(t.count for t in tensors) // unit) * unit
            label = f"parameters {dtype}"
            steps.append(
                Step(
                    "all_gather_into_tensor", label, place, dtype, total // self._job.data,
                    group="data",
                )
            )  # fmt: skip
        return steps

    # --- parts ----------------------------------------------------------------------------------

    def _modules(self) -> list[Module]:
        if self._number < 3:
            return []
        by_name = {module.name: module for module in self._job.modules}
        return [by_name[name] for name in self._ordered(list(by_name))]

    def _fetching_backward(self, mb: int, place: str) -> list[Step]:
        """Fetch modules in reverse; a bucket is reduced before a gradient that does not fit."""
        steps: list[Step] = []
        bucket: list[Tensor] = []
        for module in self._modules()[::-1]:
            steps.append(self._fetch(module, "backward", mb, place))
            for tensor in reversed(module.parameters):
                if self._is_full(bucket, tensor):
                    steps.append(self._bucket("reduce_scatter_tensor", bucket, f" {mb}", place))
                    bucket = []
                bucket.append(tensor)
        if bucket:
            steps.append(self._bucket("reduce_scatter_tensor", bucket, f" {mb}", place))
        return steps

    def _is_full(self, bucket: list[Tensor], tensor: Tensor) -> bool:
        filled = sum(t.count for t in bucket) + tensor.count
        is_over = filled > self._job.zero.reduce_bucket
        return bool(bucket) and (is_over or bucket[0].dtype != tensor.dtype)

    def _ordered(self, names: list[str]) -> list[str]:
        own = self._job.orders.get(self._rank)
        if own is None:
            return names
        if odd := set(own) - set(names):
            raise PlanError(
                "a name in the order of a rank is not known",
                file=self._job.file,
                path=f"$.orders.{self._rank}",
                value=min(odd),
                hint=f"known: {', '.join(sorted(names)[:6])}",
            )
        return list(own)

    def _fetch(self, module: Module, phase: str, mb: int, place: str) -> Step:
        dtype = module.parameters[0].dtype if module.parameters else ""
        count = sum(-(-tensor.count // self._job.data) for tensor in module.parameters)
        label = f"{module.name} {phase} {mb}"
        return Step(
            "all_gather_into_tensor", label, place, dtype, count, group="data", mb=mb, phase=phase
        )

    def _buckets(self, names: Sequence[str], mark: str, place: str) -> list[Step]:
        """Fill buckets in an order; one is reduced when the next gradient does not fit."""
        known = {tensor.name: tensor for tensor in self._parameters}
        steps: list[Step] = []
        bucket: list[Tensor] = []
        for name in names:
            tensor = known[name]
            if self._is_full(bucket, tensor):
                steps.append(self._bucket("all_reduce", bucket, mark, place))
                bucket = []
            bucket.append(tensor)
        if bucket:
            steps.append(self._bucket("all_reduce", bucket, mark, place))
        return steps

    def _bucket(self, op: str, bucket: list[Tensor], mark: str, place: str) -> Step:
        count = sum(t.count for t in bucket)
        if op == "reduce_scatter_tensor":
            count = sum(-(-t.count // self._job.data) for t in bucket)
        label = f"{joined([t.name for t in bucket])}.grad{mark}"
        work = label if self._job.zero.overlap and self._number > 1 else ""
        if work:
            self._open.append(work)
        return Step(op, label, place, bucket[0].dtype, count, group="data", work=work)

    def _plain(self, place: str) -> list[Step]:
        """Reduce without ZeRO: ``allreduce_no_retain``, a bucket ends after it is over its cap."""
        steps = []
        for tensors in _by_dtype(self._parameters).values():
            bucket: list[Tensor] = []
            for tensor in tensors:
                bucket.append(tensor)
                if sum(t.count for t in bucket) > DEFAULT_BUCKET:
                    steps.append(self._bucket("all_reduce", bucket, "", place))
                    bucket = []
            if bucket:
                steps.append(self._bucket("all_reduce", bucket, "", place))
        return steps


def _by_dtype(tensors: Iterable[Tensor]) -> dict[str, list[Tensor]]:
    found: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        found.setdefault(tensor.dtype, []).append(tensor)
    return found
