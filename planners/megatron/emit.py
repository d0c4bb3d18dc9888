"""Events of a rank as actions of its program: recorded ones, and those that Galvatron implies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..common.module import plan_size

if TYPE_CHECKING:
    from planguard.plan.building.program import ProgramBuilder

    from .recording import Event, Message

Row = dict[str, Any]
"""An action, as a plan file has it."""


def write_events(
    program: ProgramBuilder, events: tuple[Event, ...], *, device_sync: bool = True
) -> None:
    """Write the events of a rank.

    Args:
        program: The rank's program.
        events: What it calls, in order.
        device_sync: False leaves out synchronizations of the device.
    """
    rows = [_row(event) for event in events if device_sync or event.op != "sync"]
    program.extend(rows)


def _row(event: Event) -> Row:
    """Return an event as a plan file has it."""
    row: Row = {"op": event.op, "src": event.src}
    if event.op == "compute":
        return {**row, "op_name": event.name, **_place(event.name)}
    if event.op == "sync":
        return {**row, "op": "host_sync"}
    if event.work >= 0:
        row["work"] = f"w{event.work}"
    if event.op == "wait":
        return row
    if event.op == "batch":
        return row | {"ops": [_fields(message, event) for message in event.messages]}
    return row | _fields(event.messages[0], event)


def _place(name: str) -> dict[str, Any]:
    """Return what a name such as F1.0 or "F1.0: layer 3" says for pictures."""
    stage, _, mb = name.partition(":")[0][1:].partition(".")
    if name[:1] not in {"F", "B"} or not stage.isdecimal() or not mb.isdecimal():
        return {}
    phase = "forward" if name[0] == "F" else "backward"
    return {"stage": int(stage), "mb": int(mb), "phase": phase}


def _fields(message: Message, event: Event) -> Row:
    fields: Row = {"op": message.op, "group": message.group, "src": event.src}
    if message.peer >= 0:
        fields["peer"] = message.peer
    if message.label:
        fields["label"] = message.label
    return fields if message.count < 0 else fields | plan_size(message.dtype, message.count)
