"""The constants of a module as its import found them: compiled, or read from a file of bytecode.

A set that a program writes out is made of a constant, and two of its elements that collide lie in
the order in which they were put into that. Compiled here that is the order of the source; in a
``.pyc`` they are sorted by their bytes (Python 3.11, ``Python/marshal.c``, ``w_complex_object``).
So a statement that is compiled again may give a list in another order than its import did: in one
process of six for four texts.
"""

from __future__ import annotations

import importlib.util
import marshal
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEADER = 16
"""Bytes in front of the code: a magic number, flags, and two words about the source (PEP 552)."""


def as_imported(code: CodeType, file: str) -> Iterator[CodeType]:
    """Yield code of a module as it is compiled here, and with its sets as bytecode has them.

    Args:
        code: The code of a statement.
        file: The file of the module that it is of.
    """
    yield code
    if not any(True for _ in _sets(code)):
        return
    for written in _written(file):
        known: dict[frozenset[Any], frozenset[Any]] = {}
        for one in _sets(written):
            known.setdefault(one, one)
        yield _with(code, known)


def _written(file: str) -> Iterator[CodeType]:
    """Yield the code in the files of bytecode of a module: Python's own, and a test runner's."""
    try:
        cached = Path(importlib.util.cache_from_source(file))
        places = sorted(cached.parent.glob(f"{Path(file).stem}.*.pyc"))
    except (NotImplementedError, OSError, ValueError):
        return  # no source file, or none that can have one
    for place in places:
        try:
            data = place.read_bytes()
            if not data.startswith(importlib.util.MAGIC_NUMBER):
                continue  # of another Python
            code = marshal.loads(data[_HEADER:])  # noqa: S302 - what the import itself would read
        except (OSError, EOFError, ValueError, TypeError):
            continue
        if isinstance(code, CodeType):
            yield code


def _sets(code: CodeType) -> Iterator[frozenset[Any]]:
    for one in code.co_consts:
        if isinstance(one, frozenset):
            yield one
        elif isinstance(one, CodeType):
            yield from _sets(one)


def _with(code: CodeType, known: dict[frozenset[Any], frozenset[Any]]) -> CodeType:
    """Return code whose constant sets are given ones, where there is an equal one."""
    return code.replace(
        co_consts=tuple(
            known.get(one, one)
            if isinstance(one, frozenset)
            else _with(one, known)
            if isinstance(one, CodeType)
            else one
            for one in code.co_consts
        )
    )
