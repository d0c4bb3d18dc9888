"""Nogood: the few actions that make a plan unsafe, as a predicate that prunes other plans.

A wait-for cycle holds by positions alone. Let rank i be blocked in its k-th action on a
communicator or pair m, and let its partner j issue its own k-th action on m only after the action
in which j is blocked itself. Then no rank of the cycle is the first to get past its action,
whatever else the plan does: other ranks, and actions on other communicators, can only delay. So
the predicate looks at each rank of the cycle, at its actions on the communicators of the cycle
only, up to the one in which it is blocked. Any plan with the same positions there is unsafe.

An orphan needs the whole sequence of the rank that never comes, a mismatch the positions of two
members that disagree. Every execution that the argument speaks of is the strictest one of the
model; SAFE demands that this one completes (docs/explanation/parametric.md#nogoods).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from planguard.arguments import OPTIONS, PLAN, VERDICT, arguments
from planguard.guard.steps import Key, Step, Steps, side_of
from planguard.options import DEFAULT_MODEL, CheckOptions
from planguard.plan.actions import ASYNC, KIND_MASK, MEMBER, Kind, PeerMode, RefType, is_collective
from planguard.plan.code import REF_WORDS, WORDS
from planguard.semantics.model import Family, find_model
from planguard.semantics.signature import disagreement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from planguard.plan.plan import Plan
    from planguard.semantics.model import ExecutionModel
    from planguard.verdict import Finding, Location, Verdict

Element = tuple[Any, ...]
WAITS = frozenset({Kind.WAIT, Kind.WAIT_MANY})
BLOCKING = frozenset(
    {"send-unmatched", "recv-unmatched", "collective-incomplete", "wait-handle", "queue"}
)
"""Reasons of a wait-for edge that follow from positions."""
DECIDED = frozenset(
    kind for kind in range(64) if Kind.SEND <= kind <= Kind.BSEND or is_collective(kind)
) | {
    Kind.NOP,
    Kind.WAIT,
    Kind.WAIT_MANY,
    Kind.TEST,
    Kind.BATCH,
    Kind.COMPUTE,
    Kind.COPY,
    Kind.REPEAT,
    Kind.BIND,
}
"""Kinds the argument covers; a plan with any other is never pruned."""


@dataclass(frozen=True)
class Pattern:
    """What one rank has to issue on some communicators and pairs.

    Attributes:
        rank: Global rank.
        keys: The communicators and pairs that count.
        elements: Its steps there, in order.
        is_whole: The rank issues nothing else there; otherwise it may, later.
        last: Signature and label of the last step, where these matter.
    """

    rank: int
    keys: frozenset[Key]
    elements: tuple[Element, ...]
    is_whole: bool = False
    last: tuple[Any, ...] | None = None

    def holds(self, steps: Steps) -> bool:
        """Tell whether a rank of a plan does this."""
        seen = _relevant(steps.of(self.rank), self.keys)
        found = list(islice(seen, len(self.elements) + self.is_whole))
        if tuple(element for element, _ in found) != self.elements:
            return False
        return self.last is None or _compared(found[-1][1], self.keys) == self.last


@dataclass(frozen=True)
class Nogood:
    """A predicate on plans: true only for plans that are unsafe under its model.

    Attributes:
        model: The execution model.
        code: Code of the finding it was made from.
        actions: The minimal core, ``(rank, action)`` in the plan it was made from.
        patterns: What a plan has to contain.
    """

    model: str
    code: str
    actions: tuple[tuple[int, int], ...]
    patterns: tuple[Pattern, ...]

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks it looks at."""
        return tuple(pattern.rank for pattern in self.patterns)

    def __call__(self, plan: Plan) -> bool:
        """Tell whether a plan contains the core, so that it need not be checked."""
        if max(self.ranks) >= plan.world_size:
            return False
        steps = Steps(plan)
        return all(pattern.holds(steps) for pattern in self.patterns) and _is_covered(plan)


