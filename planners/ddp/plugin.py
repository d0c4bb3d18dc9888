"""The adapter: a module, a wrapped module or a file in, a plan out."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.errors import PlanError, UsageError

from ..common.module import MODULE_FIELDS, describe, is_module, module_json, read_module
from ..common.reading import At, load_json, starts_with_schema
from .emit import Job, emit, merge_options
from .options import read_options

if TYPE_CHECKING:
    from planguard.plan.builder import PlanBuilder
    from planguard.plan.plan import Plan

    from ..common.module import ModuleInfo

SCHEMA = "planguard.ddp/1"
MAX_WORLD = 1 << 20


class DdpAdapter:
    """Adapter for ``DistributedDataParallel`` (torch 2.11 to 2.14).

    Attributes:
        name: ``ddp``.
    """

    name = "ddp"

    def sniff(self, obj: object) -> bool:
        """Recognize a wrapped module or a file ``planguard.ddp/1``.

        A plain ``nn.Module`` says nothing about how it is parallelized: name the adapter for it.
        """
        if isinstance(obj, str | Path):
            return starts_with_schema(Path(obj), SCHEMA)
        if isinstance(obj, dict):
            return obj.get("schema") == SCHEMA
        return is_wrapped(obj)

    def adapt(self, obj: object, builder: type[PlanBuilder], **options: object) -> Plan:
        """Turn a module and its options into a plan, without running it.

        Args:
            obj: An ``nn.Module`` (with ``world_size``), a module wrapped in
                ``DistributedDataParallel``, or a file ``planguard.ddp/1`` as path or object.
            builder: The ``PlanBuilder`` class.
            options: ``world_size`` and the fields of ``DdpOptions``.

        Raises:
            PlanError: The file is malformed, or an option names an unknown parameter.
            UsageError: An option does not exist or has an impossible value.
        """
        return emit(_job(obj, dict(options)), builder)


def is_wrapped(obj: object) -> bool:
    """Tell whether an object is a ``DistributedDataParallel``, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(obj, torch.nn.parallel.DistributedDataParallel)


def _job(obj: object, given: dict[str, Any]) -> Job:
    if isinstance(obj, str | Path):
        return _from_file(load_json(Path(obj)), given)
    if isinstance(obj, dict):
        return _from_file(At(obj), given)
    if is_wrapped(obj):
        return _from_wrapped(obj, given)
    if is_module(obj):
        world = _world(given)
        return Job(describe(obj), world, read_options(given, world))
    raise PlanError(
        "not a module for DDP",
        path="input",
        value=type(obj).__name__,
        hint="give an nn.Module, a DistributedDataParallel or a file planguard.ddp/1",
    )


def _world(given: dict[str, Any]) -> int:
    world = given.pop("world_size", None)
    if isinstance(world, bool) or not isinstance(world, int) or not 1 <= world <= MAX_WORLD:
        raise UsageError(
            f"option world_size of the ddp adapter is {world!r}",
            hint="give the number of ranks, for example world_size=8",
        )
    return world


def _from_wrapped(wrapped: Any, given: dict[str, Any]) -> Job:
    """Read the options that a wrapped module was made with."""
    config = wrapped._bucket_config  # noqa: SLF001 - torch has no public way
    megabytes = 1 << 20
    found: dict[str, Any] = {
        "find_unused_parameters": bool(wrapped.find_unused_parameters),
        "static_graph": bool(wrapped.static_graph),
        "broadcast_buffers": bool(wrapped.broadcast_buffers),
        "gradient_as_bucket_view": bool(wrapped.gradient_as_bucket_view),
    }
    if config.per_bucket_bytes_caps:
        caps = config.per_bucket_bytes_caps
        found["bucket_cap_mb_list"] = [cap / megabytes for cap in caps]
    elif config.first_bucket_bytes_cap == config.bucket_bytes_cap:
        found["bucket_cap_mb"] = config.bucket_bytes_cap / megabytes
    hooks = getattr(wrapped, "_comm_hooks", [])
    if hooks:
        found["comm_hook"] = _hook(hooks[0][0])
    given.setdefault("world_size", wrapped.process_group.size())
    world = _world(given)
    return Job(describe(wrapped.module), world, read_options(merge_options(found, given), world))


def _hook(hook: Any) -> str:
    names = {
        "allreduce_hook": "allreduce",
        "fp16_compress_hook": "fp16_compress",
        "bf16_compress_hook": "bf16_compress",
        "noop_hook": "noop",
    }
    return names.get(getattr(hook, "__name__", ""), "custom")


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
        found["rank_options"] = {rank: dict(_object(own)) for rank, own in ranks}
    try:
        options = read_options(merge_options(found, given), world)
    except UsageError as error:
        raise PlanError(error.message, file=at.file, path="$.options", hint=error.hint) from error
    return Job(module, world, options)


def _object(at: At) -> dict[str, Any]:
    return {key: value.value for key, value in at.items()}


def document(
    module: ModuleInfo, world_size: int, options: dict[str, Any], schema: str
) -> dict[str, Any]:
    """Return a module and its options as the JSON that the adapter reads."""
    plain = {key: value for key, value in options.items() if key != "rank_options"}
    found: dict[str, Any] = {"schema": schema, "world_size": world_size, **module_json(module)}
    if plain:
        found["options"] = plain
    if options.get("rank_options"):
        found["rank_options"] = {str(k): dict(v) for k, v in options["rank_options"].items()}
    return found


def dump(module: Any, path: str | Path, *, world_size: int, **options: Any) -> None:
    """Write a module and its options as a file ``planguard.ddp/1``, which needs no code to read.

    Args:
        module: An ``nn.Module``; it is not run.
        path: Where to write.
        world_size: Number of ranks.
        options: Fields of ``DdpOptions``.

    Raises:
        UsageError: An option does not exist or has an impossible value.
    """
    read_options(options, world_size)
    text = dump_text(document(describe(module), world_size, options, SCHEMA))
    Path(path).write_text(text, encoding="utf-8")


def dump_text(found: dict[str, Any]) -> str:
    """Return JSON with one tensor per line."""
    lines = []
    for key, value in found.items():
        if key in {"parameters", "buffers"}:
            inside = ",\n  ".join(json.dumps(tensor) for tensor in value)
            lines.append(f'"{key}": [\n  {inside}]')
        else:
            lines.append(f'"{key}": {json.dumps(value)}')
    return "{" + ",\n ".join(lines) + "}\n"
