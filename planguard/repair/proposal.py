"""One candidate repair, before anybody knows whether it helps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.repair.patch import pointer
from planguard.verdict import Edit

if TYPE_CHECKING:
    from planguard.plan.pointers import Steps


@dataclass(frozen=True)
class Proposal:
    """A change of the plan file.

    Attributes:
        kind: ``batch``, ``move``, ``swap``, ``async``, ``sync``, ``order``, ``launch``, ``group``,
            ``bucket``, ``agree`` or ``peer``.
        edits: What to do, in this order.
        touched: Places of the actions that are changed or issued elsewhere.
        text: The change in words; ``{0}`` stands for the first of ``places``.
        places: Places of the actions that the words name.
        span: How far something moves; small changes are tried first.
    """

    kind: str
    edits: tuple[Edit, ...]
    touched: frozenset[Steps]
    text: str
    places: tuple[Steps, ...] = ()
    span: int = 1


def remove(*steps: Any) -> Edit:
    """Return the edit that takes away what stands at a place."""
    return Edit(pointer(steps), "remove")


def add(*steps: Any, value: Any) -> Edit:
    """Return the edit that puts a value before what stands at a place of a list, or into a map."""
    return Edit(pointer(steps), "add", value)


def put(*steps: Any, value: Any) -> Edit:
    """Return the edit that puts a value in the place of another."""
    return Edit(pointer(steps), "replace", value)
