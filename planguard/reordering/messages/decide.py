"""Plans in which messages compete: every way to meet, each decided as the fixed plan it leads to.

Searched are the states of the lanes (`states`). What an execution met is then a fixed plan, and the
deterministic engine decides that plan: what a search found is never shown unless the engine agrees.

Above 400 lines: the machine that is searched, its endings, and what each of them says are one idea.
"""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from planguard import kernels
from planguard.catalog import report_order
from planguard.errors import InternalError
from planguard.execution.findings.help import HELP
from planguard.execution.findings.mismatch import blocking_rounds, candidates
from planguard.execution.findings.notes import hazard_findings
from planguard.execution.findings.reason import Kind as Why
from planguard.execution.findings.reason import (
    Reason,
    UndecidedError,
    construct,
    out_of_time,
    too_many,
)
from planguard.execution.running.executor import execute
from planguard.execution.running.expand import expand
from planguard.kernels.twin_rules import ARRIVE
from planguard.options import running
from planguard.plan.actions import KIND_MASK, MEMBER, NONE, Kind
from planguard.plan.fixed import AT, written
from planguard.reordering.branches.assignments import flat_tree, leaves
from planguard.reordering.cases.together import Part, combined, open_verdict, shown_of, together
from planguard.reordering.messages.states import Machine, State, endings
from planguard.reordering.messages.static import (
    alive,
    has_choice,
    may_lose,
    named,
    renames,
    untagged,
    without_modes,
)
from planguard.reordering.messages.wildcards import (
    ANY,
    Meeting,
    Message,
    Messages,
    accepts,
    is_choice_wait,
    is_wild,
)
from planguard.reordering.rooted import (
    EarlyKernels,
    leavers,
    left_early,
    opened,
    refuse_batched,
)
from planguard.semantics.hazards import HAZARDS
from planguard.semantics.model import UNLIMITED, Family, strict
from planguard.verdict import Met, Outcome, Verdict
from planguard.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.execution.running.executor import Execution
    from planguard.options import CheckOptions
    from planguard.plan.plan import Plan
    from planguard.reordering.cases.together import Decide
    from planguard.semantics.model import ExecutionModel

CODE = "PG106"
STATES = {"native": 1_000_000, "python": 20_000}
"""Most states that are searched when no budget is given: some seconds of either kernels."""
ENDINGS = 300
"""Most endings that are decided one by one."""


class Fixed(Protocol):
    """Decides a fixed plan under the rules of a model, which need not be those of its name."""

    def __call__(
        self, plan: Plan, model: ExecutionModel, *, brief: bool, implementation: Any = None
    ) -> Verdict:
        """Return the verdict; ``brief`` leaves out witnesses and what decides nothing."""
        ...


def over_matches(
    plan: Plan, columns: Any, model: ExecutionModel, options: CheckOptions, fixed: Fixed
) -> Verdict:
    """Decide a plan with receives from anybody, probes, or waits for one of several.

    Args:
        plan: A plan of fixed orders.
        columns: Its columns.
        model: The execution model.
        options: Options; ``budget`` bounds the search in seconds.
        fixed: Decides a fixed plan.
    """
    flat = alive(flat_tree(plan, columns))
    is_renamed = columns.has_new_group and renames(flat, plan)
    if model.family is not Family.DEVICE and not is_renamed:
        flat = named(flat)
        if not has_choice(flat):  # a probe of a message that none of the receives may take
            return settled(plan, flat, model, fixed)
    reason = cannot_compete(flat, model) or (RENAMED if is_renamed else None)
    if reason is not None:
        return open_verdict(plan, model.name, reason)
    if model.family is Family.DEVICE:
        return settled(plan, untagged(flat), model, fixed)
    search = Meetings(plan, flat, model, options, fixed)
    try:
        return search.verdict()
    except UndecidedError as reached:
        reason = reached.reason.about(SEARCHED)
        verdict = open_verdict(plan, model.name, reason)
        return replace(verdict, evidence=replace(verdict.evidence, states=search.states))


