"""Abstract values: what is known of a tensor without running anything."""

from __future__ import annotations

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
    """

    shape: Shape | None = None
    dtype: str | None = None
    grad: bool = False
    param: str = ""
    steps: tuple[int, ...] = ()
    pending: list[str] = field(default_factory=list)
    run: Run | None = None
    buffer: str = ""
    uid: int = field(default_factory=lambda: next(_numbers))


SampleSpec: TypeAlias = "dict[str, SampleSpec] | tuple[Shape, str]"
"""Shape and dtype of a sample, or of each of its entries."""


@dataclass(frozen=True)
class Sample:
    """What the data loader gives: shapes and dtypes by key, or None if the caller gave none."""

    spec: SampleSpec | None

    def get(self, key: object) -> Tensor | Sample:
        """Return one entry, of unknown shape if the caller did not describe it."""
        if isinstance(self.spec, dict) and str(key) in self.spec:
            return Sample(self.spec[str(key)]).whole()
        return Tensor()

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
