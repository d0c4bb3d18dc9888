"""Nodes of a dump as they are written, in one piece; arguments and values, one by one.

A node that is like the others is made of its row. Of any other the reader of one node says what it
is, or what is wrong with it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from planguard.errors import PlanError

from ..common.reading import At
from .model import Arg, FxNode, Opaque, Ref, Sym, TensorMeta, Val

Op = Literal["placeholder", "get_attr", "call_function", "call_method", "call_module", "output"]
DEEPEST = 50
"""Lists in lists of an argument or a value."""
Text = Annotated[str, Meta(max_length=10_000)]
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class _Value(Struct, forbid_unknown_fields=True, gc=False):
    """What a node returns, as it is written: a tensor, or a symbolic integer."""

    shape: tuple[Number | Sym, ...] | UnsetType = UNSET
    dtype: Text | UnsetType = UNSET
    sym: Text | UnsetType = UNSET
    hint: Number | UnsetType = UNSET


class Row(Struct, forbid_unknown_fields=True, gc=False):
    """A node as it is written."""

    name: Text
    op: Op = "call_function"
    target: Text | UnsetType = UNSET
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    val: _Value | int | list[Any] | None = None
    src: tuple[Text, Number | None, Text | None] | UnsetType = UNSET
    fqn: Text | UnsetType = UNSET
    fqns: tuple[Text | None, ...] = ()
    view: bool = False
    mutates: tuple[Text, ...] = ()


class Reader:
    """Makes the nodes of a graph of its rows; whatever is odd ends in a PlanError."""

    def __init__(self) -> None:
        self.known: dict[str, Ref] = {}
        self.used: list[str] = []

    def nodes(self, rows: list[Row]) -> tuple[FxNode, ...]:
        """Return the nodes.

        Raises:
            PlanError: One is wrong, or is written in a way that ``_node`` knows.
        """
        known, made, arg = self.known, [], self._arg
        for row in rows:
            name, target, val = row.name, row.target, row.val
            self.used = []
            node = FxNode(
                name,
                row.op,
                name if target is UNSET else target,
                tuple(map(arg, row.args)) if row.args else (),
                {key: arg(one) for key, one in row.kwargs.items()} if row.kwargs else {},
                None if val is None else self._val(val),
                None if row.src is UNSET else row.src,
                None if row.fqn is UNSET else row.fqn,
                row.fqns,
                row.view,
                row.mutates,
            )
            if name in known or (row.mutates and not known.keys() >= {*row.mutates}):
                raise PlanError("a node of that name, or none of that name before it")
            known[name] = Ref(name)
            node.__dict__["used"] = tuple(self.used)  # what ``FxNode.used`` would find again
            made.append(node)
        return tuple(made)

    def _arg(self, value: Any, depth: int = 0) -> Arg:
        kind = value.__class__
        if kind is dict:
            if len(value) > 1 or "ref" not in value:
                arg = read_arg(At(value))
                if not isinstance(arg, Ref):
                    return arg
            name = value["ref"]
            if name.__class__ is not str or name not in self.known:
                raise PlanError("no node before this one")
            self.used.append(name)
            return self.known[name]
        if kind is list:
            if depth == DEEPEST:
                raise PlanError("nested too deeply")
            return tuple([self._arg(one, depth + 1) for one in value])
        return value  # type: ignore[no-any-return]

    def _val(self, value: _Value | int | list[Any]) -> Val:
        if value.__class__ is not _Value:
            return read_val(At(value))
        shape, dtype, sym, hint = value.shape, value.dtype, value.sym, value.hint
        if shape is not UNSET and dtype is not UNSET and sym is hint is UNSET:
            return TensorMeta(shape, dtype)
        if sym is UNSET or shape is not UNSET or dtype is not UNSET:
            raise PlanError("neither a tensor nor a symbolic integer")
        return Sym(sym, None if hint is UNSET else hint)


def read_arg(at: At, depth: int = 0) -> Arg:
    """Return an argument."""
    if depth > DEEPEST:
        at.fail("arguments are nested too deeply")
    if isinstance(at.value, list):
        return tuple(read_arg(item, depth + 1) for item in at.each())
    if isinstance(at.value, dict):
        found = at.fields("ref", "sym", "hint", "text")
        if set(found) == {"ref"}:
            return Ref(found["ref"].text())
        if set(found) == {"text"}:
            return Opaque(found["text"].text())
        return _sym(at)
    value: Arg = at.value
    return value


def _sym(at: At) -> Sym:
    found = at.fields("sym", "hint")
    if "sym" not in found:
        at.fail("expected {ref}, {text} or {sym, hint}")
    return Sym(found["sym"].text(), found["hint"].integer() if "hint" in found else None)


def read_val(at: At, depth: int = 0) -> Val:
    """Return what a node returns."""
    if depth > DEEPEST:
        at.fail("values are nested too deeply")
    if at.value is None:
        return None
    if isinstance(at.value, list):
        return tuple(read_val(item, depth + 1) for item in at.each())
    if isinstance(at.value, int):
        return at.integer(-(2**63))
    if isinstance(at.value, dict) and "sym" in at.value:
        return _sym(at)
    found = at.fields("shape", "dtype")
    if set(found) != {"shape", "dtype"}:
        at.fail("a tensor value has shape and dtype")
    shape = tuple(
        _sym(d) if isinstance(d.value, dict) else d.integer() for d in found["shape"].each()
    )
    return TensorMeta(shape, found["dtype"].text())
