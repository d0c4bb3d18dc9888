"""Putting a launch on its lane, behind what its queue still has in flight (``launch.cpp``)."""

from __future__ import annotations

from planguard.kernels.twin_layout import EDGE
from planguard.kernels.twin_rules import ARRIVE, AWAIT, LaneKind, Why
from planguard.kernels.twin_state import Launch, LoweringState, Queue


class Launching(LoweringState):
    """The launch of what ``Issuing`` collected."""

    def launch(self, now: Launch, entry: int, lane: int, *, is_async: bool, why: Why) -> None:
        """Put a launch where the model's queues want it."""
        if self.rules.parallel:
            self._launch_parallel(now, entry, lane, is_async=is_async, why=why)
        elif self.rules.device or self.rules.worker:
            self._launch_single(now, entry, is_async=is_async, why=why)
        else:
            self._launch_host(now, entry, is_async=is_async, why=why)

    def block_barrier(self, entry: int) -> None:
        """Let the host wait for a barrier: that of the nccl family blocks not only a stream."""
        self.put_awaits(self.host_lane(), self.awaits[entry], entry, Why.COLLECTIVE)
        self.close_gate()

    def _emit(self, now: Launch, lane: int, entry: int, *, wait: bool, why: Why) -> None:
        self.put_awaits(lane, now.before, entry, Why.QUEUE)
        if now.pre is not None:
            self.put(lane, now.pre, ARRIVE | AWAIT, entry, why)
        if wait and len(now.arrive) == 1 and now.arrive == now.awaits:
            self.put_round(lane, now.arrive[0], entry, why, chained=now.chained)
            return
        for match in now.arrive:
            self.put(lane, match, ARRIVE, entry, why)
        if wait:
            self.put_awaits(lane, now.awaits, entry, why)

    # --- no queue: wait blocks the host ------------------------------------------------------

    def _launch_host(self, now: Launch, entry: int, *, is_async: bool, why: Why) -> None:
        """One lane, except that an asynchronous tree broadcast forwards by itself."""
        self.done.pop(entry, None)
        if is_async and (now.pre is not None or now.before):
            self._forward_alone(now, entry, why)
            return
        barrier = self.rules.pre_barrier and why == Why.COLLECTIVE
        begin = len(self.lanes[0])
        self._emit(now, 0, entry, wait=not is_async or barrier, why=why)
        self.awaits[entry] = () if barrier else tuple(now.awaits)
        if barrier and self.exits_withdraw:
            self._exchange_after_check(now, entry, is_async=is_async, why=why)
        elif not barrier and is_async and self.exits_withdraw:
            self.keep_for_exit(entry, begin)

    def _exchange_after_check(self, now: Launch, entry: int, *, is_async: bool, why: Why) -> None:
        """Do the collective itself: all passed the check, but one may leave before it is done."""
        if len(now.arrive) != 1:
            return
        checked = now.arrive[0]
        data = self.layout.ext((EDGE | 0xFFFE, checked, 0, 0), self.out.need[checked])
        self.put(0, data, ARRIVE if is_async else ARRIVE | AWAIT, entry, why)
        self.awaits[entry] = (data,)
        if is_async:
            self.keep_for_exit(entry, len(self.lanes[0]) - 1)

    def keep_for_exit(self, entry: int, begin: int) -> None:
        """Remember what the host's lane got since ``begin``: it leaves with its process."""
        self.arrived_at[entry] = begin, len(self.lanes[0])
        self.pending.append(entry)

    def _forward_alone(self, now: Launch, entry: int, why: Why) -> None:
        helper = self.add_lane(LaneKind.QUEUE)
        issued = self.layout.token(self.rank, entry)
        finished = self.layout.token(self.rank, entry)
        self.put(0, issued, ARRIVE, entry, Why.STREAM_EDGE)
        if self.exits_withdraw:
            self.keep_for_exit(entry, len(self.lanes[0]) - 1)
        self.put(helper, issued, AWAIT, entry, Why.STREAM_EDGE)
        self._emit(now, helper, entry, wait=True, why=why)
        self.put(helper, finished, ARRIVE, entry, why)
        self.awaits[entry] = (finished,)

    # --- one queue ---------------------------------------------------------------------------

    def _launch_single(self, now: Launch, entry: int, *, is_async: bool, why: Why) -> None:
        """Each launch ends before the next one starts."""
        self.done.pop(entry, None)
        self.awaits[entry] = tuple(now.awaits)
        self._emit(now, 0, entry, wait=True, why=why)
        self.note_fifo(entry, is_async=is_async)

    def note_fifo(self, entry: int, *, is_async: bool) -> None:
        """Note where the FIFO stands after a launch, and who comes after a synchronous one.

        That is the host of a worker and the stream of a device.
        """
        if self.awaits[entry]:
            self.last_solid = entry
        self.solid[entry] = self.last_solid
        if self.rules.worker:
            self.code_end[entry] = len(self.lanes[0])
            if not is_async:
                self.block_host(entry)
        elif not is_async and self.tracks_streams:
            self.advance_front(self.begin + entry, self.solid[entry])

    # --- one queue per communicator ----------------------------------------------------------

    def _is_behind(self, now: Launch, queue: Queue, lane: int) -> bool:
        if queue.last is None or self.finished(queue, lane):
            return False
        # Barrier-like rounds issued from one lane need no edge: a round completes only after every
        # member arrived at it, hence after every member arrived at the one before.
        same_lane = queue.helper is None and queue.lane == lane
        return not (queue.direct and now.direct and same_lane and len(now.queues) == 1)

    def _launch_parallel(
        self, now: Launch, entry: int, lane: int, *, is_async: bool, why: Why
    ) -> None:
        self.done.pop(entry, None)
        busy = [queue for queue in now.queues if self._is_behind(now, queue, lane)]
        if is_async and busy:
            self._launch_behind(now, entry, lane, busy, why)
            return
        for queue in busy:
            assert queue.last is not None  # noqa: S101  # busy queues are in use
            self.put_awaits(lane, queue.own, entry, Why.QUEUE)
            if queue.own == self.awaits[queue.last]:
                self.done.setdefault(queue.last, lane)
        self.awaits[entry] = tuple(now.awaits)
        self._emit(now, lane, entry, wait=not is_async, why=why)
        if self.columns.has_stream and not now.awaits:
            self._mark_done(lane, entry, why)
        if is_async:
            self.pending.append(entry)
        else:
            self.done[entry] = lane
        single = len(now.queues) == 1 and len(now.arrive) == 1
        self._occupy(now, entry, lane, None, direct=now.direct and single)

    def _mark_done(self, lane: int, entry: int, why: Why) -> None:
        """Give a launch that needs nobody a place in its queue all the same."""
        token = self.layout.token(self.rank, entry)
        self.awaits[entry] = (token,)
        self.put(lane, token, ARRIVE, entry, why)

    def _helper_of(self, busy: list[Queue]) -> int:
        """Return the lane on which a launch waits for its queues.

        A batch over several groups puts several queues on one lane. Only the queue that used the
        lane last may go on there: another would wait for launches that are none of its own.
        """
        for queue in busy:
            if queue.helper is not None and self.tail[queue.helper] == queue.last:
                return queue.helper
        return self.add_lane(LaneKind.QUEUE)

    def _launch_behind(
        self, now: Launch, entry: int, lane: int, busy: list[Queue], why: Why
    ) -> None:
        """Put a launch on the queue's own lane, after what is in flight there."""
        helper = self._helper_of(busy)
        issued = self.layout.token(self.rank, entry)
        self.put(lane, issued, ARRIVE, entry, Why.STREAM_EDGE)
        self.put(helper, issued, AWAIT, entry, Why.STREAM_EDGE)
        for queue in busy:
            if queue.helper != helper:
                self.put_awaits(helper, queue.own, entry, Why.QUEUE)
        self.awaits[entry] = tuple(now.awaits)
        self._emit(now, helper, entry, wait=True, why=why)
        if not now.awaits:
            self._mark_done(helper, entry, why)
        self.pending.append(entry)
        self.tail[helper] = entry
        # What follows on one of several queues waits only for what the batch has there.
        self._occupy(now, entry, lane, helper if len(now.queues) == 1 else None, direct=False)

    def _occupy(
        self, now: Launch, entry: int, lane: int, helper: int | None, *, direct: bool
    ) -> None:
        for queue in now.queues:
            queue.last, queue.own, queue.lane = entry, self.awaits[entry], lane
            queue.helper, queue.direct = helper, direct
