"""What the folders of one rank hold: another order, nothing, a half of it, or more.

A checkpoint folder of one node lacks what rank 0 wrote on another one, and a cache of data is
filled on some nodes only. Which entries a program would notice depends on their names, so a folder
is shown empty, with either half of what is in it (each entry is missing in one of the two), and
with more: each entry twice, and names that the program looks for and that are not there.

A name that matches a pattern or a test is made up: whoever opens it finds no file, which is an
answer that could not be played. Where more is shown nothing is removed, since a program that keeps
the last three of its files would remove those that are there.
"""

from __future__ import annotations

import glob
import os
import pathlib
import pkgutil
import re
import shutil
import sys
import threading
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import FrameType

FOLDER = "the order or the content of a folder"
_NUMBER = "2"
"""What stands for any text or number in a name that is made up."""
_MODULE = _NUMBER + ".py"
_REMOVING = ((os, "remove"), (os, "unlink"), (os, "rmdir"), (shutil, "rmtree"))


class Held(Enum):
    """What a folder holds on an odd rank."""

    REVERSED = "from the other end"
    NOTHING = "nothing"
    FIRST = "the first half"
    SECOND = "the second half"
    MORE = "more"

    @property
    def is_less(self) -> bool:
        """Nothing is made up: a rank that raises there raises on such a node, too."""
        return self in (Held.NOTHING, Held.FIRST, Held.SECOND)


class Folders:
    """The folders of one rank.

    Attributes:
        held: What they hold where the rank is odd.
        texts: Names, or parts of them, that the program looks for.
    """

    def __init__(
        self, is_odd: Callable[[str], bool], place: Callable[[FrameType | None], str | None]
    ) -> None:
        self._is_odd = is_odd
        self._place = place
        self._now = threading.local()
        self._is_more = False
        self._made: set[str] = set()  # paths of folders that are not there, and hold nothing
        self.held = Held.REVERSED
        self.texts: tuple[str, ...] = ()

    def questions(self) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
        """Return every function that asks: owner, name, and what makes the one in its place."""
        yield os, "listdir", self._listed
        yield os, "scandir", self._scanned
        for name in ("glob", "iglob"):
            yield glob, name, self._matched
        for name in ("glob", "rglob"):
            yield pathlib.Path, name, self._matched

    def changing(self) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
        """Return what changes folders, in the same way."""
        for owner, name in _REMOVING:
            yield owner, name, self._removed

    def _asked(self, frame: FrameType) -> bool | None:
        """Note a question; tell whether it is answered otherwise, None where nobody asks."""
        place = None if getattr(self._now, "inside", False) else self._place(frame)
        return None if place is None else self._is_odd(place)

    def _listed(self, original: Any) -> Any:
        def listdir(*args: Any) -> Any:
            frame = sys._getframe(1)  # noqa: SLF001 - the interpreter has no public way
            is_odd = self._asked(frame)
            found = self._found(lambda: original(*args), is_odd=is_odd)
            if not is_odd:
                return found
            is_bytes = bool(args) and isinstance(args[0], bytes)
            make = os.fsencode if is_bytes else str
            names = [os.fsdecode(one) for one in found]
            # pkgutil drops every name that is no module's before the program sees one.
            is_modules = frame.f_globals.get("__name__") == pkgutil.__name__
            return self._shown(found, names, make, texts=(_MODULE,) if is_modules else None)

        return listdir

    def _scanned(self, original: Any) -> Any:
        def scandir(path: Any = ".") -> Any:
            is_odd = self._asked(sys._getframe(1))  # noqa: SLF001 - same
            if not is_odd:
                return original(path)
            found = self._found(lambda: _read(original(path)), is_odd=is_odd)
            if isinstance(path, bytes | int):  # os.fwalk and rmtree, by numbers of open folders
                return Entries(found[::-1])
            base = os.fspath(path)
            names = [one.name for one in found]
            shown = found
            if base not in self._made:
                shown = self._shown(found, names, lambda name: OtherEntry(base, name))
            self._made.update(one.path for one in shown if isinstance(one, OtherEntry))
            return Entries(shown)

        return scandir

    def _matched(self, original: Any) -> Any:
        def match(*args: Any, **options: Any) -> Any:
            is_odd = self._asked(sys._getframe(1))  # noqa: SLF001 - same
            if is_odd is None:
                return original(*args, **options)
            self._now.inside = True
            try:  # to its end: a generator would ask later, for each folder that it comes to
                found = original(*args, **options)
                is_list, found = isinstance(found, list), [*found]
            finally:
                self._now.inside = False
            if is_odd:
                found = self._matching(found, args, options)
            return found if is_list else iter(found)

        return match

    def _matching(self, found: list[Any], args: tuple[Any, ...], options: Any) -> list[Any]:
        given = [*args, *options.values()]
        is_path = isinstance(given[0], pathlib.Path)
        pattern = given[1] if is_path and len(given) > 1 else given[0]

        def make(name: str) -> Any:
            return given[0] / name if is_path else name

        names = [os.fspath(one) for one in found]
        if not isinstance(pattern, str):
            return found[::-1]
        return self._shown(found, names, make, texts=() if found else (_fitting(pattern),))

    def _found(self, ask: Callable[[], list[Any]], *, is_odd: bool | None) -> list[Any]:
        try:
            return ask()
        except FileNotFoundError:
            if is_odd and self.held is Held.MORE:
                return []
            raise

    def _shown(
        self,
        found: list[Any],
        names: Sequence[str],
        make: Callable[[str], Any],
        texts: Sequence[str] | None = None,
    ) -> list[Any]:
        """Return what a folder holds on an odd rank, of what it holds here."""
        if self.held is Held.REVERSED:
            return found[::-1]
        if self.held is Held.MORE:
            self._is_more = True
            twice = [one for one in found for _ in range(1 if _is_folder(one) else 2)]
            return twice + [make(one) for one in _missing(names, texts, self.texts)]
        order = sorted(range(len(found)), key=lambda at: names[at])
        half = (len(order) + 1) // 2
        kept = {Held.NOTHING: order[:0], Held.FIRST: order[: len(order) - half]}
        shown = set(kept.get(self.held, order[len(order) - half :] if len(order) > 1 else order))
        return [one for at, one in enumerate(found) if at in shown]

    def _removed(self, original: Any) -> Any:
        def remove(*args: Any, **options: Any) -> Any:
            return None if self._is_more else original(*args, **options)

        return remove


