"""What only one rank knows: its clock, the order of its sets and folders, its files, its dice.

Played ranks share a machine and an interpreter, so they would agree on all of it by accident. Every
question that the program's own files ask is noted with its line, and a rank can be given another
answer there (``odd_plays`` says which, and what follows): clocks run ahead (``own_clock``), sets
and folders are walked from the other end, a file is there or not (``own_files``), of another size
and time, one that only its node has holds something else (``own_places``), the host has another
name. Values do not change otherwise, so nothing has to be tracked
through the program: what it does with the answer, and whether the ranks agree on it, is played.

torch's random state is a rank's own from the start, unless somebody set a seed.

Above 400 lines: one class has all questions of a rank, and one function puts them in their places.
"""

from __future__ import annotations

import builtins
import bz2
import datetime as dt
import dbm
import filecmp
import gc
import io
import os
import pathlib
import re
import shutil
import sys
import tarfile
import threading
import time
import tokenize
import zipfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from planguard.capture.names.walk_order import BETWEEN, hashes_alike, walked
from planguard.capture.values.other_files import has_like, other_file
from planguard.capture.values.otherwise import (
    other_disk,
    other_size,
    other_state,
    other_time,
)
from planguard.capture.values.own_before import Before
from planguard.capture.values.own_clock import Clock, Moment
from planguard.capture.values.own_database import DATABASE, Database
from planguard.capture.values.own_dice import Dice
from planguard.capture.values.own_events import Events
from planguard.capture.values.own_files import MANY, Holding, asking, claims, opened
from planguard.capture.values.own_folders import FOLDER, Folders, Held
from planguard.capture.values.own_host import FACT, HOST, TOLD, Host
from planguard.capture.values.own_installed import Installed
from planguard.capture.values.own_places import HELD, is_anew, is_local, is_named
from planguard.capture.values.own_turns import TURN, Turns
from planguard.capture.values.own_unseen import (
    UNSEEN,
    brought_later,
    heard,
    reader_of,
    readings,
    redirected,
    written_by,
)
from planguard.capture.values.ran import Ran
from planguard.capture.values.twister import Throw, kept_dice
from planguard.sources import TEXT, file_of, is_library, is_own, is_program, program_modules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

    from planguard.capture.values.own_values import Sides

Site = tuple[str, str]
"""What is asked, and where: ``(ORDER, "train.py:12")``."""

ORDER, HASH, CLOCK = "the order of a set", "the hash of a text", "the clock"
FILE, DICE = "whether a file is there", "the random state"
STATE, ADDRESS = "the size or time of a file", "the address of an object"
OPENED, SEED = "whether a file can be opened", "a seed of each rank's own"
PROCESS = "the number of the process"
QUARTERS = 4
"""Places from which a set is walked: all there are, if it has no more elements."""
CERTAIN = frozenset({ORDER, HASH})
"""What differs between any two ranks, so that a play in which it does is one that happens."""

_FILES = (
    ("exists", "lexists", "isfile", "isdir", "islink", "ismount", "samefile"),
    ("exists", "is_file", "is_dir", "is_symlink", "is_mount", "samefile"),
)
_ASKING = (
    (os, "access"), (filecmp, "cmp"), (zipfile, "is_zipfile"), (tarfile, "is_tarfile"),
)  # fmt: skip
_OPENERS = ((tokenize, "_builtin_open"), (bz2, "_builtin_open"), (tarfile, "bltn_open"))
"""Modules that keep the ``open`` that they were loaded with; ``linecache`` reads by the first."""
_STATES = (
    (os.path, "getsize"), (os.path, "getmtime"), (os.path, "getctime"), (os.path, "getatime"),
    (os, "stat"), (os, "lstat"), (pathlib.Path, "stat"),
)  # fmt: skip
_LAUNCHED = re.compile(
    r"(LOCAL_|GROUP_|ROLE_|NODE_)?(RANK|WORLD_SIZE)|ROLE_NAME|MASTER_(ADDR|PORT)|TORCHELASTIC_\w+"
)
"""What a launcher tells each rank, and a played rank is told, too."""
_NUMBERS = ("getpid", "getppid", "getpgid", "getpgrp", "getsid")
_OWN_VARIABLES = re.compile(
    r"HOST(NAME)?|HOST_IP|(\w+_)?NODE_?NAME|SLURMD_NODENAME|SLURM_NODEID|SLURM_LAUNCH_NODE_IPADDR"
    r"|(MY_)?POD_\w+|JOB_COMPLETION_INDEX|SSH_(CONNECTION|CLIENT|TTY)|(CUDA|HIP|ROCR|NVIDIA|ASCEND_RT)"
    r"_VISIBLE_DEVICES|TTY|TERM|COLUMNS|DISPLAY|SM_CURRENT_HOST|AZ_BATCH_NODE_ID|SLURM_TOPOLOGY_ADDR"
    r"|(\w+_)?NODE_(ID|IP|NUM)|\w+_ON_NODE|PBS_NODENUM|PBS_TASKNUM|VC_TASK_INDEX|SLURM_(JOB|STEP)_GPUS"
)
"""What a node or a terminal sets for itself."""
_COUNTED = re.compile(
    r"\w*(NODEID|NODENUM|TASKNUM|_INDEX|_ON_NODE|NODE_NUM)|COLUMNS|(?!AZ_)(\w+_)?NODE_ID"
)
"""Those of them that are numbers."""
_OTHER_PROCESS = 1 << 21 | 1
"""Bits of another process: of an odd number where this one is even, and of no rank's neighbor."""
_NAMED, _NAMED_FILES = 6, 24
"""Variables and files that are named."""


