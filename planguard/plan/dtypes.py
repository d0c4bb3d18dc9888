"""Element types as Python libraries name them, to those of the plan format."""

from __future__ import annotations

from functools import cache
from typing import Any

from planguard.plan.actions import ITEM_BYTES

NAMES = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16",
    "float8_e4m3fn": "f8", "float8_e5m2": "f8", "float8_e4m3fnuz": "f8", "float8_e5m2fnuz": "f8",
    "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "bool",
}  # fmt: skip
"""Names of torch, numpy and ml_dtypes, but those that mean two sizes (``float``, ``int``)."""

TORCH_NAME = {plan: name for name, plan in reversed(NAMES.items())}
"""The other way round: the first name that torch has for a type."""


def of_tensor(tensor: Any) -> str | None:
    """Return the plan's name of the element type of a torch tensor; None where it has none."""
    return _of_torch(tensor.dtype)


@cache
def _of_torch(dtype: object) -> str | None:
    return NAMES.get(str(dtype).removeprefix("torch."))


def dtype_name(dtype: object) -> str:
    """Return the plan's name of a dtype.

    Args:
        dtype: A name of the plan format or of ``NAMES``, a ``torch.dtype``, a ``numpy.dtype``, or a
            scalar class of numpy. None of the libraries is imported.

    Raises:
        PlanError: It is none of them, or the plan format has no such type.
    """
    if isinstance(dtype, str):
        text = dtype
    elif isinstance(dtype, type):
        # Python's own float and int say no size; numpy's scalar classes do.
        text = dtype.__name__ if dtype.__module__ != "builtins" or dtype is bool else str(dtype)
    else:
        text = str(getattr(dtype, "name", dtype))
    text = text.removeprefix("torch.").removeprefix("numpy.")
    text = "bool" if text == "bool_" else text
    if text in ITEM_BYTES:
        return text
    if text in NAMES:
        return NAMES[text]
    from planguard.plan.defects import nearest, refusal  # readers of recordings refuse no type

    near = nearest(text, [*ITEM_BYTES, *NAMES])
    hint = f"{near} dtypes: {', '.join(ITEM_BYTES)}, or their names in torch and numpy".lstrip()
    raise refusal("unknown dtype", value=text, hint=hint)
