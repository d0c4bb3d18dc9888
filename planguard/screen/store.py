"""Store: rows and skeletons in one SQLite file, written in whole windows, resumable.

WAL mode: others may read while a screening writes, and a killed process leaves the windows that
were committed. One file may hold the answers to several questions, that is models and options.

Above 400 lines: whoever writes rows, reads them back, counts them or asks about them in SQL knows
the layout of the same three tables.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from math import isfinite, isinf, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from planguard.errors import UsageError, shorten
from planguard.files import is_special
from planguard.options import CheckOptions
from planguard.screen.checking import rules_of
from planguard.screen.rows import OUTCOMES, Row, Skeleton
from planguard.screen.tasks import SIGNATURE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

SCHEMA = 1
"""Number of the tables' layout, kept in ``user_version``."""
_TABLES = """
CREATE TABLE questions (
    question TEXT PRIMARY KEY, model TEXT, options TEXT, planner TEXT, version TEXT
) WITHOUT ROWID;
CREATE TABLE trials (
    question TEXT, name TEXT, outcome TEXT, code TEXT, codes TEXT, skeleton TEXT, reason TEXT,
    ended TEXT, params TEXT, input_sha TEXT, PRIMARY KEY (question, name)
) WITHOUT ROWID;
CREATE TABLE skeletons (
    question TEXT, digest TEXT, outcome TEXT, code TEXT, codes TEXT, message TEXT, first TEXT,
    ranks INTEGER, actions INTEGER, ended TEXT, PRIMARY KEY (question, digest)
) WITHOUT ROWID;
"""
_NAMES = ("questions", "trials", "skeletons")
_ASKED = 900
"""Names in one question: some builds of SQLite take 999 values."""
_ROW = "name, outcome, code, codes, skeleton, reason, ended, params, input_sha"
_SKELETON = "digest, outcome, code, codes, message, first, ranks, actions, ended"
_FAMILIES = (
    "FROM (SELECT skeleton, count(*) AS trials FROM trials WHERE question = ? AND skeleton != ''"
    " GROUP BY skeleton) AS t JOIN skeletons AS s ON s.question = ? AND s.digest = t.skeleton"
)
"""Skeletons that a trial has, with the number of their trials; SQLite counts on disk."""


@dataclass(frozen=True)
class Question:
    """What rows of a store answer.

    Attributes:
        key: What the rows have in the column ``question``.
        model: The model that was asked for; None: the plan's own.
        planner: The adapter that was named, or None.
        version: Version of PlanGuard.
        options: The options of every check, as JSON.
        rows: How many trials there are.
    """

    key: str
    model: str | None
    planner: str | None
    version: str
    options: str
    rows: int

    def __str__(self) -> str:
        usual = asdict(rules_of(CheckOptions()))
        asked = {**json.loads(self.options), "model": None}
        others = [
            f"{name}={asked[name]}" for name in sorted(asked) if asked[name] != usual.get(name)
        ]
        named = [f"planner {self.planner}"] if self.planner else []
        model = f"model {self.model or 'of the plan'}"
        return ", ".join([model, *named, f"version {self.version}", *others])


