"""Text of a plan file: one action per line, so that findings can name lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from planguard.plan import nodes as n
from planguard.plan.vocabulary import BLOCKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from planguard.plan.document import Document

_encode = msgspec.json.encode


def document_text(document: Document) -> bytes:
    """Return the text of a document; reading it gives an equal document."""
    templates = None if document.templates is UNSET else document.templates
    ranks: dict[str, list[Any] | bytes] = {}
    for selector, use in document.ranks.items():
        is_explicit = use.actions is not UNSET and use.template is UNSET
        ranks[selector] = list(use.actions or ()) if is_explicit else _encode(use)
    head = msgspec.structs.replace(document, templates=UNSET, ranks={})
    return b"".join(plan_lines(msgspec.to_builtins(head), templates, ranks.items()))


def plan_lines(
    head: dict[str, Any],
    templates: Mapping[str, Sequence[Any]] | None,
    ranks: Iterable[tuple[str, Sequence[Any] | bytes]],
) -> Iterator[bytes]:
    """Yield the text of a plan file piece by piece.

    Args:
        head: Every top-level field but ``templates`` and ``ranks``.
        templates: Actions by template name; None leaves the field out.
        ranks: Selector and actions, or the text of what stands in their place.
    """
    yield b"{"
    for name, value in head.items():
        if name not in {"templates", "ranks"}:
            yield _encode(name) + b": " + _field(value) + b",\n "
    if templates is not None:
        yield b'"templates": {'
        separator = b"\n  "
        for name, actions in templates.items():
            yield separator + _encode(name) + b": [" + b"".join(_block(actions, 3)) + b"]"
            separator = b",\n  "
        yield b"},\n "
    yield b'"ranks": {'
    separator = b"\n  "
    for selector, program in ranks:
        yield separator + _encode(selector) + b": "
        if isinstance(program, bytes):
            yield program
        else:
            yield b'{"actions": ['
            yield from _block(program, 3)
            yield b"]}"
        separator = b",\n  "
    yield b"}}\n"


def _field(value: Any) -> bytes:
    """Return a top-level field; maps and lists of records get one line per entry."""
    if isinstance(value, dict) and value and all(isinstance(v, dict) for v in value.values()):
        lines = [_encode(key) + b": " + _encode(inner) for key, inner in value.items()]
        return b"{\n  " + b",\n  ".join(lines) + b"}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return b"[\n  " + b",\n  ".join(map(_encode, value)) + b"]"
    return bytes(_encode(value))


def _block(actions: Sequence[Any], indent: int) -> Iterator[bytes]:
    """Yield the actions of a block, each on its own line."""
    separator = b"\n" + b" " * indent
    for action in actions:
        yield separator + _action(action, indent)
        separator = b",\n" + b" " * indent


def _action(action: Any, indent: int) -> bytes:
    """Return one action; blocks go over several lines, everything else over one."""
    if isinstance(action, list):
        return b"[" + b"".join(_block(action, indent + 1)) + b"]"
    plain = action if isinstance(action, dict) else None
    if plain is None:
        if not isinstance(action, _BLOCKS):
            return bytes(_encode(action))
        plain = {"op": n.op_name(action)} | {
            name: getattr(action, name)
            for name in action.__struct_fields__
            if getattr(action, name) is not UNSET
        }
    field = BLOCKS.get(plain["op"])
    if field is None:
        return bytes(_encode(plain))
    head = _encode({name: value for name, value in plain.items() if name != field})
    inner = b"".join(_block(plain[field], indent + 1))
    return head[:-1] + b',"' + field.encode() + b'":[' + inner + b"]}"


_BLOCKS = (n.Repeat, n.Unordered, n.Threads, n.Choice)
