"""What autograd does with a segment: backward duals in reverse, gradients of parameters in turn.

torch's engine takes, of the nodes that are ready, the one created last; so the backward of
straight-line code is its exact reverse, and the gradient of a parameter is complete right after the
first operator that used it has been undone (pytorch: torch/csrc/autograd/engine.cpp).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .values import Tensor, tensors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .model import Comm


@dataclass
class Operator:
    """One operator of a forward run.

    Attributes:
        ins: Numbers of the tensors it reads.
        outs: Numbers of the tensors it makes; empty if autograd does not track them.
        params: Parameters it reads.
        duals: What its backward communicates.
        redo: What its recomputed region communicates again, once, before its first backward. All
            operators of a region share this object.
    """

    ins: frozenset[int]
    outs: frozenset[int]
    params: tuple[str, ...] = ()
    duals: tuple[Comm, ...] = ()
    redo: tuple[Comm, ...] = ()


@dataclass
class Run:
    """One forward run of a segment.

    Attributes:
        name: Segment.
        inputs: Its tensor arguments that require a gradient, in order, as the caller holds them.
        operators: In order.
    """

    name: str
    inputs: list[Tensor]
    operators: list[Operator]


@dataclass
class Recorder:
    """Collects the operators of a run."""

    operators: list[Operator] = field(default_factory=list)

    def add(
        self,
        inputs: Iterable[Any],
        result: Any,
        *,
        flows: bool = True,
        duals: tuple[Comm, ...] = (),
        redo: tuple[Comm, ...] = (),
    ) -> None:
        """Note an operator and mark its results as tracked if one of its inputs is."""
        read = [tensor for value in inputs for tensor in tensors(value)]
        made = [tensor for tensor in tensors(result) if not any(tensor is one for one in read)]
        tracked = flows and any(tensor.grad for tensor in read)
        for tensor in made:
            tensor.grad = tracked
        if not tracked:
            return
        self.operators.append(
            Operator(
                frozenset(tensor.uid for tensor in read if tensor.grad),
                frozenset(tensor.uid for tensor in made),
                tuple(tensor.param for tensor in read if tensor.param),
                duals,
                redo,
            )
        )


@dataclass(frozen=True)
class Undone:
    """One moment of a backward: a communication, or gradients that are complete.

    Attributes:
        comm: What is communicated, or None.
        params: Parameters whose gradient is complete now.
    """

    comm: Comm | None
    params: tuple[str, ...] = ()


def backward(operators: list[Operator], outputs: list[Tensor]) -> list[Undone]:
    """Return what happens when autograd goes back from some outputs, in order."""
    needed = {tensor.uid for tensor in outputs if tensor.grad}
    used: list[Operator] = []
    for operator in reversed(operators):
        if operator.outs & needed:
            used.append(operator)
            needed |= operator.ins
    redone: set[int] = set()
    last = {name: at for at, operator in enumerate(used) for name in operator.params}
    happened: list[Undone] = []
    for at, operator in enumerate(used):
        if operator.redo and id(operator.redo) not in redone:
            redone.add(id(operator.redo))
            happened += [Undone(comm) for comm in operator.redo]
        happened += [Undone(comm) for comm in operator.duals]
        complete = tuple(name for name in dict.fromkeys(operator.params) if last[name] == at)
        if complete:
            happened.append(Undone(None, complete))
    return happened
