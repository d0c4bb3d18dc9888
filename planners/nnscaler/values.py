"""Abstract values: what is known of a tensor without running anything."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from .model import DTYPES, Shape

if TYPE_CHECKING:
    from .tape import Run

_numbers = itertools.count()


@dataclass(eq=False)
class Tensor:
    """A tensor, with what is known of it.

    Attributes:
        shape: None if unknown.
        dtype: Name in the plan format, None if unknown.
        grad: True if autograd tracks it.
        param: Attribute name of a parameter, else "".
        steps: Indices of the steps of this rank that made it.
        pending: Handles that nnScaler's ``AsyncCommHandler`` keeps under this very object.
        run: The forward run of a segment that returned it.
        buffer: Name of its memory in the plan, for what is in flight while it is used.
        expression: What its unknown shape and dtype are computed from, shortened to a digest; the
            same for tensors that are computed alike from inputs of one shape. "" if not known.
    """

    shape: Shape | None = None
    dtype: str | None = None
    grad: bool = False
    param: str = ""
    steps: tuple[int, ...] = ()
    pending: list[str] = field(default_factory=list)
    run: Run | None = None
    buffer: str = ""
    expression: str = ""
    uid: int = field(default_factory=lambda: next(_numbers))


SampleSpec: TypeAlias = "dict[str, SampleSpec] | tuple[Shape, str]"
"""Shape and dtype of a sample, or of each of its entries."""


@dataclass(frozen=True)
class Sample:
    """What the data loader gives: shapes and dtypes by key, or None if the caller gave none."""

    spec: SampleSpec | None
    name: str = ""

    def get(self, key: object) -> Tensor | Sample:
        """Return one entry, of unknown shape if the caller did not describe it."""
        if isinstance(self.spec, dict) and str(key) in self.spec:
            return Sample(self.spec[str(key)]).whole()
        return Tensor(
            expression=expression("input", self.name, str(key)) if self.spec is None else ""
        )

    def whole(self) -> Tensor | Sample:
        """Return the sample itself: a tensor if it is described as one."""
        return Tensor(*self.spec) if isinstance(self.spec, tuple) else self


@dataclass(frozen=True)
class Dtype:
    """A name such as ``torch.float32``, in the plan format; None if the format has no such type."""

    name: str | None


class Unknown:
    """A value that is no tensor and of which nothing is known."""


UNKNOWN: Final = Unknown()


def expression(*parts: object) -> str:
    """Return a digest of what a shape is computed from, "" if a part of it is not known.

    Tensors count as their shape and dtype, or as their own expression: two ranks whose weights have
    one shape compute tensors of one shape from one input.
    """
    text = _written(parts)
    return "" if text is None else hashlib.sha256(text.encode()).hexdigest()[:24]


COUNT = "#"
"""Begins the expression of a number that was computed from shapes alone, not from data."""


def part_of(whole: object, at: int) -> str:
    """Return the expression of one of several results of which nothing is known."""
    counts = isinstance(whole, Tensor) and whole.expression.startswith(COUNT)
    digest = expression("part", whole, at)
    return COUNT + digest if digest and counts else digest


def _written(value: object) -> str | None:
    if isinstance(value, Tensor):
        if value.shape is not None and value.dtype is not None:
            return f"tensor{value.shape}{value.dtype}"
        return f"<{value.expression}>" if value.expression else None
    if isinstance(value, Sample):
        return f"sample {value.name}" if value.spec is None else None
    if isinstance(value, (tuple, list)):
        inside = [_written(entry) for entry in value]
        return None if None in inside else f"({','.join(map(str, inside))})"
    if isinstance(value, dict):
        return _written([(str(key), entry) for key, entry in sorted(value.items())])
    if isinstance(value, slice):
        return _written(("slice", value.start, value.stop, value.step))
    if isinstance(value, Dtype):
        return f"dtype {value.name}" if value.name is not None else None
    if value is None or value is Ellipsis or isinstance(value, (bool, int, float, str)):
        return repr(value)
    return None


def dtype_of(dotted: str) -> Dtype | None:
    """Return the dtype of ``torch.<name>``, None if that is no dtype."""
    head, _, name = dotted.partition(".")
    if head != "torch":
        return None
    if name in DTYPES:
        return Dtype(DTYPES[name])
    return Dtype(None) if name in {"complex64", "complex128", "cfloat", "cdouble"} else None


def tensors(value: object) -> list[Tensor]:
    """Return the tensors in a value, those inside tuples and dicts too."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [found for entry in value for found in tensors(entry)]
    if isinstance(value, dict):
        return [found for entry in value.values() for found in tensors(entry)]
    return []
