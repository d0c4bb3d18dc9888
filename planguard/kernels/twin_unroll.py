"""One program of the plan with its loops unrolled, in Python (``expand.cpp``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planguard.plan.actions import (
    KIND_MASK,
    LAUNCHES,
    MEMBER,
    NONE,
    ON_GROUPS,
    SEND_KINDS,
    Kind,
    is_collective,
)
from planguard.plan.code import POOLED, REF_WORDS, WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.kernels.twin_columns import Columns

TOO_LONG = 1 << 56
(
    PEER_OFF_MESH, PEER_NOT_IN_GROUP, NOT_A_MEMBER, ROOT_NOT_IN_GROUP, TOO_LARGE, UNBOUND_HANDLE,
    MALFORMED, PEER_OUT_OF_RANGE,
) = range(1, 9)  # fmt: skip
"""Kinds of failure; ``planguard/execution/running/expand.py`` has the messages."""


class Failed(Exception):  # noqa: N818  # never leaves this module
    """The plan cannot be expanded: kind, program, instruction, value."""


@dataclass(slots=True)
class LocalRef:
    """A reference as one program uses it: how often, and where first."""

    ref: int
    instruction: int
    collectives: int = 0
    sends: int = 0
    recvs: int = 0


@dataclass(slots=True)
class Unrolled:
    """A program without loops; ``arg`` is still an index into ``refs`` where ``is_ref`` says so."""

    op: list[int] = field(default_factory=list)
    arg: list[int] = field(default_factory=list)
    is_ref: list[bool] = field(default_factory=list)
    sig: list[int] = field(default_factory=list)
    label: list[int] = field(default_factory=list)
    stream: list[int] = field(default_factory=list)
    refs: list[LocalRef] = field(default_factory=list)
    roots: dict[tuple[int, int], int] = field(default_factory=dict)


class Tables:
    """What all programs share, and the columns under construction."""

    def __init__(
        self,
        columns: Columns,
        refs: Sequence[int],
        sig_root: Sequence[int],
        label_pool: Sequence[int],
        aux: Sequence[int],
    ) -> None:
        self.columns = columns
        self.refs, self.sig_root, self.label_pool, self.aux = refs, sig_root, label_pool, aux


def instructions(
    code: Sequence[int], begin: int, end: int, iteration: int = 0
) -> Iterator[tuple[int, int]]:
    """Yield instruction index and innermost iteration of everything that runs, loops unrolled."""
    at = begin
    while at < end:
        op, times, body = code[at * WORDS], code[at * WORDS + 1], code[at * WORDS + 2]
        at += 1
        if op & KIND_MASK != Kind.REPEAT:
            yield at - 1, iteration
            continue
        for turn in range(times):
            yield from instructions(code, at, min(at + body, end), turn)
        at += body


def length(code: Sequence[int], begin: int, end: int, limit: int) -> int:
    """Count the entries of a range of code; ``TOO_LONG`` above ``limit``."""
    total, at = 0, begin
    while at < end:
        kind, times, body = code[at * WORDS] & KIND_MASK, code[at * WORDS + 1], code[at * WORDS + 2]
        at += 1
        if kind == Kind.REPEAT:
            total += times * length(code, at, min(at + body, end), limit)
            at += body
        else:
            total += kind != Kind.BIND
        if total > limit:
            return TOO_LONG
    return total


class Unroller:
    """Unrolls one program."""

    def __init__(self, tables: Tables, program: int, code: Sequence[int], n_slots: int) -> None:
        self._tables, self._program, self._code = tables, program, code
        self._slots = [NONE] * (n_slots + 1)
        self._last = NONE
        self._places: dict[int, int] = {}
        # Open blocks of undecided order: first entry, and list items that name a later entry.
        self._blocks: list[tuple[int, list[tuple[int, int, int]]]] = []
        self.out = Unrolled()

    def run(self) -> Unrolled:
        """Return the program without loops.

        Raises:
            Failed: A handle that is waited for was never bound.
        """
        code, pooled = self._code, self._tables.label_pool
        for at, iteration in instructions(code, 0, len(code) // WORDS):
            op, a, b, sig, label, stream = code[at * WORDS : at * WORDS + WORDS]
            if op == Kind.BIND:
                self._slots[a] = self._last
                continue
            entry = len(self.out.op)
            self._append(op, a, sig, at)
            if label & POOLED:
                place = (label & ~POOLED) + iteration
                label = pooled[place] if place < len(pooled) else 0
            self.out.label.append(label)
            self.out.stream.append(stream & 0xFF)
            self._bind(op, b, entry)
        return self.out

    def _append(self, op: int, arg: int, sig: int, at: int) -> None:
        kind, out = op & KIND_MASK, self.out
        is_ref = kind in ON_GROUPS
        if is_ref:
            arg = self._refer(kind, arg, sig, at)
        elif kind in {Kind.WAIT, Kind.TEST, Kind.DROP}:
            arg = self._bound(arg, at)
        elif kind in {Kind.WAIT_MANY, Kind.COMPUTE}:
            arg = self._list(arg, at)
        elif kind == Kind.AFTER:
            arg = self._after(arg, at)
        elif kind in {Kind.UNORDERED_BEGIN, Kind.THREADS_BEGIN}:
            self._blocks.append((len(out.op), []))
        elif kind in {Kind.UNORDERED_END, Kind.THREADS_END}:
            self._close_block()
        out.op.append(op & 0xFF)
        out.arg.append(arg)
        out.is_ref.append(is_ref)
        out.sig.append(sig)

    def _bind(self, op: int, handle: int, entry: int) -> None:
        kind = op & KIND_MASK
        if not op & MEMBER:
            self._last = entry
        if handle and kind in LAUNCHES:
            self._slots[handle - 1] = entry

    def _refer(self, kind: int, ref: int, sig: int, at: int) -> int:
        out = self.out
        if ref >= len(self._tables.refs) // REF_WORDS:
            raise Failed(MALFORMED, self._program, at, ref)
        place = self._places.setdefault(ref, len(out.refs))
        if place == len(out.refs):
            out.refs.append(LocalRef(ref, at))
        use = out.refs[place]
        if is_collective(kind):
            use.collectives += 1
            root = self._tables.sig_root[sig] if sig < len(self._tables.sig_root) else NONE
            if root != NONE:
                out.roots.setdefault((place, root), at)
        elif kind in SEND_KINDS:
            use.sends += 1
        elif kind == Kind.RECV:
            use.recvs += 1
        return place

    def _bound(self, slot: int, at: int) -> int:
        if self._slots[slot] == NONE:
            raise Failed(UNBOUND_HANDLE, self._program, at, slot)
        return self._slots[slot]

    def _list(self, offset: int, at: int) -> int:
        """Copy a list of slots as a list of entries and return its place."""
        if offset == NONE:
            return NONE
        given, aux = self._tables.aux, self._tables.columns.aux
        place, count = len(aux), given[offset]
        aux.append(count)
        for slot in given[offset + 1 : offset + 1 + count]:
            aux.append(self._bound(slot, at))
        return place

    def _after(self, offset: int, at: int) -> int:
        """Copy the list of an ``after``, which may name an item that comes later in its block."""
        if not self._blocks:
            return self._list(offset, at)
        given, aux = self._tables.aux, self._tables.columns.aux
        begin, later = self._blocks[-1]
        place, count = len(aux), given[offset]
        aux.append(count)
        for slot in given[offset + 1 : offset + 1 + count]:
            entry = self._slots[slot]
            if entry == NONE or entry < begin:  # not bound, or by another iteration
                later.append((len(aux), slot, at))
            aux.append(entry)
        return place

    def _close_block(self) -> None:
        if not self._blocks:
            return
        begin, later = self._blocks.pop()
        for place, slot, at in later:
            entry = self._slots[slot]
            if entry == NONE or entry < begin:
                raise Failed(UNBOUND_HANDLE, self._program, at, slot)
            self._tables.columns.aux[place] = entry
