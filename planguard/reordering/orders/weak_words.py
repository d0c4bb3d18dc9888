"""The instructions of every lane of a run, each with the place in the program it comes from.

A rank has one lane whose order is open: its program, or on a device its queue. A device rank may
have a second one, its *host*, which a creation of a communicator holds up, a barrier, and a host
synchronization; under ``nccl-lazy`` the first use of a communicator is its creation. The host
issues in the order that the queue has, so both lanes come from one order of the rank's program.
What the gates between them say, that the queue gets nothing the host did not come to, is left to
whoever reads these words: a gate stands where the order puts it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.plan.actions import ASYNC, KIND_MASK, MEMBER, Kind
from planguard.plan.vocabulary import MESSAGES, takes_round
from planguard.reordering.blocks import MARKERS, Block
from planguard.semantics.model import Family

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from planguard.execution.running.executor import Execution
    from planguard.reordering.blocks import RankOrder

INIT, GATE = 8, 9
"""Reasons of instructions (``enum Why`` of the kernels)."""
HOST = 2
"""Kind of the lane of a host (``enum LaneKind`` of the kernels)."""


class InapplicableError(Exception):
    """The lanes of this model depend on the order; the message says how."""


@dataclass(frozen=True)
class Place:
    """Where a word comes from: rank, part of its program, leaf of the block (-1 outside blocks)."""

    rank: int
    part: int
    leaf: int = -1


@dataclass(frozen=True)
class Word:
    """One instruction of a lane."""

    match: int
    flags: int
    place: Place


@dataclass(frozen=True)
class HostWord:
    """Where the host of a rank stands: at a creation in front of a call, or behind a call.

    Attributes:
        word: The instruction, at the place where the order that was run has it.
        first: It stands in front of what its action launches, as a creation does.
        makers: The leaves any of which may be the first to use the communicator, and so makes it;
            empty outside blocks and where the action is always this one.
    """

    word: Word
    first: bool
    makers: tuple[int, ...] = ()


@dataclass
class RankLanes:
    """The lanes of one rank.

    Attributes:
        rank: The rank.
        main: Number of the lane whose order is open, and its words.
        host: Number of the lane of the host, -1 if nothing holds it up.
        stops: The words of the host.
        others: Lanes that one action alone makes.
    """

    rank: int
    main: int
    words: list[Word]
    host: int = -1
    stops: tuple[HostWord, ...] = ()
    others: tuple[tuple[int, list[Word]], ...] = ()


def words_of(
    run: Execution, orders: Sequence[RankOrder], firsts: Sequence[Any]
) -> list[list[Word]]:
    """Return the words of every lane with their places, where no host is held up by itself.

    Raises:
        InapplicableError: The words of some lane would differ in another order.
    """
    lanes: dict[int, list[Word]] = {}
    for mine in lanes_of(run, orders, firsts):
        if mine.host >= 0:
            raise InapplicableError("the host of a rank is held up apart from its stream")
        lanes[mine.main] = mine.words
        lanes.update(mine.others)
    return [lanes[lane] for lane in sorted(lanes)]


def lanes_of(run: Execution, orders: Sequence[RankOrder], firsts: Sequence[Any]) -> list[RankLanes]:
    """Return the lanes of every rank.

    Args:
        run: A run with ``origins=True`` of the plan in one order.
        orders: Its rank programs taken apart.
        firsts: The order that was run: per rank and block a linear extension.

    Raises:
        InapplicableError: The words of some lane would differ in another order.
    """
    found: list[RankLanes] = []
    places: list[Place] = []
    for lane, rank in enumerate(run.lanes.lane_rank):
        if not found or found[-1].rank != rank:
            places = _places(run, orders[rank], firsts[rank])
            found.append(RankLanes(rank, lane, _read(run, lane, places)))
        elif run.lanes.lane_kind[lane] == HOST and run.model.family is Family.DEVICE:
            found[-1].host = lane
            found[-1].stops = _stops(run, lane, places, orders[rank], firsts[rank])
        else:
            words = _read(run, lane, places)
            if len({(word.place.part, word.place.leaf) for word in words}) > 1:
                raise InapplicableError("a rank has several lanes whose order is open")
            found[-1].others = (*found[-1].others, (lane, words))
    if run.model.family is Family.HOST:
        _check_creations(orders)
    return found


def _read(run: Execution, lane: int, places: Sequence[Place]) -> list[Word]:
    """Return the words of a lane that follows the order, but for the gates of a device."""
    lanes, is_device = run.lanes, run.model.family is Family.DEVICE
    found = []
    for at in range(lanes.lane_off[lane], lanes.lane_off[lane + 1]):
        if is_device and lanes.why[at] == GATE:
            continue
        if lanes.origin[at] >= len(places):
            raise InapplicableError("the host of a rank is held up apart from its stream")
        code = lanes.code[at]
        found.append(Word(code >> 2, code & 3, places[lanes.origin[at]]))
    return found


def _places(run: Execution, order: RankOrder, extensions: Sequence[Any]) -> list[Place]:
    """Return the place of every entry of a rank of the plan that was run."""
    left = iter(extensions)
    actions: list[Place] = []
    for number, part in enumerate(order.parts):
        if isinstance(part, Block):
            actions += [Place(order.rank, number, leaf) for leaf in next(left)]
        else:
            actions.append(Place(order.rank, number))
    columns, at, found = run.columns, -1, []
    for op in columns.op[columns.rank_off[order.rank] : columns.rank_off[order.rank + 1]]:
        if op in MARKERS:  # the plan itself was run, in its written order
            found.append(Place(order.rank, -1))
            continue
        at += not op & MEMBER
        found.append(actions[at])
    return found


# --- the host ----------------------------------------------------------------------------------


def _stops(
    run: Execution, lane: int, places: Sequence[Place], order: RankOrder, firsts: Sequence[Any]
) -> tuple[HostWord, ...]:
    """Return the words of the host of a rank.

    Raises:
        InapplicableError: What it stands at depends on the order.
    """
    lanes, columns = run.lanes, run.columns
    begin = columns.rank_off[order.rank]
    made = _creations(run, order, firsts)
    found = []
    for at in range(lanes.lane_off[lane], lanes.lane_off[lane + 1]):
        why, origin = lanes.why[at], lanes.origin[at]
        if why == GATE:
            continue
        op = columns.op[begin + origin]
        kind, code, place = op & KIND_MASK, lanes.code[at], places[origin]
        word = Word(code >> 2, code & 3, place)
        if why == INIT:
            makers = () if place.leaf < 0 else next(made[place.part, place.leaf], None)
            if makers is None:
                raise InapplicableError("a creation whose place in its block is not known")
            found.append(HostWord(word, first=True, makers=makers))
            continue
        own = kind == Kind.BARRIER and not op & ASYNC
        if own or (kind == Kind.HOST_SYNC and not columns.arg[begin + origin]):
            found.append(HostWord(word, first=False))
        else:  # what it waits for was launched elsewhere: in a block, that depends on the order
            raise InapplicableError("the host of a rank waits for what its order puts elsewhere")
    return tuple(found)


def _creations(
    run: Execution, order: RankOrder, firsts: Sequence[Any]
) -> Mapping[tuple[int, int], Iterator[tuple[int, ...]]]:
    """Return, by part and leaf that makes them in the order run, who else may make communicators.

    They come in the order in which the action uses them.
    """
    plan = run.plan
    sizes = {plan.group_name(g.name, order.rank): g.size(plan.mesh) for g in plan.groups}
    sizes.setdefault("world", plan.world_size)
    lazy = run.model.lazy_init
    seen: set[tuple[Any, ...]] = set()
    left = iter(firsts)
    found: dict[tuple[int, int], list[tuple[int, ...]]] = {}
    for number, part in enumerate(order.parts):
        if not isinstance(part, Block):
            seen.update(creates(part.fields, lazy=lazy))
            continue
        users: dict[tuple[Any, ...], list[int]] = {}
        for leaf in next(left):
            found[number, leaf] = []
            for key in dict.fromkeys(creates(part.leaves[leaf].fields, lazy=lazy)):
                if key not in seen and (len(key) > 1 or sizes.get(key[0], 2) > 1):
                    users.setdefault(key, []).append(leaf)
        below = part.below if any(len(mine) > 1 for mine in users.values()) else []
        for mine in users.values():
            earliest = mine
            if len(mine) > 1:
                all_users = sum(1 << leaf for leaf in mine)
                earliest = [leaf for leaf in mine if not below[leaf] & all_users]
            found[number, mine[0]].append(tuple(earliest))
        seen.update(users)
    return {place: iter(mine) for place, mine in found.items()}


def creates(fields: dict[str, Any], *, lazy: bool) -> Iterator[tuple[Any, ...]]:
    """Yield the communicators that an action makes if it is the first to use them.

    One of a group is its name, one of a pair its group and the other rank.

    Args:
        fields: The action.
        lazy: Whether the first use of a communicator makes it.
    """
    op, group = fields["op"], str(fields.get("group", "world"))
    if op == "init":
        yield (group,)
    elif not lazy:
        return
    elif op == "batch":
        for part in fields["ops"]:
            yield (str(part.get("group", group)),)
    elif op in MESSAGES:
        yield (group, fields["peer"])
    elif takes_round(op):
        yield (group,)


def _check_creations(orders: Sequence[RankOrder]) -> None:
    """Refuse blocks in which one of several calls makes a communicator, where the host is the lane.

    Raises:
        InapplicableError: There is one.
    """
    for order in orders:
        seen: set[tuple[Any, ...]] = set()
        for part in order.parts:
            leaves = part.leaves if isinstance(part, Block) else (part,)
            keys = [key for leaf in leaves for key in creates(leaf.fields, lazy=False)]
            fresh = [key for key in keys if key not in seen]
            if len(fresh) > len({*fresh}):
                raise InapplicableError(f"which `init` of rank {order.rank} is the first is open")
            seen.update(keys)
