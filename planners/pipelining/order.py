"""An order: what every pipeline rank does, cell by cell, and where each cell was written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from planguard.errors import PlanError

from .actions import COMPUTE, SHARDING, TRANSFER, Action, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator


class Cell(msgspec.Struct, frozen=True):
    """One action of one rank with the place it comes from.

    Attributes:
        action: The action.
        rank: Pipeline rank that performs it.
        column: 0-based position in the row of the input. A lowering pass gives an inserted action
            the position of the computation that it serves.
        inserted: True when a lowering pass inserted it.
    """

    action: Action
    rank: int
    column: int
    inserted: bool = False

    @property
    def where(self) -> str:
        """Row and cell as a person counts them in the file, from 1."""
        return f"row {self.rank + 1}, cell {self.column + 1}"

    def __str__(self) -> str:
        return f"{self.action} ({self.where})"


@dataclass(frozen=True)
class Order:
    """The actions of every pipeline rank; rank ``r`` is ``rows[r]``.

    Attributes:
        source: File or object the order was read from, for messages and source locations.
        rows: One row per pipeline rank, bubbles left out.
    """

    source: str
    rows: tuple[tuple[Cell, ...], ...]

    def cells(self) -> Iterator[Cell]:
        """Yield every cell, rank by rank."""
        for row in self.rows:
            yield from row

    @cached_property
    def leaves(self) -> tuple[tuple[tuple[Action, Cell], ...], ...]:
        """The actions of every rank with their cells, in place of an overlap its parts."""
        return tuple(
            tuple((leaf, cell) for cell in row for leaf in cell.action.leaves) for row in self.rows
        )

    @cached_property
    def kinds(self) -> frozenset[Kind]:
        """What occurs, overlaps and their parts included."""
        cells = {cell.action.kind for row in self.rows for cell in row}
        return frozenset(cells.union(leaf.kind for row in self.leaves for leaf, _ in row))

    @property
    def has_transfers(self) -> bool:
        """True when somebody placed the sends and receives already."""
        return not self.kinds.isdisjoint(TRANSFER)

    @property
    def has_sharding(self) -> bool:
        """True when UNSHARD, RESHARD or REDUCE_GRAD occurs."""
        return not self.kinds.isdisjoint(SHARDING)

    @property
    def has_compute(self) -> bool:
        """True when any F, B, I or W occurs."""
        return not self.kinds.isdisjoint(COMPUTE)

    def error(
        self, cell: Cell | None, message: str, hint: str = "", code: str = "PG901"
    ) -> PlanError:
        """Build the error for one cell of this order, or for the order as a whole."""
        return PlanError(
            message,
            code=code,
            file=self.source,
            path="schedule" if cell is None else cell.where,
            value=None if cell is None else str(cell.action),
            hint=hint,
        )
