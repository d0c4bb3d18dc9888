"""Rows of a store as CSV, JSONL or Parquet, by name, so that equal results are equal bytes."""

from __future__ import annotations

import csv
import json
import math
from itertools import islice
from typing import IO, TYPE_CHECKING, Any

from planguard.errors import MissingPackageError, UsageError, shorten
from planguard.files import Draft, Target, target

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from planguard.screen.rows import Row
    from planguard.screen.store import Store

SUFFIXES = (".csv", ".jsonl", ".parquet")
OWN = ("name", "outcome", "code", "codes", "skeleton", "reason", "ended", "input_sha")
"""Columns that every trial has."""
PARAM = "param."
"""What stands before the name of a parameter, as a column."""
ROWS = 10_000
"""Rows of a Parquet file that are in memory at once."""


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


def export(store: Store, path: str | Target) -> int:
    """Write the rows of a store to a file of the kind its suffix names, and return how many.

    Every kind has the same columns: those of a row, and ``param.NAME`` for each parameter. Rows are
    written as they are read, so memory does not grow with their number.

    Raises:
        UsageError: As ``check_target`` and ``planguard.files.target``.
        OSError: The file cannot be written; what was there is unchanged.
    """
    goal = path if isinstance(path, Target) else target(path)
    name = str(goal.path)
    check_target(name)
    params = store.params()
    with Draft(goal) as draft:
        if name.endswith(".csv"):
            return _write_csv(store.rows(), params, draft.text())
        if name.endswith(".jsonl"):
            return _write_lines(store.rows(), draft.text())
        return _write_parquet(store.rows(), params, draft.binary)


def _record(row: Row) -> dict[str, Any]:
    return {
        "name": row.name,
        "outcome": row.outcome,
        "code": row.code,
        "codes": list(row.codes),
        "skeleton": row.skeleton,
        "reason": row.reason,
        "ended": row.end,
        "input_sha": row.input_sha,
        **{f"{PARAM}{name}": value for name, value in row.params.items()},
    }


def _write_csv(rows: Iterator[Row], params: Iterable[str], file: IO[str]) -> int:
    writer = csv.DictWriter(file, [*OWN, *(PARAM + name for name in params)], lineterminator="\n")
    writer.writeheader()
    count = 0
    for count, row in enumerate(rows, 1):  # noqa: B007  how many there were
        writer.writerow(_harmless({**_record(row), "codes": " ".join(row.codes)}))
    return count


def _harmless(record: dict[str, Any]) -> dict[str, Any]:
    """A name that a spreadsheet would run as a formula is text."""
    return {
        name: f"'{value}" if isinstance(value, str) and value[:1] in {"=", "+", "-", "@"} else value
        for name, value in record.items()
    }


def _write_lines(rows: Iterator[Row], file: IO[str]) -> int:
    count = 0
    for count, row in enumerate(rows, 1):  # noqa: B007  as above
        file.write(json.dumps(_record(row), sort_keys=True) + "\n")
    return count


def _write_parquet(
    rows: Iterator[Row], params: Mapping[str, frozenset[str]], file: IO[bytes]
) -> int:
    arrow, parquet = _arrow()
    text = arrow.string()
    fields = [(name, arrow.list_(text) if name == "codes" else text) for name in OWN]
    kinds = {PARAM + name: _column_type(types) for name, types in params.items()}
    types = {"boolean": arrow.bool_(), "integer": arrow.int64(), "real": arrow.float64()}
    fields += [(name, types.get(kind, text)) for name, kind in kinds.items()]
    schema = arrow.schema(fields)
    made = {"text": _text_of, "real": _real_of}
    converted = [(name, made[kind]) for name, kind in kinds.items() if kind in made]
    count = 0
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        while some := list(islice(rows, ROWS)):
            count += len(some)
            records = [_record(row) for row in some]
            for record in records:
                for name, convert in converted:
                    record[name] = convert(record.get(name))
            writer.write_table(arrow.Table.from_pylist(records, schema=schema))
    return count


def _text_of(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _real_of(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except OverflowError:  # an integer of more than 308 digits
        return math.inf if value > 0 else -math.inf


def _column_type(types: frozenset[str]) -> str:
    """Return the type of a column that takes all values of a parameter; "text" takes any."""
    found = {"boolean" if kind in {"true", "false"} else kind for kind in types} - {"null"}
    if found == {"integer", "real"}:
        return "real"
    return found.pop() if len(found) == 1 else "text"


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingPackageError("pyarrow", "a Parquet file") from None
    return pa, pq
