"""Which line asked for memory: the call site of a recorded stack, innermost frame first.

A stack of the allocator begins in C++ and passes through torch before it reaches the program. What
a reader can change is the innermost line of the program, so that is the site. A stack of the
backward pass has no Python frame: there the site is the node of autograd, else the operator.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planguard.sources import is_library_elsewhere, package_of
from planguard.words import cut

if TYPE_CHECKING:
    from collections.abc import Sequence

NO_STACK = "no stack was recorded"
BEFORE = "allocated before the history begins"
LONGEST = 90
"""Letters of a site at most."""
_NODE = re.compile(r"torch::autograd::(?:generated::)?(\w+)::apply\b")
_OPERATOR = re.compile(r"at::_ops::(\w+)::call\b")
_HIDDEN = re.compile(
    r"unwind|CapturedTraceback|gather_with_cpp|CachingAllocator|^_start$|__libc_start|^_?Py[A-Z]|^\?\?$"
)
"""C++ frames that say nothing: how the stack was taken, the allocator itself, the interpreter."""


@dataclass(frozen=True)
class Frame:
    """One frame of a stack.

    Attributes:
        file: Its source file, as it was recorded.
        line: Its line; 0 where that is not known.
        name: Its function.
    """

    file: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.name}" if self.line else self.name


def site_of(frames: Sequence[Frame]) -> str:
    """Return the call site of a stack."""
    python = [frame for frame in frames if _is_python(frame.file)]
    own = [frame for frame in python if not is_library_elsewhere(frame.file)]
    for some in ([f for f in own if not package_of(f.file)], own, python):
        if some:
            return cut(f"{_short(some[0].file)}:{some[0].line} {some[0].name}", LONGEST)
    for pattern, what in ((_NODE, "{}, of the backward pass"), (_OPERATOR, "operator {}")):
        named = next((found[1] for f in frames if (found := pattern.search(f.name))), None)
        if named is not None:
            return cut(what.format(named), LONGEST)
    told = shown(frames)
    return cut(f"C++: {told[0].name}", LONGEST) if told else NO_STACK


def shown(frames: Sequence[Frame]) -> list[Frame]:
    """Return the frames of a stack that tell something, innermost first."""
    return [f for f in frames if _is_python(f.file) or not _HIDDEN.search(f.name)]


def _is_python(file: str) -> bool:
    return file.endswith(".py") or file.startswith(("<stdin>", "<ipython-input"))


def _short(file: str) -> str:
    """Return the last two names of a path: files of one name lie in many folders."""
    return "/".join(file.replace("\\", "/").rsplit("/", 2)[-2:])
