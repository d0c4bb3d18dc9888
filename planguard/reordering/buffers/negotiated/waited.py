"""What hosts wait for before a negotiated member is submitted, and the orders that leaves.

A host that waits for a member stands until all ranks have submitted it; one that makes a
communicator stands until all of its members are at it, like at a member that is submitted and
waited for at once (ADR 0036).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

from planguard.reordering.blocks import bits
from planguard.reordering.buffers.rank import extensions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.reordering.buffers.negotiated.launched import Member, Program
    from planguard.reordering.buffers.ranks import Ranks
    from planguard.reordering.threads.created import Communicator

ORDERS = 24
"""Most orders of members that are decided."""


def holds_nobody_up(ranks: Ranks, programs: Sequence[Program]) -> bool:
    """Whether no call holds a host up for ever.

    What may hold it up is a wait for a member, until all have submitted it, and making a
    communicator, until all are at it; and they cannot do so in a circle.
    """
    for program in programs:
        for group, *pair in program.creations:
            users = pair or ranks.members[group]
            if any((group, *pair) not in programs[rank].creations for rank in users):
                return False  # a host stands there for ever
    try:
        TopologicalSorter(_before(programs, always=False)).prepare()
    except CycleError:
        return False
    return True


def _before(programs: Sequence[Program], *, always: bool) -> dict[Any, set[Any]]:
    """Return what is waited for before a member is submitted: always, or in some order.

    A rank and the number of a part stand for all that the rank has waited for by the end of it. A
    communicator stands for being made: like a member that is submitted, and waited for at once.
    """
    found: dict[Any, set[Any]] = {}
    for rank, program in enumerate(programs):
        reached: dict[int, list[tuple[int, Any]]] = {}
        stands: dict[int, list[Any]] = {}
        for node, at in (*program.members.items(), *program.creations.items()):
            part = program.elements[at].part
            reached.setdefault(part, []).append((at, node))
            found.setdefault(node, set()).add((rank, part - 1))
        for node, at in program.creations.items():
            stands.setdefault(at, []).append(node)
        for part in range(program.elements[-1].part if program.elements else 0):
            found[rank, part] = {(rank, part - 1)} if part else set()
        for at, one in enumerate(program.elements):
            for other in one.waits:
                stands.setdefault(at, []).append(program.elements[other].member)
            for first in stands.get(at, ()):
                found.setdefault((rank, one.part), set()).add(first)
                for place, later in reached.get(one.part, ()):
                    holds = (
                        at in program.elements[place].below if always else place not in one.below
                    )
                    if holds and later != first:
                        found[later].add(first)
    return found


@dataclass(frozen=True)
class Waited:
    """What comes before what in some programs: always, or in some order.

    Attributes:
        named: All members and what is made, by their numbers.
        behind: For each of them, the bit mask of those before it.
        made: For every member, what is made before all ranks have submitted it.
    """

    named: list[Any]
    behind: dict[Any, int]
    made: dict[Member, frozenset[Communicator]]


def waited(programs: Sequence[Program], *, always: bool) -> Waited:
    """Return what comes before what."""
    before = _before(programs, always=always)
    named = list(dict.fromkeys(node for one in programs for node in (*one.members, *one.creations)))
    bit = {node: 1 << at for at, node in enumerate(named)}
    behind: dict[Any, int] = {}
    for node in TopologicalSorter(before).static_order():
        mask = 0
        for first in before.get(node, ()):
            mask |= behind[first] | bit.get(first, 0)
        behind[node] = mask
    made = {node for one in programs for node in one.creations}
    mask = sum(1 << at for at, node in enumerate(named) if node in made)
    members = dict.fromkeys(name for one in programs for name in one.members)
    return Waited(
        named,
        behind,
        {name: frozenset(named[at] for at in bits(behind[name] & mask)) for name in members},
    )


def orders_of(
    waited: Waited,
) -> Iterator[tuple[tuple[Member, frozenset[Communicator]], ...]]:
    """Yield the orders in which the members of each group may be launched."""
    behind, made = waited.behind, waited.made
    place = {node: at for at, node in enumerate(waited.named)}
    each: list[list[tuple[Member, ...]]] = []
    for group in dict.fromkeys(group for group, _ in made):
        mine = [name for name in made if name[0] == group]
        below = [
            sum(1 << at for at, first in enumerate(mine) if behind[name] >> place[first] & 1)
            for name in mine
        ]
        some = itertools.islice(extensions(below), ORDERS + 1)
        each.append([tuple(mine[at] for at in order) for order in some])
    for chosen in itertools.product(*each):
        yield tuple((name, made[name]) for name in itertools.chain.from_iterable(chosen))
