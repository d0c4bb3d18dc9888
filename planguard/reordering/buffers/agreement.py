"""Coordinated buffers: what the ranks agree on, and where that decides the plan.

A negotiated buffer has a communicator that nobody else uses (ADR 0036): Horovod makes its own, in
its background thread. So a launch never meets another call of the group of its buffer.

Above 400 lines: what ranks agree on, and each reason why that is not known, are asked together.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planguard.execution.findings.reason import UndecidedError, too_many
from planguard.plan.nodes import op_name
from planguard.plan.vocabulary import MESSAGES, OPEN_BLOCKS, QUEUED, takes_round
from planguard.reordering.branches.assignments import leaves
from planguard.reordering.buffers.flushes import dealt, launch_order
from planguard.reordering.buffers.merge import EveryRankError
from planguard.reordering.buffers.policies import Agreed, own_of
from planguard.reordering.buffers.rank import PLAIN
from planguard.reordering.buffers.sent import awaited, orders_sent
from planguard.semantics.model import Family

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planguard.options import Deadline
    from planguard.reordering.buffers.members import Buffer
    from planguard.reordering.buffers.rank import FusedRank, Held
    from planguard.reordering.buffers.ranks import Ranks
    from planguard.semantics.model import ExecutionModel


WAYS = 256
"""Most agreements that are decided when no budget is given, like assignments of branches."""


@dataclass(frozen=True)
class Agreements:
    """All that ranks may agree on.

    Attributes:
        ways: By coordinated buffer, what they agree on; one of these in every execution.
        is_stated: Whether the plan states that each of them comes up; else each one may be all.
        several: The buffers in which they differ.
    """

    ways: tuple[dict[str, Agreed], ...]
    is_stated: bool
    several: frozenset[str]


def agreements(
    buffers: Sequence[Buffer],
    ranks: Ranks,
    members: dict[str, list[int]],
    model: ExecutionModel,
    deadline: Deadline,
) -> Agreements:
    """Return what the ranks may agree on, by coordinated buffer.

    With ``rank0-broadcast`` the layout is one of those of the first member. With ``negotiated``
    only what all members have is ever launched. Where nothing else communicates until the buffers
    of a group are settled, all agreed orders are alike, and the declared one stands for them. Else
    a negotiated member is launched in the background when all ranks have it, whatever else they do:
    on a host model whose groups do not hold each other up, that is one group per member.

    Raises:
        UndecidedError: The agreed order plays a part and is not known, or there are too many.
        EveryRankError: Members are matched by name, and ranks stand for others of their program.
    """
    members = {group: _one_of_each(ranks, mine) for group, mine in members.items()}
    options: dict[str, list[Agreed]] = {}
    is_stated = True
    for buffer in buffers:
        if buffer.coordination == "rank0-broadcast":
            sent, stated = _broadcast(buffer, ranks, members[buffer.group], deadline)
            options[buffer.id] = sent
            is_stated &= stated
    may_hold_up = _may_hold_up(buffers, ranks, model)
    for group in dict.fromkeys(buffer.group for buffer in buffers):
        mine = [b for b in buffers if b.group == group and b.coordination == "negotiated"]
        own = {member for buffer in mine for member in buffer.members}
        clusters = _clusters(mine, ranks, members[group])
        has_messages = _has_messages(group, ranks, members[group])
        # Nor does a launch stand behind messages of the group in the queue of its communicator.
        is_queued = has_messages and model.family is Family.DEVICE
        for number, cluster in enumerate(clusters):
            name = f"{group}#{number}"
            refused = _why_not_at_once(cluster, ranks, members, own)
            if refused is None and has_messages and model.counts_messages:
                # On a communicator of their own they carry no number of the group's messages.
                refused = UndecidedError(f"messages of the group of fused buffer {cluster[0].id}")
            if refused is not None:
                if not ranks.is_apart:
                    raise EveryRankError
                if not _are_apart(model):
                    raise refused
            by_name = refused is not None
            background = None
            if not by_name and (may_hold_up or is_queued):
                if not ranks.is_apart:
                    raise EveryRankError
                background = own_of(group)
            one = _negotiated(cluster, ranks, members[group], Agreed((), by_name, name, background))
            options |= {buffer: [agreed] for buffer, agreed in one.items()}
    if math.prod(map(len, options.values())) > WAYS and not deadline.is_bounded:
        raise UndecidedError(too_many(f"more than {WAYS:,} orders of flushes that rank 0 may send"))
    chosen = itertools.product(*options.values())
    ways = (dict(zip(options, way, strict=True)) for way in chosen)
    several = frozenset(name for name, found in options.items() if len(found) > 1)
    return Agreements(tuple(ways), is_stated, several)


def _one_of_each(ranks: Ranks, members: Sequence[int]) -> list[int]:
    """Return the first member that runs each program: the others are the same but for names."""
    return list({ranks.first[rank]: rank for rank in reversed(members)}.values())[::-1]


def _broadcast(
    buffer: Buffer, ranks: Ranks, members: Sequence[int], deadline: Deadline
) -> tuple[list[Agreed], bool]:
    """Return the orders that rank 0 may send, one for all where they come to the same."""
    held = [_of(ranks[rank], buffer) for rank in members]
    leader = held[0]
    if leader is None:
        return [Agreed(())], True
    buckets = _layout(leader)
    if buffer.membership == "fixed" and buffer.launch == "ordered":
        return [Agreed(buckets)], True
    if _is_settled(buffer, held, ranks, members):
        return [Agreed(buckets, cluster=buffer.id)], True
    sent, is_stated = orders_sent(ranks[members[0]], leader, deadline)
    return [Agreed(layout) for layout in sent], is_stated


def _is_settled(
    buffer: Buffer, held: Sequence[Held | None], ranks: Ranks, members: Sequence[int]
) -> bool:
    """Whether all orders that rank 0 may send come to the same.

    All ranks have the same members, nothing else communicates until the last is ready, and what
    rank 0 might keep in a filled buffer at the end, nobody waits for.
    """
    names = {_names(found) if found is not None else frozenset() for found in held}
    if len(names) > 1:
        return False
    if buffer.membership == "fill":
        waited = [
            {one.ready.name(at) for at in awaited(ranks[rank], one)}
            for rank, one in zip(members, held, strict=True)
            if one is not None
        ]
        if not all(names <= waited[0] for names in waited):
            return False
    try:
        _refuse_noise([buffer], ranks, members, until_settled=False)
    except UndecidedError:
        return False
    return True


def _why_not_at_once(
    buffers: Sequence[Buffer], ranks: Ranks, members: dict[str, list[int]], own: set[str]
) -> UndecidedError | None:
    """Return why one launch of all that is ready does not stand for all agreed orders, or None."""
    mine = members[buffers[0].group]
    try:
        _refuse_noise(buffers, ranks, mine, until_settled=True)
        _refuse_other_places(buffers, ranks, mine, own)
    except UndecidedError as undecided:
        return undecided
    return None


def _are_apart(model: ExecutionModel) -> bool:
    """Whether the groups of a model never hold each other up, so that no order of theirs counts."""
    return model.family is Family.HOST and not model.pre_barrier and not model.one_lock


def _negotiated(
    buffers: Sequence[Buffer], ranks: Ranks, members: Sequence[int], how: Agreed
) -> dict[str, Agreed]:
    found: dict[str, Agreed] = {}
    for buffer in buffers:
        held = [_of(ranks[rank], buffer) for rank in members]
        found[buffer.id] = replace(how, buckets=_kept(held))
    return found


def _may_hold_up(buffers: Sequence[Buffer], ranks: Ranks, model: ExecutionModel) -> bool:
    """Whether hosts that wait for members may be held up by hosts that stand somewhere else.

    Where calls go to a queue of the device, a wait is a stream edge; but a host that waits for a
    member stands there until all ranks have submitted it, and these may stand in a call that holds
    them up, or wait for a member of another group.
    """
    groups = {one.group for one in buffers if one.coordination == "negotiated"}
    if model.family is not Family.DEVICE or not groups:
        return False
    calls = [call for rank in ranks.alone.values() for call in leaves(rank.items)]
    ops = {op for call in calls for op in _ops(call)}
    if ranks.is_one_program and not ops & _TOLD_APART:
        # All ranks come to the same places in one order, so none waits for one that stands behind.
        return False
    return model.lazy_init or len(groups) > 1 or not ops <= QUEUED


def _has_messages(group: str, ranks: Ranks, members: Sequence[int]) -> bool:
    """Whether messages are sent or received on a group."""
    return any(
        one["op"] in MESSAGES
        and one.get("group", call.get("group", "world")) == ranks.local(rank, group)
        for rank in members
        for call in leaves(ranks[rank].items)
        for one in _parts(call)
    )


_TOLD_APART = MESSAGES | {"batch", "threads"}
"""What ranks that run one program do with others than each other."""


def _ops(call: dict[str, Any]) -> Iterable[str]:
    return map(op_name, call["nodes"]) if call["op"] == PLAIN else (call["op"],)


def _kept(held: Sequence[Held | None]) -> tuple[frozenset[str], ...]:
    """Return the negotiated flushes of a buffer: of what all ranks have, in declared order."""
    names = [_names(one) if one is not None else frozenset[str]() for one in held]
    shared = frozenset.intersection(*names)
    leader = next(one for one in held if one is not None)
    return tuple(bucket & shared for bucket in _layout(leader) if bucket & shared)


def _layout(leader: Held) -> tuple[frozenset[str], ...]:
    names = leader.ready.names
    layout = launch_order(leader.ready, dealt(leader.buffer, leader.ready, leader.cap))
    return tuple(frozenset(names[at] for at in bucket) for bucket in layout)


def _clusters(
    buffers: Sequence[Buffer], ranks: Ranks, members: Sequence[int]
) -> list[list[Buffer]]:
    """Return buffers of one group that are under way at the same time on some rank, together.

    If the order of two such sets differs between ranks, they are one set as well.
    """
    spans = {
        b.id: [_span(ranks[r], h) for r in members if (h := _of(ranks[r], b))] for b in buffers
    }
    order: list[list[Buffer]] = []
    for buffer in sorted((b for b in buffers if spans[b.id]), key=lambda b: spans[b.id][0]):
        if order and not all(_is_before(other, buffer, ranks, members) for other in order[-1]):
            order[-1].append(buffer)
        else:
            order.append([buffer])
    return order


def _is_before(one: Buffer, other: Buffer, ranks: Ranks, members: Sequence[int]) -> bool:
    for rank in members:
        first, second = _of(ranks[rank], one), _of(ranks[rank], other)
        if first and second and _span(ranks[rank], first)[1] > _span(ranks[rank], second)[0]:
            return False
    return True


def _span(rank: FusedRank, held: Held) -> tuple[int, int]:
    """Return the part of the first member and the one behind which all of them are waited for."""
    open_works = {leaf.fields.get("work") for leaf in held.ready.leaves}
    for number, item in enumerate(rank.items):
        if item["op"] == "wait":
            work = item["work"]
            open_works -= set(work if isinstance(work, list) else [work])
        if not open_works:
            return min(held.ready.parts), number
    return min(held.ready.parts), len(rank.items)


def _of(rank: FusedRank, buffer: Buffer) -> Held | None:
    return next((held for held in rank.held if held.buffer.id == buffer.id), None)


def _names(held: Held) -> frozenset[str]:
    return frozenset(held.ready.names)


def _refuse_noise(
    buffers: Sequence[Buffer],
    ranks: Ranks,
    members: Sequence[int],
    *,
    until_settled: bool,
) -> None:
    """Refuse what a rank does while an agreed flush may come sooner or later.

    An order that rank 0 sends is followed as soon as members are ready, so it is settled with the
    last of them; a negotiated one with the wait for the last of them.
    """
    for rank in members:
        held = [found for buffer in buffers if (found := _of(ranks[rank], buffer))]
        if held:
            _refuse(ranks[rank], held, until_settled=until_settled)


def _refuse_other_places(
    buffers: Sequence[Buffer],
    ranks: Ranks,
    members: Sequence[int],
    own: set[str],
) -> None:
    """Refuse a group that ranks use for other things before the buffers, and not equally often.

    What is launched at once is written as calls of the group, which are matched by position: behind
    as many collectives on every rank they meet each other, as on a communicator of their own.
    """
    group = buffers[0].group
    hidden = {
        member
        for other in ranks.buffers
        if other.group == group and other.coordination != "negotiated"
        for member in other.members
    }
    counts = set()
    for rank in members:
        held = [found for buffer in buffers if (found := _of(ranks[rank], buffer))]
        if held:
            first = min(part for one in held for part in one.ready.parts)
            group = ranks.local(rank, buffers[0].group)
            rounds = _rounds(ranks[rank].items[:first], group, own)
            counts.add(len(rounds))
            if any(not takes_round(call["op"]) or call.get("id") in hidden for call in rounds):
                counts |= {-1, -2}  # how many rounds that takes is not known here
    if len(counts) > 1:
        name = buffers[0].id
        raise UndecidedError(f"the group of fused buffer {name} is used in between on some ranks")


def _refuse(rank: FusedRank, held: Sequence[Held], *, until_settled: bool) -> None:
    own = {element for one in held for element in one.elements}
    parts = {part for one in held for part in one.ready.parts}
    leaves = [leaf for one in held for leaf in one.ready.leaves]
    name = held[0].buffer.id
    if not rank.threaded.isdisjoint(parts):
        raise UndecidedError(_why("threads", name))
    if not all(leaf.fields.get("async") for leaf in leaves):
        raise UndecidedError(f"fused buffer {name} has members that are waited for at once")
    for element, leaf in enumerate(rank.leaves):
        if element not in own and rank.parts[element] in parts and leaf.fields["op"] != "compute":
            raise UndecidedError(_why(leaf.fields["op"], name))
    works = {leaf.fields["work"] for leaf in leaves if "work" in leaf.fields}
    left = set(works)
    for number in range(min(parts), len(rank.items)):
        item = rank.items[number]
        if number > max(parts) and not (left and until_settled):
            return
        if number in parts or item["op"] == "compute":
            continue
        work = item.get("work", [])
        named = set(work if isinstance(work, list) else [work]) & works
        if item["op"] != "wait" or not named:
            raise UndecidedError(_why(item["op"], name))
        if number < max(parts):
            raise UndecidedError(f"fused buffer {name} is waited for before all of it is ready")
        left -= named


def _why(op: str, name: str) -> str:
    return (
        f"`{op}` before fused buffer {name} is settled: its flushes may come before or after it, "
        "which plays a part where communicators hold each other up"
    )


def _rounds(items: Iterable[dict[str, Any]], group: str, own: set[str]) -> list[dict[str, Any]]:
    """Return the rounds of a group that are not given members, those inside of blocks among them.

    What takes several, or takes them in open order, stands for itself: a batch, threads, a choice.
    """
    found: list[dict[str, Any]] = []
    for item in items:
        inside = item["op"] in OPEN_BLOCKS
        rounds = [
            call
            for call in leaves([item])
            if any(_is_round(one, group, call) for one in _parts(call))
            and call.get("id") not in own
        ]
        found += [item] if rounds and inside and item["op"] != "unordered" else rounds
    return found


def _parts(call: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """Return what a batch issues, or the call itself."""
    return call["ops"] if call["op"] == "batch" else (call,)


def _is_round(one: dict[str, Any], group: str, outer: dict[str, Any]) -> bool:
    return takes_round(one["op"]) and one.get("group", outer.get("group", "world")) == group
