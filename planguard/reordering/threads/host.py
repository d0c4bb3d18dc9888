"""Host threads where a call blocks its thread: every order of their calls, each run with lanes.

Two executions in which every rank makes its calls in the same order on every communicator and
channel match the same calls and end alike (theorem 1, with a lane per thread). So the orders of
calls that share a queue are listed, one run decides each, and runs that no execution ends like
are left out (`threads_lanes`). Where no queue is shared there is one run.

Above 400 lines: what an order is, who may end early in it and how it is told are one search, and
the orders themselves are handed on to the search of turns at MPI (`turns.search`).
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from planguard.execution.findings.mismatch import blocking_rounds, candidates, find_mismatches
from planguard.execution.findings.reason import UndecidedError, construct, out_of_time, too_many
from planguard.execution.running.executor import execute
from planguard.execution.running.expand import expand
from planguard.kernels.twin_rules import ARRIVE
from planguard.options import running
from planguard.plan.actions import NONE
from planguard.plan.fixed import AT, written
from planguard.plan.vocabulary import RECEIVES, SENDS, bytes_of
from planguard.reordering.branches.assignments import leaves
from planguard.reordering.cases.together import Part, combined, open_verdict, shown_of, together
from planguard.reordering.join import NAMELESS
from planguard.reordering.lanes import Last, actions_of
from planguard.reordering.messages.decide import CODE as COMPETING
from planguard.reordering.messages.decide import (
    RENAMED,
    Meetings,
    cannot_compete,
    with_own_hazards,
)
from planguard.reordering.messages.static import (
    alive,
    may_lose,
    named,
    plain,
    renames,
    without_any_tag,
)
from planguard.reordering.messages.wildcards import ANY, is_choice_wait
from planguard.reordering.rooted import EarlyKernels, leavers, left_early, refuse_batched
from planguard.reordering.threads.created import made_twice
from planguard.reordering.threads.device import DeviceThreadKernels
from planguard.reordering.threads.lanes import (
    ThreadKernels,
    at_gates,
    is_beside,
    threads_left,
    widened,
)
from planguard.reordering.threads.orders import Orders, Way, orders_of_ranks
from planguard.reordering.threads.two_orders import is_large, meets_alike, telling
from planguard.semantics.model import Family, strict
from planguard.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.execution.findings.reason import Reason
    from planguard.execution.running.executor import Execution
    from planguard.options import CheckOptions, Deadline
    from planguard.plan.fixed import FixedPlan
    from planguard.plan.plan import Plan
    from planguard.reordering.messages.decide import Fixed
    from planguard.semantics.model import ExecutionModel
    from planguard.verdict import Verdict

CODE = "PG102"
LIMIT = 2_000
"""Most combinations of orders that are run when no budget is given."""

Place = tuple[int, int, int | None]
"""Rank, action index in the plan, member of a batch."""


def over_interleavings(
    plan: Plan,
    flat: dict[str, Any],
    chained: FixedPlan,
    model: ExecutionModel,
    options: CheckOptions,
    fixed: Fixed,
) -> Verdict:
    """Decide a plan over all interleavings of threads that block alone.

    Args:
        plan: A plan with `threads`, without branches and wildcards.
        flat: Its annotated flat form.
        chained: The plan with every `threads` as an `unordered` block of chains.
        model: A model in which a call blocks its thread.
        options: Options of the check; ``budget`` bounds the work in seconds.
        fixed: Decides a fixed plan with kernels of its own.
    """
    reason = _unclear(flat, model)
    if reason is not None:
        return open_verdict(plan, model.name, reason)
    try:
        search = _search(plan, flat, chained, model, options, fixed)
        try:
            verdict = search.verdict()
            if search.unnamed is None or verdict.outcome in NAMELESS:
                return verdict
        except UndecidedError:
            if search.unnamed is None:
                raise  # else more time would not help: without labels it is never SAFE
        raise UndecidedError(search.unnamed)
    except UndecidedError as reached:
        return open_verdict(plan, model.name, reached.reason.about("the orders of its threads"))


def interleaved(
    plan: Plan,
    flat: dict[str, Any],
    chained: FixedPlan,
    model: ExecutionModel,
    options: CheckOptions,
    fixed: Fixed,
) -> Iterator[tuple[FixedPlan, ThreadKernels, tuple[str, ...]]]:
    """Yield every order of calls with the kernels that run it, and what is open in it, in words.

    Orders whose runs are no executions are among them: threads can be held up by more than that.

    Raises:
        UndecidedError: There are more than can be run, or threads are used in an undecided way.
    """
    search = _search(plan, flat, chained, model, options, fixed)
    if search.unnamed is not None:
        raise UndecidedError(search.unnamed)
    ways = search.ways()
    for chosen in itertools.product(*ways):
        search.count()
        ordered, kernels, _ = search.made(chosen, frozenset(), model)
        yield ordered, kernels, search.notes(chosen, ways)


def _search(
    plan: Plan,
    flat: dict[str, Any],
    chained: FixedPlan,
    model: ExecutionModel,
    options: CheckOptions,
    fixed: Fixed,
) -> _Search:
    competes = _competes(flat, model)
    orders, unnamed = orders_of_ranks(flat, chained, model, any_source=competes)
    return _Search(plan, flat, orders, model, options, fixed, chained, unnamed)


def _unclear(flat: dict[str, Any], model: ExecutionModel) -> Reason | None:
    if _is_contested(flat, model) and (reason := cannot_compete(flat, model)) is not None:
        return reason
    beside = _beside(flat, model)
    return construct(beside) if beside else None


def _beside(flat: dict[str, Any], model: ExecutionModel) -> str:
    kinds = {item["op"] for body in flat["ranks"].values() for item in leaves(body["actions"])}
    if model.exit_withdraws and any(map(may_lose, flat["ranks"].values())):
        return "`threads` beside an exit, which may take what they sent along"
    if "drop" in kinds and model.drops_kill:
        return "`threads` beside a dropped handle, which may die before its match or after it"
    if (twice := made_twice(flat, model)) is not None:
        return f"the communicator of {twice[0]}, which two threads may be the first to use"
    return ""


def _competes(flat: dict[str, Any], model: ExecutionModel) -> bool:
    """Tell whether messages compete: who takes which depends on the order of calls of a rank.

    Where tags mean nothing "any tag" is no choice.
    """
    ops = [item for body in flat["ranks"].values() for item in leaves(body["actions"])]
    parts = [part for item in ops for part in (item["ops"] if item["op"] == "batch" else [item])]
    values = {part.get(name) for part in parts for name in _OPEN[: 1 + model.use_tags]}
    return ANY in values or any(part["op"] == "probe" for part in parts)


_OPEN = ("peer", "tag")


def _is_contested(flat: dict[str, Any], model: ExecutionModel) -> bool:
    """Tell whether messages compete, or a wait is for one of several handles."""
    ops = (item for body in flat["ranks"].values() for item in leaves(body["actions"]))
    return _competes(flat, model) or any(map(is_choice_wait, ops))


def _looks_beside(way: Way) -> bool:
    """Tell whether a probe and a receive on one communicator are calls of two threads."""
    calls = list(zip(way.actions, way.calls, strict=True))
    parts = [
        (part["op"], part.get("group", "world"), call.home)
        for fields, call in calls
        for part in (fields["ops"] if fields["op"] == "batch" else [fields])
    ]
    probes = [(group, home) for op, group, home in parts if op == "probe"]
    takers = [(group, home) for op, group, home in parts if op in RECEIVES]
    return any(
        group == other and is_beside(home, its) for group, home in probes for other, its in takers
    )


@dataclass
class _Search:
    """The orders of one plan under one model.

    Attributes:
        chained: The plan with every `threads` as an `unordered` block of chains.
        unnamed: Why calls that may change places cannot be told apart, if they cannot.
    """

    plan: Plan
    flat: dict[str, Any]
    orders: list[Orders]
    model: ExecutionModel
    options: CheckOptions
    fixed: Fixed
    chained: FixedPlan
    unnamed: Reason | None = None
    runs: int = 0
    last: Last = field(default_factory=Last)
    deadline: Deadline = field(init=False)

    def __post_init__(self) -> None:
        self.deadline = running(self.options).deadline

    def verdict(self) -> Verdict:
        """Return the verdict over all orders.

        Raises:
            UndecidedError: There are more than can be run.
            UndecidedError: A rooted collective that may be left early is in a batch.
        """
        few = self._from_two_orders()
        if few is not None:
            return few
        ways = self.ways()
        # Each of them is run at least once: what would end at the limit need not begin.
        if math.prod(map(len, ways)) > LIMIT and not self.deadline.is_bounded:
            raise UndecidedError(too_many(f"more than {LIMIT:,} combinations"))
        if self.is_contested:
            return self._over_meetings(ways)
        only_one = all(len(found) == 1 for found in ways)
        model = self.model if only_one or not self.model.eager else self._picked_early()
        found: list[tuple[Part, ThreadKernels, ExecutionModel]] = []
        for chosen in itertools.product(*ways):
            notes = self.notes(chosen, ways)
            for end in self._ends(model):
                may_end = self._may_end_early(chosen) if model is not self.model else frozenset()
                found += [(*part, end) for part in self._parts(chosen, may_end, end, notes)]
        verdict = self._shown(found, CODE)
        return replace(verdict, evidence=replace(verdict.evidence, schedules=self.runs))

    def _from_two_orders(self) -> Verdict | None:
        """Return POTENTIAL_DEADLOCK where orders are many, one of them ends and one is stuck.

        What meets is the same in every order (``meets_alike``), and in the one that ends all of it
        agrees: so no order mixes anything, and these two say what all say.
        """
        if self.unnamed or self.is_contested or not meets_alike(self.orders, self.model):
            return None
        if not is_large(self.orders, LIMIT):
            return None
        found: list[tuple[Part, ThreadKernels, ExecutionModel]] = []
        for chosen in telling(self.orders, self.chained, self.model, self.options):
            notes = self.notes(chosen, [[way, way] for way in chosen])
            for end in self._ends(self.model):
                found += [(*part, end) for part in self._parts(chosen, frozenset(), end, notes)]
                outcomes = {part.outcome for part, _, _ in found}
                if outcomes == {Outcome.SAFE, Outcome.DEADLOCK}:
                    verdict = self._shown(found, CODE)
                    return replace(verdict, evidence=replace(verdict.evidence, schedules=self.runs))
                if outcomes == {Outcome.SAFE}:
                    break  # another order is to get stuck
        return None

    def _over_meetings(self, ways: list[list[Way]]) -> Verdict:
        """Return the verdict where messages compete: in each order, every way to meet."""
        found: list[tuple[Part, Any, ExecutionModel]] = []
        states = 0
        for chosen in itertools.product(*ways):
            self.count()
            notes = self.notes(chosen, ways)
            search = self._meetings(chosen)
            for part, kernels in search.parts():
                own = replace(part, notes=(*notes, *part.notes))
                found.append((own, kernels, search.settled))
                self.runs += 1
            states += search.states
        is_one = all(len(way) == 1 for way in ways)
        verdict = self._shown(found, COMPETING if is_one else CODE)
        evidence = replace(verdict.evidence, schedules=self.runs, states=states)
        return with_own_hazards(replace(verdict, evidence=evidence), self.plan)

    def _meetings(self, chosen: tuple[Way, ...]) -> Meetings:
        """Return the search over who meets whom in one order.

        Raises:
            UndecidedError: Ranks create groups in a way that does not tell which is which.
            UndecidedError: A receive of another thread may take what a probe looks for, whichever
                is called first: that a probe sees a message is no step that only enables more.
        """
        if any(map(_looks_beside, chosen)):
            raise UndecidedError("a probe beside receives of another thread of its rank")
        flat = alive({**self.flat, "ranks": self._programs(chosen, frozenset())})
        if renames(flat, self.plan):
            raise UndecidedError(RENAMED)
        hosts = _Hosts(chosen)
        return Meetings(self.plan, named(flat), self.model, self.options, self.fixed, hosts)

    def _shown(self, found: list[tuple[Part, Any, ExecutionModel]], code: str) -> Verdict:
        """Return what all parts say together, with the findings of the one that is shown."""
        parts = [part for part, _, _ in found]
        shown = shown_of(parts, together(parts))
        kernels, end = next((kernels, end) for part, kernels, end in found if part is shown)
        full = self.fixed(shown.ordered.plan, end, brief=False, implementation=kernels)
        return combined(self.plan, parts, full, shown, code)

    @property
    def is_contested(self) -> bool:
        """Whether messages compete, or a wait is for one of several handles."""
        return _is_contested(self.flat, self.model)

    def ways(self) -> list[list[Way]]:
        """Return the orders of every rank."""
        return [list(self._few(rank)) for rank in self.orders]

    @staticmethod
    def _ends(model: ExecutionModel) -> Iterator[ExecutionModel]:
        """Yield the model with each number of queues that decides: one, and one a communicator.

        An order of calls is real under one of them and not under the other where a thread is held
        up by a queue that only one of them has.
        """
        if model.family is Family.DEVICE and model.free_launch:
            yield replace(model, free_launch=False, serialized=True)
            yield replace(model, free_launch=False, serialized=False)
        else:
            yield model

    def _few(self, orders: Orders) -> Iterator[Way]:
        for number, way in enumerate(orders.ways()):
            if number >= LIMIT and not self.deadline.is_bounded:
                raise UndecidedError(too_many(f"more than {LIMIT:,} on one rank"))
            self._hurry()
            yield way

    def count(self) -> None:
        """Count a run.

        Raises:
            UndecidedError: There are too many, or no time for them.
        """
        self.runs += 1
        if self.runs > LIMIT and not self.deadline.is_bounded:
            raise UndecidedError(too_many(f"more than {LIMIT:,} combinations"))
        self._hurry()

    def _hurry(self) -> None:
        if self.deadline.expired():
            raise UndecidedError(out_of_time(f" after {self.runs:,} combinations"))

    def _parts(
        self,
        chosen: tuple[Way, ...],
        may_end: frozenset[Place],
        model: ExecutionModel,
        notes: tuple[str, ...],
    ) -> Iterator[tuple[Part, ThreadKernels]]:
        """Yield what one order says, for each set of calls that end early and change its runs.

        Whether a call ends early plays a part only where a run ends in its wait: a run in which
        the wait passes is the same without it. So sets grow by what a run is stuck in. Nothing is
        yielded where no execution ends like a run.
        """
        todo = [frozenset[Place]()]
        seen = set(todo)
        while todo:
            early = todo.pop()
            self.count()
            ordered, kernels, more = self.made(chosen, early, model)
            runs = _runs(ordered, model, kernels)
            if _is_execution(runs[-1].lanes, runs[-1].state.pc, chosen):
                verdict = self.fixed(ordered.plan, model, brief=True, implementation=kernels)
                yield Part(ordered, verdict, (*notes, *more), differs=True), kernels
            stuck = {place for one in runs for place in _waited(one, chosen)} & may_end - early
            further = {early | {place} for place in stuck} - seen
            seen |= further
            todo += sorted(further, key=lambda one: sorted(map(repr, one)))

    def made(
        self, chosen: tuple[Way, ...], early: frozenset[Place], model: ExecutionModel
    ) -> tuple[FixedPlan, ThreadKernels, tuple[str, ...]]:
        """Return the plan in one order, the kernels that run it, and who leaves early, in words."""
        ordered = self._ordered(chosen, early)
        left = {
            (rank, action): left_early(rank, fields[AT], fields["op"])
            for rank, way in enumerate(chosen)
            for action, fields in enumerate(way.actions)
            if fields["op"] not in SENDS and (rank, fields[AT], None) in early
        }
        of_model = DeviceThreadKernels if model.family is Family.DEVICE else ThreadKernels
        base = EarlyKernels(self.model, self.options.eager_bytes, ordered.plan, frozenset(left))
        kernels = of_model([way.calls for way in chosen], base if left else None, self.last)
        return ordered, kernels, tuple(left.values())[:3]

    def _ordered(self, chosen: tuple[Way, ...], early: frozenset[Place]) -> FixedPlan:
        """Return the plan in one order, with sends that finish early marked."""
        programs = self._programs(chosen, early)
        return written(self.flat, {rank: body["actions"] for rank, body in programs.items()})

    def _programs(
        self, chosen: tuple[Way, ...], early: frozenset[Place]
    ) -> dict[str, dict[str, list[Any]]]:
        return {
            str(rank): {
                "actions": [_buffered(rank, self._said(fields), early) for fields in way.actions]
            }
            for rank, way in enumerate(chosen)
        }

    def _said(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return what the model reads of an action: some have no modes of sends, some no tags."""
        told = fields if self.model.send_modes else plain(fields)
        return told if self.model.use_tags else without_any_tag(told)

    # --- calls that finish early ---------------------------------------------------------------

    def _picked_early(self) -> ExecutionModel:
        """Return the model in which what finishes early is picked call by call.

        Between threads more buffering can lead to a worse order, so the two ends of the model do
        not decide.
        """
        return replace(self.model, eager=False, early_degree=None, send_modes=True)

    def _may_end_early(self, chosen: tuple[Way, ...]) -> frozenset[Place]:
        """Return the calls that may finish early: sends, and rooted collectives."""
        return frozenset([*self._eager(), *self._left(chosen)])

    def _eager(self) -> Iterator[Place]:
        for rank, body in self.flat["ranks"].items():
            for item in leaves(body["actions"]):
                is_batch = item["op"] == "batch"
                for member, said in enumerate(item["ops"] if is_batch else [item]):
                    part = self._said(said)
                    size = bytes_of(part)
                    if part["op"] not in SENDS:
                        continue
                    is_small = size is None or size <= self.options.eager_bytes
                    if is_small and part.get("mode") in {None, "standard"}:
                        yield int(rank), item[AT], member if is_batch else None

    def _left(self, chosen: tuple[Way, ...]) -> Iterator[Place]:
        """Yield the calls of rooted collectives that a rank may leave before all are there."""
        plan = self._ordered(chosen, frozenset()).plan
        columns = expand(plan)
        calls = leavers(plan, columns, self.model, self.options.eager_bytes)
        refuse_batched(columns, calls)
        for rank, entry in calls:
            action = actions_of(columns, rank)[entry]
            yield rank, chosen[rank].actions[action][AT], None

    # --- words ---------------------------------------------------------------------------------

    @staticmethod
    def notes(chosen: tuple[Way, ...], ways: list[list[Way]]) -> tuple[str, ...]:
        """Return, for ranks with several orders, two calls whose order is open."""
        found = []
        for rank, way in enumerate(chosen):
            if len(ways[rank]) < 2:
                continue
            if way.leaves:
                found.append(f"rank {rank} leaves behind {len(way.calls) - 1} of its calls")
                continue
            for at, call in enumerate(way.calls):
                if call.behind:
                    one, other = way.actions[call.behind[-1]], way.actions[at]
                    found.append(
                        f"rank {rank} calls #{one[AT]} {one['op']} before #{other[AT]} "
                        f"{other['op']}, which are in different threads"
                    )
                    break
        return tuple(found[:3])


