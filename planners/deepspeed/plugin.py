"""The adapter: a dump or schedules in memory in, one plan out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.errors import PlanError, UsageError

from ..common.reading import starts_with_schema
from .dump import MAX_RANKS, SCHEMA, read_dump
from .emit import emit
from .objects import is_schedules, read_objects
from .options import read_options

if TYPE_CHECKING:
    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.plan import Plan

    from .model import Job
    from .options import DeepSpeedOptions


class DeepSpeedAdapter:
    """Reads DeepSpeed's pipeline schedules and ZeRO buckets; DeepSpeed is not needed.

    Attributes:
        name: ``deepspeed``.
    """

    name = "deepspeed"

    def sniff(self, obj: object) -> bool:
        """Recognize a dump (a path or the parsed object), or a list of schedules."""
        if isinstance(obj, Mapping):
            return obj.get("schema") == SCHEMA
        if isinstance(obj, str | Path):
            return starts_with_schema(obj, SCHEMA)
        return is_schedules(obj)

    def adapt(self, obj: object, builder: type[PlanBuilder], **options: object) -> Plan:
        """Turn a dump or schedules into a plan.

        Args:
            obj: A file ``planguard.deepspeed/1``, the parsed object, or a list with the schedule
                (or the steps) of every stage.
            builder: The ``PlanBuilder`` class; the world size is known only after reading.
            options: Fields of ``DeepSpeedOptions``.

        Raises:
            PlanError: The input is malformed; the message has the place.
            UsageError: An option does not exist or has an impossible value.
        """
        settings = read_options(options)
        return emit(_told(_read(obj, settings), settings), settings.name, settings.model, builder)


def _read(obj: object, options: DeepSpeedOptions) -> Job:
    if isinstance(obj, Mapping | str | Path) and options.shape is not None:
        raise UsageError(
            "option shape of the deepspeed adapter is for schedules in memory",
            hint="a dump has `boundaries`, and its sizes are those",
        )
    if isinstance(obj, Mapping):
        return read_dump(dict(obj))
    if isinstance(obj, str | Path):
        return read_dump(Path(obj))
    if is_schedules(obj):
        return read_objects(obj, options)
    raise PlanError(
        "not an input for DeepSpeed",
        path="input",
        value=type(obj).__name__,
        hint="give a file planguard.deepspeed/1, or the schedules of all stages in a list",
    )


def _told(job: Job, options: DeepSpeedOptions) -> Job:
    """Replace what the options say."""
    names = {"data": "data_parallel", "model": "model_parallel"} | {
        name: name for name in ("first_batch", "dynamic_shape", "startup", "loss")
    }
    given: dict[str, Any] = {
        field: getattr(options, name)
        for field, name in names.items()
        if getattr(options, name) is not None
    }
    if options.transport is not None:
        given["broadcasts"] = options.transport == "broadcast"
    told = replace(job, **given)
    if told.stages * told.data * told.model > MAX_RANKS:
        sizes = f"{told.stages} stages x {told.data} x {told.model}"
        raise UsageError(
            f"{sizes} are more than {MAX_RANKS} ranks", hint="give a smaller data_parallel"
        )
    return told


adapter = DeepSpeedAdapter()
"""The instance behind the entry point ``deepspeed``."""
