"""The adapter: a module, a file of its parameters or a timeline in, a plan out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.errors import PlanError, UsageError

from ..common.module import MODULE_FIELDS, describe, is_module, read_module
from ..common.reading import At, load_json, starts_with_schema
from ..ddp.emit import merge_options
from ..ddp.plugin import document, dump_text
from .emit import emit_module, emit_timeline
from .options import read_options
from .timeline import looks_like_timeline, read_timeline

if TYPE_CHECKING:
    from planguard.plan.builder import PlanBuilder
    from planguard.plan.plan import Plan

    from ..common.module import ModuleInfo
    from .options import HorovodOptions

SCHEMA = "planguard.horovod/1"
MAX_WORLD = 1 << 20


@dataclass(frozen=True)
class Job:
    """A module, the size of the world and the options."""

    module: ModuleInfo
    world_size: int
    options: HorovodOptions


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
            return starts_with_schema(Path(obj), SCHEMA) or _is_timeline_file(Path(obj))
        if isinstance(obj, dict):
            return obj.get("schema") == SCHEMA
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
            world = _world(given)
            job = Job(describe(obj), world, read_options(given, world))
            return emit_module(job.module, job.world_size, job.options, builder)
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
        job = _from_file(at, given)
        return emit_module(job.module, job.world_size, job.options, builder)


def _is_timeline_file(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(65_536).lstrip()
    except OSError:
        return False
    return head.startswith(b"[") and b'"NEGOTIATE_' in head


def _world(given: dict[str, Any]) -> int:
    world = given.pop("world_size", None)
    if isinstance(world, bool) or not isinstance(world, int) or not 1 <= world <= MAX_WORLD:
        raise UsageError(
            f"option world_size of the horovod adapter is {world!r}",
            hint="give the number of ranks, for example world_size=8",
        )
    return world


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
    world = _world({"world_size": given.pop("world_size", max(ranks) + 1)})
    if max(ranks) >= world:
        raise UsageError(f"rank {max(ranks)} of the timeline is outside a world of {world}")
    return emit_timeline(tensors, world, read_options(given, world), at.file, builder)


def _from_file(at: At, given: dict[str, Any]) -> Job:
    fields = at.fields("schema", "name", "world_size", *MODULE_FIELDS, "options", "rank_options")
    if "schema" not in fields or fields["schema"].value != SCHEMA:
        at.fail(f"not a file {SCHEMA}", hint=f'it starts with {{"schema": "{SCHEMA}"')
    described = {key: value for key, value in fields.items() if key in MODULE_FIELDS}
    if not described:
        at.fail("the file lists no parameters")
    module = read_module(described)
    if "name" in fields:
        module = replace(module, name=fields["name"].text(1_000))
    if "world_size" in fields:
        given.setdefault("world_size", fields["world_size"].integer(1, MAX_WORLD))
    world = _world(given)
    found: dict[str, Any] = {}
    if "options" in fields:
        found = {key: value.value for key, value in fields["options"].items()}
    if "rank_options" in fields:
        ranks = fields["rank_options"].items()
        found["rank_options"] = {
            rank: {key: value.value for key, value in own.items()} for rank, own in ranks
        }
    try:
        options = read_options(merge_options(found, given), world)
    except UsageError as error:
        raise PlanError(error.message, file=at.file, path="$.options", hint=error.hint) from error
    return Job(module, world, options)


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
    read_options(options, world_size)
    text = dump_text(document(describe(module), world_size, options, SCHEMA))
    Path(path).write_text(text, encoding="utf-8")
