"""The may-wait graph: who may stand where, and whose arrival that may delay, over all orders.

Three kinds of nodes. *Stand* ``S(w)``: a lane stands at the waiting word ``w``. *Late* ``Q(a)``:
the arrival ``a`` has not happened. The rest are joints that keep the number of edges linear. Edges
read "only if one of":

* ``S(w) -> Q(a)`` for every other arrival ``a`` of the match that ``w`` waits for;
* ``Q(a) -> S(v)`` for every waiting word ``v`` of the lane of ``a`` that may come before it: in
  program order, or in the same open block and not ordered after it.

Whatever stands in some order stands on a cycle of this graph with at most one stand per lane, and
every such cycle is an order that gets stuck (docs/explanation/every-order-proofs.md, T4). Without a
cycle no order gets stuck.

A rank of the nccl family may have two lanes, its queue and its host. Both follow one order, so a
cycle that stands at both has to allow what both ask of it (`agrees`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from planguard.kernels.twin_rules import ARRIVE, AWAIT
from planguard.reordering.blocks import Block
from planguard.reordering.orders.weak import is_weak
from planguard.reordering.orders.weak_words import InapplicableError, lanes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.execution.running.executor import Execution
    from planguard.reordering.blocks import RankOrder
    from planguard.reordering.orders.weak_words import HostWord, Place, RankLanes, Word

PAIRWISE = 8
"""Largest match whose members point at each other one by one."""


@dataclass
class MayWait:
    """The graph.

    Attributes:
        edges: Successors of every node.
        lane: Lane of a node that is a stand or an arrival, -1 of a joint.
        stand: Nodes that are stands.
        place: Where the word of a stand or an arrival comes from.
        makers: Of the stand or the arrival of a host at a creation in a block, the leaves of which
            the first makes the communicator.
        weak: Every open block is a sequence of bags (docs/explanation/every-order-proofs.md, T3).
    """

    edges: list[list[int]] = field(default_factory=list)
    lane: list[int] = field(default_factory=list)
    stand: set[int] = field(default_factory=set)
    place: dict[int, Place] = field(default_factory=dict)
    makers: dict[int, tuple[int, ...]] = field(default_factory=dict)
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


def may_wait(
    run: Execution,
    orders: Sequence[RankOrder],
    firsts: Sequence[Any],
    *,
    lanes: Sequence[RankLanes] | None = None,
    blocks: int = 0,
) -> MayWait:
    """Return the may-wait graph of a plan with open order.

    That of the begin of every rank, up to some block of open order, is part of it: a cycle there is
    a cycle of the whole.

    Args:
        run: A run with ``origins=True`` of the plan in one order, at the strict end.
        orders: Its rank programs taken apart.
        firsts: The order that was run: per rank and block a linear extension.
        lanes: What `lanes_of` says of it, if that is known.
        blocks: Blocks of several leaves up to which every rank is read; 0 for all.

    Raises:
        InapplicableError: The words of some lane would differ in another order.
    """
    return _Builder(run, orders, firsts, blocks).build(lanes or lanes_of(run, orders, firsts))


@dataclass
class _Host:
    """The lane of a host under construction: its number, and the node "stands before"."""

    lane: int
    cut: int | None = None


class _Builder:
    def __init__(
        self, run: Execution, orders: Sequence[RankOrder], firsts: Sequence[Any], blocks: int
    ) -> None:
        self.run, self.orders, self.firsts, self.blocks = run, orders, firsts, blocks
        self.graph = MayWait()
        self.arrivals: dict[int, list[tuple[int | None, int]]] = {}
        self.waiting: list[tuple[int, int, int]] = []

    def build(self, lanes: Sequence[RankLanes]) -> MayWait:
        for mine in lanes:
            self._rank(mine)
            for lane, words in mine.others:
                self._chain(lane, words, None)
        self._matches()
        return self.graph

    def _rank(self, mine: RankLanes) -> None:
        """Add the lane that follows the program of a rank, and that of its host."""
        graph, order = self.graph, self.orders[mine.rank]
        cut: int | None = None
        host = _Host(mine.host)
        extensions = dict(zip(_blocks(order), self.firsts[mine.rank], strict=True))
        by_part: dict[int, list[Word]] = {}
        for word in mine.words:
            by_part.setdefault(word.place.part, []).append(word)
        stops: dict[int, list[HostWord]] = {}
        for stop in mine.stops:
            stops.setdefault(stop.word.place.part, []).append(stop)
        end = _end_of(order, self.blocks)
        for number in sorted(by_part.keys() | stops.keys()):
            if number >= end:
                break
            part, words = order.parts[number], by_part.get(number, [])
            block = part if isinstance(part, Block) and len(part.leaves) > 1 else None
            made = self._stops(host, stops.get(number, []), block)
            if block is not None:
                cut = self._block(mine.main, block, extensions[number], words, cut, made)
            else:
                # In front of its launches the host held the queue up, behind them what follows.
                cut = graph.joint(_present(cut, *(node for node, stop in made if stop.first)))
                cut = self._chain(mine.main, words, cut)
                made = [one for one in made if not one[1].first]
            cut = graph.joint(_present(cut, *(node for node, _ in made)))

    def _stops(
        self, host: _Host, stops: list[HostWord], block: Block | None
    ) -> list[tuple[int, HostWord]]:
        """Add the host's words of one part; return its stands there.

        A creation that several leaves may make has a stand for each: there that leaf is the first.
        """
        graph = self.graph
        above = block.above if block is not None and stops else []
        made: list[tuple[int, HostWord]] = []
        stands: list[list[int]] = []
        for stop in stops:
            leaves = stop.makers or (stop.word.place.leaf,)
            mine = [graph.node(host.lane, replace(stop.word.place, leaf=leaf)) for leaf in leaves]
            stands.append(mine)
            graph.makers |= dict.fromkeys(mine, stop.makers) if len(stop.makers) > 1 else {}
            made += [(node, stop) for node in mine]
        for at, (stop, mine) in enumerate(zip(stops, stands, strict=True)):
            late = [] if host.cut is None else [host.cut]
            for other in range(len(stops)) if block is not None else range(at):
                if other == at:
                    continue
                one_leaf = other < at or bool(stop.makers[1:] or stops[other].makers[1:])
                late += [
                    node
                    for node in stands[other]
                    if block is None or self._may_hold(node, stop, above, one_leaf=one_leaf)
                ]
            own = self._arrive(host.lane, stop.word, late)
            if own >= 0 and late:
                arrival = len(graph.lane) - 1
                if len(stop.makers) > 1:
                    graph.makers[arrival] = stop.makers
            for node in mine:
                graph.stand.add(node)
                self.waiting.append((node, stop.word.match, own))
        host.cut = graph.joint(_present(host.cut, *(node for node, _ in made)))
        return made

    def _may_hold(self, node: int, stop: HostWord, above: Sequence[int], *, one_leaf: bool) -> bool:
        """Tell whether a host that stands at a leaf of a block may not yet have come to a stop.

        It stands there in an order that takes the leaf as early as it can. The stop comes after
        that unless a leaf that makes it comes before in every order, or is the same one and the
        stop is not behind there (``one_leaf``; also where which is first depends on the order).
        """
        leaf = self.graph.place[node].leaf
        return all(
            one_leaf if maker == leaf else not above[maker] >> leaf & 1
            for maker in stop.makers or (stop.word.place.leaf,)
        )

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
        stops: list[tuple[int, HostWord]],
    ) -> int | None:
        """Add an open block, of which one linear extension is given.

        In an extension nothing comes before what it is ordered after, so whatever stands earlier
        in it may come first; of what stands later only the incomparable may.
        """
        graph = self.graph
        graph.weak &= not stops
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
        above = block.above
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
                late += [node for node, stop in stops if self._holds(node, stop, leaf, above)]
                delayed = graph.joint(late)
                self._leaf(lane, inside[leaf], [] if delayed is None else [delayed])
            cut = graph.joint(_present(stands[at], cut))
        return cut

    def _holds(self, node: int, stop: HostWord, leaf: int, above: Sequence[int]) -> bool:
        """Tell whether the queue may wait for a host that stands at a leaf, in front of another."""
        at = self.graph.place[node].leaf
        return stop.first if at == leaf else not above[leaf] >> at & 1

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
            if len(members) != need[match] and not self.blocks:
                raise InapplicableError("a match that does not complete in every order")
            if len(members) <= PAIRWISE + 1:
                late = [node for node, number in members if node is not None and number != own]
            else:
                if match not in others:
                    others[match] = _all_but_one(graph, [node for node, _ in members])
                late = others[match][own] if own >= 0 else others[match][-1]
            graph.edges[stand] = late


def _end_of(order: RankOrder, blocks: int) -> int:
    """Return the part behind the given number of blocks of several leaves; 0 blocks are all."""
    seen = 0
    for number, part in enumerate(order.parts if blocks else ()):
        seen += isinstance(part, Block) and len(part.leaves) > 1
        if seen == blocks:
            return number + 1
    return len(order.parts)


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


def _in_order(masks: Sequence[int], place: dict[int, int]) -> dict[int, int]:
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
