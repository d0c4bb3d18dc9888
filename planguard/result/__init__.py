"""Write and read ``planguard.result/1``, the result file (docs/reference/result.md).

Keys are sorted and there are no timestamps, so equal inputs give equal bytes except for the times,
which ``reproducible`` leaves out.
"""

from __future__ import annotations

import json
from typing import Any

from planguard.result.document import SCHEMA, result_schema
from planguard.result.fingerprint import fingerprint
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


def __getattr__(name: str) -> Any:
    # The schema is built only for those who ask.
    if name == "RESULT_SCHEMA":
        return result_schema()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
