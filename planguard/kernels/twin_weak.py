"""Open orders whose waits lie in bags (``weak.cpp``; docs/explanation/every-order.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planguard.kernels.twin_rules import ARRIVE, AWAIT
from planguard.plan.actions import KIND_MASK, MEMBER, NONE, Kind, is_collective, is_point_to_point

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.kernels.twin_columns import Columns, Lanes

FINE, SWAPPABLE, INAPPLICABLE, STUCK = range(4)
"""In order, or never stuck; two calls may swap; not read here; some order gets stuck."""
WAITS, FREE, REFUSED = range(3)
"""What an action in a block is: it may wait, never waits, or its effect depends on its place."""


@dataclass(frozen=True, slots=True)
class OpenRounds:
    """Whether the rounds of a plan are in order whatever order its blocks take."""

    status: int = FINE
    rank: int = 0
    first: int = 0
    second: int = 0
    mixed: bool = False


@dataclass(frozen=True, slots=True)
class WeakOrders:
    """Whether some order gets stuck, and how many bags it may never pass."""

    status: int = FINE
    left: int = 0


def open_rounds(columns: Columns, queue: Sequence[int], in_block: Sequence[int]) -> OpenRounds:
    """Tell whether every communicator and channel is used at most once per block of open order.

    Args:
        columns: Columns with markers of open order.
        queue: The queue of every channel: channels of one queue are told apart no further.
        in_block: ``WAITS``, ``FREE`` or ``REFUSED`` for every op byte.

    Raises:
        ValueError: The tables do not have one entry per op byte and per channel.
    """
    if len(in_block) != 256:
        raise ValueError("one entry per op byte")
    if len(queue) != len(columns.chan_src):
        raise ValueError("one entry a channel")
    mixed = False
    for rank in range(columns.world_size):
        found = _rounds_of(columns, rank, queue, in_block)
        if found.status != FINE:
            return found
        mixed |= found.mixed
    return OpenRounds(mixed=mixed)


def _rounds_of(
    columns: Columns, rank: int, queue: Sequence[int], in_block: Sequence[int]
) -> OpenRounds:
    begin = columns.rank_off[rank]
    block: int | None = None
    used: dict[tuple[int, ...], int] = {}
    leaf = leaves = 0
    kinds: set[int] = set()
    mixed = False
    for entry in range(columns.rank_off[rank + 1] - begin):
        op = columns.op[begin + entry]
        kind = op & KIND_MASK
        if not op & MEMBER and kind >= Kind.UNORDERED_BEGIN:
            if kind == Kind.UNORDERED_BEGIN and block is None:
                block, leaves, kinds, used = entry, 0, set(), {}
                continue
            if kind != Kind.UNORDERED_END or block is None or (leaves > 1 and REFUSED in kinds):
                return OpenRounds(INAPPLICABLE)
            mixed |= leaves > 1 and kinds != {FREE}
            block = None
            continue
        if block is None:
            continue
        if not op & MEMBER:
            leaf, leaves = entry, leaves + 1
            kinds.add(in_block[op])
            if any(target >= block for target in _refers(columns, begin + entry)):
                return OpenRounds(INAPPLICABLE)
        key = _queue_of(kind, columns.arg[begin + entry], queue)
        if key is not None and used.setdefault(key, leaf) != leaf:
            return OpenRounds(SWAPPABLE, rank, used[key], leaf)
    return OpenRounds(mixed=mixed)


def _refers(columns: Columns, at: int) -> Sequence[int]:
    """Return the entries of the rank that a wait or a computation comes after."""
    kind, arg = columns.op[at] & KIND_MASK, columns.arg[at]
    if kind == Kind.WAIT:
        return (arg,)
    if kind not in {Kind.WAIT_MANY, Kind.COMPUTE} or arg == NONE:
        return ()
    return columns.aux[arg + 1 : arg + 1 + columns.aux[arg]]


def _queue_of(kind: int, arg: int, queue: Sequence[int]) -> tuple[int, ...] | None:
    if is_point_to_point(kind):
        return queue[arg], int(kind in {Kind.RECV, Kind.PROBE})
    return (arg,) if is_collective(kind) else None


@dataclass(slots=True)
class _Bag:
    words: list[int]
    stands: set[int]
    first_of_lane: bool
    is_open: bool = False


def weak_orders(columns: Columns, lanes: Lanes) -> WeakOrders:
    """Tell whether some order of bags gets stuck, where the written one does not.

    What no order can hold up is resolved step by step: a stand when every other arrival of its
    match is, an arrival when every other stand of its bag and all bags before are. What is left
    lies on a cycle.

    Args:
        columns: Columns with markers of open order.
        lanes: Their lanes, with origins, in the written order, which completes.

    Raises:
        ValueError: Lanes without origins.
    """
    if len(lanes.origin) != len(lanes.code):
        raise ValueError("lanes with origins")
    return _Peel(columns, lanes).run()


class _Peel:
    def __init__(self, columns: Columns, lanes: Lanes) -> None:
        self.columns, self.lanes = columns, lanes
        self.bags: list[_Bag] = []
        self.bag_of: list[int] = []
        self.late: dict[int, set[int]] = {}
        self.waits: dict[int, list[int]] = {}
        self.formed: set[int] = set()
        self.arrived: set[int] = set()
        self.todo: list[int] = []
        self.passed = 0

    def run(self) -> WeakOrders:
        """Return how much of the plan no order can hold up."""
        ranks = list(range(self.columns.world_size))
        if list(self.lanes.lane_rank) != ranks or not all(map(self._lane, ranks)):
            return WeakOrders(INAPPLICABLE)
        need = self.lanes.need
        if any(len(late) > need[match] for match, late in self.late.items()):
            return WeakOrders(INAPPLICABLE)
        # A match that somebody never arrives at is never complete.
        self.formed = {match for match, late in self.late.items() if len(late) == need[match]}
        for match in self.formed:
            # Nobody else is in the match of a group of one.
            late = self.late[match]
            if len(late) == 1 and self.lanes.code[min(late)] & AWAIT:
                self._pass(min(late))
        for number, bag in enumerate(self.bags):
            if bag.first_of_lane:
                self._open(number)
                self._drain()
        left = len(self.bags) - self.passed
        return WeakOrders(STUCK if left else FINE, left)

    def _lane(self, rank: int) -> bool:
        """Put the words of a lane into bags: those of a block of several together, others alone."""
        lanes, first = self.lanes, True
        blocks = self._blocks(rank)
        before, flags_before, block_before = -1, 0, -1
        for word in range(lanes.lane_off[rank], lanes.lane_off[rank + 1]):
            entry, flags = lanes.origin[word], lanes.code[word] & 3
            if not before <= entry < len(blocks):
                return False
            block = blocks[entry]
            if block >= 0 and entry == before and (flags != flags_before or flags == 3):
                return False
            if block < 0 or block != block_before:
                self.bags.append(_Bag([], set(), first))
                first = False
            self._put(word, flags)
            before, flags_before, block_before = entry, flags, block
        return True

    def _blocks(self, rank: int) -> list[int]:
        """Return, for every entry of a rank, the block of several actions it is in, or -1."""
        found: list[int] = []
        begin, leaves = -1, 0
        for op in self.columns.op[self.columns.rank_off[rank] : self.columns.rank_off[rank + 1]]:
            kind = op & KIND_MASK
            if not op & MEMBER and kind == Kind.UNORDERED_END:
                if leaves < 2:
                    found[begin:] = [-1] * (len(found) - begin)
                begin = -1
            found.append(begin)
            leaves += not op & MEMBER
            if not op & MEMBER and kind == Kind.UNORDERED_BEGIN:
                begin, leaves = len(found), 0
        return found

    def _put(self, word: int, flags: int) -> None:
        bag, match = self.bags[-1], self.lanes.code[word] >> 2
        self.bag_of.append(len(self.bags) - 1)
        bag.words.append(word)
        if flags & ARRIVE:
            self.late.setdefault(match, set()).add(word)
        if flags & AWAIT:
            self.waits.setdefault(match, []).append(word)
            bag.stands.add(word)

    def _open(self, number: int) -> None:
        while True:
            self.bags[number].is_open = True
            if not self._look(number):
                return
            number += 1
            if number == len(self.bags) or self.bags[number].first_of_lane:
                return

    def _look(self, number: int) -> bool:
        """Tell whether a bag is passed; let arrive what nothing of it holds up."""
        bag = self.bags[number]
        if len(bag.stands) > 1:
            return False
        for word in bag.stands or bag.words:
            if self.lanes.code[word] & ARRIVE and word not in self.arrived:
                self.arrived.add(word)
                self.todo.append(word)
        self.passed += not bag.stands
        return not bag.stands

    def _drain(self) -> None:
        while self.todo:
            word = self.todo.pop()
            match = self.lanes.code[word] >> 2
            late = self.late[match]
            late.discard(word)
            if match not in self.formed:
                continue
            if len(late) == 1:
                (last,) = late
                if self.lanes.code[last] & AWAIT:
                    self._pass(last)
            if not late:
                for other in self.waits.get(match, ()):
                    self._pass(other)

    def _pass(self, word: int) -> None:
        number = self.bag_of[word]
        bag = self.bags[number]
        if word not in bag.stands:
            return
        bag.stands.discard(word)
        if bag.is_open and self._look(number):
            number += 1
            if number < len(self.bags) and not self.bags[number].first_of_lane:
                self._open(number)
