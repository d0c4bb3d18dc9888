"""Plain records of an XLA program, the same for HLO text and for StableHLO."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from msgspec import Struct

from planguard.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Iterator

_BITS = {
    "pred": 8, "s2": 2, "u2": 2, "s4": 4, "u4": 4, "s8": 8, "u8": 8, "s16": 16, "u16": 16,
    "s32": 32, "u32": 32, "s64": 64, "u64": 64, "f16": 16, "bf16": 16, "f32": 32, "f64": 64,
    "c64": 64, "c128": 128, "f4e2m1fn": 4, "f8e3m4": 8, "f8e4m3": 8, "f8e4m3fn": 8,
    "f8e4m3b11fnuz": 8, "f8e4m3fnuz": 8, "f8e5m2": 8, "f8e5m2fnuz": 8, "f8e8m0fnu": 8,
}  # fmt: skip
_PLAN_DTYPES = {
    "pred": "bool", "s8": "i8", "u8": "u8", "s16": "i16", "s32": "i32", "s64": "i64",
    "f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64",
}  # fmt: skip
INTEGERS = frozenset(name for name in _BITS if name[0] in "su") | {"pred"}
ELEMENT_TYPES = frozenset(_BITS)


class Shape(Struct, frozen=True):
    """The shape of a value.

    Attributes:
        dtype: Element type in HLO's spelling; ``tuple``, ``token`` or ``opaque``.
        dims: Sizes; None where the size is dynamic.
        parts: Shapes of the elements of a tuple.
    """

    dtype: str
    dims: tuple[int | None, ...] = ()
    parts: tuple[Shape, ...] = ()

    def bytes(self) -> int | None:
        """Return the number of bytes, or None if some dimension is dynamic."""
        if self.dtype == "tuple":
            sizes = [part.bytes() for part in self.parts]
            return None if None in sizes else sum(size or 0 for size in sizes)
        if self.dtype not in _BITS:
            return 0
        if None in self.dims:
            return None
        return (math.prod(dim or 0 for dim in self.dims) * _BITS[self.dtype] + 7) // 8

    def plan_dtype(self) -> str | None:
        """Return the element type in the spelling of the plan format, None if it has none."""
        return "f8" if self.dtype.startswith("f8") else _PLAN_DTYPES.get(self.dtype)

    def leaves(self) -> Iterator[Shape]:
        """Yield the arrays of a shape, tokens left out."""
        if self.dtype == "tuple":
            for part in self.parts:
                yield from part.leaves()
        elif self.dtype in _BITS:
            yield self


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        name: Name, unique in its computation, without ``%``.
        opcode: HLO's spelling, ``all-reduce``; StableHLO operations are renamed to it.
        shape: Shape of the result.
        operands: Names of the operands.
        attrs: Attributes as text.
        calls: Computations it names, in order: branches, body, condition, ``to_apply``.
        literal: Text between the parentheses of a constant, a parameter or an iota.
        line: Line in the file.
    """

    name: str
    opcode: str
    shape: Shape
    operands: tuple[str, ...] = ()
    attrs: dict[str, str] = field(default_factory=dict)
    calls: tuple[str, ...] = ()
    literal: str = ""
    line: int = 0


@dataclass(frozen=True)
class Computation:
    """A computation.

    Attributes:
        name: Name without ``%``.
        instructions: In the order of the text.
        root: Name of the instruction whose value it returns; None if the text has none.
        inner: True for a region, which sees the values of what surrounds it.
    """

    name: str
    instructions: tuple[Instruction, ...]
    root: str | None
    inner: bool = False


@dataclass(frozen=True)
class Module:
    """One program of one or several devices.

    Attributes:
        name: Name of the module.
        file: Where it was read from.
        computations: By name.
        entry: Name of the computation that runs.
        replicas: ``replica_count``.
        partitions: ``num_partitions``.
        scheduled: True if the order of the text is the order of execution.
        places: Stack frame number to (file, line, function) of the user's code.
        sharded: What a partitioner has still to do, in words; empty if nothing.
    """

    name: str
    file: str
    computations: dict[str, Computation]
    entry: str
    replicas: int = 1
    partitions: int = 1
    scheduled: bool = True
    places: dict[int, tuple[str, int, str]] = field(default_factory=dict)
    sharded: str = ""
    index: dict[str, dict[str, Instruction]] = field(default_factory=dict, repr=False)

    def named(self, computation: Computation) -> dict[str, Instruction]:
        """Return the instructions of a computation by name; the answer is kept."""
        if computation.name not in self.index:
            self.index[computation.name] = {i.name: i for i in computation.instructions}
        return self.index[computation.name]

    @property
    def devices(self) -> int:
        """Number of devices that run the program."""
        return self.replicas * self.partitions

    def fail(
        self, line: int, message: str, *, value: object = None, hint: str = "", code: str = "PG901"
    ) -> NoReturn:
        """Raise a PlanError about a line of the text."""
        fail(self.file, line, message, value=value, hint=hint, code=code)


def fail(
    file: str, line: int, message: str, *, value: object = None, hint: str = "", code: str = "PG901"
) -> NoReturn:
    """Raise a PlanError about a line of a text."""
    raise PlanError(message, code=code, file=file, path=f"line {line}", value=value, hint=hint)