class Store:
    """A result store.

    Args:
        path: The file; made if it is not there. ``":memory:"`` keeps nothing.
        fresh: Empty a store that exists, also one of another layout.
        reading: Only read a store that exists, which may be where nothing can be written.

    Raises:
        UsageError: The file is no store, or one of another layout.
    """

    def __init__(
        self, path: str | Path = ":memory:", *, fresh: bool = False, reading: bool = False
    ) -> None:
        self.path = str(path)
        self._question = ""
        if is_special(self.path):
            raise UsageError(f"{shorten(self.path)}: not a file", hint="name a file for the store")
        try:
            if reading:
                self._db = _to_read(self.path)
            else:
                self._db = sqlite3.connect(self.path, isolation_level=None)
                if fresh:
                    self._empty()
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute("PRAGMA synchronous = NORMAL")
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            is_new = not self._db.execute("SELECT 1 FROM sqlite_master").fetchone()
            if version == 0 and is_new and not reading:
                self._db.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {SCHEMA}; COMMIT;")
                version = SCHEMA
        except sqlite3.Error as error:
            raise _broken(self.path, error) from None
        if version != SCHEMA:
            raise UsageError(
                f"{shorten(self.path)} is no store of this version of PlanGuard",
                hint="screen into a new file",
            )

    def _empty(self) -> None:
        """Make a store as new, in one transaction; anything else has other tables and is kept."""
        found = self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        if {name for (name,) in found} == set(_NAMES):
            drops = " ".join(f"DROP TABLE {name};" for name in _NAMES)
            self._db.executescript(f"BEGIN; {drops} PRAGMA user_version = 0; COMMIT;")

    def ask(self, options: CheckOptions, planner: str | None = None) -> None:
        """Say which question the rows that follow answer: the same rows are never asked twice.

        Budgets are no part of it: what is decided is decided, however long it took.
        """
        from planguard import __version__

        rules = asdict(rules_of(options))
        text = json.dumps([rules, planner, __version__, SIGNATURE], sort_keys=True)
        self._question = hashlib.sha256(text.encode()).hexdigest()[:16]
        asked = (self._question, options.model, json.dumps(rules), planner, __version__)
        with _told(self.path):
            self._db.execute("INSERT OR IGNORE INTO questions VALUES (?, ?, ?, ?, ?)", asked)

    def resume(self, model: str | None = None) -> list[str]:
        """Take the question with most rows, for reading a store alone; return what others it has.

        Args:
            model: Of the questions that were asked with this model; of all if None.

        Raises:
            UsageError: The store is empty, or nothing in it was asked with that model.
        """
        found = self.questions()
        chosen = [one for one in found if model is None or one.model == model]
        if not chosen:
            asked = ", ".join(sorted({one.model or "the plan's own" for one in found}))
            hint = f"models in it: {asked}" if found else "planguard screen PLANS"
            what = f"has no row of model {shorten(model or '')}" if found else "is empty"
            raise UsageError(f"{shorten(self.path)} {what}", hint=hint)
        self._question = chosen[0].key
        return [f"{one.rows:,} rows of {one}" for one in found if one.key != self._question]

    def questions(self) -> list[Question]:
        """Return the questions that have rows, the one with most first."""
        query = (
            "SELECT t.question, q.model, q.planner, q.version, q.options, count(*)"
            " FROM trials AS t JOIN questions AS q ON t.question = q.question"
            " GROUP BY t.question ORDER BY count(*) DESC, t.question"
        )
        with _told(self.path):
            return [Question(*values) for values in self._db.execute(query)]

    @property
    def question(self) -> Question:
        """The question that the rows answer; it has some."""
        return next(one for one in self.questions() if one.key == self._question)

    def add(self, rows: Iterable[Row], skeletons: Iterable[Skeleton]) -> None:
        """Write rows and skeletons, all or none; a row of the same name is replaced."""
        with _told(self.path):
            self._add(rows, skeletons)

    def _add(self, rows: Iterable[Row], skeletons: Iterable[Skeleton]) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.executemany(
                f"INSERT OR REPLACE INTO trials (question, {_ROW}) VALUES (?,?,?,?,?,?,?,?,?,?)",
                ((self._question, *_row_values(row)) for row in rows),
            )
            self._db.executemany(
                f"INSERT OR REPLACE INTO skeletons (question, {_SKELETON})"
                " VALUES (?,?,?,?,?,?,?,?,?,?)",
                ((self._question, *_skeleton_values(one)) for one in skeletons),
            )
        except BaseException:
            with suppress(sqlite3.Error):  # a full disk has rolled it back already
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def count(self) -> int:
        """Return how many rows there are."""
        query = "SELECT count(*) FROM trials WHERE question = ?"
        with _told(self.path):
            return int(self._db.execute(query, (self._question,)).fetchone()[0])

    def known(self, names: Sequence[str]) -> dict[str, Row]:
        """Return the rows that there are of some trials, by name."""
        query = f"SELECT {_ROW} FROM trials WHERE question = ? AND name IN "
        with _told(self.path):
            return {row.name: row for row in map(_row, self._chosen(query, names))}

    def params(self) -> dict[str, frozenset[str]]:
        """Return the names of the parameters, sorted, with the JSON types of their values."""
        query = (
            "SELECT DISTINCT key, CASE type WHEN 'integer' THEN typeof(atom) ELSE type END"
            " FROM trials, json_each(trials.params) WHERE question = ?"
        )
        types: dict[str, set[str]] = {}
        with _told(self.path):
            for key, kind in self._db.execute(query, (self._question,)):
                types.setdefault(key, set()).add(kind)
        return {name: frozenset(types[name]) for name in sorted(types)}

    def some(self, most: int) -> list[Row]:
        """Return rows by name; where there are more than ``most``, the unsafe ones first."""
        query = (
            f"SELECT {_ROW} FROM trials WHERE question = ?"
            " ORDER BY outcome IN ('SAFE', 'UNKNOWN'), outcome = 'SAFE', name LIMIT ?"
        )
        with _told(self.path):
            found = list(map(_row, self._db.execute(query, (self._question, most))))
        return sorted(found, key=lambda row: row.name)

    def rows(self) -> Iterator[Row]:
        """Yield all rows, by name."""
        query = f"SELECT {_ROW} FROM trials WHERE question = ? ORDER BY name"
        with _told(self.path):
            found = map(_row, self._db.execute(query, (self._question,)))
        while True:
            with _told(self.path):
                row = next(found, None)
            if row is None:
                return
            yield row

    def has_skeletons(self) -> bool:
        """Return whether there is any skeleton."""
        query = "SELECT 1 FROM skeletons WHERE question = ? LIMIT 1"
        with _told(self.path):
            return self._db.execute(query, (self._question,)).fetchone() is not None

    def skeletons(self, digests: Sequence[str]) -> dict[str, Skeleton]:
        """Return the skeletons that there are of some digests."""
        query = f"SELECT {_SKELETON} FROM skeletons WHERE question = ? AND digest IN "
        with _told(self.path):
            return {one.digest: one for one in map(_skeleton, self._chosen(query, digests))}

    def kinds(self) -> dict[str, int]:
        """Return how many skeletons have a trial, by outcome."""
        query = f"SELECT s.outcome, count(*) {_FAMILIES} GROUP BY s.outcome"
        with _told(self.path):
            return dict(self._db.execute(query, (self._question, self._question)))

    def families(self, most: int) -> Iterator[tuple[Skeleton, int]]:
        """Yield skeletons and how many trials have each: unsafe ones first, frequent ones first.

        Args:
            most: How many at most.
        """
        columns = ", ".join(f"s.{name.strip()}" for name in _SKELETON.split(","))
        query = (
            f"SELECT {columns}, t.trials {_FAMILIES}"
            " ORDER BY s.outcome = 'SAFE', t.trials DESC, s.digest LIMIT ?"
        )
        with _told(self.path):
            for values in self._db.execute(query, (self._question, self._question, most)):
                yield _skeleton(values[:-1]), values[-1]

    def _chosen(self, query: str, keys: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Yield what a query says of keys; it ends with their name and ``IN``."""
        for start in range(0, len(keys), _ASKED):
            some = keys[start : start + _ASKED]
            marks = ",".join("?" * len(some))
            yield from self._db.execute(f"{query} ({marks})", (self._question, *some))

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __del__(self) -> None:
        if hasattr(self, "_db"):
            self._db.close()


_HINTS = {
    "locked": "another process writes into it: wait for it, then --resume; or name another file",
    "disk is full": "make room on the disk, then --resume",
    "not a database": "is it a store of planguard screen? --store FILE names another",
    "malformed": "the file is damaged: screen into a new one",
    "readonly": "this process may not write there; --store FILE names another",
    "unable to open": "is the folder there, and may this process write into it?",
    "disk I/O": "the disk failed, or is away: look at it, then --resume",
}
"""What to do about what SQLite says, by a part of that."""


def _broken(path: str, error: Exception) -> UsageError:
    """Return the refusal of a file that SQLite, or the reader of its rows, cannot use."""
    said = str(error)
    usual = "is it a store, and whole? --store FILE names another"
    hint = next((hint for part, hint in _HINTS.items() if part in said), usual)
    return UsageError(f"{shorten(path, 200)}: {said}; what was committed is kept", hint=hint)


def _to_read(path: str | Path) -> sqlite3.Connection:
    """Open a store that exists to read it, also on a disk that cannot be written.

    SQLite reads a file in WAL mode with the help of two others beside it. Where it may not make
    them and nobody else has, nobody writes: the file alone is all there is.
    """
    name = Path(path).resolve()
    try:
        return _opened(f"{name.as_uri()}?mode=ro")
    except sqlite3.OperationalError as error:
        if "unable to open" not in str(error) or Path(f"{name}-wal").exists():
            raise
    return _opened(f"{name.as_uri()}?immutable=1")


def _opened(uri: str) -> sqlite3.Connection:
    db = sqlite3.connect(uri, uri=True, isolation_level=None)
    try:
        db.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.Error:
        db.close()
        raise
    return db


@contextmanager
def _told(path: str) -> Iterator[None]:
    """Turn what SQLite says of a file, or what a row that is none raises, into a refusal."""
    try:
        yield
    except (sqlite3.Error, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise _broken(path, error) from None


def query(path: str | Path, text: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Answer a question about a store, reading only.

    Args:
        path: The store.
        text: A ``SELECT`` over the view ``screen``, or a condition on it such as
            ``outcome = 'DEADLOCK' AND bucket_mb = 1``. The view has a row per trial, with a
            column per parameter (``param_NAME`` where a column of that name exists).

    Returns:
        Names of the columns, and the rows.

    Raises:
        UsageError: The file is no store, or the question is not SQL.
    """
    if not Path(path).is_file():
        raise UsageError(f"{shorten(str(path))}: no such store", hint="is the path right?")
    words = text.split(None, 1)
    is_whole = bool(words) and words[0].lower() in {"select", "with"}
    chosen = (
        text if is_whole else f"SELECT name, outcome, code FROM screen WHERE {text} ORDER BY name"
    )
    try:
        with closing(_to_read(path)) as db:
            db.execute(_view(db))
            db.set_authorizer(_reading_only)
            cursor = db.execute(chosen)
            return [column[0] for column in cursor.description or ()], cursor.fetchall()
    except sqlite3.Error as error:
        if any(part in str(error) for part in _HINTS):  # of the file, not of the question
            raise _broken(str(path), error) from None
        hint = f"columns: {_ROW}, {', '.join(_JOINED)}, and the parameters"
        raise UsageError(f"--query: {error}", hint=hint) from None


def _reading_only(action: int, *_: Any) -> int:
    allowed = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION}
    return sqlite3.SQLITE_OK if action in {*allowed, 33} else sqlite3.SQLITE_DENY  # 33: recursive


