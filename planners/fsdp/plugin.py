"""The adapter: a module, a sharded module or a file in, a plan out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.errors import PlanError

from ..common.calls import producer
from ..common.job import Job, JobReader
from ..common.module import is_module, unseen
from ..common.reading import At, load_json, starts_with_schema
from .options import FsdpOptions, read_options
from .steps import rank_rows

if TYPE_CHECKING:
    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.plan import Plan

JOBS = JobReader("fsdp", read_options)


class FsdpAdapter:
    """Adapter for FSDP2, ``torch.distributed.fsdp.fully_shard`` (torch 2.13).

    Attributes:
        name: ``fsdp``.
    """

    name = "fsdp"

    def sniff(self, obj: object) -> bool:
        """Recognize a sharded module or a file ``planguard.fsdp/1``.

        A plain ``nn.Module`` says nothing about how it is parallelized: name the adapter for it.
        """
        if isinstance(obj, str | Path):
            return starts_with_schema(obj, JOBS.schema)
        if isinstance(obj, dict):
            return obj.get("schema") == JOBS.schema
        return is_sharded(obj)

    def adapt(self, obj: object, builder: type[PlanBuilder], **options: object) -> Plan:
        """Turn a module and its options into a plan, without running it.

        Args:
            obj: An ``nn.Module`` (with ``world_size`` and ``units``), a module that ``fully_shard``
                was applied to, or a file ``planguard.fsdp/1`` as path or object.
            builder: The ``PlanBuilder`` class.
            options: ``world_size`` and the fields of ``FsdpOptions``.

        Raises:
            PlanError: The file is malformed, or an option names something unknown.
            UsageError: An option does not exist or has an impossible value.
        """
        return _emit(_job(obj, dict(options)), builder)


def is_sharded(obj: object) -> bool:
    """Tell whether ``fully_shard`` was applied to a module, without importing torch."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    return fsdp is not None and isinstance(obj, fsdp.FSDPModule)


def _job(obj: object, given: dict[str, Any]) -> Job[FsdpOptions]:
    if isinstance(obj, str | Path):
        return JOBS.of_file(load_json(Path(obj)), given)
    if isinstance(obj, dict):
        return JOBS.of_file(At(obj), given)
    if is_sharded(obj):
        return _from_sharded(obj, given)
    if is_module(obj):
        return JOBS.of_module(obj, given)
    raise PlanError(
        "not a module for FSDP",
        path="input",
        value=type(obj).__name__,
        hint="give an nn.Module, one that fully_shard was applied to, or a planguard.fsdp/1 file",
    )


def _from_sharded(module: Any, given: dict[str, Any]) -> Job[FsdpOptions]:
    """Read units, mesh and policies of a module that is sharded already."""
    names = {inner: name for name, inner in module.named_modules() if is_sharded(inner)}
    found: dict[str, Any] = {"units": [name for name in names.values() if name], "root": True}
    reshard: dict[str, Any] = {}
    ahead: dict[str, dict[str, list[str]]] = {"forward": {}, "backward": {}}
    for inner, name in names.items():
        state = inner._get_fsdp_state()  # noqa: SLF001 - torch has no public way
        for direction, targets in ahead.items():
            states = getattr(state, f"_states_to_{direction}_prefetch")
            if states:
                targets[name] = [names[one._modules[0]] for one in states]  # noqa: SLF001 - same
        for group in state._fsdp_param_groups:  # noqa: SLF001 - same
            after = group.post_forward_mesh_info
            is_root = not name and bool(state._auto_reshard_after_forward)  # noqa: SLF001 - same
            whole = after is None or is_root
            partial = not whole and after.mesh is not group.mesh_info.mesh
            reshard[name] = after.shard_mesh_size if partial else not whole
            policy = group.mp_policy
            for option in ("param_dtype", "reduce_dtype"):
                dtype = getattr(policy, option)
                found[option] = None if dtype is None else str(dtype).removeprefix("torch.")
            found["replicate"] = getattr(group.mesh_info, "replicate_mesh_size", 1)
            given.setdefault("world_size", group.mesh_info.mesh.size())
    found["reshard_units"] = reshard
    found |= {f"{d}_prefetch": targets for d, targets in ahead.items() if targets}
    return JOBS.of_module(module, given, found)


def _emit(job: Job[FsdpOptions], builder: type[PlanBuilder]) -> Plan:
    options = job.options
    shard = job.world_size // options.replicate
    part = next((r for r in _reshards(options) if not isinstance(r, bool)), None)
    dims = [("shard", shard)]
    if part:
        dims = [("shards", shard // part), ("part", part)]
    mesh = [("replicate", options.replicate), *dims] if options.replicate > 1 else dims
    plan = builder(
        job.world_size,
        name=f"fsdp {options.name or job.module.name}",
        mesh=mesh,
        model=options.model,
        producer=producer("torch fully_shard"),
    )
    plan.group("shard", mesh_dims=[dim for dim, _ in dims])
    if part:
        plan.group("part", mesh_dims=["part"])
    if options.replicate > 1:
        plan.group("replicate", mesh_dims=["replicate"])
    classes: dict[str, list[int]] = {}
    kept: dict[str, FsdpOptions] = {}
    for rank in range(job.world_size):
        own = options.of_rank(rank)
        classes.setdefault(repr(own), []).append(rank)
        kept[repr(own)] = own
    for key, ranks in classes.items():
        plan.program(ranks).extend(rank_rows(job.module, kept[key], shard))
    for note in [*_notes(list(kept.values())), *unseen(job.module)]:
        plan.approximate(*note, scope="plan")
    return plan.build()


def _reshards(options: FsdpOptions) -> list[bool | int]:
    ranks = options.rank_options or {}
    every = [options, *(options.of_rank(rank) for rank in ranks)]
    return [
        value
        for own in every
        for value in (own.reshard_after_forward, *own.reshard_units.values())
        if value is not None
    ]


def _notes(used: list[FsdpOptions]) -> list[tuple[str, str, str]]:
    notes = []
    if any(own.order is None for own in used):
        notes.append(
            (
                "forward-order",
                "units are taken to run in the order of registration, on every rank alike",
                "exact",
            )
        )
    notes.append(
        (
            "input-gradients",
            "a unit with no trainable parameter before it is reduced at the end of backward",
            "exact",
        )
    )
    return notes


def dump(module: Any, path: str | Path, *, world_size: int, **options: Any) -> None:
    """Write a module and its options as a file ``planguard.fsdp/1``, which needs no code to read.

    Args:
        module: An ``nn.Module``; it is not run.
        path: Where to write.
        world_size: Number of ranks.
        options: Fields of ``FsdpOptions``.

    Raises:
        UsageError: An option does not exist or has an impossible value.
    """
    JOBS.dump(module, path, world_size, options)
