"""Symbolic code to columns, in Python (``expand.cpp``).

Loops are unrolled once per program; a rank then fills in its own channels and memberships.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planguard.kernels.twin_columns import KIND_MASK, SENDS, Columns
from planguard.kernels.twin_groups import GroupTable
from planguard.plan.actions import MEMBER, NONE, Kind, is_collective, is_point_to_point
from planguard.plan.code import POOLED, REF_WORDS, WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TOO_LONG = 1 << 56
(
    PEER_OFF_MESH, PEER_NOT_IN_GROUP, SELF_PEER, NOT_A_MEMBER, ROOT_NOT_IN_GROUP, TOO_LARGE,
    UNBOUND_HANDLE, MALFORMED, PEER_OUT_OF_RANGE,
) = range(1, 10)  # fmt: skip
"""Kinds of failure; ``planguard/execution/expand.py`` has the messages."""


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
        is_ref = is_point_to_point(kind) or is_collective(kind) or kind == Kind.INIT
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
        if handle and (is_point_to_point(kind) or is_collective(kind) or kind == Kind.BATCH):
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
        elif kind in SENDS:
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


class Placer:
    """Gives every rank its copy of its program, with its own channels and slots."""

    def __init__(self, tables: Tables, groups: GroupTable, mesh_sizes: Sequence[int]) -> None:
        self._tables, self._groups, self._mesh_sizes = tables, groups, mesh_sizes
        self._channels: dict[tuple[int, int, int, int], int] = {}

    def place(self, rank: int, program: int, source: Unrolled, *, labels: bool) -> None:
        """Append the entries of one rank.

        Raises:
            Failed: The rank uses a peer, root or group it cannot use.
        """
        columns = self._tables.columns
        local = [self._resolve(rank, program, use) for use in source.refs]
        for (place, root), at in source.roots.items():
            if self._groups.slot_in(columns.slot_ginst[local[place]], root) is None:
                raise Failed(ROOT_NOT_IN_GROUP, program, at, root)
        columns.op.extend(source.op)
        columns.sig.extend(source.sig)
        columns.arg.extend(
            local[arg] if is_ref else arg
            for arg, is_ref in zip(source.arg, source.is_ref, strict=True)
        )
        if labels:
            columns.label.extend(source.label)
        if columns.has_stream:
            columns.stream.extend(source.stream)

    def _resolve(self, rank: int, program: int, use: LocalRef) -> int:
        """Return the slot, or the channel, that a reference means for one rank."""
        kind, group, mode, peer_a, peer_b, tag = self._tables.refs[
            use.ref * REF_WORDS : (use.ref + 1) * REF_WORDS
        ]
        columns, at = self._tables.columns, use.instruction
        slot = self._groups.slot_of(group, rank)
        if slot is None:
            raise Failed(NOT_A_MEMBER, program, at, group)
        if kind == 0:
            columns.slot_count[slot] += use.collectives
            return slot
        ginst, peer, peer_slot = columns.slot_ginst[slot], NONE, NONE
        if mode == 2:
            columns.has_any_source = True
        else:
            peer = self._peer(rank, mode, peer_a, peer_b, (program, at))
            if peer == rank:
                raise Failed(SELF_PEER, program, at, peer)
            found = self._groups.slot_in(ginst, peer)
            if found is None:
                raise Failed(PEER_NOT_IN_GROUP, program, at, peer)
            peer_slot = found
        columns.has_any_tag |= tag < 0
        ends = (rank, peer, slot, peer_slot) if kind == 1 else (peer, rank, peer_slot, slot)
        channel = self._channel(ginst, NONE if tag < 0 else tag, *ends)
        columns.send_count[channel] += use.sends
        columns.recv_count[channel] += use.recvs
        return channel

    def _peer(self, rank: int, mode: int, a: int, b: int, where: tuple[int, int]) -> int:
        if mode == 0:
            if not 0 <= a < self._tables.columns.world_size:
                raise Failed(PEER_OUT_OF_RANGE, *where, a)
            return a
        size, here, delta = self._mesh_sizes[a], self._groups.coordinate(rank, a), b >> 1
        there = (here + delta) % size if b & 1 else here + delta
        if not 0 <= there < size:
            raise Failed(PEER_OFF_MESH, *where, delta)
        return rank + (there - here) * self._groups.strides[a]

    def _channel(
        self, ginst: int, tag: int, src: int, dst: int, src_slot: int, dst_slot: int
    ) -> int:
        columns = self._tables.columns
        found = self._channels.setdefault((ginst, src, dst, tag), len(self._channels))
        if found == len(columns.chan_ginst):
            columns.chan_ginst.append(ginst)
            columns.chan_src.append(src)
            columns.chan_dst.append(dst)
            columns.chan_tag.append(tag)
            columns.chan_src_slot.append(src_slot)
            columns.chan_dst_slot.append(dst_slot)
            columns.send_count.append(0)
            columns.recv_count.append(0)
        return found


def _note_features(columns: Columns, code: Sequence[int]) -> bool:
    """Note which features a program uses; return whether it has labels."""
    kinds = {op & KIND_MASK for op in code[0::WORDS]}
    columns.has_markers |= any(Kind.UNORDERED_BEGIN <= kind <= Kind.AFTER for kind in kinds)
    columns.has_new_group |= Kind.NEW_GROUP in kinds
    columns.has_probe |= Kind.PROBE in kinds
    columns.has_drop |= Kind.DROP in kinds
    columns.has_stream |= any(code[5::WORDS])
    columns.has_wait_choice |= any(
        op & KIND_MASK == Kind.WAIT_MANY and mode
        for op, mode in zip(code[0::WORDS], code[2::WORDS], strict=True)
    )
    return any(code[4::WORDS])


def expand(  # noqa: PLR0913  # the arrays of a CompiledPlan, in the order of the native kernel
    world_size: int,
    mesh_sizes: Sequence[int],
    group_kind: Sequence[int],
    group_mask: Sequence[int],
    group_off: Sequence[int],
    group_members: Sequence[int],
    refs: Sequence[int],
    programs: Sequence[Sequence[int]],
    n_slots: Sequence[int],
    rank_program: Sequence[int],
    sig_root: Sequence[int],
    label_pool: Sequence[int],
    aux: Sequence[int],
    max_entries: int,
) -> Columns:
    """Return the columns of a compiled plan; ``failure[0]`` is not 0 where it cannot be expanded."""
    columns = Columns(world_size)
    groups = GroupTable(columns, mesh_sizes, group_kind, group_mask, group_off, group_members)
    lengths = [length(code, 0, len(code) // WORDS, max_entries) for code in programs]
    labels = any([_note_features(columns, code) for code in programs])
    columns.rank_off.append(0)
    for rank, program in enumerate(rank_program):
        total = columns.rank_off[-1] + lengths[program]
        if total > max_entries:
            columns.failure = (TOO_LARGE, rank, program, 0, max_entries)
            return columns
        columns.rank_off.append(total)
    tables = Tables(columns, refs, sig_root, label_pool, aux)
    placer = Placer(tables, groups, mesh_sizes)
    unrolled: dict[int, Unrolled] = {}
    for rank, program in enumerate(rank_program):
        try:
            if program not in unrolled:
                unroller = Unroller(tables, program, programs[program], n_slots[program])
                unrolled[program] = unroller.run()
            placer.place(rank, program, unrolled[program], labels=labels)
        except Failed as failed:
            kind, where, instruction, value = failed.args
            columns.failure = (kind, rank, where, instruction, value)
            break
    return columns
