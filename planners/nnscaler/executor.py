"""nnScaler's executor on abstract values: segments forward and backward, adapters.

Read from ``nnscaler/runtime/executor.py`` of nnScaler 0.8: ``fexecute`` waits for its inputs and
keeps the run until ``backward`` of that name takes the oldest, which waits for the gradients that
it is given; ``aexecute`` waits for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import prims
from .body import Body
from .model import Compute, Where
from .tape import Run, backward
from .values import Tensor, tensors

if TYPE_CHECKING:
    from .launches import Launches
    from .rank import Rank

_FLOATS = frozenset({None, "f64", "f32", "f16", "bf16"})
"""Dtypes that can require a gradient; an unknown one is taken to."""


@dataclass
class Executor:
    """What runs on one rank.

    Attributes:
        rank: The rank.
        launches: Its reducers.
        runs: Forward runs that no backward has taken yet, by segment.
    """

    rank: Rank
    launches: Launches
    runs: dict[str, list[Run]] = field(default_factory=dict)

    def forward(
        self, method: str, values: list[Any], number: int, where: Where, *, grad: bool
    ) -> Any:
        """Run a segment: a compute step, its collectives, and the tape for its backward."""
        self.rank.synchronize(values, where)
        steps = self.rank.program.steps
        deps = tuple(sorted({step for v in values for t in tensors(v) for step in t.steps}))
        steps.append(Compute(method, "F", number, deps, where))
        body = Body(self.rank.module, self.rank, method, number)
        body.no_grad = not grad
        result = body.run(self.rank.module.methods[method], [_detached(v) for v in values])
        outputs = tensors(result)
        inputs = [value for value in values if isinstance(value, Tensor) and value.grad]
        run = Run(method, inputs, body.tape.operators)
        for output in outputs:
            output.run, output.steps = run, (len(steps) - 1,)
        if grad:
            self.runs.setdefault(method, []).append(run)
        return result

    def adapter(
        self, method: str, values: list[Any], number: int, phase: str, *, grad: bool
    ) -> Any:
        """Run an adapter."""
        body = Body(self.rank.module, self.rank, method, number, phase)
        body.no_grad = True
        result = body.run(self.rank.module.methods[method], values)
        for tensor in tensors(result):
            tensor.grad = grad and tensor.dtype in _FLOATS
        return result

    def backward(
        self, name: str, outputs: list[Any], grads: list[Any], number: int, where: Where
    ) -> Any:
        """Run the oldest run of a segment backward and return the gradients of its inputs.

        Raises:
            Raises: There is no run left, or the gradients belong to another one.
        """
        self.rank.synchronize(grads, where)
        saved = self._oldest(name, where)
        if not outputs:
            return None
        roots = [value for value in outputs if isinstance(value, Tensor)]
        runs = {id(value.run): value.run for value in roots if value.run is not None}
        steps = self.rank.program.steps
        deps = {step for value in [*roots, *tensors(grads)] for step in value.steps}
        steps.append(Compute(name, "B", number, tuple(sorted(deps)), where))
        for run in runs.values():
            self.launches.backward(backward(run.operators, roots), number, where)
        if saved.inputs and any(run is not saved for run in runs.values()):
            raise prims.Raises(
                "AssertionError: RuntimeError: got gradient None (backwards run in another order "
                "than forwards)",
                where[1],
            )
        made = tuple(
            Tensor(t.shape, t.dtype, steps=(len(steps) - 1,), expression=t.expression)
            for t in saved.inputs
        )
        return None if not made else made[0] if len(made) == 1 else made

    def _oldest(self, name: str, where: Where) -> Run:
        if name not in self.runs:
            raise prims.Raises(f"KeyError: {name!r}", where[1])
        if not self.runs[name]:
            raise prims.Raises("IndexError: pop from empty list", where[1])
        return self.runs[name].pop(0)


def _detached(value: Any) -> Any:
    """Return an argument as the segment sees it: detached from what made it, tracked anew."""
    if not isinstance(value, Tensor):
        return value
    return Tensor(
        value.shape, value.dtype, grad=value.grad, steps=value.steps, expression=value.expression
    )
