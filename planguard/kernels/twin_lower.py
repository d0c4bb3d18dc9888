"""Columns to lanes, rank by rank (``lower.cpp``); docs/adr/0017 argues for every shortcut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.kernels.twin_issue import Issuing
from planguard.kernels.twin_rules import LowerOptions, Rules, Signatures, Why
from planguard.kernels.twin_withdraw import Withdrawal
from planguard.plan.actions import COMMUNICATIONS, NONE, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planguard.kernels.twin_columns import Columns, Lanes


class Lowerer(Issuing):
    """Lowers the ranks of a plan one after the other."""

    def run(self) -> Lanes:
        """Return the lanes of all ranks, or none where there are too many matches."""
        out = self.out
        if out.overflow:
            return out
        for rank in range(self.columns.world_size):
            if not out.overflow:
                self._lower_rank(rank)
        if self.must_unchain():
            return out
        if self.rules.kind_slots:
            for match in out.broken:
                if not self.is_forced(match):
                    out.need[match] = NONE
        out.lane_off.append(len(out.code))
        self._withdraw()
        return out

    def _withdraw(self) -> None:
        """Let those wait for ever whose partner may leave before they are done."""
        if self.leaving:
            Withdrawal(self.out, self.dead).apply(self.leaving)

    def _lower_rank(self, rank: int) -> None:
        self.start_rank(rank)
        at, end = self.begin, self.columns.rank_off[rank + 1]
        if self.rules.poison_drops and self.columns.has_drop:
            for drop in range(at, end):
                if self.kind_at(drop) == Kind.DROP:
                    self._mark_dropped(self.columns.arg[drop])
        while at < end and not self.ended:
            at = self._step(at)
        self._finish()

    def _mark_dropped(self, entry: int) -> None:
        """Note a handle that is dropped; the handle of a batch is that of its members."""
        place = self.begin + entry
        members = self.columns.arg[place] if self.kind_at(place) == Kind.BATCH else 0
        self.dropped.update(range(entry, entry + members + 1))

    def _step(self, at: int) -> int:
        """Lower one action and return where the next one begins."""
        kind, entry, arg = self.kind_at(at), at - self.begin, self.columns.arg[at]
        if kind in COMMUNICATIONS:
            self.communicate(at, at + 1)
            return at + 1
        self.awaits[entry] = ()
        self.done.pop(entry, None)
        self.solid[entry] = None
        if kind == Kind.BATCH:
            self.communicate(at, at + 1 + arg)
            return at + 1 + arg
        if kind == Kind.WAIT:
            self.wait_handle(at, arg)
        elif kind == Kind.WAIT_MANY:
            self.wait_list(at)
        elif kind == Kind.COMPUTE:
            self.depend(at)
        elif kind == Kind.HOST_SYNC:
            self.host_sync(at)
        elif kind == Kind.EVENT_RECORD:
            self.record_event(at)
        elif kind == Kind.EVENT_WAIT:
            self.wait_event(at)
        elif kind == Kind.INIT:
            self.init_comm(arg, entry)
        elif kind == Kind.NEW_GROUP:
            self.new_group(at)
        elif kind == Kind.EXIT:
            self.leave()
        # Test, drop, destroy and copies move no progress.
        return at + 1

    def _finish(self) -> None:
        """Append the lanes of the rank to those of the plan."""
        out = self.out
        if self.rules.parallel:
            # A queue that never drains is stuck: the program ends with a wait for all of it.
            for entry in self.pending:
                if entry not in self.done:
                    self.await_entry(0, entry, entry, Why.QUEUE)
        for lane, (kind, code) in enumerate(zip(self.kinds, self.lanes, strict=True)):
            begin, end = len(out.code), len(out.code) + len(code)
            out.lane_off.append(begin)
            out.lane_rank.append(self.rank)
            out.lane_kind.append(kind)
            out.code.extend(word for word, _, _ in code)
            if self.options.origins:
                out.origin.extend(entry for _, entry, _ in code)
                out.why.extend(why for _, _, why in code)
            if not self.rules.device:
                out.lane_soft.append(self._soft(lane, begin, end))

    def _soft(self, lane: int, begin: int, end: int) -> int:
        """Return where a lane may stand for ever without anybody being stuck.

        The worker of ProcessGroupMPI may stay at what its host never waits for, and a broadcast
        that forwards by itself and that nobody waits for is no stuck host.
        """
        if lane > 0:
            return end if self.rules.worker else begin
        if not self.rules.worker:
            return end
        return begin if self.last_block is None else begin + self.code_end[self.last_block]


def lower(  # noqa: PLR0913, PLR0917  # signature columns, in the order of the native kernel
    columns: Columns,
    sig_kind: Sequence[int],
    sig_bytes: Sequence[int],
    sig_dtype: Sequence[int],
    sig_redop: Sequence[int],
    sig_root: Sequence[int],
    sig_layout: Sequence[int],
    sig_splits: Sequence[int],
    rules: Mapping[str, Any],
    origins: bool,  # noqa: FBT001
    forced: Sequence[int],
    threads: bool = False,  # noqa: FBT001, FBT002
) -> Lanes:
    """Return the lanes of a plan under the rules of one model.

    Args:
        columns: What ``expand`` returned.
        sig_kind: Kind of the collective, per signature; 0 is point-to-point.
        sig_bytes: Size in bytes, ``UNKNOWN_BYTES`` where the plan does not say.
        sig_dtype: Element type, 0 where not given.
        sig_redop: Reduce operation, 0 where there is none.
        sig_root: Root as a global rank, ``NONE`` without one.
        sig_layout: Layout of a coalesced collective, 0 for none.
        sig_splits: Split vectors of an uneven collective, 0 for none.
        rules: The rules; ``planguard.semantics.model.rules_for`` makes them.
        origins: Keep the entry and the reason of every instruction.
        forced: Rounds whose members meet whatever they issue there.
        threads: The calls of a host are those of several threads, which are told apart later:
            nothing that holds the host up holds up what is launched behind it.

    Raises:
        ValueError: A table of the rules does not have one byte per kind.
    """
    sigs = Signatures(sig_kind, sig_bytes, sig_dtype, sig_redop, sig_root, sig_layout, sig_splits)
    options = LowerOptions(origins=origins, forced=frozenset(forced), threads=threads)
    lowerer = Lowerer(columns, sigs, Rules.of(rules), options, may_chain=True)
    lanes = lowerer.run()
    if not lowerer.must_unchain():
        return lanes
    return Lowerer(columns, sigs, Rules.of(rules), options, may_chain=False).run()
