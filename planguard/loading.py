"""Read a plan from whatever a caller has: a file, bytes, a document, a planner's own object."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.arguments import NAME, arguments
from planguard.errors import UsageError
from planguard.files import is_special, refuse_special, unrecorded
from planguard.files.heads import GZIP, head_of, unzipped
from planguard.garbage import no_collection

if TYPE_CHECKING:
    from planguard.plan.plan import Plan
    from planguard.registry import PlannerAdapter

PLAN_SUFFIXES = (".json", ".json.gz")
PLAN_SCHEMA = "planguard.plan"
PLAN_FIELDS = ("schema", "world_size")
"""Fields that every plan has; strategies of planners may have the second."""
HEAD = 4096
"""Bytes that are looked at to tell a plan from other JSON."""


@arguments(planner=NAME)
@no_collection()
def load(obj: Any, *, planner: str | None = None, **options: Any) -> Plan:
    """Read a plan from a file, bytes, a dict, or a planner's own object.

    Args:
        obj: A path to a plan file, the file's bytes, the decoded document, a ``Plan``, a
            ``PlanBuilder``, or what a planner emits.
        planner: Name of the adapter that reads ``obj``; found by sniffing if None.
        options: Passed to the adapter.

    Raises:
        PlanError: If the input cannot be read as a plan.
        UsageError: If no adapter of that name exists, it has no such option or needs another one,
            or a plan file is read with options.
    """
    from planguard import registry
    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.plan import Plan

    if isinstance(obj, Plan):
        return obj
    if isinstance(obj, (str, Path)):
        refuse_special(obj)
    if isinstance(obj, PlanBuilder):
        if planner is not None or options:
            raise UsageError("a PlanBuilder needs no adapter", hint="leave out planner and options")
        return obj.build()
    if planner is not None:
        return registry.adapted(registry.find(planner), obj, options)
    adapter = _adapter_of(obj)
    if adapter is not None:
        return registry.adapted(adapter, obj, options)
    from planguard.plan.format import read

    if options:
        raise UsageError(
            f"option {min(options)} is for adapters, and this is a plan file",
            hint="leave it out, or name the adapter",
        )
    return read(obj)


def recognized(path: str) -> str | None:
    """Return who reads a file or folder, as far as its head tells; None where nobody does.

    "" stands for a plan, and for what several adapters recognize: ``load`` says so of it. A pipe or
    a device is read by nobody, and is not opened.
    """
    from planguard import registry

    if is_special(path):
        return None
    with unrecorded():
        head = head_of(path)[:HEAD]
        is_json = _is_plan_file(path)
        if is_json and _field(PLAN_FIELDS[0]) in head:
            return ""
        try:
            adapter = registry.recognize(path)
        except UsageError:
            return ""
    if adapter is None:
        return "" if is_json and any(_field(name) in head for name in PLAN_FIELDS) else None
    return adapter.name


def _adapter_of(obj: Any) -> PlannerAdapter | None:
    """Return who reads an input; None if it is a plan file."""
    from planguard import registry

    if not _is_plan_file(obj):
        return registry.sniff(obj)
    return None if _names_a_plan(obj) else registry.recognize(obj)


def _names_a_plan(obj: Any) -> bool:
    """Whether JSON has, where it begins, the schema that every plan has.

    Without one it may be of a planner that names no schema; finding out loads the adapters.
    """
    if isinstance(obj, dict):
        return PLAN_FIELDS[0] in obj
    head = unzipped(obj) if isinstance(obj, bytes) else head_of(obj)
    return not head or _field(PLAN_FIELDS[0]) in head[:HEAD]


def _field(name: str) -> bytes:
    return f'"{name}"'.encode()


def _is_plan_file(obj: Any) -> bool:
    """Whether an input is read as a plan: JSON that does not say it follows another schema."""
    if isinstance(obj, dict):
        return str(obj.get("schema", PLAN_SCHEMA)).startswith(PLAN_SCHEMA) and all(
            isinstance(key, str) for key in obj
        )
    if isinstance(obj, bytes):
        return (obj[:2] == GZIP or obj.lstrip()[:1] == b"{") and not _other_schema(obj)
    if isinstance(obj, (str, Path)) and str(obj).endswith(PLAN_SUFFIXES):
        return not _other_schema(head_of(obj))  # empty: the reader says what is wrong with it
    return False


def _other_schema(data: bytes) -> bool:
    """Whether a JSON document begins with a schema that is not that of plans, or as a trace."""
    import re

    data = unzipped(data)[:HEAD]
    if data.lstrip()[:1] == b"[":
        return b'"ph"' in data  # a list of trace events, such as a timeline
    named = re.search(rb'"schema"\s*:\s*"(planguard\.[a-z]+)/', data)
    return named is not None and named[1].decode() != PLAN_SCHEMA