def _runs(ordered: FixedPlan, model: ExecutionModel, kernels: ThreadKernels) -> list[Execution]:
    """Return the runs of an order that decide it; the last one says how its executions end.

    Rounds whose members disagree complete as if they agreed: what is stuck behind them then is
    stuck for a reason of its own, and that is what the order is asked for.
    """
    columns, rules = expand(ordered.plan), strict(model)
    run = execute(ordered.plan, columns, model, rules, origins=True, implementation=kernels)
    suspects = candidates(run)
    rounds = blocking_rounds(run, suspects) if find_mismatches(run, suspects) else None
    if not rounds:
        return [run]
    return [
        run,
        execute(
            ordered.plan,
            columns,
            model,
            rules,
            origins=True,
            forced=rounds,
            implementation=kernels,
        ),
    ]


def _waited(run: Execution, chosen: Sequence[Way]) -> Iterator[Place]:
    """Yield the calls whose end a run is stuck in, wherever their rank waits for it."""
    lanes = run.lanes
    for lane, at in enumerate(run.state.pc):
        if at == lanes.lane_off[lane + 1]:
            continue
        rank, match = lanes.lane_rank[lane], lanes.code[at] >> 2
        for entry, member in _issued(lanes, rank, match):
            fields = chosen[rank].actions[actions_of(run.columns, rank)[entry]]
            yield rank, fields[AT], member if fields["op"] == "batch" else None


