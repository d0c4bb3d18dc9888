"""Explores the executions of a small plan and names its outcome.

The definitions are those of the execution models in the documentation, written down as literally
as possible: explicit states, one event at a time, nothing shared with the library.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import combinations
from typing import TYPE_CHECKING, Any

from oracle.blame import Blame, stuck_actions
from oracle.branches import Branches
from oracle.expand import expand
from oracle.lowering import Lowered, Operation, lower
from oracle.models import INFINITE, MODELS, Creation, Model
from oracle.signature import disagreement, is_unjudged
from oracle.state import Choice, Event, State, System, takes_turns

if TYPE_CHECKING:
    from oracle.host import Key
    from oracle.program import Program


class OracleBudget(Exception):  # noqa: N818  # as OracleUnsupported
    """More states than the caller allows."""


@dataclass(frozen=True)
class Effort:
    """How much to explore.

    Attributes:
        limit: states to visit per choice where runs may end differently; beyond is OracleBudget.
        verify: states to visit per choice where all runs must end alike, to see that they do;
            0 trusts the theorem and follows a single run in random order.
        seed: seeds the order of single runs.
        kernels: K, where the plan's device has one value of it; None is every value.
        strict: kernels start in the order of issue.
    """

    limit: int = 100_000
    verify: int = 20_000
    seed: int = 0
    kernels: int | None = None
    strict: bool = True


@dataclass(frozen=True)
class Ending:
    """How the maximal runs of one choice may end.

    Attributes:
        stuck: first stuck action per rank, with mismatched matches doing what the backend does.
        own_cause: something is stuck that no mismatch explains.
        mismatches: what disagreed, per match.
        matched: something was matched at all, or there are only groups of one rank.
        unjudged: some match is of actions whose identity the plan does not give.
        lenient: no message was left that might have been buffered, or that might lead elsewhere.
        jammed: something is stuck even with mismatched matches complete.
    """

    choice: Choice
    stuck: dict[int, int]
    own_cause: bool
    mismatches: tuple[str, ...]
    matched: bool
    unjudged: bool = False
    lenient: bool = True
    jammed: bool = False


@dataclass(frozen=True)
class OracleVerdict:
    """The outcome of a plan under a model.

    Attributes:
        outcome: SAFE, DEADLOCK, MISMATCH, POTENTIAL_DEADLOCK, or UNKNOWN (nothing to check).
        stuck: rank to flat index of its first stuck action, in the first stuck execution.
        endings: every distinct way in which an execution may end.
        states: how many states were visited.
    """

    outcome: str
    stuck: dict[int, int]
    endings: tuple[Ending, ...] = field(repr=False)
    states: int = 0


def choices(lowered: Lowered, model: Model, effort: Effort = Effort()) -> list[Choice]:
    """List every setting of what the model leaves open, the most permissive K first."""
    if model.residency and effort.kernels is not None:
        return [Choice(residency=effort.kernels, free=not effort.strict)]
    if model.residency:
        kernels = max(
            len({one.launch for one in lowered.operations if one.rank == rank})
            for rank in range(len(lowered.steps))
        )
        free = not effort.strict
        finite = [Choice(residency=bound, free=free) for bound in range(1, kernels + 1)]
        return [Choice(), *reversed(finite)]
    if model.eager_bytes is not None:
        if openness(lowered, model) is Openness.RACES:
            # Without confluence the steps between matter: any send may finish early, or not.
            return [Choice(buffer=INFINITE)]
        return [Choice(buffer=bound) for bound in (0, 1, 2, INFINITE)]
    return [Choice()]


class Openness(Enum):
    """What is left open once a choice is made."""

    NOTHING = "every maximal run ends in the same state"
    ORDERS = "the ranks' orders of issue; for fixed orders, nothing"
    RACES = "who comes first: a wildcard, a handle that dies, a process that leaves"


def openness(lowered: Lowered, model: Model) -> Openness:
    """Tell how far the runs of one choice may differ."""
    if competes(lowered, model) or (model.one_lock and takes_turns(lowered)):
        return Openness.RACES
    return Openness.ORDERS if lowered.program.reorderable else Openness.NOTHING


def competes(lowered: Lowered, model: Model) -> bool:
    """Tell whether it is open what meets, so that with more slack something else may meet."""
    kinds = {step.action.kind for steps in lowered.steps for step in steps}
    fragile = model.fragile_handles and "drop" in kinds
    leaves = model.exit_withdraws and "exit" in kinds
    return bool(lowered.wildcards or lowered.threads or fragile or leaves)


def all_endings(system: System, limit: int, *, favors: bool = False) -> tuple[set[State], int]:
    """Visit every reachable state; give those in which nothing can happen.

    With `favors` a state also ends in which nothing can happen but that a message is buffered:
    nobody has to.

    Raises:
        OracleBudget: there are more than `limit` states.
    """
    start = system.initial()
    seen, todo, maximal = {start}, [start], set()
    while todo:
        state = todo.pop()
        events = system.enabled(state)
        if not any(not favors or _is_due(system, state, event) for event in events):
            maximal.add(state)
        for event in events:
            after = system.apply(state, event)
            if after not in seen:
                if len(seen) >= limit:
                    raise OracleBudget(f"more than {limit} states")
                seen.add(after)
                todo.append(after)
    return maximal, len(seen)


def _is_due(system: System, state: State, event: Event) -> bool:
    """Tell whether an event happens sooner or later: buffering a message is nobody's duty."""
    if event.name != "complete" or system.strict is system:
        return True
    return system.must_complete(state, system.lowered.operations[event.first])


