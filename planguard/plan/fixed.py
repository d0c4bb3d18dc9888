"""FixedPlan: what an open plan becomes once some of its choices are made.

It is made of the actions of the open plan, and remembers which (``origin``) and what was picked
(``picks``). Where actions are only put in order or left out, ``taking`` takes their rows; where
they are made anew, the plan is ``written`` and read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from planguard.errors import OrderError, PlanError
from planguard.plan.format import read_trusted
from planguard.plan.limits import DEFAULT_LIMITS
from planguard.plan.rows import with_markers
from planguard.plan.vocabulary import OPEN_BLOCKS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planguard.plan.plan import Plan
    from planguard.verdict import Flushed, Met, Witness

AT = "x-at"
"""Field of a flat action: its action index in the plan that was flattened. No reader sees it."""


@dataclass(frozen=True)
class Picks:
    """What was picked to fix a plan, by the actions of the plan that was open.

    Attributes:
        branches: Branch of every variable: its name, its rank or -1 for all, and the branch.
        matches: Who met whom where messages compete.
        flushes: The flushes of fused buffers, in order on each rank.
    """

    branches: tuple[tuple[tuple[str, int], int], ...] = ()
    matches: tuple[Met, ...] = ()
    flushes: tuple[Flushed, ...] = ()


NOTHING = Picks()
"""Nothing was picked but an order."""


@dataclass(frozen=True)
class FixedPlan:
    """A plan made of the actions of another one that leaves more open.

    Attributes:
        plan: The plan.
        origin: Per rank, the action index in the open plan of every action. The ends of a block
            stand for the action in front of them.
        picks: What was picked.
    """

    plan: Plan
    origin: Sequence[Sequence[int]]
    picks: Picks = NOTHING

    def within(self, outer: FixedPlan) -> FixedPlan:
        """Return the same plan as one made of what ``outer`` was made of."""
        origin = tuple(
            tuple(above[at] for at in inner)
            for above, inner in zip(outer.origin, self.origin, strict=True)
        )
        return FixedPlan(self.plan, origin, self.picks)


@dataclass(frozen=True)
class Shown:
    """The run behind a witness of an open plan; ``Witness.fixed`` holds it, in memory only.

    Attributes:
        plan: The open plan.
        fixed: The plan that was run.
        witness: The witness in the action numbers of the plan that was run.
    """

    plan: Plan
    fixed: FixedPlan
    witness: Witness

    @staticmethod
    def of(witness: Witness, fixed: FixedPlan, plan: Plan) -> Shown:
        """Return the run behind a witness of a fixed plan that was made from another plan."""
        inner: Shown | None = witness.fixed
        if inner is None:
            return Shown(plan, fixed, witness)
        return Shown(plan, inner.fixed.within(fixed), inner.witness)


def written(
    head: Mapping[str, Any],
    ranks: Mapping[str, Sequence[Any]],
    issued: Sequence[Sequence[int]] = (),
    picks: Picks = NOTHING,
) -> FixedPlan:
    """Return the plan of rank programs that were made anew, by writing and reading them.

    Args:
        head: The flat plan they were made from; its programs, and what its maker said of their
            actions, do not count.
        ranks: Flat actions of every rank; ``x-at`` says which action of the plan each stands for,
            where ``issued`` does not.
        issued: Per rank, the action of the plan that each issued one stands for.
        picks: What was picked to make these.

    Raises:
        OrderError: They are no valid plan: a wait, for example, for what was never started.
    """
    kept = {key: value for key, value in head.items() if key not in {"ranks", "approximations"}}
    origin: list[list[int]] = [[] for _ in ranks]
    uses = {
        rank: {"actions": _bare(body, origin[int(rank)])}
        for rank, body in sorted(ranks.items(), key=lambda one: int(one[0]))
    }
    plan = read_fixed({**kept, "ranks": uses})
    found = enumerate(issued or origin)
    places = [with_markers(plan.program(rank), mine) for rank, mine in found]
    return FixedPlan(plan, tuple(places), picks)


def read_fixed(document: dict[str, Any]) -> Plan:
    """Return the plan of a flat document that was made of a valid plan.

    Raises:
        OrderError: It is no valid plan.
    """
    try:
        return read_trusted(msgspec.json.encode(document), DEFAULT_LIMITS)
    except PlanError as error:
        raise order_error(error) from error


def order_error(error: PlanError) -> OrderError:
    """Return that a plan is not valid: in this execution only, so it is no error of the input."""
    return OrderError(
        error.message, code=error.code, path=error.path, value=error.value, hint=error.hint
    )


def _bare(items: Sequence[Any], origin: list[int]) -> list[Any]:
    """Return actions without what only their rewriting needed; note where each comes from."""
    found: list[Any] = []
    for item in items:
        if isinstance(item, list):
            found.append(_bare(item, origin))
            continue
        plain = {key: value for key, value in item.items() if not key.startswith("x-")}
        inner = OPEN_BLOCKS.get(item["op"])
        if inner is None:
            origin.append(item.get(AT, origin[-1] if origin else 0))
        else:
            plain[inner] = _bare(item[inner], origin)
        found.append(plain)
    return found
