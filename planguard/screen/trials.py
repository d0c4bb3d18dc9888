"""Trials: what is screened, from folders, patterns, JSONL files or objects in memory.

A trial is a plan with a name and the parameters it came from. Paths are those that the caller gave
or that lie below them; a line opens a file below its own folder only, and a plan none.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from planguard.errors import PlanError, UsageError, shorten
from planguard.files import is_special
from planguard.screen.archives import Archives
from planguard.screen.beside import Beside, Params
from planguard.screen.found import LINE_SUFFIXES, PATH_FIELDS, PLAN_SUFFIXES, Found, below, find
from planguard.screen.values import decoded, flat
from planguard.words import encodable

if TYPE_CHECKING:
    from planguard.screen.tracked import Tracked

_SCHEMA = rb'"schema"\s*:\s*"planguard\.plan/1"\s*'
_NAMED = rb'"name"\s*:\s*"[ !#-\[\]-~]{0,200}"\s*,'
_NAME = re.compile(rb"(\s*\{\s*)(?:(%s,\s*)%s|%s(?=\s*%s))" % (_SCHEMA, _NAMED, _NAMED, _SCHEMA))
"""The beginning of a plan that says its name first, or after the schema: what is before the name,
and its end. The name is of letters that stand for themselves, so one is as right as another.
"""
MAX_LINE = 256 << 20
"""Longest line of a JSONL file, bytes."""


@dataclass(frozen=True)
class Trial:
    """One plan to screen.

    Attributes:
        name: Its name, unique in a screening.
        path: Where it is, or "" if ``data`` holds it.
        data: The plan file's bytes, or b"".
        params: Parameters it came from: names and numbers, strings, booleans or None.
        planner: Adapter to read it with, named or found; "" means that it is found by sniffing.
        place: Where it stands, as people know it: a path, one inside an archive, a file and line.
    """

    name: str
    path: str = ""
    data: bytes = b""
    params: Params = field(default_factory=dict)
    planner: str = ""
    place: str = ""

    @property
    def content(self) -> tuple[str | bytes, str, str]:
        """What plan files have in common that are read alike; other inputs may have neighbors.

        Hash, adapter, and the path of an input that may have neighbors, else "". A plan's own name
        says nothing of what it does: it is left out of the hash of a plan in memory.
        """
        if not (self.path or self.planner) and (named := _NAME.match(self.data)):
            rest = hashlib.sha256(named[1] + (named[2] or b""))
            rest.update(memoryview(self.data)[named.end() :])
            return rest.digest(), self.planner, ""
        is_plan = not self.path or self.path.endswith(PLAN_SUFFIXES)
        own = "" if is_plan and self.sha else self.path
        return self.sha, self.planner, own

    @cached_property
    def sha(self) -> str:
        """The hash of the input as it is at the first look; "" if it cannot be read."""
        if not self.path:
            return hashlib.sha256(self.data).hexdigest()
        path = Path(self.path)
        if is_special(path):
            return ""
        try:
            if not path.is_dir():
                return hashlib.sha256(path.read_bytes()).hexdigest()
            parts = sorted(part for part in path.rglob("*") if part.is_file())
            whole = hashlib.sha256()
            for part in parts:
                whole.update(f"{part.relative_to(path)}\0{part.stat().st_size}\0".encode())
                whole.update(part.read_bytes())
            return whole.hexdigest()
        except OSError:
            return ""


class Trials:
    """Trials in the order of the input, names made unique.

    Args:
        source: A path, or an iterable of paths, plans, documents, planner objects,
            ``(name, plan)`` or ``(name, plan, params)``.
        planner: Adapter that turns objects into plans; found by sniffing if None.
        tracked: Parameters that a tracker kept; those beside a plan or in its line come first.
    """

    def __init__(
        self, source: Any, planner: str | None = None, tracked: Tracked | None = None
    ) -> None:
        self._planner = planner
        self._tracked = tracked
        self._source: Iterable[Any] = [source] if _is_one(source) else source
        self._found: dict[str, Found] = {}
        self._archives = Archives()
        self.beside = Beside()
        self.is_of_paths = isinstance(self._source, (list, tuple)) and all(
            isinstance(item, (str, os.PathLike)) for item in self._source
        )
        self.damaged: dict[str, UsageError] = {}
        self.total: int | None = None
        if isinstance(self._source, (list, tuple)):
            self.total = sum(map(self._count, self._source))

    @property
    def skipped(self) -> list[str]:
        """What was looked at so far and is no trial; ``damaged`` says why of archives."""
        return [path for found in self._found.values() for path in found.skipped]

    def at_home(self, trial: Trial) -> AbstractContextManager[str]:
        """Return a context that yields the path to read a trial by, named as people know it."""
        if self._archives.shown(trial.path) == trial.path:
            return nullcontext(trial.path)
        return self._archives.at_home(trial.path)

    @property
    def files(self) -> list[str]:
        """Files and folders of the trials that were found so far, and archives that hold some."""
        found = [path for found in self._found.values() for path in found.trials]
        return found + self._archives.opened

    def _find(self, given: str) -> Found:
        if given not in self._found:
            self._found[given] = self._looked_into(given)
        return self._found[given]

    def _looked_into(self, given: str) -> Found:
        """Return what a path stands for, the files inside its archives included."""
        found = find(given, self._planner)
        for archive in found.archives:
            try:
                folder, left = self._archives.unpacked(archive)
            except UsageError as error:
                if archive == given:
                    raise
                # One of a folder: the others are trials all the same, and this one is told.
                self.damaged[archive] = error
                found.skipped.append(archive)
                continue
            found.skipped += left
            try:
                inside = find(folder, self._planner)
            except UsageError:
                found.skipped.append(archive)
                continue
            # An archive inside of one stays closed: what comes out of one is bounded.
            inside.skipped = list(map(self._archives.shown, (*inside.skipped, *inside.archives)))
            inside.archives = []
            found.add(inside)
        if not found.trials:
            if self.damaged:
                raise next(iter(self.damaged.values()))
            hint = "--planner names the adapter that reads them"
            raise UsageError(f"{shorten(given)}: no plan is in it", hint=hint)
        found.skipped.sort()
        return found

    def _count(self, item: Any) -> int:
        """Return how many trials an item of the input holds."""
        if not isinstance(item, (str, os.PathLike)):
            return 1
        found = self._find(os.fspath(item)).trials
        return sum(_lines(path) if path.endswith(LINE_SUFFIXES) else 1 for path in found)

    def __iter__(self) -> Iterator[Trial]:
        seen: dict[str, int] = {}
        for number, item in enumerate(self._source):
            for found in self._trials(number, item):
                trial = found
                if not trial.name.isascii():
                    trial = replace(trial, name=encodable(trial.name))
                if self._tracked is not None:
                    trial = replace(trial, params={**self._tracked.of(found.name), **found.params})
                times = seen[trial.name] = seen.get(trial.name, 0) + 1
                if times > 1:
                    yield replace(trial, name=f"{trial.name}#{times}")
                else:
                    yield trial

    def _trials(self, number: int, item: Any) -> Iterator[Trial]:
        if isinstance(item, (str, os.PathLike)):
            found, shown = self._find(os.fspath(item)), self._archives.shown
            for path in found.trials:
                planner = self._planner or found.readers.get(path, "")
                for trial in self._from_path(path):
                    place = shown(trial.place)
                    yield replace(trial, name=shown(trial.name), planner=planner, place=place)
        else:
            yield self._from_object(number, item)

    def _from_path(self, path: str) -> Iterator[Trial]:
        if path.endswith(LINE_SUFFIXES):
            yield from _from_lines(path, self.beside)
        else:
            yield Trial(path, path, params=self.beside.of(Path(path)), place=path)

    def _from_object(self, number: int, item: Any) -> Trial:
        from planguard.loading import load

        name, params = "", {}
        if isinstance(item, tuple):
            if not 2 <= len(item) <= 3 or not isinstance(item[0], str):
                raise UsageError(
                    f"trial {number} is a tuple of {len(item)}",
                    hint="(name, plan) or (name, plan, params)",
                )
            name, params = item[0], dict(item[2]) if len(item) == 3 else {}
            item = item[1]
        if isinstance(item, (str, os.PathLike)):
            return Trial(name, os.fspath(item), params=params, planner=self._planner or "")
        try:
            plan = load(item, planner=self._planner)
            data = plan.source
        except PlanError as error:  # told of this plan when it is its turn
            plan, data = None, _refusal(item, error)
        own = plan.name if plan is not None else None
        return Trial(name or own or f"plan-{number:06}", data=data, params=params)


def _refusal(item: Any, error: PlanError) -> bytes:
    """Return bytes that are refused for the same reason.

    Raises:
        PlanError: There are none: the object is no document.
    """
    if isinstance(item, bytes):
        return item
    if isinstance(item, dict):
        try:
            return msgspec.json.encode(item)
        except TypeError:
            raise error from None
    raise error


def _is_one(source: Any) -> bool:
    return isinstance(source, (str, bytes, os.PathLike, Mapping)) or hasattr(source, "world_size")


def _lines(path: str) -> int:
    try:
        with Path(path).open("rb") as file:
            return sum(1 for line in file if line.strip())
    except OSError:
        return 0


def _from_lines(path: str, beside: Beside) -> Iterator[Trial]:
    """Yield the trials of a JSONL file.

    A line is a plan, or ``{"plan": {...}, "name": "...", "params": {...}}``; ``path`` in place of
    ``plan``, or a text alone, names a file below the folder of the JSONL file, and nothing
    elsewhere.
    """
    with Path(path).open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE):
            number += 1
            if line.strip():
                place = f"{path}:{number}"
                yield _from_line(place, line.strip(), beside)


_fields_of = msgspec.json.Decoder(dict[str, msgspec.Raw])
_decoded = msgspec.json.Decoder()


def _without_constants(line: bytes) -> bytes | None:
    """Return a line whose parameters have NaN or Infinity, as Python writes them, with texts there.

    A plan that has one beside its parameters gets a text where a number must be, and is refused.
    """
    if b"NaN" not in line and b"Infinity" not in line:
        return None
    try:
        found = decoded(line)
        return msgspec.json.encode(found) if isinstance(found, dict) and "params" in found else None
    except (ValueError, RecursionError):
        return None


def _from_line(place: str, line: bytes, beside: Beside) -> Trial:
    try:
        fields = _fields_of.decode(line if line[:1] != b'"' else b'{"path":%b}' % line)
        if "plan" not in fields and not fields.keys() <= PATH_FIELDS:
            return Trial(place, data=line, place=place)
        given = _decoded.decode(fields["name"]) if "name" in fields else ""
        params = _decoded.decode(fields["params"]) if "params" in fields else {}
    except (ValueError, RecursionError):
        if (valid := _without_constants(line)) is not None:
            return _from_line(place, valid, beside)
        return Trial(place, data=line, place=place)  # the reader says what is wrong with it
    name = given if isinstance(given, str) and given else ""
    own = flat(params) if isinstance(params, dict) else {}
    if "plan" in fields:
        return Trial(name or place, data=bytes(fields["plan"]), params=own, place=place)
    path = below(Path(place.rpartition(":")[0]).parent, fields.get("path", b'""'))
    if path is None:  # refused: it names no file of this folder
        return Trial(name or place, data=line, place=place)
    return Trial(name or path, path, params=own or beside.of(Path(path)), place=place)
