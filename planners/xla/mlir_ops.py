"""Operations and types of StableHLO in the words of HLO."""

from __future__ import annotations

import re

from .model import ELEMENT_TYPES, Instruction, Shape
from .text import split

_TENSOR = re.compile(r"tensor<((?:\d+x|\?x)*)([\w]+|complex<f(?:32|64)>)(?:,[^>]*)?>")
_TYPES = {"i1": "pred", "complex<f32>": "c64", "complex<f64>": "c128"}
_HANDLE = re.compile(r"channel_handle\s*=\s*#[\w.]+<handle\s*=\s*(\d+)")
_DENSE = r"{}\s*=\s*dense<([^>]*)>(?:\s*:\s*tensor<([0-9x]*)xi64>)?"
_RENAMED = {
    "case": "conditional",
    "if": "conditional",
    "manual-computation": "call",
    "composite": "call",
}


def read_types(text: str, *, whole: bool = False) -> list[Shape]:
    """Return the types of the results of a statement: those behind ``->``, or behind ``:``.

    Without an arrow the last one is the result, unless the ``whole`` list is.

    Raises:
        ValueError: A type is unknown.
    """
    arrow = text.rfind("->")
    colon = text.rfind(" : ") if arrow < 0 else -1
    behind = text[arrow + 2 :] if arrow >= 0 else text[colon + 3 if colon >= 0 else 0 :]
    behind = behind.strip()
    if behind.startswith("(") and behind.endswith(")"):
        behind = behind[1:-1]
    parts = split(behind, angles=True)
    types = [_type(part) for part in parts if "tensor<" in part or part.startswith("!")]
    return types if arrow >= 0 or whole or len(types) < 2 else types[-1:]


def _type(text: str) -> Shape:
    match = _TENSOR.search(text)
    if match is None:
        return Shape("token")
    name = match[2]
    short = _TYPES.get(name) or (f"s{name[1:]}" if re.fullmatch(r"i\d+", name) else name)
    short = f"u{name[2:]}" if re.fullmatch(r"ui\d+", name) else short.lower()
    if short not in ELEMENT_TYPES:
        raise ValueError(f"the type {name} is not known")
    dims = tuple(None if d == "?" else int(d) for d in match[1].split("x") if d)
    if any(d is not None and d > 2**62 for d in dims):
        raise ValueError("a dimension is too large")
    return Shape(short, dims)


def tuple_of(shapes: list[Shape]) -> Shape:
    """Return the shape of several results together."""
    return Shape("tuple", parts=tuple(shapes))


def sharding_of(text: str) -> dict[str, str]:
    """Return what an argument says of its sharding: ``sdy`` without spaces, and ``sharding``.

    ``sharding`` is ``{replicated}`` where either of the two dialects says so.
    """
    attrs: dict[str, str] = {}
    found = re.search(r"sdy\.sharding\s*=\s*#sdy\.sharding(<.*?\]>)", text)
    if found is not None:
        attrs["sdy"] = found[1].replace(" ", "")
        if is_replicated(attrs["sdy"]):
            attrs["sharding"] = "{replicated}"
    elif re.search(r'mhlo\.sharding\s*=\s*"\{replicated\}"', text):
        attrs["sharding"] = "{replicated}"
    return attrs


def is_replicated(sharding: str) -> bool:
    """Tell whether a sharding of Shardy, without spaces, cuts no dimension: ``<@mesh,[{},{}]>``."""
    return re.fullmatch(r"<@[\w$]+,\[(\{\},?)*\]>", sharding) is not None


def axes_of(sharding: str) -> set[str]:
    """Return the mesh axes that a sharding of Shardy cuts dimensions along, whole ones only.

    A part of an axis (``"x":(1)2``) does not count: it does not cut along all of it.
    """
    dims = sharding.partition("[")[2].rpartition("]")[0]
    return set(re.findall(r'"([^"]+)"(?!:\()', dims))