def _issued(lanes: Any, rank: int, match: int) -> Iterator[tuple[int, int]]:
    """Yield the entries of a rank that arrive at a match, and at which of their steps."""
    steps = Counter[int]()
    for lane, owner in enumerate(lanes.lane_rank):
        for at in range(lanes.lane_off[lane], lanes.lane_off[lane + 1]) if owner == rank else ():
            if lanes.code[at] & ARRIVE and lanes.origin[at] != NONE:
                if lanes.code[at] >> 2 == match:
                    yield lanes.origin[at], steps[lanes.origin[at]]
                steps[lanes.origin[at]] += 1


def _is_execution(lanes: Any, at: Sequence[int], chosen: Sequence[Way]) -> bool:
    """Tell whether an execution ends where the lanes of an order stand.

    No thread is held back by the order alone, each rank that leaves in a thread gets there, and no
    other one could leave.
    """
    if at_gates(lanes, at):
        return False
    for rank, way in enumerate(chosen):
        stand = threads_left(lanes, at, rank) if way.leaves or way.stays else set()
        if (way.leaves and stand) or not way.stays <= stand:
            return False
    return True


@dataclass(frozen=True)
class _Hosts:
    """How one order of threads runs where messages compete: `messages.decide.Hosts`."""

    chosen: Sequence[Way]

    def kernels(self, widths: list[list[int]], base: Any) -> ThreadKernels:
        """Return the kernels of the order in which several actions may stand for a call."""
        pairs = zip(self.chosen, widths, strict=True)
        return ThreadKernels([widened(way.calls, width) for way, width in pairs], base)

    def is_execution(self, lanes: Any, at: Sequence[int]) -> bool:
        """Tell whether an execution ends where the lanes stand."""
        return _is_execution(lanes, at, self.chosen)


def _buffered(rank: int, fields: dict[str, Any], early: frozenset[Place]) -> dict[str, Any]:
    """Return an action without order edges; sends that finish early are marked."""
    kept = {key: value for key, value in fields.items() if key not in {"after", "x-after"}}
    if fields["op"] in SENDS and (rank, fields[AT], None) in early:
        kept["mode"] = "buffered"
    if fields["op"] == "batch":
        kept["ops"] = [
            {**part, "mode": "buffered"} if (rank, fields[AT], member) in early else part
            for member, part in enumerate(fields["ops"])
        ]
    return kept
