"""Events of a rank as actions of its program: recorded ones, and those that Galvatron implies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..common.module import plan_size

if TYPE_CHECKING:
    from planguard.plan.building.program import ProgramBuilder

    from .recording import Event, Message


def write_events(
    program: ProgramBuilder, events: tuple[Event, ...], *, device_sync: bool = True
) -> None:
    """Write the events of a rank.

    Args:
        program: The rank's program.
        events: What it calls, in order.
        device_sync: False leaves out synchronizations of the device.
    """
    for event in events:
        work = f"w{event.work}" if event.work >= 0 else None
        if event.op == "compute":
            program.compute(event.name, src=event.src, **_place(event.name))
        elif event.op == "wait":
            program.wait(f"w{event.work}", src=event.src)
        elif event.op == "sync":
            if device_sync:
                program.host_sync(src=event.src)
        elif event.op == "batch":
            with program.batch(work=work, src=event.src):
                for message in event.messages:
                    program.add(message.op, **_fields(message, event))
        else:
            message = event.messages[0]
            begun = {"work": work} if work is not None else {}
            program.add(message.op, **begun, **_fields(message, event))


def _place(name: str) -> dict[str, Any]:
    """Return what a name such as F1.0 or "F1.0: layer 3" says for pictures."""
    stage, _, mb = name.partition(":")[0][1:].partition(".")
    if name[:1] not in {"F", "B"} or not stage.isdecimal() or not mb.isdecimal():
        return {}
    phase = "forward" if name[0] == "F" else "backward"
    return {"stage": int(stage), "mb": int(mb), "phase": phase}


def _fields(message: Message, event: Event) -> dict[str, Any]:
    fields: dict[str, Any] = {"group": message.group, "src": event.src}
    if message.peer >= 0:
        fields["peer"] = message.peer
    if message.label:
        fields["label"] = message.label
    return fields if message.count < 0 else fields | plan_size(message.dtype, message.count)
