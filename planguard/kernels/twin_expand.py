"""Symbolic code to columns, in Python (``expand.cpp``).

Loops are unrolled once per program; a rank then fills in its own channels and memberships.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.kernels.twin_columns import Columns
from planguard.kernels.twin_groups import GroupTable
from planguard.kernels.twin_unroll import (
    NOT_A_MEMBER,
    PEER_NOT_IN_GROUP,
    PEER_OFF_MESH,
    PEER_OUT_OF_RANGE,
    ROOT_NOT_IN_GROUP,
    TOO_LARGE,
    Failed,
    LocalRef,
    Tables,
    Unrolled,
    Unroller,
    length,
)
from planguard.plan.actions import KIND_MASK, NONE, Kind
from planguard.plan.code import REF_WORDS, WORDS

if TYPE_CHECKING:
    from collections.abc import Sequence


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


def expand(  # noqa: PLR0913, PLR0917  # a CompiledPlan, in the order of the native kernel
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
    """Return the columns of a compiled plan; ``failure[0]`` is 0 unless it cannot be expanded."""
    columns = Columns(world_size)
    groups = GroupTable(columns, mesh_sizes, group_kind, group_mask, group_off, group_members)
    lengths = [length(code, 0, len(code) // WORDS, max_entries) for code in programs]
    labels = [_note_features(columns, code) for code in programs]
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
            placer.place(rank, program, unrolled[program], labels=any(labels))
        except Failed as failed:
            kind, where, instruction, value = failed.args
            columns.failure = (kind, rank, where, instruction, value)
            break
    return columns