@dataclass(frozen=True)
class Odd:
    """Ranks that are answered otherwise.

    Attributes:
        ranks: Them.
        sites: Where; None everywhere.
        moment: What their clocks show; None for a day later at each question.
        throw: What they throw.
        named: What a test names, where they throw that.
        follows: Every rank tells of which files code ran, which takes its time.
        name: What their host is called; None for another name.
        turns: Where their sets begin, and where those of the others do, in quarters; None for
            from the other end.
        sides: Who reads something else from tensors; None for nobody.
        held: What their folders hold.
        texts: Names, or parts of them, that the program looks for in folders.
        holding: What a file holds that is not here.
        keys: Keys that the program reads, of such a file.
        number: What stands under each.
        is_uneven: What their clocks measure gets shorter from look to look, and what those of the
            others measure gets longer.
    """

    ranks: frozenset[int]
    sites: frozenset[Site] | None = None
    moment: Moment | None = None
    throw: Throw = Throw.OTHER
    named: object = None
    follows: bool = False
    name: str | None = None
    turns: tuple[int, int] | None = None
    sides: Sides | None = None
    held: Held = Held.REVERSED
    texts: tuple[str, ...] = ()
    holding: Holding = Holding.NOTHING
    keys: tuple[str, ...] = ()
    number: int = MANY
    is_uneven: bool = False