@arguments(plan=PLAN, verdict=VERDICT, options=OPTIONS)
def make_nogood(plan: Plan, verdict: Verdict, options: CheckOptions | None = None) -> Nogood | None:
    """Return the core of an unsafe verdict as a predicate.

    Args:
        plan: The plan.
        verdict: Its verdict.
        options: Options of the check; the defaults if None.

    Returns:
        The predicate; None if the plan is not unsafe, or if what is wrong with it does not follow
        from positions (events, created groups, blocks whose order is open).
    """
    options = options or CheckOptions()
    if not verdict.unsafe or options.model == "all" or not _is_covered(plan):
        return None
    model = find_model(verdict.model or plan.model or DEFAULT_MODEL)
    for finding in verdict.findings:
        if finding.severity != "error" or finding.code[2] not in "012":
            continue
        patterns = _patterns(plan, finding, model)
        if patterns:
            core = finding.witness.actions if finding.witness else ()
            made = Nogood(model.name, finding.code, core or _places(finding), tuple(patterns))
            if made(plan):
                return made
    return None


def _places(finding: Finding) -> tuple[tuple[int, int], ...]:
    found = (finding.primary, *finding.related_actions)
    return tuple((place.rank, place.action) for place in found if place is not None)


def _is_covered(plan: Plan) -> bool:
    """Whether positions decide everything in a plan."""
    code = plan.code
    is_over = any(entry.direction == "over" for entry in plan.approximations)
    if plan.fusion or is_over or len(code.streams) > 1:
        return False
    modes = zip(
        code.refs[::REF_WORDS], code.refs[2::REF_WORDS], code.refs[5::REF_WORDS], strict=True
    )
    if any(
        kind != RefType.GROUP and (mode == PeerMode.ANY or tag < 0) for kind, mode, tag in modes
    ):
        return False
    for program in code.programs:
        for op, mode in set(zip(program.code[::WORDS], program.code[2::WORDS], strict=True)):
            kind = op & KIND_MASK
            if kind not in DECIDED or (kind == Kind.WAIT_MANY and mode):
                return False
    return True


def _patterns(plan: Plan, finding: Finding, model: ExecutionModel) -> list[Pattern]:
    if finding.subkind == "orphan":
        return _orphan(plan, finding, model)
    if finding.subkind == "cycle":
        return _cycle(plan, finding, model)
    if finding.code[2] == "2":
        return _mismatch(plan, finding, model)
    return []


# --- cycles ------------------------------------------------------------------------------------


def _cycle(plan: Plan, finding: Finding, model: ExecutionModel) -> list[Pattern]:
    steps = {rank: list(Steps(plan).of(rank)) for rank in finding.ranks}
    keys: set[Key] = set()
    ends: dict[int, int] = {}
    for edge in finding.cycle:
        at, partner = edge.at, edge.waits_for
        if edge.why not in BLOCKING or partner is None or at.rank in ends:
            return []
        own = _blocked_keys(steps[at.rank], at.action, model)
        theirs = {s.key for s in steps[partner.rank] if s.action == partner.action and s.key}
        theirs |= _waited_keys(steps[partner.rank], partner.action)
        shared = own & theirs
        if not shared:
            return []
        keys |= shared
        ends[at.rank] = at.action
    return [_prefix(rank, steps[rank], frozenset(keys), end) for rank, end in ends.items()]


def _prefix(rank: int, steps: list[Step], keys: frozenset[Key], end: int) -> Pattern:
    seen = [element for element, group in _relevant(steps, keys) if group[0].action <= end]
    return Pattern(rank, keys, tuple(seen))


def _blocked_keys(steps: list[Step], action: int, model: ExecutionModel) -> set[Key]:
    """Return where an action meets the ranks it waits for; empty if it blocks nobody."""
    own = [step for step in steps if step.action == action]
    if model.family is not Family.DEVICE and own[0].op & ASYNC:
        return set()
    found = {step.key for step in own if step.key is not None} | _waited_keys(steps, action)
    early = {kind for kind, degree in model.degree.items() if degree}
    kinds = {step.kind for step in steps if step.key in found}
    return set() if kinds & early else found


def _waited_keys(steps: list[Step], action: int) -> set[Key]:
    """Return where the actions meet others whose handle an action waits for."""
    started: dict[int, set[Key]] = {}
    for group in _launches(steps):
        first = group[0]
        if first.kind in WAITS:
            keys = {key for handle in first.handles for key in started.pop(handle, set())}
            if first.action == action:
                return keys
            continue
        for handle in first.handles:
            started[handle] = {step.key for step in group if step.key is not None}
    return set()


