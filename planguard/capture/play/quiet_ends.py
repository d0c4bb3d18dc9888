"""Programs that end before they communicate: with which status, where, and what they said last.

A script that finds too few GPUs prints a line and exits. A play of it is empty, and says nothing of
what the script does where it goes on.
"""

from __future__ import annotations

import re
import sys
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from planguard.sources import is_program
from planguard.words import name_ranks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from planguard.capture.play.logs import RankLog

_MOST = 160
"""Characters of a printed line that are kept."""
_WARNING = re.compile(r"\S.*:\d+: \w*Warning: ")
"""How Python prints a warning, all of it at once, the line of source behind it."""


class Said:
    """What a rank printed last, and where it ended.

    Attributes:
        line: The last line with anything in it.
        at: How and where it ended.
    """

    def __init__(self) -> None:
        self.line = ""
        self.at = ""

    def hear(self, text: object) -> None:
        """Keep the last line of what is printed; warnings are no words of the program's."""
        if _WARNING.match(str(text)):
            return
        lines = [one for one in str(text).splitlines() if one.strip()]
        if lines:
            self.line = lines[-1].strip()[:_MOST]

    def ended(self, error: BaseException | None, body: str = "") -> None:
        """Note how the program ended, if by itself; where ``body`` is what came to its end."""
        if error is None:
            self.at = self.at or f"came to its end{body and f' ({body})'}"
        elif isinstance(error, SystemExit) and error.code in (None, 0):
            frames = traceback.extract_tb(error.__traceback__)
            own = [one for one in frames if is_program(one.filename)]
            at = f" at {own[-1].filename}:{own[-1].lineno} in {own[-1].name}" if own else ""
            self.at = f"exited with status 0{at}"


@contextmanager
def listening() -> Iterator[Said]:
    """Hear what the program prints, by whatever stream there is, to the end of the block."""
    said = Said()
    undo: list[tuple[Any, Any]] = []
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.write = _heard(stream.write, said)  # type: ignore[method-assign]
        except AttributeError:  # a stream of somebody's own, or none
            continue
        undo.append((stream, "write"))
    try:
        yield said
    finally:
        for stream, name in undo:
            stream.__dict__.pop(name, None)


def _heard(original: Callable[[str], int], said: Said) -> Callable[[str], int]:
    def write(text: str) -> int:
        said.hear(text)
        return original(text)

    return write


def why_empty(logs: Mapping[int, RankLog]) -> str:
    """Say how ranks that issued nothing ended; empty where one communicated or raised."""
    if any(log.actions or log.end or log.left_at or not log.ended for log in logs.values()):
        return ""
    ends: dict[str, list[int]] = {}
    for rank, log in logs.items():
        ends.setdefault(log.ended, []).append(rank)
    how = "; ".join(f"on {name_ranks(ranks)} it {end}" for end, ranks in ends.items())
    line = next((log.printed for _, log in sorted(logs.items()) if log.printed), "")
    printed = f"; the last line that it printed: {line!r}" if line else ""
    return f"the program ended by itself before any communication: {how}{printed}"
