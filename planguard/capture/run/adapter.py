"""Lets ``check`` read the logs of a recorded run as it reads any planner's output."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.capture.run.log import MAGIC, SUFFIX
from planguard.capture.run.log_reading import attempt_of
from planguard.errors import UsageError

if TYPE_CHECKING:
    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.plan import Plan
    from planguard.recording import Recording


class RunAdapter:
    """Reads a folder of logs that ``planguard dryrun`` or ``planguard.capture.start`` wrote."""

    name = "dryrun"

    def sniff(self, obj: object) -> bool:
        """Tell a folder of logs, or one log, by its content."""
        if not isinstance(obj, str | Path):
            return False
        try:
            names = os.listdir(obj)  # noqa: PTH208  asked of every folder of an experiment
        except OSError:
            names = None
        if names is not None:
            return any(name.endswith(SUFFIX) for name in names)
        try:
            with open(obj, "rb") as file:  # noqa: PTH123  as above
                return file.read(len(MAGIC)) == MAGIC
        except OSError:
            return False

    def adapt(self, obj: object, builder: type[PlanBuilder], **options: Any) -> Plan:
        """Return the plan that the run was seen following.

        Args:
            obj: The folder.
            builder: Not used: the plan is built the way the precheck builds it.
            options: ``name``, ``model``, ``order``, ``buffers``, ``attempt`` (``plan_of_run``).

        Raises:
            PlanError: A log is damaged.
            UsageError: There is no log, or an option does not exist.
        """
        from planguard.capture.run.reading import plan_of_run

        if unknown := set(options) - {"name", "model", "order", "buffers", "attempt"}:
            raise UsageError(
                f"no option {min(unknown)!r}", hint="name, model, order, buffers, attempt"
            )
        number = options.get("attempt")
        if number is not None and not str(number).isdecimal():
            raise UsageError(f"attempt {number!r} is no number", hint="attempt=0 is the first")
        if not isinstance(obj, str | Path):
            raise UsageError("the dryrun adapter reads a folder of logs")
        if number is not None:
            options["attempt"] = int(number)
        return plan_of_run(obj, **options)

    def attempt(self, data: bytes) -> int:
        """Return which start of its job a log belongs to, without reading more than its header."""
        return attempt_of(data)

    def recording(self, data: bytes, file: str) -> Recording:
        """Return what the rank of one log was seen doing, for ``planguard audit``.

        Raises:
            PlanError: The log is damaged.
        """
        from planguard.capture.run.reading import recording_of_log

        return recording_of_log(data, file)


adapter = RunAdapter()