@dataclass
class Answers:
    """The questions of one rank.

    Attributes:
        rank: The rank.
        odd: Who is answered otherwise, and where.
        sites: What was asked where, in the order of the first time.
        sees_sets: This interpreter lets sets be walked in another order.
        variables: Environment variables that the program read, with the line of the first time.
        read: Files that it read and did not write, in the same way.
        unseen: Files of its node that it read and no play can give other content, in the same way.
    """

    rank: int
    odd: Odd | None = None
    sites: dict[Site, None] = field(default_factory=dict)
    sees_sets: bool = True
    variables: dict[str, str] = field(default_factory=dict)
    read: dict[str, str] = field(default_factory=dict)
    unseen: dict[str, str] = field(default_factory=dict)
    clock: Clock = field(init=False)
    _flipped: set[Site] = field(default_factory=set)
    _ran: Ran | None = None
    dice: Dice = field(init=False)
    host: Host = field(init=False)
    folders: Folders = field(init=False)
    turns: Turns = field(init=False)
    events: Events = field(init=False)
    installed: Installed = field(init=False)
    database: Database = field(init=False)
    _is_before: bool = False
    _began: float = field(default_factory=time.time)
    _wrote: set[str] = field(default_factory=set)
    _set: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    def __post_init__(self) -> None:
        self.clock = Clock(lambda place: self.is_odd(CLOCK, place), _place)
        self.dice = Dice(self.rank, lambda place: self.is_odd(DICE, place), _place)
        self.host = Host(self.rank, self.is_odd, _place)
        self.folders = Folders(lambda place: self.is_odd(FOLDER, place), _asked_by_program)
        self.events = Events(self.is_other, _place)
        self.installed = Installed(self.rank, self.is_odd, _place)
        self.database = Database(self.rank, self.is_odd, _asked_by_program)
        self.turns = Turns(
            self.rank, lambda at: self.is_other(TURN, at), lambda at: self.is_odd(TURN, at), _place
        )
        if self.odd is not None:
            self.folders.held, self.folders.texts = self.odd.held, self.odd.texts
            self.clock.moment, self.dice.throw = self.odd.moment, self.odd.throw
            sites, self.host.name = self.odd.sites, self.odd.name
            self.dice.is_asked = lambda place: sites is None or (DICE, place) in sites
            self.host.named = self.database.named = self.odd.named
            if self.odd.is_uneven:
                self.clock.pace = 0.5 if self.rank in self.odd.ranks else 2.0
                self.clock.is_paced = lambda place: sites is None or (CLOCK, place) in sites
            self.dice.seed_at, self.dice.named = self._is_seed_odd, self.odd.named

    def files(self, readings: Iterable[str]) -> list[str]:
        """Return the program's files, where it asked what its tests may name; see ``moments``.

        Args:
            readings: Lines that read a value from a tensor.
        """
        named = (CLOCK, HOST, FOLDER, DICE, PROCESS, FACT, TOLD, DATABASE, OPENED, HELD)
        places = [*(place for kind, place in self.sites if kind in named), *readings]
        asked = [place.rpartition(":")[0] for place in places]
        if not asked:
            return []
        if self._ran is not None:
            return list(dict.fromkeys([*asked, *self._ran.files()]))
        return list(dict.fromkeys([*asked, *map(file_of, program_modules())]))

    def is_other(self, kind: str, place: str) -> bool:
        """Note a question; tell whether this rank is answered otherwise, which it is once."""
        if not self.is_odd(kind, place) or (kind, place) in self._flipped:
            return False
        self._flipped.add((kind, place))  # once: a loop may wait for it
        return True

    def is_odd(self, kind: str, place: str) -> bool:
        """Note a question; tell whether this rank is answered otherwise there."""
        site = (kind, place)
        self.sites.setdefault(site)
        odd = self.odd
        if odd is None or self.rank not in odd.ranks:
            return False
        return odd.sites is None or site in odd.sites

    def _is_seed_odd(self, place: str) -> bool | None:
        """Tell whether a rank is odd at a seed that is each rank's own; None at another one."""
        sites = self.odd.sites if self.odd is not None else None
        return self.is_odd(SEED, place) if sites and (SEED, place) in sites else None

    def follow(self) -> None:
        """Note from now on of which files code runs, where that was asked for."""
        # A debugger keeps its place; then every file that is loaded counts.
        if self.odd is not None and self.odd.follows and sys.gettrace() is None:
            self._ran = Ran(is_program)

    def before(self, statements: Before) -> None:
        """Ask again what modules asked when they were imported."""
        self.variables.update(statements.imports.variables)
        self._is_before = True
        statements.ask()
        self._is_before = False

    # --- answers -----------------------------------------------------------------------------

    def walk(self, found: list[Any], frame: FrameType | None) -> list[Any]:
        """Return the elements of a set in the order in which this rank walks it."""
        place = _asked_by_program(frame)
        if place is None:
            return found
        is_odd, odd = self.is_odd(ORDER, place), self.odd
        if odd is None or odd.turns is None:
            return found[::-1] if is_odd else found
        if odd.sites is not None and (ORDER, place) not in odd.sites:
            return found
        start = len(found) * odd.turns[not is_odd] // QUARTERS
        return found[start:] + found[:start]

    def _file(self, original: Any) -> Any:
        def is_there(*args: Any, **options: Any) -> Any:
            found = original(*args, **options)
            place = _place(sys._getframe(1))  # noqa: SLF001 - same
            return not found if place is not None and self.is_other(FILE, place) else found

        return is_there

    def _disk(self, original: Any) -> Any:
        def usage(*args: Any) -> Any:
            found = original(*args)
            place = _place(sys._getframe(1))  # noqa: SLF001 - same
            if place is None or not self.is_odd(STATE, place):
                return found
            return other_disk(found, is_full=bool(self.rank.bit_count() % 2))

        return usage

    def _state(self, original: Any) -> Any:
        is_size = original.__name__ == "getsize"

        def state(*args: Any, **options: Any) -> Any:
            found = original(*args, **options)
            place = _place(sys._getframe(1))  # noqa: SLF001 - same
            if place is None or not self.is_odd(STATE, place):
                return found
            is_later = bool(self.rank.bit_count() % 2)
            if isinstance(found, os.stat_result):
                return other_state(found, is_later=is_later)
            return (other_size if is_size else other_time)(found, is_later=is_later)

        return state

    def _open(self, original: Any) -> Any:
        given = self.dice.file_of_bytes, self.host.file, self._content, self._reads, self._local
        return opened(original, lambda at: self.is_other(OPENED, at), *given)

    def _source(self, original: Any) -> Any:
        def open_source(source: Any, *args: Any, **options: Any) -> Any:
            return self._open(partial(original, source))(*args, **options)

        return open_source

    def _reads(self, path: str, frame: FrameType) -> str | None:
        """Note a file that is read; return the line where only this node has it."""
        opener = asking(frame)
        place = _asked_by_program(frame, is_own_line=True) if opener is None else _place(opener)
        return None if place is None else self._read_at(path, place)

    def _read_at(self, path: str, place: str) -> str | None:
        is_other = is_anew(path, self._began) and os.path.realpath(path) not in self._wrote
        if not is_other and not is_named(path):
            return None
        if is_local(path, place.rpartition(":")[0]):
            with io.FileIO(path) as found:
                if not has_like(found.read()):
                    self.unseen.setdefault(path, place)
            return place
        if not is_other:
            self.read.setdefault(path, place)
        return None

    def _heard(self, event: str, args: tuple[Any, ...], frame: FrameType) -> None:
        """Note what this rank writes, and what it reads of its node by no patched function."""
        path = written_by(event, args)
        if path is not None:
            self._wrote.add(os.path.realpath(path))
        elif event == "open" and isinstance(args[0], (str, bytes, os.PathLike)):
            path = os.fsdecode(args[0])
            place = reader_of(path, frame)
            if place is not None and self._read_at(path, place):
                self.unseen.setdefault(path, place)

    def _saving(self, original: Any) -> Any:
        def opening(name: Any) -> Any:
            if isinstance(name, (str, os.PathLike)):  # in C++, which no audit hears of
                self._wrote.add(os.path.realpath(name))
            return original(name)

        return opening

    def _unseen_reader(self, original: Any) -> Any:
        return redirected(original, self._path)

    def _keyed(self, original: Any) -> Any:
        """Make ``dbm.open``, by which ``shelve`` opens, too: files whose content has no like."""

        def open_keyed(file: Any, *args: Any, **options: Any) -> Any:
            place = _asked_by_program(sys._getframe(1))  # noqa: SLF001 - same
            path, flag = os.fsdecode(file), (*args, options.get("flag", "r"))[0]
            if place is not None and flag != "n" and is_local(path, place.rpartition(":")[0]):
                self.unseen.setdefault(path, place)
            return original(file, *args, **options)

        return open_keyed

    def _path(self, path: str, frame: FrameType) -> str:
        """Return the path of what this rank reads in place of a file."""
        place = self._reads(path, frame) if os.path.isfile(path) else None  # noqa: PTH113 - a text
        if place is None or not self.is_odd(HELD, place):
            return path
        with self._local(io.FileIO(path), place) as other:
            return f"/proc/self/fd/{os.dup(other.fileno())}"

    def _local(self, found: Any, place: str) -> Any:
        if not self.is_odd(HELD, place):
            return found
        is_more = bool(self.rank.bit_count() % 2)
        return other_file(found, is_more=is_more, named=self.host.named, held=self._content())

    def _descriptor(self, found: int, args: tuple[Any, ...], frame: FrameType) -> int:
        """Return what ``os.open`` gives this rank of a file that it reads."""
        if args[1] & os.O_ACCMODE != os.O_RDONLY:
            return found
        place = self._reads(os.fsdecode(args[0]), frame)
        if place is None or not self.is_odd(HELD, place):
            return found
        with self._local(io.FileIO(found), place) as other:
            return os.dup(other.fileno())

    def _content(self) -> bytes:
        return b"" if self.odd is None else self.odd.holding.content(self.odd.keys, self.odd.number)

    def _process(self, original: Any) -> Any:
        def number(*args: int) -> int:
            found: int = original(*args)
            place = _place(sys._getframe(1))  # noqa: SLF001 - same
            if place is None or not self.is_odd(PROCESS, place):
                return found
            named = self.dice.named
            return named if isinstance(named, int) else found ^ _OTHER_PROCESS

        return number

    def _address(self, value: Any) -> int:
        found = _ID(value)
        place = _place(sys._getframe(1))  # noqa: SLF001 - same
        return ~found if place is not None and self.is_odd(ADDRESS, place) else found

    def _variable(self, original: Any) -> Any:
        def variable(environment: Any, name: Any) -> Any:
            is_own = isinstance(name, str) and _OWN_VARIABLES.fullmatch(name) is not None
            if is_own or (isinstance(name, str) and name not in self.variables):
                place = _asked_by_program(sys._getframe(1))  # noqa: SLF001 - same
                if place is not None and is_own:
                    return self._own_variable(original, environment, name, place)
                if place is not None and not self._is_before and not _LAUNCHED.fullmatch(name):
                    self.variables[name] = place
            return original(environment, name)

        return variable

    def _own_variable(self, original: Any, environment: Any, name: str, place: str) -> str:
        """Return what a node sets for itself, unless the program has set it."""
        is_number = _COUNTED.fullmatch(name) is not None
        kind = FACT if name.endswith("DEVICES") or is_number else HOST
        is_odd = self.is_odd(kind, place)
        known = self._set.get(name)
        is_set = environment._data.get(os.fsencode(name)) != (  # noqa: SLF001 - not by the patched way
            None if known is None else os.fsencode(known)
        )
        if not is_odd or is_set:
            return str(original(environment, name))
        if is_number and (known or "0").isdigit():
            return str(self.host.counted(int(known or 0)))
        return self.host.devices(known) if kind == FACT else self.host.called(known or "")

    def _hash(self, value: Any) -> int:
        found = _HASH(value)
        frame = sys._getframe(1)  # noqa: SLF001 - same
        place = None if frame.f_code.co_name == "__hash__" else _place(frame)
        # What the value is comes last: it takes longest, and most who ask are libraries.
        if place is None or hashes_alike(value) or not self.is_odd(HASH, place):
            return found
        return ~found + self.rank.bit_count() % 2  # of three remainders each is another one twice

    def questions(self) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
        """Return every function that asks: owner, name, and what makes the one in its place."""
        yield from self.looking()
        yield from self.folders.changing()
        yield from claims(self.is_other, self._descriptor)
        for owner in (builtins, io):
            yield owner, "open", self._open
        for owner, name in _OPENERS:
            yield owner, name, self._open
        yield from readings(self._unseen_reader)
        yield dbm, "open", self._keyed
        yield sys.modules.get("torch.serialization"), "_open_zipfile_writer", self._saving
        # numpy keeps the ``open`` that it was loaded with.
        source = getattr(sys.modules.get("numpy.lib._datasource"), "DataSource", None)
        yield source, "open", self._source
        yield from self.host.telling()
        yield from self.dice.questions()
        yield from self.database.questions()
        yield from self.turns.questions()
        yield from self.events.questions()

    def looking(self) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
        """Return those that change nothing, and can be asked any number of times."""
        yield from self.clock.questions()
        yield from self.folders.questions()
        for owner, names in zip((os.path, pathlib.Path), _FILES, strict=True):
            yield from ((owner, name, self._file) for name in names)
        for owner, name in _ASKING:
            yield owner, name, self._file
        yield shutil, "disk_usage", self._disk
        for owner, name in _STATES:
            yield owner, name, self._state
        yield from self.host.questions()
        yield type(os.environ), "__getitem__", self._variable
        yield builtins, "hash", lambda _: self._hash
        yield from ((os, name, self._process) for name in _NUMBERS)
        yield from ((threading, name, self._process) for name in ("get_ident", "get_native_id"))
        yield builtins, "id", lambda _: self._address
        yield from self.installed.questions()


