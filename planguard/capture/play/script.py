"""A training script as it stands: run as the main program, with what a rank has of its own.

Nothing in the script is written for PlanGuard. What can differ between ranks is given from outside:

* an environment variable;
* the batch that every ``torch.utils.data.DataLoader`` gives all the time, in the place of each of
  its own, so that ranks meet batches of different kinds;
* how many batches a ``DataLoader`` gives: cut, or begun again where it has fewer.

Each walk over a ``DataLoader`` is recorded, varied or not: the line where a rank's data ends is
told.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import runpy
import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.capture.play.devices import Devices, devices_for_ranks
from planguard.capture.play.loaders import Pass, copied, count, place_of
from planguard.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

    from planguard.capture.groups.recorder import Recorder

EVERY = ""
"""Place of a declared length that is every loader's."""


@dataclass(frozen=True)
class Script:
    """A program and its arguments.

    Attributes:
        name: File, or module.
        is_module: ``name`` is the name of a module.
        arguments: Its arguments.
    """

    name: str
    is_module: bool
    arguments: tuple[str, ...]

    def __call__(self, devices: Devices | None = None) -> None:
        """Run it as the main program, as Python does; a device that it names is found for it."""
        sys.argv = [self.name, *self.arguments]
        with devices_for_ranks(devices):
            self._run()

    def _run(self) -> None:
        if self.is_module:
            sys.path.insert(0, "")
            runpy.run_module(self.name, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(Path(self.name).resolve().parent))
            runpy.run_path(os.path.abspath(self.name), run_name="__main__")  # noqa: PTH100 - as Python names it


@dataclass(frozen=True)
class Variation:
    """What one rank has of its own.

    Attributes:
        number: The batch that its loaders give all the time; None for their own batches.
        variables: Environment variables and their values.
        steps: Batches of the loaders made at a place, ``file:line``; of all others at ``EVERY``.
        batches: What loaders give all the time, by their names (see ``_Kept``).
        kept: Folder for the first batch of each loader, and the lines that take batches; None
            where nobody asks for them.
        given: What ``batches`` are, in words.
    """

    number: int | None = None
    variables: tuple[tuple[str, str], ...] = ()
    steps: tuple[tuple[str, int], ...] = ()
    batches: Mapping[str, Any] | None = None
    kept: Path | None = None
    given: str = ""

    @property
    def words(self) -> str:
        """What it is, in words."""
        if self.given:
            return self.given
        said = [] if self.number is None else [f"batch {self.number} of its loaders, all the time"]
        said += [f"{name}={value}" for name, value in self.variables]
        said += [f"{count(n)} {f'of {at}' if at else 'a loader'}" for at, n in self.steps]
        return ", ".join(said) or "the data it has here"

    def length(self, made: str) -> int | None:
        """Return the declared length of a loader made at a place; None where none is."""
        default = None
        for at, length in self.steps:
            if at and is_at(made, at):
                return length
            default = default if at else length
        return default


def is_at(made: str, at: str) -> bool:
    """Tell whether a place is meant by ``file:line``, the file without its folders or with."""
    return made == at or made.endswith(os.sep + at)


@contextmanager
def varied(variation: Variation, recorder: Recorder) -> Iterator[None]:
    """Give a rank what it has of its own, and record its walks, to the end of the block."""
    from torch.utils.data import DataLoader

    os.environ.update(variation.variables)  # the rank's own process: it ends behind the script
    made: dict[int, str] = {}
    numbers: Counter[str] = Counter()
    names: dict[int, str] = {}
    is_first = recorder.rank == 0 and variation.batches is None
    kept = None if variation.kept is None else _Kept(variation.kept, is_first=is_first)
    originals = {name: getattr(DataLoader, name) for name in ("__init__", "__iter__", "__len__")}

    @wraps(originals["__init__"])  # trainers make a loader again, by its signature
    def init(loader: Any, *args: Any, **options: Any) -> None:
        made[id(loader)] = at = place_of(sys._getframe(1))  # noqa: SLF001 - no public way
        short = os.path.basename(at)  # noqa: PTH119 - a line behind it
        numbers[short] += 1
        names[id(loader)] = short + (f" #{numbers[short]}" if numbers[short] > 1 else "")
        originals["__init__"](loader, *args, **options)

    def length(loader: Any) -> int:
        declared = variation.length(made.get(id(loader), ""))
        return int(originals["__len__"](loader)) if declared is None else declared

    def walk(loader: Any) -> Iterator[Any]:
        declared = variation.length(made.get(id(loader), ""))
        place = place_of(sys._getframe(1))  # noqa: SLF001 - no public way
        row = Pass(place, 0, 0, made=made.get(id(loader), ""))
        recorder.passes.append(row)

        def again() -> Iterator[Any]:
            return iter(originals["__iter__"](loader))

        name = names.get(id(loader), "")
        found = _Batches(again, variation.number, declared, row, recorder.actions)
        if kept is not None:
            found.keep = partial(kept.keep, name)
        if variation.batches is not None and name in variation.batches:
            found.give(variation.batches[name])
        return found

    replaced = {"__init__": init, "__iter__": walk, "__len__": length}
    for name, function in replaced.items():
        setattr(DataLoader, name, function)
    try:
        yield
    finally:
        for name, function in originals.items():
            setattr(DataLoader, name, function)


