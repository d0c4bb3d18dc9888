"""Members of fused buffers beside host threads, and waits for them in threads.

A thread that holds all members that its rank has in a `threads` construct is part of the program
that is played: a flush is issued by the call that lets it leave, so in that thread, whatever the
others do meanwhile. The others stay as they are. A wait in them is one for the flush of its member,
where that was launched before the threads begin: nothing else decides what it is. Where nothing is
submitted in the threads, it may also be the wait that launches a filled buffer, or one without end.

```
main    g0 g1 > {g0 g1}   fork                      join   wait g2
thread 0                  > g2  call  g3 > {g2 g3}  >
thread 1                  > wait g0 = wait {g0 g1}  >
```
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from planguard.execution.findings.reason import UndecidedError
from planguard.plan.vocabulary import HANDLES, ORDER_BLOCKS
from planguard.reordering.blocks import Block, Leaf, taken
from planguard.reordering.branches.assignments import leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

FORK, JOIN = "fork", "join"
"""The ``op`` of the ends of a thread that is played; of no plan."""
MAY_LEAVE = "a wait in a thread for a member of a fused buffer that may leave later"
TWICE = "waits for one flush in two threads, or in any order in a block"


@dataclass(frozen=True)
class Fork:
    """Where a thread that is played begins.

    Attributes:
        kept: The fields of the construct but for its threads.
        before: The threads written before it, and the actions of what is issued in them.
        behind: The same of those written behind it.
    """

    kept: dict[str, Any]
    before: tuple[list[Any], tuple[int, ...]]
    behind: tuple[list[Any], tuple[int, ...]]


@dataclass(frozen=True)
class Join:
    """Where it ends."""


Part = tuple[dict[str, Any], range, Leaf | Block | Fork | Join]
"""An item of a program, its actions, and the item taken apart."""


def parts_of(
    item: dict[str, Any],
    span: range,
    places: Iterator[int],
    is_member: Callable[[dict[str, Any]], bool],
) -> Iterator[Part]:
    """Yield the parts of an item of a program; of threads, those of the one that has members.

    Args:
        item: The item.
        span: Its actions.
        places: The actions that are issued, from this item on.
        is_member: Whether an action is a member of a fused buffer.

    Raises:
        UndecidedError: Calls of that thread come after some of another one.
    """
    threads: list[Any] = item["threads"] if item["op"] == "threads" else []
    mine = [at for at, thread in enumerate(threads) if any(map(is_member, leaves(thread)))]
    if len(mine) != 1:
        yield item, span, taken(item, places)
        return
    thread = threads[mine[0]]
    before, behind = threads[: mine[0]], threads[mine[0] + 1 :]
    names = set(_fields([before, behind], "id"))
    if any(not names.isdisjoint(after) for after in _fields(thread, "after")):
        raise UndecidedError("a member of a fused buffer in a thread that comes after another one")
    kept = {key: value for key, value in item.items() if key != "threads"}
    front, inside, back = (
        tuple(next(places) for _ in leaves(some)) for some in (before, thread, behind)
    )
    fork = Fork(kept, (before, front), (behind, back))
    yield {**kept, "threads": [*before, *behind]}, range(0), fork
    rest = iter(inside)
    for inner in thread:
        yield from parts_of(inner, range(0), rest, is_member)
    yield {**kept, "threads": []}, range(0), Join()


def _fields(items: Sequence[Any], name: str) -> Iterator[Any]:
    """Yield a field of all actions and blocks that have it."""
    for item in items:
        if isinstance(item, list):
            yield from _fields(item, name)
            continue
        if name in item:
            yield item[name]
        yield from _fields(item.get(ORDER_BLOCKS.get(item["op"], ""), []), name)


def nested(actions: Sequence[dict[str, Any]]) -> list[Any]:
    """Return actions in which what stands between the ends of a thread is in `threads`."""
    out: list[Any] = []
    outer: list[tuple[list[Any], dict[str, Any]]] = []
    for action in actions:
        if action["op"] == FORK:
            outer.append((out, action))
            out = []
        elif action["op"] == JOIN:
            around, fork = outer.pop()
            around.append({**fork["kept"], "threads": [*fork["before"], out, *fork["behind"]]})
            out = around
        else:
            out.append(action)
    return out


Streams = dict[str, str | None]
"""Handles of flushes that were waited for, each with the stream that waits."""


class Launches(Protocol):
    """What a rank has launched, and what a wait makes it launch."""

    member_of: dict[str, tuple[int, int]]
    flush_of: dict[tuple[int, int], str]
    ids: set[str]
    streams: bool

    def forced(self, work: str, place: int) -> tuple[list[dict[str, Any]], list[int]]:
        """Return what a wait for a member that was not launched issues in front of it."""
        ...


class Side:
    """What stands beside members and waits for their flushes.

    Args:
        launches: What was launched before.
        apart: Flushes that others wait for meanwhile.
        is_closed: Whether no member is submitted meanwhile: then a wait that finds what it waits
            for in a filled buffer is what launches it, there, and one that finds it in another
            buffer never ends.

    Attributes:
        places: The actions that are left, in the order in which they are written.
        token: The name of an action of the thread beside it that every wait comes behind.
    """

    def __init__(self, launches: Launches, apart: set[str], *, is_closed: bool) -> None:
        self.launches, self.apart, self.is_closed = launches, apart, is_closed
        self.places: list[int] = []
        self.token: str | None = None

    def named(
        self, item: Any, places: Iterator[int], done: Streams, *, in_chain: bool = True
    ) -> tuple[list[Any], Streams]:
        """Return an item whose waits for members are for their flushes, and what it waits for.

        A second wait for a flush is none. The item is gone where it is only such a wait.

        Args:
            item: An action, a block, or a chain.
            places: The actions of what is issued in it.
            done: What was waited for before it.
            in_chain: Whether something can be issued right before it.

        Raises:
            UndecidedError: Which flush a wait is for, or which of two waits is first, is open.
        """
        if isinstance(item, list):
            out: list[Any] = []
            mine: Streams = {}
            for one in item:
                left, new = self.named(one, places, done | mine)
                out += left
                mine |= new
            return [out], mine
        name = ORDER_BLOCKS.get(item["op"])
        if name is None:
            return self._leaf(item, next(places), done, in_chain=in_chain)
        out, mine = [], {}
        for one in item[name]:
            left, new = self.named(one, places, done, in_chain=False)
            if not mine.keys().isdisjoint(new):
                raise UndecidedError(TWICE)
            out += [entry for entry in left if entry or item["op"] == "threads"]
            mine |= new
        return [{**item, name: out}], mine

    def _leaf(
        self, item: dict[str, Any], place: int, done: Streams, *, in_chain: bool
    ) -> tuple[list[Any], Streams]:
        member_of = self.launches.member_of
        work = item.get("work", []) if item["op"] in HANDLES else []
        works = [work] if isinstance(work, str) else work
        named = [name for name in works if name in member_of]
        if not named:
            if not self.launches.ids.isdisjoint([*item.get("after", ()), *item.get("deps", ())]):
                raise UndecidedError(f"`{item['op']}` refers to a member of a fused buffer")
            self.places.append(place)
            return [item], {}
        if item["op"] != "wait" or item.get("mode", "all") != "all":
            raise UndecidedError(f"`{item['op']}` in a thread for a member of a fused buffer")
        stream = item.get("stream", "main") if self.launches.streams else None
        mine: Streams = {}
        out: list[Any] = []
        for name in named:
            if member_of[name] not in self.launches.flush_of:
                if not (self.is_closed and in_chain) or "after" in item:
                    raise UndecidedError(MAY_LEAVE)
                issued, origins = self.launches.forced(name, place)
                if self.token is not None:  # behind what is submitted in the thread beside it
                    issued = [{**one, "after": [self.token]} for one in issued]
                out += issued
                self.places += origins
            flush = self.launches.flush_of.get(member_of[name])
            if flush is None:
                return out, mine  # it ends here
            if flush in self.apart:
                raise UndecidedError(TWICE)
            if done.get(flush, stream) != stream:
                raise UndecidedError("waits for members of one flush on two streams")
            if flush not in done:
                mine[flush] = stream
        left = [*(name for name in works if name not in member_of), *mine]
        if left:
            self.places.append(place)
            return [*out, {**item, "work": left if len(left) > 1 else left[0]}], mine
        if "id" in item:
            raise UndecidedError("a second wait for a flush, which others may come after")
        return out, {}
