"""Every assignment of branches at once, as clauses: does one get stuck, or mix calls?

```
   x(v, b)          variable v takes branch b                      exactly one b
   more(s, r, k)    rank r has issued at least k calls on slot s    one set per join of branches
   stuck(w)         its rank stands at the wait w for ever
   behind(i)        the rank stands before its i-th step     behind(i+1) -> behind(i) or stuck(i)
   late(s, r, k)    the k-th call of r on s never happens
```

Who meets is counted: the k-th call of each member of a slot. A wait may be stuck only if somebody
that its call needs is late; a call is late only if it does not exist under the assignment or its
rank stands before it. A nonempty set of waits that satisfies this is a stuck state, since none of
them can be the first to complete; and a stuck state satisfies it. So there is no variable for time.

Ranks that count the same way share the variables: equal histories get equal sets. Nothing but
integers is made here; the solver gets one text.

Above 400 lines: what is read of a program, and what is asked about it, share every literal.
"""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planguard.plan.vocabulary import ORDER_BLOCKS
from planguard.reordering.branches.assignments import VARIABLE, Assignment, Key, Variables
from planguard.reordering.branches.calls import Call, Reader, Step, UnfitError
from planguard.reordering.smt import Solver

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from planguard.reordering.branches.calls import Slot

    Agree = AbstractSet[frozenset[Any]]

CLAUSES = 3_000_000
"""Most clauses of a formula; a plan that takes more is not encoded."""


@dataclass(frozen=True)
class Count:
    """How many calls were issued: at least ``base``, and one more for every literal that holds.

    Attributes:
        base: The least number.
        more: Literals ``at least base + 1``, ``at least base + 2`` and so on, each implying the
            one before.
    """

    base: int = 0
    more: tuple[int, ...] = ()

    def next(self) -> Count:
        """Return the count after one more call."""
        return Count(self.base + 1, self.more)

    def at_least(self, number: int, true: int) -> int:
        """Return the literal that says that there are so many."""
        if number <= self.base:
            return true
        at = number - self.base - 1
        return self.more[at] if at < len(self.more) else -true

    @property
    def numbers(self) -> range:
        """Which numbers are possible."""
        return range(self.base, self.base + len(self.more) + 1)


@dataclass
class _Walk:
    """Where the walk over one rank is: what was issued, which handles are open.

    Attributes:
        counts: Calls issued on every slot.
        open: Per handle, the literal that says that it is pending.
        started: Per handle, the calls it may stand for, with counts and the literal of their step.
    """

    counts: defaultdict[Slot, Count]
    open: dict[str, int] = field(default_factory=dict)
    started: dict[str, tuple[tuple[int, Call, Count], ...]] = field(default_factory=dict)

    def copy(self) -> _Walk:
        return _Walk(self.counts.copy(), dict(self.open), dict(self.started))


