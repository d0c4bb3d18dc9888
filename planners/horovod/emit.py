"""Modules and timelines to plans: members of negotiated buffers, one buffer per dtype and step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.errors import PlanError

from ..common.module import plan_size, unseen

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.building.program import ProgramBuilder
    from planguard.plan.plan import Plan

    from ..common.job import Job
    from ..common.module import ModuleInfo, Source
    from .options import HorovodOptions
    from .timeline import Round, Tensor

Member = tuple[str, dict[str, Any], "Source"]
"""Name, size fields and source of a tensor that is reduced."""


def emit_module(job: Job[HorovodOptions], builder: type[PlanBuilder]) -> Plan:
    """Build the plan of a module that ``DistributedOptimizer`` trains.

    Raises:
        PlanError: An option names a parameter that the module does not have.
    """
    module, world_size, options = job.module, job.world_size, job.options
    name = f"horovod {options.name or module.name}"
    plan = builder(world_size, name=name, model=options.model, producer="horovod")
    known = {parameter.name for parameter in module.trainable}
    classes: dict[str, list[int]] = {}
    kept: dict[str, HorovodOptions] = {}
    for rank in range(world_size):
        own = options.of_rank(rank)
        _check_missing(own, known, module.file)
        classes.setdefault(repr(own), []).append(rank)
        kept[repr(own)] = own
    for key, ranks in classes.items():
        _rank(plan.program(ranks), module, kept[key])
    for step in range(max(own.steps for own in kept.values())):
        _buffers(plan, f"step{step}", _members(module, step, options), options)
    plan.approximate(
        "negotiated",
        "tensors are matched by their names: rank 0 answers when all ranks have reported one, and "
        "which travel together is Horovod's choice",
        scope="plan",
    )
    for note in unseen(module):
        plan.approximate(*note, scope="plan")
    return plan.build()


def _check_missing(own: HorovodOptions, known: set[str], file: str | None) -> None:
    unknown = [name for name in own.missing if name not in known]
    if unknown:
        raise PlanError(
            "the module has no trainable parameter of that name",
            file=file,
            path="$.options.missing",
            value=unknown[0],
            hint=f"for example {min(known, default='none: it has no trainable parameters')}",
        )


def _members(module: ModuleInfo, step: int, options: HorovodOptions) -> list[Member]:
    found = []
    for parameter in reversed(module.trainable):
        half = options.compression == "fp16" and parameter.dtype in {"float32", "float64"}
        size = plan_size("float16" if half else parameter.dtype, parameter.count)
        found.append((f"step{step} {parameter.name}", size, parameter.src))
    return found


def _rank(program: ProgramBuilder, module: ModuleInfo, options: HorovodOptions) -> None:
    if options.broadcast_parameters:
        state = sorted((*module.parameters, *module.buffers), key=lambda tensor: tensor.name)
        for tensor in state:
            size = plan_size(tensor.dtype, tensor.count)
            label = f"initial {tensor.name}"
            work = f"initial {tensor.name}"
            fields = {"label": label, "src": tensor.src, "work": work, "async_": True, **size}
            program.broadcast(0, "world", **fields)
        program.wait([f"initial {tensor.name}" for tensor in state])
    for step in range(options.steps):
        program.compute(f"step{step} forward", phase="forward")
        missing = {f"step{step} {name}" for name in options.missing}
        members = [one for one in _members(module, step, options) if one[0] not in missing]
        _block(program, members)


def _block(program: ProgramBuilder, members: Iterable[Member]) -> None:
    """Write members that become ready in any order, and a wait for all of them."""
    works = []
    with program.unordered():
        for name, size, src in members:
            works.append(name)
            program.all_reduce(
                id=name, label=name, work=name, async_=True, src=src, phase="backward", **size
            )
    if works:
        program.wait(works)


def _buffers(
    plan: PlanBuilder, step: str, members: Sequence[Member], options: HorovodOptions
) -> None:
    by_dtype: dict[str, list[str]] = {}
    for name, size, _ in members:
        by_dtype.setdefault(str(size.get("dtype", "bytes")), []).append(name)
    for dtype, names in by_dtype.items():
        plan.fusion(
            f"{step} {dtype}",
            names,
            group="world",
            cap_bytes=max(options.fusion_threshold, 1),
            coordination="negotiated",
            membership="fill",
            launch="when-ready",
        )


def emit_timeline(
    tensors: Sequence[Tensor],
    world_size: int,
    options: HorovodOptions,
    file: str | None,
    builder: type[PlanBuilder],
) -> Plan:
    """Build the plan that a timeline shows: who reported what, round by round."""
    name = f"horovod {options.name or 'timeline'}"
    plan = builder(world_size, name=name, model=options.model, producer="horovod")
    everyone = set(range(world_size))
    steps: dict[int, list[tuple[Tensor, Round]]] = {}
    others: list[tuple[Tensor, Round]] = []
    unknown = 0
    for tensor in tensors:
        unknown += tensor.count is None
        for number, one in enumerate(r for r in tensor.rounds if r.kind == "ALLREDUCE"):
            steps.setdefault(number, []).append((tensor, one))
        others += [(tensor, one) for one in tensor.rounds if one.kind != "ALLREDUCE"]
    for rank in range(world_size):
        program = plan.program(rank)
        for number in sorted(steps):
            mine = [
                _member(number, tensor, one, file)
                for tensor, one in steps[number]
                if rank in (everyone if one.done else one.ranks)
            ]
            _block(program, mine)
    for number, rounds in sorted(steps.items()):
        members = [_member(number, tensor, one, file) for tensor, one in rounds]
        _buffers(plan, f"step{number}", members, options)
    _timeline_notes(plan, unknown, others)
    return plan.build()


def _member(step: int, tensor: Tensor, one: Round, file: str | None) -> Member:
    size = plan_size(tensor.dtype or "float32", 1 if tensor.count is None else tensor.count)
    return f"step{step} {tensor.name}", size, (file or "timeline", 0, f"event {one.place}")


def _timeline_notes(plan: PlanBuilder, unknown: int, others: list[tuple[Tensor, Round]]) -> None:
    plan.approximate(
        "recorded-order",
        "a timeline shows one run: round n of every tensor is taken for step n",
        scope="plan",
    )
    if unknown:
        plan.approximate(
            "unknown-size",
            f"the timeline has no size of {unknown} tensors; they count as one element",
            scope="plan",
        )
    done = sum(one.done for _, one in others)
    if done:
        plan.approximate(
            "other-operations",
            f"{done} broadcasts, allgathers and the like were carried out by all ranks and are "
            "left out",
            scope="plan",
        )
    if len(others) > done:
        tensor = next(tensor for tensor, one in others if not one.done)
        plan.approximate(
            "stalled-operation",
            f"{len(others) - done} operations other than allreduce were reported and never carried "
            f"out, {tensor.name} for example; they are left out",
            direction="under",
            scope="plan",
        )
