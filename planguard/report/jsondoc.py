"""``json`` and ``jsonl``: ``planguard.result/1`` objects with sorted keys."""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planguard.report import ReportOptions, Result


def document(result: Result, *, reproducible: bool) -> dict[str, Any]:
    """Return the result object of one input, readable or not."""
    if result.verdict is not None:
        return result.verdict.to_json(reproducible=reproducible)
    code, message = result.refusal
    error = result.error
    return {
        "schema": "planguard.result/1",
        "plan": {"file": result.path},
        "outcome": None,
        "error": {
            "code": code,
            "path": "$" if error is None else error.path,
            "message": message,
            "hint": "" if error is None else error.hint,
        },
    }


class JsonReporter:
    """One object for one input, an array for several."""

    def __init__(self, out: IO[str], options: ReportOptions) -> None:
        self._out, self._many = out, options.many
        self._reproducible = options.reproducible
        self._documents: list[dict[str, Any]] = []

    def add(self, result: Result) -> None:
        """Keep one result."""
        self._documents.append(document(result, reproducible=self._reproducible))

    def close(self) -> None:
        """Write the document."""
        whole: Any = self._documents if self._many else self._documents[0]
        self._out.write(json.dumps(whole, sort_keys=True, indent=1) + "\n")


class JsonLinesReporter:
    """One line per input, in input order, flushed as decided."""

    def __init__(self, out: IO[str], options: ReportOptions) -> None:
        self._out = out
        self._reproducible = options.reproducible

    def add(self, result: Result) -> None:
        """Write one line."""
        plain = document(result, reproducible=self._reproducible)
        self._out.write(json.dumps(plain, sort_keys=True) + "\n")
        self._out.flush()

    def close(self) -> None:
        """Nothing is left to write."""
