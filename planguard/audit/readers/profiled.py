"""FLOPs and memory of torch.profiler's records, as exported: shapes of operators, the allocator.

``export_chrome_trace`` writes no FLOPs, also with ``with_flops=True``; it writes the shapes that
torch counts them from, and they are counted here by the same formulas
(torch/csrc/profiler/util.cpp, ``computeFlops``). The backward pass of a convolution, which torch
leaves out, counts a convolution for each gradient of input and weight. ``profile_memory=True``
writes a ``[memory]`` event whenever the allocator gives or takes.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MEMORY = "[memory]"
MOST = 1 << 40
_NUMBER = re.compile(r"\d{1,12}")

Shape = list[int]


def flops_of(name: str, args: dict[str, Any]) -> float:
    """Return the FLOPs of an operator, 0 where they are not known."""
    count = _FORMULAS.get(name)
    shapes, values = args.get("Input Dims"), args.get("Concrete Inputs")
    if count is None or not isinstance(shapes, list):
        return 0.0
    given = [str(value) for value in values] if isinstance(values, list) else []
    try:
        found = count([_shape(shape) for shape in shapes[:3]], given)
    except (IndexError, ValueError, ZeroDivisionError):
        return 0.0
    return float(found) if 0 < found < 10**24 else 0.0


def _shape(given: Any) -> Shape:
    if not isinstance(given, list) or len(given) > 8:
        raise ValueError("no shape")
    if not all(type(one) is int and 0 <= one <= MOST for one in given):
        raise ValueError("no shape")
    return given


def _two(text: str) -> tuple[int, int]:
    found = [int(one) for one in _NUMBER.findall(text)]
    return found[0], found[-1]


def _conv2d(shapes: list[Shape], values: list[str]) -> int:
    (n, _, *size), (out, own, *kernel) = shapes[0], shapes[1]
    stride, padding, dilation = (_two(values[at]) for at in (3, 4, 5))
    if len(size) != 2 or len(kernel) != 2 or "same" in values[4]:
        raise ValueError("no convolution of two dimensions")
    places = [
        (size[d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) // stride[d] + 1
        for d in range(2)
    ]
    return 2 * n * prod(places) * out * own * prod(kernel)  # ``own`` is of one group already


def _convolution_backward(shapes: list[Shape], values: list[str]) -> int:
    # The mask says which gradients are wanted: input, weight, bias.
    wanted = re.findall("True|False", values[-1])[:2].count("True")
    return 2 * wanted * prod(shapes[0]) * prod(shapes[2][1:])


def _product(first: int) -> Callable[[list[Shape], list[str]], int]:
    def count(shapes: list[Shape], _: list[str]) -> int:
        a, b = shapes[first], shapes[first + 1]
        if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
            raise ValueError("no product of matrices")
        return 2 * prod(a) * b[-1]

    return count


def _each(shapes: list[Shape], _: list[str]) -> int:
    return prod(shapes[0])


_FORMULAS: dict[str, Callable[[list[Shape], list[str]], int]] = {
    "aten::conv2d": _conv2d,
    "aten::convolution_backward": _convolution_backward,
    "aten::mm": _product(0),
    "aten::bmm": _product(0),
    "aten::addmm": _product(1),
    "aten::baddbmm": _product(1),
    "aten::mul": _each,
    "aten::add": _each,
}


class Memory:
    """What the allocator had given out, over time: of the device where it has any, else the host's.

    Both are by the host's clock.
    """

    def __init__(self, events: Iterable[Any]) -> None:
        levels: dict[bool, list[tuple[float, int]]] = defaultdict(list)
        for event in events:
            held, kind = event.args.get("Total Allocated"), event.args.get("Device Type")
            if event.name == MEMORY and type(held) is int and 0 <= held <= 1 << 60:
                levels[kind != 0].append((event.ts, held))
        self._levels = sorted(levels[True] or levels[False])
        self._times = [time for time, _ in self._levels]

    def most(self, start: float, end: float) -> int | None:
        """Return the most that was given out at a time between two moments, None if not known."""
        first, last = bisect_left(self._times, start), bisect_right(self._times, end)
        held = [size for _, size in self._levels[max(0, first - 1) : last]]
        return max(held) if held else None