def one_ending(system: System, rng: random.Random) -> State:
    """Follow one maximal run, picking among the enabled events at random."""
    state = system.initial()
    while events := system.enabled(state):
        rng.shuffle(events)
        for event in events:
            # Guards of a confluent system are monotone, so what was enabled still is.
            state = system.apply(state, event)
    return state


def order_endings(system: System, limit: int) -> tuple[set[State], int]:
    """Follow one run for each choice of issue order that the ranks have.

    Exact where nothing but the order is open: for fixed orders runs are confluent, so everything
    else may happen at once, and ranks may pick one after the other.

    Raises:
        OracleBudget: there are more than `limit` points of choice.
    """
    seen: set[State] = set()
    todo, maximal = [system.initial()], set()
    while todo:
        state = _settle(system, todo.pop())
        if state in seen:
            continue
        if len(seen) >= limit:
            raise OracleBudget(f"more than {limit} states")
        seen.add(state)
        picks = [event for event in system.enabled(state) if event.name == "issue"]
        if not picks:
            maximal.add(state)
        # Which rank picks first makes no difference, so the first one that can does.
        first = min((event.first for event in picks), default=-1)
        todo += [system.apply(state, event) for event in picks if event.first == first]
    return maximal, len(seen)


def _settle(system: System, state: State) -> State:
    """Let everything happen that is no choice of order."""
    while True:
        events = system.enabled(state)
        issues = [event.first for event in events if event.name == "issue"]
        forced = [e for e in events if e.name != "issue" or issues.count(e.first) == 1]
        if not forced:
            return state
        for event in forced:
            state = system.apply(state, event)


def _endings(system: System, *, openness: Openness, effort: Effort) -> tuple[set[State], int]:
    if openness is Openness.RACES:
        return all_endings(system, effort.limit, favors=True)
    if openness is Openness.ORDERS:
        return order_endings(system, effort.limit)
    ending = one_ending(system, random.Random(effort.seed))
    if effort.verify <= 0:
        return {ending}, 0
    try:
        maximal, count = all_endings(system, effort.verify)
    except OracleBudget:
        return {ending}, effort.verify
    if maximal != {ending}:
        raise AssertionError(f"{len(maximal)} different endings where runs must be confluent")
    return maximal, count


