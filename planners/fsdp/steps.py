"""What one rank of an FSDP2 job issues, in order.

The order is that of torch 2.13 (``_fsdp_state.py``, ``_fsdp_param_group.py`` and
``_fsdp_collectives.py`` of ``torch.distributed.fsdp``);
tests/integration/test_fsdp_gloo.py holds it against real processes.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

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

    from ..common.calls import Row
    from ..common.module import ModuleInfo, Source, TensorInfo
    from .options import FsdpOptions, Prefetch
    from .units import Unit

MAIN, GATHER, SCATTER, REDUCE = "main", "all_gather", "reduce_scatter", "all_reduce"


def rank_rows(module: ModuleInfo, options: FsdpOptions, shard: int) -> list[Row]:
    """Return what a rank issues, as a plan file has it.

    Args:
        module: The module, alike on all ranks.
        options: The options of this rank.
        shard: Ranks that share one copy of the parameters.

    Raises:
        PlanError: An option names something that the module does not have.
    """
    return _Rank(module, options, shard).rows()


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
        self.out: list[Row] = []
        self.state = dict.fromkeys(self.units, "sharded")
        self.pending: dict[str, str] = {}
        self.gathers: dict[tuple[str, int], tuple[str, Row]] = {}
        self.reductions: dict[str, tuple[str, Source, dict[str, Any]]] = {}
        self.finished: list[Unit] = []
        self.places: dict[str, list[int]] = {}
        self.scattered = ""
        self.reduced: dict[str, str] = {}
        self.edges = 0
        self.step = 0

    def rows(self) -> list[Row]:
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
        part = self.state[unit.name] == "part"
        ranks = self.options.reshard(unit.name) if part else self.shard
        self.pending[unit.name] = "" if ranks == 1 else f"ag{self.edges}"
        if ranks == 1:
            return
        names, row = self._gather(unit, int(ranks) if part else 0)
        label = f"iter{self.step} {why} {unit.name or 'root'}: {names}"
        phase = "forward" if "forward" in why else "backward"
        self.out.append({**row, "label": label, "phase": phase})
        self.pending[unit.name] = self._record(GATHER)

    def _gather(self, unit: Unit, part: int) -> tuple[str, Row]:
        """Return the parameters of a unit and how they are gathered, the same in all steps."""
        found = self.gathers.get((unit.name, part))
        if found is None:
            inside = [self.module.parameters[at] for at in unit.own]
            row: Row = {"op": "all_gather_into_tensor", "src": inside[0].src, "label": ""}
            row |= {"stream": GATHER, "phase": "", **self._gathered(inside, part)}
            row["group"] = "part" if part else "shard"
            found = self.gathers[unit.name, part] = joined([one.name for one in inside]), row
        return found

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
        if self.step in self.options.no_sync:
            return
        names, src, size = self._reduction(unit)
        if not size:
            return
        if self.scattered:
            self._wait_event(self.scattered, MAIN)
        label = f"iter{self.step} gradients {unit.name or 'root'}: {names}"
        self._edge(MAIN, SCATTER)
        said = {"src": src, "label": label}
        if self.shard > 1:
            row = {"op": "reduce_scatter_tensor", **said, "stream": SCATTER, "phase": "backward"}
            self.out.append({**row, **size, "group": "shard"})
        self.scattered = self._record(SCATTER)
        self.reduced[SCATTER] = self.scattered
        if self.options.replicate > 1:
            self._wait_event(self.scattered, REDUCE)
            row = {"op": "all_reduce", **said, "stream": REDUCE, "phase": "backward"}
            self.out.append({**row, **size, "group": "replicate"})
            self.reduced = {REDUCE: self._record(REDUCE)}

    def _reduction(self, unit: Unit) -> tuple[str, Source, dict[str, Any]]:
        """Return the gradients of a unit, the same in all steps; without a size if it has none."""
        found = self.reductions.get(unit.name)
        if found is None:
            tensors = [self.module.parameters[place] for place in unit.own]
            inside = [tensor for tensor in tensors if tensor.requires_grad]
            found = "", ("", 0, ""), {}
            if inside:
                dtype = self.options.reduce_dtype or self._param_dtype(inside[0])
                size = plan_size(dtype, sum([self._chunk(tensor) for tensor in inside]))
                found = joined([one.name for one in inside]), inside[0].src, size
            self.reductions[unit.name] = found
        return found

    def _chunk(self, tensor: TensorInfo) -> int:
        """Return the elements that one rank has of a parameter, padded in the first dimension."""
        first, *rest = tensor.shape
        return -(-first // self.shard) * prod(rest) if first else 0

    def _param_dtype(self, tensor: TensorInfo) -> str:
        return self.options.param_dtype or tensor.dtype

    # --- streams -----------------------------------------------------------------------------

    def _edge(self, first: str, then: str) -> None:
        """Let one stream wait for what another holds now."""
        self._wait_event(self._record(first), then)

    def _record(self, stream: str) -> str:
        self.edges += 1
        event = f"e{self.edges}"
        self.out.append({"op": "event_record", "stream": stream, "event": event})
        return event

    def _wait_event(self, event: str, stream: str) -> None:
        self.out.append({"op": "event_wait", "stream": stream, "event": event})

    def _compute(self, what: str, phase: str) -> None:
        name = f"iter{self.step} {what}"
        self.out.append({"op": "compute", "stream": MAIN, "phase": phase, "op_name": name})
