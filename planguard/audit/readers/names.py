"""Names that recorders use, in the words of plan files."""

from __future__ import annotations

from planguard.plan.dtypes import NAMES
from planguard.plan.vocabulary import RECORDED
from planguard.sources import is_library_elsewhere
from planguard.verdict import Source

_DTYPES = {
    **NAMES,
    "double": "f64", "float": "f32", "half": "f16", "c10::half": "f16", "c10::bfloat16": "bf16",
    "long": "i64", "long int": "i64", "int": "i32", "short": "i16", "short int": "i16",
    "char": "i8", "signed char": "i8", "byte": "u8", "unsigned char": "u8",
}  # fmt: skip
"""Element types as torch's recorders write them, in lower case, to those of plan files."""

REDUCE_OPS = {
    **{op: op for op in ("sum", "avg", "product", "min", "max")},
    "prod": "product",
}

MAX_NAME = 200


def operation(name: str) -> str:
    """Return the plan's name of an operation; a name that is not known stays as it is."""
    bare = name.strip("_").lower()
    return RECORDED.get(bare) or RECORDED.get(bare.replace("_coalesced", "")) or name[:MAX_NAME]


def element_type(name: str) -> str | None:
    """Return the plan's name of an element type, or None."""
    return _DTYPES.get(name.rpartition("torch.")[2].lower())


def program_frames(frames: list[tuple[str, int, str]], limit: int = 6) -> tuple[Source, ...]:
    """Return the frames of the program, innermost first, without those of libraries.

    Args:
        frames: File, line and function, innermost first.
        limit: Frames that are kept.
    """
    kept = [
        Source(file[-MAX_NAME:], line, function[:MAX_NAME])
        for file, line, function in frames
        if not is_library_elsewhere(file)
    ]
    return tuple(kept[:limit])