class Entries:
    """The entries of a folder; a context as ``os.scandir`` gives it."""

    def __init__(self, found: Iterable[Any]) -> None:
        self._rest = iter(found)

    def __iter__(self) -> Any:
        return self._rest

    def __next__(self) -> Any:
        return next(self._rest)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the folder, which has been read."""


class OtherEntry:
    """An entry that is not there, as ``os.scandir`` would give it.

    Attributes:
        name: Its name.
        path: Its path.
    """

    def __init__(self, base: str, name: str) -> None:
        self.name = name
        self.path = os.path.join(base, name)  # noqa: PTH118 - as os.scandir makes it

    def __fspath__(self) -> str:
        return self.path

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Tell whether it is a file, which what has an ending is taken for."""
        return "." in self.name

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Tell whether it is a folder."""
        return "." not in self.name

    def is_symlink(self) -> bool:
        """Tell that it is no link."""
        return False

    def is_junction(self) -> bool:
        """Tell that it is no junction."""
        return False

    def inode(self) -> int:
        """Return no number of a file."""
        return 0

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Raise: it is not there."""
        return os.stat(self.path)  # noqa: PTH116 - what os.scandir's entries do


def _read(found: Any) -> list[Any]:
    with found:
        return [*found]


def _is_folder(one: Any) -> bool:
    """Tell whether something may be walked into, where twice would be once more at each depth."""
    return hasattr(one, "is_dir") and one.is_dir()


def _missing(names: Sequence[str], texts: Sequence[str] | None, asked: Sequence[str]) -> list[str]:
    """Return names that are looked for and not there; any name, where nothing is there at all."""
    if texts is not None:
        return [one for one in texts if one not in names]
    wanted = [one for one in asked if not any(_is_like(name, one) for name in names)]
    heads = [one for one in wanted if one[-1:] in "-_."] or [""]
    tails = [one for one in wanted if one[:1] in "._-" and one not in heads] or [""]
    plain = [found for one in wanted if (found := _plain(one)) and one not in (*heads, *tails)]
    made = [head + _NUMBER + tail for head in heads for tail in tails if head or tail]
    return list(dict.fromkeys([*plain, *made])) or ([] if names else [_NUMBER])


def _is_like(name: str, text: str) -> bool:
    """Tell whether a name has a text in it, or is what it says as a regular expression."""
    try:
        return text in name or re.search(text, name) is not None
    except re.error:
        return False


def _plain(text: str) -> str:
    """Return a name that a regular expression or a pattern stands for; empty for none."""
    found = re.sub(r"\\d[+*]?|\[0-9\][+*]?|\.[+*]|\*|\{\d+\}", _NUMBER, text.strip("^$"))
    found = re.sub(r"\\(?=[^\w])|[()]|\?P<\w+>", "", found)
    fits = found == text or re.fullmatch(_safe(text), found) is not None or "*" in text
    return found if fits and os.sep not in found else ""


def _safe(text: str) -> str:
    try:
        re.compile(text)
    except re.error:
        return re.escape(text)
    return text


def _fitting(pattern: str) -> str:
    """Return a path that a pattern of ``glob`` stands for."""
    found = re.sub(r"\*\*/?", "", pattern)
    found = re.sub(r"\[!.*?\]|\*|\?", _NUMBER, found)
    return re.sub(r"\[(.).*?\]", r"\1", found) or _NUMBER
