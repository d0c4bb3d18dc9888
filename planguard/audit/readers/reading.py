"""Reads every input with the reader of its kind; many of them in several processes."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from planguard.audit.readers.blocks import STDIN
from planguard.audit.readers.files import Input, content, first_lines, kind_of
from planguard.audit.readers.helpers import MANY, Helpers, may_fork
from planguard.audit.readers.part import PLAN, SILENT, UNREAD, Part
from planguard.errors import PlanError, UsageError
from planguard.garbage import no_collection
from planguard.words import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

READERS = {
    "flight-recorder": ("planguard.audit.readers.flight_recorder", "read_flight_recorder"),
    "kineto": ("planguard.audit.readers.kineto", "read_kineto"),
    "execution-trace": ("planguard.audit.readers.execution_trace", "read_execution_trace"),
    "chakra": ("planguard.audit.readers.chakra", "read_chakra"),
    "nccl-log": ("planguard.audit.readers.texts", "read_text"),
    "text": ("planguard.audit.readers.texts", "read_text"),
    "log": ("planguard.audit.readers.own_log", "read_own_log"),
    "run": ("planguard.audit.readers.own_log", "read_run_log"),
    "clog": ("planguard.audit.readers.clog", "read_clog"),
    "plan": ("planguard.audit.readers.own_log", "read_plan"),
    "stacks": ("planguard.audit.readers.stacks", "read_json_stacks"),
    "ras": ("planguard.audit.readers.ras", "read_ras_json"),
}
"""Reader of every kind: module and function, ``(bytes, file) -> Part`` or a list of parts."""
NOTHING = "no recording of a known kind"
_PLANNED = (".csv", ".xml", ".json", ".gz")
"""How names of files end that planners write; those of a folder are asked for plans by it."""
_VAGUE = frozenset({"text", "flight-recorder"})
"""Kinds that are only what a text, or any pickle, is read as: what a planner wrote may look so."""


class Reading:
    """Inputs being read: processes that help, where there are any, start at once.

    Args:
        inputs: What to read. Files of a folder that are no recording are left out; of a file that
            the user named it is told.
        count: Processes; as many as there are processors if None.
    """

    def __init__(self, inputs: Sequence[Input], count: int | None = None) -> None:
        self.inputs = inputs
        is_many = len(inputs) >= MANY and count != 1 and may_fork()
        self.helpers = Helpers(inputs, read_input, count) if is_many else None

    def parts(self) -> list[Part]:
        """Return what all inputs say, in their order.

        Raises:
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
    """Return what one input says; a part that says why where it cannot be read.

    One bad file does not take the others with it: what it would have said is missing, as the record
    of a rank that left none.
    """
    file, data, kind = str(one.path), b"", None
    try:
        held = content(one.path)
        data = held.data
        kind = kind_of(data)
        if kind is None:
            if held.damage is not None:
                raise held.damage
            return _useless(one, data)
        parts = _read(data, kind, file)
    except PlanError as error:
        found = error
    except RecursionError:
        found = PlanError("nested too deep", file=file)
    except MemoryError:
        found = PlanError("needs too much memory", file=file)
    else:
        for part in parts:
            part.doubt = part.doubt or held.doubt
            if file != STDIN:
                part.written_ns = one.path.stat().st_mtime_ns
            if held.damage is not None:
                # Bytes behind a first wrong one decompress to anything; a checksum is at the end.
                part.lost = f"{clean(file)}: {held.damage.message}: only its beginning was read"
        parts[0].remarks += [held.remark] if held.remark else []
        return parts
    if kind in _VAGUE and _is_plan(one):
        return [Part(PLAN, file)]
    # Chakra traces have no mark of their own: any binary file of a folder may look like one.
    if found.code == "PG901" and not one.was_named and _may_be_anything(data):
        return []
    return [Part(UNREAD, file, error=found, begins=first_lines(data), trouble=_trouble(file, data))]


def _trouble(file: str, data: bytes) -> str:
    """Return what a file that was not understood says of trouble, by its words; else nothing."""
    said = _TROUBLE.search(data)
    if said is None:
        return ""
    return f"{clean(file)} was not understood, and has words of trouble ({clean(said[0].decode())})"


_TROUBLE = re.compile(
    rb"(?i)\b(?:errors?|exception|traceback|fatal|abort(?:ed|ing)?|killed|timed out|timeout|oom|"
    rb"terminat(?:ed|ing)|connection closed|closed by|segmentation fault|sig[a-z]{3,5}|warn)\b"
)
"""Words with which software says that something failed; a log that trains on has them, too, so that
nothing follows but that it is no proof of the contrary."""


def _read(data: bytes, kind: str, file: str) -> list[Part]:
    found = _reader(kind)(data, file)
    return found if isinstance(found, list) else [found]


@cache
def _reader(kind: str) -> Callable[[bytes, str], Part | list[Part]]:
    module, function = READERS[kind]
    reader: Callable[[bytes, str], Part | list[Part]] = getattr(import_module(module), function)
    return reader


def _useless(one: Input, data: bytes) -> list[Part]:
    """Return what a file without a recording says: nothing, or that its rank printed nothing."""
    if not data.strip():
        return [Part(SILENT, str(one.path))]
    if _is_plan(one):
        return [Part(PLAN, str(one.path))]
    begins = first_lines(data)
    if not begins and not one.was_named:
        return []
    hint = "known: " + ", ".join(READERS)
    error = PlanError(NOTHING, code="PG910", file=str(one.path), hint=hint)
    trouble = _trouble(str(one.path), data)
    return [Part(UNREAD, str(one.path), error=error, begins=begins, trouble=trouble)]


def _is_plan(one: Input) -> bool:
    """Tell whether a file that is no recording is what a planner wrote; its adapters are asked."""
    if not one.was_named and not one.path.name.endswith(_PLANNED):
        return False
    from planguard import registry  # only here: it looks for what is installed

    try:
        return registry.recognize(str(one.path)) is not None
    except UsageError:  # more than one does: whoever reads it says so
        return True


def _may_be_anything(data: bytes) -> bool:
    return kind_of(data) == "chakra"
