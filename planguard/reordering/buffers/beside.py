"""Negotiated members beside other calls of their group: is the place of every launch the same?

A coordinator launches a member in the background, at any time after the last rank has reported it,
in an order that all ranks share. Let R be that report and C the end of the launch. Let x be the
k-th of the other calls of the group, on each rank. The launch has one place among them if, for
every k, either

* every rank has issued its x before R, or
* every rank that has an x issues it behind C,

in all executions. "Before" is reachability over what is always so: the order of a program, a call
that blocks (or a wait) ends behind its collective, a collective in which every member meets every
other one ends behind all its calls, and R behind every report. If two ranks ever gave a place of
the group to different calls, look at the first time that happens: all that lies before it holds, so
the launch and x would already stand in the order above.

Then a launch on the communicator of the group meets what it meets on one of its own, and may be
matched by its name. Edges that are left out only make fewer members pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.plan.vocabulary import BLOCKS, COLLECTIVES, EVERYONE, HANDLES
from planguard.reordering.blocks import Block, below_masks, bits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.reordering.blocks import Leaf
    from planguard.reordering.buffers.members import Buffer
    from planguard.reordering.buffers.rank import FusedRank
    from planguard.reordering.buffers.ranks import Ranks

LIMIT = 2_000_000
"""Most edges that are walked: about a second."""
NO_USE = HANDLES | {"compute", "init"}
"""Operations that take no place among the calls of a group; making its communicator is its own."""
Node = tuple[Any, ...]


def calls_of(leaf: Leaf, group: str, own: set[str]) -> list[dict[str, Any]]:
    """Return the calls of a leaf on a group that are not given members; a batch may hold more."""
    fields = leaf.fields
    if fields["op"] in NO_USE or fields.get("id") in own:
        return []
    inner = fields.get("ops", []) if fields["op"] == "batch" else [fields]
    default = fields.get("group", "world")
    return [one for one in inner if one.get("group", default) == group]


def are_told_apart(group: str, own: set[str], ranks: Ranks, members: dict[str, list[int]]) -> bool:
    """Whether a launch that meets another call of its group is seen.

    All of them have labels, and no other call has that of a member. Then a mismatch of members
    matched by name is one on the communicator of the group, too. Let every rank launch a member as
    soon as the last rank has reported it, and all else happen as before: either the same calls meet
    up to that mismatch, or at the first place where ranks differ a member meets another call; the
    place is full then, since all ranks launch at once.
    """
    labels: tuple[set[Any], set[Any]] = set(), set()
    for rank in members[group]:
        for part in ranks[rank].order.parts:
            for leaf in part.leaves if isinstance(part, Block) else (part,):
                if _holds_more(leaf):
                    return False
                if leaf.fields.get("id") in own:
                    labels[0].add(leaf.fields.get("label"))
                labels[1].update(call.get("label") for call in calls_of(leaf, group, own))
    return None not in labels[0] | labels[1] and not labels[0] & labels[1]


def keep_their_place(
    buffers: Sequence[Buffer], ranks: Ranks, members: dict[str, list[int]]
) -> bool:
    """Whether negotiated buffers of a group have one place among the other calls of the group.

    Args:
        buffers: Buffers that are launched together.
        ranks: The ranks of the plan.
        members: The ranks of every group.
    """
    others = [b for b in ranks.buffers if b.coordination != "negotiated"]
    if any(buffer.group == buffers[0].group for buffer in others):
        return False  # where their own flushes stand is not known here
    graph = _Before(ranks, members, buffers[0].group)
    mine = {buffer.id for buffer in buffers}
    names = [name for name in graph.reported if name[0] in mine]
    if not graph.is_known or graph.size * len(names) > LIMIT:
        return False
    return all(graph.has_one_place(name) for name in names)


class _Before:
    """What always comes before what, from the reports of members to the ends of their launches.

    A node is a leaf issued (rank, number), a leaf done (rank, number, "done"), the end of the k-th
    collective of a group (group, k, "end"), the last report of a member (buffer, name, "report")
    and the end of its launch (buffer, name, "launch").
    """

    def __init__(self, ranks: Ranks, members: dict[str, list[int]], group: str) -> None:
        self.group = group
        self.ranks = members[group]
        self.own: set[str] = set()
        self.hidden: set[str] = set()
        for buffer in ranks.buffers:
            by_name = buffer.coordination == "negotiated"
            (self.own if by_name else self.hidden).update(buffer.members)
        self.is_known = True
        self.after: dict[Node, list[Node]] = {}
        self.before: dict[Node, list[Node]] = {}
        self.size = 0
        self.reported: dict[tuple[str, str], set[int]] = {}
        self.calls: dict[tuple[str, int], list[tuple[Node, str]] | None] = {}
        self.ends: list[tuple[Node, list[Node]]] = []
        for rank in range(len(ranks)):
            self._rank(ranks[rank])
        self._collectives(members)
        for name in self.reported:
            self._edge((*name, "report"), (*name, "launch"))

    def has_one_place(self, name: tuple[str, str]) -> bool:
        """Whether a member has one place among the other calls of the group."""
        if self.reported[name] != set(self.ranks):
            return True  # never launched
        earlier = _reached((*name, "report"), self.before)
        later = _reached((*name, "launch"), self.after)
        mine = [[node for node, _ in self.calls.get((self.group, rank)) or ()]
                for rank in self.ranks]  # fmt: skip
        place = min(sum(node in earlier for node in nodes) for nodes in mine)
        return all(node in later for nodes in mine for node in nodes[place:])

    def _rank(self, found: FusedRank) -> None:
        rank = found.order.rank
        self.names = {
            leaf.fields["id"]: (held.buffer.id, held.ready.name(at))
            for held in found.held
            for at, leaf in enumerate(held.ready.leaves)
        }
        ends: list[Node] = []
        handles: dict[str, list[Node]] = {}
        number = 0
        for part in found.order.parts:
            block = part if isinstance(part, Block) else Block((part,), (frozenset(),))
            masks = below_masks(block)
            first = number
            for at, leaf in enumerate(block.leaves):
                node = (rank, number)
                number += 1
                for end in ends:
                    self._edge(end, node)
                for earlier in bits(masks[at]):
                    self._edge((rank, first + earlier, "done"), node)
                self._edge(node, (*node, "done"))
                self._leaf(rank, node, leaf, handles)
                self._places(rank, first, node, masks[at], leaf)
            ends = [(rank, at, "done") for at in range(first, number)]

    def _leaf(self, rank: int, node: Node, leaf: Leaf, handles: dict[str, list[Node]]) -> None:
        """Add what a leaf reports, and what it waits for."""
        fields = leaf.fields
        if fields["op"] == "wait" and fields.get("mode", "all") == "all":
            work = fields["work"]
            for name in work if isinstance(work, list) else [work]:
                self.ends.append(((*node, "done"), handles.get(name, [])))
            return
        ended: list[Node] = []
        if fields.get("id") in self.own:
            name = self.names[fields["id"]]
            self.reported.setdefault(name, set()).add(rank)
            self._edge(node, (*name, "report"))
            ended = [(*name, "launch")]
        elif fields["op"] in COLLECTIVES and fields.get("id") not in self.hidden:
            ended = [(*node, "match")]
        if "work" in fields and fields["op"] not in HANDLES:
            handles[fields["work"]] = ended
        if not fields.get("async"):
            self.ends.append(((*node, "done"), ended))

    def _places(self, rank: int, first: int, node: Node, mask: int, leaf: Leaf) -> None:
        """Number the calls of every group; no numbers where their order is open."""
        self.is_known &= not _holds_more(leaf)
        for call in calls_of(leaf, self.group, self.own):
            if call is not leaf.fields or call["op"] not in COLLECTIVES:
                self.is_known = False
        fields = leaf.fields
        if fields["op"] not in COLLECTIVES or fields.get("id") in self.own:
            return
        key = fields.get("group", "world"), rank
        known = self.calls.setdefault(key, [])
        if (
            fields.get("id") in self.hidden
            or known is None
            or any(other[1] >= first and not mask >> (other[1] - first) & 1 for other, _ in known)
        ):
            self.calls[key] = None
            self.is_known &= key[0] != self.group
            return
        known.append((node, fields["op"]))

    def _collectives(self, members: dict[str, list[int]]) -> None:
        """Let what waits for a collective come behind all its calls."""
        end_of: dict[Node, Node] = {}
        for group in dict.fromkeys(name for name, _ in self.calls):
            rows = [self.calls.get((group, rank), []) for rank in members[group]]
            known = [row for row in rows if row is not None]
            if len(known) < len(rows):
                continue
            for k, calls in enumerate(zip(*known, strict=False)):
                if len({op for _, op in calls}) == 1 and calls[0][1] in EVERYONE:
                    for node, _ in calls:
                        end_of[node] = (group, k, "end")
                        self._edge(node, (group, k, "end"))
        for done, ended in self.ends:
            for node in ended:
                found = end_of.get(node[:2]) if node[-1] == "match" else node
                if found is not None:
                    self._edge(found, done)

    def _edge(self, one: Node, other: Node) -> None:
        self.after.setdefault(one, []).append(other)
        self.before.setdefault(other, []).append(one)
        self.size += 1


def _holds_more(leaf: Leaf) -> bool:
    """Whether a leaf is a block whose calls are not looked at."""
    return leaf.fields["op"] in BLOCKS


def _reached(start: Node, edges: dict[Node, list[Node]]) -> set[Node]:
    """Return what can be reached."""
    seen = {start}
    left = [start]
    while left:
        for node in edges.get(left.pop(), ()):
            if node not in seen:
                seen.add(node)
                left.append(node)
    return seen
