"""The orders in which the threads of a rank may make their calls, as far as they differ.

A program is a series of calls and forks; a fork is several programs side by side, joined at its
end, to any depth. A block of open order is one series for each of its orders; threads that stand in
one are one item of it, since the host that picks the order begins and joins them.

Above 400 lines: what an order holds follows from the program, its blocks, its exits and its needs.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planguard.execution.findings.reason import UndecidedError
from planguard.execution.running.expand import expand
from planguard.plan.fixed import AT
from planguard.plan.vocabulary import (
    CREATIONS,
    LASTING,
    MESSAGES,
    ORDER_BLOCKS,
    POINT_TO_POINT,
    RECEIVES,
    SENDS,
    takes_round,
)
from planguard.reordering.blocks import Block, Leaf, extensions, take_apart, taken
from planguard.reordering.branches.assignments import leaves
from planguard.reordering.messages.wildcards import ANY
from planguard.reordering.strategy import label_movable
from planguard.reordering.threads.lanes import Call, Home, is_beside, orders_of
from planguard.semantics.model import Family

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from planguard.execution.findings.reason import Reason
    from planguard.plan.fixed import FixedPlan
    from planguard.semantics.model import ExecutionModel

_HOST_ONLY = CREATIONS | {"test"}

Needs = dict[int, frozenset[int]]
"""Action -> actions of other threads that it is called after: by `after`, a handle or a result."""


@dataclass(frozen=True)
class Way:
    """One order of the calls of a rank.

    Attributes:
        actions: The annotated actions, in that order.
        calls: What each of them is: its thread, and the calls of other threads before it.
        leaves: Whether the last action is an `exit` in a thread: the rank leaves there.
        stays: The threads with an exit that the rank must not reach in this order.
    """

    actions: tuple[dict[str, Any], ...]
    calls: tuple[Call, ...]
    leaves: bool = False
    stays: frozenset[Home] = frozenset()


@dataclass(frozen=True)
class _Fork:
    """Threads that begin together and are joined.

    Attributes:
        number: What tells the forks of a rank apart: the action index of the block.
        threads: A series for each of them.
    """

    number: int
    threads: tuple[_Series, ...]


_Series = tuple[dict[str, Any] | _Fork, ...]


@dataclass(frozen=True)
class Orders:
    """The program of one rank.

    Attributes:
        items: The annotated actions and blocks.
        needs: What threads wait for besides: calls of other threads.
        any_source: Receives from anybody take messages that others wait for: their order counts.
        device: What is called goes to a device, whose queues hold it in the order of the calls.
        takes_along: An exit takes along what its rank has called and what has not met yet.
        numbered: A collective carries how many messages its rank made before it on the group.
    """

    items: tuple[dict[str, Any], ...]
    needs: Needs
    any_source: bool
    device: bool = False
    takes_along: bool = False
    numbered: bool = False

    def ways(self) -> Iterator[Way]:
        """Yield every order, orders that differ only where nothing can tell them apart once.

        An `exit` in a thread comes before or after each call of the others: what comes after it
        is never called, so orders of that are one.
        """
        for program, before, queues in self._laid_out():
            exits = program.exits()
            if exits:
                yield from self._leaving(program, before, queues, exits)
                continue
            for order in orders_of(before, queues):
                yield self._way(program, order, queues)

    def count(self, limit: int) -> int:
        """Return how many ways there are, or ``limit`` when there are at least as many."""
        if any(fields["op"] == "exit" for fields in leaves(self.items)):
            return sum(1 for _ in itertools.islice(self.ways(), limit))
        orders = (
            order for _, before, queues in self._laid_out() for order in orders_of(before, queues)
        )
        return sum(1 for _ in itertools.islice(orders, limit))

    def way(self, actions: Sequence[int]) -> Way | None:
        """Return the way in which actions are called in a given order.

        None where there are several programs, blocks of open order or an exit in a thread: then the
        order of the calls does not say it all.
        """
        found = list(itertools.islice(self._laid_out(), 2))
        program, before, queues = found[0]
        if len(found) > 1 or program.exits():
            return None
        number = {fields[AT]: at for at, fields in enumerate(program.fields)}
        order = [number[action] for action in actions if action in number]
        place = {at: turn for turn, at in enumerate(order)}
        if len(place) < len(before):
            return None
        if any(place[one] > place[at] for at, first in enumerate(before) for one in first):
            return None
        return self._way(program, order, queues)

    def _laid_out(self) -> Iterator[tuple[_Program, list[frozenset[int]], list[set[Any]]]]:
        """Yield every program, the calls before each of its calls, and the queues of each."""
        for series in _in_series(self.items):
            program = _Program()
            program.add(series, (), frozenset())
            queues = [
                self._queues(fields) if home else set()
                for fields, home in zip(program.fields, program.homes, strict=True)
            ]
            if self.numbered:
                _count_messages(program, queues)
            yield program, program.with_needs(self.needs), queues

    def _leaving(
        self,
        program: _Program,
        before: Sequence[frozenset[int]],
        queues: Sequence[set[Any]],
        exits: set[int],
    ) -> Iterator[Way]:
        """Yield every order that ends with an `exit` in a thread, and those in which none is made.

        In the others every thread with an exit is stuck in front of it, whatever else is called.
        """
        every = [found | {("exit", at)} for at, found in enumerate(queues)]
        for one in exits:
            every[one] |= {("exit", at) for at in range(len(every))}
        seen: set[tuple[int, ...]] = set()
        for order in orders_of(before, every):
            kept = order[: min(map(order.index, exits)) + 1]
            if tuple(kept) not in seen:
                seen.add(tuple(kept))
                yield self._cut(program, before, kept, queues)
        never = _behind(before, exits)
        called = [at for at in range(len(before)) if at not in never]
        number = {at: place for place, at in enumerate(called)}
        homes = frozenset(program.homes[at] for at in exits - never)
        for order in orders_of(
            [frozenset(number[one] for one in before[at]) for at in called],
            [queues[at] for at in called],
        ):
            way = self._way(program, [called[place] for place in order], queues)
            # What does nothing stands for an exit, so that its thread has an end to be kept from.
            yield replace(way, actions=tuple(map(_without_exit, way.actions)), stays=homes)

    def _cut(
        self,
        program: _Program,
        before: Sequence[frozenset[int]],
        kept: list[int],
        queues: Sequence[set[Any]],
    ) -> Way:
        """Return an order that ends with an `exit` in a thread.

        Another thread may stand in its last call then: what it called is there, and it waits for
        nothing any more. Where the exit takes along what has not met, such a call is as good as not
        made, which is an order of its own.
        """
        way = replace(self._way(program, kept, queues), leaves=True)
        if self.takes_along:
            return way
        preceding = frozenset[int]().union(*(before[at] for at in kept))
        calls = tuple(
            call if at in preceding or at == kept[-1] else replace(call, is_last=True)
            for at, call in zip(kept, way.calls, strict=True)
        )
        return replace(way, calls=calls)

    def _way(self, program: _Program, order: list[int], queues: Sequence[set[Any]]) -> Way:
        earlier: dict[int, dict[Home, list[int]]] = {}
        """Per outermost fork and thread, the places of its calls so far."""
        places: dict[int, int] = {}
        calls: list[Call] = []
        for place, at in enumerate(order):
            home, action = program.homes[at], program.fields[at][AT]
            places[action] = place
            threads = earlier.setdefault(home[0][0], {}) if home else {}
            # Of each thread the last one: it makes the others before that.
            behind = tuple(
                sorted(
                    last
                    for other, mine in threads.items()
                    if is_beside(other, home)
                    for last in itertools.islice(
                        (one for one in reversed(mine) if queues[order[one]] & queues[at]), 1
                    )
                )
            )
            threads.setdefault(home, []).append(place)
            after = tuple(sorted(places[one] for one in self.needs.get(action, ())))
            calls.append(Call(home, behind, after))
        return Way(tuple(program.fields[at] for at in order), tuple(calls))

    def _queues(self, fields: dict[str, Any]) -> set[Any]:
        """Return the communicators and ends of channels on which a call takes a position."""
        found: set[Any] = set()
        if self.device:
            # Streams and queues are first in, first out, and a synchronization of the host waits
            # for what was called before it: the order of any two of them may tell.
            return found if fields["op"] in _HOST_ONLY else {"device"}
        for part in fields["ops"] if fields["op"] == "batch" else [fields]:
            op, group = part["op"], part.get("group", fields.get("group", "world"))
            if takes_round(op):
                found.add(("round", group))
            elif op in SENDS:
                found.add(("send", group, part["peer"], self._tag(part)))
            elif op in POINT_TO_POINT and self.any_source:
                found.add(("recv", group))
            elif op in POINT_TO_POINT:
                found.add(("recv", group, part["peer"], part.get("tag", 0)))
        return found

    def _tag(self, part: dict[str, Any]) -> Any:
        return None if self.any_source else part.get("tag", 0)


class _Program:
    """A series laid out: its calls, the thread of each, and the calls right before it."""

    def __init__(self) -> None:
        self.fields: list[dict[str, Any]] = []
        self.homes: list[Home] = []
        self.before: list[frozenset[int]] = []

    def add(self, series: _Series, home: Home, first: frozenset[int]) -> frozenset[int]:
        """Append a series; return the calls that precede whatever follows it."""
        for item in series:
            if isinstance(item, _Fork):
                ends = [
                    self.add(thread, (*home, (item.number, number)), first)
                    for number, thread in enumerate(item.threads)
                ]
                first = first.union(*ends)
                continue
            self.before.append(first)
            first = frozenset({len(self.fields)})
            self.fields.append(item)
            self.homes.append(home)
        return first

    def exits(self) -> set[int]:
        """Return the places of the exits in threads."""
        pairs = zip(self.fields, self.homes, strict=True)
        return {at for at, (fields, home) in enumerate(pairs) if home and fields["op"] == "exit"}

    def with_needs(self, needs: Needs) -> list[frozenset[int]]:
        """Return the calls before each call, those of other threads too."""
        if not needs:
            return self.before
        number = {fields[AT]: at for at, fields in enumerate(self.fields)}
        return [
            first | {number[one] for one in needs.get(fields[AT], ())}
            for fields, first in zip(self.fields, self.before, strict=True)
        ]


def _count_messages(program: _Program, queues: Sequence[set[Any]]) -> None:
    """Let a collective and each message of its group share a queue.

    The number of the collective follows from which messages were called before it, not from their
    order among themselves, so each message has a queue of its own.
    """
    messages: dict[str, set[Any]] = {}
    rounds: list[tuple[int, str]] = []
    for at, fields in enumerate(program.fields):
        if not program.homes[at]:
            continue
        for part in fields["ops"] if fields["op"] == "batch" else [fields]:
            group = part.get("group", fields.get("group", "world"))
            if takes_round(part["op"]):
                rounds.append((at, group))
            elif part["op"] in MESSAGES:
                messages.setdefault(group, set()).add(("number", at))
                queues[at].add(("number", at))
    for at, group in rounds:
        queues[at] |= messages.get(group, set())


def _without_exit(fields: dict[str, Any]) -> dict[str, Any]:
    if fields["op"] != "exit":
        return fields
    return {"op": "compute", "op_name": "exit", AT: fields[AT]}


def _behind(before: Sequence[frozenset[int]], first: set[int]) -> set[int]:
    """Return what comes after one of some calls, in its thread and where that is joined."""
    found, new = set[int](), first
    while new:
        new = {at for at, earlier in enumerate(before) if earlier & new} - found
        found |= new
    return found


def _in_series(items: Iterable[Any]) -> Iterator[_Series]:
    """Yield a series for all orders of the blocks of open order in some items."""
    # No recursion over the length of a program, only over the depth of its blocks.
    for chosen in itertools.product(*(_alternatives(item) for item in items)):
        yield tuple(itertools.chain.from_iterable(chosen))


def _alternatives(item: dict[str, Any]) -> list[_Series]:
    if item["op"] == "threads":
        threads = itertools.product(*(list(_in_series(thread)) for thread in item["threads"]))
        return [(_Fork(item[AT], chosen),) for chosen in threads]
    if item["op"] in ORDER_BLOCKS:
        return list(_picked(item))
    return [(item,)]


def _picked(item: dict[str, Any]) -> Iterator[_Series]:
    """Yield a series for every order of a block of open order."""
    block = _contracted(item)
    if len(block.extension) < len(block.leaves):
        raise UndecidedError("threads in a block that no order of its items begins and joins")
    inside = [_alternatives(leaf.fields) for leaf in block.leaves]
    for order in extensions(block):
        for chosen in itertools.product(*(inside[at] for at in order)):
            yield tuple(itertools.chain.from_iterable(chosen))


def orders_of_block(item: dict[str, Any]) -> Iterator[list[Any]]:
    """Yield the items of a block of open order in every order; threads stay one of them.

    Args:
        item: The annotated block.

    Raises:
        UndecidedError: No order of its items begins and joins the threads in it.
    """
    return (list(_nested(series, frozenset())) for series in _picked(item))


def _nested(series: _Series, inside: frozenset[str]) -> Iterator[dict[str, Any]]:
    """Yield a series as actions and threads; what comes after what stands in front says so no more.

    Args:
        series: The series.
        inside: What calls in the threads around it may be said to come after.
    """
    for item in series:
        if isinstance(item, _Fork):
            mine = inside | {fields["id"] for fields in _calls(item) if "id" in fields}
            threads = [list(_nested(thread, mine)) for thread in item.threads]
            yield {"op": "threads", "threads": threads, AT: item.number}
            continue
        named = [*item.get("after", ()), *item.get("x-after", ())]
        left = [one for one in dict.fromkeys(named) if one in inside]
        kept = {key: value for key, value in item.items() if key not in {"after", "x-after"}}
        yield kept | ({"after": left} if left else {})


def _calls(fork: _Fork) -> Iterator[dict[str, Any]]:
    for thread in fork.threads:
        for item in thread:
            if isinstance(item, _Fork):
                yield from _calls(item)
            else:
                yield item


def _contracted(item: dict[str, Any]) -> Block:
    """Return a block of open order in which threads are one leaf, with all that their calls need.

    What comes after a call of theirs comes after all of them: the host has to join them first.
    """
    block = taken(item)
    assert isinstance(block, Block)  # noqa: S101  of an item that is one
    around = {fields[AT]: outer for outer in _outermost(item["body"]) for fields in leaves([outer])}
    if not around:
        return block
    found: list[Leaf] = []
    place: dict[int, int] = {}
    node: list[int] = []
    for leaf in block.leaves:
        outer = around.get(leaf.fields[AT])
        name = leaf.fields[AT] if outer is None else outer[AT]
        if name not in place:
            place[name] = len(found)
            found.append(leaf if outer is None else Leaf(outer, -1))
        node.append(place[name])
    before: list[set[int]] = [set() for _ in found]
    for at, first in enumerate(block.before):
        before[node[at]] |= {node[one] for one in first} - {node[at]}
    return Block(tuple(found), tuple(map(frozenset, before)))


def _outermost(items: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the `threads` blocks of a block of open order that no other one holds."""
    for item in items:
        if isinstance(item, list):
            yield from _outermost(item)
        elif item["op"] == "threads":
            yield item
        elif item["op"] in ORDER_BLOCKS:
            yield from _outermost(item["body"])


