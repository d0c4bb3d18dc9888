"""The XML of MSCCL to records; every defect is a PlanError with its line."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.errors import PlanError

from ..common.reading import UNREADABLE, unpacked
from .elements import number, read_elements
from .model import LOCAL, RECEIVES, SENDS, Algorithm, Block, Step

if TYPE_CHECKING:
    from .elements import Element

MAX_BYTES = 128 * 2**20
MAX_GPUS = 1 << 16
MAX_BLOCKS = 1 << 12
MAX_STEPS = 1 << 20
_BUFFERS = ("i", "o", "s")
_KNOWN = {
    "algo": {
        "name", "proto", "nchannels", "nchunksperloop", "ngpus", "coll", "inplace", "outofplace",
        "minBytes", "maxBytes", "redop",
    },
    "gpu": {"id", "i_chunks", "o_chunks", "s_chunks"},
    "tb": {"id", "send", "recv", "chan"},
    "step": {
        "s", "type", "srcbuf", "srcoff", "dstbuf", "dstoff", "cnt", "depid", "deps", "hasdep",
    },
}  # fmt: skip

_KIND = itemgetter("type", "srcbuf", "dstbuf", "cnt", "depid", "deps", "hasdep")
_PLACES = itemgetter("s", "srcoff", "dstoff")
_FIELDS = len(_KNOWN["step"])
Known = dict[tuple[str, ...], Step]
"""A step for everything that a step may say but its number and its chunks."""


def load(obj: object) -> Algorithm:
    """Read an algorithm from a path, gzipped or not, or from bytes.

    Raises:
        PlanError: It cannot be read, or is malformed; the message names the line.
    """
    if isinstance(obj, bytes | bytearray):
        return read_algorithm(bytes(obj), "algorithm")
    if not isinstance(obj, str | Path):
        raise PlanError(
            "not an algorithm of MSCCL", value=type(obj).__name__, hint="give its XML file"
        )
    return read_algorithm(read_file(Path(obj)), str(obj))


def read_file(path: Path) -> bytes:
    """Return the bytes of a file, unpacked.

    Raises:
        PlanError: It cannot be read.
    """
    try:
        return unpacked(path, MAX_BYTES)
    except (*UNREADABLE, ValueError) as error:
        raise PlanError(f"cannot be read: {error}", file=str(path), hint="check it") from None


def read_algorithm(data: bytes, file: str) -> Algorithm:
    """Read an algorithm from its XML.

    Raises:
        PlanError: It is malformed; the message names the line, the value and a hint.
    """
    if len(data) > MAX_BYTES:
        raise PlanError(f"is larger than {MAX_BYTES} bytes", file=file, hint="split it")
    root = read_elements(data, file, depth=4)
    if root.tag != "algo":
        root.fail("expected the element <algo>", value=root.tag)
    _check(root)
    gpus = root.integer("ngpus", 1, MAX_GPUS)
    found: dict[int, tuple[Block, ...]] = {}
    known: Known = {}
    for gpu in root.within("gpu"):
        _check(gpu)
        number = gpu.integer("id", 0, gpus - 1)
        if number in found:
            gpu.fail("this gpu is there twice", value=number)
        found[number] = _blocks(gpu, number, gpus, known)
    missing = [number for number in range(gpus) if number not in found]
    if missing:
        root.fail(f"ngpus is {gpus}, but gpu {missing[0]} is missing", value=gpus)
    blocks = tuple(block for number in range(gpus) for block in found[number])
    if not blocks:
        root.fail("no thread block", hint="every gpu that takes part has some")
    _check_connections(blocks, root)
    name, protocol = root.text("name", "msccl")[:200], root.text("proto", "Simple")[:40]
    return Algorithm(file, name, protocol, gpus, blocks)


def _check(element: Element) -> None:
    known = _KNOWN[element.tag]
    for name in element.attributes:
        if name not in known:
            element.fail(f"unknown attribute {name!r}", hint=f"known: {', '.join(sorted(known))}")


def _blocks(gpu: Element, number: int, gpus: int, known: Known) -> tuple[Block, ...]:
    blocks = [_block(tb, number, gpus, known) for tb in gpu.within("tb")]
    sizes = {block.number: len(block.steps) for block in blocks}
    for at, tb in enumerate(gpu.children):
        if blocks[at].number != at:
            tb.fail("thread blocks are not numbered 0, 1, ...", value=blocks[at].number)
        for step, element in zip(blocks[at].steps, tb.children, strict=True):
            if step.waits is not None:
                _check_wait(step, element, at, sizes)
    return tuple(blocks)


def _check_wait(step: Step, element: Element, own: int, sizes: dict[int, int]) -> None:
    assert step.waits is not None  # noqa: S101 - it is asked of no other
    block, number = step.waits
    if block not in sizes:
        element.fail("depid names a thread block that this gpu does not have", value=block)
    if number >= sizes[block]:
        element.fail(f"deps names a step that thread block {block} does not have", value=number)
    if block == own and number >= element.integer("s", 0, MAX_STEPS):
        element.fail("the step waits for itself or for a later one of its thread block")


def _block(tb: Element, gpu: int, gpus: int, known: Known) -> Block:
    _check(tb)
    block = Block(
        gpu=gpu,
        number=tb.integer("id", 0, MAX_BLOCKS),
        send=tb.integer("send", -1, gpus - 1),
        recv=tb.integer("recv", -1, gpus - 1),
        channel=tb.integer("chan", -1, MAX_BLOCKS),
        steps=tuple([_step(element, at, known) for at, element in enumerate(tb.within("step"))]),
        line=tb.line,
    )
    for name, peer in (("send", block.send), ("recv", block.recv)):
        if peer == gpu:
            tb.fail(f"{name} names the gpu itself", value=peer, hint="copies inside a gpu are cpy")
    if block.send >= 0 and block.recv >= 0:
        return block
    for step, element in zip(block.steps, tb.children, strict=True):
        if step.kind in SENDS and block.send < 0:
            element.fail(f"{step.kind} in a thread block that sends to nobody", value=block.send)
        if step.kind in RECEIVES and block.recv < 0:
            element.fail(f"{step.kind} in a thread block with nobody to receive from")
    return block


def _step(element: Element, at: int, known: Known) -> Step:
    """Return a step: an algorithm has many, and few that differ in more than their chunks."""
    given = element.attributes
    try:
        key, (s, source, dest) = _KIND(given), _PLACES(given)
    except KeyError:
        return _read_step(element, at)
    like = known.get(key)
    if like is None:
        like = known[key] = _read_step(element, at)
        return like
    if len(given) != _FIELDS or number(s) != at or at > MAX_STEPS:
        return _read_step(element, at)
    first = number(source)
    last = first if dest == source else number(dest)
    if first is None or last is None or not (-1 <= first <= MAX_STEPS and -1 <= last <= MAX_STEPS):
        return _read_step(element, at)
    buffer, into = like.source[0], like.dest[0]
    source_at = buffer, first
    dest_at = source_at if first == last and buffer == into else (into, last)
    kind, count, waits, flags = like.kind, like.count, like.waits, like.flags
    return Step(kind, source_at, dest_at, count, waits, flags, element.line)


def _read_step(element: Element, at: int) -> Step:
    _check(element)
    if element.integer("s", 0, MAX_STEPS) != at:
        element.fail(f"steps are not numbered 0, 1, ...: expected s {at}", value=element.text("s"))
    kind = element.text("type")
    if kind not in SENDS | RECEIVES | LOCAL:
        known = ", ".join(sorted(SENDS | RECEIVES | LOCAL))
        element.fail("unknown type of step", value=kind, hint=f"known: {known}")
    for name in ("srcbuf", "dstbuf"):
        if element.text(name) not in _BUFFERS:
            element.fail(f"{name} is none of i, o, s", value=element.text(name))
    depid, deps = (element.integer(name, -1, MAX_STEPS) for name in ("depid", "deps"))
    if (depid < 0) != (deps < 0):
        element.fail("depid without deps, or deps without depid", value=(depid, deps))
    return Step(
        kind=kind,
        source=(element.text("srcbuf"), element.integer("srcoff", -1, MAX_STEPS)),
        dest=(element.text("dstbuf"), element.integer("dstoff", -1, MAX_STEPS)),
        count=element.integer("cnt", 0 if kind in LOCAL else 1, MAX_STEPS),
        waits=(depid, deps) if depid >= 0 else None,
        flags=element.integer("hasdep", 0, 1) == 1,
        line=element.line,
    )


def _check_connections(blocks: tuple[Block, ...], root: Element) -> None:
    """Refuse two thread blocks of a gpu at the same end of one connection."""
    ends: dict[tuple[str, int, int, int], Block] = {}
    for block in blocks:
        for end, peer in (("send", block.send), ("recv", block.recv)):
            if peer < 0:
                continue
            first = ends.setdefault((end, block.gpu, peer, block.channel), block)
            if first is not block:
                raise PlanError(
                    f"two thread blocks of gpu {block.gpu} {end} gpu {peer} on channel "
                    f"{block.channel}: the other is in line {first.line}",
                    file=root.file,
                    path=f"line {block.line}, <tb>",
                    value=block.number,
                    hint="give one of them another channel",
                )
