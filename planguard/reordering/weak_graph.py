"""The may-wait graph: who may stand where, and whose arrival that may delay, over all orders.

Three kinds of nodes. *Stand* ``S(w)``: a lane stands at the waiting word ``w``. *Late* ``Q(a)``:
the arrival ``a`` has not happened. The rest are joints that keep the number of edges linear. Edges
read "only if one of":

* ``S(w) -> Q(a)`` for every other arrival ``a`` of the match that ``w`` waits for;
* ``Q(a) -> S(v)`` for every waiting word ``v`` of the lane of ``a`` that may come before it: in
  program order, or in the same open block and not ordered after it.

Whatever stands in some order stands on a cycle of this graph with at most one stand per lane, and
every such cycle is an order that gets stuck (docs/explanation/every-order.md, T4). Without a cycle
no order gets stuck.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planguard.plan.actions import MEMBER
from planguard.reordering.blocks import Block, above_masks
from planguard.reordering.weak import is_weak

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.execution.executor import Execution
    from planguard.reordering.blocks import RankOrder

ARRIVE, AWAIT = 1, 2
PAIRWISE = 8
"""Largest match whose members point at each other one by one."""


class InapplicableError(Exception):
    """The lanes of this model depend on the order; the message says how."""


@dataclass(frozen=True)
class Place:
    """Where a word comes from: rank, part of its program, leaf of the block (-1 outside blocks)."""

    rank: int
    part: int
    leaf: int = -1


@dataclass
class MayWait:
    """The graph.

    Attributes:
        edges: Successors of every node.
        lane: Lane of a node that is a stand or an arrival, -1 of a joint.
        stand: Nodes that are stands.
        place: Where the word of a stand or an arrival comes from.
        weak: Every open block is a sequence of bags (docs/explanation/every-order.md, T3).
    """

    edges: list[list[int]] = field(default_factory=list)
    lane: list[int] = field(default_factory=list)
    stand: set[int] = field(default_factory=set)
    place: dict[int, Place] = field(default_factory=dict)
    weak: bool = True

    def node(self, lane: int = -1, place: Place | None = None) -> int:
        """Add a node."""
        self.edges.append([])
        self.lane.append(lane)
        if place is not None:
            self.place[len(self.lane) - 1] = place
        return len(self.lane) - 1

    def joint(self, targets: list[int]) -> int | None:
        """Return a node that leads to all of some nodes, or None if there are none."""
        if len(targets) < 2:
            return targets[0] if targets else None
        made = self.node()
        self.edges[made] = targets
        return made


def _blocks(order: RankOrder) -> list[int]:
    """Return the numbers of the parts of a program that are blocks."""
    return [number for number, part in enumerate(order.parts) if isinstance(part, Block)]


@dataclass(frozen=True)
class Word:
    """One instruction of a lane."""

    match: int
    flags: int
    place: Place


def may_wait(run: Execution, orders: Sequence[RankOrder], firsts: Sequence[Any]) -> MayWait:
    """Return the may-wait graph of a plan with open order.

    Args:
        run: A run with ``origins=True`` of the plan in one order, at the strict end.
        orders: Its rank programs taken apart.
        firsts: The order that was run: per rank and block a linear extension.

    Raises:
        InapplicableError: The words of some lane would differ in another order.
    """
    return _Builder(run, orders, firsts).build()


def words_of(
    run: Execution, orders: Sequence[RankOrder], firsts: Sequence[Any]
) -> list[list[Word]]:
    """Return the words of every lane with their places.

    Raises:
        InapplicableError: The words of some lane would differ in another order.
    """
    lanes, found = run.lanes, []
    places: dict[int, list[Place]] = {}
    for lane, rank in enumerate(lanes.lane_rank):
        is_main = rank not in places
        if is_main:
            places[rank] = _places(run, orders[rank], firsts[rank])
        mine, begin, end = places[rank], lanes.lane_off[lane], lanes.lane_off[lane + 1]
        entries = lanes.origin[begin:end]
        if any(entry >= len(mine) for entry in entries):
            raise InapplicableError("the host of a rank is held up apart from its stream")
        words = [
            Word(code >> 2, code & 3, mine[entry])
            for code, entry in zip(lanes.code[begin:end], entries, strict=True)
        ]
        if not is_main and len({(word.place.part, word.place.leaf) for word in words}) > 1:
            raise InapplicableError("a rank has several lanes whose order is open")
        found.append(words)
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
        at += not op & MEMBER
        found.append(actions[at])
    return found


class _Builder:
    def __init__(self, run: Execution, orders: Sequence[RankOrder], firsts: Sequence[Any]) -> None:
        self.run, self.orders, self.firsts = run, orders, firsts
        self.graph = MayWait()
        self.arrivals: dict[int, list[tuple[int | None, int]]] = {}
        self.waiting: list[tuple[int, int, int]] = []

    def build(self) -> MayWait:
        seen: set[int] = set()
        all_words = words_of(self.run, self.orders, self.firsts)
        for lane, (rank, words) in enumerate(zip(self.run.lanes.lane_rank, all_words, strict=True)):
            if rank in seen:
                self._chain(lane, words, None)
            else:
                seen.add(rank)
                self._lane(lane, rank, words)
        self._matches()
        return self.graph

    def _lane(self, lane: int, rank: int, words: list[Word]) -> None:
        """Add the lane that follows the program of a rank."""
        cut: int | None = None
        extensions = dict(zip(_blocks(self.orders[rank]), self.firsts[rank], strict=True))
        by_part: dict[int, list[Word]] = {}
        for word in words:
            by_part.setdefault(word.place.part, []).append(word)
        for number, mine in sorted(by_part.items()):
            part = self.orders[rank].parts[number]
            if isinstance(part, Block) and len(part.leaves) > 1:
                cut = self._block(lane, part, extensions[number], mine, cut)
            else:
                cut = self._chain(lane, mine, cut)

    def _chain(self, lane: int, words: list[Word], cut: int | None) -> int | None:
        """Add words in a fixed order; return the node "stands before what follows"."""
        graph = self.graph
        for word in words:
            own = self._arrive(lane, word, [] if cut is None else [cut])
            if word.flags & AWAIT:
                stand = self._stand(lane, word, own)
                cut = graph.joint([stand] if cut is None else [stand, cut])
        return cut

    def _arrive(self, lane: int, word: Word, late: list[int]) -> int:
        """Add the arrival of a word, late if one of some nodes holds; return its number."""
        if not word.flags & ARRIVE:
            return -1
        node = None
        if late:
            node = self.graph.node(lane, word.place)
            self.graph.edges[node] = late
        members = self.arrivals.setdefault(word.match, [])
        members.append((node, len(members)))
        return len(members) - 1

    def _stand(self, lane: int, word: Word, own: int) -> int:
        node = self.graph.node(lane, word.place)
        self.graph.stand.add(node)
        self.waiting.append((node, word.match, own))
        return node

    def _block(
        self,
        lane: int,
        block: Block,
        order: Sequence[int],
        words: list[Word],
        cut: int | None,
    ) -> int | None:
        """Add an open block, of which one linear extension is given.

        In an extension nothing comes before what it is ordered after, so whatever stands earlier
        in it may come first; of what stands later only the incomparable may.
        """
        graph = self.graph
        by_leaf: dict[int, list[Word]] = {leaf: [] for leaf in order}
        for word in words:
            by_leaf[word.place.leaf].append(word)
        stands: list[int | None] = []
        inside: dict[int, list[tuple[Word, int | None]]] = {}
        for leaf in order:
            mine = []
            for word in by_leaf[leaf]:
                stand = graph.node(lane, word.place) if word.flags & AWAIT else None
                mine.append((word, stand))
            inside[leaf] = mine
            stands.append(graph.joint([node for _, node in mine if node is not None]))
        ranges = _Ranges(graph, stands)
        above = above_masks(block)
        graph.weak &= is_weak(
            above, {leaf: [w.flags for w in mine] for leaf, mine in by_leaf.items()}
        )
        place = {leaf: at for at, leaf in enumerate(order)}
        masks = _in_order(above, place)
        for at, leaf in enumerate(order):
            if inside[leaf]:
                late = [] if cut is None else [cut]
                for begin, end in _gaps(masks[leaf], at + 1, len(order)):
                    late += ranges.cover(begin, end)
                delayed = graph.joint(late)
                self._leaf(lane, inside[leaf], [] if delayed is None else [delayed])
            cut = graph.joint(_present(stands[at], cut))
        return cut

    def _leaf(self, lane: int, words: list[tuple[Word, int | None]], late: list[int]) -> None:
        for word, stand in words:
            own = self._arrive(lane, word, list(late))
            if stand is not None:
                self.graph.stand.add(stand)
                self.waiting.append((stand, word.match, own))
                late = [*late, stand]

    def _matches(self) -> None:
        """Let every stand depend on the arrivals of its match but its own."""
        need, graph = self.run.lanes.need, self.graph
        others: dict[int, list[list[int]]] = {}
        for stand, match, own in self.waiting:
            members = self.arrivals.get(match, [])
            if len(members) != need[match]:
                raise InapplicableError("a match that does not complete in every order")
            if len(members) <= PAIRWISE + 1:
                late = [node for node, number in members if node is not None and number != own]
            else:
                if match not in others:
                    others[match] = _all_but_one(graph, [node for node, _ in members])
                late = others[match][own] if own >= 0 else others[match][-1]
            graph.edges[stand] = late


def _all_but_one(graph: MayWait, nodes: list[int | None]) -> list[list[int]]:
    """Return, for every node, edges to all the others (by prefixes and suffixes); last: to all."""
    count = len(nodes)
    prefix: list[int | None] = [None] * (count + 1)
    suffix: list[int | None] = [None] * (count + 1)
    for at in range(count):
        prefix[at + 1] = graph.joint(_present(prefix[at], nodes[at]))
        suffix[count - 1 - at] = graph.joint(_present(suffix[count - at], nodes[count - 1 - at]))
    found = [_present(prefix[at], suffix[at + 1]) for at in range(count)]
    return [*found, _present(prefix[count])]


def _present(*nodes: int | None) -> list[int]:
    return [node for node in nodes if node is not None]


def _in_order(masks: list[int], place: dict[int, int]) -> dict[int, int]:
    """Return bit sets of leaves as bit sets of places in an order."""
    if all(leaf == at for leaf, at in place.items()):
        return {leaf: masks[leaf] for leaf in place}
    found = {}
    for leaf in place:
        mask = 0
        for other, at in place.items():
            mask |= (masks[leaf] >> other & 1) << at
        found[leaf] = mask
    return found


def _gaps(mask: int, begin: int, end: int) -> list[tuple[int, int]]:
    """Return the runs of places in a range that are not in a bit set."""
    runs = []
    free = ~(mask >> begin) & ((1 << end - begin) - 1)
    at = begin
    while free:
        skip = (free & -free).bit_length() - 1
        free >>= skip
        length = (~free & (free + 1)).bit_length() - 1
        runs.append((at + skip, at + skip + length))
        at += skip + length
        free >>= length
    return runs


class _Ranges:
    """Joints over ranges of places: any range is a few of them (a segment tree)."""

    def __init__(self, graph: MayWait, leaves: list[int | None]) -> None:
        self.size = 1 << max(1, len(leaves) - 1).bit_length()
        self.tree: list[int | None] = [None] * (2 * self.size)
        self.tree[self.size : self.size + len(leaves)] = leaves
        for at in range(self.size - 1, 0, -1):
            self.tree[at] = graph.joint(_present(self.tree[2 * at], self.tree[2 * at + 1]))

    def cover(self, begin: int, end: int) -> list[int]:
        """Return the joints that together are the range from ``begin`` to before ``end``."""
        low, high, found = begin + self.size, end + self.size, []
        while low < high:
            if low & 1:
                found.append(self.tree[low])
                low += 1
            if high & 1:
                high -= 1
                found.append(self.tree[high])
            low, high = low >> 1, high >> 1
        return [node for node in found if node is not None]
