"""Parameters that an experiment tracker kept: exports of W&B, MLflow and Optuna, joined by name.

A row of a tracker belongs to the trial whose path has a part that is the row's name, its id, or its
number (``7``, ``trial-7``, ``t007``); the part nearest the file decides. Where two rows would fit
one part, neither is taken: parameters are never guessed, and what was not joined is counted.

Formats: https://docs.wandb.ai/models/track/public-api-guide (runs as a table),
https://mlflow.org/docs/latest/ml/tracking (``mlruns`` folders, ``search_runs``) and
https://optuna.readthedocs.io (``Study.trials_dataframe``, RDB storage).
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import msgspec

from planguard.errors import UsageError, shorten
from planguard.screen.values import (
    decoded,
    flat,
    is_bookkeeping,
    mlflow_params,
    plain,
    refuse_twice,
    typed,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

SQLITE = b"SQLite format 3\0"
_JOURNAL = re.compile(rb'\s*\{"op_code": ?\d')
"""How a journal of Optuna begins."""
MOST_BYTES = 1 << 30
"""Largest export that is read."""
PREFIXES = ("params.", "params_", "config.", "config/")
"""How trackers mark the columns of parameters; without a mark every column is one."""
_NAMES = ("run_id", "id", "ID", "number", "name", "Name", "run_name", "tags.mlflow.runName")
_NO_PARAMETERS = frozenset(
    {*_NAMES, "State", "state", "Notes", "User", "Tags", "Created", "Runtime", "Sweep", "Group",
     "Job Type", "Updated", "End Time", "Hostname", "GPU Type", "GPU Count", "summary", "_wandb",
     "wandb_version"}
)  # fmt: skip
"""Columns that trackers add of their own where parameters have no mark."""
_NUMBERED = re.compile(r"(?:trial|run|t)?[-_]?0*(\d+)", re.IGNORECASE)


@dataclass
class Tracked:
    """Rows of trackers, and which of them were joined.

    Attributes:
        rows: Names and parameters of every row.
        used: Places of rows that belong to a trial.
        without: Trials that no row belongs to.
    """

    rows: list[tuple[frozenset[str], dict[str, Any]]] = field(default_factory=list)
    used: set[int] = field(default_factory=set)
    without: int = 0

    def __post_init__(self) -> None:
        self._by_name: dict[str, int | None] = {}
        for place, (names, _) in enumerate(self.rows):
            for name in names:
                self._by_name[name] = None if name in self._by_name else place

    def of(self, trial: str) -> Mapping[str, Any]:
        """Return the parameters of a trial, by its name; nothing where none or several fit."""
        for part in reversed(PurePath(trial).parts):
            for name in _spellings(part):
                if name in self._by_name:
                    place = self._by_name[name]
                    if place is None:  # two rows have this name
                        self.without += 1
                        return {}
                    self.used.add(place)
                    return self.rows[place][1]
        self.without += 1
        return {}


def _spellings(part: str) -> Iterator[str]:
    """Yield what a part of a path may be called in a tracker: itself, without suffixes, a number.

    The number comes with its mark: a run that is *named* 7 is no number 7.
    """
    yield part
    stem = part
    while stem and (shorter := PurePath(stem).stem) != stem:
        stem = shorter
        yield stem
    if found := _NUMBERED.fullmatch(stem):
        yield f"#{found[1]}"


def tracked(paths: Sequence[str]) -> Tracked:
    """Read exports: CSV, JSON or JSONL of runs, an ``mlruns`` folder, an Optuna storage.

    Raises:
        UsageError: One is not there, or is none of these.
    """
    return Tracked([row for path in paths for row in _read(path)])


def _read(given: str) -> list[tuple[frozenset[str], dict[str, Any]]]:
    path = Path(given)
    try:
        if path.is_dir():
            rows = list(_mlruns(path))
        elif path.stat().st_size > MOST_BYTES:
            raise UsageError(f"{shorten(given)} has more than 1 GiB", hint="export fewer columns")
        elif (head := _head(path)).startswith(SQLITE):
            rows = list(_optuna(path))
        elif _JOURNAL.match(head):
            rows = list(_optuna(path, is_journal=True))
        elif path.suffix == ".csv":
            with path.open(newline="", encoding="utf-8-sig") as file:
                reader = csv.DictReader(file)
                refuse_twice(reader.fieldnames or (), "column")
                rows = [_row(row) for row in reader]
        else:
            rows = [_row(row) for row in _objects(path)]
    except (OSError, ValueError, csv.Error, RecursionError) as error:
        what = getattr(error, "strerror", None) or str(error)
        hint = "--params takes CSV, JSON, an mlruns folder or an Optuna storage"
        raise UsageError(f"{shorten(given)}: {shorten(what, 200)}", hint=hint) from None
    if not any(names for names, _ in rows):
        hint = f"a run is named by one of: {', '.join(_NAMES)}"
        raise UsageError(f"{shorten(given)}: no run with a name is in it", hint=hint)
    return rows


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(64)


def _objects(path: Path) -> list[dict[str, Any]]:
    """Return the runs of a JSON list, of JSON lines, or of a table as W&B writes it."""
    data = path.read_bytes()
    try:
        found = decoded(data)
    except json.JSONDecodeError:
        found = [decoded(line) for line in data.splitlines() if line.strip()]
    if isinstance(found, dict) and isinstance(found.get("columns"), list):
        found = [dict(zip(found["columns"], row, strict=False)) for row in found.get("data", [])]
    if isinstance(found, dict):
        found = found.get("runs", [found])
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ValueError("is no list of runs")
    return found


def _row(given: Mapping[Any, Any]) -> tuple[frozenset[str], dict[str, Any]]:
    """Return names and parameters of one run as a table or an object has it."""
    row = {str(key): value for key, value in given.items() if key is not None}
    names = frozenset(
        f"#{row[name]}" if name == "number" else str(row[name])
        for name in _NAMES
        if row.get(name) not in (None, "")
    )
    config = row.get("config")
    if isinstance(config, str):  # W&B's own example writes a column of dictionaries as text
        config = _literal(config)
    if isinstance(config, dict):
        own = {key: plain(one) for key, one in config.items() if not is_bookkeeping(key)}
        return names, flat(own)
    if isinstance(row.get("params"), dict):
        return names, flat(row["params"])
    marked = {key[len(p) :]: v for p in PREFIXES for key, v in row.items() if key.startswith(p)}
    if not marked:
        marked = {k: v for k, v in row.items() if k not in _NO_PARAMETERS}
    return names, flat({name: typed(value) for name, value in marked.items() if value != ""})


def _literal(text: str) -> Any:
    import ast

    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError):
        raise ValueError(f"the column config holds no dictionary: {shorten(text, 60)}") from None


def _mlruns(folder: Path) -> Iterator[tuple[frozenset[str], dict[str, Any]]]:
    """Yield the runs of MLflow's file store: a folder with ``meta.yaml`` and ``params/NAME``."""
    for meta in sorted(folder.rglob("meta.yaml")):
        if not (meta.parent / "params").is_dir():
            continue
        names = {meta.parent.name}
        for line in meta.read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key in {"run_name", "run_id"} and value.strip():
                names.add(value.strip().strip("'\""))
        yield frozenset(names), mlflow_params(meta.parent)


