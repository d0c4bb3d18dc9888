"""Write and read ``planguard.result/1``, the result file (docs/reference/result.md).

Keys are sorted and there are no timestamps, so equal inputs give equal bytes except for the times,
which ``reproducible`` leaves out.
"""

from __future__ import annotations

import json
from importlib import import_module
from typing import TYPE_CHECKING, Any

# The function of this name replaces the module as an attribute, so it can not be looked up late.
from planguard.result.fingerprint import fingerprint

if TYPE_CHECKING:
    from planguard.result.document import SCHEMA, result_schema
    from planguard.result.reading import verdict_from_json
    from planguard.result.writing import error_to_json, tool_version, verdict_to_json

__all__ = [
    "SCHEMA",
    "dumps",
    "error_to_json",
    "fingerprint",
    "result_schema",
    "tool_version",
    "verdict_from_json",
    "verdict_to_json",
]


def dumps(result: Any, *, indent: int | None = None) -> str:
    """Return a result object, or a list of them, as ASCII JSON: sorted keys, no final newline."""
    return json.dumps(result, sort_keys=True, indent=indent)


_HOMES = {
    "SCHEMA": "document",
    "error_to_json": "writing",
    "result_schema": "document",
    "tool_version": "writing",
    "verdict_from_json": "reading",
    "verdict_to_json": "writing",
}


def __getattr__(name: str) -> Any:
    # What prints text needs a fingerprint, and neither msgspec nor the records of the document.
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    # The schema is built only for those who ask.
    if name == "RESULT_SCHEMA":
        return import_module(f"{__name__}.document").result_schema()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
