"""Shapes as HLO writes them: ``f32[8,4]{1,0:T(8,128)}``, ``(s32[], token[])``."""

from __future__ import annotations

import re

from .model import ELEMENT_TYPES, Shape
from .text import closing, split

_ARRAY = re.compile(r"([a-z][a-z0-9]*)\[([0-9,<=?\s]*)\]")
_OTHERS = frozenset({"token", "opaque"})
_MAX_SIZE = 2**62


def read_shape(text: str, start: int = 0) -> tuple[Shape, int]:
    """Read a shape, layout included, and return it with the position behind it.

    Raises:
        ValueError: There is no shape.
    """
    if text[start : start + 1] == "(":
        end = closing(text, start)
        parts = tuple(whole_shape(part) for part in split(text[start + 1 : end]))
        return Shape("tuple", parts=parts), end + 1
    match = _ARRAY.match(text, start)
    if match is None or match[1] not in ELEMENT_TYPES | _OTHERS:
        raise ValueError("a shape is expected")
    end = match.end()
    if text[end : end + 1] == "{":
        end = closing(text, end) + 1
    return Shape(match[1], tuple(_size(dim) for dim in match[2].split(",") if dim.strip())), end


def whole_shape(text: str) -> Shape:
    """Read a text that is one shape.

    Raises:
        ValueError: It is not.
    """
    shape, end = read_shape(text)
    if text[end:].strip():
        raise ValueError("something stands behind the shape")
    return shape


def _size(text: str) -> int | None:
    """Return a dimension; a bounded dynamic one, ``<=8``, has no size that is known here."""
    text = text.strip()
    if text == "?" or text.startswith("<="):
        return None
    size = int(text)
    if size > _MAX_SIZE:
        raise ValueError("a dimension is too large")
    return size
