"""Negotiated members beside other calls, where the place of a launch plays a part.

A member is launched in the background once all ranks have submitted it, in an order that all share,
on a communicator that nobody else uses (ADR 0036). So, as plans without these buffers:

* **One queue per device or communicator, and no call that holds a host up** (``nccl`` and its
  kind). A host stands still only where it waits for a member that another rank has not submitted.
  Where no two of them can do so for each other, the executions are these: one order of all members,
  and on each rank every launch anywhere between what comes before the member is submitted and the
  wait for it. Any such choice is possible: of the launches that still wait for a rank, the first in
  the order waits for none that itself waits. Each order is a plan in which the calls from a member
  to its wait are a block of open order, and the members in it a chain.
* **A barrier in front of a collective** (``gloo-detail``). A launch needs nobody but the background
  threads, and these go through one order; so a wait for a member ends when all ranks have submitted
  it, and nothing else is held up. That is what a message to each other member of the group says,
  which has no barrier in front. Only SAFE is taken from it: a finding would speak of messages.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from planguard.execution.findings.ledger import apply_ledger
from planguard.execution.findings.reason import UndecidedError
from planguard.plan.fixed import AT, written
from planguard.reordering.blocks import Block, below_masks, bits
from planguard.reordering.buffers.findings import moved
from planguard.semantics.model import Family

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from planguard.plan.fixed import FixedPlan
    from planguard.plan.plan import Plan
    from planguard.reordering.buffers.members import Buffer
    from planguard.reordering.buffers.ranks import Ranks
    from planguard.semantics.model import ExecutionModel
    from planguard.verdict import Verdict

ORDERS = 24
"""Most orders of members that are decided."""
_MOST = 8
"""Members of a group that tell each other by messages: their number grows with the square."""
_QUEUED = frozenset(
    {"all_reduce", "reduce_scatter", "reduce_scatter_tensor", "all_gather", "all_gather_into_tensor"}
    | {"all_to_all", "all_to_all_single", "broadcast", "reduce", "send", "recv", "isend", "irecv"}
    | {"batch", "compute", "wait"}
)  # fmt: skip
"""What never holds a host up where calls go to a queue of the device."""

Member = tuple[str, str]
"""Group that negotiates, and the name of a member."""


@dataclass
class _Element:
    """One action of a rank that is issued, or a member that is submitted.

    Attributes:
        part: Its part of the program.
        fields: The action.
        at: Its number in the plan.
        below: Elements that always come before it.
        member: What it submits; None for any other action.
        waits: Members that it waits for.
    """

    part: int
    fields: dict[str, Any]
    at: int
    below: set[int]
    member: Member | None = None
    waits: list[int] = field(default_factory=list)


@dataclass
class _Rank:
    """A rank program as elements; parts that are not taken apart are kept as they are."""

    elements: list[_Element]
    kept: dict[int, dict[str, Any]]
    spans: Sequence[range]

    @property
    def members(self) -> dict[Member, int]:
        return {one.member: at for at, one in enumerate(self.elements) if one.member is not None}


def beside(
    ranks: Ranks,
    plan: Plan,
    rules: ExecutionModel,
    decide: Callable[[Plan], Verdict],
    refused: UndecidedError,
) -> Verdict:
    """Decide a plan whose negotiated members are launched in the background.

    Args:
        ranks: Its ranks, each looked at alone.
        plan: The plan.
        rules: The execution model.
        decide: Decides a plan without the negotiated buffers; others may be left.
        refused: Why the plan is not decided without regard to the background.

    Raises:
        UndecidedError: ``refused``, where this does not decide it either.
    """
    is_queued = rules.family is Family.DEVICE and not rules.lazy_init
    is_held = rules.family is Family.HOST and rules.pre_barrier and not rules.one_lock
    if not (is_queued or is_held):
        raise refused
    negotiated = [one for one in ranks.buffers if one.coordination == "negotiated"]
    programs = [_taken(ranks, rank, negotiated, refused) for rank in range(len(ranks))]
    groups = _groups(ranks, programs, refused)
    if is_held:
        _refuse_other_sizes(programs, refused)
        fixed = [_written(ranks, [_said(one, groups, refused) for one in programs])]
    else:
        if not _holds_nobody_up(programs):
            raise refused
        fixed = [
            _written(ranks, [_launched(one, order, groups, refused) for one in programs])
            for order in _orders(programs, refused)
        ]
    is_exact = is_queued and len(groups) == 1
    found = [moved(plan, one, decide(one.plan)) for one in fixed]
    outcomes = {verdict.outcome for verdict in found}
    # Which orders come up is not stated: all have to say the same.
    if len(outcomes) > 1 or found[0].unknown or not (is_exact or found[0].safe):
        raise refused
    verdict = found[0]
    proved = (*verdict.proved, "fusion-order") if verdict.safe else verdict.proved
    assumptions = tuple(dict.fromkeys((*verdict.assumptions, "coordinated-fusion")))
    schedules = sum(one.evidence.schedules for one in found)
    evidence = replace(verdict.evidence, schedules=schedules)
    return apply_ledger(
        replace(verdict, proved=proved, assumptions=assumptions, evidence=evidence)
    )


# --- taking apart ------------------------------------------------------------------------------


def _taken(
    ranks: Ranks, rank: int, negotiated: Sequence[Buffer], refused: UndecidedError
) -> _Rank:
    """Return a rank as elements."""
    fused = ranks[rank]
    homes: dict[int, Member] = {}
    for held in fused.held:
        if held.buffer.coordination == "negotiated":
            for at, leaf in enumerate(held.ready.leaves):
                homes[id(leaf.fields)] = held.buffer.group, held.ready.name(at)
    found = _Rank([], {}, fused.spans)
    ids = {name for buffer in negotiated for name in buffer.members}
    for number, (part, item) in enumerate(zip(fused.order.parts, fused.items, strict=True)):
        if isinstance(part, Block) and item["op"] == "unordered":
            base, masks = len(found.elements), below_masks(part)
            for leaf, mask in zip(part.leaves, masks, strict=True):
                below = {base + one for one in bits(mask)}
                found.elements.append(_Element(number, leaf.fields, leaf.action, below))
        elif isinstance(part, Block) or not hasattr(part, "fields"):
            found.kept[number] = item
        else:
            found.elements.append(_Element(number, part.fields, part.action, set()))
    works: dict[str, int] = {}
    for at, one in enumerate(found.elements):
        one.member = homes.get(id(one.fields))
        if one.member is not None:
            _refuse_member(one, refused)
            if one.fields.get("work") is not None:
                works[one.fields["work"]] = at
    if len(found.members) != sum(one.member is not None for one in found.elements):
        raise refused  # a name that comes twice
    if len(found.members) != sum(len(h.elements) for h in fused.held
                                 if h.buffer.coordination == "negotiated"):  # fmt: skip
        raise refused
    for one in found.elements:
        named = one.fields.get("work", []) if one.member is None else []
        mine = [works[name] for name in ([named] if isinstance(named, str) else named)
                if name in works]  # fmt: skip
        if mine and (one.fields["op"] != "wait" or one.fields.get("mode", "all") != "all"):
            raise refused
        one.waits = mine
        if ids & set(one.fields.get("deps", ())):
            raise refused
    return found


def _refuse_member(one: _Element, refused: UndecidedError) -> None:
    if not one.fields.get("async"):
        raise refused


def _groups(
    ranks: Ranks, programs: Sequence[_Rank], refused: UndecidedError
) -> dict[str, list[int]]:
    """Return the groups that negotiate; every rank of one has submitted all of its members."""
    groups = dict.fromkeys(group for one in programs for group, _ in one.members)
    found = {group: list(ranks.members[group]) for group in groups}
    for group, mine in found.items():
        names = {frozenset(m for m in programs[rank].members if m[0] == group) for rank in mine}
        if len(names) > 1:
            raise refused
    return found


def _refuse_other_sizes(programs: Sequence[_Rank], refused: UndecidedError) -> None:
    known: dict[Member, tuple[Any, ...]] = {}
    for program in programs:
        for member, at in program.members.items():
            fields = program.elements[at].fields
            said = tuple(fields.get(name) for name in ("op", "dtype", "reduce_op", "bytes", "count"))
            if known.setdefault(member, said) != said:
                raise refused


def _holds_nobody_up(programs: Sequence[_Rank]) -> bool:
    """Whether no call holds a host up, but for waits for members that cannot do so in a circle."""
    for program in programs:
        if program.kept or any(one.fields["op"] not in _QUEUED for one in program.elements):
            return False
    return not _has_circle(_before(programs, always=False))


def _before(programs: Sequence[_Rank], *, always: bool) -> dict[Member, set[Member]]:
    """Return members that are waited for before others are submitted: always, or in some order."""
    found: dict[Member, set[Member]] = {}
    for program in programs:
        for member, at in program.members.items():
            found.setdefault(member, set())
        for at, one in enumerate(program.elements):
            for other in one.waits:
                first = program.elements[other].member
                assert first is not None  # noqa: S101  only members are waited for
                for member, place in program.members.items():
                    later = program.elements[place]
                    if later.part != one.part:
                        holds = later.part > one.part
                    else:
                        holds = at in later.below if always else place not in one.below
                    if holds and member != first:
                        found[member].add(first)
    return found


def _has_circle(before: dict[Member, set[Member]]) -> bool:
    left = dict(before)
    while True:
        free = [one for one, first in left.items() if not first & left.keys()]
        if not free:
            return bool(left)
        for one in free:
            del left[one]


def _orders(programs: Sequence[_Rank], refused: UndecidedError) -> list[tuple[Member, ...]]:
    """Return the orders in which members may be launched."""
    before = _before(programs, always=True)
    found = list(itertools.islice(_extensions(before, ()), ORDERS + 1))
    if len(found) > ORDERS:
        raise refused
    return found


def _extensions(
    before: dict[Member, set[Member]], done: tuple[Member, ...]
) -> Iterator[tuple[Member, ...]]:
    if len(done) == len(before):
        yield done
    for one, first in before.items():
        if one not in done and first <= set(done):
            yield from _extensions(before, (*done, one))


# --- writing -----------------------------------------------------------------------------------


def _written(ranks: Ranks, programs: Sequence[tuple[list[Any], dict[str, list[int]]]]) -> FixedPlan:
    groups = {**ranks.head.get("groups", {})}
    for _, more in programs:
        groups |= {name: {"ranks": mine} for name, mine in more.items()}
    left = [spec for spec in ranks.fusion if spec.get("coordination", "none") != "negotiated"]
    head = {**ranks.head, "groups": groups, **({"fusion": left} if left else {})}
    return written(head, {str(rank): actions for rank, (actions, _) in enumerate(programs)})


def _launched(
    program: _Rank,
    order: Sequence[Member],
    groups: dict[str, list[int]],
    refused: UndecidedError,
) -> tuple[list[Any], dict[str, list[int]]]:
    """Return a program in which members may be launched anywhere up to the wait for them."""
    parts = max((one.part for one in program.elements), default=-1) + 1
    ends = {at: parts - 1 for at in program.members.values()}
    for one in program.elements:
        for at in one.waits:
            ends[at] = min(ends[at], one.part)
    windows: list[list[int]] = []
    for at, last in sorted(ends.items()):
        first = program.elements[at].part
        if windows and first <= windows[-1][1]:
            windows[-1][1] = max(windows[-1][1], last)
        else:
            windows.append([first, last])
    actions: list[Any] = []
    part = 0
    while part < parts:
        window = next((one for one in windows if one[0] == part), None)
        last = part if window is None else window[1]
        inside = [at for at, one in enumerate(program.elements) if part <= one.part <= last]
        if window is not None:
            actions.append({"op": "unordered", "body": _window(program, inside, order, refused)})
        elif len(inside) == 1:
            actions.append(_plain(program.elements[inside[0]]))
        elif inside:
            actions.append({"op": "unordered", "body": _window(program, inside, order, refused)})
        part = last + 1
    return actions, {_own(group): mine for group, mine in groups.items()}


def _own(group: str) -> str:
    return f"~negotiated~{group}"


def _plain(one: _Element) -> dict[str, Any]:
    kept = {key: value for key, value in one.fields.items() if key not in {"x-after", "after"}}
    return {**kept, AT: one.at}


def _window(
    program: _Rank, inside: Sequence[int], order: Sequence[Member], refused: UndecidedError
) -> list[dict[str, Any]]:
    """Return the body of a block: other calls as the program has them, members in one order."""
    elements = program.elements
    names = _names(program, inside, refused)
    after: dict[int, set[int]] = {}
    front: set[int] = set()
    for _, each in itertools.groupby(inside, lambda at: elements[at].part):
        mine = list(each)
        others = [at for at in mine if elements[at].member is None]
        for at in mine:
            below = elements[at].below & set(others)
            over = {far for one in below for far in elements[one].below}
            after[at] = below - over if below else set(front)
        if others:
            front = set(others) - {low for at in others for low in elements[at].below}
    for at in inside:
        after[at] |= set(elements[at].waits) & set(inside)
    for group in dict.fromkeys(group for group, _ in order):
        chain = [program.members[one] for one in order if one[0] == group and one in program.members]
        chain = [at for at in chain if at in after]
        for first, then in itertools.pairwise(chain):
            after[then].add(first)
    body = []
    for at in inside:
        action = _plain(elements[at])
        member = elements[at].member
        if member is not None:
            action |= {"group": _own(member[0]), "label": member[1]}
        action["id"] = names[at]
        if after[at]:
            action["after"] = [names[one] for one in sorted(after[at])]
        body.append(action)
    return body


def _names(
    program: _Rank, inside: Sequence[int], refused: UndecidedError
) -> dict[int, str]:
    """Return a name for every element of a block; handles that come twice in it are not told apart."""
    elements = program.elements
    started = [one.fields["work"] for one in (elements[at] for at in inside)
               if one.fields["op"] != "wait" and isinstance(one.fields.get("work"), str)]  # fmt: skip
    names = {at: str(elements[at].fields.get("id", f"~{at}")) for at in inside}
    if len(set(started)) < len(started) or len(set(names.values())) < len(names):
        raise refused
    return names


def _said(
    program: _Rank, groups: dict[str, list[int]], refused: UndecidedError
) -> tuple[list[Any], dict[str, list[int]]]:
    """Return a program that tells the other ranks of each member by messages."""
    raise refused
