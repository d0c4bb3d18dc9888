"""Group instances of a plan and who is a member of which (``groups.cpp``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.kernels.twin_columns import Columns


class GroupTable:
    """Fills the group tables of ``columns`` and answers who sits where.

    Args:
        columns: Gets group instances and their slots; a slot is one membership of one rank.
        mesh_sizes: Sizes of the mesh dimensions, row-major.
        kind: Per group: 0 explicit, 1 mesh family.
        mask: Per family: the mesh dimensions that vary inside one instance, as bits.
        off: Offsets of the members of the explicit groups.
        members: Their ranks, in order.
    """

    def __init__(
        self,
        columns: Columns,
        mesh_sizes: Sequence[int],
        kind: Sequence[int],
        mask: Sequence[int],
        off: Sequence[int],
        members: Sequence[int],
    ) -> None:
        self._columns, self._sizes = columns, tuple(mesh_sizes)
        self._kind, self._mask = kind, mask
        self.strides = self._make_strides()
        self._first: list[int] = []
        self._places: list[dict[int, int]] = []
        columns.ginst_off.append(0)
        for group, is_family in enumerate(kind):
            self._first.append(len(columns.ginst_group))
            if is_family:
                self._add_family(group)
            else:
                self._add_explicit(group, members[off[group] : off[group + 1]])
        columns.slot_count.extend([0] * len(columns.slot_rank))

    def _make_strides(self) -> list[int]:
        strides = [1] * len(self._sizes)
        for dim in range(len(strides) - 1, 0, -1):
            strides[dim - 1] = strides[dim] * self._sizes[dim]
        return strides

    def _add_explicit(self, group: int, ranks: Sequence[int]) -> None:
        columns = self._columns
        columns.slot_ginst.extend([len(columns.ginst_group)] * len(ranks))
        columns.ginst_group.append(group)
        columns.slot_rank.extend(ranks)
        columns.ginst_off.append(len(columns.slot_rank))
        self._places.append({rank: place for place, rank in enumerate(ranks)})

    def _add_family(self, group: int) -> None:
        columns, size = self._columns, 1
        for dim, length in enumerate(self._sizes):
            size *= length if self._mask[group] >> dim & 1 else 1
        self._places.append({})
        world, first = columns.world_size, len(columns.slot_rank)
        columns.slot_rank.extend([0] * world)
        columns.slot_ginst.extend([0] * world)
        for instance in range(world // size):
            columns.ginst_group.append(group)
            columns.ginst_off.append(first + (instance + 1) * size)
        for rank in range(world):
            instance, position = self._place(group, rank)
            slot = first + instance * size + position
            columns.slot_rank[slot] = rank
            columns.slot_ginst[slot] = self._first[group] + instance

    def _place(self, group: int, rank: int) -> tuple[int, int]:
        """Return the instance inside the family and the position inside it, both row-major."""
        instance = position = 0
        for dim, size in enumerate(self._sizes):
            if self._mask[group] >> dim & 1:
                position = position * size + self.coordinate(rank, dim)
            else:
                instance = instance * size + self.coordinate(rank, dim)
        return instance, position

    def coordinate(self, rank: int, dim: int) -> int:
        """Return the place of a rank along a mesh dimension."""
        return rank // self.strides[dim] % self._sizes[dim]

    def slot_of(self, group: int, rank: int) -> int | None:
        """Return the slot of a rank in its instance of a group."""
        if not self._kind[group]:
            return self.slot_in(self._first[group], rank)
        instance, position = self._place(group, rank)
        return self._columns.ginst_off[self._first[group] + instance] + position

    def slot_in(self, ginst: int, rank: int) -> int | None:
        """Return the slot of a rank in a given instance."""
        group, begin = self._columns.ginst_group[ginst], self._columns.ginst_off[ginst]
        if self._kind[group]:
            instance, position = self._place(group, rank)
            return begin + position if self._first[group] + instance == ginst else None
        place = self._places[group].get(rank)
        return None if place is None else begin + place
