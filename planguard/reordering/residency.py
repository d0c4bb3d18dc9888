"""A bounded number of kernels on a device, started in the order of issue or in any order.

With starts in issue order, the i-th start asks that i - K earlier ones are complete: guards only
grow, and one run for each K decides. In any order a start takes a slot from another one, so every
order of starts is searched, equal states once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planguard.execution.findings.reason import UndecidedError, construct, out_of_time, too_many
from planguard.execution.running.executor import execute
from planguard.kernels.twin_layout import EDGE
from planguard.kernels.twin_rules import ARRIVE, AWAIT
from planguard.options import running
from planguard.reordering.cases.together import open_verdict
from planguard.semantics.model import lenient
from planguard.verdict import Evidence, Outcome, Verdict

if TYPE_CHECKING:
    from planguard.execution.running.executor import Execution
    from planguard.options import CheckOptions, Deadline
    from planguard.plan.plan import Plan
    from planguard.reordering.messages.decide import Fixed
    from planguard.semantics.model import ExecutionModel

STATES = 20_000
"""Most states that are searched when no budget is given."""
MANY = 1 << 30

Launch = tuple[int, int]
"""A kernel: rank and entry of the action that launches it."""


def over_residency(
    plan: Plan, columns: Any, model: ExecutionModel, options: CheckOptions, fixed: Fixed
) -> Verdict:
    """Decide a fixed plan for the number of resident kernels and the start order of the options.

    Args:
        plan: A plan of fixed orders.
        columns: Its columns.
        model: A model whose devices may start kernels of several communicators.
        options: ``max_resident_kernels`` and ``strict_start_order``.
        fixed: Decides a fixed plan under rules that are not those of a model by name.
    """
    pinned = options.max_resident_kernels
    usual = fixed(plan, model, brief=False)
    if usual.outcome is Outcome.DEADLOCK:
        return usual  # stuck with any number of kernels, so in any order
    execution = execute(plan, columns, model, lenient(model, 0), origins=True)
    device = Device(execution, running(options).deadline)
    bounds = [pinned or MANY] if pinned else [*range(1, device.most() + 1), MANY]
    if options.strict_start_order:
        return _in_order(plan, model, device, usual, bounds[0], fixed)
    try:
        ends = [end for bound in bounds for end in device.search(bound)]
    except UndecidedError as reached:
        return open_verdict(plan, model.name, reached.reason.about("the orders of kernel starts"))
    return _any_order(plan, model, device, usual, ends)


def _in_order(
    plan: Plan, model: ExecutionModel, device: Device, usual: Verdict, bound: int, fixed: Fixed
) -> Verdict:
    if usual.safe or usual.unknown:
        return usual  # completes with one kernel at a time, so with more
    if bound == 1 or bound >= device.most():
        rules = replace(model, free_launch=False, serialized=bound == 1)
        return fixed(plan, rules, brief=False)
    completes = device.completes(device.run_in_order(bound))
    if usual.outcome is Outcome.MISMATCH:
        if completes:
            return usual
        reason = f"a mismatch beside a stuck state with {bound} resident kernels"
        return open_verdict(plan, model.name, construct(reason))
    evidence = replace(usual.evidence, kind="execution", schedules=usual.evidence.schedules + 1)
    if completes:
        return _changed(usual, Outcome.SAFE, (), evidence)
    note = f"stuck with {bound} resident kernels too; shown is the state with one"
    findings = tuple(
        replace(f, certainty="all-executions", notes=(*f.notes, note)) if f.cycle else f
        for f in usual.findings
    )
    return _changed(usual, Outcome.DEADLOCK, findings, evidence)


def _any_order(
    plan: Plan, model: ExecutionModel, device: Device, usual: Verdict, ends: list[bool]
) -> Verdict:
    evidence = Evidence(
        "exhaustive", ("explorer",), "explorer", schedules=len(ends), states=device.states
    )
    if usual.unknown:
        return usual
    if usual.outcome is Outcome.MISMATCH:
        if all(ends):
            return replace(usual, evidence=evidence)
        reason = "a mismatch beside a stuck state in some order of kernel starts"
        return open_verdict(plan, model.name, construct(reason))
    if all(ends):
        return _changed(usual, Outcome.SAFE, (), evidence)
    outcome = Outcome.POTENTIAL_DEADLOCK if any(ends) else Outcome.DEADLOCK
    findings = tuple(f for f in usual.findings if f.severity == "error") or (
        device.finding(certain=outcome is Outcome.DEADLOCK),
    )
    return _changed(usual, outcome, findings, evidence)


def _changed(
    usual: Verdict, outcome: Outcome, findings: tuple[Any, ...], evidence: Evidence
) -> Verdict:
    errors = {id(finding) for finding in usual.findings if finding.severity == "error"}
    beside = tuple(f for f in usual.findings if id(f) not in errors and f not in findings)
    return replace(
        usual,
        outcome=outcome,
        findings=(*findings, *beside),
        models={usual.model: outcome},
        evidence=evidence,
        proved=usual.proved if outcome is Outcome.SAFE else (),
        safe_iff=() if outcome is Outcome.SAFE else usual.safe_iff,
    )


@dataclass(frozen=True)
class Place:
    """Where every lane stands (half a step further when it arrived) and what was started."""

    at: tuple[int, ...]
    started: frozenset[Launch] = frozenset()


class Device:
    """The lanes of a plan whose kernels need a free slot of their device to start.

    Args:
        execution: A run with free queues, with origins.
        deadline: The end of the budget; without one there is a bound on states instead.
    """

    def __init__(self, execution: Execution, deadline: Deadline) -> None:
        self.execution, self.lanes, self.states = execution, execution.lanes, 0
        self.deadline = deadline
        self.matches: dict[Launch, set[int]] = {}
        self.stuck_at: tuple[Launch, ...] = ()
        lanes = self.lanes
        for lane, rank in enumerate(lanes.lane_rank):
            for at in range(lanes.lane_off[lane], lanes.lane_off[lane + 1]):
                if self._starts(at):
                    found = self.matches.setdefault((rank, lanes.origin[at]), set())
                    found.add(lanes.code[at] >> 2)
        self.first = set(lanes.comm_base)
        self.order: dict[int, list[Launch]] = {}
        for launch in sorted(self.matches):
            self.order.setdefault(launch[0], []).append(launch)

    def most(self) -> int:
        """Return the largest number of kernels of a rank: more slots than that mean no limit."""
        return max((len(found) for found in self.order.values()), default=1)

    def _starts(self, at: int) -> bool:
        """Tell whether an instruction is part of the start of a kernel."""
        lanes = self.lanes
        if not lanes.code[at] & ARRIVE:
            return False
        match = lanes.code[at] >> 2
        return bool(match < lanes.ext_base or lanes.ext(match)[0] >> 24 == EDGE >> 24)

    # --- states --------------------------------------------------------------------------------

    def completes(self, place: Place) -> bool:
        """Tell whether every lane came to its end."""
        offsets = self.lanes.lane_off
        return all(at >= 2 * offsets[lane + 1] for lane, at in enumerate(place.at))

    def run_in_order(self, bound: int) -> Place:
        """Return the end of the run in which kernels start in issue order, ``bound`` at a time."""
        place = self._first()
        while True:
            place, need = self._settle(place)
            following = next(
                (
                    one
                    for rank in self.order
                    for one in self._ready(place, need, rank, bound)
                    if one == self._next(place, rank)
                ),
                None,
            )
            if following is None:
                return place
            place = replace(place, started=place.started | {following})

    def search(self, bound: int) -> list[bool]:
        """Return, for every state in which a run may end, whether it is complete.

        Raises:
            UndecidedError: The limit or the time is reached.
        """
        first, _ = self._settle(self._first())
        known, todo, ends = {first}, [first], []
        while todo:
            place = todo.pop()
            _, need = self._settle(place)
            ready = [one for rank in self.order for one in self._ready(place, need, rank, bound)]
            if not ready:
                ends.append(self.completes(place))
                if not ends[-1]:
                    self.stuck_at = tuple(sorted(place.started - self._done(place, need)))
            for one in ready:
                after, _ = self._settle(replace(place, started=place.started | {one}))
                if after not in known:
                    self._count(len(known))
                    known.add(after)
                    todo.append(after)
        self.states += len(known)
        return ends

    def _count(self, known: int) -> None:
        if not self.deadline.is_bounded and self.states + known >= STATES:
            raise UndecidedError(too_many(f"more than {STATES:,} states"))
        if self.deadline.expired():
            raise UndecidedError(out_of_time(f" after {self.states + known:,} states"))

    def _first(self) -> Place:
        return Place(tuple(2 * at for at in self.lanes.lane_off[:-1]))

    def _next(self, place: Place, rank: int) -> Launch | None:
        return next((one for one in self.order[rank] if one not in place.started), None)

    def _done(self, place: Place, need: list[int]) -> set[Launch]:
        return {one for one in place.started if not any(need[match] for match in self.matches[one])}

    def _ready(self, place: Place, need: list[int], rank: int, bound: int) -> list[Launch]:
        """Return the kernels that a rank's device may start now."""
        done = self._done(place, need)
        resident = sum(1 for one in place.started if one[0] == rank and one not in done)
        if resident >= bound:
            return []
        return self._waiting(place, need, rank)

    def _waiting(self, place: Place, need: list[int], rank: int) -> list[Launch]:
        """Return the kernels of a rank that were launched and have all they need but a slot."""
        lanes, found = self.lanes, set[Launch]()
        for lane, at in enumerate(place.at):
            if lanes.lane_rank[lane] != rank:
                continue
            for here in range(lanes.lane_off[lane], (at + 1) // 2):
                launch = rank, lanes.origin[here]
                if self._starts(here) and launch not in place.started:
                    found.add(launch)
        return sorted(one for one in found if self._is_first(one, need))

    def _is_first(self, launch: Launch, need: list[int]) -> bool:
        """Tell whether the round before that of a kernel is over: a communicator is a FIFO."""
        rounds = (match for match in self.matches[launch] if match < self.lanes.p2p_base)
        return not any(match not in self.first and need[match - 1] for match in rounds)

    def _settle(self, place: Place) -> tuple[Place, list[int]]:
        """Take every step that starts no kernel; a launch goes on, its arrival comes later."""
        lanes, need, at = self.lanes, list(self.lanes.need), list(place.at)
        for lane in range(len(at)):
            for done in range(lanes.lane_off[lane], (at[lane] + 1) // 2):
                self._arrive(lane, done, place, need)
        moved = True
        while moved:
            moved = False
            for lane in range(len(at)):
                while at[lane] < 2 * lanes.lane_off[lane + 1]:
                    here, arrived = divmod(at[lane], 2)
                    word = lanes.code[here]
                    if word & ARRIVE and not arrived:
                        self._arrive(lane, here, place, need)
                        at[lane], moved = at[lane] + 1, True
                    if word & AWAIT and need[word >> 2]:
                        break
                    at[lane], moved = 2 * here + 2, True
        return replace(place, at=tuple(at)), need

    def _arrive(self, lane: int, at: int, place: Place, need: list[int]) -> None:
        word = self.lanes.code[at]
        launch = self.lanes.lane_rank[lane], self.lanes.origin[at]
        if word & ARRIVE and (launch in place.started or not self._starts(at)):
            need[word >> 2] -= 1

    def finding(self, *, certain: bool) -> Any:
        """Return what to say of a state in which kernels hold the slots that others need."""
        from planguard.execution.findings.cause import make_finding
        from planguard.execution.findings.stuck import place_of
        from planguard.words import name_ranks

        plan = self.execution.plan
        places = [place_of(self.execution, rank, entry) for rank, entry in self.stuck_at]
        at = [plan.location(place.rank, place.action) for place in places]
        ranks = tuple(sorted({place.rank for place in places}))
        return make_finding(
            "PG107",
            f"{name_ranks(ranks)} hold their devices with kernels that wait for each other, in an "
            "order of starts that differs between ranks",
            severity="error",
            certainty="all-executions" if certain else "some-execution",
            ranks=ranks,
            primary=at[0] if at else None,
            related_actions=tuple(at[1:]),
            subkind="cycle",
        )
