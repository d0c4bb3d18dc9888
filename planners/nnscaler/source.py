"""Find and parse the generated files of all ranks. Nothing in them is imported or executed."""

from __future__ import annotations

import ast
import os
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from planguard.errors import PlanError

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 64 * 2**20
"""Largest generated file that is read."""

MAX_DEPTH = 8
"""How deep below the given folder the module folder may lie."""

_FILE = re.compile(r"gencode(\d{1,6})\.py")
_MARK = b"Generated Model Code"


@dataclass(frozen=True)
class RankSource:
    """A parsed file.

    Attributes:
        rank: From the name of the file.
        file: Name as it stands in sources and errors.
        tree: The module.
    """

    rank: int
    file: str
    tree: ast.Module

    def fail(
        self, node: ast.AST | None, message: str, *, value: object = None, hint: str = "",
        code: str = "PG901",
    ) -> NoReturn:  # fmt: skip
        """Raise a PlanError at a node of the file."""
        line = getattr(node, "lineno", None)
        raise PlanError(
            message,
            code=code,
            file=self.file,
            path=f"line {line}" if line else "file",
            value=value,
            hint=hint or "generate the directory again with nnscaler.parallelize",
        )

    def text(self, node: ast.AST) -> str:
        """Return the source text of a node, shortened."""
        return ast.unparse(node)[:80]


def looks_like_directory(path: Path) -> bool:
    """Tell whether a path holds generated code: a file ``gencode0.py`` with nnScaler's banner."""
    try:
        folders = _module_folders(path)
        return bool(folders) and _MARK in _head(folders[0])
    except (OSError, ValueError):
        return False


def read_directory(path: Path, world_size: int | None) -> tuple[list[RankSource], Path]:
    """Parse the files of every rank below a folder.

    Raises:
        PlanError: There is none, there are several modules, a rank is missing, or a file is no
            Python.
    """
    if not path.is_dir():
        raise PlanError("not a directory", file=str(path), path="file")
    folders = _module_folders(path)
    if len(folders) != 1:
        raise PlanError(
            f"{len(folders) or 'no'} folders with gencode files",
            file=str(path),
            path="directory",
            value=", ".join(str(folder) for folder in folders[:4]) or None,
            hint="name the folder of one module, the one with gencode0.py in it",
        )
    files = _files(folders[0])
    _refuse_gaps(files, folders[0], world_size)
    return [_parse(rank, files[rank]) for rank in sorted(files)], folders[0]


def _module_folders(path: Path) -> list[Path]:
    """List the folders with generated files, at most ``MAX_DEPTH`` levels down, sorted."""
    found, level = [], [path]
    for _ in range(MAX_DEPTH):
        below: list[Path] = []
        for folder in level:
            if not folder.is_dir():
                continue
            if _files(folder):
                found.append(folder)
                continue
            with os.scandir(folder) as entries:
                below += sorted(folder / entry.name for entry in entries if _is_folder(entry))
        level = below[:1000]
    return found


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False) and entry.name != "__pycache__"


def _files(folder: Path) -> dict[int, Path]:
    names = sorted(os.listdir(folder))  # noqa: PTH208  asked of every folder of an experiment
    found = ((match, folder / name) for name in names if (match := _FILE.fullmatch(name)))
    return {int(match[1]): entry for match, entry in found if entry.is_file()}


def _head(folder: Path) -> bytes:
    files = _files(folder)
    with files[min(files)].open("rb") as file:
        return file.read(4096)


def _refuse_gaps(files: dict[int, Path], folder: Path, world_size: int | None) -> None:
    count = world_size or max(files) + 1
    missing = [rank for rank in range(count) if rank not in files][:8]
    extra = [rank for rank in files if rank >= count][:8]
    if missing or extra:
        what = "missing" if missing else "beyond the world size"
        listed = ", ".join(f"gencode{rank}.py" for rank in missing or extra)
        raise PlanError(
            f"files of some ranks are {what}: {listed}",
            file=str(folder),
            path="directory",
            value=f"{len(files)} files",
            hint=f"a plan of {count} ranks has gencode0.py to gencode{count - 1}.py",
        )


def _parse(rank: int, path: Path) -> RankSource:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise PlanError(
                f"larger than {MAX_BYTES >> 20} MiB", file=path.name, path="file",
                hint="is it generated code?",
            )  # fmt: skip
        text = path.read_bytes().decode()
    except OSError as error:
        raise PlanError(f"cannot be read: {error}", file=path.name, path="file") from None
    except UnicodeDecodeError as error:
        raise PlanError(
            f"not UTF-8: {error.reason}", file=path.name, path=f"byte {error.start}",
            hint="generate the directory again with nnscaler.parallelize",
        ) from None  # fmt: skip
    return RankSource(rank, path.name, _tree(text, path.name))


def _tree(text: str, name: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            return ast.parse(text)
    except SyntaxError as error:
        line, message = error.lineno or 1, f"not Python: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        line, message = 1, f"not Python: {str(error) or type(error).__name__}"
    raise PlanError(
        message, file=name, path=f"line {line}",
        hint="is the file complete? generate the directory again with nnscaler.parallelize",
    )  # fmt: skip
