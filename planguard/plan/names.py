"""Names that live in one rank program: handles, ids, events, and who may refer to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from planguard.plan import nodes as n
from planguard.plan.defects import Defect, nearest
from planguard.plan.pointers import walk

if TYPE_CHECKING:
    from collections.abc import Sequence


class ProgramNames:
    """Slots of handles, ids and events of one program; only referenced ids get a slot.

    Attributes:
        slots: Slot names, in slot order: ``work:h``, ``id:f.{i}``, ``event:e``.
    """

    def __init__(self, fused: frozenset[str]) -> None:
        self.slots: list[str] = []
        self._fused = fused
        self._handles: dict[str, int] = {}
        self._events: dict[str, int] = {}
        self._referenced: dict[str, int | None] = {}
        self._defined: dict[str, tuple[n.Node, int]] = {}
        self._block: dict[str, n.Node] | None = None

    def survey(self, actions: Sequence[n.Action]) -> None:
        """Note which ids are referred to, so that only those are bound."""
        kinds = set(map(type, actions))
        if kinds & _REFERRING or any(node.after is not UNSET for node in actions):
            for _, node in walk(actions):
                if node.after is not UNSET:
                    self._referenced.update(dict.fromkeys(node.after))
                if isinstance(node, n.Compute) and node.deps is not UNSET:
                    self._referenced.update(dict.fromkeys(node.deps))

    def handle(self, work: str) -> int:
        """Return the slot of a work handle."""
        slot = self._handles.get(work)
        if slot is None:
            slot = self._handles[work] = self._new("work", work)
        return slot

    def event(self, event: str) -> int:
        """Return the slot of an event."""
        slot = self._events.get(event)
        if slot is None:
            slot = self._events[event] = self._new("event", event)
        return slot

    def _new(self, what: str, name: str) -> int:
        self.slots.append(f"{what}:{name}")
        return len(self.slots) - 1

    def define(self, node: n.Node, name: str, times: int) -> int | None:
        """Note an id and return its slot, or None when nothing refers to it.

        Raises:
            Defect: The id is taken.
        """
        if name in self._defined:
            raise Defect(node, "id", "id used twice in one program", value=name)
        self._defined[name] = (node, times)
        return self.slot(name)

    def slot(self, name: str) -> int | None:
        """Return the slot of an id, or None when nothing refers to it."""
        if name not in self._referenced and name not in self._fused:
            return None
        slot = self._referenced.get(name)
        if slot is None:
            slot = self._referenced[name] = self._new("id", name)
        return slot

    def reference(self, node: n.Node, field: str, name: str, times: int) -> int:
        """Return the slot of an id that an action refers to.

        Raises:
            Defect: No action before this one has the id.
        """
        del times
        if name not in self._defined:
            message = "no earlier action of this program has this id"
            hint = nearest(name, self._defined) or "ids are defined before they are referred to"
            raise Defect(node, field, message, value=name, hint=hint)
        slot = self.slot(name)
        assert slot is not None  # noqa: S101 - survey() saw the reference
        return slot

    # --- blocks whose order is undecided -----------------------------------------------------

    def open_block(self, items: list[Any]) -> dict[str, n.Node] | None:
        """Enter an ``unordered`` or ``threads`` block and return the enclosing one.

        Raises:
            Defect: ``after`` names an id outside the block, or the order is cyclic.
        """
        outer, self._block = self._block, {a.id: a for a in items if a.id is not UNSET}
        return outer

    def close_block(self, outer: dict[str, n.Node] | None) -> None:
        """Leave the block."""
        self._block = outer

    def order(self, node: n.Node, times: int) -> list[int]:
        """Return the slots of ``after`` inside an undecided block; check it elsewhere."""
        del times
        slots = []
        for name in () if node.after is UNSET else node.after:
            if self._block is not None and name in self._block:
                slot = self.slot(name)
                if slot is not None:
                    slots.append(slot)
            elif name not in self._defined:
                message = "after names no action that can be issued first"
                hint = nearest(name, self._block or self._defined)
                raise Defect(node, "after", message, value=name, hint=hint)
        return slots


_REFERRING: frozenset[type] = frozenset(
    {n.Compute, n.Repeat, n.Unordered, n.Threads, n.Choice}
)
