"""The adapter: a module, a file of its parameters or a timeline in, a plan out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.errors import PlanError, UsageError
from planguard.files.heads import head_of

from ..common.job import JobReader
from ..common.module import is_module
from ..common.reading import At, load_json, starts_with_schema
from .emit import emit_module, emit_timeline
from .options import read_options
from .timeline import looks_like_timeline, read_timeline

if TYPE_CHECKING:
    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.plan import Plan


JOBS = JobReader("horovod", read_options)


class HorovodAdapter:
    """Adapter for Horovod's ``DistributedOptimizer`` and its timeline; Horovod is not needed.

    Attributes:
        name: ``horovod``.
    """

    name = "horovod"

    def sniff(self, obj: object) -> bool:
        """Recognize a file ``planguard.horovod/1`` or a timeline.

        A plain ``nn.Module`` says nothing about how it is parallelized: name the adapter for it.
        """
        if isinstance(obj, str | Path):
            return starts_with_schema(obj, JOBS.schema) or _is_timeline_file(obj)
        if isinstance(obj, dict):
            return obj.get("schema") == JOBS.schema
        return looks_like_timeline(obj)

    def adapt(self, obj: object, builder: type[PlanBuilder], **options: object) -> Plan:
        """Turn a module and its options, or a timeline, into a plan.

        Args:
            obj: An ``nn.Module`` (with ``world_size``), a file ``planguard.horovod/1``, or a
                timeline; files as path or parsed object.
            builder: The ``PlanBuilder`` class.
            options: ``world_size`` and the fields of ``HorovodOptions``; a timeline takes
                ``world_size``, ``fusion_threshold``, ``name`` and ``model``.

        Raises:
            PlanError: The file is malformed, or an option names an unknown parameter.
            UsageError: An option does not exist or has an impossible value.
        """
        given = dict(options)
        if is_module(obj):
            return emit_module(JOBS.of_module(obj, given), builder)
        if isinstance(obj, str | Path):
            at = load_json(Path(obj))
        elif isinstance(obj, dict | list):
            at = At(obj)
        else:
            raise PlanError(
                "not an input for Horovod",
                path="input",
                value=type(obj).__name__,
                hint="give an nn.Module, a file planguard.horovod/1 or a timeline",
            )
        if isinstance(at.value, list):
            return _from_timeline(at, given, builder)
        return emit_module(JOBS.of_file(at, given), builder)


def _is_timeline_file(path: str | Path) -> bool:
    head = head_of(path).lstrip()
    return head.startswith(b"[") and b'"NEGOTIATE_' in head


def _from_timeline(at: At, given: dict[str, Any], builder: type[PlanBuilder]) -> Plan:
    allowed = {"world_size", "fusion_threshold", "name", "model"}
    odd = sorted(set(given) - allowed)
    if odd:
        raise UsageError(
            f"option {odd[0]} of the horovod adapter does not apply to a timeline",
            hint=f"a timeline takes {', '.join(sorted(allowed))}",
        )
    tensors = read_timeline(at)
    ranks = {rank for tensor in tensors for one in tensor.rounds for rank in one.ranks}
    if not tensors or not ranks:
        at.fail("no tensor of the timeline was negotiated", hint="take a file of a whole step")
    world = JOBS.world_size({"world_size": given.pop("world_size", max(ranks) + 1)})
    if max(ranks) >= world:
        raise UsageError(f"rank {max(ranks)} of the timeline is outside a world of {world}")
    return emit_timeline(tensors, world, read_options(given, world), at.file, builder)


def dump(module: Any, path: str | Path, *, world_size: int, **options: Any) -> None:
    """Write a module and its options as a file ``planguard.horovod/1``.

    Args:
        module: An ``nn.Module``; it is not run.
        path: Where to write.
        world_size: Number of ranks.
        options: Fields of ``HorovodOptions``.

    Raises:
        UsageError: An option does not exist or has an impossible value.
    """
    JOBS.dump(module, path, world_size, options)
