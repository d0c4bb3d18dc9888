"""How much a communication node moves, with what is not known about it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planguard.plan.dtypes import NAMES

from .model import Arg, FxNode, Ref, Sym, TensorMeta, Val

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_WIDTHS = {"complex128": 16, "complex64": 8, "complex32": 4, "uint64": 8, "uint32": 4, "uint16": 2}


@dataclass(frozen=True)
class Size:
    """Elements and dtype of one tensor.

    Attributes:
        count: Elements, None when unknown.
        dtype: torch dtype name, empty when unknown.
        symbols: Expressions that were replaced by the value seen while tracing.
        unknown: Expressions that have no value before the program runs.
        constant: Product of the dimensions that are numbers; the symbols are the other ones.
        parts: How many equal parts the tensor was cut into.
    """

    count: int | None
    dtype: str
    symbols: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    constant: int = 1
    parts: int = 1

    def fields(self) -> dict[str, Any]:
        """Return the size fields of an action; none when the size is unknown."""
        if self.count is None:
            return {}
        if self.dtype in NAMES:
            return {"count": self.count, "dtype": NAMES[self.dtype]}
        width = _WIDTHS.get(self.dtype)
        return {} if width is None else {"bytes": self.count * width}

    def divided(self, parts: int) -> Size:
        """Return the size of one of ``parts`` equal parts."""
        count = None if self.count is None or parts < 1 else self.count // parts
        return replace(self, count=count, parts=self.parts * parts)


NOTHING_KNOWN = Size(None, "", (), ("the size is not in the graph",))


def tensor_size(val: Val) -> Size:
    """Return the size of a tensor value; symbolic dimensions count with their traced value."""
    if not isinstance(val, TensorMeta):
        return NOTHING_KNOWN
    dims, symbols, unknown = resolve(val.shape)
    count = None if unknown else math.prod(dims)
    constant = math.prod(dim for dim in val.shape if isinstance(dim, int))
    return Size(count, val.dtype, tuple(symbols), tuple(unknown), constant)


def resolve(values: Iterable[int | Sym]) -> tuple[list[int], list[str], list[str]]:
    """Split dimensions into their values, the symbols used, and the symbols without a value."""
    numbers: list[int] = []
    symbols: list[str] = []
    unknown: list[str] = []
    for value in values:
        if isinstance(value, Sym):
            (unknown if value.hint is None else symbols).append(value.expr)
            numbers.append(value.hint or 0)
        else:
            numbers.append(value)
    return numbers, symbols, unknown


def values_of(arg: Arg, nodes: Mapping[str, FxNode]) -> list[Val]:
    """Return the values behind an argument: one for a node, several for a list."""
    if isinstance(arg, tuple):
        return [value for item in arg for value in values_of(item, nodes)]
    if isinstance(arg, Ref):
        value = nodes[arg.node].val if arg.node in nodes else None
        return list(value) if isinstance(value, tuple) else [value]
    return []


def splits(arg: Arg, nodes: Mapping[str, FxNode], row: int) -> tuple[list[int] | None, list[str]]:
    """Return split sizes in elements, None with the reasons where only the run knows them.

    What one rank sends another has to expect, and their symbols have nothing to do with each other:
    that the values seen while tracing agree says nothing of the next batch. ``exchanged`` decides.

    Args:
        arg: The list of split sizes, in rows of dimension 0.
        nodes: Nodes by name.
        row: Elements per row.
    """
    found: list[int | Sym] = []
    for item in arg if isinstance(arg, tuple) else ():
        value: Any = nodes[item.node].val if isinstance(item, Ref) and item.node in nodes else item
        if not isinstance(value, (int, Sym)):
            return None, ["split sizes are computed while the program runs"]
        found.append(value)
    symbols = [value.expr for value in found if isinstance(value, Sym)]
    numbers = [value * row for value in found if isinstance(value, int)]
    return (None if symbols else numbers), symbols
