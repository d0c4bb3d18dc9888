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
    op, src, work = event.op, event.src, event.work
    if op == "compute":
        return {"op": op, "src": src, "op_name": event.name, **_place(event.name)}
    if op == "sync":
        return {"op": "host_sync", "src": src}
    row: Row = {"op": op, "src": src}
    if work >= 0:
        row["work"] = f"w{work}"
    if op == "batch":
        row["ops"] = [_filled({"src": src}, one) for one in event.messages]
    elif op != "wait":
        _filled(row, event.messages[0])
    return row


def _place(name: str) -> dict[str, Any]:
    """Return what a name such as F1.0 or "F1.0: layer 3" says for pictures."""
    stage, _, mb = name.partition(":")[0][1:].partition(".")
    if name[:1] not in {"F", "B"} or not stage.isdecimal() or not mb.isdecimal():
        return {}
    phase = "forward" if name[0] == "F" else "backward"
    return {"stage": int(stage), "mb": int(mb), "phase": phase}


def _filled(row: Row, message: Message) -> Row:
    """Return a row with the fields of a message, in place: no row is copied into another."""
    row["op"] = message.op  # of a collective that Galvatron implies the event has no name
    row["group"] = message.group
    if message.peer >= 0:
        row["peer"] = message.peer
    if message.label:
        row["label"] = message.label
    if message.count >= 0:
        row.update(plan_size(message.dtype, message.count))
    return row
