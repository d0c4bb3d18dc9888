"""What one rank's database says: of a file on its own node, which others may have written or not.

A table of finished steps or of cached samples lies on a local disk. The rows that a rank reads from
``sqlite3`` are more, or of larger numbers, on one half of the ranks, and none on the other. What a
query computes (``count``, ``max``) has one row in any case, and its numbers change.
"""

from __future__ import annotations

import re
import sqlite3
import sys
from typing import TYPE_CHECKING, Any

from planguard.capture.values.otherwise import other_fact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

DATABASE = "what a database says"
_COMPUTED = re.compile(
    r"\b(?:count|max|min|sum|avg|total|exists|changes|last_insert_rowid)\s*\(|^\s*pragma",
    re.IGNORECASE,
)
"""Queries that have one row whatever is in the tables."""
_MOST_ROWS = 4096
_WRITTEN = 1 << 20
"""What stands in each column of a row that is not here."""


class Database:
    """The databases of one rank.

    Args:
        rank: The rank; of two whose numbers differ in one bit, one has more in its tables.
        is_odd: Notes a question of a kind at a line; tells whether this rank is odd there.
        place: Returns the line of the program that asks, itself or by what it called.
    """

    def __init__(
        self,
        rank: int,
        is_odd: Callable[[str, str], bool],
        place: Callable[[FrameType | None], str | None],
    ) -> None:
        self._is_more = bool(rank.bit_count() % 2)
        self._is_odd = is_odd
        self._place = place
        self.named: object = None

    def questions(self) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
        """Return the function that opens a database, and what makes the one in its place."""
        yield sqlite3, "connect", self._connected

    def _connected(self, original: Any) -> Any:
        def connect(*args: Any, **options: Any) -> Any:
            # By place: database, timeout, detect_types, isolation_level, check_same_thread, factory
            if len(args) < 6 and options.get("factory", sqlite3.Connection) is sqlite3.Connection:
                options["factory"] = self._connection()
            return original(*args, **options)

        return connect

    def _connection(self) -> type[sqlite3.Connection]:
        kind = self._cursor()

        class Connection(sqlite3.Connection):
            def cursor(self, factory: Any = kind) -> Any:
                return super().cursor(factory)

            def execute(self, *args: Any) -> Any:  # the one in C makes a cursor of its own
                return self.cursor().execute(*args)

        return Connection

    def _cursor(self) -> type[sqlite3.Cursor]:
        rows, is_computed = self._rows, _is_computed

        class Cursor(sqlite3.Cursor):
            """A cursor whose rows are those of another node where its rank is odd."""

            _said: list[Any] | None = None
            _query = ""

            def execute(self, sql: str, *args: Any) -> Any:
                self._said, self._query = None, sql
                return super().execute(sql, *args)

            def _read(self, frame: FrameType) -> list[Any]:
                if self._said is None:
                    columns = len(self.description or ())
                    make, self.row_factory = self.row_factory, None
                    found = super().fetchall()
                    found = rows(found, columns, frame, is_computed=is_computed(self._query))
                    self.row_factory = make
                    self._said = found if make is None else [make(self, one) for one in found]
                return self._said

            def fetchone(self) -> Any:
                said = self._read(sys._getframe(1))  # noqa: SLF001 - the interpreter has no public way
                return said.pop(0) if said else None

            def fetchmany(self, size: int | None = None) -> list[Any]:
                said = self._read(sys._getframe(1))  # noqa: SLF001 - same
                number = self.arraysize if size is None else size
                taken, said[:] = said[:number], said[number:]
                return taken

            def fetchall(self) -> list[Any]:
                said = self._read(sys._getframe(1))  # noqa: SLF001 - same
                taken, said[:] = said[:], []
                return taken

            def __iter__(self) -> Any:
                return iter(self._read(sys._getframe(1)))  # noqa: SLF001 - same

            def __next__(self) -> Any:
                found = self.fetchone()
                if found is None:
                    raise StopIteration
                return found

        return Cursor

    def _rows(
        self, found: list[Any], columns: int, frame: FrameType, *, is_computed: bool
    ) -> list[Any]:
        """Return the rows of another node, where the program asks for any."""
        place = self._place(frame) if columns else None
        if place is None or not self._is_odd(DATABASE, place):
            return found
        named = self.named if isinstance(self.named, str | int) else None
        changed = [
            tuple(other_fact(one, is_more=self._is_more, named=named) for one in row)
            for row in found
        ]
        if is_computed:
            return changed
        if not self._is_more:
            return []
        # The first row differs, too: fetchone reads no other.
        more = changed + found or [(_WRITTEN if named is None else named,) * columns]
        # As many as a test names: some of its limits are of rows, others of what is in them.
        is_number = isinstance(named, int) and 0 < named <= _MOST_ROWS
        return [more[at % len(more)] for at in range(named)] if is_number else more  # type: ignore[arg-type]  # a number


def _is_computed(query: str) -> bool:
    return _COMPUTED.search(query) is not None
