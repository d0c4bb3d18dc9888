"""One rank of a plan with fused buffers: everything that becomes ready beside members, in order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from planguard.execution.findings.reason import UndecidedError
from planguard.plan.vocabulary import HANDLES, ORDER_BLOCKS
from planguard.reordering.blocks import Block, Leaf, bits
from planguard.reordering.branches.assignments import leaves
from planguard.reordering.buffers.beside import Fork, Join
from planguard.reordering.buffers.members import Ready, handles_of, home_of, size_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.reordering.blocks import RankOrder
    from planguard.reordering.buffers.members import Buffer, Homes

Extension = tuple[int, ...]
"""An order of the elements of a rank that its program admits."""
PLAIN = "plain"
"""The ``op`` of an item that stands for actions in a row, its ``nodes``; of no plan."""


@dataclass(frozen=True)
class Held:
    """A buffer as one rank has it.

    Attributes:
        buffer: The policy; a pool that is filled is one entry per buffer of the pool.
        ready: Its members on this rank.
        elements: The element of the rank for every member of ``ready``.
    """

    buffer: Buffer
    ready: Ready
    elements: tuple[int, ...]

    @property
    def cap(self) -> int:
        """Capacity in bytes; all members together where there is no limit."""
        return self.ready.total if self.buffer.cap is None else self.buffer.cap


@dataclass(frozen=True)
class FusedRank:
    """A rank program whose blocks with members are elements of one partial order.

    Attributes:
        order: Its parts.
        items: The same parts as actions of the flat plan.
        leaves: The elements: every leaf of every part that holds a member, and of every block
            that waits for one, numbered in an order that the program admits.
        parts: The part of each element.
        below: Bit mask of the elements that are always issued before.
        held: The buffers with members here.
        owner: Element of a member to its place in ``held`` and in ``ready`` there.
        spans: The actions of every part, with the ends of blocks.
    """

    order: RankOrder
    items: tuple[dict[str, Any], ...]
    leaves: tuple[Leaf, ...]
    parts: tuple[int, ...]
    below: tuple[int, ...]
    held: tuple[Held, ...]
    owner: dict[int, tuple[int, int]]
    spans: Sequence[range]

    @cached_property
    def threaded(self) -> frozenset[int]:
        """The parts that stand in a thread beside others."""
        depth, found = 0, []
        for number, part in enumerate(self.order.parts):
            depth += isinstance(part, Fork) - isinstance(part, Join)
            if depth:
                found.append(number)
        return frozenset(found)

    @cached_property
    def late(self) -> dict[int, frozenset[int]]:
        """By where a thread begins: its members, if others beside it wait for some of them."""
        found: dict[int, frozenset[int]] = {}
        open_forks: list[int] = []
        inside: dict[int, set[int]] = {}
        for number, part in enumerate(self.order.parts):
            if isinstance(part, Fork):
                open_forks.append(number)
                inside[number] = set()
            elif isinstance(part, Join):
                open_forks.pop()
            for fork in open_forks:
                inside[fork].add(number)
        for number, parts in inside.items():
            members = [at for at in self.owner if self.parts[at] in parts]
            works = {self.leaves[at].fields.get("work") for at in members}
            calls = leaves([self.items[number]])
            if any(one["op"] in HANDLES and not works.isdisjoint(handles_of(one)) for one in calls):
                found[number] = frozenset(members)
        return found

    @property
    def usual(self) -> Extension:
        """The order in which the elements are numbered."""
        return tuple(range(len(self.leaves)))

    def extensions(self) -> Iterator[Extension]:
        """Yield every order that the program admits, the usual one first."""
        return extensions(self.below)

    def down_first(self, mask: int) -> Extension:
        """Return the order in which a closed set of elements comes first, else the usual one."""
        first = tuple(e for e in self.usual if mask >> e & 1)
        return (*first, *(e for e in self.usual if not mask >> e & 1))

    def lifted(self, members: Sequence[int]) -> Extension:
        """Return an order in which given elements follow each other as listed."""
        order: list[int] = []
        done = 0
        for member in (*members, *self.usual):
            for element in self.usual:
                wanted = self.below[member] | 1 << member
                if wanted >> element & 1 and not done >> element & 1 and element != member:
                    order.append(element)
                    done |= 1 << element
            if not done >> member & 1:
                order.append(member)
                done |= 1 << member
        return tuple(order)


def extensions(below: Sequence[int]) -> Iterator[Extension]:
    """Yield every order of elements in which each comes after those below it (bit masks)."""
    count, done = len(below), 0
    order: list[int] = []

    def ready() -> Iterator[int]:
        return iter([e for e in range(count) if not done >> e & 1 and not below[e] & ~done])

    if not count:
        yield ()
        return
    turns = [ready()]
    while turns:
        element = next(turns[-1], None)
        if element is None:
            turns.pop()
        elif len(order) + 1 == count:
            yield (*order, element)
            continue
        else:
            order.append(element)
            done |= 1 << element
            turns.append(ready())
            continue
        if order:
            done ^= 1 << order.pop()


def fused_rank(
    buffers: Sequence[Buffer],
    homes: Homes,
    order: RankOrder,
    items: Sequence[Any],
    spans: Sequence[range],
) -> FusedRank:
    """Return a rank with the members it has of every buffer.

    Args:
        buffers: The fused buffers of the plan.
        homes: Where their members are (``homes_of``).
        order: The program of the rank, taken apart.
        items: The same as actions of the flat plan.
        spans: The actions of every item.

    Raises:
        UndecidedError: A member is used in a way that is not decided.
    """
    leaves: list[Leaf] = []
    parts: list[int] = []
    below: list[int] = []
    works: set[str] = set()
    for number, (part, item) in enumerate(zip(order.parts, items, strict=True)):
        if not isinstance(part, Leaf | Block):
            continue
        block = part if isinstance(part, Block) else Block((part,), (frozenset(),))
        at_home = [leaf for leaf in block.leaves if home_of(homes, leaf)]
        works.update(leaf.fields["work"] for leaf in at_home if "work" in leaf.fields)
        if not at_home and not (isinstance(part, Block) and _waits_inside(part, item, works)):
            continue
        earlier, base = (1 << len(leaves)) - 1, len(leaves)
        inside = list(block.extension)
        place = {leaf: base + at for at, leaf in enumerate(inside)}
        masks = block.below
        for leaf in inside:
            below.append(earlier | sum(1 << place[b] for b in bits(masks[leaf])))
            leaves.append(block.leaves[leaf])
            parts.append(number)
    held: list[Held] = []
    owner: dict[int, tuple[int, int]] = {}
    members: dict[int, list[int]] = {}
    for at, one in enumerate(leaves):
        for number in home_of(homes, one):
            members.setdefault(number, []).append(at)
    for number, mine in sorted(members.items()):
        buffer = buffers[number]
        whole = _ready(buffer, mine, leaves, parts, below)
        for single, elements in _pool(buffer, whole, mine):
            ready = whole
            if len(elements) < len(mine):
                ready = _ready(single, elements, leaves, parts, below)
            for at, element in enumerate(elements):
                if element in owner:
                    raise UndecidedError(
                        f"{leaves[element].fields['id']} is a member of two fused buffers"
                    )
                owner[element] = len(held), at
            held.append(Held(single, ready, elements))
    return FusedRank(
        order, tuple(items), tuple(leaves), tuple(parts), tuple(below), tuple(held), owner, spans
    )


def _waits_inside(block: Block, item: dict[str, Any], works: set[str]) -> bool:
    """Whether a block without members, and without threads, waits for members in front of it."""
    named = [leaf.fields["work"] for leaf in block.leaves if leaf.fields["op"] in HANDLES]
    if works.isdisjoint(name for one in named for name in ([one] if isinstance(one, str) else one)):
        return False
    return "threads" not in blocks_in(item)


def blocks_in(item: Any) -> Iterator[str]:
    """Yield the op of an item and of everything inside it."""
    if isinstance(item, list):
        for one in item:
            yield from blocks_in(one)
    else:
        yield item["op"]
        yield from blocks_in(item.get(ORDER_BLOCKS.get(item["op"], ""), []))


def _pool(
    buffer: Buffer, ready: Ready, elements: Sequence[int]
) -> list[tuple[Buffer, tuple[int, ...]]]:
    """Return one buffer, or those of a filled pool, to which members are dealt in turn."""
    count = buffer.buffers or 1
    if buffer.is_coordinated or buffer.membership == "fixed" or count == 1:
        return [(buffer, tuple(elements))]
    found = []
    for first in range(count):
        dealt = sorted(ready.declared[first::count])
        if dealt:
            single = replace(buffer, id=f"{buffer.id}[{first}]", buffers=None)
            found.append((single, tuple(elements[at] for at in dealt)))
    return found


def _ready(
    buffer: Buffer,
    elements: Sequence[int],
    leaves: Sequence[Leaf],
    parts: Sequence[int],
    below: Sequence[int],
) -> Ready:
    place = {name: at for at, name in enumerate(buffer.members)}
    number = {element: at for at, element in enumerate(elements)}
    stretches = _stretches(elements)
    masks = tuple(_projected(below[element], stretches) for element in elements)
    declared = sorted(number.values(), key=lambda at: place[leaves[elements[at]].fields["id"]])
    return Ready(
        tuple(leaves[element] for element in elements),
        tuple(parts[element] for element in elements),
        masks,
        tuple(size_of(buffer, leaves[element].fields) for element in elements),
        tuple(declared),
    )


def _stretches(elements: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return elements as stretches that follow each other: first element, place of it, length."""
    found: list[tuple[int, int, int]] = []
    for place, element in enumerate(elements):
        if found and element == sum(found[-1][::2]):
            first, at, length = found[-1]
            found[-1] = first, at, length + 1
        else:
            found.append((element, place, 1))
    return found


def _projected(mask: int, stretches: Sequence[tuple[int, int, int]]) -> int:
    """Return the bits of some elements, numbered by their places among them."""
    found = 0
    for first, place, length in stretches:
        found |= (mask >> first & (1 << length) - 1) << place
    return found