def _issued(system: System, state: State) -> list[Operation]:
    """List what was issued: a call whose host stands at the creation of its communicator was not.

    SEM 7, ISSUE: every `init` in front of it has to be complete.
    """
    return [
        operation
        for operation in system.lowered.operations
        if (view := system.view(state, operation.rank)).issued & operation.bit
        and system.met(state, tuple(m for m in view.meets[operation.launch] if m.name[0] == "init"))
    ]


def _has_met(system: System, state: State) -> bool:
    """Tell whether ranks made a group or a communicator together."""
    return any(
        meeting.name[0] in {"init", "new_group"} and system.met(state, (meeting,))
        for rank in range(len(state.order))
        for meeting in system.view(state, rank).arrived
    )


def _mismatches(system: System, state: State) -> dict[Key, str]:
    found: dict[Key, str] = {}
    for operation in _issued(system, state):
        members = system.members(state, operation)
        match = system.match(state, operation)
        what = disagreement(match, members, system.model)
        if what is not None:
            found[system.key(state, operation)] = what[2]
        elif system.model.numbers_calls and operation.is_collective:
            # Every call advances the number of its group, which the fingerprints hold (measured).
            numbers = {system.view(state, one.rank).before[one.id] for one in match}
            if len(numbers) > 1:
                found[system.key(state, operation)] = "sequence"
    return found


class Oracle:
    """Judges one plan under one model."""

    def __init__(self, lowered: Lowered, model: Model, effort: Effort) -> None:
        self.lowered = lowered
        self.model = model
        self.effort = effort
        self.openness = openness(lowered, model)
        self.states = 0

    def verdict(self) -> OracleVerdict:
        """Judge every choice and combine them."""
        return combine(self.endings(), self.states)

    def endings(self) -> list[Ending]:
        """Give every way in which executions may end, for every choice."""
        found: list[Ending] = []
        for choice in choices(self.lowered, self.model, self.effort):
            found += self._judge(choice)
        return found

    def _judge(self, choice: Choice) -> list[Ending]:
        literal = System(self.lowered, self.model, choice)
        agreeing = System(self.lowered, self.model, choice, agree=True)
        states = self._explore(literal)
        plain = [self._plain(literal, state, choice) for state in states]
        if not any(ending.mismatches for ending in plain):
            return plain
        # Nobody can say which literal ending a counterfactual one belongs to when runs diverge:
        # what each set of endings shows is combined, and the first literal stuck state reported.
        stuck = next((ending.stuck for ending in plain if ending.stuck), {})
        counterfactual = self._explore(agreeing)
        return [self._attributed(agreeing, state, choice, stuck) for state in counterfactual]

    def _explore(self, system: System) -> list[State]:
        openness = Openness.RACES if system.choice.free else self.openness
        states, count = _endings(system, openness=openness, effort=self.effort)
        self.states += count
        return sorted(states)

    def _is_lenient(self, system: System, state: State) -> bool:
        """Tell whether what is stuck here is stuck with the most slack, or more slack is no luck.

        SEM 7.2 asks each execution for a cause of its own. Where more slack only ever lets more
        complete, the one with the most speaks for those that have less.
        """
        return competes(self.lowered, self.model) or not system.enabled(state)

    def _plain(self, system: System, state: State, choice: Choice) -> Ending:
        stuck = stuck_actions(system, state)
        what = tuple(sorted(_mismatches(system, state).values()))
        matches = [system.match(state, one) for one in _issued(system, state)]
        alone = all(len(system.members(state, one)) == 1 for one in _issued(system, state))
        matched = any(len(match) > 1 for match in matches) or (bool(matches) and alone)
        matched |= len(state.order) == 1 or _has_met(system, state)
        unjudged = any(is_unjudged(match) for match in matches)
        lenient = self._is_lenient(system, state)
        return Ending(choice, stuck, bool(stuck), what, matched, unjudged, lenient, bool(stuck))

    def _attributed(
        self, system: System, state: State, choice: Choice, stuck: dict[int, int]
    ) -> Ending:
        found = _mismatches(system, state)
        own = Blame(system, state, set(found)).has_own_cause()
        what, jammed = tuple(sorted(found.values())), bool(stuck_actions(system, state))
        lenient = self._is_lenient(system, state)
        return Ending(choice, stuck, own, what, matched=True, lenient=lenient, jammed=jammed)