class _Batches:
    """The batches of one walk: its own or one of them, and cut or begun again."""

    def __init__(
        self, again: Any, number: int | None, length: int | None, row: Pass, actions: Sequence[Any]
    ) -> None:
        self._again, self._length, self._row, self._actions = again, length, row, actions
        self._inner = again()
        self._is_one = number is not None
        self._ahead = 0  # batches that were fetched to find the one
        self._one: Any = None
        seen = list(itertools.islice(self._inner, 0 if number is None else number + 1))
        if number is not None and seen:
            self._one, self._ahead = seen[number % len(seen)], len(seen)

    keep: Callable[[Any, FrameType], object] | None = None
    """Called with each batch, and the frame that takes it."""

    def give(self, batch: Any) -> None:
        """Give a batch in the place of each of its own."""
        self._is_one, self._one = True, batch

    def __iter__(self) -> _Batches:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)  # a loader's own iterator has more to it

    def __next__(self) -> Any:
        row = self._row
        row.marks.append(len(self._actions))
        found: Any = self
        if self._length is None or row.given < self._length:
            found = self._following()
            if found is self and self._length is not None:
                self._inner = self._again()
                found = self._following()
                if found is self:
                    raise UsageError(
                        f"the loader at {row.at} has no batch to repeat up to {self._length}"
                    )
        if found is self:
            row.at = place_of(sys._getframe(1)) or row.at  # noqa: SLF001 - no public way
            row.ended, row.length, row.declared = True, row.given, row.given
            raise StopIteration
        if self.keep is not None:
            self.keep(found, sys._getframe(1))  # noqa: SLF001 - same
        row.given += 1
        row.length = row.declared = max(row.length, row.given, self._length or 0)
        return found

    def _following(self) -> Any:
        """Return the next batch, this object behind the last."""
        if self._ahead:
            self._ahead -= 1
            return copied(self._one)
        found = next(self._inner, self)
        return copied(self._one) if self._is_one and found is not self else found


class _Kept:
    """The first batch of each loader of the first rank, and the lines that take batches.

    A loader is named by the line that made it and its number among those made there.
    """

    def __init__(self, folder: Path, *, is_first: bool) -> None:
        self._folder = folder
        self._is_first = is_first
        self._names: set[str] = set()
        self._lines: set[str] = set()

    def keep(self, name: str, batch: Any, frame: FrameType) -> None:
        """Take a batch."""
        import torch

        place = place_of(frame)
        if place and place not in self._lines:
            self._lines.add(place)
            with (self._folder / f"lines-{os.getpid()}").open("a") as file:
                file.write(f"{place}\n")
        if self._is_first and name not in self._names:
            self._names.add(name)
            with contextlib.suppress(Exception):  # what cannot be kept is missing there
                torch.save((name, batch), self._folder / f"batch-{len(self._names)}")


def walks_in(folder: Path) -> list[str]:
    """Return the lines that take batches, as ranks kept them."""
    found = (one.read_text().splitlines() for one in folder.glob("lines-*"))
    return sorted({line for lines in found for line in lines})


def batches_in(folder: Path) -> dict[str, Any]:
    """Return the first batch of each loader, by its name, as a rank kept them."""
    import torch

    return dict(torch.load(one, weights_only=False) for one in sorted(folder.glob("batch-*")))
