"""The orders in which the threads of a rank may make their calls, as far as they differ."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.execution.findings.reason import UndecidedError
from planguard.execution.running.expand import expand
from planguard.plan.fixed import AT
from planguard.plan.vocabulary import LASTING, ORDER_BLOCKS, POINT_TO_POINT, SENDS, takes_round
from planguard.reordering.blocks import Block, extensions, take_apart, taken
from planguard.reordering.branches.assignments import leaves
from planguard.reordering.strategy import label_movable
from planguard.reordering.threads.lanes import Call, orders_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from planguard.plan.fixed import FixedPlan
    from planguard.reordering.blocks import Leaf

_HOST_ONLY = frozenset({"init", "test"})


@dataclass(frozen=True)
class Way:
    """One order of the calls of a rank.

    Attributes:
        actions: The annotated actions, in that order.
        calls: What each of them is: its thread, and the calls of other threads before it.
    """

    actions: tuple[dict[str, Any], ...]
    calls: tuple[Call, ...]


@dataclass(frozen=True)
class Orders:
    """The program of one rank.

    Attributes:
        parts: Actions, blocks of open order, and blocks of threads (tuples of chains).
        any_source: Receives from anybody take messages that others wait for: their order counts.
        device: What is called goes to a device, whose queues hold it in the order of the calls.
    """

    parts: tuple[Any, ...]
    any_source: bool
    device: bool = False

    def ways(self) -> Iterator[Way]:
        """Yield every order, orders that differ only where nothing can tell them apart once."""
        for chosen in itertools.product(
            *(list(self._part(b, p)) for b, p in enumerate(self.parts))
        ):
            actions: list[dict[str, Any]] = []
            calls: list[Call] = []
            for part in chosen:
                start = len(actions)
                for fields, home, behind in part:
                    actions.append(fields)
                    calls.append(Call(home, tuple(start + other for other in behind)))
            yield Way(tuple(actions), tuple(calls))

    def _part(self, number: int, part: Any) -> Iterator[list[tuple[dict[str, Any], Any, Any]]]:
        if not isinstance(part, tuple):
            for one in _orders(part):
                yield [(leaf.fields, None, ()) for leaf in one]
            return
        for threads in itertools.product(*(list(_chain(thread)) for thread in part)):
            queues = [[self._queues(leaf.fields) for leaf in thread] for thread in threads]
            for order in orders_of(queues):
                yield [
                    (threads[t][at].fields, (number, t), self._behind(order, place, queues))
                    for place, (t, at) in enumerate(order)
                ]

    @staticmethod
    def _behind(
        order: list[tuple[int, int]], place: int, queues: list[list[set[Any]]]
    ) -> tuple[int, ...]:
        thread, at = order[place]
        return tuple(
            earlier
            for earlier, (other, its) in enumerate(order[:place])
            if other != thread and queues[other][its] & queues[thread][at]
        )

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


def _orders(part: Leaf | Block) -> Iterator[list[Leaf]]:
    """Yield the orders of an action or of a block of open order."""
    if isinstance(part, Block):
        for order in extensions(part):
            yield [part.leaves[at] for at in order]
    else:
        yield [part]


def _chain(thread: Iterable[Leaf | Block]) -> Iterator[list[Leaf]]:
    """Yield the orders of a thread, which keeps its own but for blocks of open order in it."""
    for chosen in itertools.product(*(list(_orders(part)) for part in thread)):
        yield [leaf for part in chosen for leaf in part]


def orders_of_ranks(
    flat: dict[str, Any],
    ordered: FixedPlan,
    *,
    use_tags: bool,
    any_source: bool,
    device: bool = False,
) -> list[Orders]:
    """Return the order structure of every rank of a plan with threads.

    Args:
        flat: The annotated flat plan.
        ordered: The plan with every `threads` as an `unordered` block of chains, for identities.
        use_tags: Whether tags separate channels.
        any_source: Whether receives may take the messages of more than one channel.
        device: Whether calls go to a device; then one thread may create a communicator.

    Raises:
        UndecidedError: Threads are used in a way that is not decided.
    """
    ranks = {int(rank): body["actions"] for rank, body in flat["ranks"].items()}
    for actions in ranks.values():
        for item in actions:
            _check(item, LASTING - {"init"} if device else LASTING)
    named = _named(flat, ordered, use_tags=use_tags, any_source=any_source)
    return [
        Orders(tuple(_parts(named[rank], inside=False)), any_source, device)
        for rank in sorted(ranks)
    ]


def _parts(items: Iterable[dict[str, Any]], *, inside: bool) -> Iterator[Any]:
    for item in items:
        if item["op"] != "threads":
            yield taken(item)
        elif inside:
            raise UndecidedError("`threads` inside `threads`")
        else:
            yield tuple(tuple(_parts(thread, inside=True)) for thread in item["threads"] if thread)


def _named(
    flat: dict[str, Any], ordered: FixedPlan, *, use_tags: bool, any_source: bool
) -> dict[int, Any]:
    """Give calls that may change places their implicit identity."""
    _, orders = take_apart(ordered.plan, expand(ordered.plan))
    problem = label_movable(ordered.plan, orders, use_tags=use_tags and not any_source)
    if problem:
        raise UndecidedError(problem)
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


# --- what is not decided -----------------------------------------------------------------------


def _check(item: Any, alone: frozenset[str]) -> None:
    """Refuse threads inside blocks of open order, and threads that are not calls alone."""
    if item["op"] == "unordered":
        if any(inner["op"] == "threads" for inner in _blocks([item])):
            raise UndecidedError("`threads` inside `unordered`")
        return
    if item["op"] != "threads":
        return
    owner: dict[str, int] = {}
    for number, thread in enumerate(item["threads"]):
        for fields in leaves(thread):
            if fields["op"] in alone:
                raise UndecidedError(f"{fields['op']} in a thread where a call blocks its thread")
            for name in _names(fields):
                if owner.setdefault(name, number) != number:
                    raise UndecidedError("a handle or result that two threads share")


def _blocks(items: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for item in items:
        if isinstance(item, list):
            yield from _blocks(item)
        elif item["op"] in ORDER_BLOCKS:
            yield item
            yield from _blocks(item["threads" if item["op"] == "threads" else "body"])


def _names(fields: dict[str, Any]) -> Iterator[str]:
    work = fields.get("work", [])
    yield from (f"work {name}" for name in ([work] if isinstance(work, str) else work))
    yield from (f"id {name}" for name in fields.get("deps", ()))
    if "id" in fields:
        yield f"id {fields['id']}"
