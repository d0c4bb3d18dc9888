"""What breaks when the handle of a point-to-point operation dies before its match (gloo, measured).

A dropped isend: its message never leaves, nor does any later one on its channel. A dropped irecv
swallows its message, and from there on its process hears nothing from that peer in that group: no
payload, and no word that the peer is ready to receive either, whatever the tag or the direction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oracle.host import position

if TYPE_CHECKING:
    from oracle.lowering import Operation
    from oracle.state import State, System


class BrokenHandles:
    """Tells which operations and links are dead in a state."""

    def __init__(self, system: System) -> None:
        self.system = system

    def stops(self, state: State, operation: Operation) -> bool:
        """Tell whether a send or receive can never complete."""
        return any(
            (self._after_send if dead.is_send else self._after_recv)(state, dead, operation)
            for dead in self._dead(state)
        )

    def cuts(self, state: State, operation: Operation, ranks: tuple[int, ...]) -> bool:
        """Tell whether two of some ranks are out of touch in the round of a collective."""
        members = [self.system.in_round(state, operation, rank) for rank in ranks]
        ends = {member.rank: member for member in members if member is not None}
        for dead in self._dead(state):
            swallowed = None if dead.is_send else self.system.partner(state, dead)
            if swallowed is None or dead.rank not in ends or swallowed.rank not in ends:
                continue
            if state.completed & ends[dead.rank].bit:
                continue  # it has all it needs, and what it sent arrives (measured, as below)
            if self._is_later(state, ends[swallowed.rank], swallowed):
                return True
        return False

    def _dead(self, state: State) -> list[Operation]:
        return [one for one in self.system.lowered.operations if state.poisoned & one.bit]

    def _is_later(self, state: State, one: Operation, swallowed: Operation) -> bool:
        """Tell whether a rank sent its part of an operation after the swallowed message."""
        same_group = self.system.key(state, one)[1] == self.system.key(state, swallowed)[1]
        return same_group and self.system.issued_after(state, one, swallowed)

    def _after_send(self, state: State, dead: Operation, operation: Operation) -> bool:
        key, dead_key = self.system.key(state, operation), self.system.key(state, dead)
        return key[:-1] == dead_key[:-1] and position(key) >= position(dead_key)

    def _after_recv(self, state: State, dead: Operation, operation: Operation) -> bool:
        if operation is dead:
            return True
        swallowed = self.system.partner(state, dead)
        partner = self.system.partner(state, operation)
        if swallowed is None or partner is None:
            return False
        pair = {swallowed.rank, dead.rank}
        if {operation.rank, partner.rank} != pair:
            return False
        if operation.rank == dead.rank:
            # Neither the message nor the word that the peer is ready reaches this rank.
            return self._is_later(state, partner, swallowed)
        # The peer can still send to whoever was ready, but what it asks for is never sent. What was
        # sent before the handle died is on its way: a send ends with its data in the socket.
        # Measured with a receiver that stands still (SIGSTOP) until the handle is gone.
        sent = state.completed & partner.bit
        return not operation.is_send and not sent and self._is_later(state, operation, swallowed)
