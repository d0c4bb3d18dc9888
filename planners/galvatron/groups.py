"""The process groups of a rank, as ``comm_groups.py`` of Galvatron's runtime makes them.

Ranks are laid out pipeline, data, context, tensor, sequence, the last one varying fastest. Two
groups of one kind and the same ranks are one communicator (``CommGroupCache``); groups of different
kinds are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .strategy import Module


@dataclass(frozen=True)
class Group:
    """A process group: every ``step``-th rank from ``first`` to before ``end``.

    Attributes:
        kind: What it is for; part of its identity.
        first: Its first global rank.
        end: A rank behind its last one.
        step: Distance of its ranks.
    """

    kind: str
    first: int
    end: int
    step: int = 1

    @property
    def name(self) -> str:
        """Name in the plan, with the ranks as in a slice."""
        return f"{self.kind} {self.first}:{self.end}" + (f":{self.step}" if self.step > 1 else "")

    @property
    def ranks(self) -> range:
        """Its global ranks."""
        return range(self.first, self.end, self.step)


def tensor(rank: int, module: Module) -> Group:
    """Return the tensor parallel group: neighbors."""
    return _block("tp", rank, module.tp)


def whole(rank: int, module: Module) -> Group:
    """Return the group over which a sequence is split: tensor, sequence and context together."""
    return _block("tsp_cp", rank, module.parts)


def shards(rank: int, module: Module) -> Group:
    """Return the group over which FSDP shards: data, context and sequence together."""
    inside = module.parts * module.dp
    start = rank // inside * inside
    return Group("sdp", start + rank % module.tp, start + inside, module.tp)


def fused(rank: int, before: Module, after: Module) -> Group | None:
    """Return the group of ranks that share a sequence before or after, and not both; None for none.

    ``merge_redistributed_group``: of the larger block, those in steps of the smaller.
    """
    small, large = sorted((before.parts, after.parts))
    if small == large:
        return None
    start = rank // large * large
    kind = "fused_split" if before.parts > after.parts else "fused_allgather"
    return Group(kind, start + rank % small, start + large, small)


def relocates(before: Module, after: Module) -> bool:
    """Whether activations are laid out anew between two modules (``gen_comm_groups``, step 4)."""
    sizes = [(max(module.tp, module.sp), module.cp) for module in (before, after)]
    return sizes[0] != sizes[1]


def _block(kind: str, rank: int, size: int) -> Group:
    start = rank // size * size
    return Group(kind, start, start + size)
