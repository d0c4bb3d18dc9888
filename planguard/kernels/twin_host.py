"""What blocks or orders the host: waits, dependencies, creation, exit (``host.cpp``)."""

from __future__ import annotations

from planguard.kernels.twin_launch import Launching
from planguard.kernels.twin_layout import DEAD, INIT, NEW_GROUP
from planguard.kernels.twin_rules import ARRIVE, AWAIT, Creation, Family, Why
from planguard.kernels.twin_state import EVERY_LANE
from planguard.kernels.twin_withdraw import Leaving
from planguard.plan.actions import ASYNC, NONE, SEND_KINDS, Kind, is_collective


class Hosting(Launching):
    """Actions that are no communication."""

    def _listed(self, at: int) -> list[int]:
        """Return the entries in the list of an entry."""
        offset, aux = self.columns.arg[at], self.columns.aux
        return [] if offset == NONE else list(aux[offset + 1 : offset + 1 + aux[offset]])

    # --- waits and dependencies --------------------------------------------------------------

    def _wait(self, lane: int, target: int, entry: int, why: Why) -> None:
        if self.rules.worker:
            self.block_host(target)
        elif not self.rules.single_queue:
            self.await_entry(lane, target, entry, why)
        elif self.tracks_streams:
            self.advance_front(self.begin + entry, self.solid[target])

    def wait_handle(self, at: int, target: int) -> None:
        """Wait for a handle; waiting for a barrier of the nccl family blocks the host."""
        self._wait(self.lane_of(at), target, at - self.begin, Why.WAIT_HANDLE)
        is_barrier = self.kind_at(self.begin + target) == Kind.BARRIER
        if not self.host_may_block or not self.rules.device or not is_barrier:
            return
        if self.options.threads:
            # Of several threads the one that waits stands, not the one that called the barrier.
            entry = at - self.begin
            self.put_awaits(self.host_lane(), self.awaits[target], entry, Why.WAIT_HANDLE)
        else:
            self.block_barrier(target)

    def wait_list(self, at: int) -> None:
        """Wait for every handle of a list."""
        for target in self._listed(at):
            self.wait_handle(at, target)

    def depend(self, at: int) -> None:
        """Let the stream of a computation wait for what the computation needs."""
        columns, lane, entry = self.columns, self.lane_of(at), at - self.begin
        for target in self._listed(at):
            # Synchronous actions of the same stream are over by now; others are an edge.
            place = self.begin + target
            streams = columns.has_stream and (self.rules.parallel or self.tracks_streams)
            other = streams and columns.stream[place] != columns.stream[at]
            if columns.op[place] & ASYNC or other:
                self._wait(lane, target, entry, Why.DEPENDENCY)
        if self.tracks_streams:
            self.solid[entry] = self.front.get(columns.stream[at])
        if columns.has_stream and self.rules.parallel:
            token = self.layout.token(self.rank, entry)
            self.put(lane, token, ARRIVE, entry, Why.STREAM_EDGE)
            self.awaits[entry] = (token,)

    # --- streams -----------------------------------------------------------------------------

    def host_sync(self, at: int) -> None:
        """Let the host wait for everything queued, or for one stream."""
        if not self.rules.device:
            return
        entry, only = at - self.begin, self.columns.arg[at] - 1
        if not self.host_may_block:
            if only < 0 and self.rules.parallel:
                for pending in self.pending:
                    if pending not in self.done:
                        self.await_entry(0, pending, entry, Why.QUEUE)
                self.pending.clear()
            return
        if only >= 0 and self.rules.single_queue:
            self._sync_stream(only, entry)
            return
        for stream, lane in sorted(self.stream_lane.items()):
            if only in {-1, stream}:
                token = self.layout.token(self.rank, entry)
                self.put(lane, token, ARRIVE, entry, Why.STREAM_EDGE)
                self.put(self.host_lane(), token, AWAIT, entry, Why.STREAM_EDGE)
        if only < 0:
            self._drain(entry)
        self.close_gate()

    def _drain(self, entry: int) -> None:
        for pending in self.pending:
            if self.done.get(pending) != EVERY_LANE:
                self.put_awaits(self.host_lane(), self.awaits[pending], entry, Why.QUEUE)
                if not self.options.threads:
                    self.done[pending] = EVERY_LANE
        if not self.options.threads:  # what one thread waited for is queued for another one
            self.pending.clear()

    def _sync_stream(self, stream: int, entry: int) -> None:
        """Wait for one stream where one queue holds the launches of all."""
        last = self.front.get(stream)
        if last is not None:
            self.put_awaits(self.host_lane(), self.awaits[last], entry, Why.QUEUE)
            self.close_gate()

    def record_event(self, at: int) -> None:
        """Mark how far the stream of an entry got."""
        event = self.columns.arg[at]
        if self.rules.parallel:
            entry = at - self.begin
            token = self.events[event] = self.layout.token(self.rank, entry)
            self.put(self.lane_of(at), token, ARRIVE, entry, Why.EVENT)
        elif self.tracks_streams:
            reached = self.front.get(self.columns.stream[at])
            self.events.pop(event, None)
            if reached is not None:
                self.events[event] = reached

    def wait_event(self, at: int) -> None:
        """Let the stream of an entry wait for a recorded event; none was recorded: no wait."""
        mark = self.events.get(self.columns.arg[at])
        if mark is None:
            return
        if self.rules.parallel:
            self.put(self.lane_of(at), mark, AWAIT, at - self.begin, Why.EVENT)
        else:
            self.advance_front(at, mark)

    # --- creation ----------------------------------------------------------------------------

    def _block_on(self, match: int, entry: int, why: Why) -> None:
        """Let the host stand at a match until all its members do."""
        if self.rules.family == Family.HOST:
            self.put(0, match, ARRIVE | AWAIT, entry, why)
            return
        host = self.host_lane()
        if self.rules.worker and self.last_block is not None:
            solid = self.solid[self.last_block]
            if solid is not None:
                self.put_awaits(host, self.awaits[solid], entry, Why.WAIT_HANDLE)
        self.put(host, match, ARRIVE | AWAIT, entry, why)
        self.close_gate()

    def init_comm(self, slot: int, entry: int) -> None:
        """Create the communicator of a slot, with all its members; only the first time."""
        if (slot,) in self.created_comms:
            return
        self.created_comms.add((slot,))
        comm = self.layout.comm(slot)
        size = self.layout.comm_size(comm)
        if size > 1:
            self._block_on(self.layout.ext((INIT, comm, 0, 0), size), entry, Why.INIT)

    def _init_pair(self, at: int, entry: int) -> None:
        columns, channel = self.columns, self.columns.arg[at]
        ends = columns.chan_src[channel], columns.chan_dst[channel]
        ginst, low, high = columns.chan_ginst[channel], min(ends), max(ends)
        if (ginst, self.rank, low, high) in self.created_comms:
            return
        self.created_comms.add((ginst, self.rank, low, high))
        self._block_on(self.layout.ext((INIT | 1, ginst, low, high), 2), entry, Why.INIT)

    def first_use(self, at: int, end: int) -> None:
        """Create what is used for the first time, of a pair for unbatched point-to-point."""
        columns, entry = self.columns, at - self.begin
        batched = self.kind_at(at) == Kind.BATCH
        for member in range(at + batched, end):
            kind, arg = self.kind_at(member), columns.arg[member]
            if is_collective(kind):
                self.init_comm(arg, entry)
            elif batched:
                slots = columns.chan_src_slot if kind in SEND_KINDS else columns.chan_dst_slot
                self.init_comm(slots[arg], entry)
            else:
                self._init_pair(member, entry)

    def new_group(self, at: int) -> None:
        """Advance the creation counter; what the call waits for depends on the model."""
        counter, entry, layout = self.groups_made, at - self.begin, self.layout
        self.groups_made += 1
        comm = layout.create_group(self.rank, self.columns.arg[at], counter)
        world = self.columns.world_size
        if self.rules.new_group == Creation.MEMBERS and comm is not None:
            size = layout.comm_size(comm)
            if size > 1:
                self._block_on(layout.ext((NEW_GROUP, comm, 0, 0), size), entry, Why.INIT)
        elif self.rules.new_group == Creation.WORLD and world > 1:
            self._block_on(layout.ext((NEW_GROUP | 1, counter, 0, 0), world), entry, Why.INIT)
        elif self.rules.new_group == Creation.ENTERING and comm is not None and world > 1:
            key = (NEW_GROUP | 2, self.groups_entered, 0, 0)
            self.groups_entered += 1
            self._block_on(layout.ext(key, world), entry, Why.INIT)

    # --- exit --------------------------------------------------------------------------------

    def dead(self, rank: int) -> int:
        """Return the match of a rank that never completes."""
        return self.layout.ext((DEAD, rank, 0, 0), NONE)

    def leave(self) -> None:
        """End the rank; what nobody waited for may be lost with its process."""
        self.ended = True
        if not self.exits_withdraw:
            return
        base = len(self.out.code)
        leaving = Leaving(len(self.out.lane_rank), base + len(self.lanes[0]))
        for entry in self.pending:
            if entry not in self.done:
                begin, end = self.arrived_at[entry]
                leaving.arrivals.append((base + begin, base + end))
        if leaving.arrivals:
            self.leaving.append(leaving)
