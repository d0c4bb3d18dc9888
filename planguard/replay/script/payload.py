"""Data that say where they come from.

Every action that sends has a serial number. A message is that number, written in base 251 and
repeated; receive buffers start as 0xFF, which no message contains. So the receiver can tell who
sent what it got, and how much of its buffer was left untouched (gloo accepts a message that is
shorter than the posted receive without a word). What is reduced must be numbers: small whole ones,
drawn from the serial, so that every sum is exact in the data type.
"""

# ruff: noqa: TC004

from __future__ import annotations

import bisect
import functools
from typing import TYPE_CHECKING

from planguard.replay.script.data import BACKEND, PROGRAMS, RANKS, Op

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import torch

BASE = 251
PERIOD = 61
DTYPES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "i64": "int64",
    "i32": "int32",
    "i8": "int8",
    "u8": "uint8",
}


def place(process: int, op: Op) -> str:
    """Name an action as the plan does: rank 5, action 1284 is r5#1284."""
    at = op.get("place", op["at"])
    member = f".{op['member']}" if "member" in op else ""
    label = f" '{op['label']}'" if op.get("label") else ""
    return f"r{RANKS[process]}#{at}{member}{label}"


def carriers(program: Sequence[Op]) -> Iterator[Op]:
    """Yield the operations of a program that may carry data: members of batches, of threads."""
    for action in program:
        for thread in action.get("threads", ()):
            yield from carriers(thread)
        yield from action.get("ops", (action,))


@functools.cache
def senders() -> list[tuple[int, int, int, Op]]:
    """List every action that carries data as (first serial, how many, process, action)."""
    found = [
        (op["serial"], op.get("width", 1), process, op)
        for process, program in enumerate(PROGRAMS)
        for op in carriers(program)
        if "serial" in op
    ]
    return sorted(found, key=lambda entry: entry[0])


def sender(serial: int) -> tuple[int, Op] | None:
    """Return (process, action) whose data carry this serial number."""
    at = bisect.bisect_right(senders(), serial, key=lambda entry: entry[0]) - 1
    if at < 0:
        return None
    first, width, process, op = senders()[at]
    return (process, op) if serial < first + width else None


def place_of(serial: int) -> str:
    """Name the action whose data carry this serial number, and which part of them."""
    found = sender(serial)
    if found is None:
        return "no action of the plan"
    process, op = found
    part = f" part {serial - op['serial']}" if op.get("width", 1) > 1 else ""
    return f"{place(process, op)}{part}"


def device() -> torch.device:
    """Return where tensors live: on the process's GPU for nccl."""
    return torch.device("cuda" if BACKEND == "nccl" else "cpu")


def unit(nbytes: int) -> int:
    """Say how many bytes of the serial number fit into a message of this size."""
    return 4 if nbytes >= 4 else 2 if nbytes >= 2 else 1


