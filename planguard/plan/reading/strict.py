"""What the fast path of the reader leaves open: ``x-`` names, repeated keys, places of errors."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import msgspec

from planguard.plan.compiling.operations import trouble_with
from planguard.plan.defects import nearest, refusal
from planguard.plan.document import (
    SCHEMA,
    ApproximationSpec,
    Document,
    FusionSpec,
    GroupSpec,
    MeshSpec,
    ProducerSpec,
    TensorSpec,
    Use,
)
from planguard.plan.nodes import OP_CLASSES, Action, Part
from planguard.plan.pointers import Step, render, step
from planguard.plan.reading.standins import StandIns
from planguard.records import converted, decoder_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.errors import PlanError

_UNKNOWN_FIELD = re.compile(r"unknown field `(.*)`")
_PLACE = re.compile(r"^(.*?)(?: - at `(?:key in )?(\$.*)`)?$", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")

_MAPS: dict[str, Any] = {
    "templates": list[Action],
    "groups": GroupSpec,
    "tensors": TensorSpec,
    "ranks": Use,
}
"""Fields that are maps from names, with the type of their entries."""


def parse_slowly(data: bytes, file: str | None) -> Document:
    """Return the document after dropping ``x-`` names, or raise with the exact place.

    Taken only by a text that the typed decoder refused.

    Raises:
        PlanError: The text is not a plan.
    """
    document = _without_top_extensions(data)
    if document is not None:
        return document
    if not data.strip():
        hint = "a plan is a JSON object: planguard schema"
        raise refusal("the file is empty" if file else "the text is empty", file=file, hint=hint)
    try:
        plan = msgspec.json.decode(data)
    except msgspec.ValidationError as error:  # a number out of range, in any field
        raise _number_error(data, error, file) from None
    except msgspec.DecodeError as error:
        raise _syntax_error(data, str(error), file) from None
    except UnicodeDecodeError as error:
        hint = "write the file as UTF-8"
        raise refusal(f"not UTF-8: {error.reason}", file=file, hint=hint) from None
    except RecursionError:
        hint = "blocks nest at most Limits.nesting deep"
        raise refusal("nested too deep", file=file, hint=hint) from None
    colons = msgspec.json.encode(plan).count(b":")
    if b"\\u003" in data or data.count(b":") != colons:
        refuse_duplicate_keys(data, file)
    _drop_extensions(plan)
    stand_ins = StandIns(plan)
    try:
        document = converted(plan, Document)
    except msgspec.ValidationError as error:
        raise _schema_error(plan, error, file, stand_ins) from None
    stand_ins.replace(document)
    return document


def _without_top_extensions(data: bytes) -> Document | None:
    """Return the document if nothing but ``x-`` fields at the top stands in the way, else None.

    That is where extensions usually are, and taking them out of the text is eight times faster
    than out of the decoded plan. Duplicate keys are found as by the fast path: what was dropped
    has to make up for the colons that are missing.
    """
    try:
        top = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        dropped = {key: top.pop(key) for key in list(top) if key.startswith("x-")}
        document = decoder_of(Document).decode(msgspec.json.encode(top))
        kept = msgspec.json.encode({key: msgspec.json.decode(raw) for key, raw in dropped.items()})
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    colons = msgspec.json.encode(document).count(b":") + kept.count(b":")
    return document if colons == data.count(b":") and b"\\u003" not in data else None


def refuse_duplicate_keys(data: bytes, file: str | None) -> None:
    """Raise if an object of the text has a key twice; exact, at the cost of a second parser.

    Raises:
        PlanError: A duplicate key.
    """
    try:
        plan = json.loads(data.decode(), object_pairs_hook=_pairs)
    except (ValueError, RecursionError) as error:
        raise refusal(f"not JSON: {error}", file=file, hint="write the file again") from None
    for path, value in _objects(plan):
        if isinstance(value, _Repeated):
            raise refusal(
                "key given twice",
                file=file,
                path=step(path, value.key),
                value=value.key,
                hint="JSON readers disagree on which of the two counts: keep one",
            )


class _Repeated(dict[str, Any]):
    """An object with a repeated key."""

    key = ""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    marked = _Repeated(plain)
    keys = [key for key, _ in pairs]
    marked.key = next(key for place, key in enumerate(keys) if key in keys[:place])
    return marked


def _objects(value: Any, path: str = "$") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield path, value
        for key, inner in value.items():
            yield from _objects(inner, step(path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _objects(inner, f"{path}[{index}]")


def _drop_extensions(plan: Any) -> None:
    """Drop, in place, the fields whose names start with ``x-``.

    Only fields: the names of groups, templates, tensors and mesh dimensions are the plan's own.
    """
    stack = [plan]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            for key in [key for key in value if key.startswith("x-")]:
                del value[key]
            for key, inner in value.items():
                if key in _MAPS and isinstance(inner, dict):
                    stack += inner.values()
                elif isinstance(inner, dict | list) and key != "peer":
                    stack.append(inner)
        elif isinstance(value, list):
            stack += value


def _syntax_error(data: bytes, message: str, file: str | None) -> PlanError:
    match = re.search(r"\(byte (\d+)\)", message)
    hint = "plans are UTF-8 JSON without comments, byte order mark or trailing text"
    if match is None:
        return refusal(f"not JSON: {message}", file=file, hint=hint)
    offset = int(match[1])
    line = data.count(b"\n", 0, offset) + 1
    column = offset - data.rfind(b"\n", 0, offset)
    text = message.removeprefix("JSON is malformed: ").partition(" (byte")[0]
    value = data[max(0, offset - 20) : offset + 20].decode(errors="backslashreplace")
    return refusal(
        f"not JSON, line {line} column {column}: {text}", file=file, value=value, hint=hint
    )


def _number_error(data: bytes, error: Exception, file: str | None) -> PlanError:
    del data
    message, _ = _split(error)
    return refusal(message, file=file, hint="numbers are finite and below 2^63")


def _split(error: Exception) -> tuple[str, str]:
    match = _PLACE.match(str(error))
    if match is None:
        return str(error), "$"
    return match[1], match[2] or "$"


def _schema_error(plan: Any, error: Exception, file: str | None, stand_ins: StandIns) -> PlanError:
    message, text = _split(error)
    steps = _steps(text)
    if _ELSEWHERE in steps:
        message, steps = _refine(plan, message, steps)
    stand_ins.take_back()
    value = _value_at(plan, steps)
    unknown = _UNKNOWN_FIELD.search(message)
    if unknown is not None:
        return _unknown_field(value, unknown[1], render(steps), file)
    hint = _hint(steps, value)
    return refusal(message, file=file, path=render(steps), value=value, hint=hint)


_ELSEWHERE = "..."


def _steps(text: str) -> list[Step]:
    return [
        int(index) if index.isdigit() else name or _ELSEWHERE for name, index in _STEP.findall(text)
    ]


def _refine(plan: Any, message: str, steps: list[Step]) -> tuple[str, list[Step]]:
    """Find which entry of a map the error is in; msgspec leaves its key out."""
    field = steps[0]
    kind = _MAPS.get(str(field))
    if kind is not None and steps[1] == _ELSEWHERE:
        for key, value in plan[field].items():
            try:
                converted(value, kind)
            except msgspec.ValidationError as error:
                message, inner = _split(error)
                steps = [field, key, *_steps(inner)]
                break
    # What is left is a step of a relative peer: its field is named, which is near enough.
    return message, steps[: steps.index(_ELSEWHERE)] if _ELSEWHERE in steps[2:] else steps


def _value_at(plan: Any, steps: list[Step]) -> Any:
    value = plan
    for part in steps:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _unknown_field(record: Any, name: str, path: str, file: str | None) -> PlanError:
    hint = ""
    kind = record.get("op") if isinstance(record, dict) else None
    cls = OP_CLASSES.get(kind) if isinstance(kind, str) else None
    if cls is None:
        hint = nearest(name, _record_fields(path))
    else:
        hint = nearest(name, cls.__struct_encode_fields__)
        if not hint:
            every = {
                field for other in OP_CLASSES.values() for field in other.__struct_encode_fields__
            }
            hint = nearest(name, every)
            hint = f"{hint} {record['op']} does not have it" if hint else ""
    hint = hint or "names that start with x- are ignored"
    return refusal(
        f"unknown field {name!r}",
        code="PG906",
        file=file,
        path=step(path, name),
        value=name,
        hint=hint,
    )


def _record_fields(path: str) -> tuple[str, ...]:
    """Return the field names of the records that can stand at a path outside the programs."""
    if path == "$":
        return Document.__struct_encode_fields__
    cls: Any = {
        "groups": GroupSpec, "tensors": TensorSpec, "ranks": Use, "fusion": FusionSpec,
        "mesh": MeshSpec, "producer": ProducerSpec, "approximations": ApproximationSpec,
    }.get(re.split(r"[.\[]", path)[1], Part)  # fmt: skip
    return tuple(cls.__struct_encode_fields__)


def _hint(steps: list[Step], value: Any) -> str:
    last = steps[-1] if steps else ""
    if last == "op" and isinstance(value, str):
        return (
            trouble_with(value)
            or nearest(value, OP_CLASSES)
            or f"operations: {', '.join(OP_CLASSES)}"
        )
    if last == "schema":
        return f'this version reads "{SCHEMA}"'
    return "docs/reference/plan-format.md lists the fields and their types"
