"""The JSON of MSCCL++ to records; every defect is a PlanError with its JSON path."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.errors import PlanError

from ..common.reading import At, load_json
from .gpus import read_gpu
from .model import Program
from .operations import BlockReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .model import Block, BlockId
    from .options import MscclppOptions

MAX_GPUS = 1 << 16
MAX_BLOCKS = 1 << 16
_TOP = (
    "name", "collective", "protocol", "inplace", "reuse_resources", "gpus", "num_threads_per_block",
    "use_double_scratch_buffer", "buffer_alignment", "min_message_size", "max_message_size",
)  # fmt: skip


def read_program(obj: object, options: MscclppOptions) -> Program:
    """Read an execution plan from a path, gzipped or not, or from the parsed object.

    Raises:
        PlanError: It is malformed; the message has the JSON path, the value and a hint.
    """
    top = _document(obj)
    found = top.fields(*_TOP)
    for name in ("name", "collective", "gpus"):
        if name not in found:
            top.fail(f"{name!r} is missing", hint="docs/planners/mscclpp.md lists the fields")
    elements = list(found["gpus"].each())
    if not 1 <= len(elements) <= MAX_GPUS:
        found["gpus"].fail(f"expected 1 to {MAX_GPUS} gpus")
    gpus = [read_gpu(element, len(elements)) for element in elements]
    for place, gpu in enumerate(gpus):
        if gpu.number != place:
            elements[place].fail("gpus are not numbered 0, 1, ...", hint="sort them by id")

    @cache
    def chunk_bytes() -> int:  # asked for by the first pipeline, if there is one
        return options.chunk_bytes or 2 * max(_units(found["gpus"].value), default=1)

    blocks: dict[BlockId, Block] = {}
    readers = []
    for gpu in gpus:
        for block in gpu.blocks:
            reader = BlockReader(gpu, gpus, block, chunk_bytes)
            if (gpu.number, reader.number) in blocks:
                block.fail("this thread block is there twice", hint="number them 0, 1, ...")
            blocks[gpu.number, reader.number] = reader.read()
            readers.append(reader)
            if len(blocks) > MAX_BLOCKS:
                block.fail(f"more than {MAX_BLOCKS} thread blocks")
    return Program(
        file=top.file or "program.json",
        name=found["name"].text(200),
        gpus=len(gpus),
        blocks=blocks,
        double_scratch=found["use_double_scratch_buffer"].value is True
        if "use_double_scratch_buffer" in found
        else False,
        pipelines=max((reader.iterations for reader in readers), default=0),
        looped_packets=any(reader.looped_packets for reader in readers),
        unsynchronized=tuple(place for reader in readers for place in reader.missing),
    )


def _document(obj: object) -> At:
    if isinstance(obj, dict):
        return At(obj)
    if isinstance(obj, str | Path):
        return load_json(Path(obj))
    raise PlanError(
        "not an execution plan of MSCCL++",
        value=type(obj).__name__,
        hint="give its JSON file, or the parsed object",
    )


def _units(value: object) -> Iterator[int]:
    """Yield the unit sizes of all pipelines, wherever they are well-formed."""
    open_values = [value]
    while open_values:
        value = open_values.pop()
        if isinstance(value, list):
            open_values.extend(value)
        elif isinstance(value, dict):
            open_values.extend(value.values())
            unit = value.get("unit_size")
            if type(unit) is int and 1 <= unit < 1 << 61:
                yield unit
