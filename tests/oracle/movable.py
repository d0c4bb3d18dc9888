"""Which calls of a reordering block may change places with another one that could be mistaken."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from oracle.program import ANY, COLLECTIVES, POINT_TO_POINT, REGISTERED, SENDS, Action

if TYPE_CHECKING:
    from oracle.models import Model

Place = tuple[object, ...]


def moving(actions: tuple[Action, ...], model: Model) -> tuple[Action, ...]:
    """Say of each call in a reordering block whether its place is open where calls are counted."""
    if all(action.place is None for action in actions):
        return actions
    ahead = [action.before for action in actions]
    for _ in actions:
        # `after` may name what is written later, so one pass does not do.
        ahead = [known.union(*(ahead[at] for at in known)) for known in ahead]
    places = [_places(action, model) for action in actions]
    found = []
    for at, action in enumerate(actions):
        moves = action.place is not None and any(
            other != at and at not in ahead[other] and other not in ahead[at] and shared
            for other, shared in enumerate(_shared(places[at], place) for place in places)
        )
        parts = tuple(replace(part, moves=moves) for part in action.parts)
        found.append(replace(action, moves=moves, parts=parts))
    return tuple(found)


def _places(action: Action, model: Model) -> list[Place]:
    """Give where the calls of an action are counted: on its communicator, or on its channels."""
    found: list[Place] = []
    for one in action.parts if action.kind == "batch" else (action,):
        if one.kind in POINT_TO_POINT:
            tag = one.tag if model.tags else 0
            found.append((one.group, one.kind in SENDS, one.peer, tag))
        elif one.kind in COLLECTIVES | REGISTERED.keys():
            found.append((one.group,))
    return found


def _shared(mine: list[Place], theirs: list[Place]) -> bool:
    """Tell whether two actions have calls that are counted together; a wildcard is any channel."""
    return any(
        len(one) == len(other)
        and all(a == b or ANY in (a, b) for a, b in zip(one, other, strict=True))
        for one in mine
        for other in theirs
    )