def _optuna(
    path: Path, *, is_journal: bool = False
) -> Iterable[tuple[frozenset[str], dict[str, Any]]]:
    """Return the trials of an Optuna storage, read by the library from a copy.

    Raises:
        UsageError: Optuna is not installed, or the file is another database.
    """
    try:
        import optuna
    except ImportError:
        hint = "pip install 'planguard[optuna]', or export study.trials_dataframe() as CSV"
        raise UsageError("an Optuna storage is read by Optuna", hint=hint) from None
    with tempfile.TemporaryDirectory() as folder:  # opening a storage may write into it
        copy = Path(folder, "study.db")
        for end in ("", "-wal"):
            if Path(f"{path}{end}").exists():
                shutil.copyfile(f"{path}{end}", f"{copy}{end}")
        try:
            if is_journal:
                from optuna.storages.journal import JournalFileBackend

                storage = optuna.storages.JournalStorage(JournalFileBackend(str(copy)))
            else:
                storage = optuna.storages.RDBStorage(f"sqlite:///{copy}")
            studies = storage.get_all_studies()
            rows = [
                (frozenset({f"#{trial.number}"}), flat(trial.params))
                for study in studies
                for trial in storage.get_all_trials(study._study_id, deepcopy=False)  # noqa: SLF001
            ]
        except Exception as error:  # noqa: BLE001  whatever the library raises on another database
            raise ValueError(f"Optuna cannot read it: {type(error).__name__}: {error}") from None
        if not is_journal:
            storage.remove_session()
            storage.engine.dispose()
        return rows
