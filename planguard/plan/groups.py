"""ProcessGroup and Mesh: ordered sets of ranks, and the grid that families of groups come from."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from msgspec import Struct

WORLD = "world"


class Mesh(Struct, frozen=True):
    """A device mesh in row-major order: the last dimension varies fastest.

    Attributes:
        names: Name of every dimension.
        sizes: Size of every dimension; their product is the world size.
        strides: Distance in ranks between neighbors along every dimension.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, dims: Sequence[tuple[str, int]]) -> Mesh:
        """Make a mesh from ``(name, size)`` pairs, outermost first."""
        sizes = tuple(size for _, size in dims)
        strides = tuple(prod(sizes[place + 1 :]) for place in range(len(sizes)))
        return cls(tuple(name for name, _ in dims), sizes, strides)

    def coordinate(self, rank: int, dim: int) -> int:
        """Return the coordinate of ``rank`` along dimension ``dim``."""
        return rank // self.strides[dim] % self.sizes[dim]

    def coordinates(self, rank: int) -> dict[str, int]:
        """Return all coordinates of ``rank`` by dimension name."""
        return {name: self.coordinate(rank, dim) for dim, name in enumerate(self.names)}

    def shift(self, rank: int, dim: int, delta: int, *, wrap: bool) -> int | None:
        """Return the rank ``delta`` steps along ``dim``, or None when that leaves the mesh."""
        place = self.coordinate(rank, dim) + delta
        if wrap:
            place %= self.sizes[dim]
        elif not 0 <= place < self.sizes[dim]:
            return None
        return rank + (place - self.coordinate(rank, dim)) * self.strides[dim]

    def family_base(self, rank: int, dims: Sequence[int]) -> int:
        """Return the first member of the family instance that contains ``rank``."""
        return rank - sum(self.coordinate(rank, dim) * self.strides[dim] for dim in dims)

    def family_offsets(self, dims: Sequence[int]) -> list[int]:
        """Return the distances of the members of an instance from its first one, in order."""
        offsets = [0]
        for dim in sorted(dims):
            offsets = [o + k * self.strides[dim] for o in offsets for k in range(self.sizes[dim])]
        return offsets

    def family_instance(self, rank: int, dims: Sequence[int]) -> int:
        """Return the index, among the instances of a family, of the one that contains ``rank``."""
        index = 0
        for dim, size in enumerate(self.sizes):
            if dim not in dims:
                index = index * size + self.coordinate(rank, dim)
        return index


class ProcessGroup(Struct, frozen=True):
    """An ordered set of ranks, or a family of such sets over a mesh.

    Attributes:
        name: Name in the plan.
        ranks: Global ranks in order; empty for a family.
        mesh_dims: Indices of the mesh dimensions that vary inside an instance; empty for an
            explicit group.
        backend: ``nccl``, ``gloo`` or ``mpi``, if the plan says it.
        created: Position in the world-wide order of creation, if the plan says it.
    """

    name: str
    ranks: Sequence[int] = ()
    mesh_dims: tuple[int, ...] = ()
    backend: str | None = None
    created: int | None = None

    @property
    def is_family(self) -> bool:
        """True for a family over mesh dimensions."""
        return bool(self.mesh_dims)

    def members(self, rank: int, mesh: Mesh | None) -> Sequence[int]:
        """Return the members, in order, of the group that ``rank`` means by this name."""
        if not self.mesh_dims or mesh is None:
            return self.ranks
        base = mesh.family_base(rank, self.mesh_dims)
        return [base + offset for offset in mesh.family_offsets(self.mesh_dims)]

    def size(self, mesh: Mesh | None) -> int:
        """Return the number of members of the group, or of each instance of the family."""
        if not self.mesh_dims or mesh is None:
            return len(self.ranks)
        return prod(mesh.sizes[dim] for dim in self.mesh_dims)
