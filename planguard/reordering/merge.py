"""One order of readiness on every rank -> the plan in which every flush is one collective."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planguard.execution.expand import expand
from planguard.plan.format import read
from planguard.reordering.blocks import Block
from planguard.reordering.buffers import UndecidedError
from planguard.reordering.strategy import Ordered

if TYPE_CHECKING:
    from planguard.reordering.blocks import Leaf, RankOrder
    from planguard.reordering.buffers import Buffer, Ready
    from planguard.reordering.flushes import Flush


@dataclass(frozen=True)
class RankFlushes:
    """What one rank flushes of one buffer."""

    buffer: Buffer
    ready: Ready
    flushes: tuple[Flush, ...]


@dataclass(frozen=True)
class Merged:
    """A plan without fused buffers.

    Attributes:
        ordered: The plan, with the original index of every action.
        unflushed: Rank and member action that stay in a buffer when the program ends.
    """

    ordered: Ordered
    unflushed: tuple[tuple[int, Leaf], ...]


def merge(
    flat: dict[str, Any], orders: list[RankOrder], of_rank: list[list[RankFlushes]]
) -> Merged:
    """Return the plan in which the given flushes happen.

    Raises:
        UndecidedError: Flushes and the rest of a program meet in a way that is not decided.
    """
    ranks, origins, left = {}, [], []
    for order, held in zip(orders, of_rank, strict=True):
        written = _Rank(order, flat["ranks"][str(order.rank)]["actions"], held)
        written.write()
        ranks[str(order.rank)] = {"actions": written.actions}
        origins.append(written.origins)
        left += [(order.rank, leaf) for leaf in written.unflushed()]
    skipped = {"ranks", "approximations", "fusion"}
    head = {key: value for key, value in flat.items() if key not in skipped}
    plan = read({**head, "ranks": ranks})
    places = tuple(_places(expand(plan), rank, found) for rank, found in enumerate(origins))
    return Merged(Ordered(plan, places), tuple(left))


def _places(columns: Any, rank: int, origins: list[int]) -> tuple[int, ...]:
    """Return the original action of every action; the ends of a block stand for what is in it."""
    found: list[int] = []
    issued = iter(origins)
    last = 0
    for at in range(columns.rank_off[rank], columns.rank_off[rank + 1]):
        op = columns.op[at]
        if op & 64:
            continue
        if op & 63 not in range(48, 60):
            last = next(issued)
        found.append(last)
    return tuple(found)


@dataclass
class _Rank:
    """Writes the program of one rank."""

    order: RankOrder
    items: list[dict[str, Any]]
    held: list[RankFlushes]
    actions: list[dict[str, Any]] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)
    launched: set[str] = field(default_factory=set)
    waited: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.handle: dict[str, str] = {}
        self.what: dict[str, tuple[RankFlushes, Flush]] = {}
        self.member_parts: dict[int, str] = {}
        self.names: set[str] = set()
        for held in self.held:
            for part in held.ready.parts:
                if self.member_parts.setdefault(part, held.buffer.id) != held.buffer.id:
                    raise UndecidedError("members of two fused buffers become ready in one block")
            for number, flush in enumerate(held.flushes):
                handle = f"{held.buffer.id}#{number}"
                self.what[handle] = held, flush
                for element in flush.elements:
                    fields = held.ready.leaves[element].fields
                    self.names.add(fields["id"])
                    if "work" in fields:
                        self.handle[fields["work"]] = handle
        self.members = {leaf.action for held in self.held for leaf in held.ready.leaves}

    def write(self) -> None:
        """Write every part, and behind each what is launched there."""
        for number, (part, item) in enumerate(zip(self.order.parts, self.items, strict=True)):
            if number in self.member_parts:
                self._beside(part)
            elif isinstance(part, Block):
                self._check(part.leaves)
                self._add(item, part.leaves)
            elif item["op"] == "wait" and self._named(item):
                self._wait(number, item, part)
            else:
                self._check((part,))
                self._add(item, (part,))
            for handle, (_, flush) in self.what.items():
                if flush.part == number:
                    self._launch(handle)
        for held in self.held:
            self._quiet(held)

    def unflushed(self) -> list[Leaf]:
        """Return the members that are never launched."""
        missing = [self.what[handle] for handle in self.what if handle not in self.launched]
        return [held.ready.leaves[e] for held, flush in missing for e in flush.elements]

    def _add(self, item: dict[str, Any], leaves: tuple[Leaf, ...]) -> None:
        self.actions.append(item)
        self.origins += [leaf.action for leaf in leaves]

    def _beside(self, part: Leaf | Block) -> None:
        """Write what stands in a block beside members: computation, which blocks nothing."""
        for leaf in part.leaves if isinstance(part, Block) else (part,):
            if leaf.action in self.members:
                continue
            if leaf.fields["op"] != "compute" or leaf.fields.get("deps"):
                op = leaf.fields["op"]
                raise UndecidedError(f"`{op}` may change places with members of a fused buffer")
            self._check((leaf,))
            self._add({k: v for k, v in leaf.fields.items() if k != "x-after"}, (leaf,))

    def _named(self, item: dict[str, Any]) -> list[str]:
        work = item.get("work", [])
        names = work if isinstance(work, list) else [work]
        return [name for name in names if name in self.handle]

    def _check(self, leaves: tuple[Leaf, ...]) -> None:
        """Refuse everything but a plain wait that names a member or its handle."""
        for leaf in leaves:
            references = [*leaf.fields.get("deps", ()), *leaf.fields.get("x-after", ())]
            if self._named(leaf.fields) or self.names & set(references):
                op = leaf.fields["op"]
                raise UndecidedError(f"`{op}` refers to a member of a fused buffer")

    def _wait(self, number: int, item: dict[str, Any], leaf: Leaf) -> None:
        """Wait for the flushes of the named members; that launches what is left in a buffer."""
        work = item["work"] if isinstance(item["work"], list) else [item["work"]]
        names: list[str] = []
        for name in work:
            handle = str(self.handle.get(name, name))
            if handle in self.what and handle not in self.launched:
                held, flush = self.what[handle]
                if flush.part is not None or number < max(held.ready.parts):
                    raise UndecidedError(
                        "a member of a fused buffer is waited for before its flush"
                    )
                self._launch(handle)
            if handle not in self.waited and handle not in names:
                names.append(handle)
        self.waited |= set(names) & set(self.what)
        if names:
            self._add({**item, "work": names if len(names) > 1 else names[0]}, (leaf,))

    def _launch(self, handle: str) -> None:
        held, flush = self.what[handle]
        leaves = [held.ready.leaves[element] for element in flush.elements]
        self.launched.add(handle)
        self.actions.append(_collective(held, flush, [leaf.fields for leaf in leaves], handle))
        self.origins.append(leaves[0].action)

    def _quiet(self, held: RankFlushes) -> None:
        """Refuse other communication where an agreed flush may come sooner or later."""
        buffer, ready = held.buffer, held.ready
        in_order = buffer.membership == "fixed" and buffer.launch == "ordered"
        pooled = buffer.buffers is not None
        if not pooled and (not buffer.is_coordinated or (in_order and _is_broadcast(buffer))):
            return
        own = set(range(min(ready.parts), max(ready.parts) + 1))
        if pooled or not _is_broadcast(buffer):
            own |= set(range(max(ready.parts), self._settled(held)))
        for number in sorted(own):
            item = self.items[number]
            if self.member_parts.get(number) == buffer.id or item["op"] == "compute":
                continue
            if item["op"] != "wait" or not self._named(item):
                op = item["op"]
                raise UndecidedError(
                    f"`{op}` before fused buffer {buffer.id} is settled: its flushes may come"
                    " before or after it"
                )

    def _settled(self, held: RankFlushes) -> int:
        """Return the part behind which nothing of a buffer is in flight, else the end."""
        flush_of = {h for h, (owner, _) in self.what.items() if owner is held}
        for number, item in enumerate(self.items):
            if item["op"] == "wait":
                flush_of -= {self.handle[name] for name in self._named(item)}
            if not flush_of:
                return number + 1
        return len(self.items)


def _is_broadcast(buffer: Buffer) -> bool:
    return buffer.coordination == "rank0-broadcast"


def _collective(
    held: RankFlushes, flush: Flush, members: list[dict[str, Any]], handle: str
) -> dict[str, Any]:
    """Return the collective of one flush: sizes added, identities joined."""
    for field_name in ("dtype", "reduce_op"):
        if len({fields.get(field_name) for fields in members}) > 1:
            what = f"fused buffer {held.buffer.id} mixes members of several {field_name}s"
            raise UndecidedError(what)
    if len({"bytes" in fields for fields in members}) > 1:
        raise UndecidedError(f"fused buffer {held.buffer.id} mixes sizes in bytes and in elements")
    like = members[0]
    kept: dict[str, Any] = {
        name: like[name] for name in ("group", "dtype", "reduce_op") if name in like
    }
    size = "bytes" if "bytes" in like else "count"
    names: list[str] = [held.ready.name(element) for element in flush.elements]
    label = repr(names) if any("+" in name for name in names) else "+".join(names)
    total = sum(fields[size] for fields in members)
    return {
        "op": "all_reduce",
        "async": True,
        "work": handle,
        "label": label,
        **kept,
        size: total,
    }