_HASH, _ID = hash, id


def assumed(answers: Answers) -> str:
    """Say which variables and files are taken to be the same on all ranks; empty for none."""
    kinds = (
        ("environment variables", answers.variables, _NAMED),
        ("what files hold", answers.read, _NAMED_FILES),
    )
    said = "; ".join(f"{kind} {_some(known, most)}" for kind, known, most in kinds if known)
    return f"taken to be the same on all ranks: {said}" if said else ""


def unseen(answers: Answers) -> str:
    """Say which files of its node a rank read that could not be answered otherwise."""
    said = _some(answers.unseen, _NAMED_FILES)
    return f"{UNSEEN}: {said}. What another node holds there is not known" if said else ""


def _some(known: dict[str, str], most: int) -> str:
    named = [f"{name} ({place})" for name, place in known.items()]
    more = f" and {len(named) - most} more" if len(named) > most else ""
    return ", ".join(named[:most]) + more


def before_of(*roots: Any) -> Before:
    """Read what modules asked when they were imported, of the modules that some objects get to.

    Args:
        roots: What the ranks will run.
    """
    answers = Answers(0)
    originals = (getattr(owner, name, None) for owner, name, _ in answers.looking())
    asking = {id(one): one for one in originals if callable(one)}
    return Before(
        roots,
        lambda function: asking.get(id(function)) is function is not None,
        [(owner, name) for owner, name, _ in answers.questions() if owner is not type(os.environ)],
        lambda name: any(kind.fullmatch(name) for kind in (_LAUNCHED, _OWN_VARIABLES)),
    )


