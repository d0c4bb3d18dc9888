"""Rooted collectives that a rank may leave before all are there, call by call.

Under the MPI models that finish early, the strict end of the range waits for all members; at the
lenient end (`semantics.mpi`)

```
who only sends, at most the eager size    waits for nobody
the root, else                            waits for all
another member                            waits for the root alone: of any size, since no member
                                          needs the data of another one
```

Where runs are confluent the two ends decide (`execution.decide`). Where they are not, each rank may
leave each call early or not: a rank that goes on sooner may bring about another order or meeting.
Whoever waits for some of the others only waits for less than all and for no less than it needs, so
each wait of an execution is one of the two until it ends.

In lanes, with the strict end lowered (round ``m``, root 0, ranks 1 and 2 may leave):

```
rank 0    P>  m> [m>]              P: the root is there
rank 1    m>  [P>]  [m>]           what it leaves early, it does not wait for: without the last
rank 2    m>  [P>]  [m>]
```

Where the search picks on the way (`opened`), the last wait of each of them is for a match of its
own, at which all arrive, so that it can be passed by that rank alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.execution.findings.reason import UndecidedError
from planguard.kernels import current
from planguard.kernels.twin_issue import INWARD
from planguard.kernels.twin_layout import EDGE
from planguard.kernels.twin_rules import ARRIVE, AWAIT
from planguard.plan.actions import KIND_MASK, MEMBER, NONE
from planguard.plan.compiling.operations import rooted_kinds
from planguard.reordering.lanes import OwnKernels, OwnLanes, actions_of, over_lanes
from planguard.semantics.model import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from planguard.execution.project import Projection
    from planguard.plan.plan import Plan
    from planguard.semantics.model import ExecutionModel

Leavers = dict[tuple[int, int], int | None]
"""Rank and entry of a call, to the rank that it needs at least (the root), or to nobody."""
_THERE = EDGE | 0xFFFF
"""Kind of the match that says that one member of a round is there, as the kernels name it."""


def leavers(plan: Plan, columns: Any, model: ExecutionModel, limit: int) -> Leavers:
    """Return the calls that a rank may leave before all members are there.

    Args:
        plan: The plan.
        columns: Its columns.
        model: The execution model; only some let rooted collectives finish early.
        limit: Bytes that finish early.
    """
    kinds, code = {*(model.early_degree or ()), *rooted_kinds()}, plan.code
    found: Leavers = {}
    for rank in range(columns.world_size if model.early_degree else 0):
        begin = columns.rank_off[rank]
        for at in range(begin, columns.rank_off[rank + 1]):
            kind, sig = columns.op[at] & KIND_MASK, columns.sig[at]
            if kind not in kinds:
                continue
            members = _members(columns, at)
            root = members[0] if code.sig_root[sig] == NONE else code.sig_root[sig]
            size = code.sig_bytes[sig]
            only_sends = (rank == root) != (kind in INWARD)
            if len(members) > 1 and only_sends and (size <= limit or size == UNLIMITED):
                found[rank, at - begin] = None
            elif len(members) > 2 and rank != root:
                found[rank, at - begin] = root
    return found


def _members(columns: Any, at: int) -> list[int]:
    """Return the ranks that meet in a collective."""
    ginst = columns.slot_ginst[columns.arg[at]]
    return list(columns.slot_rank[columns.ginst_off[ginst] : columns.ginst_off[ginst + 1]])


def refuse_batched(columns: Any, calls: Iterable[tuple[int, int]]) -> None:
    """Refuse calls that a rank may leave early and that are members of a batch.

    Raises:
        UndecidedError: There is one: a batch is waited for as a whole.
    """
    if any(columns.op[columns.rank_off[rank] + entry] & MEMBER for rank, entry in calls):
        raise UndecidedError("a batch with a rooted collective that a rank may leave early")


def left_early(rank: int, action: int, op: str) -> str:
    """Return in words that a rank leaves a call early."""
    return f"rank {rank} leaves #{action} {op} before all members are there"


@dataclass(frozen=True)
class EarlyKernels(OwnKernels):
    """Kernels under which some calls of rooted collectives are left early.

    Attributes:
        model: The model that has such calls.
        limit: Bytes that finish early.
        plan: The plan that is run.
        left: Rank and action of the calls that are left early.
    """

    model: ExecutionModel
    limit: int
    plan: Plan
    left: frozenset[tuple[int, int]]

    def lower(self, columns: Any, *rest: Any) -> Any:
        """Lower a plan and take waits out; origins are always kept."""
        *tables, _, forced = rest
        lanes = current().lower(columns, *tables, True, forced)
        if lanes.overflow:
            return lanes
        calls = leavers(self.plan, columns, self.model, self.limit)
        action = [actions_of(columns, rank) for rank in range(columns.world_size)]
        left = {call for call in calls if (call[0], action[call[0]][call[1]]) in self.left}
        return _Rounds(lanes, columns, calls, self.plan).written(left)

    def projected(self, projection: Projection) -> EarlyKernels:
        """Return the kernels of a plan cut down to some of its actions."""
        left = frozenset(
            (number, actions.index(action))
            for number, (rank, actions) in enumerate(
                zip(projection.ranks, projection.actions, strict=True)
            )
            for mine, action in self.left
            if mine == rank and action in actions
        )
        return EarlyKernels(self.model, self.limit, projection.plan, left)


def opened(lanes: Any, columns: Any, calls: Leavers, plan: Plan) -> tuple[OwnLanes, Leaves]:
    """Return lanes in which each call is left early or not, and the matches of that.

    Args:
        lanes: Lanes of the strict end, with origins.
        columns: The columns that they were lowered from.
        calls: The calls that a rank may leave early.
        plan: Their plan.
    """
    rounds = _Rounds(lanes, columns, calls, plan)
    own = rounds.own_waits()
    return rounds.written(set()), own


Leaves = dict[int, tuple[int, int]]
"""Match for which only one rank waits, when it does not leave a call early: its rank and entry."""


class _Rounds:
    """The rounds of lowered lanes that some ranks may leave early.

    Attributes:
        of: Match of the round of every such call.
        there: Per round and root, the match that says that the root is there.
        own: Per round and rank, the match of its own for which a rank waits in place of it.
    """

    def __init__(self, base: Any, columns: Any, calls: Leavers, plan: Plan) -> None:
        self.base, self.columns, self.calls, self.plan = base, columns, calls, plan
        self.out = over_lanes(base)
        known = {tuple(base.ext(at)): at for at in range(base.ext_base, len(base.need))}
        self.of: dict[tuple[int, int], int] = {}
        self.entry: dict[tuple[int, int], int] = {}
        for rank, at in self._words():
            word = base.code[at]
            if word & ARRIVE and word >> 2 < base.ext_base:
                self.entry[rank, word >> 2] = base.origin[at]
                if (rank, base.origin[at]) in calls:
                    self.of[rank, base.origin[at]] = word >> 2
        self.there: dict[tuple[int, int], int] = {}
        self.says: dict[tuple[int, int], int] = {}
        self.own: dict[tuple[int, int], int] = {}
        for call, match in self.of.items():
            root = calls[call]
            if root is not None and (match, root) not in self.there:
                self.there[match, root] = self._there(call, match, root, known)

    def _words(self) -> Iterator[tuple[int, int]]:
        for lane, rank in enumerate(self.base.lane_rank):
            for at in range(self.base.lane_off[lane], self.base.lane_off[lane + 1]):
                yield rank, at

    def _there(self, call: tuple[int, int], match: int, root: int, known: dict[Any, int]) -> int:
        """Return the match that says that a root is there; one that gives what is asked of it."""
        columns = self.columns
        at = columns.rank_off[call[0]] + call[1]
        place = _members(columns, at).index(root)
        key = (_THERE, match, place, place)
        if key in known:  # the kernels let its members meet whatever they issue there
            return known[key]
        found = self.out.beside(key, 1)
        entry = self.entry.get((root, match))
        if entry is not None and self._is_root_of(columns.rank_off[root] + entry, at, root):
            self.says[root, match] = found
        return found

    def _is_root_of(self, own: int, other: int, root: int) -> bool:
        """Tell whether a call of the root is of the kind of another one, and with that root."""
        op, sig, roots = self.columns.op, self.columns.sig, self.plan.code.sig_root
        alike = op[own] & KIND_MASK == op[other] & KIND_MASK
        return alike and roots[sig[own]] in {root, roots[sig[other]]}

    def own_waits(self) -> Leaves:
        """Give each call a match of its own, at which all members arrive."""
        found: Leaves = {}
        for (rank, entry), match in self.of.items():
            self.own[match, rank] = self.out.beside(self._name(match), self.base.need[match])
            found[self.own[match, rank]] = rank, entry
        return found

    def _name(self, match: int) -> tuple[int, int, int, int]:
        return _THERE, match, 0, 0

    def written(self, left: Collection[tuple[int, int]]) -> OwnLanes:
        """Return the lanes in which some calls are left early.

        Args:
            left: Rank and entry of these calls.
        """
        out, base = self.out, self.base
        early = {(rank, self.of[rank, entry]) for rank, entry in left if (rank, entry) in self.of}
        needs = {(call[0], match): self.calls[call] for call, match in self.of.items()}
        arrive: dict[int, list[int]] = {}
        for (match, _), own in self.own.items():
            arrive.setdefault(match, []).append(own)
        for lane, rank in enumerate(base.lane_rank):
            out.open(rank, base.lane_kind[lane])
            soft = base.lane_soft[lane] if len(base.lane_soft) else None
            for at in range(base.lane_off[lane], base.lane_off[lane + 1]):
                if at == soft:
                    out.lane_soft.append(len(out.code))
                self._word(rank, at, early, needs, arrive)
            if soft == base.lane_off[lane + 1]:
                out.lane_soft.append(len(out.code))
        out.lane_off.append(len(out.code))
        return out

    def _word(
        self,
        rank: int,
        at: int,
        early: Collection[tuple[int, int]],
        needs: dict[tuple[int, int], int | None],
        arrive: dict[int, list[int]],
    ) -> None:
        base, out = self.base, self.out
        match, flags = base.code[at] >> 2, base.code[at] & (ARRIVE | AWAIT)
        entry, why = base.origin[at], base.why[at]
        is_own = (rank, match) in needs
        if flags & ARRIVE:
            for other in arrive.get(match, ()):
                out.put(other, ARRIVE, entry, why)
            if (rank, match) in self.says:
                out.put(self.says[rank, match], ARRIVE, entry, why)
        if not is_own or not flags & AWAIT:
            out.copy(at)
            return
        if flags & ARRIVE:
            out.put(match, ARRIVE, entry, why)
        root = needs[rank, match]
        if root is not None:
            out.put(self.there[match, root], AWAIT, entry, why)
        if (rank, match) not in early:
            out.put(self.own.get((match, rank), match), AWAIT, entry, why)
