"""Read schedules that live in memory. torch is not imported: its objects are read by their fields.

Accepted are ``_PipelineScheduleRuntime`` objects (``pipeline_order_with_comms``), any schedule with
a ``pipeline_order`` or a ``_get_pipeline_order()``, and a dict from rank to a list of actions, each
a torch ``_Action``, its text, or None for a bubble.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from planguard.errors import PlanError

from .actions import Action, Kind, checked, parse_cell
from .order import Cell, Order


@runtime_checkable
class ActionLike(Protocol):
    """The fields of torch's ``_Action`` that are read (``sub_actions`` since torch 2.8)."""

    stage_index: int
    computation_type: Any
    microbatch_index: int | None


def is_schedule(obj: object) -> bool:
    """Tell whether an object is a torch schedule, by its fields."""
    return any(
        hasattr(obj, name)
        for name in ("pipeline_order_with_comms", "pipeline_order", "_get_pipeline_order")
    )


def is_order(obj: object) -> bool:
    """Tell whether an object maps ranks to lists of actions."""
    if not isinstance(obj, Mapping) or not obj:
        return False
    if not all(isinstance(rank, int) and not isinstance(rank, bool) for rank in obj):
        return False
    rows = list(obj.values())
    if not all(isinstance(row, Sequence) and not isinstance(row, str | bytes) for row in rows):
        return False
    first = next((entry for row in rows for entry in row if entry is not None), None)
    return isinstance(first, str | ActionLike | Action)


def from_mapping(rows: Mapping[int, Sequence[object]], source: str) -> Order:
    """Read a dict from rank to actions.

    Raises:
        PlanError: The ranks are not 0..P-1, or an entry is not an action.
    """
    ranks = sorted(rows)
    if ranks != list(range(len(ranks))):
        raise PlanError(
            "the ranks of a schedule must be 0 to P-1 without gaps",
            file=source,
            path="schedule",
            value=ranks,
        )
    return Order(source, tuple(_row(rows[rank], rank, source) for rank in ranks))


def schedule_order(schedule: Any) -> Order | None:
    """Read the order that a schedule object carries, the one with communication if it has one.

    Returns:
        None when the object carries no order at all.
    """
    name = type(schedule).__name__
    for field in ("pipeline_order_with_comms", "pipeline_order"):
        rows = getattr(schedule, field, None)
        if isinstance(rows, Mapping) and rows:
            return from_mapping(rows, f"{name}.{field}")
    if hasattr(schedule, "_get_pipeline_order"):
        rows = schedule._get_pipeline_order()  # noqa: SLF001 - all that GPipe and 1F1B offer
        if isinstance(rows, Mapping) and rows:
            return from_mapping(rows, f"{name}._get_pipeline_order()")
    return None


def custom_functions(schedule: Any) -> tuple[str, ...]:
    """Name the action types for which a function of the user replaces what torch does."""
    registered = getattr(schedule, "_comp_type_to_function_map", None) or {}
    return tuple(sorted(str(getattr(kind, "value", kind)) for kind in registered))


def fsdp_stages(schedule: Any) -> tuple[int, ...]:
    """Name the local stages whose module is wrapped with FSDP, judged by class names."""
    stages = getattr(schedule, "_stages", None) or [getattr(schedule, "_stage", None)]
    return tuple(
        stage.stage_index
        for stage in stages
        if any(base.__name__ == "FSDPModule" for base in type(_module(stage)).__mro__)
    )


def _module(stage: Any) -> Any:
    return getattr(stage, "submod", None)


def _row(entries: Sequence[object], rank: int, source: str) -> tuple[Cell, ...]:
    cells = []
    for column, entry in enumerate(entries):
        try:
            action = _action(entry)
        except (ValueError, TypeError) as error:
            raise PlanError(
                str(error),
                file=source,
                path=f"row {rank + 1}, cell {column + 1}",
                value=entry,
                hint="an entry is a torch _Action, its text such as '0F3', or None for a bubble",
            ) from None
        if action is not None:
            cells.append(Cell(action, rank, column))
    return tuple(cells)


def _action(entry: object) -> Action | None:
    if entry is None:
        return None
    if isinstance(entry, str):
        return parse_cell(entry)
    if isinstance(entry, Action):
        return checked(entry)
    if not isinstance(entry, ActionLike):
        raise TypeError("not an action")
    parts = getattr(entry, "sub_actions", None) or ()
    kind = Kind(getattr(entry.computation_type, "value", entry.computation_type))
    leaves = tuple(leaf for part in parts if (leaf := _action(part)) is not None)
    if kind is Kind.OVERLAP_F_B:
        return checked(Action(kind, -1, None, leaves))
    return checked(
        Action(kind, _number(entry.stage_index), _optional(entry.microbatch_index), leaves)
    )


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError("stage and microbatch must be integers")
    return value


def _optional(value: object) -> int | None:
    return None if value is None else _number(value)
