"""Who holds the one lock of a process first: a search over all orders of one plan.

What is open is the order in which host and workers of a rank take the lock, and which small sends
and calls of rooted collectives finish before all are there. Everything else only ever enables: it
is done at once, which leaves no stuck state out (a step that takes no lock stays enabled, and no
step needs it undone). States in which all lanes have got equally far are one.

Where the plan has threads or blocks of open order, all of that is asked in each order of calls. A
thread that an order alone holds back (at a gate, ``threads.lanes``) needs no look of its own. Where
the lock of its rank is free, the first action in that order that is not done waits for nobody, so
the rank goes on. Where one keeps the lock for good, the thread could make its call and others
behind it, but none of them gets into MPI: the rank is as stuck as it was.

The plan is safe without the lock, so some execution completes with it (`execution.one_lock`): one
that gets stuck makes it POTENTIAL_DEADLOCK, none makes it SAFE.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planguard.execution.findings.reason import UndecidedError, out_of_time, too_many
from planguard.execution.running.executor import execute
from planguard.execution.running.expand import expand
from planguard.options import running
from planguard.plan.actions import KIND_MASK, Kind, is_collective
from planguard.plan.fixed import FixedPlan
from planguard.reordering.branches.assignments import flat_tree
from planguard.reordering.cases.together import Part, combined
from planguard.reordering.lanes import actions_of
from planguard.reordering.threads.decide import as_chains
from planguard.reordering.threads.host import interleaved
from planguard.reordering.turns.lanes import Apart, Step, Turn, TurnKernels, apart, early
from planguard.semantics.model import strict
from planguard.verdict import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from planguard.options import CheckOptions, Deadline
    from planguard.plan.plan import Plan
    from planguard.reordering.messages.decide import Fixed
    from planguard.semantics.model import ExecutionModel

CODE = "PG102"
STATES = 20_000
"""Most states that are visited without a budget: a second of one core."""

State = tuple[tuple[int, ...], tuple[int, ...]]
"""How far every lane has got, and per rank the lane that holds the lock (-1: none)."""


def over_turns(
    plan: Plan,
    columns: Any,
    model: ExecutionModel,
    options: CheckOptions,
    fixed: Fixed,
    safe: Verdict,
) -> Verdict:
    """Decide a plan that is safe without the lock over all orders in which it is taken.

    Args:
        plan: The plan, without branches.
        columns: Its columns.
        model: A model with one lock.
        options: Options; ``budget`` bounds the search in seconds.
        fixed: Decides a plan with kernels of its own.
        safe: The verdict without the lock.

    Raises:
        UndecidedError: It is not decided.
    """
    limit = _Limit(running(options).deadline)
    found = next(
        (
            (ordered, stuck, notes)
            for ordered, kernels, notes in _orders(plan, columns, model, options, fixed)
            if (stuck := _stuck(ordered, kernels, model, options, limit)) is not None
        ),
        None,
    )
    if found is None:
        # The shortcut that found the plan safe without the lock has not decided it alone.
        route = tuple(dict.fromkeys((*safe.evidence.route, "explorer")))
        evidence = replace(safe.evidence, states=limit.visited, kind="exhaustive", route=route)
        return replace(safe, evidence=evidence)
    ordered, stuck, notes = found
    # What finishes early is picked send by send, so nothing is left to the scenario.
    picked = replace(model, eager=False, early_degree=None)
    full = fixed(ordered.plan, picked, brief=False, implementation=stuck)
    if full.outcome is not Outcome.DEADLOCK:
        raise UndecidedError("an order of turns that gets stuck was not seen to when executed")
    part = Part(ordered, full, (*notes, *_notes(ordered.plan, stuck)), differs=True)
    verdict = combined(plan, [Part(ordered, safe), part], full, part, CODE)
    verdict = replace(verdict, model=model.name, models={model.name: verdict.outcome})
    return replace(verdict, evidence=replace(verdict.evidence, states=limit.visited))


def _orders(
    plan: Plan, columns: Any, model: ExecutionModel, options: CheckOptions, fixed: Fixed
) -> Iterator[tuple[FixedPlan, Any, tuple[str, ...]]]:
    """Yield the plan in every order of its calls, with kernels that run it; itself if it is fixed.

    Raises:
        UndecidedError: There are too many, or what is open is not followed.
    """
    if not columns.has_markers:
        own = FixedPlan(plan, [range(1 + max(mine, default=-1)) for mine in _actions(columns)])
        yield own, None, ()
        return
    flat = flat_tree(plan, columns)
    yield from interleaved(plan, flat, as_chains(flat), model, options, fixed)


def _stuck(
    ordered: FixedPlan, kernels: Any, model: ExecutionModel, options: CheckOptions, limit: _Limit
) -> TurnKernels | None:
    """Return the turns of an execution of one order that gets stuck, None if there is none.

    Raises:
        UndecidedError: It is not decided.
    """
    columns, rules = expand(ordered.plan), strict(model)
    run = execute(ordered.plan, columns, model, rules, origins=True, implementation=kernels)
    base = run.lanes
    soft = early(ordered.plan, columns, base, model, options.eager_bytes)
    stuck = _Search(apart(base, columns), base, soft, limit).stuck()
    if stuck is not None and _has_mixed_batch(columns):
        # Whether a batch makes its calls in one step is not stated: the stricter reading decides.
        stuck = _Search(apart(base, columns, at_once=True), base, soft, limit).stuck()
        if stuck is None:
            raise UndecidedError("a batch with a collective, which may make its calls in one step")
        stuck = replace(stuck, at_once=True)
    return stuck and replace(stuck, base=kernels)


def _has_mixed_batch(columns: Any) -> bool:
    """Tell whether a batch makes a call of a worker and another one."""
    for at, op in enumerate(columns.op):
        if op & KIND_MASK == Kind.BATCH and columns.arg[at] > 1:
            members = columns.op[at + 1 : at + 1 + columns.arg[at]]
            if any(is_collective(one & KIND_MASK) for one in members):
                return True
    return False


def _actions(columns: Any) -> list[list[int]]:
    return [actions_of(columns, rank) for rank in range(columns.world_size)]


def _notes(plan: Plan, kernels: TurnKernels) -> tuple[str, ...]:
    """Return whose call is in MPI at the end, rank by rank."""
    found = []
    for rank, turns in enumerate(kernels.turns):
        if turns:
            action = plan.action_at(rank, turns[-1].action)
            who = "a worker" if turns[-1].what == "work" else "the host"
            found.append(f"rank {rank}: {who} is in MPI for #{turns[-1].action} {action.op}")
    return tuple(found[:3])


@dataclass(frozen=True)
class _Picked:
    """What was picked on the way to a state: the state before, and the turn.

    Attributes:
        before: The state before, None at the begin.
        rank: The rank.
        turn: Who takes the lock, or waits for a send that finishes early.
        is_early: Whether a send finishes early.
    """

    before: State | None
    rank: int
    turn: Turn
    is_early: bool


@dataclass
class _Limit:
    """What bounds the search over all orders of a plan.

    Attributes:
        deadline: When it has to end.
        visited: The states so far.
    """

    deadline: Deadline
    visited: int = 0

    def count(self) -> None:
        """Count a state.

        Raises:
            UndecidedError: There are too many states, or no time for them.
        """
        self.visited += 1
        if self.visited > STATES and not self.deadline.is_bounded:
            raise UndecidedError(too_many(f"more than {STATES:,} states of who is in MPI"))
        if self.deadline.expired():
            raise UndecidedError(out_of_time(f" after {self.visited:,} states"))


class _Search:
    """All orders of turns in one order of calls."""

    def __init__(
        self,
        ranks: list[Apart],
        base: Any,
        soft: dict[tuple[int, int], int | None],
        limit: _Limit,
    ) -> None:
        self.lanes: list[tuple[Step, ...]] = [lane for one in ranks for lane in one.lanes]
        self.rank = [one.rank for one in ranks for _ in one.lanes]
        self.hosts = [at for at, rank in enumerate(self.rank) if rank not in self.rank[:at]]
        self.soft, self.limit = soft, limit
        need = list(base.need)
        self.arrivals: list[list[tuple[int, int]]] = [[] for _ in need]
        self.calls: dict[tuple[int, int], tuple[int, int]] = {}
        self.workers: dict[tuple[int, int], tuple[int, int]] = {}
        for number, lane in enumerate(self.lanes):
            for at, step in enumerate(lane):
                if step.what == "arrive":
                    self.arrivals[step.match].append((number, at))
                elif step.what == "call":
                    self.calls[self.rank[number], step.match] = number, at
                elif step.what == "await" and step.turn is not None and step.turn.what == "work":
                    self.workers[self.rank[number], step.match] = number, at
        self.never = {m for m, there in enumerate(self.arrivals) if len(there) < need[m]}
        self.wakes = [
            [self._woken(self.rank[number], step) for step in lane]
            for number, lane in enumerate(self.lanes)
        ]

    def _woken(self, rank: int, step: Step) -> tuple[int, ...]:
        """Return the lanes that may go on once a step of a rank is done."""
        waits = {"arrive": "await", "call": "called", "await": "await"}.get(step.what)
        return tuple(
            number
            for number, lane in enumerate(self.lanes)
            if step.what == "arrive" or self.rank[number] == rank
            if any(other.what == waits and other.match == step.match for other in lane)
        )

    def stuck(self) -> TurnKernels | None:
        """Return the turns of an execution that gets stuck, None if there is none.

        Raises:
            UndecidedError: There are too many states, or no time for them.
        """
        free = tuple(-1 for _ in self.hosts)
        begin = self._settled([0] * len(self.lanes), free, range(len(self.lanes)))
        came: dict[State, _Picked | None] = {begin: None}
        left = [begin]
        while left:
            state = left.pop()
            self.limit.count()
            picks = self._picks(state)
            # No send has to finish early.
            is_last = all(picked.is_early for _, picked in picks)
            is_left = any(state[0][at] < len(self.lanes[at]) for at in self.hosts)
            if is_last and is_left:
                return self._kernels(came, state)
            for after, picked in picks:
                if after not in came:
                    came[after] = picked
                    left.append(after)
        return None

    def _picks(self, state: State) -> list[tuple[State, _Picked]]:
        """Return the states after a pick."""
        found = []
        at, holders = state
        for number, lane in enumerate(self.lanes):
            if at[number] == len(lane):
                continue
            step, rank = lane[at[number]], self.rank[number]
            if step.turn is None:
                continue
            if step.what == "take" and holders[rank] < 0:
                held = (*holders[:rank], number, *holders[rank + 1 :])
            elif step.what == "await" and self._may_end_early(rank, step.match, at):
                held = holders
            else:
                continue
            further = list(at)
            further[number] += 1
            moved = (number, *self.wakes[number][at[number]])
            picked = _Picked(state, rank, step.turn, step.what == "await")
            found.append((self._settled(further, held, moved), picked))
        return found

    def _may_end_early(self, rank: int, match: int, at: Sequence[int]) -> bool:
        """Tell whether a call may finish now, though not all are there."""
        root = self.soft.get((rank, match), rank)
        if root is None:
            return True
        there = (
            at[lane] > place for lane, place in self.arrivals[match] if self.rank[lane] == root
        )
        return root != rank and any(there)

    def _settled(self, at: list[int], holders: tuple[int, ...], moved: Iterable[int]) -> State:
        """Do what needs no pick, as long as there is something.

        All lanes but those that moved have done so: another one goes on only behind a step that
        it waits for.
        """
        held, left = list(holders), list(moved)
        while left:
            number = left.pop()
            lane = self.lanes[number]
            while at[number] < len(lane) and self._goes_on(number, lane[at[number]], at):
                place = at[number]
                if lane[place].what == "leave":
                    held[self.rank[number]] = -1
                at[number] += 1
                left += self.wakes[number][place]
        return tuple(at), tuple(held)

    def _goes_on(self, number: int, step: Step, at: list[int]) -> bool:
        if step.what == "take":
            return False
        if step.what == "called":
            lane, place = self.calls[self.rank[number], step.match]
            return at[lane] > place
        if step.what != "await":
            return True
        if step.turn is None and (rank := self.rank[number], step.match) in self.soft:
            worker = self.workers.get((rank, step.match))
            if worker is not None:  # a host waits for its worker, which may have left early
                return at[worker[0]] > worker[1]
        if step.match in self.never:
            return False
        return all(at[lane] > place for lane, place in self.arrivals[step.match])

    def _kernels(self, came: dict[State, _Picked | None], state: State) -> TurnKernels:
        turns: list[list[Turn]] = [[] for _ in self.hosts]
        early: list[set[Turn]] = [set() for _ in self.hosts]
        picked = came[state]
        while picked is not None and picked.before is not None:
            if picked.is_early:
                early[picked.rank].add(picked.turn)
            else:
                turns[picked.rank].append(picked.turn)
            picked = came[picked.before]
        return TurnKernels(
            [tuple(reversed(mine)) for mine in turns], [frozenset(mine) for mine in early]
        )