def orders_of_ranks(
    flat: dict[str, Any], ordered: FixedPlan, model: ExecutionModel, *, any_source: bool
) -> tuple[list[Orders], Reason | None]:
    """Return the order structure of every rank of a plan with threads.

    And why calls that may change places cannot be told apart, if they cannot: without labels.

    Args:
        flat: The annotated flat plan.
        ordered: The plan with every `threads` as an `unordered` block of chains, for identities.
        model: The execution model.
        any_source: Whether receives may take the messages of more than one channel.

    Raises:
        UndecidedError: Threads are used in a way that is not decided.
    """
    ranks = {int(rank): body["actions"] for rank, body in flat["ranks"].items()}
    allowed = frozenset[str]() if model.one_lock else CREATIONS
    if not (model.one_lock or model.pre_barrier):
        allowed |= {"exit"}
    for actions in ranks.values():
        for item in actions:
            _check(item, LASTING - allowed)
            _check_creations(item)
    named, problem = _named(flat, ordered, use_tags=model.use_tags)
    return [
        Orders(
            tuple(named[rank]),
            _needs(named[rank]),
            any_source,
            device=model.family is Family.DEVICE,
            takes_along=model.exit_withdraws,
            numbered=model.counts_messages,
        )
        for rank in sorted(ranks)
    ], problem


