"""Change: one local edit of one rank program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Change:
    """Replace the actions ``start`` to ``stop`` of one rank by others.

    Actions are counted as in findings: from 0, loops unrolled, a batch as one.

    Attributes:
        rank: Global rank.
        start: First action that is replaced.
        stop: The action after the last one that is replaced; equal to ``start`` to insert.
        actions: What stands there afterwards: an integer is that action of the rank as it is, a
            dictionary is a new action in the words of the plan format.
    """

    rank: int
    start: int
    stop: int
    actions: tuple[int | dict[str, Any], ...] = ()

    @classmethod
    def swap(cls, rank: int, one: int, other: int) -> Change:
        """Exchange two actions of a rank."""
        low, high = sorted((one, other))
        return cls(rank, low, high + 1, (high, *range(low + 1, high), low)[: high - low + 1])

    @classmethod
    def move(cls, rank: int, action: int, to: int) -> Change:
        """Move an action to the place ``to``, counted without it."""
        if to >= action:
            return cls(rank, action, to + 1, (*range(action + 1, to + 1), action))
        return cls(rank, to, action + 1, (action, *range(to, action)))

    @classmethod
    def delete(cls, rank: int, action: int) -> Change:
        """Leave an action out."""
        return cls(rank, action, action + 1)

    @classmethod
    def insert(cls, rank: int, action: int, *actions: dict[str, Any]) -> Change:
        """Insert actions before an action."""
        return cls(rank, action, action, actions)

    @classmethod
    def replace(cls, rank: int, action: int, *actions: dict[str, Any]) -> Change:
        """Put actions in the place of one."""
        return cls(rank, action, action + 1, actions)
