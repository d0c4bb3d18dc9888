"""Explores the executions of a small plan and names its outcome.

The definitions are those of the execution models in the documentation, written down as literally
as possible: explicit states, one event at a time, nothing shared with the library.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oracle.blame import Blame, stuck_actions
from oracle.expand import expand
from oracle.lowering import Lowered, lower
from oracle.models import INFINITE, MODELS, Model
from oracle.signature import disagreement
from oracle.state import Choice, State, System

if TYPE_CHECKING:
    from oracle.host import Key


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
    """

    limit: int = 100_000
    verify: int = 20_000
    seed: int = 0


@dataclass(frozen=True)
class Ending:
    """How the maximal runs of one choice may end.

    Attributes:
        stuck: first stuck action per rank, with mismatched matches doing what the backend does.
        own_cause: something is stuck that no mismatch explains.
        mismatches: what disagreed, per match.
    """

    choice: Choice
    stuck: dict[int, int]
    own_cause: bool
    mismatches: tuple[str, ...]
    matched: bool


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


def choices(lowered: Lowered, model: Model) -> list[Choice]:
    """List every setting of what the model leaves open, the most permissive K first."""
    if model.residency:
        kernels = max(
            len({one.launch for one in lowered.operations if one.rank == rank})
            for rank in range(len(lowered.steps))
        )
        finite = [Choice(residency=bound) for bound in range(1, kernels + 1)]
        return [Choice(), *reversed(finite)]
    if model.eager_bytes is not None:
        return [Choice(buffer=bound) for bound in (0, 1, 2, INFINITE)]
    return [Choice()]


def is_confluent(lowered: Lowered, model: Model) -> bool:
    """Tell whether every maximal run of one choice must end in the same state.

    It need not where a rank may reorder, a receive may pick, or something is taken back: a handle
    that dies before its match, an operation that leaves with its process.
    """
    if lowered.program.reorderable or lowered.wildcards:
        return False
    kinds = {step.action.kind for steps in lowered.steps for step in steps}
    fragile = model.fragile_handles and "drop" in kinds
    return not fragile and not (model.exit_withdraws and "exit" in kinds)


def all_endings(system: System, limit: int) -> tuple[set[State], int]:
    """Visit every reachable state; give those in which nothing can happen.

    Raises:
        OracleBudget: there are more than `limit` states.
    """
    start = system.initial()
    seen, todo, maximal = {start}, [start], set()
    while todo:
        state = todo.pop()
        events = system.enabled(state)
        if not events:
            maximal.add(state)
        for event in events:
            after = system.apply(state, event)
            if after not in seen:
                if len(seen) >= limit:
                    raise OracleBudget(f"more than {limit} states")
                seen.add(after)
                todo.append(after)
    return maximal, len(seen)


def one_ending(system: System, rng: random.Random) -> State:
    """Follow one maximal run, picking among the enabled events at random."""
    state = system.initial()
    while events := system.enabled(state):
        rng.shuffle(events)
        for event in events:
            # Guards of a confluent system are monotone, so what was enabled still is.
            state = system.apply(state, event)
    return state


def _endings(system: System, *, confluent: bool, effort: Effort) -> tuple[set[State], int]:
    if not confluent:
        return all_endings(system, effort.limit)
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


def _mismatches(system: System, state: State) -> dict[Key, str]:
    found: dict[Key, str] = {}
    for operation in system.lowered.operations:
        if not system.view(state, operation.rank).issued & operation.bit:
            continue
        key = system.key(state, operation)
        members = system.members(state, operation)
        what = disagreement(system.match(state, operation), members, system.model)
        if what is not None:
            found[key] = what[2]
    return found


def _is_matched(system: System, state: State) -> bool:
    for operation in system.lowered.operations:
        if system.view(state, operation.rank).issued & operation.bit:
            alone = operation.is_collective and len(system.members(state, operation)) == 1
            if alone or len(system.match(state, operation)) > 1:
                return True
    return False


class Oracle:
    """Judges one plan under one model."""

    def __init__(self, lowered: Lowered, model: Model, effort: Effort) -> None:
        self.lowered = lowered
        self.model = model
        self.effort = effort
        self.confluent = is_confluent(lowered, model)
        self.states = 0

    def verdict(self) -> OracleVerdict:
        """Judge every choice and combine them."""
        endings: list[Ending] = []
        for choice in choices(self.lowered, self.model):
            endings += self._judge(choice)
        own = [ending.own_cause for ending in endings]
        if all(own):
            outcome = "DEADLOCK"
        elif any(ending.mismatches for ending in endings):
            outcome = "MISMATCH"
        elif any(own):
            outcome = "POTENTIAL_DEADLOCK"
        elif any(ending.matched for ending in endings):
            outcome = "SAFE"
        else:
            outcome = "UNKNOWN"
        stuck = next((ending.stuck for ending in endings if ending.stuck), {})
        return OracleVerdict(outcome, stuck, tuple(endings), self.states)

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
        states, count = _endings(system, confluent=self.confluent, effort=self.effort)
        self.states += count
        return sorted(states)

    @staticmethod
    def _plain(system: System, state: State, choice: Choice) -> Ending:
        stuck = stuck_actions(system, state)
        what = tuple(sorted(_mismatches(system, state).values()))
        return Ending(choice, stuck, bool(stuck), what, _is_matched(system, state))

    @staticmethod
    def _attributed(system: System, state: State, choice: Choice, stuck: dict[int, int]) -> Ending:
        found = _mismatches(system, state)
        own = Blame(system, state, set(found)).has_own_cause()
        return Ending(choice, stuck, own, tuple(sorted(found.values())), matched=True)


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
    return Oracle(lower(expand(plan), rules), rules, effort).verdict()
