"""Every program of MSCCL++'s language tests and every plan that it ships, over sizes."""

from __future__ import annotations

import itertools
import json
import shutil
import sys
import tempfile
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import planguard

from .cases import Case, RefusedError
from .scripts import printed, revision

if TYPE_CHECKING:
    from collections.abc import Iterator

_REVISION: list[str] = []


def programs(tests: Path, *, quick: bool) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Yield every script with arguments that its own parser names."""
    gpus = ("2", "4") if quick else ("2", "3", "4", "8", "16")
    for script in sorted(tests.rglob("*.py")):
        text = script.read_text(encoding="utf-8")
        name = ("--name", script.stem) if '"--name"' in text else ()
        sizes: list[tuple[str, ...]] = [()]
        if '"--nnodes"' in text:
            sizes = [("--nnodes", nodes, "--gpus_per_node", per, "--split_mask", mask)
                     for nodes, per in itertools.product(("1", "2"), ("2", "4"))
                     for mask in ("0x0", "0x1", "0x3")]  # fmt: skip
        elif '"--tbg_size"' in text:
            sizes = [("--num_gpus", str(2 * per), "--gpus_per_node", str(per), "--tbg_size", size)
                     for per in (2, 4) for size in ("1", "2")]  # fmt: skip
        elif '"--gpus_per_node"' in text:
            sizes = [("--gpus_per_node", number) for number in gpus]
        elif '"--num_gpus"' in text:
            sizes = [("--num_gpus", number) for number in gpus]
        for size in sizes:
            yield script, (*name, *size)


@cache
def program(script: Path, arguments: tuple[str, ...]) -> dict[str, Any] | RefusedError:
    """Run a script and return the execution plan that it prints."""
    try:
        text = printed(script, arguments)
        return dict(json.loads(text[text.index("{") :]))
    except RefusedError as error:
        return error
    except ValueError as error:
        return RefusedError(f"prints no plan: {str(error)[:100]}")


def made(script: Path, arguments: tuple[str, ...], chunk_bytes: int | None) -> Any:
    """Return the plan of a program, for chunks of so many bytes."""
    found = program(script, arguments)
    if isinstance(found, RefusedError):
        raise found
    options = {} if chunk_bytes is None else {"chunk_bytes": chunk_bytes}
    return planguard.load(found, planner="mscclpp", **options)


def cases(*, source: Path, quick: bool) -> Iterator[Case]:
    """Yield every program and shipped plan, with chunks of two sizes."""
    _REVISION[:] = [revision(source)]
    language = source / "python" / "mscclpp" / "language"
    package = Path(tempfile.mkdtemp()) / "mscclpp"
    shutil.copytree(language, package / "language")
    shutil.copytree(source / "python" / "mscclpp" / "default_algos", package / "default_algos")
    (package / "__init__.py").touch()
    sys.path.insert(0, str(package.parent))
    for script, arguments in programs(language / "tests", quick=quick):
        kind = str(script.relative_to(language / "tests").with_suffix(""))
        for size in (None, 1 << 20):
            text = f"{' '.join(arguments)} chunk_bytes={size or 'two units'}"
            yield Case(kind, text, partial(made, script, arguments, size), ("gloo",))
    for path in sorted((source / "test").rglob("*.json")):
        if "execution" in str(path.parent):
            load = partial(planguard.load, path, planner="mscclpp")
            yield Case(f"shipped: {path.stem}", "", load, ("gloo",))


def version() -> str:
    """Name the planner and its revision."""
    return f"MSCCL++ {' '.join(_REVISION)}"
