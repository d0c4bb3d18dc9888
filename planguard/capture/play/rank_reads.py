"""Notices when code under capture asks who it is: then no rank may stand for another.

Libraries ask for their rank all the time and mean their place in the mesh. The caller's own code
that asks may do anything with the answer, so the capture of one rank says nothing about the rest.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from types import CodeType
from typing import TYPE_CHECKING, Any

from planguard.capture.restarts import RESTARTS
from planguard.sources import is_library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

_VARIABLES = frozenset({"RANK", "LOCAL_RANK", "GROUP_RANK"})
_METHODS = (
    ("torch.distributed.distributed_c10d", None, "get_rank"),
    ("torch.distributed", None, "get_rank"),
    ("torch.distributed.distributed_c10d", None, "get_group_rank"),
    ("torch.distributed", None, "get_group_rank"),
    ("torch.distributed", None, "get_node_local_rank"),
    ("torch.distributed.device_mesh", "DeviceMesh", "get_rank"),
    ("torch.distributed.device_mesh", "DeviceMesh", "get_local_rank"),
    ("torch.distributed.device_mesh", "DeviceMesh", "get_coordinate"),
)


@contextmanager
def rank_reads() -> Iterator[list[str]]:
    """Collect the places, ``file:line``, where code outside of torch asks for its rank.

    What stays unseen: a rank that arrives by other means, such as a closure or a file.
    """
    found: list[str] = []
    undo: list[Callable[[], None]] = []
    for module, cls, name in _METHODS:
        owner: Any = sys.modules.get(module)
        owner = getattr(owner, cls, None) if owner is not None and cls else owner
        if owner is not None and hasattr(owner, name):
            undo.append(_patch(owner, name, found))
    undo.append(_patch_environment(_VARIABLES, lambda place: _keep(found, place)))
    try:
        yield found
    finally:
        for restore in reversed(undo):
            restore()


@contextmanager
def start_reads(note: Callable[[str], object]) -> Iterator[None]:
    """Tell the places where code outside of torch asks how often the job was started anew.

    Args:
        note: Called with ``file:line``.
    """
    restore = _patch_environment(frozenset({RESTARTS}), note)
    try:
        yield
    finally:
        restore()


def _patch(owner: Any, name: str, found: list[str]) -> Callable[[], None]:
    original = getattr(owner, name)

    def asking(*args: Any, **kwargs: Any) -> Any:
        _note(lambda place: _keep(found, place))
        return original(*args, **kwargs)

    setattr(owner, name, asking)
    return lambda: setattr(owner, name, original)


def _patch_environment(names: frozenset[str], tell: Callable[[str], object]) -> Callable[[], None]:
    kind: Any = type(os.environ)
    original = kind.__getitem__

    def asking(self: Any, key: str) -> Any:
        if key in names:
            _note(tell)
        return original(self, key)

    kind.__getitem__ = asking
    return lambda: setattr(kind, "__getitem__", original)


_LOOKED_THROUGH = (
    "os.py", "_collections_abc.py", "values/own_answers.py", "play/rank_reads.py",
)  # fmt: skip
"""Files between the program and what it reads: the mapping, and those who note what it reads."""


def _note(tell: Callable[[str], object]) -> None:
    place = _caller(sys._getframe(2))  # noqa: SLF001 - torch or the interpreter has no public way
    if place is not None:
        tell(place)


def _keep(found: list[str], place: str) -> None:
    if place not in found:
        found.append(place)


def _caller(frame: FrameType | None) -> str | None:
    """Return the direct caller unless it is torch or this package; ``os`` is looked through."""
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.endswith(_LOOKED_THROUGH) and not file.startswith("<frozen"):
            return None if is_library(file) else f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def rank_mentions(target: Any) -> list[str]:
    """Return where the code of a module or function names its rank, without running it.

    Dynamo must find ``torch.distributed`` as it is, so nothing can be patched while it traces. This
    reads the names in the caller's own code objects instead: functions, methods of every module
    class that is not torch's, and functions nested in them.
    """
    found = []
    for code in _codes(target):
        words = {*code.co_names, *(c for c in code.co_consts if isinstance(c, str))}
        if words & _WORDS:
            found.append(f"{code.co_filename}:{code.co_firstlineno}")
    return found


_WORDS = _VARIABLES | {
    "get_rank",
    "get_group_rank",
    "get_local_rank",
    "get_node_local_rank",
    "get_coordinate",
}


def _codes(target: Any) -> Iterator[CodeType]:
    owners = [target]
    if hasattr(target, "modules"):
        owners = list({type(module): None for module in target.modules()})
    for owner in owners:
        functions = vars(owner).values() if isinstance(owner, type) else [owner]
        for function in functions:
            code = getattr(function, "__code__", None)
            if code is not None and not is_library(code.co_filename):
                yield from _nested(code)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)
