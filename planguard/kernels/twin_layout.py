"""Match numbers: which actions meet, before anybody runs (``layout.cpp``).

Positions decide matches: the k-th collective of a communicator at every member, the k-th send and
the k-th receive of a channel. A layout gives each such position its number up front.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from planguard.plan.actions import KIND_MASK, NONE, Kind, is_collective

if TYPE_CHECKING:
    from array import array

    from planguard.kernels.twin_columns import Columns, Key, Lanes
    from planguard.kernels.twin_rules import Rules

MAX_MATCHES = 1 << 30
"""A match number shares its word with two flags."""

EDGE, INIT, NEW_GROUP, TOKEN, PROBE, DEAD = (number << 24 for number in range(1, 7))
"""Types of extra matches, the first word of their key."""


class Layout:
    """Numbers the matches of a plan under one model and writes their needs to ``lanes``."""

    def __init__(self, columns: Columns, rules: Rules, lanes: Lanes) -> None:
        self._columns, self._rules, self._lanes = columns, rules, lanes
        self._round = [0] * len(columns.slot_rank)
        self._messages = [0] * len(columns.slot_rank)
        self._slot_comm: list[int] | array[int] = columns.slot_ginst
        self._names: dict[Key, int] = {}
        self._created: dict[tuple[tuple[int, ...], int], int] = {}
        self._slots: dict[tuple[int, int], int] = {}
        self._send_class: list[int] = []
        self._recv_class: list[int] = []
        self._number_comms()
        self._number_channels()
        # Until its own `new_group` a rank uses the group as the plan made it.
        self._slot_comm = list(columns.slot_ginst)
        lanes.ext_base = len(lanes.need)
        self._probed = self._find_probes()

    # --- rounds ------------------------------------------------------------------------------

    def comm(self, slot: int) -> int:
        """Return the communicator that a slot uses now."""
        return self._slot_comm[slot]

    def comm_size(self, comm: int) -> int:
        """Return the number of members of a communicator."""
        ginst = self._lanes.comm_ginst[comm]
        return self._columns.ginst_off[ginst + 1] - self._columns.ginst_off[ginst]

    def next_round(self, slot: int) -> int:
        """Return the match of the next collective of a slot."""
        self._round[slot] += 1
        return self._lanes.comm_base[self.comm(slot)] + self._round[slot] - 1

    def messages(self, slot: int) -> int:
        """Return how many messages the rank of a slot made so far on its communicator."""
        return self._messages[slot]

    def is_first(self, slot: int, match: int) -> bool:
        """Tell whether a round of a slot is the first of its communicator."""
        return self._lanes.comm_base[self.comm(slot)] == match

    def _number_comms(self) -> None:
        columns, lanes = self._columns, self._lanes
        lanes.comm_ginst.extend(range(len(columns.ginst_group)))
        if columns.has_new_group:
            rounds = self._rounds_with_creation()
        else:
            rounds = dict.fromkeys(lanes.comm_ginst, 0)
            for slot, ginst in enumerate(columns.slot_ginst):
                rounds[ginst] = max(rounds[ginst], columns.slot_count[slot])
        total = 0
        for comm in range(len(lanes.comm_ginst)):
            lanes.comm_base.append(total)
            total += rounds.get(comm, 0)
            if total < MAX_MATCHES:
                lanes.need.extend([self.comm_size(comm)] * rounds.get(comm, 0))
        lanes.overflow |= total >= MAX_MATCHES
        lanes.p2p_base = total

    # --- creation by rank --------------------------------------------------------------------

    def _rounds_with_creation(self) -> dict[int, int]:
        """Count rounds per creation: ranks may use one creation under different group names."""
        columns, rounds = self._columns, dict[int, int]()
        self._slot_comm = list(columns.slot_ginst)
        for slot, (ginst, rank) in enumerate(
            zip(columns.slot_ginst, columns.slot_rank, strict=True)
        ):
            self._slots[columns.ginst_group[ginst], rank] = slot
        for rank in range(columns.world_size):
            counter = 0
            for at in range(columns.rank_off[rank], columns.rank_off[rank + 1]):
                kind, arg = columns.op[at] & KIND_MASK, columns.arg[at]
                if kind == Kind.NEW_GROUP:
                    self.create_group(rank, arg, counter)
                    counter += 1
                elif is_collective(kind):
                    self._round[arg] += 1
                    rounds[self.comm(arg)] = max(rounds.get(self.comm(arg), 0), self._round[arg])
        self._round = [0] * len(columns.slot_rank)
        return rounds

    def create_group(self, rank: int, group: int, counter: int) -> int | None:
        """Let later calls of a rank on a group use the communicator of this creation.

        torch.distributed names groups by a per-process counter: two ranks share a communicator
        when member list and counter agree, whatever the plan calls the group.
        """
        columns, lanes = self._columns, self._lanes
        slot = self._slots.get((group, rank))
        if slot is None:
            return None
        ginst = columns.slot_ginst[slot]
        members = tuple(columns.slot_rank[columns.ginst_off[ginst] : columns.ginst_off[ginst + 1]])
        fresh = len(columns.ginst_group) + len(self._created)
        comm = self._created.setdefault((members, counter), fresh)
        if comm == len(lanes.comm_ginst):
            lanes.comm_ginst.append(ginst)
        self._slot_comm[slot] = comm
        self._round[slot] = self._messages[slot] = 0
        return comm

    # --- pairs -------------------------------------------------------------------------------

    def _number_channels(self) -> None:
        columns, lanes = self._columns, self._lanes
        self._name_classes()
        self.n_classes = max(self._send_class + self._recv_class, default=-1) + 1
        self._sends = [0] * self.n_classes
        self._recvs = [0] * self.n_classes
        lanes.class_chan.extend([0] * self.n_classes)
        for channel, (send, recv) in enumerate(
            zip(self._send_class, self._recv_class, strict=True)
        ):
            self._sends[send] += columns.send_count[channel]
            self._recvs[recv] += columns.recv_count[channel]
            lanes.class_chan[send] = lanes.class_chan[recv] = channel
        # Unbatched point-to-point on a communicator of its pair never meets batched.
        copies = 2 if self._rules.pair_comm else 1
        total = len(lanes.need)
        for _ in range(copies):
            for sends, recvs in zip(self._sends, self._recvs, strict=True):
                lanes.class_base.append(total)
                total += max(sends, recvs)
        lanes.overflow |= total >= MAX_MATCHES
        if not lanes.overflow:
            lanes.need.extend([2] * (total - len(lanes.need)))
        self._sent = [0] * (copies * self.n_classes)
        self._received = [0] * (copies * self.n_classes)

    def _name_classes(self) -> None:
        """Put channels that the model tells apart no further into one class."""
        columns, n = self._columns, len(self._columns.chan_ginst)
        one_tag = len(set(columns.chan_tag)) < 2
        if not columns.has_new_group and (self._rules.use_tags or one_tag):
            self._send_class = self._recv_class = list(range(n))
            return
        classes: dict[Key, int] = {}

        def name(channel: int, slot: int) -> int:
            home = columns.chan_ginst[channel] if slot == NONE else self.comm(slot)
            tag = columns.chan_tag[channel] if self._rules.use_tags else 0
            key = (home, columns.chan_src[channel], columns.chan_dst[channel], tag)
            return classes.setdefault(key, len(classes))

        for channel in range(n):
            self._send_class.append(name(channel, columns.chan_src_slot[channel]))
            self._recv_class.append(name(channel, columns.chan_dst_slot[channel]))

    def _class(self, channel: int, *, send: bool, batched: bool) -> int:
        found = (self._send_class if send else self._recv_class)[channel]
        return found + self.n_classes if batched and self._rules.pair_comm else found

    def next_pair(self, channel: int, *, send: bool, batched: bool) -> int:
        """Return the match of the next send, or receive, of a channel."""
        place = self._class(channel, send=send, batched=batched)
        slot = (self._columns.chan_src_slot if send else self._columns.chan_dst_slot)[channel]
        if slot != NONE:
            self._messages[slot] += 1
        counts = self._sent if send else self._received
        counts[place] += 1
        return self._lanes.class_base[place] + counts[place] - 1

    def peek_pair(self, channel: int, *, batched: bool) -> int:
        """Return the match that the next receive of a channel would get."""
        place = self._class(channel, send=False, batched=batched)
        return self._lanes.class_base[place] + self._received[place]

    def meets(self, match: int) -> bool:
        """Tell whether both sides of a pair exist in the plan."""
        place = bisect_right(self._lanes.class_base, match) - 1
        position = match - self._lanes.class_base[place]
        place %= self.n_classes
        return position < self._sends[place] and position < self._recvs[place]

    # --- extra matches -----------------------------------------------------------------------

    def ext(self, key: Key, need: int) -> int:
        """Return the match called ``key``, made with ``need`` arrivals on first use."""
        match = self._names.get(key)
        if match is None:
            match = self._names[key] = self._make(key, need)
        return match

    def token(self, rank: int, entry: int) -> int:
        """Return a fresh match of one arrival inside one rank."""
        return self._make((TOKEN, rank, entry, 0), 1)

    def _make(self, key: Key, need: int) -> int:
        lanes = self._lanes
        lanes.need.append(need)
        lanes.ext_keys.append(key)
        lanes.overflow |= len(lanes.need) >= MAX_MATCHES
        return len(lanes.need) - 1

    def _find_probes(self) -> set[int]:
        columns = self._columns
        if not columns.has_probe:
            return set()
        entries = zip(columns.op, columns.arg, strict=True)
        return {arg for op, arg in entries if op & KIND_MASK == Kind.PROBE}

    def probed(self, channel: int) -> bool:
        """Tell whether some probe looks at a channel."""
        return channel in self._probed
