"""Whose code a file is: PlanGuard's, torch's, the interpreter's, or the user's.

The only place that asks where PlanGuard's own source lies: in a checkout, in an installed wheel, in
a folder of ``pip install --target``, behind a link. Every list of frames is cut by the functions
here, so no answer depends on how PlanGuard was installed or what the user's folders are called.

In this process a file is told by where it lies (``is_library``). What another machine recorded has
no place here and is told by the shape of its path (``is_library_elsewhere``).
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

PACKAGE = "planguard"
_TORCH = ("torch", "torchgen", "functorch")
_SINGLE = frozenset({"typing_extensions.py"})
"""Modules of one file that wrap torch's functions; among installed packages."""
SITES = frozenset({"site-packages", "dist-packages"})
TEXT = "<string>"
"""What code that is made of a text names as its file: ``exec``, ``eval``, generated methods."""
_TYPED_BY_HAND = ("<stdin>", "<ipython-input")
"""What the user types has no file, and is the user's all the same."""
_TOLD = os.fsencode("TORCHINDUCTOR_CACHE_DIR")
_COMPILED = "torchinductor_"
"""Where torch.compile puts what it generates, unless TORCHINDUCTOR_CACHE_DIR says another place."""

_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\](\w+)")
_TORCH_ELSEWHERE = re.compile(
    r"(?:^|[/\\])(?:site|dist)-packages[/\\]torch[/\\]"
    r"|(?:^|[/\\])torch[/\\](?:_\w+|autograd|cuda|distributed|futures|nn|optim|utils)(?:[/\\]|\.py)"
)
_ELSEWHERE = re.compile(
    r"(?:^|[/\\])(?:site|dist)-packages[/\\](?:torch|torchgen|functorch|planguard)[/\\]"
    # py-spy shortens the paths of what is installed; source builds have torch in any folder.
    r"|^(?:torch|torchgen|functorch|importlib|concurrent|multiprocessing)[/\\]"
    r"|[/\\]torch[/\\](?:_\w+|autograd|compiler|cuda|distributed|futures|fx|multiprocessing|nn|ops"
    r"|optim|utils)(?:[/\\]|\.py$)"
    r"|(?:^|[/\\])typing_extensions\.py$|[/\\]torchinductor_[^/\\]*[/\\]"
    r"|[/\\]lib[/\\]python3\.\d+[/\\](?!(?:site|dist)-packages[/\\])|^<"
)
_ON_STACKS = ("capture", "live", "replay")
"""Parts of PlanGuard that stand on the stacks of other people's ranks."""


def package_folder() -> Path:
    """Return the folder of the package, as it was imported."""
    return Path(__file__).parent


def beside(*parts: str) -> Path | None:
    """Return what lies beside the package in a checkout; None in an installation.

    Args:
        parts: Names of the path, from the root of the checkout.
    """
    root = package_folder().resolve().parent
    if not (root / "pyproject.toml").is_file() or not (root / "native").is_dir():
        return None
    found = root.joinpath(*parts)
    return found if found.exists() else None


def is_own(file: str) -> bool:
    """Tell whether a file is PlanGuard's own, wherever it was installed."""
    return _is_under(file, _own_folders())


def is_library(file: str) -> bool:
    """Tell whether a file of this process is no code of the user's.

    Libraries are PlanGuard, torch with what it generates, the standard library, and what is made
    without a file. Other packages are taken for the program: PlanGuard cannot know which of them
    the user wrote.
    """
    # What the answer depends on is in the key: asked before torch was imported, a file of torch's
    # is nobody's library, and must not stay so for the rest of the process.
    # Not by ``get``, which played ranks are asked about in Python: this is for every frame.
    told = os.environ._data.get(_TOLD)  # type: ignore[attr-defined]  # noqa: SLF001 - the mapping itself
    return _lies_in_library(file, _torch_folders()) or _is_generated(file, told)


@lru_cache(maxsize=65536)
def is_installed(file: str) -> bool:
    """Tell whether a file lies among installed packages, those of other environments included."""
    return not SITES.isdisjoint(Path(file).parts)


def is_program(file: str) -> bool:
    """Tell whether a file is the user's own: no library, and no installed package."""
    told = os.environ._data.get(_TOLD)  # type: ignore[attr-defined]  # noqa: SLF001 - as above
    return bool(file) and _is_program(file, _torch_folders(), told)


def file_of(module: object) -> str:
    """Return the file of a module; empty where it has none."""
    file = getattr(module, "__file__", None)
    return file if isinstance(file, str) else ""


def file_in(names: object) -> str:
    """Return the file of the module that has these names; empty where it has none."""
    file = names.get("__file__") if isinstance(names, dict) else None
    return file if isinstance(file, str) else ""


def program_modules() -> list[ModuleType]:
    """Return the loaded modules of the user's own, in the order of their import.

    A module that was looked at is not looked at again: there are thousands, every played rank asks,
    and a forked process that touches a module copies its page.
    """
    key = _torch_folders(), os.environ._data.get(_TOLD)  # type: ignore[attr-defined]  # noqa: SLF001 - as above
    seen = _SEEN[-1] if _SEEN and _SEEN[-1].key == key else None
    new = None if seen is None else _behind(seen)
    if seen is None or new is None:
        seen, new = _Seen(key, "", None, 0, (), ()), list(sys.modules)
    asked = [*seen.open, *new]
    own = [*seen.own, *(name for name in asked if is_program(file_of(sys.modules.get(name))))]
    left = [name for name in asked if _may_get_file(sys.modules.get(name))]
    last, count = (new[-1] if new else seen.last), seen.count + len(new)
    _SEEN[:] = [_Seen(key, last, sys.modules.get(last), count, tuple(own), tuple(left))]
    return [sys.modules[name] for name in own if name in sys.modules]