def _named(
    flat: dict[str, Any], ordered: FixedPlan, *, use_tags: bool
) -> tuple[dict[int, Any], Reason | None]:
    """Give calls that may change places their implicit identity; say why if they have none.

    A receive from anybody says that any message will do, so two of them need none, no more than
    where one thread calls both. What order they are called in is searched all the same. In a block
    of open order they need one: there the plan format asks it of every call.
    """
    columns = expand(ordered.plan)
    _, orders = take_apart(ordered.plan, columns)
    use_tags = use_tags and not columns.has_any_tag
    anybody = {
        (int(rank), fields[AT])
        for rank, body in flat["ranks"].items()
        for fields in leaves(body["actions"])
        if fields["op"] in RECEIVES and fields["peer"] == ANY
    } - _loose(flat)
    unnamed = {
        (rank, action)
        for rank, places in enumerate(ordered.origin)
        for action, place in enumerate(places)
        if (rank, place) in anybody
    }
    problem = label_movable(ordered.plan, orders, use_tags=use_tags, unnamed=unnamed)
    if problem is not None:
        return {int(rank): body["actions"] for rank, body in flat["ranks"].items()}, problem
    labels: dict[tuple[int, int], str] = {}
    for order in orders:
        for block in order.blocks:
            for leaf in block.leaves:
                if "label" in leaf.fields:
                    place = order.rank, ordered.origin[order.rank][leaf.action]
                    labels[place] = leaf.fields["label"]
    return {
        int(rank): _labeled(body["actions"], int(rank), labels)
        for rank, body in flat["ranks"].items()
    }, None