def message(serial: int, nbytes: int) -> torch.Tensor:
    """Return ``nbytes`` bytes that repeat the serial number."""
    digits = [serial // BASE**power % BASE for power in range(unit(nbytes))]
    one = torch.tensor(digits, dtype=torch.uint8, device=device())
    return one.repeat(-(-nbytes // len(digits)))[:nbytes].clone()


def blank(nbytes: int) -> torch.Tensor:
    """Return a receive buffer in which no byte looks like data."""
    return torch.full((nbytes,), 0xFF, dtype=torch.uint8, device=device())


def filled(data: torch.Tensor) -> int:
    """Count the bytes before the untouched tail of a receive buffer."""
    touched = (data != 0xFF).nonzero()
    return int(touched[-1]) + 1 if len(touched) else 0


def origin(data: torch.Tensor, hint: int | None) -> int | None:
    """Return the serial number that received bytes carry; None for bytes nobody sent.

    Short messages hold only the last digits; among the numbers that fit, ``hint`` is preferred.
    """
    size = unit(len(data))
    value = sum(int(data[power]) * BASE**power for power in range(size))
    fits = [value] if size == 4 else range(value, senders()[-1][0] + 64, BASE**size)
    known = [serial for serial in fits if sender(serial) is not None]
    serial = hint if hint in known else next(iter(known), None)
    if serial is None or not torch.equal(data, message(serial, len(data))):
        return None
    return serial


def family(op: Op) -> str:
    """Name the operation as gloo sees it: with one tensor or a list makes no difference."""
    if op["op"] in ("send", "recv"):
        return "point-to-point"
    name: str = op["op"]
    return name.removesuffix("_into_tensor").removesuffix("_tensor").removesuffix("_single")


def differences(mine: Op, theirs: Op) -> str:
    """Say in which ways two actions that met do not fit each other."""
    found = []
    if family(mine) != family(theirs):
        found.append(f"{theirs['op']} there, {mine['op']} here")
    for name in ("label", "nbytes", "dtype", "root", "reduce_op"):
        a, b = mine.get(name), theirs.get(name)
        if name == "nbytes" and "ins" in mine:
            continue  # members of an all-to-all may send different totals: its chunks must fit
        if a is not None and b is not None and a != b:
            found.append(f"{name} {b} there, {a} here")
    return "; ".join(found)


def check_message(me: int, op: Op, data: torch.Tensor, expect: int | None) -> str | None:
    """Compare a received buffer with what the plan says; return the complaint or None.

    Args:
        me: This process.
        op: The receiving action.
        data: The receive buffer, bytes.
        expect: Serial number that must be in it; None accepts any sender whose action fits.
    """
    meant = len(data)
    if meant == 0 or op.get("unchecked"):
        return None
    got = filled(data)
    serial = origin(data[:got], expect) if got else None
    if serial is None:
        return f"{place(me, op)}: {'unknown data' if got else 'no data'} in a buffer of {meant} B"
    if expect is not None and serial != expect:
        return f"{place(me, op)}: got data of {place_of(serial)}, meant is {place_of(expect)}"
    found = sender(serial)
    unlike = differences(op, found[1]) if found is not None else ""
    if unlike:
        return f"{place(me, op)}: data of {place_of(serial)} do not fit: {unlike}"
    if got != meant:
        return f"{place(me, op)}: {got} of {meant} B arrived from {place_of(serial)}"
    return None


def largest(kind: str, members: int) -> int:
    """Return how large one addend may be so that the sum over all members stays exact."""
    exact = {"f64": 1 << 40, "f32": 1 << 24, "f16": 2048, "bf16": 256, "i8": 127, "u8": 255}
    return max(1, min(1 << 16, exact.get(kind, 1 << 31) // max(1, members)))


def numbers(serial: int, op: Op, members: int) -> torch.Tensor:
    """Return the operand of one rank for a reduction: whole numbers drawn from the serial."""
    kind: str = op["torch"]
    top = 2 if op.get("reduce_op") == "product" else largest(kind, members)
    seed = [(serial * 2654435761 + k * 40503 + serial * k * 977) >> 7 for k in range(PERIOD)]
    whole = torch.tensor([1 + value % top for value in seed], device=device())
    one = whole.to(getattr(torch, DTYPES[kind]))
    count = op["nbytes"] // one.element_size()
    return one.repeat(-(-count // PERIOD))[:count].clone()


def combine(parts: Sequence[torch.Tensor], reduce_op: str) -> torch.Tensor:
    """Reduce the operands in the data type of the action."""
    result = parts[0].clone()
    for part in parts[1:]:
        if reduce_op == "max":
            result = torch.maximum(result, part)
        elif reduce_op == "min":
            result = torch.minimum(result, part)
        elif reduce_op == "product":
            result = result * part
        elif reduce_op in ("band", "bor", "bxor"):
            name = {"band": "bitwise_and", "bor": "bitwise_or", "bxor": "bitwise_xor"}[reduce_op]
            result = getattr(torch, name)(result, part)
        else:
            result = result + part
    return result


def check_reduced(me: int, op: Op, data: torch.Tensor, chunk: int = 0) -> str | None:
    """Compare the result of a reduction with the one the plan means; return the complaint."""
    if op.get("unchecked"):
        return None
    expect: list[int] = op["expect"]
    reduce_op = op.get("reduce_op") or "sum"
    if all(expect):
        parts = [numbers(serial + chunk, op, len(expect)) for serial in expect]
        if torch.equal(combine(parts, reduce_op), data):
            return None
    met = [sender(serial) for serial in op.get("met", expect)]
    others = [f"{place(*m)}" for m in met if m is not None]
    unlike = {differences(op, m[1]) for m in met if m is not None} - {""}
    why = f" ({'; '.join(sorted(unlike))})" if unlike else ""
    return (
        f"{place(me, op)}: the result is not the {reduce_op} the plan means; "
        f"it met {', '.join(others)}{why}"
    )