def manual(bare: str) -> dict[str, str]:
    """Return how the operands and results of a manual computation are cut.

    Each is a letter: of an operand ``r`` (every device gets all of it) or ``s`` (a part), of a
    result ``r``, ``a`` (cut along all manual axes, so that no two devices give the same part) or
    ``s`` (in between: devices give the same part, and nobody checks that they do).
    """
    found = re.search(
        r"in_shardings=\[(.*?)\]\s+out_shardings=\[(.*?)\]\s+manual_axes=\{([^}]*)\}", bare
    )
    if found is None:
        raise ValueError("a manual computation without shardings")
    into, out = (
        [part.replace(" ", "") for part in split(text, angles=True)] for text in found.groups()[:2]
    )
    axes = set(re.findall(r'"([^"]+)"', found[3]))
    return {
        "in": "".join("r" if is_replicated(one) else "s" for one in into),
        "out": "".join(
            "r" if is_replicated(one) else "a" if axes <= axes_of(one) else "s" for one in out
        ),
    }


def convert(
    name: str, op: str, shape: Shape, bare: str, operands: list[str], calls: list[str], line: int
) -> Instruction:
    """Return an operation as an instruction of HLO.

    Raises:
        ValueError: Its attributes cannot be read.
    """
    opcode = op.rpartition(".")[2].replace("_", "-")
    attrs: dict[str, str] = {}
    literal = ""
    opcode = _RENAMED.get(opcode, opcode)
    if opcode == "conditional":
        attrs |= {"if": "true"} if op.endswith("if") else {}
    elif opcode == "while":
        attrs |= {"condition": calls[0], "body": calls[1], "flat": "true"}
    elif opcode == "call" and not calls:
        target = re.search(r"@([\w$.\-]+)", bare)
        calls = [target[1]] if target else []
    elif opcode == "constant":
        literal = _literal(bare)
    elif calls and opcode != "call":
        attrs["to_apply"] = calls[0]
        calls = []
    if op == "sdy.manual_computation":
        attrs |= manual(bare)
    attrs |= _communication(op, bare) | _computation(opcode, bare)
    return Instruction(name, opcode, shape, tuple(operands), attrs, tuple(calls), literal, line)


def _literal(bare: str) -> str:
    found = re.search(r"dense<(.*?)>\s*(?::|$)", bare, flags=re.DOTALL)
    return found[1] if found else ""


def _communication(op: str, bare: str) -> dict[str, str]:
    attrs: dict[str, str] = {}
    handle = _HANDLE.search(bare)
    if handle and handle[1] != "0":
        attrs["channel_id"] = handle[1]
    for key in ("replica_groups", "source_target_pairs"):
        if re.search(rf"\b{key}\b", bare):
            attrs[key] = _dense(key, bare)
    if re.search(r"use_global_device_ids(?!\s*=\s*false)", bare):
        attrs["use_global_device_ids"] = "true"
    if re.search(r"is_host_transfer\s*=\s*true", bare):
        attrs["is_host_transfer"] = "true"
    if op.endswith("custom_call"):
        target = re.search(r"@([\w$.\-]+|\"[^\"]*\")", bare)
        attrs["custom_call_target"] = target[1] if target else ""
    return attrs


def _dense(key: str, bare: str) -> str:
    found = re.search(_DENSE.format(key), bare)
    if found is None:
        raise ValueError(f"{key} cannot be read")
    if "[" in found[1]:
        return found[1].replace("[", "{").replace("]", "}")
    return "{{" + found[1] + "}}" if found[1].strip() else "{}"


def _computation(opcode: str, bare: str) -> dict[str, str]:
    """Return the attributes that a value needs to be followed."""
    if opcode == "compare":
        direction = re.search(r"\b(EQ|NE|LT|LE|GT|GE)\b", bare)
        return {"direction": direction[1]} if direction else {}
    if opcode == "broadcast-in-dim":
        dims = re.search(r"dims\s*=\s*\[([\d,\s]*)\]", bare)
        return {"dimensions": "{" + (dims[1] if dims else "") + "}"}
    if opcode == "slice":
        ranges = re.search(r"\[([\d:,\s]+)\]", bare)
        return (
            {"slice": "".join(f"[{part.strip()}]" for part in ranges[1].split(","))}
            if ranges
            else {}
        )
    if opcode == "iota":
        along = re.search(r"dim\s*=\s*(\d+)", bare)
        return {"iota_dimension": along[1]} if along else {}
    return {}
