"""The adapter: a recording of Megatron-core's schedules in, one plan out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.errors import PlanError

from ..common.reading import starts_with_schema
from .emit import write_events
from .options import read_options
from .recording import SCHEMA, read_recording

if TYPE_CHECKING:
    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.plan import Plan

    from .recording import Recording


class MegatronAdapter:
    """Reads recordings of Megatron-core's schedules; Megatron-core is not needed.

    Attributes:
        name: ``megatron``.
    """

    name = "megatron"

    def sniff(self, obj: object) -> bool:
        """Recognize a recording: a path, or the parsed object."""
        if isinstance(obj, Mapping):
            return obj.get("schema") == SCHEMA
        return isinstance(obj, str | Path) and starts_with_schema(obj, SCHEMA)

    def adapt(self, obj: object, builder: type[PlanBuilder], **options: object) -> Plan:
        """Turn a recording into a plan.

        Args:
            obj: A file ``planguard.megatron/1``, or the parsed object.
            builder: The ``PlanBuilder`` class; the world size is known only after reading.
            options: Fields of ``MegatronOptions``.

        Raises:
            PlanError: The recording is malformed; the message has the place.
            UsageError: An option does not exist or has an impossible value.
        """
        settings = read_options(options)
        recording = _read(obj)
        stem = Path(recording.file).name.removesuffix(".json").removesuffix(".megatron")
        plan = builder(
            len(recording.ranks),
            name=settings.name or f"megatron {stem}",
            model=settings.model,
            producer=("megatron-core", recording.version),
        )
        for name, ranks in recording.groups.items():
            plan.group(name, ranks)
        for rank, events in enumerate(recording.ranks):
            write_events(plan.program(rank), events, device_sync=settings.device_sync)
        _ledger(plan, recording)
        return plan.build()


def _read(obj: object) -> Recording:
    if isinstance(obj, Mapping):
        return read_recording(dict(obj))
    if isinstance(obj, str | Path):
        return read_recording(Path(obj))
    raise PlanError(
        "not a recording of Megatron-core's schedules",
        path="input",
        value=type(obj).__name__,
        hint="give a file planguard.megatron/1; recorder.py writes it",
    )


def _ledger(plan: PlanBuilder, recording: Recording) -> None:
    messages = [m for events in recording.ranks for event in events for m in event.messages]
    bare = sum(not message.label for message in messages)
    if bare:
        plan.approximate(
            "unused-tensor",
            f"{bare} messages have no label: no step of the recording used what they carry",
            scope="plan",
        )
    plan.approximate(
        "pipeline-only",
        "only what the schedule itself calls is recorded; collectives inside a stage are taken to "
        "be the same on all ranks of their groups",
        scope="plan",
    )


adapter = MegatronAdapter()
"""The instance behind the entry point ``megatron``."""