@contextmanager
def own_answers(answers: Answers, before: Before | None = None) -> Iterator[None]:
    """Note what the program asks of its own machine and process, and answer the odd ranks.

    Args:
        answers: The questions of this rank.
        before: What its modules asked when they were imported.
    """
    is_library("/nobody's.py")  # learns where libraries lie, by questions that are patched below
    with ExitStack() as stack:
        answers.sees_sets = stack.enter_context(walked(answers.walk))
        replaced: dict[int, tuple[Any, Any]] = {}

        def put(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
            original = getattr(owner, name, None)
            if not callable(original):
                return
            made = make(original)
            replaced[id(original)] = original, made
            undo = (
                (setattr, owner, name, original) if name in vars(owner) else (delattr, owner, name)
            )
            setattr(owner, name, made)
            stack.callback(*undo)

        for owner, name, make in answers.questions():
            put(owner, name, make)
        for kind, name in ((dt.datetime, "now"), (dt.datetime, "utcnow"),
                           (dt.datetime, "today"), (dt.date, "today")):  # fmt: skip
            _put_into_type(stack, kind, name, answers.clock.day)
        own = ((io.TextIOWrapper, "isatty", answers.host.fact),)
        for method in (*answers.dice.tensors.methods(), *answers.turns.methods(), *own):
            _put_into_type(stack, *method)
        for known in _programs():
            for name, value in list(known.items()):
                if id(value) in replaced and replaced[id(value)][0] is value:
                    known[name] = replaced[id(value)][1]
                    stack.callback(known.__setitem__, name, value)
        stack.enter_context(brought_later(put, answers._unseen_reader))  # noqa: SLF001 - of this file
        stack.enter_context(heard(answers._heard))  # noqa: SLF001 - same
        stack.enter_context(kept_dice())
        answers.dice.begin()
        answers.follow()
        if before is not None:
            answers.before(before)
        yield


def _put_into_type(stack: ExitStack, kind: type, name: str, make: Callable[[Any], Any]) -> None:
    """Replace a method of a type that is written in C."""
    import ctypes

    names = gc.get_referents(kind.__dict__)[0]
    if name not in names:
        return
    original = names[name]

    def let(value: Any) -> None:
        names[name] = value
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))

    let(make(original))
    stack.callback(let, original)


