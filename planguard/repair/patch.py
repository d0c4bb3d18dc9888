"""Edits of a plan file: JSON Patch (RFC 6902: add, remove, replace) on the object and on its text.

Edits are applied one after the other; a pointer speaks of the document that the edits before it
left. On the text only the bytes of the edited values change, so that comments in ``x-`` fields, the
order of keys and the line breaks of the user's file stay as they are.
"""

from __future__ import annotations

import copy
import difflib
import json
from dataclasses import dataclass
from json.decoder import WHITESPACE, scanstring  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any

from planguard.errors import PlanError, UsageError
from planguard.plan.format import read

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planguard.plan.plan import Plan
    from planguard.plan.pointers import Step, Steps
    from planguard.verdict import Edit, Repair

_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_blank = WHITESPACE.match
_BLOCKS = ("body", "threads", "branches")
MAX_DIFFED = 2_000
"""Changed lines up to which they are told apart; beyond, they are one hunk."""


def pointer(steps: Iterable[Step]) -> str:
    """Return the JSON Pointer (RFC 6901) of some steps: ``/ranks/0/actions/3``."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def steps_of(document: Any, text: str, op: str = "add") -> Steps:
    """Resolve a JSON Pointer; what is added need not exist, what is changed must.

    Raises:
        PlanError: The pointer leads nowhere.
    """
    steps: list[Step] = []
    node = document
    parts = text.split("/")[1:]
    for number, part in enumerate(parts):
        key: Step = part.replace("~1", "/").replace("~0", "~")
        is_last = number == len(parts) - 1
        try:
            if isinstance(node, list):
                key = len(node) if part == "-" else int(part)
                if not 0 <= key < len(node) + (is_last and op == "add"):
                    raise IndexError(part)
            elif not isinstance(node, dict) or (key not in node and not (is_last and op == "add")):
                raise KeyError(part)
            steps.append(key)
            node = None if is_last else node[key]
        except (KeyError, IndexError, ValueError):
            hint = "apply the edits in their order to the file they were made for"
            message = "an edit names a place that the plan does not have"
            raise PlanError(message, value=text, hint=hint) from None
    return tuple(steps)


def resolve(document: Any, steps: Iterable[Step]) -> Any:
    """Return what stands at a place."""
    for step in steps:
        document = document[step]
    return document


def apply(document: Any, edits: Iterable[Edit]) -> Any:
    """Return a decoded plan with some edits; what they leave alone is shared with ``document``.

    Raises:
        PlanError: An edit names a place that does not exist.
    """
    for edit in edits:
        document = _changed(document, steps_of(document, edit.pointer, edit.op), edit)
    return document


def repaired(repair: Repair, plan: Plan) -> Plan:
    """Return a plan with the edits of a repair.

    Raises:
        PlanError: An edit names a place that the plan does not have, or the edited plan is none.
        UsageError: The repair has no edits of a plan.
    """
    if not repair.edits:
        hint = "its `patch` is the diff of the program" if repair.patch else "its `text` says what"
        raise UsageError("the repair has no edits of a plan", hint=hint)
    return read(apply(plan.to_json(), repair.edits), limits=plan.limits)


def _changed(node: Any, steps: Steps, edit: Edit) -> Any:
    """Return a container with one edit inside; only what lies on the way to it is copied."""
    changed = copy.copy(node)
    key: Any = steps[0]
    if len(steps) > 1:
        changed[key] = _changed(node[key], steps[1:], edit)
    elif edit.op == "remove":
        del changed[key]
    elif edit.op == "add" and isinstance(changed, list):
        changed.insert(key, edit.value)
    else:
        changed[key] = edit.value
    return changed


def replaced(document: Any, edits: Iterable[Edit]) -> list[Any]:
    """Return what every edit finds at its place: what it changes, or comes to stand before.

    Raises:
        PlanError: An edit names a place that does not exist.
    """
    found: list[Any] = []
    for edit in edits:
        *path, last = steps_of(document, edit.pointer, edit.op)
        holder = resolve(document, path)
        is_there = last < len(holder) if isinstance(last, int) else last in holder
        found.append(holder[last] if is_there else None)
        document = apply(document, (edit,))
    return found


def apply_text(text: bytes, edits: Iterable[Edit]) -> bytes:
    """Return the text of a plan file with some edits; everything else stays byte by byte.

    Raises:
        PlanError: An edit names a place that does not exist.
    """
    written = text.decode()
    document = json.loads(written)
    for edit in edits:
        steps = steps_of(document, edit.pointer, edit.op)
        document = apply(document, (edit,))
        written = _spliced(written, steps, edit)
    return written.encode()


@dataclass(frozen=True)
class _Child:
    """One entry of an object or list: where its key (or itself) begins, and its value."""

    key: Step
    head: int
    start: int
    end: int


def _children(text: str, place: int) -> list[_Child]:
    """Return the entries of the container whose bracket is at ``place``."""
    found: list[_Child] = []
    is_object = text[place] == "{"
    place = _blank(text, place + 1).end()
    while text[place] not in "]}":
        key: Step = len(found)
        head = place
        if is_object:
            key, place = scanstring(text, place + 1)
            place = _blank(text, _blank(text, place).end() + 1).end()
        end = _scan(text, place)[1]
        found.append(_Child(key, head, place, end))
        place = _blank(text, end).end()
        place = _blank(text, place + (text[place] == ",")).end()
    return found


def _spliced(text: str, steps: Steps, edit: Edit) -> str:
    place = _blank(text, 0).end()
    for step in steps[:-1]:
        place = next(child.start for child in _children(text, place) if child.key == step)
    children, last = _children(text, place), steps[-1]
    at = next((n for n, child in enumerate(children) if child.key == last), None)
    is_list = text[place] == "["
    if edit.op == "remove":
        assert at is not None  # noqa: S101  steps_of found it
        return _without(text, children, at)
    if at is not None and not (edit.op == "add" and is_list):
        child = children[at]
        value = _fragment(edit.value, _gap(text, child.start))
        return text[: child.start] + value + text[child.end :]
    key = "" if is_list else json.dumps(last, ensure_ascii=False) + ": "
    return _with(text, place, children, at, key, edit.value)


def _without(text: str, children: list[_Child], at: int) -> str:
    child = children[at]
    if at + 1 < len(children):
        return text[: child.head] + text[children[at + 1].head :]
    start = children[at - 1].end if at else child.head
    return text[:start] + text[child.end :]


def _with(text: str, place: int, children: list[_Child], at: int | None, key: str, new: Any) -> str:
    if at is not None:  # before an entry of a list
        start = children[at].head
        gap = _gap(text, start)
        return text[:start] + key + _fragment(new, gap) + "," + (gap or " ") + text[start:]
    if not children:
        return text[: place + 1] + key + _fragment(new, "") + text[place + 1 :]
    last = children[-1]
    gap = _gap(text, last.head)
    return text[: last.end] + "," + (gap or " ") + key + _fragment(new, gap) + text[last.end :]


def _gap(text: str, start: int) -> str:
    """Return the white space before a place."""
    before = start
    while before and text[before - 1] in " \t\r\n":
        before -= 1
    return text[before:start]


def _fragment(value: Any, gap: str) -> str:
    """Write a value; where actions stand on their own lines, those inside of a block do as well."""
    if "\n" not in gap:
        return json.dumps(value, ensure_ascii=False)
    inner = gap + " "
    if isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        rows = ("," + inner).join(_fragment(item, inner) for item in value)
        return f"[{inner}{rows}]"
    field = next((name for name in _BLOCKS if isinstance(value, dict) and name in value), None)
    if field is None or "op" not in value:
        return json.dumps(value, ensure_ascii=False)
    head = json.dumps({k: v for k, v in value.items() if k != field}, ensure_ascii=False)
    return f'{head[:-1]}, "{field}": {_fragment(value[field], inner)}}}'


# --- differences ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hunk:
    """Lines of a text that become others; ``first`` is 0-based, ``last`` is not included."""

    first: int
    last: int
    lines: tuple[str, ...]


def hunks(before: Sequence[str], after: Sequence[str]) -> list[Hunk]:
    """Return what turns some lines into others."""
    low = 0
    while low < min(len(before), len(after)) and before[low] == after[low]:
        low += 1
    high = 0
    while high < min(len(before), len(after)) - low and before[-1 - high] == after[-1 - high]:
        high += 1
    old, new = before[low : len(before) - high], after[low : len(after) - high]
    if max(len(old), len(new)) > MAX_DIFFED:
        return [Hunk(low, low + len(old), tuple(new))]
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return [
        Hunk(low + i1, low + i2, tuple(new[j1:j2]))
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    ]
