"""Rank programs without negotiated buffers, whose members are launched in the background.

What they say together, and where that is all that happens, is in ``background``.

Above 400 lines: a program is taken apart here and written again, with launches or with messages.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from planguard.plan.fixed import AT, written
from planguard.plan.vocabulary import BLOCKING, HANDLES, OPEN_BLOCKS, ORDER_BLOCKS
from planguard.reordering.blocks import Block, Leaf, bits
from planguard.reordering.branches.assignments import leaves
from planguard.reordering.buffers.beside import FORK, JOIN, Fork, Join, nested
from planguard.reordering.buffers.members import handles_of
from planguard.reordering.buffers.merge import with_groups
from planguard.reordering.buffers.policies import own_of
from planguard.reordering.buffers.rank import blocks_in
from planguard.reordering.threads.created import made_by

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from planguard.execution.findings.reason import UndecidedError
    from planguard.plan.fixed import FixedPlan
    from planguard.reordering.buffers.members import Buffer
    from planguard.reordering.buffers.ranks import Ranks
    from planguard.reordering.threads.created import Communicator
    from planguard.semantics.model import ExecutionModel

Member = tuple[str, str]
"""Group that negotiates, and the name of a member."""


@dataclass
class Element:
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
class Program:
    """A rank program as elements; parts that are not taken apart are kept as they are.

    Among those kept are the ends of a thread that is played, with the threads beside it.
    """

    elements: list[Element]
    kept: dict[int, dict[str, Any]]
    creations: dict[Communicator, int] = field(default_factory=dict)
    """Communicators that the rank makes, by the elements in which its host stands for that."""

    @cached_property
    def members(self) -> dict[Member, int]:
        """Its members, by their elements; asked once they are known."""
        return {one.member: at for at, one in enumerate(self.elements) if one.member is not None}

    def is_silent(self, at: int) -> bool:
        """Tell whether nobody notices an element: a computation that waits for nothing."""
        fields = self.elements[at].fields
        return fields["op"] == "compute" and not fields.get("deps")

    def without(self, lost: Collection[Member]) -> Program:
        """Return the program without some members that nobody launches, but those it waits for."""
        waited = {at for one in self.elements for at in one.waits}
        places = {at for name, at in self.members.items() if name in lost} - waited
        silent = {"op": "compute", "op_name": "submit"}
        elements = [
            replace(one, member=None, fields=silent) if at in places else one
            for at, one in enumerate(self.elements)
        ]
        return replace(self, elements=elements) if places else self

    def with_creations(self, rank: int, model: ExecutionModel, refused: UndecidedError) -> Program:
        """Return the program with the communicators that its calls make.

        Raises:
            UndecidedError: ``refused``: which of several calls of a part is the first is open.
        """
        made: dict[Communicator, int] = {}
        before: set[Communicator] = set()
        for _, each in itertools.groupby(
            range(len(self.elements)), lambda at: self.elements[at].part
        ):
            first: dict[Communicator, list[int]] = {}
            for at in each:
                if self.elements[at].member is None:
                    for one in made_by(self.elements[at].fields, rank, model) - before:
                        first.setdefault(one, []).append(at)
            for one, users in first.items():
                lead = users[0]
                if any(lead not in self.elements[at].below for at in users[1:]):
                    raise refused
                made[one] = lead
            before |= first.keys()
        if len(set(made.values())) < len(made):
            raise refused  # a call that makes two: one after the other
        return replace(self, creations=made)

    def created(self, *, first: bool) -> Program:
        """Return the program in those orders in which each part makes communicators first, or last.

        That is, before its members, or behind them, where the program leaves it open.
        """
        below = [set(one.below) for one in self.elements]
        for at in self.creations.values():
            for place in self.members.values():
                is_open = place not in below[at] and at not in below[place]
                if not is_open or self.elements[place].part != self.elements[at].part:
                    continue
                one, then = (at, place) if first else (place, at)
                for over in range(len(below)):
                    if over == then or then in below[over]:
                        below[over] |= below[one] | {one}
        elements = [
            replace(one, below=mine) for one, mine in zip(self.elements, below, strict=True)
        ]
        return replace(self, elements=elements)


# --- taking apart ------------------------------------------------------------------------------


def taken(
    ranks: Ranks, rank: int, negotiated: Sequence[Buffer], refused: UndecidedError
) -> Program:
    """Return a rank as elements.

    Raises:
        UndecidedError: ``refused``: a member is used in a way that is not decided here.
    """
    fused = ranks[rank]
    homes = {
        id(leaf.fields): (held.buffer.group, held.ready.name(at))
        for held in fused.held
        if held.buffer.coordination == "negotiated"
        for at, leaf in enumerate(held.ready.leaves)
    }
    found = Program([], {})
    for number, (part, item) in enumerate(zip(fused.order.parts, fused.items, strict=True)):
        if isinstance(part, Block) and "threads" not in blocks_in(item):
            _add(found, number, part.leaves, part.below, homes)
        elif isinstance(part, Leaf):
            _add(found, number, (part,), (0,), homes)
        elif isinstance(part, Fork):
            sides = (_at(threads, iter(places)) for threads, places in (part.before, part.behind))
            before, behind = sides
            fork = {"op": FORK, "kept": part.kept, "before": before, "behind": behind}
            found.kept[number] = fork
        elif isinstance(part, Join):
            found.kept[number] = {"op": JOIN}
        else:
            found.kept[number] = _at(item, (leaf.action for leaf in part.leaves))
    works = {name: at for at in found.members.values() for name in _works(found.elements[at])}
    if len(found.members) != len(homes):
        raise refused  # a name that comes twice, or a member in threads
    started = Counter(
        name for one in found.elements if one.fields["op"] not in HANDLES for name in _works(one)
    )
    if any(started[name] > 1 for name in works):
        raise refused  # whose handle a wait names is told by its place
    ids = {name for buffer in negotiated for name in buffer.members}
    _find_waits(found, works, ids, refused)
    for item in found.kept.values():
        beside = [item.get("before", []), item.get("behind", [])] if item["op"] == FORK else [item]
        for fields in leaves(beside if item["op"] != JOIN else []):
            named = handles_of(fields) if fields["op"] in HANDLES else []
            others = [*fields.get("after", ()), *fields.get("deps", ())]
            if not (works.keys().isdisjoint(named) and ids.isdisjoint(others)):
                raise refused
    return found


def _at(item: Any, places: Iterator[int]) -> Any:
    """Return an item whose actions say which of the plan they are."""
    if isinstance(item, list):
        return [_at(one, places) for one in item]
    inner = ORDER_BLOCKS.get(item["op"])
    return {**item, inner: _at(item[inner], places)} if inner else {**item, AT: next(places)}


def _add(
    program: Program,
    part: int,
    leaves: Sequence[Leaf],
    masks: Sequence[int],
    homes: dict[int, Member],
) -> None:
    """Add the actions of a part; a member that is waited for at once is two, with its wait."""
    places: list[range] = []
    end = len(program.elements)
    for leaf in leaves:
        is_two = id(leaf.fields) in homes and not leaf.fields.get("async")
        places.append(range(end, end + 1 + is_two))
        end = places[-1].stop
    for leaf, mask, mine in zip(leaves, masks, places, strict=True):
        below = {at for one in bits(mask) for at in places[one]}
        fields, handle = leaf.fields, f"~{leaf.action}"
        if len(mine) > 1:
            fields = {**fields, "async": True, "work": handle}
        member = homes.get(id(leaf.fields))
        program.elements.append(Element(part, fields, leaf.action, below, member))
        if len(mine) > 1:
            waiting = {"op": "wait", "work": handle}
            program.elements.append(Element(part, waiting, leaf.action, below | {mine[0]}))


def _find_waits(
    program: Program, works: dict[str, int], ids: set[str], refused: UndecidedError
) -> None:
    """Note who waits for which member; refuse what else names one."""
    for one in program.elements:
        if one.member is None:
            one.waits = [works[name] for name in _works(one) if name in works]
        if one.waits and (one.fields["op"] != "wait" or one.fields.get("mode", "all") != "all"):
            raise refused
        if ids & set(one.fields.get("deps", ())):
            raise refused


# --- writing -----------------------------------------------------------------------------------


def _works(one: Element) -> list[str]:
    return handles_of(one.fields)


def in_full(ranks: Ranks, programs: Sequence[tuple[list[Any], dict[str, list[int]]]]) -> FixedPlan:
    """Return the plan that programs make, with the buffers that are not negotiated."""
    groups = with_groups(ranks, [more for _, more in programs])
    left = [spec for spec in ranks.fusion if spec.get("coordination", "none") != "negotiated"]
    head = {**ranks.head, "groups": groups, **({"fusion": left} if left else {})}
    return written(head, {str(rank): actions for rank, (actions, _) in enumerate(programs)})


def launched(
    program: Program,
    order: Sequence[tuple[Member, frozenset[Communicator]]],
    groups: dict[str, list[int]],
    refused: UndecidedError,
) -> tuple[list[Any], dict[str, list[int]]]:
    """Return a program in which members may be launched anywhere up to the wait for them.

    Args:
        program: The program.
        order: The members in the order of their launches, each with the communicators that are made
            before it is submitted everywhere: no launch comes before that.
        groups: The groups that negotiate.
        refused: What is raised where calls cannot be told apart.
    """
    order = [one for one in order if one[0] in program.members]
    parts = max((one.part for one in program.elements), default=-1) + 1
    ends = dict.fromkeys(program.members.values(), parts - 1)
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
    of_part: list[list[int]] = [[] for _ in range(parts)]
    for at, one in enumerate(program.elements):
        of_part[one.part].append(at)
    actions: list[Any] = []
    part = 0
    while part < parts:
        last = next((end for first, end in windows if first == part), part)
        inside = list(itertools.chain.from_iterable(of_part[part : last + 1]))
        body = _window(program, inside, order, refused)
        actions += [{"op": "unordered", "body": body}] if len(body) > 1 else body
        part = last + 1
    return actions, {own_of(group): mine for group, mine in groups.items()}


def _alone(member: Member) -> str:
    return f"{member} in the background"


def _plain(one: Element) -> dict[str, Any]:
    kept = {key: value for key, value in one.fields.items() if key not in {"x-after", "after"}}
    return {**kept, AT: one.at}


def _window(
    program: Program,
    inside: Sequence[int],
    order: Sequence[tuple[Member, frozenset[Communicator]]],
    refused: UndecidedError,
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
    chains: dict[str, int] = {}
    """Per group, the member in front."""
    for name, made in order:
        place = program.members[name]
        if place not in after:
            continue
        for one in made & program.creations.keys():
            # Behind what the host issued before it stood there. The call itself it enqueues once
            # the communicator is there, when the background may have gone on.
            after[place] |= after.get(program.creations[one], set())
        if name[0] in chains:
            after[place].add(chains[name[0]])
        chains[name[0]] = place
    body = []
    for at in inside:
        action = _plain(elements[at])
        member = elements[at].member
        if member is not None:
            action |= {"group": own_of(member[0]), "label": member[1]}
        action["id"] = names[at]
        if after[at]:
            action["after"] = [names[one] for one in sorted(after[at])]
        body.append(action)
    return body


def _names(program: Program, inside: Sequence[int], refused: UndecidedError) -> dict[int, str]:
    """Return a name for every element of a block, in which a handle is to stand for one call."""
    elements = program.elements
    calls = [elements[at].fields for at in inside if elements[at].fields["op"] != "wait"]
    started = [call["work"] for call in calls if isinstance(call.get("work"), str)]
    names = {at: str(elements[at].fields.get("id", f"~{at}")) for at in inside}
    if len(set(started)) < len(started) or len(set(names.values())) < len(names):
        raise refused
    return names


def told(
    program: Program, rank: int, groups: dict[str, list[int]], refused: UndecidedError
) -> tuple[list[Any], dict[str, list[int]]]:
    """Return a program that tells the other ranks of each member by messages."""
    if any(one.fields["op"] in OPEN_BLOCKS for one in program.elements):
        raise refused
    said: dict[int, list[dict[str, Any]]] = {}
    waited = {at for one in program.elements for at in one.waits}
    for (group, name), at in program.members.items():
        said[at] = [
            {"op": op, "peer": peer, "group": _alone((group, name)), "bytes": 1,
             # A handle that nobody waits for would be told as one that the program has.
             **({"work": f"~{op}~{at}~{peer}"} if at in waited else {}),
             AT: program.elements[at].at}
            for op in BLOCKING for peer in groups[group] if peer != rank
        ]  # fmt: skip
    actions: list[Any] = []
    by_part = itertools.groupby(range(len(program.elements)), lambda at: program.elements[at].part)
    parts: dict[int, list[int]] = {number: list(each) for number, each in by_part}
    for number in sorted({*parts, *program.kept}):
        if number in program.kept:
            actions.append(program.kept[number])
            continue
        mine = parts[number]
        issued = {at: _issued(program, at, said) for at in mine}
        if len(mine) == 1 or all(at in said or program.is_silent(at) for at in mine):
            # Messages to submit hold nobody up, so their order plays no part.
            actions += itertools.chain.from_iterable(issued[at] for at in mine)
            continue
        names = _names(program, mine, refused)
        block = {
            at: [f"{names[at]}~{n}" for n in range(len(issued[at]))] if at in said else [names[at]]
            for at in mine
        }
        body = []
        for at in mine:
            below = [name for low in sorted(program.elements[at].below) for name in block[low]]
            for one, name in zip(issued[at], block[at], strict=True):
                body.append({**one, "id": name, **({"after": below} if below else {})})
        actions.append({"op": "unordered", "body": body})
    return nested(actions), {_alone(member): groups[member[0]] for member in program.members}


def launched_alone(
    program: Program, members: Collection[Member], groups: dict[str, list[int]]
) -> tuple[list[Any], dict[str, list[int]]]:
    """Return a program of nothing but some members, each matched by its name."""
    actions = [
        {**_plain(program.elements[at]), "group": _alone(member), "label": member[1]}
        for member, at in program.members.items()
        if member in members
    ]
    return actions, {_alone(member): groups[member[0]] for member in members}


def _issued(
    program: Program, at: int, said: dict[int, list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Return what is issued for an element: messages for a member, and a wait for those."""
    if at in said:
        return said[at]
    one = program.elements[at]
    action = _plain(one)
    if one.waits:
        mine = {program.elements[low].fields["work"] for low in one.waits}
        kept = [name for name in _works(one) if name not in mine]
        names = kept + [message["work"] for low in one.waits for message in said[low]]
        return [{**action, "work": names}] if names else []
    return [action]
