"""The choices of a compiled plan, and the plan of an assignment made by taking rows.

Rows say it where every `choice` stands in no other block. Where one stands in a block of open order
or in a thread, its branch becomes a chain there, and the plan is written anew (``assignments``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from planguard.errors import OrderError
from planguard.plan.actions import Kind
from planguard.plan.fixed import FixedPlan, Picks
from planguard.plan.pointers import walk
from planguard.plan.taking import Taking
from planguard.reordering.branches.assignments import (
    Assignment,
    Use,
    Variables,
    assigned,
    flat_tree,
    variables_of,
    variables_of_uses,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.plan.plan import Plan
    from planguard.plan.rows import Rows


@dataclass(frozen=True)
class Site:
    """A `choice` of a program.

    Attributes:
        number: Its place among all choices of the program, outer ones first.
        node: The action.
        branches: What stands in each branch.
    """

    number: int
    node: Any
    branches: tuple[Body, ...]

    @property
    def fields(self) -> dict[str, Any]:
        """What its variable is known by."""
        said = {"name": self.node.name, "uniform": self.node.uniform, "branches": self.branches}
        return {key: value for key, value in said.items() if value is not UNSET}


Body = tuple["range | Site", ...]
"""Actions in order: ranges of them, with all of their blocks, and choices."""


class Open:
    """A plan with branches: its variables, and the plan of every assignment.

    Args:
        plan: The plan.
        columns: Its columns.
    """

    def __init__(self, plan: Plan, columns: Any) -> None:
        self.plan, self.columns = plan, columns
        self._flat: dict[str, Any] | None = None
        self._bodies: list[Body] = []
        self._names: list[dict[int, str]] = []
        self._taking = self._take()

    def _take(self) -> Taking | None:
        """Return the rows to take from, None where rows do not say it."""
        try:
            taking = Taking(self.plan)
        except OrderError:
            return None
        known: dict[int, Body | None] = {}
        for rank, program in enumerate(taking.plan.code.rank_program):
            if program not in known:
                known[program] = _body_of(taking.rows(rank))
            body = known[program]
            if body is None:
                return None
            self._bodies.append(body)
        return taking

    @property
    def is_by_rows(self) -> bool:
        """Whether its assignments are made by taking rows."""
        return self._taking is not None

    @property
    def flat(self) -> dict[str, Any]:
        """The flat plan, its choices named after their variables."""
        if self._flat is None:
            self._flat = flat_tree(self.plan, self.columns)
            variables_of(self.plan, self._flat)
        return self._flat

    def variables(self) -> Variables:
        """Return the variables of the plan.

        Raises:
            UnclearError: Choices of one name have different numbers of branches, or a uniform one
                without a name is shared by ranks with different programs.
        """
        if self._taking is None:
            self._flat = flat_tree(self.plan, self.columns)
            return variables_of(self.plan, self._flat)
        uses = []
        self._names = []
        for rank, body in enumerate(self._bodies):
            mine = [Use.of(self.plan, rank, site.number, site.fields) for site in _sites(body)]
            self._names.append({use.number: use.name for use in mine})
            uses += mine
        return variables_of_uses(uses)

    def assigned(self, assignment: Assignment) -> FixedPlan:
        """Return the plan of one assignment.

        Raises:
            OrderError: Its programs are no valid plan.
        """
        if self._taking is None:
            return assigned(self.flat, assignment)
        taken = []
        for rank, body in enumerate(self._bodies):
            names = self._names[rank]
            branch = {
                number: assignment.get((name, rank), assignment.get((name, -1), 0))
                for number, name in names.items()
            }
            taken.append(list(_taken(body, branch)))
        return self._taking.fixed(taken, picks=Picks(branches=tuple(sorted(assignment.items()))))


def _taken(body: Body, branch: dict[int, int]) -> Iterator[range]:
    for part in body:
        if isinstance(part, Site):
            yield from _taken(part.branches[branch[part.number]], branch)
        else:
            yield part


def _sites(body: Body) -> Iterator[Site]:
    """Yield the choices of a body, outer ones first."""
    for part in body:
        if isinstance(part, Site):
            yield part
            for branch in part.branches:
                yield from _sites(branch)


_BLOCK = {
    Kind.UNORDERED_BEGIN: 1,
    Kind.THREADS_BEGIN: 1,
    Kind.UNORDERED_END: -1,
    Kind.THREADS_END: -1,
}


def _body_of(rows: Rows) -> Body | None:
    """Return the choices of a program and what stands between them; None if rows do not say."""
    parts: list[Any] = []
    stack: list[tuple[int, Any, list[Any], list[Any]]] = []
    begin = depth = number = 0
    for at, kind in enumerate(rows.kinds):
        depth += _BLOCK.get(Kind(kind), 0)
        if kind not in _CHOICES:
            continue
        if depth:
            return None
        if begin < at:
            parts.append(range(begin, at))
        begin = at + 1
        if kind == Kind.CHOICE_BEGIN:
            stack.append((number, rows.node(at), [], parts))
            number += 1
        elif kind == Kind.BRANCH_BEGIN:
            parts = []
            stack[-1][2].append(parts)
        else:
            mine, node, branches, parts = stack.pop()
            parts.append(Site(mine, node, tuple(tuple(branch) for branch in branches)))
    if begin < len(rows.kinds):
        parts.append(range(begin, len(rows.kinds)))
    return None if _is_named_from_outside(rows, tuple(parts)) else tuple(parts)


_CHOICES = frozenset({Kind.CHOICE_BEGIN, Kind.BRANCH_BEGIN, Kind.CHOICE_END})


def _is_named_from_outside(rows: Rows, body: Body) -> bool:
    """Tell whether an ``after`` names what may not be there: rows know the names of blocks only."""
    inside = {
        node.id for site in _sites(body) for _, node in walk([site.node]) if node.id is not UNSET
    }
    return bool(inside) and any(
        not inside.isdisjoint(node.after) for node in rows.program.nodes if node.after is not UNSET
    )
