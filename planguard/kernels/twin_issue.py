"""Communication: which matches a launch arrives at, and what completes it (``issue.cpp``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.kernels.twin_host import Hosting
from planguard.kernels.twin_layout import EDGE, PROBE
from planguard.kernels.twin_rules import Degree, Why
from planguard.kernels.twin_state import Launch, Queue
from planguard.plan.actions import (
    ASYNC,
    NONE,
    SEND_KINDS,
    UNKNOWN_BYTES,
    Kind,
    is_collective,
    is_point_to_point,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

INWARD = frozenset({Kind.GATHER, Kind.REDUCE})
"""Rooted collectives whose data flows to the root."""


def _why(kind: int) -> Why:
    if kind in SEND_KINDS:
        return Why.SEND
    return Why.RECV if is_point_to_point(kind) else Why.COLLECTIVE


class Issuing(Hosting):
    """Sends, receives, collectives and batches of them."""

    def communicate(self, at: int, end: int) -> None:
        """Issue the action at ``at``; the members of a batch reach up to ``end``."""
        entry, lane, kind = at - self.begin, self.lane_of(at), self.kind_at(at)
        is_async = bool(self.columns.op[at] & ASYNC)
        if self.rules.lazy_init:
            self.first_use(at, end)
        if kind == Kind.BATCH and not self.rules.device:
            self._one_by_one(at, end)
        elif kind == Kind.BATCH and self._communicator_by_communicator(at, end, lane):
            pass
        else:
            now, batch = Launch(), kind == Kind.BATCH
            for member in range(at + batch, end):
                self._collect(now, member, batched=batch)
            # A batch may hold point-to-point, which waits for its turn in the queue.
            now.direct = now.direct and not batch
            why = Why.QUEUE if batch else _why(kind)
            self.launch(now, entry, lane, is_async=is_async, why=why)
        if kind == Kind.BARRIER and not is_async and self.rules.device and self.host_may_block:
            self.block_barrier(entry)
        if self.rules.barrier_last and is_async and is_collective(kind):
            self.rounds.append((self.columns.arg[at], entry))

    def _one_by_one(self, at: int, end: int) -> None:
        """Issue a batch as the loop of single calls that it is without a device."""
        entry, is_async = at - self.begin, bool(self.columns.op[at] & ASYNC)
        begin, kept = len(self.lanes[0]), len(self.pending)
        everything: list[int] = []
        for member in range(at + 1, end):
            now = Launch()
            self._collect(now, member, batched=True)
            self.launch(now, entry, 0, is_async=True, why=_why(self.kind_at(member)))
            everything += self.awaits[entry]
        del self.pending[kept:]
        self.done.pop(entry, None)
        self.awaits[entry] = tuple(everything)
        if self.rules.worker:
            self.note_fifo(entry, is_async=is_async)
        elif not is_async:
            self.await_entry(0, entry, entry, Why.QUEUE)
        elif self.exits_withdraw:
            self.keep_for_exit(entry, begin)

    def _communicator_by_communicator(self, at: int, end: int, lane: int) -> bool:
        """Issue a batch over several communicators; tell whether it is one.

        A group call is one kernel per communicator. Where one queue holds them they start in the
        order of first use, so that order has to be the same on all ranks; each goes to the queue of
        its own where there is one (ADR 0030).
        """
        parts: dict[int, list[int]] = {}
        for member in range(at + 1, end):
            parts.setdefault(self._slot_of(member), []).append(member)
        if len(parts) < 2:
            return False
        entry, everything = at - self.begin, list[int]()
        is_async, kept = bool(self.columns.op[at] & ASYNC), len(self.pending)
        self.done.pop(entry, None)
        for members in parts.values():
            now = Launch()
            for member in members:
                self._collect(now, member, batched=True)
            now.direct = False
            if self.rules.parallel:
                self._launch_parallel(now, entry, lane, is_async=True, why=Why.QUEUE)
            else:
                self._emit(now, 0, entry, wait=True, why=Why.QUEUE)
                self.awaits[entry] = tuple(now.awaits)
            everything += self.awaits[entry]
        del self.pending[kept:]
        self.awaits[entry] = tuple(everything)
        if not self.rules.parallel:
            self.note_fifo(entry, is_async=is_async)
        elif is_async:
            self.pending.append(entry)
        else:  # the stream goes on behind all of them
            self.put_awaits(lane, everything, entry, Why.QUEUE)
            self.done[entry] = lane
        return True

    def _slot_of(self, at: int) -> int:
        """Return the place of the rank in the group that a member of a batch uses."""
        columns, kind, arg = self.columns, self.kind_at(at), self.columns.arg[at]
        if is_collective(kind):
            return int(arg)
        return int((columns.chan_src_slot if kind in SEND_KINDS else columns.chan_dst_slot)[arg])

    def _collect(self, now: Launch, at: int, *, batched: bool) -> None:
        """Add one operation to a launch."""
        if is_point_to_point(self.kind_at(at)):
            self._collect_pair(now, at, batched=batched)
        else:
            self._collect_round(now, at)
        if self.rules.parallel:
            queue = self._queue_of(at, batched=batched)
            if not any(queue is known for known in now.queues):
                now.queues.append(queue)

    def _queue_of(self, at: int, *, batched: bool) -> Queue:
        columns, kind, arg = self.columns, self.kind_at(at), self.columns.arg[at]
        key: tuple[int, ...]
        if is_collective(kind):
            key = (arg,)
        elif batched or not self.rules.pair_comm:
            key = ((columns.chan_src_slot if kind in SEND_KINDS else columns.chan_dst_slot)[arg],)
        else:
            src, dst = columns.chan_src[arg], columns.chan_dst[arg]
            key = (columns.chan_ginst[arg], self.rank, dst if src == self.rank else src)
        return self.queues.setdefault(key, Queue())

    # --- point-to-point ----------------------------------------------------------------------

    def _is_small(self, sig: int) -> bool:
        """Tell whether data may leave early: a size that the plan does not say may be small."""
        size = self.sigs.bytes[sig]
        return self.rules.eager and (size <= self.rules.eager_bytes or size == UNKNOWN_BYTES)

    def _is_eager(self, kind: int, sig: int) -> bool:
        """Tell whether a send may finish with nobody there."""
        if self.rules.send_modes and kind in {Kind.BSEND, Kind.SSEND}:
            return kind == Kind.BSEND
        return self._is_small(sig)

    def _collect_pair(self, now: Launch, at: int, *, batched: bool) -> None:
        kind, channel = self.kind_at(at), self.columns.arg[at]
        if kind == Kind.PROBE:
            first = self.layout.peek_pair(channel, batched=batched)
            now.awaits.append(self.layout.ext((PROBE, first, 0, 0), 1))
            return
        send = kind in SEND_KINDS
        match = self.layout.next_pair(channel, send=send, batched=batched)
        self.check.add(match, at)
        died = at - self.begin in self.dropped and self.layout.meets(match)
        if self._is_poisoned(at) or died:
            self._note_poison(now, at, match)
            return
        if send and self.layout.probed(channel):
            now.arrive.append(self.layout.ext((PROBE, match, 0, 0), 1))
        now.arrive.append(match)
        if not (send and self._is_eager(kind, self.columns.sig[at])):
            now.awaits.append(match)

    def _note_poison(self, now: Launch, at: int, match: int) -> None:
        """Note a handle that died before its match (measured on gloo).

        A dropped send is never delivered, a dropped receive swallows its message; both stall what
        comes later.
        """
        columns, channel = self.columns, self.columns.arg[at]
        send, first = self.kind_at(at) in SEND_KINDS, at - self.begin in self.dropped
        if first and not send:
            now.arrive.append(match)
        peer = (columns.chan_dst if send else columns.chan_src)[channel]
        tag = columns.chan_tag[channel] if send else NONE
        self.poison.append((columns.chan_ginst[channel], peer, tag, send))
        dead = self.dead(self.rank)
        if not first:
            now.awaits.append(dead)

    def _is_poisoned(self, at: int) -> bool:
        columns, kind, arg = self.columns, self.kind_at(at), self.columns.arg[at]
        if is_collective(kind):
            home = columns.slot_ginst[arg]
            return any(ginst == home and not send for ginst, _, _, send in self.poison)
        send = kind in SEND_KINDS
        peer = (columns.chan_dst if send else columns.chan_src)[arg]
        ginst = columns.chan_ginst[arg]
        # A receive that swallowed its message stalls both directions of the pair.
        swallowed = (ginst, peer, NONE, False)
        return swallowed in self.poison or (
            send and (ginst, peer, columns.chan_tag[arg], True) in self.poison
        )

    # --- collectives -------------------------------------------------------------------------

    def _collect_round(self, now: Launch, at: int) -> None:
        rules, kind = self.rules, self.kind_at(at)
        slot, sig = self.columns.arg[at], self.columns.sig[at]
        match = self.layout.next_round(slot)
        self.check.add(match, at)
        self.check.count(match, self.layout.messages(slot))
        if self._is_poisoned(at):
            now.awaits.append(self.dead(self.rank))
            return
        if self.is_forced(match):
            self._collect_forced(now, slot, match, kind, sig)
            return
        if self._needs_nobody(kind, sig):
            self.out_of_order = True
            return
        if rules.degree[kind] != Degree.ALL and not rules.pre_barrier:
            self._collect_edges(now, slot, match, kind, sig)
            return
        if rules.barrier_last and kind == Kind.BARRIER:
            for other, entry in self.rounds:
                if other == slot and entry not in self.done:
                    now.before += self.awaits[entry]
        self.out_of_order |= bool(now.before)
        now.arrive.append(match)
        now.awaits.append(match)
        now.direct = True
        now.chained = not self.layout.is_first(slot, match)

    def _collect_forced(self, now: Launch, slot: int, match: int, kind: int, sig: int) -> None:
        """Let the members of a round meet as if they agreed.

        Whatever a rank issues there counts as its part, and each waits for those that its own call
        needs.
        """
        place, root, size = self._places(slot, sig)
        now.arrive += [match, self._presence(match, place)]
        if self.rules.empty_alone[kind] and self.sigs.bytes[sig] == 0:
            return
        if self._needs_nobody(kind, sig):
            return
        degree = Degree.ALL if self.rules.pre_barrier else self.rules.degree[kind]
        inward = kind in (Kind.GATHER, Kind.REDUCE)
        eager = self._is_small(sig)
        if degree == Degree.FLAT and (place == root) != inward and eager:
            return
        if degree == Degree.ALL or (degree == Degree.FLAT and place == root):
            now.awaits.append(match)
        elif degree == Degree.FLAT:
            now.awaits.append(self._presence(match, root))
        else:
            for src, dst in _tree(place, root, size):
                now.awaits.append(self._presence(match, src if dst == place else dst))

    def _needs_nobody(self, kind: int, sig: int) -> bool:
        """Tell whether a collective has nothing to do and returns alone."""
        return bool(self.rules.empty_alone[kind]) and self.sigs.bytes[sig] == 0

    def _presence(self, match: int, place: int) -> int:
        """Return the match that says that a member of a round is there."""
        return self.layout.ext((EDGE | 0xFFFF, match, place, place), 1)

    def _places(self, slot: int, sig: int) -> tuple[int, int, int]:
        """Return the places of a member and of the root in their group, and the group's size."""
        columns, given = self.columns, self.sigs.root[sig]
        ginst = columns.slot_ginst[slot]
        begin, end = columns.ginst_off[ginst], columns.ginst_off[ginst + 1]
        root = 0 if given == NONE else list(columns.slot_rank[begin:end]).index(given)
        return slot - begin, root, end - begin

    def _collect_edges(self, now: Launch, slot: int, match: int, kind: int, sig: int) -> None:
        """Let a rooted collective meet only those it exchanges data with."""
        place, root, size = self._places(slot, sig)
        eager = self._is_small(sig)
        tree = self.rules.degree[kind] == Degree.TREE
        edges = _tree(place, root, size) if tree else _flat(place, root, size, kind in INWARD)
        for src, dst in edges:
            edge = self._edge(match, kind, src, dst)
            if tree and dst == place:
                now.pre = edge
                continue
            now.arrive.append(edge)
            if not (src == place and eager):
                now.awaits.append(edge)

    def _edge(self, match: int, kind: int, src: int, dst: int) -> int:
        detail = self.rules.slot_class[kind] if self.rules.kind_slots else 0
        return self.layout.ext((EDGE | detail, match, src, dst), 2)


def _flat(place: int, root: int, size: int, inward: bool) -> Iterator[tuple[int, int]]:  # noqa: FBT001
    """Yield the transfers of a member where the root exchanges with everybody."""
    others = [other for other in range(size) if other != root] if place == root else [place]
    for other in others:
        yield (other, root) if inward else (root, other)


def _tree(place: int, root: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the transfers of a member of gloo's binomial broadcast.

    The parent of a place, counted from the root, is that place with its highest bit cleared.
    """
    own = (place - root) % size
    high = 1 << own.bit_length()
    if own:
        yield ((own ^ high >> 1) + root) % size, place
    while own + high < size:
        yield place, (own + high + root) % size
        high <<= 1
