"""Names that live in one rank program: handles, ids, events, and who may refer to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from planguard.plan import nodes as n
from planguard.plan.compiling.unroll import NeedsUnrollingError
from planguard.plan.defects import Defect, nearest
from planguard.plan.pointers import walk

if TYPE_CHECKING:
    from collections.abc import Sequence

Block = dict[str, n.Node]
Loop = tuple[n.Repeat | None, Block | None]


class ProgramNames:
    """Slots of handles, ids and events of one program; only referenced ids get a slot.

    Attributes:
        slots: Slot names, in slot order: ``work:h``, ``id:f.{i}``, ``event:e``.
        handles: Slot of every work handle.
        events: Slot of every event.
        ids: Action of every id.
    """

    def __init__(self, fused: frozenset[str], *, is_unrolled: bool) -> None:
        self.slots: list[str] = []
        self.ids: dict[str, Any] = {}
        self._fused = fused
        self._is_unrolled = is_unrolled
        self.handles: dict[str, int] = {}
        self.events: dict[str, int] = {}
        self._referenced: dict[str, int | None] = {}
        self._loop_of: dict[str, n.Repeat | None] = {}
        self._loop: n.Repeat | None = None
        self._has_loop = False
        self._block: Block | None = None

    def survey(self, actions: Sequence[n.Action]) -> None:
        """Note which ids are referred to, so that only those are bound."""
        kinds = set(map(type, actions))
        if kinds & _BLOCKS:
            nodes = [node for node in actions if node.__class__ not in _BLOCKS]
            blocks = [node for node in actions if node.__class__ in _BLOCKS]
            nodes += [node for _, node in walk(blocks)]
            loops = (isinstance(node, n.Repeat) for node in nodes)
            self._has_loop = not self._is_unrolled and any(loops)
        else:
            nodes = list(actions)
        for node in nodes:
            if node.after is not UNSET:
                self._referenced.update(dict.fromkeys(node.after))
            if node.__class__ is n.Compute and node.deps is not UNSET:
                self._referenced.update(dict.fromkeys(node.deps))

    @property
    def is_unreferenced(self) -> bool:
        """True when no action of the program names the id of another, nor does a fused buffer."""
        return not self._referenced and not self._fused

    def define_all(self, actions: Sequence[Any]) -> None:
        """Note the ids of a block that nothing refers to, faster than one by one.

        Raises:
            Defect: An id is taken.
        """
        nodes = [node for node in actions if node.id is not UNSET]
        if not nodes:
            return
        new = dict(zip([node.id for node in nodes], nodes, strict=True))
        if len(new) < len(nodes) or not self.ids.keys().isdisjoint(new):
            taken = set(self.ids)
            for node in nodes:
                if node.id in taken:
                    raise _taken(node, node.id)
                taken.add(node.id)
        self.ids.update(new)

    def handle(self, work: str) -> int:
        """Return the slot of a work handle."""
        slot = self.handles.get(work)
        if slot is None:
            slot = self.handles[work] = self._new("work", work)
        return slot

    def event(self, event: str) -> int:
        """Return the slot of an event."""
        slot = self.events.get(event)
        if slot is None:
            slot = self.events[event] = self._new("event", event)
        return slot

    def _new(self, what: str, name: str) -> int:
        self.slots.append(f"{what}:{name}")
        return len(self.slots) - 1

    def define(self, node: n.Node, name: str) -> int | None:
        """Note an id and return its slot, or None when nothing refers to it.

        Raises:
            Defect: The id is taken.
        """
        if name in self.ids and not self._is_unrolled:
            raise _taken(node, name)
        self.ids[name] = node
        if self._loop is not None:
            self._loop_of[name] = self._loop
        return self.slot(name)

    def slot(self, name: str) -> int | None:
        """Return the slot of an id, or None when nothing refers to it."""
        slot = self._referenced.get(name)
        if slot is None and (name in self._referenced or name in self._fused):
            slot = self._referenced[name] = self._new("id", name)
        return slot

    def reference(self, node: n.Node, name: str) -> int:
        """Return the slot of an id that a computation depends on.

        Raises:
            Defect: No action before this one has the id.
            NeedsUnrollingError: The id may be that of another iteration.
        """
        if self._has_loop or name not in self.ids:
            self._require(node, "deps", name)
        slot = self.slot(name)
        assert slot is not None  # noqa: S101 - survey() saw the reference
        return slot

    def _require(self, node: n.Node, field: str, name: str) -> None:
        """Check that the latest action with this id is the one that is meant."""
        is_known = name in self.ids
        if is_known and ("{i}" not in name or self._loop_of.get(name) is self._loop):
            return
        if self._has_loop:
            raise NeedsUnrollingError
        message = "no earlier action of this program has this id"
        hint = nearest(name, self.ids) or "ids are defined before they are referred to"
        raise Defect(node, field, message, value=name, hint=hint)

    # --- loops and blocks whose order is undecided -------------------------------------------

    def enter_loop(self, loop: n.Repeat) -> Loop:
        """Enter a loop and return what surrounds it; its body is an ordered block."""
        outer = self._loop, self._block
        self._loop, self._block = loop, None
        return outer

    def leave_loop(self, outer: Loop) -> None:
        """Leave a loop."""
        self._loop, self._block = outer

    def enter_ordered(self) -> Block | None:
        """Enter an ordered block inside an undecided one, and return what surrounds it."""
        outer, self._block = self._block, None
        return outer

    def open_block(self, chains: Sequence[Sequence[Any]]) -> Block | None:
        """Enter an ``unordered`` or ``threads`` block and return what surrounds it.

        Raises:
            Defect: The order is cyclic.
        """
        outer = self._block
        self._block = {a.id: a for chain in chains for a in chain if a.id is not UNSET}
        check_order(chains, self._block)
        return outer

    def close_block(self, outer: Block | None) -> None:
        """Leave a block."""
        self._block = outer

    def order(self, node: n.Node) -> list[int]:
        """Return the slots of ``after`` inside an undecided block; check it elsewhere.

        Raises:
            Defect: An id that is neither in this block nor before it.
            NeedsUnrollingError: The id may be that of another iteration.
        """
        slots = []
        for name in () if node.after is UNSET else node.after:
            if self._block is not None and name in self._block:
                slot = self.slot(name)
                if slot is not None:
                    slots.append(slot)
            else:
                self._require(node, "after", name)
        return slots


def _taken(node: n.Node, name: str) -> Defect:
    hint = "ids are unique in a program; {i} in an id stands for the iteration"
    return Defect(node, "id", "id used twice in one program", value=name, hint=hint)


def check_order(chains: Sequence[Sequence[Any]], block: Block) -> None:
    """Check that chains and ``after`` together leave some order (Kahn's algorithm).

    Raises:
        Defect: They are cyclic.
    """
    waits: dict[int, int] = {}
    follows: dict[int, list[Any]] = {}
    for chain in chains:
        for place, node in enumerate(chain):
            names = () if node.after is UNSET else node.after
            before = [block[name] for name in names if name in block]
            before += chain[place - 1 : place] if place else []
            waits[id(node)] = len(before)
            for other in before:
                follows.setdefault(id(other), []).append(node)
    ready = [node for chain in chains for node in chain if not waits[id(node)]]
    done = 0
    while ready:
        done += 1
        for node in follows.get(id(ready.pop()), ()):
            waits[id(node)] -= 1
            if not waits[id(node)]:
                ready.append(node)
    if done < len(waits):
        node = next(n for chain in chains for n in chain if waits[id(n)] and n.after is not UNSET)
        hint = "no order of this block satisfies every after"
        raise Defect(node, "after", "cyclic order", value=node.after, hint=hint)


_BLOCKS: frozenset[type] = frozenset({n.Repeat, n.Unordered, n.Threads, n.Choice})