def combine(endings: list[Ending], states: int) -> OracleVerdict:
    """Name the outcome of all executions together."""
    own = [ending.own_cause for ending in endings]
    # What is stuck with the most slack is stuck always; with less, something else may be in
    # front of it and take the blame.
    slack = max((ending.choice.residency, ending.choice.buffer) for ending in endings)
    lenient = [e for e in endings if (e.choice.residency, e.choice.buffer) == slack and e.lenient]
    # Where runs race, more slack is no more luck: those with less have to be stuck, too.
    if all(e.own_cause for e in lenient) and all(e.jammed for e in endings):
        outcome = "DEADLOCK"
    elif any(ending.mismatches for ending in endings):
        outcome = "MISMATCH"
    elif any(own):
        outcome = "POTENTIAL_DEADLOCK"
    elif any(ending.unjudged for ending in endings):
        outcome = "UNKNOWN"
    else:
        outcome = "SAFE" if any(ending.matched for ending in endings) else "UNKNOWN"
    stuck = next((ending.stuck for ending in endings if ending.stuck), {})
    return OracleVerdict(outcome, stuck, tuple(endings), states)


def enumerate_plan(plan: dict[str, Any], model: str, effort: Effort = Effort()) -> OracleVerdict:
    """Judge a plan by exploring its executions under a model.

    Args:
        plan: a decoded, valid `planguard.plan/1` document, small enough to explore.
        model: the name of an execution model.
        effort: how much to explore.

    Raises:
        OracleUnsupported: the plan uses something that the enumerator does not judge.
        OracleBudget: the plan is not confluent and has more states than the effort allows.
    """
    rules = MODELS[model]
    endings: list[Ending] = []
    states = 0
    clash = False
    following: Branches | None = Branches()
    while following is not None:
        program = expand(plan, following)
        oracle = Oracle(lower(program, rules), rules, effort)
        here = oracle.endings()
        clash |= _has_crossed_creations(plan, program, rules)
        endings += here
        states += oracle.states
        if states > effort.limit * 4:
            raise OracleBudget(f"more than {effort.limit * 4} states")
        following = following.following()
    verdict = combine(endings, states)
    if clash and verdict.outcome != "DEADLOCK":
        return replace(verdict, outcome="MISMATCH")
    return verdict


def _has_crossed_creations(plan: dict[str, Any], program: Program, model: Model) -> bool:
    """Tell whether two ranks make groups of other members with the same creation of theirs.

    torch calls a group by the number of its creation, so they meet in one name. Who is no member
    makes nothing, and groups of one rank each have nobody to meet. A family is made as a whole.
    With torch's MPI they meet in one `MPI_Comm_create`, which takes groups that share no rank; with
    MPI alone nothing has a number.
    """
    if model.creation is Creation.ENTERED:
        return _has_overlaps(program)
    if model.modes:
        return False
    declared = plan.get("groups", {})
    made: dict[int, set[tuple[int, ...] | str]] = {}
    for rank, actions in enumerate(program.ranks):
        groups = [action.group for action in actions if action.kind == "new_group"]
        for number, name in enumerate(groups):
            members = program.groups[name]
            if rank not in members:
                continue
            family = name.partition("[")[0]
            own = name in declared or name == "world"
            who = members if len(members) > 1 else "one rank"
            made.setdefault(number, set()).add(who if own else family)
    return any(len(groups) > 1 for groups in made.values())


def _has_overlaps(program: Program) -> bool:
    """Tell whether different groups with a rank in common are one creation of their members."""
    made: dict[int, set[frozenset[int]]] = {}
    for rank, actions in enumerate(program.ranks):
        groups = [frozenset(program.groups[a.group]) for a in actions if a.kind == "new_group"]
        for number, members in enumerate(group for group in groups if rank in group):
            made.setdefault(number, set()).add(members)
    return any(one & other for groups in made.values() for one, other in combinations(groups, 2))