def _loose(flat: dict[str, Any]) -> set[tuple[int, int]]:
    """Return rank and action of what stands in a block of open order, in or around threads."""
    return {
        (int(rank), at)
        for rank, body in flat["ranks"].items()
        for at, (_, is_loose) in _homes(body["actions"], ())
        if is_loose
    }


def _labeled(items: Any, rank: int, labels: dict[tuple[int, int], str]) -> Any:
    out: list[Any] = []
    for item in items:
        if isinstance(item, list):
            out.append(_labeled(item, rank, labels))
        elif item["op"] in ORDER_BLOCKS:
            name = "threads" if item["op"] == "threads" else "body"
            out.append({**item, name: _labeled(item[name], rank, labels)})
        else:
            label = labels.get((rank, item[AT]))
            out.append(item if label is None else {**item, "label": label})
    return out


# --- what threads wait for besides ---------------------------------------------------------------


def _needs(items: Iterable[dict[str, Any]]) -> Needs:
    """Return what calls of a rank wait for that other threads call.

    Raises:
        UndecidedError: A block of open order stands around or in such threads: what its host picks
            next then depends on what the other thread has called.
    """
    found: Needs = {}
    for item in items:
        block = taken(item)
        if not isinstance(block, Block):
            continue
        homes = dict(_homes([item], ()))
        action = [leaf.fields[AT] for leaf in block.leaves]
        for at, first in enumerate(block.before):
            mine = {action[one] for one in first}
            others = frozenset(
                one for one in mine if is_beside(homes[one][0], homes[action[at]][0])
            )
            if others and any(homes[one][1] for one in (action[at], *others)):
                raise UndecidedError("calls of two threads in a given order beside `unordered`")
            if others:
                found[action[at]] = others
    return found


