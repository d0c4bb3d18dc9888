"""Calls of all ranks to a plan: equal ranks share a program, the ledger says what is assumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..common.calls import producer
from ..common.module import unseen
from .buckets import has_torch
from .steps import rank_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.plan import Plan

    from ..common.job import Job
    from .options import DdpOptions

_TOOL = "torch.nn.parallel.DistributedDataParallel"


def emit(job: Job[DdpOptions], builder: type[PlanBuilder]) -> Plan:
    """Build the plan of a job.

    Raises:
        PlanError: An option names a parameter that the module does not have.
    """
    options = job.options
    name = options.name or job.module.name
    plan = builder(
        job.world_size, name=f"ddp {name}", model=options.model, producer=producer(_TOOL)
    )
    leader = options.of_rank(0)
    classes: dict[str, list[int]] = {}
    kept: dict[str, DdpOptions] = {}
    for rank in range(job.world_size):
        own = options.of_rank(rank)
        key = repr(own)
        classes.setdefault(key, []).append(rank)
        kept[key] = own
    for key, ranks in classes.items():
        plan.program(ranks).extend(rank_rows(job.module, kept[key], leader))
    for note in _notes(job, list(kept.values())):
        plan.approximate(*note, scope="plan")
    return plan.build()


def _notes(job: Job[DdpOptions], used: Sequence[DdpOptions]) -> list[tuple[str, str, str]]:
    notes: list[tuple[str, str, str]] = []

    def note(kind: str, message: str, direction: str) -> None:
        notes.append((kind, message, direction))

    leader = job.options.of_rank(0)
    if not leader.ready_order and any(own.rebuilds for own in used):
        note("ready-order", "gradients are taken to become ready in the reverse order of "
             "registration; another order changes which gradients share a bucket, on all ranks "
             "alike, since rank 0 broadcasts its buckets", "exact")  # fmt: skip
    if not has_torch():
        note("no-torch", "torch is not installed; buckets follow PlanGuard's own reading of its "
             "rule", "exact")  # fmt: skip
    if any(own.launch == "any" for own in used):
        note("free-launch", "buckets start in any order on every rank, as option launch says",
             "exact")  # fmt: skip
    if any(own.comm_hook == "custom" for own in used):
        note("comm-hook", "a communication hook of its own replaces the all_reduce of every "
             "bucket; what it communicates is not known", "under")  # fmt: skip
    notes += unseen(job.module)
    if any(_raises(own) for own in used):
        note("reducer-raises", "a rank whose gradients are not all ready goes no further: its next "
             "iteration raises RuntimeError", "exact")  # fmt: skip
    if any(own.branches for own in used):
        note("branches-last", "branches are open in the last iteration; earlier ones take them, "
             "because a rank that does not can run no further iteration", "exact")  # fmt: skip
    return notes


def _raises(own: DdpOptions) -> bool:
    return bool(own.unused) and not (own.find_unused_parameters or own.static_graph)