# --- orphans and mismatches --------------------------------------------------------------------


def _orphan(plan: Plan, finding: Finding, model: ExecutionModel) -> list[Pattern]:
    place = finding.primary
    if place is None:
        return []
    own = list(Steps(plan).of(place.rank))
    for key in sorted(_blocked_keys(own, place.action, model), key=repr):
        mine = _prefix(place.rank, own, frozenset([key]), place.action)
        members = key[2] if key[0] == "round" else key[2:]
        for rank in members:
            if rank in {None, place.rank}:
                continue
            seen = _relevant(Steps(plan).of(rank), frozenset([key]))
            theirs = tuple(element for element, _ in seen)
            if _count(theirs) < _count(mine.elements):
                return [mine, Pattern(rank, frozenset([key]), theirs, is_whole=True)]
    return []


def _mismatch(plan: Plan, finding: Finding, model: ExecutionModel) -> list[Pattern]:
    place = finding.primary
    if place is None:
        return []
    for mine in _at(plan, place):
        for other in finding.related_actions:
            for theirs in _at(plan, other):
                patterns = _disagree(plan, (place, mine), (other, theirs), model)
                if patterns:
                    return patterns
    return []


def _at(plan: Plan, place: Location) -> list[Step]:
    return [s for s in Steps(plan).of(place.rank) if s.action == place.action and s.key]


def _disagree(
    plan: Plan, one: tuple[Location, Step], two: tuple[Location, Step], model: ExecutionModel
) -> list[Pattern]:
    """Return the patterns of two members of one match, if they disagree."""
    key = one[1].key
    if key is None or two[1].key != key or one[0].rank == two[0].rank:
        return []
    keys = frozenset([key])
    members = key[2] if key[0] == "round" else key[2:]
    sides, patterns = [], []
    for place, step in (one, two):
        before = []
        for element, group in _relevant(Steps(plan).of(place.rank), keys):
            before.append(element)
            if group[0].action == place.action:
                patterns.append(
                    Pattern(place.rank, keys, tuple(before), last=_compared(group, keys))
                )
                break
        if step.signature is None:
            return []
        position = members.index(place.rank)
        sides.append(side_of(step, place.rank, position))
    sides.sort(key=lambda side: side.place)  # the sender of a pair comes first
    if len(patterns) < 2 or disagreement(sides, model, pair=key[0] == "pair") is None:
        return []
    return patterns


# --- steps of a pattern ------------------------------------------------------------------------


def _relevant(steps: Iterable[Step], keys: frozenset[Key]) -> Iterator[tuple[Element, list[Step]]]:
    """Yield what a rank does on some communicators and pairs, and the steps it does it with.

    A batch is one element: its members arrive together. A wait names the elements it waits for.
    Places among other actions and sizes do not count.
    """
    flying: dict[int, int] = {}
    number = 0
    for group in _launches(steps):
        first = group[0]
        if first.kind in WAITS:
            started = {flying.pop(handle) for handle in first.handles if handle in flying}
            if not started:
                continue
            yield ("wait", *sorted(started)), group
        else:
            mine = [_element(step) for step in group if step.key in keys]
            if not mine:
                for handle in first.handles:
                    flying.pop(handle, None)
                continue
            flying.update(dict.fromkeys(first.handles, number))
            is_batch = first.kind == Kind.BATCH
            yield (("batch", first.op, *mine) if is_batch else mine[0]), group
        number += 1


def _launches(steps: Iterable[Step]) -> Iterator[list[Step]]:
    """Yield the steps one by one, each batch with its members."""
    batch: list[Step] = []
    for step in steps:
        if batch and not step.op & MEMBER:
            yield batch
            batch = []
        if batch or step.kind == Kind.BATCH:
            batch.append(step)
        elif step.key is not None or step.kind in WAITS:
            yield [step]
    if batch:
        yield batch


def _element(step: Step) -> Element:
    return (step.op, step.key, step.detail)


def _compared(steps: list[Step], keys: frozenset[Key]) -> tuple[Any, ...]:
    return tuple((step.signature, step.labels) for step in steps if step.key in keys)


def _count(elements: Iterable[Element]) -> int:
    """Return the number of elements that communicate."""
    return sum(1 for element in elements if element[0] != "wait")
