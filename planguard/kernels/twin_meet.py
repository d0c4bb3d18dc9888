"""Do the members of one match agree? Compares signatures as members are lowered (``meet.h``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.plan.actions import ASYNC, UNKNOWN_BYTES

if TYPE_CHECKING:
    from planguard.kernels.twin_columns import Columns, Lanes
    from planguard.kernels.twin_rules import Rules, Signatures

MAX_MIXED = 64
"""Rounds with blocking and nonblocking members that are kept: samples for a note."""


class MeetCheck:
    """Compares every member of a match with those before it, and keeps what disagrees."""

    def __init__(self, columns: Columns, sigs: Signatures, rules: Rules, lanes: Lanes) -> None:
        self._columns, self._sigs, self._rules, self._lanes = columns, sigs, rules, lanes
        self._seen: dict[int, tuple[int, int]] = {}
        self._labels: dict[int, int] = {}
        self._messages: dict[int, int] = {}

    def add(self, match: int, at: int) -> None:
        """Compare one more member, the entry ``at``, with the others of its match."""
        sig, mark = self._columns.sig[at], self._columns.op[at] & ASYNC
        if match not in self._seen:
            self._seen[match] = sig, mark
            if self._is_split(sig):
                self._lanes.split_rounds.append(match)
        else:
            self._compare(match, sig, mark)
        if self._columns.label:
            self._compare_label(match, self._columns.label[at])

    def count(self, match: int, messages: int) -> None:
        """Compare how many messages a member of a round made before it on its communicator."""
        if self._rules.counts_messages:
            if self._messages.get(match, messages) != messages:
                self._report(match)
            self._messages[match] = messages

    def _is_split(self, sig: int) -> bool:
        return bool(self._sigs.splits[sig])

    def _compare(self, match: int, sig: int, mark: int) -> None:
        lanes, sigs, rules = self._lanes, self._sigs, self._rules
        other, first_mark = self._seen[match]
        is_round = match < lanes.p2p_base
        if is_round and first_mark != mark:
            if rules.sync_is_a_kind:
                self._report(match)
                lanes.broken.append(match)
            elif len(lanes.mixed_async) < MAX_MIXED:
                lanes.mixed_async.append(match)
        if other == sig:
            return
        # One signature stands for all members before. Where neither of two says everything that the
        # other says, none can, and the whole match is compared later.
        more, less = self._adds(sig, other), self._adds(other, sig)
        splits = self._is_split(sig) and not self._is_split(other)
        if is_round and ((more and less) or splits):
            lanes.split_rounds.append(match)
        kinds = sigs.kind[other], sigs.kind[sig]
        if is_round and rules.slot_class[kinds[0]] != rules.slot_class[kinds[1]]:
            lanes.broken.append(match)
        if self._disagree(other, sig):
            self._report(match)
        if more and not less:
            self._seen[match] = sig, first_mark

    def _adds(self, sig: int, other: int) -> bool:
        """Tell whether a signature says a size, dtype or reduction that another leaves out."""
        sigs = self._sigs
        if sigs.bytes[other] == UNKNOWN_BYTES and sigs.bytes[sig] != UNKNOWN_BYTES:
            return True
        return any(field[sig] and not field[other] for field in (sigs.dtype, sigs.redop))

    def _disagree(self, left: int, right: int) -> bool:
        sigs, spelling = self._sigs, self._rules.spelling
        if spelling[sigs.kind[left]] != spelling[sigs.kind[right]]:
            return True
        splits = self._is_split(left) or self._is_split(right)
        sizes = {sigs.bytes[left], sigs.bytes[right]} - {UNKNOWN_BYTES}
        if not splits and len(sizes) > 1:
            return True
        optional = (sigs.dtype, sigs.redop)
        if any(len({field[left], field[right]} - {0}) > 1 for field in optional):
            return True
        if sigs.root[left] != sigs.root[right]:
            return True
        return not splits and sigs.layout[left] != sigs.layout[right]

    def _compare_label(self, match: int, label: int) -> None:
        if label:
            if self._labels.get(match, label) != label:
                self._report(match)
            self._labels[match] = label

    def _report(self, match: int) -> None:
        lanes = self._lanes
        lanes.n_mismatched += 1
        if not lanes.mismatched or lanes.mismatched[-1] != match:
            lanes.mismatched.append(match)