def _homes(items: Iterable[Any], home: Home, *, loose: bool = False) -> Iterator[Any]:
    """Yield, for every action, its thread and whether a block of open order stands around it."""
    for item in items:
        if isinstance(item, list):
            yield from _homes(item, home, loose=loose)
        elif item["op"] == "threads":
            for number, thread in enumerate(item["threads"]):
                yield from _homes(thread, (*home, (item[AT], number)), loose=loose)
        elif item["op"] in ORDER_BLOCKS:
            yield from _homes(item["body"], home, loose=True)
        else:
            yield item[AT], (home, loose)


# --- what is not decided -----------------------------------------------------------------------


def _check_creations(item: dict[str, Any]) -> None:
    """Refuse threads beside a creation in another one that says what they use.

    torch names a group by the place of its creation among those of the process, and from then on
    its calls go by that name: with one thread that creates and calls behind it, all of that is the
    same in every order. Groups of a family are created together.
    """
    homes = dict(_homes([item], ()))
    calls = [(fields, homes[fields[AT]][0]) for fields in leaves([item])]
    for made, home in calls:
        if made["op"] != "new_group":
            continue
        for fields, its in calls:
            is_used = fields["op"] == "new_group" or _family(made) in map(_family, _parts(fields))
            if is_used and is_beside(home, its):
                raise UndecidedError("new_group beside a thread that creates or uses groups, too")


def _parts(fields: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"group": fields.get("group", "world")} | part for part in fields.get("ops", [fields])]


def _family(fields: dict[str, Any]) -> str:
    """Return the name of a group, or that which all groups of its family have in common."""
    name: str = fields.get("group", "world")
    return name.partition("[")[0]


def _check(item: Any, alone: frozenset[str]) -> None:
    """Refuse threads with what lasts behind them."""
    for outer in _outermost([item]):
        for fields in leaves([outer]):
            if fields["op"] in alone:
                raise UndecidedError(f"{fields['op']} in a thread where a call blocks its thread")
