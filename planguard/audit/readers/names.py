"""Names that recorders use, in the words of plan files."""

from __future__ import annotations

from planguard.sources import is_library_elsewhere
from planguard.verdict import Source

OPS = {
    "allreduce": "all_reduce",
    "all_reduce": "all_reduce",
    "all_reduce_coalesced": "all_reduce",
    "allreduce_coalesced": "all_reduce",
    "allgather": "all_gather",
    "all_gather": "all_gather",
    "all_gather_v": "all_gather",
    "all_gather_base": "all_gather_into_tensor",
    "all_gather_single": "all_gather_into_tensor",
    "all_gather_into_tensor": "all_gather_into_tensor",
    "all_gather_into_tensor_coalesced": "all_gather_into_tensor",
    "allgather_base": "all_gather_into_tensor",
    "allgather_coalesced": "all_gather",
    "allgather_into_tensor_coalesced": "all_gather_into_tensor",
    "reducescatter": "reduce_scatter",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_v": "reduce_scatter",
    "reduce_scatter_base": "reduce_scatter_tensor",
    "reduce_scatter_single": "reduce_scatter_tensor",
    "reduce_scatter_tensor": "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor",
    "reduce_scatter_coalesced": "reduce_scatter",
    "broadcast": "broadcast",
    "broadcast_oop": "broadcast",
    "reduce": "reduce",
    "reduce_oop": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "alltoall": "all_to_all",
    "all_to_all": "all_to_all",
    "all_to_allv": "all_to_all_single",
    "alltoall_base": "all_to_all_single",
    "all_to_all_single": "all_to_all_single",
    "all_to_all_v_single": "all_to_all_single",
    "barrier": "barrier",
    "all_reduce_barrier": "barrier",
    "monitored_barrier": "barrier",
    "send": "send",
    "recv": "recv",
}
"""Names of recorders, in lower case and without underscores at the ends, to plan operations."""

DTYPES = {
    "double": "f64",
    "float64": "f64",
    "float": "f32",
    "float32": "f32",
    "half": "f16",
    "float16": "f16",
    "bfloat16": "bf16",
    "c10::bfloat16": "bf16",
    "c10::half": "f16",
    "float8_e4m3fn": "f8",
    "float8_e5m2": "f8",
    "float8_e4m3fnuz": "f8",
    "float8_e5m2fnuz": "f8",
    "long": "i64",
    "long int": "i64",
    "int64": "i64",
    "int": "i32",
    "int32": "i32",
    "short": "i16",
    "short int": "i16",
    "int16": "i16",
    "char": "i8",
    "signed char": "i8",
    "int8": "i8",
    "byte": "u8",
    "unsigned char": "u8",
    "uint8": "u8",
    "bool": "bool",
}
"""Element types as torch's recorders write them, in lower case, to those of plan files."""

REDUCE_OPS = {
    "sum": "sum",
    "avg": "avg",
    "prod": "product",
    "product": "product",
    "min": "min",
    "max": "max",
}

MAX_NAME = 200


def operation(name: str) -> str:
    """Return the plan's name of an operation; a name that is not known stays as it is."""
    bare = name.strip("_").lower()
    return OPS.get(bare) or OPS.get(bare.replace("_coalesced", "")) or name[:MAX_NAME]


def element_type(name: str) -> str | None:
    """Return the plan's name of an element type, or None."""
    return DTYPES.get(name.rpartition("torch.")[2].lower())


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
