"""nnScaler's own objects, read by their fields: ``ExecutionPlan`` and ``SchedulePlan``.

A planner that runs nnScaler's passes holds an ``ExecutionPlan`` before any code is generated. This
module knows the classes by name only and never imports nnScaler (``nnscaler/execplan/execplan.py``
and ``nnscaler/graph/schedule/schedplan.py`` of 0.8).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.errors import PlanError

from .cells import CellWalker
from .emit import group_order
from .model import NnScalerPlan, Program
from .module import Parameter, RankModule, ReducerSpec
from .objects import is_param, kinds, name_of, objects, spec_of
from .rank import Rank
from .source import RankSource

if TYPE_CHECKING:
    from .options import NnScalerOptions

_PLANS = frozenset({"ExecutionPlan", "SchedulePlan"})


@dataclass(frozen=True)
class Step:
    """One entry of a device's sequence: a cell, and the suffix that tells its microbatch apart."""

    cell: Any
    suffix: str = ""


def is_plan_object(obj: object) -> bool:
    """Tell whether an object is an ``ExecutionPlan`` or a ``SchedulePlan``, by name and methods."""
    found = kinds(obj) & _PLANS
    if "SchedulePlan" in found:
        return hasattr(obj, "nodes") and hasattr(obj, "nmicros")
    return bool(found) and hasattr(obj, "seq") and hasattr(obj, "devices")


def read_objects(obj: Any, options: NnScalerOptions) -> NnScalerPlan:
    """Read a plan in memory.

    Raises:
        PlanError: Passes are missing, or a cell is of a kind that nnScaler does not execute.
    """
    sequences = _sequences(obj)
    devices = len(sequences)
    world = options.world_size or options.setting("runtime_ngpus", None) or devices
    if (
        not devices
        or not isinstance(world, int)
        or sorted(sequences) != list(range(devices))
        or world % devices
    ):
        raise PlanError(
            "the devices of the plan are not 0 to n - 1, or the world is no multiple of them",
            path="devices", value=sorted(sequences)[:8],
            hint="assign every cell, and pass world_size= as a multiple of the devices",
        )  # fmt: skip
    schedule = getattr(getattr(obj, "graph", None), "sched", None)
    micro = int(getattr(obj, "nmicros", None) or getattr(schedule, "nmicros", None) or 1)
    title = type(obj).__name__
    programs = []
    for rank in range(world):
        sequence = sequences[rank % devices]
        module = RankModule(RankSource(rank, title, ast.Module([], [])))
        module.use_scheduler, module.microbatches = micro > 1, micro
        shift = rank - rank % devices
        _read_reducers(module, sequence, rank, devices, world, options)
        walker = CellWalker(
            Rank(module, world, options, Program(rank)), shift, rank % devices, title
        )
        programs.append(
            walker.walk([(s.cell, s.suffix) for s in sequence], _inputs(obj), _outputs(obj))
        )
    return NnScalerPlan(
        programs=tuple(programs),
        groups=group_order(tuple(programs)),
        microbatches=micro,
        name=str(getattr(getattr(obj, "graph", None), "name", "") or title),
        producer=("nnscaler", "0.8"),
        notes=_notes(sequences),
    )


def _sequences(obj: Any) -> dict[int, list[Step]]:
    """Return the cells of every device in order."""
    if "SchedulePlan" not in kinds(obj):
        return {int(device): [Step(cell) for cell in obj.seq(device)] for device in obj.devices()}
    found: dict[int, list[Step]] = {}
    for entry in obj.nodes():
        cell = getattr(entry, "content", entry)
        suffix = f"@{entry.mid}" if hasattr(entry, "mid") else ""
        for device in cell.device:
            found.setdefault(int(device), []).append(Step(cell, suffix))
    return found


def _inputs(obj: Any) -> list[str]:
    graph = getattr(obj, "graph", None)
    return [name_of(found) for found in objects(graph.inputs())] if graph is not None else []


def _outputs(obj: Any) -> list[tuple[str, ...]]:
    """Return what the step returns, per microbatch."""
    if "SchedulePlan" in kinds(obj):
        names = [name_of(found) for found in objects(obj.graph.outputs())]
        return [tuple(f"{name}@{place}" for name in names) for place in range(obj.nmicros)]
    return [tuple(name_of(found) for found in objects(entry)) for entry in obj.outputs()]


def _read_reducers(
    module: RankModule, sequence: list[Step], rank: int, devices: int, world: int,
    options: NnScalerOptions,
) -> None:  # fmt: skip
    """Collect parameters and reducers, those that replication over ``world`` adds included."""
    order = _first_uses(sequence)
    for weight in order.values():
        shape, dtype = spec_of(weight)
        name = name_of(weight)
        origin = str(getattr(getattr(weight, "parent", None), "name", name))
        module.parameters[name] = Parameter(name, shape or (), dtype, origin, True)
    taken: set[str] = set()
    for step in sequence:
        if "IRWeightReducer" in kinds(step.cell):
            names = {name_of(weight) for weight in step.cell.inputs()}
            ranks = {at for device in step.cell.device for at in range(device, world, devices)}
            _add_reducer(module, f"wreducer{step.cell.cid}", ranks, names, order, options)
            taken |= names
    if world == devices:
        return
    ranks = set(range(rank % devices, world, devices))
    for whole in (True, False):
        names = {
            name for name, weight in order.items()
            if name not in taken and _is_whole(weight) == whole
        }  # fmt: skip
        for dtype in dict.fromkeys(module.parameters[n].dtype for n in order if n in names):
            same = {name for name in names if module.parameters[name].dtype == dtype}
            title = f"wreducer_{'replicated' if whole else 'partitioned'}_{dtype}"
            _add_reducer(module, title, ranks, same, order, options)


def _add_reducer(
    module: RankModule, title: str, ranks: set[int], names: set[str], order: dict[str, Any],
    options: NnScalerOptions,
) -> None:  # fmt: skip
    fields = options.reducer_fields()
    where = (module.source.file, 1, title)
    params = tuple(name for name in order if name in names)
    if params:
        spec = ReducerSpec(title, tuple(sorted(ranks)), fields, params, where)
        module.reducers[title] = spec


def _first_uses(sequence: list[Step]) -> dict[str, Any]:
    """Return the parameters of a device in order of first use."""
    found: dict[str, Any] = {}
    for step in sequence:
        cell = getattr(step.cell, "cell", step.cell)
        if "IRSegment" in kinds(cell) and cell.isfw():
            for node in cell.nodes():
                for entry in objects(node.inputs()):
                    if is_param(entry):
                        found.setdefault(name_of(entry), entry)
    return found


def _is_whole(weight: Any) -> bool:
    return tuple(weight.shape) == tuple(weight.parent.shape)


def _notes(sequences: dict[int, list[Step]]) -> tuple[tuple[str, str, str], ...]:
    message = "process groups are created by the code that is generated later, in one order"
    del sequences
    return (("groups-not-created", message, "exact"),)
