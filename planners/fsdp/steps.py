"""What one rank of an FSDP2 job issues, in order.

The order is that of torch 2.13 (``_fsdp_state.py``, ``_fsdp_param_group.py`` and
``_fsdp_collectives.py`` of ``torch.distributed.fsdp``);
tests/integration/test_fsdp_gloo.py holds it against real processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..common.calls import Call
from ..common.module import ITEM_BYTES, joined, plan_size
from .units import (
    backward_events,
    find_units,
    forward_events,
    refuse_unknown,
    trainable_units,
    units_with_grad,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..common.module import ModuleInfo, TensorInfo
    from .options import FsdpOptions, Prefetch
    from .units import Unit

MAIN, GATHER, SCATTER, REDUCE = "main", "all_gather", "reduce_scatter", "all_reduce"


def rank_calls(module: ModuleInfo, options: FsdpOptions, shard: int) -> list[Call]:
    """Return what a rank issues.

    Args:
        module: The module, alike on all ranks.
        options: The options of this rank.
        shard: Ranks that share one copy of the parameters.

    Raises:
        PlanError: An option names something that the module does not have.
    """
    return _Rank(module, options, shard).calls()


class _Rank:
    """Walks through the iterations of one rank, with the state of every unit."""

    def __init__(self, module: ModuleInfo, options: FsdpOptions, shard: int) -> None:
        self.module, self.options, self.shard = module, options, shard
        self.units = find_units(module, options)
        refuse_unknown(self.units, options.reshard_units, "the resharding", "reshard_units")
        self.events = forward_events(self.units, options.order)
        inputs = options.inputs_require_grad
        self.with_grad = units_with_grad(module, self.events, inputs=inputs)
        self.unsharded_backward = self.with_grad | trainable_units(module, self.units)
        self.sequence = [unit.name for what, unit in self.events if what == "enter" and unit.name]
        self.out: list[Call] = []
        self.state = dict.fromkeys(self.units, "sharded")
        self.pending: dict[str, str] = {}
        self.finished: list[Unit] = []
        self.places: dict[str, list[int]] = {}
        self.scattered = ""
        self.reduced: dict[str, str] = {}
        self.edges = 0
        self.step = 0

    def calls(self) -> list[Call]:
        for step in range(self.options.steps):
            self.step = step
            self._forward()
            self._backward()
        return self.out

    # --- one iteration -----------------------------------------------------------------------

    def _forward(self) -> None:
        self._edge(MAIN, GATHER)
        ahead = self._targets(self.options.forward_prefetch, 1)
        for what, unit in self.events:
            if what == "enter":
                self._unshard(unit, "forward")
                self._await(unit)
                for target in ahead.get(unit.name, ()):
                    self._unshard(self.units[target], "forward prefetch")
                self._compute(f"forward {unit.name or 'root'}", "forward")
                continue
            reshard = self.options.reshard(unit.name)
            if reshard is not False:
                self.state[unit.name] = "sharded" if reshard is True else "part"
            if unit.own:
                self.places.setdefault(unit.name, []).append(len(self.finished))
                self.finished.append(unit)

    def _backward(self) -> None:
        told = self.options.backward_prefetch
        ahead = {} if told is None else self._targets(told, -1)
        done: set[str] = set()
        for what, unit in backward_events(self.events):
            if what == "exit":
                self._pre_backward(unit, None if told is None else ahead.get(unit.name, ()))
            elif unit.name in self.with_grad:
                self._compute(f"backward {unit.name or 'root'}", "backward")
                self._post_backward(unit)
                done.add(unit.name)
        self._compute("backward end", "backward")
        entered = {unit.name for what, unit in self.events}
        for unit in self.units.values():  # the final callback: inputs without a gradient
            if unit.name not in done and unit.name in entered:
                self._post_backward(unit)
        for event in self.reduced.values():
            self._wait_event(event, MAIN)
        self.reduced, self.scattered = {}, ""
        self.finished.clear()
        self.places.clear()

    def _pre_backward(self, unit: Unit, told: Iterable[str] | None) -> None:
        if unit.name not in self.unsharded_backward:
            return
        self._unshard(unit, "backward")
        self._await(unit, backward=True)
        if told is not None:
            for target in told:
                self._unshard(self.units[target], "backward prefetch")
            return
        places = self.places.get(unit.name, [])
        while places and places[-1] >= len(self.finished):  # a later unit took it away
            places.pop()
        if places:
            place = places[-1]
            if place > 0:
                self._unshard(self.finished[place - 1], "backward prefetch")
            self.finished[place:] = []

    def _targets(self, told: Prefetch, direction: int) -> dict[str, list[str]]:
        """Return the units that each unit gathers ahead."""
        if not isinstance(told, int):
            named = [one for unit, names in told.items() for one in (unit, *names)]
            option = f"{'forward' if direction > 0 else 'backward'}_prefetch"
            refuse_unknown(self.units, named, "a prefetch", option)
            return {unit: list(names) for unit, names in told.items()}
        found: dict[str, list[str]] = {}
        for at, name in enumerate(self.sequence):
            farthest = min(told, len(self.sequence))
            places = (at + direction * step for step in range(1, farthest + 1))
            found[name] = [self.sequence[p] for p in places if 0 <= p < len(self.sequence)]
        return found

    # --- collectives -------------------------------------------------------------------------

    def _unshard(self, unit: Unit, why: str) -> None:
        """Gather the parameters of a unit, unless they are there or on their way."""
        if not unit.own or unit.name in self.pending or self.state[unit.name] == "whole":
            return
        inside = [self.module.parameters[at] for at in unit.own]
        part = self.state[unit.name] == "part"
        ranks = self.options.reshard(unit.name) if part else self.shard
        self.pending[unit.name] = "" if ranks == 1 else f"ag{self.edges}"
        if ranks == 1:
            return
        size = self._gathered(inside, int(ranks) if part else 0)
        label = f"iter{self.step} {why} {unit.name or 'root'}: {_names(inside)}"
        fields = {"group": "part" if part else "shard", "label": label, "stream": GATHER}
        phase = "forward" if "forward" in why else "backward"
        src = inside[0].src
        self.out.append(
            Call("all_gather_into_tensor", {**fields, **size, "src": src, "phase": phase})
        )
        self.pending[unit.name] = self._record(GATHER)

    def _gathered(self, inside: Sequence[TensorInfo], part: int) -> dict[str, Any]:
        """Return the size of what one rank contributes; several dtypes travel as bytes."""
        dtypes = [self._param_dtype(tensor) for tensor in inside]
        counts = [self._chunk(tensor) for tensor in inside]
        if part:
            counts = [count * self.shard // part for count in counts]
        if len(set(dtypes)) == 1:
            return plan_size(dtypes[0], sum(counts))
        pairs = zip(dtypes, counts, strict=True)
        return plan_size("uint8", sum(ITEM_BYTES[dtype] * count for dtype, count in pairs))

    def _await(self, unit: Unit, *, backward: bool = False) -> None:
        """Let the computation wait for a gather, and later gathers for the copy out of it."""
        event = self.pending.pop(unit.name, None)
        if event is None:
            return
        self.state[unit.name] = "whole"
        if event:
            self._wait_event(event, MAIN)
            if backward:
                self._edge(MAIN, GATHER)

    def _post_backward(self, unit: Unit) -> None:
        """Reduce the gradients of a unit and shard its parameters again."""
        self.state[unit.name] = "sharded"
        inside = self._trainable(unit)
        if not inside or self.step in self.options.no_sync:
            return
        if self.scattered:
            self._wait_event(self.scattered, MAIN)
        dtype = self.options.reduce_dtype or self._param_dtype(inside[0])
        size = plan_size(dtype, sum(self._chunk(tensor) for tensor in inside))
        label = f"iter{self.step} gradients {unit.name or 'root'}: {_names(inside)}"
        self._edge(MAIN, SCATTER)
        fields = {"label": label, "src": inside[0].src, "phase": "backward", **size}
        if self.shard > 1:
            more = {"group": "shard", "stream": SCATTER}
            self.out.append(Call("reduce_scatter_tensor", {**fields, **more}))
        self.scattered = self._record(SCATTER)
        self.reduced[SCATTER] = self.scattered
        if self.options.replicate > 1:
            self._wait_event(self.scattered, REDUCE)
            more = {"group": "replicate", "stream": REDUCE}
            self.out.append(Call("all_reduce", {**fields, **more}))
            self.reduced = {REDUCE: self._record(REDUCE)}

    def _trainable(self, unit: Unit) -> list[TensorInfo]:
        tensors = [self.module.parameters[place] for place in unit.own]
        return [tensor for tensor in tensors if tensor.requires_grad]

    def _chunk(self, tensor: TensorInfo) -> int:
        """Return the elements that one rank has of a parameter, padded in the first dimension."""
        rows = -(-tensor.shape[0] // self.shard)
        return rows * (tensor.count // tensor.shape[0] if tensor.shape[0] else 0)

    def _param_dtype(self, tensor: TensorInfo) -> str:
        return self.options.param_dtype or tensor.dtype

    # --- streams -----------------------------------------------------------------------------

    def _edge(self, first: str, then: str) -> None:
        """Let one stream wait for what another holds now."""
        self._wait_event(self._record(first), then)

    def _record(self, stream: str) -> str:
        self.edges += 1
        event = f"e{self.edges}"
        self.out.append(Call("event_record", {"event": event, "stream": stream}))
        return event

    def _wait_event(self, event: str, stream: str) -> None:
        self.out.append(Call("event_wait", {"event": event, "stream": stream}))

    def _compute(self, what: str, phase: str) -> None:
        name = f"iter{self.step} {what}"
        self.out.append(Call("compute", {"op_name": name, "phase": phase, "stream": MAIN}))


def _names(tensors: Sequence[TensorInfo]) -> str:
    return joined([tensor.name for tensor in tensors])