class Formula:
    """The clauses of a plan, and the literals to ask for.

    Args:
        flat: The annotated flat plan.
        variables: Its branch variables.
        reader: What actions do under the execution model.
        agree: Pairs of what calls say that agree although they differ.

    Attributes:
        stuck: One of them holds only if some rank is stuck; those of earlier waits come first.
        mixed: Holds only if two calls that may disagree meet.
        broken: Holds only if a handle is used that is not open, or started twice; 0 if none can.

    Raises:
        UnfitError: The clauses do not cover something in the plan.
    """

    def __init__(
        self,
        flat: dict[str, Any],
        variables: Variables,
        reader: Reader,
        agree: Agree = frozenset(),
    ) -> None:
        self.solver, self.variables, self.reader = Solver(), variables, reader
        self.true = self.solver.variable()
        self.solver.add(self.true)
        self.branch = self._branches()
        ranks = flat["ranks"]
        self._ands: dict[tuple[int, int], int] = {}
        self._joins: dict[Any, tuple[int, ...]] = {}
        self._switches: dict[Any, int] = {}
        self._arrivals: dict[tuple[Slot, int], list[tuple[int, Call, Count, int]]] = {}
        self._waits: list[tuple[int, int, list[tuple[int, Call, Count]]]] = []
        self._depth = 0
        self._late: dict[tuple[Slot, int, int], int] = {}
        self._behind = -self.true
        self._broken: list[int] = []
        for rank in range(len(ranks)):
            self._behind, self._depth = -self.true, 0
            walk = _Walk(defaultdict(Count))
            self._program(rank, ranks[str(rank)]["actions"], self.true, walk)
        self.mixed = self._mixed(agree)
        odd = [literal for literal in self._broken if literal != -self.true]
        self.broken = self._any(odd) if odd else 0

    def assignment(self, true: frozenset[int]) -> Assignment:
        """Return the assignment of a model."""
        return {
            key: next((b for b, literal in enumerate(row) if literal in true), 0)
            for key, row in self.branch.items()
        }

    def forbid(self, assignment: Assignment) -> None:
        """Exclude one assignment."""
        self.solver.add(*(-self.branch[key][b] for key, b in assignment.items()))

    # --- literals ----------------------------------------------------------------------------

    def _branches(self) -> dict[Key, list[int]]:
        found = {}
        for key, size in sorted(self.variables.sizes.items()):
            row = list(self.solver.variables(size)) if size > 1 else [self.true]
            if size > 1:
                self.solver.exactly_one(row)
            found[key] = row
        return found

    def _and(self, a: int, b: int) -> int:
        if b in {a, self.true}:
            return a
        if a == self.true:
            return b
        if -self.true in {a, b} or a == -b:
            return -self.true
        key = (a, b) if a < b else (b, a)
        if key not in self._ands:
            both = self._ands[key] = self.solver.variable()
            self.solver.extend(((-both, a), (-both, b), (both, -a, -b)))
        return self._ands[key]

    def _any(self, literals: Sequence[int]) -> int:
        """Return a literal that holds only if one of some holds."""
        found = self.solver.variable()
        self.solver.add(-found, *literals)
        return found

    def _taken(self, choice: dict[str, Any], rank: int, within: int) -> list[int]:
        name = choice[VARIABLE]
        row = self.branch.get((name, rank)) or self.branch.get((name, -1))
        if row is None:
            return [within, *(-self.true for _ in choice["branches"][1:])]
        return [self._and(within, literal) for literal in row]

    # --- programs ----------------------------------------------------------------------------

    def _program(self, rank: int, actions: Any, within: int, walk: _Walk) -> None:
        for action in actions:
            if isinstance(action, list) or action["op"] in ORDER_BLOCKS:
                raise UnfitError("a block of open order")
            self._depth += 1
            if action["op"] == "choice":
                self._choice(rank, action, within, walk)
            else:
                self._action(rank, self.reader.step(rank, action), within, walk)
            if len(self.solver.clauses) > CLAUSES:
                raise UnfitError(f"more than {CLAUSES:,} clauses")

    def _choice(self, rank: int, choice: dict[str, Any], within: int, walk: _Walk) -> None:
        ends = []
        for taken, branch in zip(
            self._taken(choice, rank, within), choice["branches"], strict=True
        ):
            ends.append((taken, walk.copy()))
            self._program(rank, branch, taken, ends[-1][1])
        slots = {slot for _, end in ends for slot in end.counts}
        for slot in slots:
            walk.counts[slot] = self._join([(t, e.counts[slot]) for t, e in ends])
        names = {name for _, end in ends for name in end.open}
        for name in names:
            found = [(taken, end.open.get(name, -self.true)) for taken, end in ends]
            walk.open[name] = self._switch(found)
            starts = (one for _, end in ends for one in end.started.get(name, ()))
            walk.started[name] = tuple(dict.fromkeys(starts))

    def _join(self, ends: list[tuple[int, Count]]) -> Count:
        """Return how many calls were issued behind a choice."""
        first = ends[0][1]
        if all(end == first for _, end in ends):
            return first
        low = min(end.base for _, end in ends)
        high = max(end.numbers[-1] for _, end in ends)
        key = tuple((taken, end.base - low, end.more) for taken, end in ends)
        if key not in self._joins:
            self._joins[key] = tuple(self.solver.variables(high - low))
            self._define(Count(low, self._joins[key]), ends)
        return Count(low, self._joins[key])

    def _define(self, joined: Count, ends: list[tuple[int, Count]]) -> None:
        add, true = self.solver.add, self.true
        for one, other in itertools.pairwise(joined.more):
            add(-other, one)
        # Where all branches go on from one count, bounds hold whichever is taken.
        least = min((end for _, end in ends), key=lambda end: end.base)
        most = max((end for _, end in ends), key=lambda end: end.base)
        alike = len({end.more for _, end in ends}) == 1
        for number in joined.numbers[1:]:
            literal = joined.at_least(number, true)
            for taken, end in ends:
                there = end.at_least(number, true)
                self.solver.extend(((-taken, -there, literal), (-taken, there, -literal)))
            if alike:
                add(-least.at_least(number, true), literal)
                add(most.at_least(number, true), -literal)

    def _is(self, count: Count, number: int) -> int:
        """Return the literal that says that exactly so many calls were issued."""
        least = count.at_least(number, self.true)
        return self._and(least, -count.at_least(number + 1, self.true))

    def _switch(self, ends: list[tuple[int, int]]) -> int:
        """Return a literal that is that of the branch taken."""
        if all(literal == ends[0][1] for _, literal in ends):
            return ends[0][1]
        key = tuple(ends)
        if key not in self._switches:
            found = self._switches[key] = self.solver.variable()
            for taken, literal in ends:
                self.solver.extend(((-taken, -literal, found), (-taken, literal, -found)))
        return self._switches[key]

    def _action(self, rank: int, step: Step, within: int, walk: _Walk) -> None:
        calls: list[tuple[int, Call, Count]] = []
        for launch in step.launches:
            mine = [(within, call, self._issue(rank, call, within, walk)) for call in launch]
            calls += mine
            if step.waits:
                self._wait(within, mine)
        for name in step.ends:
            self._broken.append(self._and(within, -walk.open.get(name, -self.true)))
        if any(walk.open.get(name) != self.true for name in step.uses):
            raise UnfitError("a test of a handle that may not be open")
        if step.ends:
            starts = [one for name in step.ends for one in walk.started.get(name, ())]
            self._wait(within, starts)
        for name in step.ends:
            walk.open[name], walk.started[name] = -self.true, ()
        if step.starts is not None:
            name = step.starts
            self._broken.append(self._and(within, walk.open.get(name, -self.true)))
            walk.open[name], walk.started[name] = self.true, tuple(calls)

    def _issue(self, rank: int, call: Call, within: int, walk: _Walk) -> Count:
        count = walk.counts[call.slot]
        found = self._arrivals.setdefault((call.slot, call.member), [])
        found.append((within, call, count, self._behind))
        walk.counts[call.slot] = count.next()
        return count

    def _wait(self, within: int, calls: list[tuple[int, Call, Count]]) -> None:
        calls = [one for one in calls if one[1].needs]
        if not calls:
            return
        stuck = self.solver.variable()
        self.solver.add(-stuck, within)
        self._waits.append((self._depth, stuck, calls))
        behind = self.solver.variable()
        self.solver.add(-behind, stuck, self._behind)
        self._behind = behind

    # --- what to ask -------------------------------------------------------------------------

    @functools.cached_property
    def stuck(self) -> list[int]:
        """For waits equally far into their programs, "one is stuck": large, so made when asked."""
        twins = {
            key: {(within, count): behind for within, _, count, behind in arrivals}
            for key, arrivals in self._arrivals.items()
        }
        for _, stuck, calls in self._waits:
            why: list[int] = []
            for within, call, count in calls:
                here = [twins.get((call.slot, m), {}).get((within, count)) for m in call.needs]
                near = [behind for behind in here if behind is not None]
                pairs = zip(call.needs, here, strict=True)
                far = [member for member, behind in pairs if behind is None]
                why += self._reasons(within, call, count, near, far)
            self.solver.add(-stuck, *why)
        waits = sorted((depth, stuck) for depth, stuck, _ in self._waits)
        together = itertools.groupby(waits, key=lambda wait: wait[0])
        return [self._any([stuck for _, stuck in group]) for _, group in together]

    def _reasons(
        self, within: int, call: Call, count: Count, near: list[int], far: list[int]
    ) -> list[int]:
        """Return literals, one of which holds only if a call never completes.

        Args:
            within: The literal of its step.
            call: The call.
            count: Calls issued before it.
            near: For members that issue the same number in the same case: they stand before it.
            far: The other members that it needs.
        """
        found = [self._and(within, behind) for behind in near]
        for number in count.numbers if far else ():
            late = [self._is_late(call.slot, member, number) for member in far]
            found.append(self.solver.variable())
            case = self._and(within, self._is(count, number))
            self.solver.extend(((-found[-1], case), (-found[-1], *late)))
        return found

    def _is_late(self, slot: Slot, member: int, number: int) -> int:
        key = slot, member, number
        if key not in self._late:
            late = self._late[key] = self.solver.variable()
            for within, _, count, behind in self._arrivals.get((slot, member), ()):
                if number in count.numbers:
                    self.solver.add(-late, -within, -self._is(count, number), behind)
        return self._late[key]

    def _mixed(self, agree: Agree) -> int:
        """Return a literal that holds only if two calls meet that say different things."""
        there: dict[tuple[Slot, int], dict[Any, list[int]]] = {}
        for slot, arrivals in self._unlike().items():
            for within, call, count, _ in arrivals:
                for number in count.numbers:
                    literal = self._and(within, self._is(count, number))
                    said = there.setdefault((slot, number), {}).setdefault(call.said, [])
                    said.append(literal)
        found: list[int] = []
        for classes in there.values():
            if len(classes) > 1:
                found += self._differ(classes, agree)
        return self._any(found)

    def _unlike(self) -> dict[Slot, list[tuple[int, Call, Count, int]]]:
        """Return the calls of every slot whose members do not all say the same in all cases."""
        slots: dict[Slot, list[list[tuple[int, Call, Count, int]]]] = {}
        for (slot, _), arrivals in self._arrivals.items():
            slots.setdefault(slot, []).append(arrivals)
        return {
            slot: [one for mine in members for one in mine]
            for slot, members in slots.items()
            if len({tuple((w, c.said, n) for w, c, n, _ in mine) for mine in members}) > 1
        }

    def _differ(
        self, classes: dict[Any, list[int]], agree: AbstractSet[frozenset[Any]]
    ) -> list[int]:
        """Return literals, one of which holds only if two of some classes are present.

        One pair at a time would be quadratic: a class is compared with "one of those before",
        but where some of those before agree with it.
        """
        present = {said: self._any(sorted(set(literals))) for said, literals in classes.items()}
        before, found = -self.true, []
        for at, (said, literal) in enumerate(present.items()):
            earlier = list(present.items())[:at]
            fit = [one for one, _ in earlier if frozenset((one, said)) in agree]
            others = before
            if fit:
                others = self._any([lit for one, lit in earlier if one not in fit])
            if at and len(fit) < at:
                found.append(self.solver.variable())
                self.solver.extend(((-found[-1], literal), (-found[-1], others)))
            before = self._any([before, literal]) if at else literal
        return found
