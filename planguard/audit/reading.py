"""Reads every input with the reader of its kind; many of them in several processes."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.audit.files import Input, kind_of, read
from planguard.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection

from planguard.audit.part import Part
from planguard.audit.safe import no_collection

READERS = {
    "flight-recorder": ("planguard.audit.flight_recorder", "read_flight_recorder"),
    "kineto": ("planguard.audit.kineto", "read_kineto"),
    "execution-trace": ("planguard.audit.execution_trace", "read_execution_trace"),
    "chakra": ("planguard.audit.chakra", "read_chakra"),
    "nccl-log": ("planguard.audit.nccl_log", "read_nccl_log"),
    "log": ("planguard.audit.own_log", "read_own_log"),
    "plan": ("planguard.audit.own_log", "read_captured_plan"),
    "stacks": ("planguard.audit.stacks", "read_stacks"),
}
"""Reader of every kind: module and function, ``(bytes, file) -> Part`` or a list of parts."""

Slice = list[Part] | tuple[str, str, str | None, str, str]
"""Parts of some inputs, or message, code, file, path and hint of what could not be read."""

MANY = 64
"""Inputs from which several processes read."""


def read_inputs(inputs: Sequence[Input]) -> list[Part]:
    """Return what all inputs say, in their order.

    Files of a folder that are no recording are left out; a file that the user named is refused.

    Raises:
        PlanError: An input cannot be read; nothing in it was executed.
    """
    if len(inputs) >= MANY and _may_fork():
        return _in_processes(inputs)
    with no_collection():
        return [part for one in inputs for part in read_input(one)]


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


def _may_fork() -> bool:
    """Tell whether a copy of this process is safe: no other thread may hold a lock."""
    if sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2:
        return False
    try:
        return len(list(Path("/proc/self/task").iterdir())) == 1
    except OSError:
        return False


def _in_processes(inputs: Sequence[Input]) -> list[Part]:
    """Read a slice here and the others in copies of this process."""
    import multiprocessing

    count = min(len(os.sched_getaffinity(0)), 8)
    size = max(1, -(-len(inputs) // count))
    slices = [inputs[place : place + size] for place in range(0, len(inputs), size)]
    context = multiprocessing.get_context("fork")
    pipes, helpers = [], []
    for one in slices[1:]:
        pipe, end = context.Pipe(duplex=False)
        helper = context.Process(target=_send_slice, args=(end, one), daemon=True)
        helper.start()
        end.close()
        pipes.append(pipe)
        helpers.append(helper)
    try:
        found = [_read_slice(slices[0]), *map(_receive, pipes)]
    finally:
        for helper in helpers:
            helper.kill()
            helper.join()
    parts: list[Part] = []
    for result in found:
        if isinstance(result, tuple):
            message, code, file, path, hint = result
            raise PlanError(message, code=code, file=file, path=path, hint=hint)
        parts += result
    return parts


def _send_slice(end: Connection, inputs: Sequence[Input]) -> None:
    end.send(_read_slice(inputs))
    end.close()
    os._exit(0)  # nothing to clean up, and freeing everything one by one takes its time


def _receive(pipe: Connection) -> Slice:
    try:
        with no_collection():
            return pipe.recv()  # type: ignore[no-any-return]
    except EOFError:
        message = "a process that read recordings ended early: out of memory?"
        return (message, "PG901", None, "$", "audit fewer files at a time")


def _read_slice(inputs: Sequence[Input]) -> Slice:
    try:
        with no_collection():
            return [part for one in inputs for part in read_input(one)]
    except PlanError as error:
        return (error.message, error.code, error.file, error.path, error.hint)
