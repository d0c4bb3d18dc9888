"""Rows of a store as CSV, JSONL or Parquet, by name, so that equal results are equal bytes."""

from __future__ import annotations

import csv
import json
from typing import IO, TYPE_CHECKING, Any

from planguard.errors import MissingPackageError, UsageError, shorten
from planguard.files import Draft, Target, target

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from planguard.screen.rows import Row

SUFFIXES = (".csv", ".jsonl", ".parquet")


def check_target(path: str) -> None:
    """Refuse a file of another kind, or one whose library is missing, before any work.

    Raises:
        MissingPackageError: pyarrow is not installed.
        UsageError: The suffix is none of ``SUFFIXES``.
    """
    if not path.endswith(SUFFIXES):
        raise UsageError(f"{shorten(path)}: unknown kind", hint="one of " + ", ".join(SUFFIXES))
    if path.endswith(".parquet"):
        _arrow()


def export(rows: Iterable[Row], path: str | Target) -> int:
    """Write rows to a file of the kind its suffix names, and return how many.

    Raises:
        UsageError: As ``check_target`` and ``planguard.files.target``.
        OSError: The file cannot be written; what was there is unchanged.
    """
    goal = path if isinstance(path, Target) else target(path)
    name = str(goal.path)
    check_target(name)
    records = [_record(row) for row in rows]
    with Draft(goal) as draft:
        if name.endswith(".csv"):
            _write_csv(records, draft.text())
        elif name.endswith(".jsonl"):
            lines = (json.dumps(record, sort_keys=True) + "\n" for record in records)
            draft.text().writelines(lines)
        else:
            _write_parquet(records, draft.binary)
    return len(records)


def _record(row: Row) -> dict[str, Any]:
    return {
        "name": row.name,
        "outcome": row.outcome,
        "code": row.code,
        "codes": list(row.codes),
        "skeleton": row.skeleton,
        "reason": row.reason,
        "ended": row.end,
        "params": dict(row.params),
        "input_sha": row.input_sha,
    }


def _flat(records: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield records with one field per parameter and codes as text."""
    for record in records:
        params = {f"param.{name}": value for name, value in record["params"].items()}
        bare = {name: value for name, value in record.items() if name != "params"}
        yield {**bare, "codes": " ".join(record["codes"]), **params}


def _write_csv(records: list[dict[str, Any]], file: IO[str]) -> None:
    names = sorted({f"param.{name}" for record in records for name in record["params"]})
    own = ["name", "outcome", "code", "codes", "skeleton", "reason", "ended", "input_sha"]
    writer = csv.DictWriter(file, [*own, *names], lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(_harmless, _flat(records)))


def _harmless(record: dict[str, Any]) -> dict[str, Any]:
    """A name that a spreadsheet would run as a formula is text."""
    return {
        name: f"'{value}" if isinstance(value, str) and value[:1] in {"=", "+", "-", "@"} else value
        for name, value in record.items()
    }


def _write_parquet(records: list[dict[str, Any]], file: IO[bytes]) -> None:
    arrow, parquet = _arrow()
    lines = [
        {**record, "params": json.dumps(record["params"], sort_keys=True)} for record in records
    ]
    text = arrow.string()
    fields = [
        (name, arrow.list_(text) if name == "codes" else text)
        for name in ("name", "outcome", "code", "codes", "skeleton", "reason", "ended", "params")
    ]
    schema = arrow.schema([*fields, ("input_sha", text)])
    parquet.write_table(arrow.Table.from_pylist(lines, schema=schema), file, compression="zstd")


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingPackageError("pyarrow", "a Parquet file") from None
    return pa, pq
