"""Communicators that a host thread makes with its first call: made before the call takes its turn.

torch launches a kernel once its communicator exists (``ProcessGroupNCCL::collective``). A thread
that stands at the creation has launched nothing, and what other threads launch meanwhile is ahead
of it in every queue of the device.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from oracle.program import COLLECTIVES, POINT_TO_POINT, REGISTERED, Action

if TYPE_CHECKING:
    from oracle.models import Model
    from oracle.program import Program


def created_first(program: Program, model: Model) -> Program:
    """Give the program with an `init` in front of every call of a thread that may create."""
    if not model.lazy:
        return program
    return replace(program, ranks=tuple(_created(actions, model) for actions in program.ranks))


def _created(actions: tuple[Action, ...], model: Model) -> tuple[Action, ...]:
    found, made = [], list[Action]()
    for action in actions:
        before = action.before
        for part in _users(action) if action.thread else ():
            pair = model.pairs and action.kind in POINT_TO_POINT
            init = Action(
                index=len(actions) + len(made),
                kind="init",
                group=part.group,
                peer=part.peer if pair else None,
                before=before,
                thread=action.thread,
            )
            made.append(init)
            before |= {init.index}
        found.append(replace(action, before=before))
    return (*found, *made)


def _users(action: Action) -> tuple[Action, ...]:
    calls = action.parts if action.kind == "batch" else (action,)
    known = COLLECTIVES | POINT_TO_POINT | REGISTERED.keys()
    return tuple(call for call in calls if call.kind in known)