def _view(db: sqlite3.Connection) -> str:
    names = db.execute(
        "SELECT DISTINCT key FROM trials, json_each(trials.params) ORDER BY key"
    ).fetchall()
    own = {*_JOINED, "question", *(column.strip() for column in _ROW.split(","))}
    columns = []
    for (name,) in names:
        title = f"param_{name}" if name in own else name
        pointer = "$." + json.dumps(name)
        columns.append(f"json_extract(t.params, {_text(pointer)}) AS {_identifier(title)}")
    joined = [f"{text} AS {name}" for name, text in _JOINED.items()]
    listed = ", ".join(["t.*", *joined, *columns])
    return (
        f"CREATE TEMP VIEW screen AS SELECT {listed}"
        " FROM trials AS t JOIN questions AS q ON t.question = q.question"
        " LEFT JOIN skeletons AS s ON t.question = s.question AND t.skeleton = s.digest"
    )


_JOINED = {
    "message": "coalesce(nullif(t.reason, ''), s.message, '')",
    "ranks": "s.ranks",
    "actions": "s.actions",
    "model": "q.model",
    "version": "q.version",
}
"""Columns of the view beside those of a row: what is known of its skeleton and its question.

The message is the reason where there is no answer, else what the finding says of the first trial
that communicates so.
"""


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _identifier(value: str) -> str:
    return '"' + value.replace('"', '""') + '"'


