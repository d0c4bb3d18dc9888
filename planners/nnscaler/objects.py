"""Fields of nnScaler's IR objects: names, shapes, what kind of cell one is."""

from __future__ import annotations

from typing import Any

from .model import DTYPES, Shape


def kinds(obj: object) -> frozenset[str]:
    """Return the names of an object's classes."""
    return frozenset(cls.__name__ for cls in type(obj).__mro__)


def name_of(obj: Any) -> str:
    """Return the variable that generated code has for an IR object."""
    return f"{obj.name}_{obj.tid}"


def objects(value: Any) -> list[Any]:
    """Return the IR objects in a value, those inside tuples, dicts and slices too."""
    if isinstance(value, (tuple, list)):
        return [found for entry in value for found in objects(entry)]
    if isinstance(value, dict):
        return [found for entry in value.values() for found in objects(entry)]
    if isinstance(value, slice):
        return [found for e in (value.start, value.stop, value.step) for found in objects(e)]
    return [value] if hasattr(value, "tid") else []


def is_attribute(obj: Any) -> bool:
    """Tell whether an IR object is a parameter or buffer."""
    return bool(obj.is_attr())


def is_param(obj: Any) -> bool:
    """Tell whether an IR object is a parameter."""
    return hasattr(obj, "is_param") and bool(obj.is_param())


def is_tensor(obj: Any) -> bool:
    """Tell whether an IR object is a tensor."""
    return "IRTensor" in kinds(obj)


def spec_of(obj: Any) -> tuple[Shape | None, str | None]:
    """Return shape and dtype of an IR tensor."""
    if not is_tensor(obj):
        return None, None
    dtype = DTYPES.get(str(obj.dtype).removeprefix("torch."))
    shape = obj.origin_shape
    return (tuple(map(int, shape)) if shape is not None else None), dtype


def on_device(obj: Any, device: int) -> bool:
    """Tell whether an IR tensor, a primitive or a cell belongs to a device."""
    return device in obj.device
