"""Where an action stands in a file: the planner's own line, else the line of the plan file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planguard.plan.plan import Plan
    from planguard.verdict import Location

LARGE = 1 << 20
"""Size from which finding a line in a plan file is slow, bytes."""
LOOKUPS, FEW_LOOKUPS = 400, 40
"""Lines looked up per plan, and per large plan."""


def shown(file: str) -> str:
    """Return a file as pictures name it: an absolute path says who drew them, its name does not."""
    path = PurePath(file)
    return path.name if path.is_absolute() else file


@dataclass(frozen=True)
class Spot:
    """A file and, if known, a 1-based line."""

    file: str
    line: int | None = None


@dataclass
class Places:
    """Finds the places of one plan that was read from ``path``, each line once."""

    path: str
    plan: Plan | None
    known: dict[tuple[int, int], int | None] = field(default_factory=dict)

    def spot(self, place: Location | None) -> Spot:
        """Return where a place is; the plan as a whole for None."""
        if place is None:
            return Spot(self.path)
        if place.source is not None and place.source.line is not None:
            return Spot(place.source.file, place.source.line)
        return Spot(self.path, self._line(place.rank, place.action))

    def at(self, rank: int, action: int) -> Spot:
        """Return where an action of the plan is."""
        plan = self.plan
        if plan is None:
            return Spot(self.path)
        source = plan.action_at(rank, action).src
        if source is not None and source.line is not None:
            return Spot(source.file, source.line)
        return Spot(self.path, self._line(rank, action))

    def _line(self, rank: int, action: int) -> int | None:
        plan = self.plan
        if plan is None or plan.file is None:
            return None
        key = (rank, action)
        if key not in self.known:
            limit = LOOKUPS if len(plan.source) < LARGE else FEW_LOOKUPS
            if len(self.known) >= limit:
                return None
            self.known[key] = plan.line_of(rank, action)
        return self.known[key]
