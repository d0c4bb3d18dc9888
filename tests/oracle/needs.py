"""Who must have started before an operation completes: degrees, buffering, broken handles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oracle.degrees import ancestors, flows
from oracle.handles import BrokenHandles
from oracle.models import same_slot
from oracle.program import ROOTED

if TYPE_CHECKING:
    from oracle.lowering import Operation
    from oracle.state import State, System


class Needs:
    """The guard of COMPLETE.

    Args:
        agree: let members of a mismatched round complete as if they agreed.
    """

    def __init__(self, system: System, *, agree: bool) -> None:
        self.system = system
        self.model = system.model
        self.agree = agree
        self.handles = BrokenHandles(system)

    def met(self, state: State, operation: Operation) -> bool:
        """Tell whether everything the operation needs has started."""
        if operation.is_collective:
            return not self.missing(state, operation)
        if state.poisoned and self.handles.stops(state, operation):
            return False
        partner = self.system.partner(state, operation)
        if partner is not None and self.system.is_started(state, partner):
            return True
        return operation.is_send and self._is_buffered(state, operation)

    def missing(self, state: State, operation: Operation) -> list[int]:
        """List the ranks that a started collective still waits for."""
        if self.needs_nobody(operation):
            return []
        members = self.system.members(state, operation)
        action = operation.action
        if self._leaves_early(operation):
            return self._absent(state, operation, self._early(operation, members))
        if action.degree not in self.model.neighbors or action.root is None:
            return self._absent(state, operation, members)
        sources, sinks = flows(action, operation.rank, members)
        if self.agree or not self.model.own_arguments:
            if action.kind == "broadcast":
                sources = ancestors(operation.rank, action.root, members)
            return self._absent(state, operation, sources + sinks)
        return [rank for rank in sources if not self._gives(state, operation, rank)] + [
            rank for rank in sinks if not self._takes(state, operation, rank)
        ]

    # -- collectives ----------------------------------------------------------------------------

    def needs_nobody(self, operation: Operation) -> bool:
        """Tell whether a collective has no data and, under the model, ends without the others."""
        action = operation.action
        sizes = [part.size.bytes for part in action.parts] or [action.size.bytes]
        return action.kind in self.model.empty_alone and not any(size != 0 for size in sizes)

    def _leaves_early(self, operation: Operation) -> bool:
        rooted = operation.action.degree in ROOTED and operation.action.root is not None
        return rooted and self.system.choice.buffer > 0 and self.model.eager_bytes is not None

    def _is_eager(self, size: int | None) -> bool:
        # What has no size may be small.
        limit = self.model.eager_bytes
        return limit is not None and (size is None or size <= limit)

    def _early(self, operation: Operation, members: tuple[int, ...]) -> tuple[int, ...]:
        """Give whom a rooted collective needs where nobody waits for more than its own data.

        Whoever only sends leaves at once if the message is small; no member needs another one
        beside the root.
        """
        action = operation.action
        at_root = operation.rank == action.root
        only_sends = at_root == (action.degree in {"broadcast", "scatter"})
        if only_sends and self._is_eager(action.size.bytes):
            return ()
        return members if at_root or action.root is None else (action.root,)

    def _absent(self, state: State, operation: Operation, ranks: tuple[int, ...]) -> list[int]:
        return [
            rank
            for rank in ranks
            if rank != operation.rank and self._there(state, operation, rank) is None
        ]

    def _there(self, state: State, operation: Operation, rank: int) -> Operation | None:
        """Give a rank's started member of the operation's round, if the two can meet."""
        other = self.system.in_round(state, operation, rank)
        if other is None or not self.system.is_started(state, other):
            return None
        if state.poisoned and self._out_of_touch(state, operation, rank):
            return None
        return other if self.agree or self._may_meet(operation, other) else None

    def _out_of_touch(self, state: State, operation: Operation, rank: int) -> bool:
        """Tell whether a dropped handle keeps two members apart, or anybody in an exchange."""
        pair = (operation.rank, rank)
        exchange = operation.action.degree not in self.model.neighbors
        ranks = self.system.members(state, operation) if exchange else pair
        return self.handles.cuts(state, operation, ranks)

    def _may_meet(self, one: Operation, other: Operation) -> bool:
        if self.model.blocking_is_a_kind and one.action.sync != other.action.sync:
            return False
        kinds = one.action.kind, other.action.kind
        if not same_slot(self.model, *kinds):
            return False
        # gloo's reduce never ends for some rank if the roots differ; which one is its own affair.
        rooted = self.model.own_arguments and "reduce" in kinds
        return not rooted or one.action.root == other.action.root

    def _gives(self, state: State, operation: Operation, rank: int) -> bool:
        """Tell whether a rank sends its data to the operation's member, and has it."""
        other = self._there(state, operation, rank)
        if other is None:
            return False
        members = self.system.members(state, other)
        if operation.rank not in flows(other.action, rank, members)[1]:
            return False
        return self._has_data(state, other, frozenset())

    def _takes(self, state: State, operation: Operation, rank: int) -> bool:
        other = self._there(state, operation, rank)
        if other is None:
            return False
        members = self.system.members(state, other)
        return operation.rank in flows(other.action, rank, members)[0]

    def _has_data(self, state: State, operation: Operation, seen: frozenset[int]) -> bool:
        """Tell whether a member holds what it passes on: a broadcast comes down a tree."""
        if operation.action.kind != "broadcast":
            return True
        if operation.rank in seen:
            return False
        members = self.system.members(state, operation)
        for rank in flows(operation.action, operation.rank, members)[0]:
            other = self._there(state, operation, rank)
            if other is None or operation.rank not in flows(other.action, rank, members)[1]:
                return False
            if not self._has_data(state, other, seen | {operation.rank}):
                return False
        return True

    # -- point-to-point -------------------------------------------------------------------------

    def _is_buffered(self, state: State, send: Operation) -> bool:
        """Tell whether a send may complete with nobody there: room for one more on its channel."""
        if self.model.modes and send.action.mode == "buffered":
            return True
        if self.model.modes and send.action.mode == "synchronous":
            return False
        if not self._is_eager(send.action.size.bytes):
            return False
        channel = self.system.key(state, send)[:-1]
        waiting = 0
        for other in self.system.lowered.operations:
            if other.is_send and other.rank == send.rank and state.completed & other.bit:
                partner = self.system.partner(state, other)
                unmatched = partner is None or not self.system.is_started(state, partner)
                waiting += unmatched and self.system.key(state, other)[:-1] == channel
        return waiting < self.system.choice.buffer
