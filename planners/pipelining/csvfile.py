"""Read a schedule CSV: one row per pipeline rank, one action per cell, no header."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from planguard.errors import PlanError

from ..common.reading import UNREADABLE, unpacked
from .actions import Action, parse_cell
from .order import Cell, Order

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 64 << 20
"""A schedule of 1,024 ranks with 2,000 actions each is 20 MB."""
_SNIFF_BYTES = 4096
_GRAMMAR = (
    "a cell is <stage><F|B|I|W|SEND_F|RECV_F|SEND_B|RECV_B><microbatch>, "
    "<stage><UNSHARD|RESHARD|REDUCE_GRAD> or (0F3;3B1)OVERLAP_F_B"
)
_EMPTY_HINT = "only a compute-only schedule has empty cells; with sends and receives there are none"


def read_bytes(path: Path) -> bytes:
    """Read a schedule file, gzipped or not.

    Raises:
        PlanError: The file cannot be read or is larger than ``MAX_BYTES``.
    """
    try:
        return unpacked(path, MAX_BYTES)
    except UNREADABLE as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise PlanError(
            f"cannot read the schedule: {reason}", file=str(path), path="file"
        ) from error


def looks_like_schedule(data: bytes) -> bool:
    """Tell whether one of the first cells of a text is an action; looks at 4 KiB at most."""
    head = data[:_SNIFF_BYTES].decode("ascii", "replace")
    for cell in head.replace("\r", "\n").replace("\n", ",").split(",")[:64]:
        try:
            if parse_cell(cell.strip('"')) is not None:
                return True
        except ValueError:
            continue
    return False


def parse_csv(data: bytes, source: str) -> Order:
    """Read the bytes of a schedule CSV.

    Raises:
        PlanError: Not UTF-8, not CSV, an empty row, or a cell that is not an action as a whole;
            the error names row and cell, counted from 1.
    """
    rows = _rows(data, source)
    known: dict[str, Action | None] = {}
    parsed = tuple(
        tuple(
            Cell(action, rank, column)
            for column, text in enumerate(row)
            if (action := _action(text, known, source, rank, column)) is not None
        )
        for rank, row in enumerate(rows)
    )
    order = Order(source, parsed)
    if order.has_transfers:
        _refuse_bubbles(rows, source)
    return order


def _rows(data: bytes, source: str) -> list[list[str]]:
    if len(data) > MAX_BYTES:
        raise PlanError(
            f"the schedule is larger than {MAX_BYTES >> 20} MiB", file=source, path="file"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PlanError(
            f"the schedule is not UTF-8 at byte {error.start}", file=source, path="file"
        ) from error
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise PlanError(f"not a CSV file: {error}", file=source, path="file") from error
    if not rows:
        raise PlanError("the schedule is empty", file=source, path="file", hint=_GRAMMAR)
    for rank, row in enumerate(rows):
        if not row:
            raise PlanError(
                "empty row",
                file=source,
                path=f"row {rank + 1}",
                hint="every pipeline rank has one row; rows follow the ranks without gaps",
            )
    return rows


def _action(
    text: str, known: dict[str, Action | None], source: str, rank: int, column: int
) -> Action | None:
    try:
        if text not in known:
            known[text] = parse_cell(text)
    except ValueError as error:
        raise PlanError(
            str(error),
            file=source,
            path=f"row {rank + 1}, cell {column + 1}",
            value=text,
            hint=_GRAMMAR,
        ) from None
    return known[text]


def _refuse_bubbles(rows: list[list[str]], source: str) -> None:
    for rank, row in enumerate(rows):
        for column, text in enumerate(row):
            if not text.strip(" \t"):
                raise PlanError(
                    "empty cell",
                    file=source,
                    path=f"row {rank + 1}, cell {column + 1}",
                    hint=_EMPTY_HINT,
                )