def _row_values(row: Row) -> tuple[Any, ...]:
    return (
        row.name,
        row.outcome,
        row.code,
        " ".join(row.codes),
        row.skeleton,
        row.reason,
        row.end,
        _params_text(row.params),
        row.input_sha,
    )


def _params_text(params: Mapping[str, Any]) -> str:
    """Return parameters as JSON that SQLite reads: it has no NaN, and infinity is out of range."""
    if not any(isinstance(value, float) and isinf(value) for value in params.values()):
        with suppress(TypeError, ValueError, OverflowError):  # an integer of more than 64 bits
            return msgspec.json.encode(params, order="sorted").decode()  # NaN is null
    shown = (f"{json.dumps(name)}:{_value_text(params[name])}" for name in sorted(params))
    return "{" + ",".join(shown) + "}"


def _value_text(value: Any) -> str:
    if isinstance(value, float) and not isfinite(value):
        return "null" if isnan(value) else "1e999" if value > 0 else "-1e999"
    return json.dumps(value)


def _params_of(text: str) -> Any:
    """Return parameters from their text; rows share the names, of which there are few."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:  # infinity
        return json.loads(text)


def _row(values: tuple[Any, ...]) -> Row:
    name, outcome, code, codes, skeleton, reason, end, params, sha = values
    split = tuple(codes.split())
    if outcome not in OUTCOMES:
        raise ValueError(f"trial {shorten(name)} has the outcome {shorten(outcome)}")
    return Row(name, outcome, code, split, skeleton, reason, end, _params_of(params), sha)


def _skeleton_values(one: Skeleton) -> tuple[Any, ...]:
    codes = " ".join(one.codes)
    said = (one.digest, one.outcome, one.code, codes, one.message, one.first)
    return (*said, one.ranks, one.actions, one.end)


def _skeleton(values: tuple[Any, ...]) -> Skeleton:
    digest, outcome, code, codes, *rest = values
    return Skeleton(digest, outcome, code, tuple(codes.split()), *rest)