def over_named(plan: Plan, columns: Any, model: ExecutionModel, decide: Decide) -> Verdict | None:
    """Decide a plan whose receives have no choice as the plan that names what they take.

    The executions are the same, and so is who of a process is in MPI first, how many messages stand
    before a collective, and what an exit takes along.

    Args:
        plan: A plan of fixed orders in which messages compete.
        columns: Its columns.
        model: The execution model.
        decide: Decides the plan with names.

    Returns:
        None where a receive has a choice.
    """
    flat = alive(flat_tree(plan, columns))
    if model.family is Family.DEVICE or (columns.has_new_group and renames(flat, plan)):
        return None
    known = named(flat)
    if known is flat or has_choice(known):
        return None
    ordered = written(known, {rank: body["actions"] for rank, body in known["ranks"].items()})
    part = Part(ordered, decide(ordered.plan, brief=False))
    verdict = combined(plan, [part], part.verdict, part, CODE)
    return replace(verdict, evidence=part.verdict.evidence)


RENAMED = construct(
    "messages that compete beside new_group, where ranks do not create the same groups in "
    "one order, once each and before they use them: torch names a group by its place in "
    "that order"
)
SEARCHED = "the ways to match its messages"


def cannot_compete(flat: dict[str, Any], model: ExecutionModel) -> Reason | None:
    """Return why messages that compete are not searched under a model, if they are not.

    Args:
        flat: The annotated flat plan, with or without threads.
        model: The execution model.
    """
    ops = [item for body in flat["ranks"].values() for item in leaves(body["actions"])]
    inner = [part for item in ops for part in (item["ops"] if item["op"] == "batch" else [item])]
    kinds = {item["op"] for item in ops}
    if model.family is Family.DEVICE:
        if any(part.get("peer") == ANY for part in inner):
            return Reason(Why.SENDER, "a receive from any source, which no NCCL model has")
        if any(map(is_choice_wait, ops)):
            return construct(
                "a wait for any or some of several handles, where waits are stream edges"
            )
    if model.exit_withdraws and any(map(may_lose, flat["ranks"].values())):
        return construct("messages that compete beside an exit, which may take some of them along")
    if "drop" in kinds and model.drops_kill:
        return construct("messages that compete beside a dropped handle, which may swallow some")
    if "probe" in kinds and model.one_lock:
        return construct("a probe, which ProcessGroupMPI does not have")
    return None


class Hosts(Protocol):
    """How the ranks of a flat plan run, where that is more than one action after the other."""

    def kernels(self, widths: list[list[int]], base: Any) -> Any:
        """Return the kernels that run it.

        Args:
            widths: Per rank and action, how many actions stand for it in what is run.
            base: Kernels to build on; those in use where None.
        """
        ...

    def is_execution(self, lanes: Any, at: Sequence[int]) -> bool:
        """Tell whether an execution ends where the lanes stand, each before some word."""
        ...


