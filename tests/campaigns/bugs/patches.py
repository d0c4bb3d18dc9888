"""Proposed patches of other people's functions, tried in memory: edits of their source."""

from __future__ import annotations

import contextlib
import inspect
import sys
import textwrap
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def patched(function: Callable[..., Any], *edits: tuple[str, str]) -> Iterator[None]:
    """Replace a function or method by one whose source is edited.

    Args:
        function: What to edit. Every module, or the class, that holds it gets the new one.
        edits: Text and what to put in its place; the text stands in the source exactly once.

    Raises:
        ValueError: If a text is not there once: the patch is for another version.
    """
    source = textwrap.dedent(inspect.getsource(function))
    for old, new in edits:
        if source.count(old) != 1:
            raise ValueError(f"not once in {function.__qualname__}: {old!r}")
        source = source.replace(old, new)
    module = sys.modules[function.__module__]
    made: dict[str, Any] = {}
    # the text is that of an installed package and of the edits beside this file
    code = compile(source, f"<patched {function.__qualname__}>", "exec")
    exec(code, vars(module), made)  # noqa: S102 - see above
    name = function.__name__
    owner = getattr(module, function.__qualname__.rpartition(".")[0], None)
    holders = [owner] if owner is not None else [
        one for one in list(sys.modules.values()) if getattr(one, name, None) is function
    ]  # fmt: skip
    with contextlib.ExitStack() as stack:
        for holder in holders:
            stack.enter_context(mock.patch.object(holder, name, made[name]))
        yield
