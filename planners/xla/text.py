"""Splitting text at brackets and commas, without being fooled by strings and comments."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# A string takes what it can and gives nothing back, and one that does not end goes to the end of
# the text, which is refused: else a search would begin anew at each of a million quotes.
_STRING = r'"(?:[^"\\]|\\.)*+("?)'
_STRUCTURE = re.compile(_STRING + r"|[(){}\[\],]")
_ARROWED = re.compile(_STRING + r"|->|<=|>=|[(){}\[\],<>]")
_COMMENT = re.compile(_STRING + r"|/\*")
# Most texts have brackets, with strings in them, but none inside another: those are read in one go.
_QUOTED = r'"(?:[^"\\]|\\.)*+"'
_INSIDE = rf'(?:[^"(){{}}\[\]]++|{_QUOTED})*+'
_GROUP = rf"\({_INSIDE}\)|\{{{_INSIDE}\}}|\[{_INSIDE}\]"
_FLAT_GROUP = re.compile(_GROUP)
_FLAT_PART = re.compile(rf'(?:[^",(){{}}\[\]]++|{_QUOTED}|{_GROUP})*+')
_TEXT = re.compile(_STRING)
_OPEN = {"(": ")", "{": "}", "[": "]", "<": ">"}
_CLOSE = frozenset(_OPEN.values())
MAX_DEPTH = 60
"""Brackets inside brackets; what compilers print stays far below."""


class Unbalanced(ValueError):  # noqa: N818  # a state of the text, turned into a PlanError
    """Brackets that do not match, or too many inside each other."""


def without_comments(line: str) -> str:
    """Return a line without ``/* */`` comments; strings stay as they are."""
    if "/*" not in line:
        return line
    kept, place = [], 0
    while (match := _COMMENT.search(line, place)) is not None:
        if match[0] != "/*":
            kept.append(line[place : match.end()])
            place = match.end()
            continue
        end = line.find("*/", match.end())
        if end < 0:
            break
        kept.append(line[place : match.start()])
        place = end + 2
    return "".join(kept) + line[place:]


def depth_change(text: str) -> int:
    """Return how many brackets a piece of text opens and leaves open."""
    bare = _TEXT.sub("", text) if '"' in text else text
    return sum(map(bare.count, "([{")) - sum(map(bare.count, ")]}"))


def marks(text: str, start: int = 0, *, angles: bool = False) -> Iterator[tuple[int, str, int]]:
    """Yield position, bracket or comma, and the depth outside of it.

    Raises:
        Unbalanced: A bracket closes what is not open, or a string does not end.
    """
    expected: list[str] = []
    for match in (_ARROWED if angles else _STRUCTURE).finditer(text, start):
        mark = match[0]
        if match[1] == "":
            raise Unbalanced("a string that does not end")
        if mark in _OPEN:
            yield match.start(), mark, len(expected)
            expected.append(_OPEN[mark])
            if len(expected) > MAX_DEPTH:
                raise Unbalanced(f"more than {MAX_DEPTH} brackets inside each other")
        elif mark in _CLOSE:
            if not expected or expected.pop() != mark:
                raise Unbalanced(f"{mark!r} closes nothing")
            yield match.start(), mark, len(expected)
        elif mark == ",":
            yield match.start(), mark, len(expected)


def closing(text: str, start: int, *, angles: bool = False) -> int:
    """Return the position of the bracket that closes the one at ``start``.

    Raises:
        Unbalanced: Nothing closes it.
    """
    flat = None if angles else _FLAT_GROUP.match(text, start)
    if flat is not None:
        return flat.end() - 1
    for position, mark, depth in marks(text, start, angles=angles):
        if depth == 0 and mark in _CLOSE:
            return position
    raise Unbalanced(f"{text[start : start + 1]!r} is never closed")


def split(text: str, *, angles: bool = False) -> list[str]:
    """Split at the commas outside of all brackets; the parts are stripped.

    Raises:
        Unbalanced: Brackets do not match.
    """
    parts: list[str] = []
    last = depth_at_end = 0
    while not angles and (flat := _FLAT_PART.match(text, last)) is not None:
        end = flat.end()
        if end == len(text):
            tail = text[last:].strip()
            return [*parts, tail] if tail or parts else []
        if text[end] != ",":  # brackets in brackets, or something is wrong
            break
        parts.append(text[last:end].strip())
        last = end + 1
    parts, last = [], 0
    for position, mark, depth in marks(text, angles=angles):
        if mark == "," and depth == 0:
            parts.append(text[last:position].strip())
            last = position + 1
        depth_at_end = depth + (mark in _OPEN)
    if depth_at_end:
        raise Unbalanced("a bracket is never closed")
    tail = text[last:].strip()
    return [*parts, tail] if tail or parts else []


def unquoted(text: str) -> str:
    """Return a string without its quotes."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
