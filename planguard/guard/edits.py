"""Change: one local edit of one rank program."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.arguments import WHOLE, Wanted, arguments, refused

if TYPE_CHECKING:
    from collections.abc import Iterable

CHANGE = Wanted(
    lambda _: False,
    "no change of a rank's actions",
    "Change.swap(rank, one, other), .move, .delete, .insert and .replace make one",
)


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

    def __post_init__(self) -> None:
        """Refuse what is no place and no action, at the call that makes the change."""
        if type(self.rank) is type(self.start) is type(self.stop) is int and self._is_plain():
            return
        try:
            for name in ("rank", "start", "stop"):  # integers of numpy, for one
                object.__setattr__(self, name, operator.index(getattr(self, name)))
            actions = (a if isinstance(a, dict) else operator.index(a) for a in self.actions)
            object.__setattr__(self, "actions", tuple(actions))
        except TypeError:
            raise refused("Change", self._given(), CHANGE) from None

    def _is_plain(self) -> bool:
        return type(self.actions) is tuple and all(type(a) in (int, dict) for a in self.actions)

    def _given(self) -> tuple[Any, ...]:
        return (self.rank, self.start, self.stop, self.actions)

    @classmethod
    @arguments(rank=WHOLE, one=WHOLE, other=WHOLE)
    def swap(cls, rank: int, one: int, other: int) -> Change:
        """Exchange two actions of a rank."""
        low, high = sorted((one, other))
        return cls(rank, low, high + 1, (high, *range(low + 1, high), low)[: high - low + 1])

    @classmethod
    @arguments(rank=WHOLE, action=WHOLE, to=WHOLE)
    def move(cls, rank: int, action: int, to: int) -> Change:
        """Move an action to the place ``to``, counted without it."""
        if to >= action:
            return cls(rank, action, to + 1, (*range(action + 1, to + 1), action))
        return cls(rank, to, action + 1, (action, *range(to, action)))

    @classmethod
    @arguments(rank=WHOLE, action=WHOLE)
    def delete(cls, rank: int, action: int) -> Change:
        """Leave an action out."""
        return cls(rank, action, action + 1)

    @classmethod
    @arguments(rank=WHOLE, action=WHOLE)
    def insert(cls, rank: int, action: int, *actions: dict[str, Any]) -> Change:
        """Insert actions before an action."""
        return cls(rank, action, action, actions)

    @classmethod
    @arguments(rank=WHOLE, action=WHOLE)
    def replace(cls, rank: int, action: int, *actions: dict[str, Any]) -> Change:
        """Put actions in the place of one."""
        return cls(rank, action, action + 1, actions)


def changes_of(edit: Change | Iterable[Change]) -> tuple[Change, ...]:
    """Return the changes of an edit: one, or several in order.

    Raises:
        UsageError: It is neither.
    """
    if isinstance(edit, Change):
        return (edit,)
    is_list = hasattr(edit, "__iter__") and not isinstance(edit, str)
    changes: tuple[Any, ...] = tuple(edit) if is_list else (edit,)
    for one in changes:
        if not isinstance(one, Change):
            raise refused("edit", one, CHANGE)
    return changes
