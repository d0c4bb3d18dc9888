"""What is known about a value: constants, replica and partition ids, and what follows from them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from .model import INTEGERS, Instruction, Shape

MAX_ELEMENTS = 4096
"""Larger arrays are not followed; tables of device ids are far smaller."""


class Value(Struct, frozen=True):
    """What is known about an array.

    Attributes:
        data: Its elements in row-major order, or None if they are not known.
        varies: True unless every device is sure to hold the same value.
        handle: Name of the asynchronous operation behind it, if it is still in flight.
    """

    data: tuple[int, ...] | None = None
    varies: bool = True
    handle: str | None = None


_SAFE = re.compile(r"-?\d+$")


def constant(literal: str, shape: Shape) -> Value:
    """Read the literal of a constant; one that is no small array of integers stays unknown."""
    if shape.dtype not in INTEGERS or _count(shape) is None:
        return Value(varies=False)
    words = re.sub(r"[{}\s\[\]]+", " ", literal).replace(",", " ").split()
    numbers = [{"true": 1, "false": 0}.get(word, word) for word in words]
    if not all(isinstance(number, int) or _SAFE.match(number) for number in numbers):
        return Value(varies=False)
    values = tuple(int(number) for number in numbers)
    if len(values) == 1:  # StableHLO writes an array of equal elements as one
        values *= _count(shape) or 0
    if len(values) != _count(shape):
        return Value(varies=False)
    return Value(values, varies=False)


def apply(instruction: Instruction, operands: Sequence[Value], shapes: Sequence[Shape]) -> Value:
    """Return what an operation makes of its operands, unknown if it is not followed."""
    varies = any(operand.varies for operand in operands)
    known = [operand.data for operand in operands if operand.data is not None]
    rule = _RULES.get(instruction.opcode)
    if rule is None or len(known) != len(operands) or _count(instruction.shape) is None:
        return Value(None, varies)
    try:
        data = rule(instruction, known, shapes)
    except (ValueError, IndexError, ArithmeticError, KeyError):
        return Value(None, varies)
    if data is None or len(data) != _count(instruction.shape):
        return Value(None, varies)
    if any(abs(number).bit_length() > 128 for number in data):
        return Value(None, varies)
    return Value(tuple(wrapped(number, instruction.shape.dtype) for number in data), varies)


def wrapped(number: int, dtype: str) -> int:
    """Return a number as an element type holds it.

    Raises:
        ValueError: The type holds no integers.
    """
    if dtype == "pred":
        return int(bool(number))
    if dtype[0] not in "su":
        raise ValueError("not an integer")
    bits = int(dtype[1:])
    number &= (1 << bits) - 1
    return number - (1 << bits) if dtype[0] == "s" and number >> (bits - 1) else number


def _count(shape: Shape) -> int | None:
    if shape.dtype not in INTEGERS or None in shape.dims:
        return None
    count = math.prod(dim or 0 for dim in shape.dims)
    return count if count <= MAX_ELEMENTS else None


_Data = tuple[int, ...]
_Rule = Callable[[Instruction, Sequence[_Data], Sequence[Shape]], Sequence[int] | None]


def _pairwise(operation: Callable[[int, int], int]) -> _Rule:
    def rule(_: Instruction, data: Sequence[_Data], __: Sequence[Shape]) -> list[int]:
        one, other = data
        return [operation(a, b) for a, b in zip(one, other, strict=True)]

    return rule


def _divided(one: int, other: int) -> int:
    quotient = abs(one) // abs(other)
    return quotient if (one < 0) == (other < 0) else -quotient


def _shift(one: int, other: int) -> int:
    if not 0 <= other < 128:
        raise ValueError("shifted out")
    return one << other


def _shift_right(instruction: Instruction, data: Sequence[_Data], _: Sequence[Shape]) -> list[int]:
    """Shift right; a logical shift fills with zeros whatever the sign."""
    bits = int(instruction.shape.dtype[1:])
    logical = instruction.opcode == "shift-right-logical"
    if any(not 0 <= by < bits for by in data[1]):
        raise ValueError("shifted out")
    mask = (1 << bits) - 1
    return [(a & mask if logical else a) >> by for a, by in zip(*data, strict=True)]


def _same(_: Instruction, data: Sequence[_Data], __: Sequence[Shape]) -> Sequence[int]:
    return data[0]


def _compare(instruction: Instruction, data: Sequence[_Data], _: Sequence[Shape]) -> list[int]:
    test = {
        "EQ": int.__eq__, "NE": int.__ne__, "LT": int.__lt__, "LE": int.__le__,
        "GT": int.__gt__, "GE": int.__ge__,
    }[instruction.attrs["direction"]]  # fmt: skip
    return [int(test(a, b)) for a, b in zip(data[0], data[1], strict=True)]


def _select(_: Instruction, data: Sequence[_Data], __: Sequence[Shape]) -> list[int]:
    test, yes, no = data
    if len(test) == 1:
        return list(yes if test[0] else no)
    return [a if chosen else b for chosen, a, b in zip(test, yes, no, strict=True)]


def _clamp(_: Instruction, data: Sequence[_Data], __: Sequence[Shape]) -> list[int]:
    low, values, high = data
    return [max(low[0], min(value, high[0])) for value in values]


def _not(instruction: Instruction, data: Sequence[_Data], _: Sequence[Shape]) -> list[int]:
    flip = instruction.shape.dtype == "pred"
    return [1 - number if flip else ~number for number in data[0]]


def _broadcast(
    instruction: Instruction, data: Sequence[_Data], shapes: Sequence[Shape]
) -> list[int] | None:
    size = _count(instruction.shape) or 0
    if len(data[0]) == 1:
        return list(data[0]) * size
    places = [int(part) for part in instruction.attrs["dimensions"].strip("{}").split(",")]
    if shapes[0].dims != tuple(instruction.shape.dims[place] for place in places):
        return None
    dims = [dim or 0 for dim in instruction.shape.dims]
    source = [dim or 0 for dim in shapes[0].dims]
    out = []
    for position in range(size):
        coordinates = _unravel(position, dims)
        out.append(data[0][_ravel([coordinates[place] for place in places], source)])
    return out


def _unravel(position: int, dims: Sequence[int]) -> list[int]:
    coordinates = []
    for dim in reversed(dims):
        coordinates.append(position % dim)
        position //= dim
    return coordinates[::-1]


def _ravel(coordinates: Sequence[int], dims: Sequence[int]) -> int:
    position = 0
    for coordinate, dim in zip(coordinates, dims, strict=True):
        if not 0 <= coordinate < dim:
            raise IndexError("outside")
        position = position * dim + coordinate
    return position


def _window(
    source: Shape, result: Shape, data: _Data, starts: Sequence[int], steps: Sequence[int]
) -> list[int]:
    dims, out = [dim or 0 for dim in source.dims], [dim or 0 for dim in result.dims]
    picked = []
    for position in range(math.prod(out)):
        at = [s + c * k for s, c, k in zip(starts, _unravel(position, out), steps, strict=True)]
        picked.append(data[_ravel(at, dims)])
    return picked


def _slice(
    instruction: Instruction, data: Sequence[_Data], shapes: Sequence[Shape]
) -> list[int] | None:
    ranges = re.findall(r"\[(\d+):(\d+)(?::(\d+))?\]", instruction.attrs["slice"])
    starts, steps = [int(r[0]) for r in ranges], [int(r[2] or 1) for r in ranges]
    return _window(shapes[0], instruction.shape, data[0], starts, steps)


def _dynamic_slice(
    instruction: Instruction, data: Sequence[_Data], shapes: Sequence[Shape]
) -> list[int]:
    """Follow a lookup in a table; XLA clamps starts so that the window stays inside."""
    sizes = [dim or 0 for dim in instruction.shape.dims]
    starts = [
        max(0, min(start[0], (dim or 0) - size))
        for start, dim, size in zip(data[1:], shapes[0].dims, sizes, strict=True)
    ]
    return _window(shapes[0], instruction.shape, data[0], starts, [1] * len(starts))


def _iota(instruction: Instruction, _: Sequence[_Data], __: Sequence[Shape]) -> list[int]:
    along = int(instruction.attrs.get("iota_dimension", "0"))
    dims = [dim or 0 for dim in instruction.shape.dims]
    return [_unravel(position, dims)[along] for position in range(math.prod(dims))]


def _concatenate(
    instruction: Instruction, data: Sequence[_Data], _: Sequence[Shape]
) -> list[int] | None:
    if len(instruction.shape.dims) != 1:
        return None
    return [number for part in data for number in part]


_RULES: dict[str, _Rule] = {
    "add": _pairwise(int.__add__),
    "subtract": _pairwise(int.__sub__),
    "multiply": _pairwise(int.__mul__),
    "divide": _pairwise(_divided),
    "remainder": _pairwise(lambda a, b: a - b * _divided(a, b)),
    "minimum": _pairwise(min),
    "maximum": _pairwise(max),
    "and": _pairwise(int.__and__),
    "or": _pairwise(int.__or__),
    "xor": _pairwise(int.__xor__),
    "shift-left": _pairwise(_shift),
    "shift-right-logical": _shift_right,
    "shift-right-arithmetic": _shift_right,
    "negate": lambda _, data, __: [-number for number in data[0]],
    "abs": lambda _, data, __: [abs(number) for number in data[0]],
    "not": _not,
    "compare": _compare,
    "select": _select,
    "clamp": _clamp,
    "copy": _same,
    "bitcast": _same,
    "reshape": _same,
    "convert": _same,
    "optimization-barrier": _same,
    "broadcast": _broadcast,
    "broadcast-in-dim": _broadcast,
    "slice": _slice,
    "dynamic-slice": _dynamic_slice,
    "iota": _iota,
    "concatenate": _concatenate,
}
"""Operations that are followed; every other one gives an unknown value."""
