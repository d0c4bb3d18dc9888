"""Who must have started before an operation completes: degrees, buffering, broken handles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oracle.degrees import ancestors, flows
from oracle.host import position
from oracle.models import same_kind, same_slot
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

    def met(self, state: State, operation: Operation) -> bool:
        """Tell whether everything the operation needs has started."""
        if state.poisoned and self._is_broken(state, operation):
            return False
        if operation.is_collective:
            return not self.missing(state, operation)
        partner = self.system.partner(state, operation)
        if partner is not None and self.system.is_started(state, partner):
            return True
        return operation.is_send and self._is_buffered(state, operation)

    def missing(self, state: State, operation: Operation) -> list[int]:
        """List the ranks that a started collective still waits for."""
        if self._needs_nobody(operation):
            return []
        members = self.system.members(state, operation)
        if self._leaves_early(operation):
            return self._absent(state, operation, self._early(operation, members))
        if not self.model.degrees:
            return self._absent(state, operation, members)
        sources, sinks = flows(operation.action, operation.rank, members)
        if self.agree:
            if operation.action.kind == "broadcast" and operation.action.root is not None:
                sources = ancestors(operation.rank, operation.action.root, members)
            return self._absent(state, operation, sources + sinks)
        return [rank for rank in sources if not self._gives(state, operation, rank)] + [
            rank for rank in sinks if not self._takes(state, operation, rank)
        ]

    # -- collectives ----------------------------------------------------------------------------

    def _needs_nobody(self, operation: Operation) -> bool:
        action = operation.action
        empty = action.size.bytes == 0 and not action.coalesced
        return self.model.empty_alone and action.kind == "all_reduce" and empty

    def _leaves_early(self, operation: Operation) -> bool:
        size = operation.action.size.bytes
        rooted = operation.action.kind in ROOTED
        return rooted and self.system.choice.buffer > 0 and self._is_eager(size)

    def _is_eager(self, size: int | None) -> bool:
        limit = self.model.eager_bytes
        return limit is not None and size is not None and size <= limit

    @staticmethod
    def _early(operation: Operation, members: tuple[int, ...]) -> tuple[int, ...]:
        """Give whom a rooted collective needs when whoever only sends may leave at once."""
        action = operation.action
        at_root = operation.rank == action.root
        if action.kind in {"broadcast", "scatter"}:
            return () if at_root or action.root is None else (action.root,)
        return members if at_root else ()

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
        return other if self.agree or self._may_meet(operation, other) else None

    def _may_meet(self, one: Operation, other: Operation) -> bool:
        if self.model.blocking_is_a_kind and one.action.sync != other.action.sync:
            return False
        kinds = one.action.kind, other.action.kind
        if self.model.kinds_hang and not (same_slot if self.model.degrees else same_kind)(*kinds):
            return False
        # gloo's reduce never ends for some rank if the roots differ; which one is its own affair.
        rooted = self.model.degrees and "reduce" in kinds
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

    # -- handles that died before their match ---------------------------------------------------

    def _is_broken(self, state: State, operation: Operation) -> bool:
        return any(
            state.poisoned & dead.bit
            and (self._dead_send if dead.is_send else self._dead_recv)(state, dead, operation)
            for dead in self.system.lowered.operations
        )

    def _dead_send(self, state: State, dead: Operation, operation: Operation) -> bool:
        """The message of a dropped isend never leaves, nor any later one on its channel."""
        if operation.is_collective:
            return False
        key, dead_key = self.system.key(state, operation), self.system.key(state, dead)
        return key[:-1] == dead_key[:-1] and position(key) >= position(dead_key)

    def _dead_recv(self, state: State, dead: Operation, operation: Operation) -> bool:
        """A dropped irecv swallows its message; all later traffic of that pair and group stalls."""
        if operation is dead:
            return True
        swallowed = self.system.partner(state, dead)
        if swallowed is None:
            return False
        if self.system.key(state, operation)[1] != self.system.key(state, dead)[1]:
            return False
        if operation.is_collective:
            ends = [self.system.in_round(state, operation, one.rank) for one in (swallowed, dead)]
            if None in ends or operation.rank not in (swallowed.rank, dead.rank):
                return False
            sent = ends[0]
        elif operation.is_send:
            sent = operation
        else:
            sent = self.system.partner(state, operation)
        if sent is None or sent.rank != swallowed.rank:
            return False
        if not sent.is_collective and sent.action.peer != dead.rank:
            return False
        return self.system.issued_after(state, sent, swallowed)
