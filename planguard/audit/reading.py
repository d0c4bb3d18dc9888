"""Reads every input with the reader of its kind; many of them in several processes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from planguard.audit.files import Input, kind_of, read
from planguard.audit.helpers import MANY, Helpers, may_fork
from planguard.audit.safe import no_collection
from planguard.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from planguard.audit.part import Part

READERS = {
    "flight-recorder": ("planguard.audit.flight_recorder", "read_flight_recorder"),
    "kineto": ("planguard.audit.kineto", "read_kineto"),
    "execution-trace": ("planguard.audit.execution_trace", "read_execution_trace"),
    "chakra": ("planguard.audit.chakra", "read_chakra"),
    "nccl-log": ("planguard.audit.nccl_log", "read_nccl_log"),
    "log": ("planguard.audit.own_log", "read_own_log"),
    "run": ("planguard.audit.own_log", "read_run_log"),
    "plan": ("planguard.audit.own_log", "read_captured_plan"),
    "stacks": ("planguard.audit.stacks", "read_stacks"),
}
"""Reader of every kind: module and function, ``(bytes, file) -> Part`` or a list of parts."""


class Reading:
    """Inputs being read: processes that help, where there are any, start at once.

    Args:
        inputs: What to read. Files of a folder that are no recording are left out; a file that the
            user named is refused.
        count: Processes; as many as there are processors if None.
    """

    def __init__(self, inputs: Sequence[Input], count: int | None = None) -> None:
        self.inputs = inputs
        is_many = len(inputs) >= MANY and count != 1 and may_fork()
        self.helpers = Helpers(inputs, read_input, count) if is_many else None

    def parts(self) -> list[Part]:
        """Return what all inputs say, in their order.

        Raises:
            PlanError: An input cannot be read; nothing in it was executed.
            HelperLostError: A process that read died.
        """
        if self.helpers is not None:
            return self.helpers.parts()
        with no_collection():
            return [part for one in self.inputs for part in read_input(one)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.helpers is not None:
            self.helpers.close()


def read_input(one: Input) -> list[Part]:
    """Return what one input says, under the rank that its name gives.

    Raises:
        PlanError: It cannot be read.
    """
    data = read(one.path)
    kind = kind_of(data)
    if kind is None:
        if one.was_named:
            raise PlanError(
                "no recording of a known kind",
                file=str(one.path),
                hint="known: " + ", ".join(READERS),
            )
        return []
    module, function = READERS[kind]
    reader: Callable[[bytes, str], Part | list[Part]] = getattr(import_module(module), function)
    try:
        found = reader(data, str(one.path))
    except PlanError:
        # Chakra traces have no mark of their own: any binary file of a folder may look like one.
        if kind == "chakra" and not one.was_named:
            return []
        raise
    except RecursionError:
        raise PlanError("nested too deep", file=str(one.path)) from None
    except MemoryError:
        raise PlanError("needs too much memory", file=str(one.path)) from None
    parts = found if isinstance(found, list) else [found]
    if len(parts) == 1 and parts[0].rank is None:
        parts[0].rank = one.rank
    return parts
