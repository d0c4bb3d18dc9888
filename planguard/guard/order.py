"""The order in which a safe plan completes, and whether an edited program still has one.

Matches are numbered in the order in which one run of the base completes them. An edit of one rank
that leaves every match with the same members only changes which of the rank's actions wait for
which: it adds edges between matches. The edited plan completes if and only if the matches still
have an order that respects all edges, and every cycle holds an added edge that runs against the
numbering. So the search for a cycle starts there and never leaves the matches numbered from the
least end of such an edge on (docs/explanation/parametric.md#edits).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planguard.guard.items import Item, Numbering, covers
from planguard.guard.steps import side_of
from planguard.semantics.model import ExecutionModel, Family
from planguard.semantics.signature import disagreement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planguard.guard.edits import Change
    from planguard.guard.steps import Step
    from planguard.plan.plan import Plan

MAX_ACTIONS = 400_000
"""Actions beyond which the order of a base is not kept."""
SEARCH_LIMIT = 600
"""Matches that are looked at before the edit is left to the full run."""


class Answer(enum.Enum):
    """What is known of an edited plan without running it."""

    COMPLETES = "completes"
    UNSAFE = "unsafe"
    OPEN = "open"


@dataclass
class Order:
    """A safe base: its items by rank, and the place of every match in a completed run.

    Attributes:
        items: Items of every rank.
        model: The execution model.
        place: Place of every match in the order of completion.
        members: Arrivals of every match: ``(rank, item)``.
        awaited: Ranks that await a match.
        latest: For every rank, the latest place awaited before each of its items.
        last: Last match of every key.
    """

    items: list[list[Item]]
    model: ExecutionModel
    place: list[int] = field(default_factory=list)
    members: list[list[tuple[int, int]]] = field(default_factory=list)
    awaited: list[set[int]] = field(default_factory=list)
    latest: list[list[int]] = field(default_factory=list)
    last: dict[Any, int] = field(default_factory=dict)

    @property
    def on_device(self) -> bool:
        """Whether every call blocks the queue that it stands in."""
        return self.model.family is Family.DEVICE

    def judge(self, change: Change, fresh: Sequence[Item] = ()) -> Answer:
        """Tell how the plan with one change ends, where that follows from this order.

        Args:
            change: A change of one rank.
            fresh: Items of its new actions, in order; they have no matches yet.
        """
        items = self.items[change.rank]
        if not 0 <= change.start <= change.stop <= len(items):
            return Answer.OPEN
        mine = dict(enumerate(fresh, len(items)))
        rest = iter(mine)
        new = [a if isinstance(a, int) else next(rest) for a in change.actions]
        if any(not 0 <= action < len(items) + len(mine) for action in new):
            return Answer.OPEN

        def of(action: int) -> Item:
            return items[action] if action < len(items) else mine[action]

        old = list(range(change.start, change.stop))
        if not all(of(action).is_plain and not of(action).is_own for action in {*new, *old}):
            return Answer.OPEN
        new = [action for action in new if not of(action).is_neutral]
        old = [action for action in old if not of(action).is_neutral]
        new = _in_order(new, of)
        if sorted(new) == old:
            return self._permuted(change.rank, change.start, new)
        if len(new) == len(old) == 1:
            answer = self._resized(change.rank, old[0], of(new[0]))
            if answer is not Answer.OPEN:
                return answer
        return self._unbalanced(change.rank, new, old, of)

    # --- the same actions in another order -----------------------------------------------------

    def _permuted(self, rank: int, start: int, new: list[int]) -> Answer:
        items = self.items[rank]
        last: dict[Any, int] = {}
        for action in new:
            for key in (*items[action].handles, *items[action].keys):
                if last.get(key, -1) > action:
                    return Answer.OPEN  # another match for an action, or another door
                last[key] = action
        against = [
            (awaited, arrived)
            for place, first in enumerate(new)
            for second in new[place + 1 :]
            if second < first
            for awaited in items[first].awaits
            for arrived in items[second].arrives
            if self.place[awaited] >= self.place[arrived]
        ]
        if not against:
            return Answer.COMPLETES
        return _Search(self, rank, start, new).run(against)

    # --- another size, type or label -----------------------------------------------------------

    def _resized(self, rank: int, old: int, new: Item) -> Answer:
        """Judge an action that takes the place of one that meets the same ranks the same way."""
        before = self.items[rank][old]
        if len(before.steps) != 1 or len(new.steps) != 1 or before.handles != new.handles:
            return Answer.OPEN
        was, now = before.steps[0], new.steps[0]
        same = (was.op, was.key, was.detail) == (now.op, now.key, now.detail)
        if not same or was.key is None:
            return Answer.OPEN
        pair = was.key[0] == "pair"
        members = was.key[2:4] if pair else was.key[2]
        sides = []
        for member, action in self.members[before.arrives[0]]:
            step = now if member == rank else self._step(member, action, before.arrives[0])
            if step.signature is None:
                return Answer.OPEN
            sides.append(side_of(step, member, members.index(member)))
        sides.sort(key=lambda side: side.place)
        differ = disagreement(sides, self.model, pair=pair)
        return Answer.COMPLETES if differ is None else Answer.UNSAFE

    def _step(self, rank: int, action: int, match: int) -> Step:
        item = self.items[rank][action]
        return item.steps[item.arrives.index(match)]

    # --- actions left out, or done twice -------------------------------------------------------

    def _unbalanced(
        self, rank: int, new: list[int], old: list[int], of: Callable[[int], Item]
    ) -> Answer:
        """A call too few or too many on a group or pair: somebody waits for ever."""
        change: dict[Any, int] = {}
        for sign, actions in ((1, new), (-1, old)):
            for action in actions:
                for key in of(action).keys:
                    change[key] = change.get(key, 0) + sign
        kept = [action for action in new if action in old]
        differing = ({*new} ^ {*old}) | {action for action in new if new.count(action) > 1}
        if kept != sorted(kept) or any(of(action).handles for action in differing):
            return Answer.OPEN  # the door decides about handles
        for action in differing:
            for key in of(action).keys:
                known = key in self.last
                waiting = self.awaited[self.last[key]] if known else set()
                if change[key] < 0 and waiting - {rank}:
                    return Answer.UNSAFE  # its last match misses one arrival
                is_extra = change[key] > 0 and new.count(action) > old.count(action)
                blocks = bool(of(action).awaits) or self.on_device
                if is_extra and blocks and (rank in waiting or not known) and _meets(key):
                    return Answer.UNSAFE  # its last call there has nobody to meet
        return Answer.OPEN


def _meets(key: Any) -> bool:
    """Whether a group or pair has anybody else in it."""
    return key[0] != "round" or len(key[2]) > 1


def _in_order(new: list[int], of: Callable[[int], Item]) -> list[int]:
    """Let actions that cannot be told apart keep their order."""
    alike: dict[Any, list[int]] = {}
    for action in new:
        if not of(action).handles:
            alike.setdefault(of(action).content, []).append(action)
    turns = {content: iter(sorted(actions)) for content, actions in alike.items()}
    return [action if of(action).handles else next(turns[of(action).content]) for action in new]


class _Search:
    """Looks for a cycle among the matches of a plan in which one rank was reordered."""

    def __init__(self, order: Order, rank: int, start: int, new: list[int]) -> None:
        self._order = order
        self._rank = rank
        self._start = start
        self._new = new
        self._where = {action: place for place, action in enumerate(new)}
        self._least = 0
        self._budget = SEARCH_LIMIT

    def run(self, against: list[tuple[int, int]]) -> Answer:
        """Return whether the edges that run against the order close a cycle."""
        self._least = min(self._order.place[arrived] for _, arrived in against)
        done: set[int] = set()
        for awaited in dict.fromkeys(awaited for awaited, _ in against):
            found = self._from(awaited, done)
            if found is not Answer.COMPLETES:
                return found
        return Answer.COMPLETES

    def _from(self, start: int, done: set[int]) -> Answer:
        if start in done:
            return Answer.COMPLETES
        path = {start}
        stack = [(start, iter(self._before(start)))]
        while stack:
            match, rest = stack[-1]
            for earlier in rest:
                if earlier in path:
                    return Answer.UNSAFE
                if earlier not in done:
                    self._budget -= 1
                    if self._budget < 0:
                        return Answer.OPEN
                    path.add(earlier)
                    stack.append((earlier, iter(self._before(earlier))))
                    break
            else:
                stack.pop()
                path.discard(match)
                done.add(match)
        return Answer.COMPLETES

    def _before(self, match: int) -> set[int]:
        """Return the matches, not numbered before the region, that a match comes after."""
        order, found = self._order, set[int]()
        for rank, item in order.members[match]:
            if rank == self._rank and item in self._where:
                for action in self._new[: self._where[item]]:
                    self._collect(order.items[rank][action], found)
                item = self._start  # noqa: PLW2901  the items before the segment follow
            latest, items = order.latest[rank], order.items[rank]
            while item > 0 and latest[item] >= self._least:
                item -= 1  # noqa: PLW2901
                self._collect(items[item], found)
        return found

    def _collect(self, item: Item, found: set[int]) -> None:
        found.update(m for m in item.awaits if self._order.place[m] >= self._least)


# --- the order of a base -------------------------------------------------------------------------


def order_of(plan: Plan, model: ExecutionModel) -> Order | None:
    """Return the order in which a safe plan completes under the strictest execution of a model.

    None where the rules of this module do not cover the plan or the model, or the plan gets stuck.

    Args:
        plan: A plan that is SAFE under the model, without any finding.
        model: The execution model.
    """
    if not covers(plan, model) or plan.actions > MAX_ACTIONS:
        return None
    items = Numbering(plan, model).items()
    if any(item.is_own for rank in items for item in rank):
        return None
    order = Order(items, model)
    return order if _run(order) else None


def _run(order: Order) -> bool:
    """Complete the base and number its matches; False if anything of it stays open."""
    items = order.items
    count = 1 + max((m for rank in items for item in rank for m in item.arrives), default=-1)
    order.members = [[] for _ in range(count)]
    order.awaited = [set() for _ in range(count)]
    needs: list[int] = [0] * count
    for rank, program in enumerate(items):
        for place, item in enumerate(program):
            for match in item.arrives:
                order.members[match].append((rank, place))
                needs[match] += 1
            for match in item.awaits:
                order.awaited[match].add(rank)
    if not _balanced(order):
        return False
    order.place = [-1] * count
    if not _complete(order, needs):
        return False
    for program in items:
        latest, so_far = [-1], -1
        for item in program:
            so_far = max([so_far, *(order.place[match] for match in item.awaits)])
            latest.append(so_far)
        order.latest.append(latest)
    return True


def _balanced(order: Order) -> bool:
    """Note the last match of every key; False unless every member of each match arrives."""
    for program in order.items:
        for item in program:
            for key, match in zip(item.keys, item.arrives, strict=True):
                needed = len(key[2]) if key[0] == "round" else 2
                if len(order.members[match]) != needed:
                    return False
                order.last[key] = max(order.last.get(key, -1), match)
    return True


def _complete(order: Order, needs: list[int]) -> bool:
    """Run the items rank by rank; the places are the order in which matches complete."""
    items, waiting = order.items, dict[int, list[int]]()
    position = [0] * len(items)
    pending: list[list[int]] = [[] for _ in items]
    ready = list(range(len(items)))
    number = 0
    while ready:
        rank = ready.pop()
        program = items[rank]
        while True:
            pending[rank] = [match for match in pending[rank] if order.place[match] < 0]
            if pending[rank]:
                waiting.setdefault(pending[rank][0], []).append(rank)
                break
            if position[rank] == len(program):
                break
            item = program[position[rank]]
            position[rank] += 1
            for match in item.arrives:
                needs[match] -= 1
                if not needs[match]:
                    order.place[match] = number
                    number += 1
                    ready += waiting.pop(match, [])
            pending[rank] = list(item.awaits)
    return number == len(order.place) and all(
        place == len(program) for place, program in zip(position, items, strict=True)
    )
