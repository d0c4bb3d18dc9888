"""Schedules and commands in memory to a job, by their fields; DeepSpeed is not imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.errors import PlanError

from ..common.reading import At
from .dump import checked
from .model import Job, Tensor

if TYPE_CHECKING:
    from .model import Command
    from .options import DeepSpeedOptions


def is_schedules(obj: object) -> bool:
    """Tell whether an object is a list of schedules, or of their steps, one per stage."""
    if not isinstance(obj, list | tuple) or not obj:
        return False
    return all(_is_schedule(one) for one in obj) or all(_is_steps(one) for one in obj)


def _is_schedule(obj: object) -> bool:
    return all(hasattr(obj, name) for name in ("micro_batches", "stages", "stage_id", "steps"))


def _is_steps(obj: object) -> bool:
    if not isinstance(obj, list | tuple) or not obj:
        return False
    first = [command for step in obj if isinstance(step, list | tuple) for command in step][:1]
    return bool(first) and _is_command(first[0])


def _is_command(obj: object) -> bool:
    return isinstance(getattr(obj, "kwargs", None), dict) and hasattr(obj, "name")


def read_objects(obj: Any, options: DeepSpeedOptions) -> Job:
    """Read a list of schedules, or of lists of steps of commands, one per stage.

    A schedule is a generator of commands: its ``steps`` runs here.

    Raises:
        PlanError: Something is no command, or the schedules are not those of one job.
    """
    title = "schedule"
    if _is_schedule(obj[0]):
        title = type(obj[0]).__name__
        for stage, one in enumerate(obj):
            if one.stage_id != stage or one.stages != len(obj):
                raise PlanError(
                    f"schedule {stage} of {len(obj)} is that of stage {one.stage_id} of "
                    f"{one.stages}",
                    path=f"[{stage}]",
                    hint="give the schedules of all stages, in order",
                )
        obj = [list(one.steps()) for one in obj]
    commands = tuple(_stage(listed, stage) for stage, listed in enumerate(obj))
    boundaries = None
    if options.shape is not None:
        boundaries = ((Tensor("", options.shape, options.dtype or "float32"),),) * (
            len(commands) - 1
        )
    return Job(title, "unknown", title, commands, boundaries=boundaries)


def _stage(steps: Any, stage: int) -> tuple[Command, ...]:
    found = []
    for number, step in enumerate(steps):
        for place, command in enumerate(step):
            at = At(repr(command)[:80], f"stage {stage} step {number} [{place}]")
            if not _is_command(command):
                at.fail("not a PipeInstruction")
            buffer = command.kwargs.get("buffer_id")
            if set(command.kwargs) - {"buffer_id"} or not isinstance(buffer, int | None):
                at.fail("a command takes a number buffer_id and nothing else")
            found.append(checked(at, type(command).__name__, buffer))
    return tuple(found)