@dataclass(frozen=True)
class _Seen:
    """The modules that were looked at: up to which one, which are the user's, which may become so.

    Attributes:
        key: What the answer of ``is_library`` depends on beside the file.
        last: The name of the last module.
        module: The last module.
        count: How many there were.
        own: The names of the user's own.
        open: The names of modules that were made by hand and have no file yet.
    """

    key: tuple[object, object]
    last: str
    module: object
    count: int
    own: tuple[str, ...]
    open: tuple[str, ...]


_SEEN: list[_Seen] = []


def _behind(seen: _Seen) -> list[str] | None:
    """Return the names of the modules behind those that were seen; None where some are gone."""
    try:
        new = list(takewhile(seen.last.__ne__, reversed(sys.modules)))[::-1]
    except RuntimeError:  # another thread imports
        return None
    is_there = sys.modules.get(seen.last) is seen.module
    return new if is_there and len(sys.modules) == seen.count + len(new) else None


def _may_get_file(module: object) -> bool:
    # Not by getattr, which a module that loads its names lazily may answer by an import.
    return not file_of(module) and getattr(module, "__dict__", {}).get("__spec__") is None


def package_of(file: str) -> str:
    """Return the installed package that a file belongs to; empty for what is not installed."""
    found = _INSTALLED.findall(file)
    return str(found[-1]) if found else ""


def is_library_elsewhere(file: str) -> bool:
    """Tell whether a path that another process wrote down, maybe elsewhere, is a library's."""
    if _ELSEWHERE.search(file) is not None:
        return True
    head, package, inner = file.replace("\\", "/").rpartition(f"{PACKAGE}/")
    return bool(package) and head[-1:] in ("", "/") and inner in _own_modules()


def is_torch_elsewhere(file: str) -> bool:
    """Tell whether a path that another process wrote down is torch's."""
    return _TORCH_ELSEWHERE.search(file) is not None


@lru_cache(maxsize=65536)
def _lies_in_library(file: str, torch: tuple[str, ...]) -> bool:
    if file.startswith("<"):
        return not file.startswith(_TYPED_BY_HAND)
    if is_own(file) or _is_under(file, torch):
        return True
    if is_installed(file) and Path(file).name in _SINGLE:
        return True
    return is_standard(file)


@lru_cache(maxsize=65536)
def _is_program(file: str, torch: tuple[str, ...], told: bytes | None) -> bool:
    # One look where there would be three: libraries that are imported in a play ask it millions of
    # times.
    return not (_lies_in_library(file, torch) or _is_generated(file, told) or is_installed(file))


@lru_cache(maxsize=65536)
def is_standard(file: str) -> bool:
    """Tell whether a file lies in the standard library."""
    return any(
        file.startswith(folder) and file[len(folder) :].partition(os.sep)[0] not in SITES
        for folder in _standard_folders()
    )


# --- where things lie ----------------------------------------------------------------------------


def _is_under(file: str, folders: tuple[str, ...]) -> bool:
    return file.startswith(folders)


def _both(folder: Path) -> tuple[str, ...]:
    """Return a folder as it was named and behind links, each with the separator behind it."""
    names = (str(folder), os.path.abspath(folder), os.path.realpath(folder))  # noqa: PTH100 - links stay
    return tuple(dict.fromkeys(name + os.sep for name in names))


@cache
def _own_folders() -> tuple[str, ...]:
    planners = beside("planners")
    return _both(package_folder()) + (_both(planners) if planners is not None else ())


def _torch_folders() -> tuple[str, ...]:
    places = getattr(sys.modules.get("torch"), "__path__", None)
    return _torch_beside(places[0]) if places else ()


@lru_cache(maxsize=8)
def _torch_beside(torch: str) -> tuple[str, ...]:
    """Return the folders of torch and of what is installed with it, by that of torch."""
    return tuple(name for part in _TORCH for name in _both(Path(torch).with_name(part)))


@lru_cache(maxsize=65536)
def _is_generated(file: str, told: bytes | None) -> bool:
    if file.startswith("<"):
        return False
    if told and _is_under(file, _both(Path(os.fsdecode(told)))):
        return True
    folder = os.path.dirname(file)  # noqa: PTH120 - asked for every frame
    return os.sep + _COMPILED in folder


@cache
def _standard_folders() -> tuple[str, ...]:
    named = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    places = {str(Path(os.__file__).parent), *(name for name in named if name)}
    return tuple(folder for place in sorted(places) for folder in _both(Path(place)))


@cache
def _own_modules() -> frozenset[str]:
    """Return the files of this package that stand on stacks of ranks, as ``part/name.py``."""
    root = package_folder()
    found = (file for part in _ON_STACKS for file in (root / part).rglob("*.py"))
    return frozenset(file.relative_to(root).as_posix() for file in found)
