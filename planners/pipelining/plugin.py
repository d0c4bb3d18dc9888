"""The adapter itself: from any accepted input to a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.errors import PlanError, UsageError
from planguard.files.heads import head_of

from .actions import Kind
from .csvfile import looks_like_schedule, parse_csv, read_bytes
from .emit import Note, emit
from .lowering import (
    add_reduce_grad,
    add_send_recv,
    add_unshard_reshard,
    defer_recv,
    without_gradients,
)
from .objects import (
    custom_functions,
    from_mapping,
    fsdp_stages,
    is_order,
    is_schedule,
    schedule_order,
)
from .options import PipeliningOptions, read_options
from .order import Order
from .placement import Placement, expect_microbatches, place, refuse_impossible
from .recorder import RunLog, record_run
from .steps import order_steps, vote_steps

if TYPE_CHECKING:
    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.plan import Plan

_TOOL = "torch.distributed.pipelining"


class PipeliningAdapter:
    """Adapter for schedules of ``torch.distributed.pipelining`` (torch 2.11 to 2.14).

    Attributes:
        name: ``pipelining``.
    """

    name = "pipelining"

    def sniff(self, obj: object) -> bool:
        """Recognize a schedule: a CSV path, CSV bytes, a schedule object, an order, a run log."""
        if isinstance(obj, str | Path):
            return looks_like_schedule(head_of(obj))
        if isinstance(obj, bytes | bytearray):
            return looks_like_schedule(bytes(obj))
        return isinstance(obj, RunLog) or is_order(obj) or is_schedule(obj)

    def adapt(self, obj: object, builder: type[PlanBuilder], **options: object) -> Plan:
        """Turn a schedule into a plan.

        Args:
            obj: A path to a CSV file or its bytes, a schedule object, a dict from rank to actions,
                or a ``RunLog``.
            builder: The ``PlanBuilder`` class; the world size is known only after reading.
            options: Fields of ``PipeliningOptions``.

        Raises:
            PlanError: The schedule cannot be read, or one rank alone makes it impossible.
            UsageError: An option does not exist or has an impossible value.
        """
        settings = read_options(options)
        if isinstance(obj, RunLog):
            return _from_log(obj, builder, settings)
        if isinstance(obj, str | Path):
            order = parse_csv(read_bytes(Path(obj)), str(obj))
        elif isinstance(obj, bytes | bytearray):
            order = parse_csv(bytes(obj), "schedule.csv")
        elif is_schedule(obj):
            return _from_schedule(obj, builder, settings)
        elif is_order(obj):
            assert isinstance(obj, Mapping)  # noqa: S101 - is_order says so; for the type checker
            order = from_mapping(obj, "schedule")
        else:
            raise PlanError(
                "not a pipelining schedule",
                value=type(obj).__name__,
                hint="give a CSV file, its bytes, a torch schedule or a dict from rank to actions",
            )
        return _from_order(order, builder, settings, notes=(), version=None)


def from_run_log(log: RunLog, builder: type[PlanBuilder], **options: object) -> Plan:
    """Turn a recorded run of torch's own loop (``record_run``) into a plan.

    Raises:
        PlanError: The plan would be malformed.
        UsageError: An option does not exist, has an impossible value, or does not apply to a log.
    """
    return _from_log(log, builder, read_options(options))


def _from_schedule(schedule: Any, builder: type[PlanBuilder], options: PipeliningOptions) -> Plan:
    notes = _object_notes(schedule, options)
    version = _torch_version()
    follows_order = bool(getattr(schedule, "pipeline_order_with_comms", None))
    if options.forward_only is None:
        options = replace(options, forward_only=not getattr(schedule, "_has_backward", True))
    if not follows_order and hasattr(schedule, "_step_microbatches"):
        log = record_run(schedule, forward_only=options.forward_only)
        return _from_log(log, builder, replace(options, forward_only=None), notes, version)
    order = schedule_order(schedule)
    if order is None:
        raise PlanError(
            "the schedule has no order yet",
            file=type(schedule).__name__,
            hint="load or prepare the schedule before checking it",
        )
    return _from_order(order, builder, options, notes, version)


def _from_order(
    order: Order,
    builder: type[PlanBuilder],
    options: PipeliningOptions,
    notes: tuple[Note, ...],
    version: str | None,
) -> Plan:
    _check_form(order, options)
    placement = place(order)
    refuse_impossible(order, placement)
    if options.microbatches is not None:
        expect_microbatches(order, placement, options.microbatches)
    notes += _order_notes(order, options)
    if not order.has_transfers:
        order, lowered = _lower(order, placement)
        notes += lowered
    if options.defer_recv:
        order = defer_recv(order, placement)
    if options.forward_only:
        order = without_gradients(order)
    sharded = options.shards > 1
    rows = order_steps(order, placement, send_wait=options.send_wait, sharded=sharded)
    if options.first_step:
        votes = vote_steps(placement, len(rows))
        rows = tuple(vote + row for vote, row in zip(votes, rows, strict=True))
    return emit(
        rows,
        builder=builder,
        options=options,
        source=order.source,
        producer=_producer(version),
        notes=notes,
    )


def _from_log(
    log: RunLog,
    builder: type[PlanBuilder],
    options: PipeliningOptions,
    notes: tuple[Note, ...] = (),
    version: str | None = None,
) -> Plan:
    plain = PipeliningOptions()
    for name in (
        "send_wait", "form", "defer_recv", "first_step", "microbatches", "forward_only",
    ):  # fmt: skip
        if getattr(options, name) != getattr(plain, name):
            raise UsageError(
                f"option {name} of the pipelining adapter does not apply to a recorded run",
                hint="it changes an order of actions; a recorded run has only calls",
            )
    if options.shards > 1:
        hooks = (
            "FSDP gathers parameters in hooks of its own here, which the recording does not show"
        )
        notes += (Note("fsdp-hooks", hooks, "under"),)
    producer = _producer(version or _torch_version())
    return emit(
        log.rows,
        builder=builder,
        options=options,
        source=log.source,
        producer=producer,
        notes=notes,
    )


def _check_form(order: Order, options: PipeliningOptions) -> None:
    found = "compute_comms" if order.has_transfers else "compute_only"
    if options.form not in ("auto", found):
        raise order.error(
            None,
            f"the schedule is {found}, but form={options.form!r} was asked for",
            "compute_comms has SEND and RECV cells, compute_only has none",
        )


def _lower(order: Order, placement: Placement) -> tuple[Order, tuple[Note, ...]]:
    rows = order.rows
    if Kind.UNSHARD not in order.kinds:
        rows = tuple(add_unshard_reshard(row) for row in rows)
    if Kind.REDUCE_GRAD not in order.kinds:
        rows = tuple(add_reduce_grad(row) for row in rows)
    lowered = add_send_recv(Order(order.source, rows), placement)
    notes = [
        Note("lowered", "sends and receives placed as torch 2.13 does (_add_send_recv)", "exact")
    ]
    if lowered.stuck_at:
        cells = "; ".join(map(str, lowered.stuck_at[:8]))
        notes.append(
            Note(
                "not-lowerable",
                "torch refuses this order (\"Malformed compute schedule, can't schedule "
                f'sends/recvs") because ranks wait for each other at {cells}; from there on every '
                "receive stands right before its consumer",
                "exact",
            )
        )
    return lowered.order, tuple(notes)


def _order_notes(order: Order, options: PipeliningOptions) -> tuple[Note, ...]:
    notes = []
    if not order.has_compute:
        notes.append(
            Note(
                "no-computation",
                "the schedule has no F, B, I or W, so nothing waits for its receives; a deadlock "
                "through data dependencies cannot be seen",
                "under",
            )
        )
    if order.has_sharding and options.shards == 1:
        notes.append(
            Note(
                "unsharded",
                "UNSHARD and REDUCE_GRAD taken as local, as for stages without FSDP; option shards "
                "makes them collectives",
                "exact",
            )
        )
    if Kind.OVERLAP_F_B in order.kinds:
        notes.append(
            Note(
                "overlap-in-order",
                "the parts of OVERLAP_F_B run one after the other, as torch does without a "
                "function of its own for them",
                "exact",
            )
        )
    return tuple(notes)


def _object_notes(schedule: Any, options: PipeliningOptions) -> tuple[Note, ...]:
    notes = []
    custom = custom_functions(schedule)
    if custom:
        notes.append(
            Note(
                "custom-function",
                f"a registered function replaces {', '.join(custom)}; what it communicates is not "
                "in the schedule",
                "under",
            )
        )
    wrapped = fsdp_stages(schedule)
    if wrapped and options.shards == 1:
        notes.append(
            Note(
                "fsdp-left-out",
                f"stages {', '.join(map(str, wrapped))} are wrapped with FSDP; without the option "
                "shards their collectives are left out",
                "under",
            )
        )
    return tuple(notes)


def _producer(version: str | None) -> str | tuple[str, str]:
    return _TOOL if version is None else (_TOOL, version)


def _torch_version() -> str | None:
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return None