def _programs() -> Iterator[dict[str, Any]]:
    """Return the names of every module of the program: ``from time import time`` is one."""
    yield from map(vars, program_modules())
    main = sys.modules.get("__main__")
    # It may have been replaced since modules were looked at: a script is run in its place.
    if main is not None and (not file_of(main) or is_program(file_of(main))):
        yield vars(main)


def _place(frame: FrameType) -> str | None:
    """Return ``file:line`` of a frame that asks by itself, None where it is not the program's."""
    while frame.f_code.co_filename in (TEXT, BETWEEN) and frame.f_back is not None:
        frame = frame.f_back  # exec, eval and what stands between ask for whoever called them
    file = frame.f_code.co_filename
    return f"{file}:{frame.f_lineno}" if is_program(file) else None


def _asked_by_program(frame: FrameType | None, *, is_own_line: bool = False) -> str | None:
    """Return the line that asks, itself or through the standard library; None for torch's own.

    What an import of an installed package walks decides nothing that ranks do.

    Args:
        frame: Where it is asked.
        is_own_line: The line of the program is wanted, not that of a package that asks for it.
    """
    place = None
    while frame is not None:
        file = frame.f_code.co_filename
        if place is None and not is_library(file):
            place = f"{file}:{frame.f_lineno}"
        if place is not None and is_program(file):
            return f"{file}:{frame.f_lineno}" if is_own_line else place
        is_ours = is_own(file) and file != BETWEEN
        if is_ours or "importlib" in file or f"{os.sep}torch{os.sep}" in file:
            return place if place is not None and "importlib" not in file else None
        frame = frame.f_back
    return place