class Meetings:
    """The search of one plan under one model: every way in which its messages meet.

    Args:
        plan: The plan.
        flat: Its annotated flat form, one action after the other.
        model: The execution model, one of hosts.
        options: Options; ``budget`` bounds the search in seconds.
        fixed: Decides a fixed plan.
        hosts: How its ranks run; None where each is one program.
    """

    def __init__(
        self,
        plan: Plan,
        flat: dict[str, Any],
        model: ExecutionModel,
        options: CheckOptions,
        fixed: Fixed,
        hosts: Hosts | None = None,
    ) -> None:
        self.plan, self.model, self.options, self.fixed = plan, model, options, fixed
        self.hosts = hosts
        self.messages = Messages(flat if model.send_modes else without_modes(flat))
        self.states = self.ends = 0
        self.sends: dict[int, tuple[int, int, int | None]] = {}
        self.left: dict[int, tuple[int, int]] = {}
        self.waits: dict[tuple[int, int], tuple[int, str]] = {}
        self.deadline = running(options).deadline
        # What finishes early is picked message by message, so nothing is left to the scenario.
        self.settled = replace(
            model, eager=False, early_degree=None, send_modes=model.send_modes or model.eager
        )
        self.separated = self.messages.separated()
        self.columns = expand(self.separated.plan)
        self.machine = self._machine()

    def verdict(self) -> Verdict:
        """Return the verdict over all ways to meet.

        Raises:
            UndecidedError: There are more than can be searched.
        """
        found = list(self.parts())
        parts = [part for part, _ in found]
        shown = shown_of(parts, together(parts))
        own = next(own for part, own in found if part is shown)
        full = self.fixed(shown.ordered.plan, self.settled, brief=False, implementation=own)
        verdict = combined(self.plan, parts, full, shown, CODE)
        evidence = replace(verdict.evidence, schedules=self.ends, states=self.states)
        return with_own_hazards(replace(verdict, evidence=evidence), self.plan)

    def parts(self) -> Iterator[tuple[Part, Any]]:
        """Yield what every kind of ending says, and the kernels that run it.

        Raises:
            UndecidedError: There are more than can be searched.
        """
        ends, self.states = endings(self.machine, STATES[kernels.IMPLEMENTATION], self.deadline)
        ends = list(filter(self._is_execution, ends))
        self.ends = len(ends)
        chosen = self._representatives(ends)
        if len(chosen) > ENDINGS and not self.deadline.is_bounded:
            raise UndecidedError(too_many(f"more than {ENDINGS:,} endings"))
        for number, state in enumerate(chosen):
            if self.deadline.expired():
                raise UndecidedError(out_of_time(f" after {number:,} endings"))
            yield self._part(state)

    def _is_execution(self, state: State) -> bool:
        """Tell whether an execution ends like this."""
        at = [place // 2 for place in state.at]
        return self.hosts is None or self.hosts.is_execution(self.machine.lanes, at)

    # --- the machine -------------------------------------------------------------------------

    def _machine(self) -> Machine:
        widths = [self._widths(rank) for rank in range(self.plan.world_size)]
        implementation = self.hosts and self.hosts.kernels(widths, None)
        execution = self._lowered(array("I"), implementation)
        # Ranks go on behind a round whose members disagree, as if they agreed: what hangs then
        # hangs for a reason of its own.
        rounds = blocking_rounds(execution, candidates(execution))
        execution = self._lowered(rounds, implementation) if rounds else execution
        arrivals = _arrivals(execution.lanes)
        match = {m.number: self._match(arrivals, m) for m in self.messages.all}
        lanes, eager = execution.lanes, self._eager(arrivals) if self.model.eager else {}
        plan = self.separated.plan
        calls = leavers(plan, self.columns, self.model, self.options.eager_bytes)
        if calls:
            refuse_batched(self.columns, calls)
            lanes, own = opened(lanes, self.columns, calls, plan)
            eager |= {one: rank for one, (rank, _) in own.items()}
            self.left = {
                one: (rank, self._position(rank, entry)) for one, (rank, entry) in own.items()
            }
        return Machine(
            lanes,
            self.messages.all,
            match,
            self.model.send_modes or self.model.eager,
            eager,
            self._alternatives(),
        )

    def _lowered(self, forced: array[int], implementation: Any) -> Execution:
        return execute(
            self.separated.plan,
            self.columns,
            self.settled,
            strict(self.settled),
            origins=True,
            forced=forced,
            implementation=implementation,
        )

    def _entries(self, rank: int) -> list[int]:
        """Return the entry of every action of the separated plan."""
        columns = self.columns
        start, end = columns.rank_off[rank], columns.rank_off[rank + 1]
        return [at - start for at in range(start, end) if not columns.op[at] & MEMBER]

    def _positions(self, rank: int) -> list[int]:
        """Return the position in the plan of every action of the separated plan."""
        return [at for at, width in enumerate(self._widths(rank)) for _ in range(width)]

    def _widths(self, rank: int) -> list[int]:
        """Return how many actions of the separated plan stand for each action of the plan."""
        program = self.messages.programs[str(rank)]
        return [len(action["work"]) if is_choice_wait(action) else 1 for action in program]

    def _position(self, rank: int, entry: int) -> int:
        """Return the position in the plan of an entry of the separated plan."""
        return self._positions(rank)[self._entries(rank).index(entry)]

    def _match(self, arrivals: dict[tuple[int, int], list[int]], message: Message) -> int:
        place = self._positions(message.rank).index(message.at)
        entry = self._entries(message.rank)[place]
        return arrivals[message.rank, entry][message.member or 0]

    def _eager(self, arrivals: dict[tuple[int, int], list[int]]) -> dict[int, int]:
        """Return the matches whose send may finish early, with the rank that sends."""
        found: dict[int, int] = {}
        sizes, columns = self.separated.plan.code.sig_bytes, self.columns
        for rank in range(self.plan.world_size):
            for at, entry in zip(self._positions(rank), self._entries(rank), strict=True):
                begin = columns.rank_off[rank] + entry
                is_batch = columns.op[begin] & KIND_MASK == Kind.BATCH
                places = range(begin + is_batch, begin + 1 + is_batch * columns.arg[begin])
                pairs = zip(places, arrivals.get((rank, entry), []), strict=False)
                for member, (place, match) in enumerate(pairs):
                    if columns.op[place] & KIND_MASK != Kind.SEND:
                        continue
                    size = sizes[columns.sig[place]]
                    if size <= self.options.eager_bytes or size == UNLIMITED:
                        found[match] = rank
                        self.sends[match] = rank, at, member if is_batch else None
        return found

    def _alternatives(self) -> dict[tuple[int, int], tuple[int, ...]]:
        """Return, for every look at one handle, the entries of all looks of the same wait."""
        found: dict[tuple[int, int], tuple[int, ...]] = {}
        for rank, program in self.messages.programs.items():
            by_action: dict[int, list[int]] = {}
            pairs = zip(self._positions(int(rank)), self._entries(int(rank)), strict=True)
            for at, entry in pairs:
                by_action.setdefault(at, []).append(entry)
            for at, entries in by_action.items():
                if is_choice_wait(program[at]):
                    found |= {(int(rank), entry): tuple(entries) for entry in entries}
                    self.waits |= {
                        (int(rank), entry): (at, name)
                        for entry, name in zip(entries, program[at]["work"], strict=True)
                    }
        return found

    # --- endings -----------------------------------------------------------------------------

    def _representatives(self, ends: list[State]) -> list[State]:
        """Return one ending of every kind: where ranks stand, and which pairs may disagree."""
        found: dict[Any, State] = {}
        for state in sorted(ends, key=lambda s: (len(s.buffered), sorted(s.pairs))):
            odd = frozenset(pair for pair in state.pairs if self._differs(*pair))
            stuck = self.machine.stuck(state)
            stands = tuple((lane, state.at[lane]) for lane in stuck)
            found.setdefault((stands, odd), state)
        return list(found.values())

    def _differs(self, receive: int, send: int) -> bool:
        return self.messages.all[receive].said != self.messages.all[send].said

    def _part(self, state: State) -> tuple[Part, Any]:
        """Return what an ending says.

        A receive from anybody that is stuck waits for one of several: a mismatch explains it where
        it explains why one of them does not come. So each that could come is tried.
        """
        ranks = [NONE, *range(self.plan.world_size)]
        tried = list(map(dict, dict.fromkeys(
            tuple(self._guesses(state, rank).items()) for rank in ranks
        )))  # fmt: skip
        first = self._part_with(state, tried[0])
        if first[0].outcome is not Outcome.DEADLOCK or not first[0].mixes:
            return first
        others = (self._part_with(state, guesses) for guesses in tried[1:])
        return next((found for found in others if found[0].outcome is Outcome.MISMATCH), first)

    def _part_with(self, state: State, guesses: dict[int, int]) -> tuple[Part, Any]:
        meeting = self._meeting(state)
        ordered = self.messages.settled(meeting, guesses)
        left = frozenset(self.left[match] for match in state.buffered & self.left.keys())
        own: Any = None
        if left:
            own = EarlyKernels(self.model, self.options.eager_bytes, ordered.plan, left)
        if self.hosts is not None:
            programs = (self.messages.programs[str(rank)] for rank in self.messages.ranks())
            own = self.hosts.kernels([[1] * len(program) for program in programs], own)
        verdict = self.fixed(ordered.plan, self.settled, brief=True, implementation=own)
        notes, matches = (*self._notes(meeting), *self._leaves(left)), self._matches(meeting)
        advice = self._advice(meeting, left)
        part = Part(ordered, verdict, notes, differs=True, matches=matches, help=advice)
        is_stuck = bool(self.machine.stuck(state))
        if not is_stuck and part.outcome not in {Outcome.SAFE, Outcome.MISMATCH}:
            raise InternalError("an execution that completed does not complete when re-executed")
        if is_stuck and part.is_safe:
            raise InternalError("an execution that got stuck completes when re-executed")
        return part, own

    def _meeting(self, state: State) -> Meeting:
        buffered = frozenset(self.sends[match] for match in state.buffered & self.sends.keys())
        waited = {
            (rank, self.waits[rank, entry][0]): self.waits[rank, entry][1]
            for rank, entry in state.looked
        }
        return Meeting(dict(state.pairs | state.seen), buffered, waited)

    def _guesses(self, state: State, rank: int) -> dict[int, int]:
        """Pair what did not happen, so that a stuck receive waits for somebody who may send.

        Args:
            state: An ending.
            rank: Whose messages come first where there are several.
        """
        met = {number for pair in state.pairs | state.seen for number in pair}
        there = {m.number for m in self.machine.free(state)}
        left = [m for m in self.messages.all if m.number not in met]
        taken: dict[int, int] = {}
        used: set[int] = set()
        receives = sorted(
            (m for m in left if m.kind != "send"), key=lambda m: m.number not in there
        )
        sends = sorted((m for m in left if m.kind == "send"), key=lambda m: m.rank != rank)
        for receive in receives:
            for send in (m for m in sends if m.number not in used):
                both = receive.number in there and send.number in there
                if accepts(receive, send) and not both:
                    taken[receive.number] = send.number
                    if receive.kind == "recv":
                        used.add(send.number)
                    break
        return taken

    def _matches(self, meeting: Meeting) -> tuple[Met, ...]:
        """Return who met whom, by rank and action of the plan."""
        both = ((self.messages.all[n], self.messages.all[m]) for n, m in meeting.pairs.items())
        return tuple(Met(self._place(mine), self._place(other)) for mine, other in both)

    def _place(self, message: Message) -> tuple[int, int]:
        return message.rank, self.messages.programs[str(message.rank)][message.at][AT]

    def _notes(self, meeting: Meeting) -> tuple[str, ...]:
        wild = [n for n in sorted(meeting.pairs) if is_wild(self.messages.all[n])]
        notes = [self._note(n, meeting.pairs[n]) for n in wild[:3]]
        if len(wild) > len(notes):
            notes.append(f"{plural(len(wild) - len(notes), 'other pick')} not shown")
        return tuple(notes)

    def _leaves(self, left: frozenset[tuple[int, int]]) -> Iterator[str]:
        """Yield who leaves a rooted collective early, in words."""
        for rank, at in sorted(left)[:3]:
            action = self.messages.programs[str(rank)][at]
            yield left_early(rank, action[AT], action["op"])

    def _advice(self, meeting: Meeting, left: frozenset[tuple[int, int]]) -> str:
        """Return what to change, by what was picked: senders, handles, or who leaves early."""
        found = []
        if any(is_wild(self.messages.all[number]) for number in meeting.pairs):
            found.append(HELP[CODE])
        if meeting.waited:
            found.append("wait for all of the handles")
        if left:
            rank, at = min(left)
            action = self.messages.programs[str(rank)][at]
            name = f"#{action[AT]} {action['op']}"
            found.append(f"put a barrier of its group behind {name} on all members")
        return "; or ".join(found)

    def _note(self, receive: int, send: int) -> str:
        mine, other = self.messages.all[receive], self.messages.all[send]
        verb = "sees" if mine.kind == "probe" else "takes"
        return f"{self._name(mine)} {verb} the message of {self._name(other)}"

    def _name(self, message: Message) -> str:
        action = self.messages.programs[str(message.rank)][message.at]
        return f"r{message.rank}#{action[AT]} {action['op']}"


def with_own_hazards(verdict: Verdict, plan: Plan) -> Verdict:
    """Return a verdict with the hazards of the plan, not those of the way that is shown.

    There every wait for one of several is a wait for the one that was picked.
    """
    own = [f for f in verdict.findings if f.code not in HAZARDS or f.subkind is not None]
    own += hazard_findings(plan, verdict.model)
    findings = tuple(sorted(own, key=lambda f: report_order(f.severity, f.code)))
    return replace(verdict, findings=findings)


def _arrivals(lanes: Any) -> dict[tuple[int, int], list[int]]:
    """Return the matches at which every entry arrives, in order."""
    found: dict[tuple[int, int], list[int]] = {}
    for lane, rank in enumerate(lanes.lane_rank):
        for at in range(lanes.lane_off[lane], lanes.lane_off[lane + 1]):
            if lanes.code[at] & ARRIVE:
                found.setdefault((rank, lanes.origin[at]), []).append(lanes.code[at] >> 2)
    return found


def settled(plan: Plan, flat: dict[str, Any], model: ExecutionModel, fixed: Fixed) -> Verdict:
    """Decide a plan in which every receive has one message that it may take."""
    ordered = written(flat, {rank: body["actions"] for rank, body in flat["ranks"].items()})
    part = Part(ordered, fixed(ordered.plan, model, brief=False))
    verdict = combined(plan, [part], part.verdict, part, CODE)
    return replace(verdict, evidence=part.verdict.evidence)
