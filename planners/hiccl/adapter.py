"""The adapter: a description of a hierarchical collective in, one plan out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..common.reading import starts_with_schema
from .factor import factor
from .options import read_options
from .reading import SCHEMA, read_composition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import TypeAlias

    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.plan import Plan

    from .model import Composition, Steps, Transfer

    Parts: TypeAlias = dict[int, dict[int, list[Transfer]]]
    """Rank to step to its messages."""


class HicclAdapter:
    """Reads descriptions ``planguard.hiccl/1`` of hierarchical collectives.

    Attributes:
        name: ``hiccl``.
    """

    name = "hiccl"

    def sniff(self, obj: object) -> bool:
        """Recognize a description: a path, or the parsed object."""
        if isinstance(obj, dict):
            return obj.get("schema") == SCHEMA
        return isinstance(obj, str | Path) and starts_with_schema(obj, SCHEMA)

    def adapt(self, obj: object, builder: type[PlanBuilder], **options: object) -> Plan:
        """Turn a description into a plan.

        Args:
            obj: The path of a description, gzipped or not, or the parsed object.
            builder: The ``PlanBuilder`` class; the world size is known only after reading.
            options: Fields of ``HicclOptions``.

        Raises:
            PlanError: The description is malformed; the message has the JSON path.
            UsageError: An option does not exist.
        """
        settings = read_options(options)
        file, name, everyone = read_composition(obj)
        plan = builder(
            len(everyone), name=settings.name or name, model=settings.model, producer="hiccl"
        )
        known: dict[Composition, Parts] = {}
        for rank, composition in enumerate(everyone):
            parts = known.get(composition)
            if parts is None:
                parts = known[composition] = _of_ranks(factor(composition))
            plan.program(rank).extend(_batches(parts.get(rank, {}), rank, file))
        if len(known) > 1:
            message = f"ranks believe in {len(known)} different collectives, as 'ranks' says"
            plan.approximate("ranks-differ", message, scope="plan")
        return plan.build()


def _of_ranks(steps: Steps) -> Parts:
    found: Parts = {}
    for number, step in enumerate(steps):
        for one in step:
            for rank in (one.src, one.dst) if one.src != one.dst else (one.src,):
                found.setdefault(rank, {}).setdefault(number, []).append(one)
    return found


def _batches(
    steps: Mapping[int, list[Transfer]], rank: int, file: str
) -> Iterator[dict[str, object]]:
    """Yield the batches of a rank, one a step, as a plan file has them."""
    for number, own in steps.items():
        name = f"step {number}"
        ops = []
        for src, dst, size, label, place in own:
            op, peer = ("isend", dst) if src == rank else ("irecv", src)
            where = (file, number, f"{name}, {place}")
            ops.append({"op": op, "peer": peer, "bytes": size, "label": label, "src": where})
        yield {"op": "batch", "ops": ops, "src": (file, number, name)}


adapter = HicclAdapter()
"""The instance behind the entry point ``hiccl``."""
