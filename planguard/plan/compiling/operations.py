"""Communication operations that other packages add, as data: who meets, who waits, what agrees.

A registered operation gets a record for the reader, a kind for the kernels and a row in the tables
of every execution model. Registration is per process. An operation that a plan names and nobody
registered is looked for among the entry points of ``planguard.operations``; only the one of that
name is imported. Discovery is here and not beside that of the adapters because the reader needs it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from msgspec import defstruct

from planguard.errors import UsageError, shorten
from planguard.plan import nodes as n
from planguard.plan.actions import OPERATION_KINDS, REGISTERED_NAME, Kind
from planguard.plan.vocabulary import (
    COLLECTIVE_KIND,
    COLLECTIVES,
    FIELDS,
    OPERATIONS,
    Family,
    Operation,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from importlib import metadata

    from planguard.plan.code import Program

GROUP = "planguard.operations"
FORMULAS: dict[str, Callable[[int, int, int, int], int]] = {
    "whole": lambda _src, _dst, _members, size: size,
    "share": lambda _src, _dst, members, size: size // members,
    "next": lambda src, dst, members, size: size if dst == (src + 1) % members else 0,
}
"""Names for ``OperationSpec.bytes_per_edge``; called as ``(src, dst, members, bytes)``."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
BUILT_IN = frozenset(n.OP_CLASSES)
"""The operations of the format itself."""


@dataclass(frozen=True, kw_only=True)
class OperationSpec:
    """A communication operation: a call that every member of a group makes.

    The k-th call of each member on a group forms the k-th round of the group, together with all
    other collectives there; two operations meet if one is another ``spelling`` of the other.

    Attributes:
        name: Its ``op`` in plan files: lower case letters, digits and ``_``.
        degree: ``all``: every member waits for every member. ``root``: the root waits for every
            member, the others for the root only, and every call names its ``root``. Under the
            MPI models it is carried out like a ``scatter``: small messages let the root leave
            early, and a member may have to wait for any other.
        spelling: A built-in collective, other than ``barrier``, of which this is another name.
            Degree and agreement are then those of the built-in one.
        agree: Which of ``FIELDS`` must be equal on all members; others are not compared. Without
            a ``reduce_op`` a call means ``sum``; a dtype or size that is not given agrees with all.
        bytes_per_edge: What goes from the member in place ``src`` of the group to that in place
            ``dst``, for pictures: one of ``FORMULAS``, or a function of ``(src, dst, members,
            bytes)``. None: not known.
    """

    name: str
    degree: Literal["all", "root"] = "all"
    spelling: str | None = None
    agree: tuple[str, ...] = FIELDS
    bytes_per_edge: str | Callable[[int, int, int, int], int] | None = None


@dataclass(frozen=True)
class OperationProblem:
    """An operation that is registered by an entry point and cannot be used.

    Attributes:
        name: Name of the entry point.
        target: ``module:attribute``.
        reason: Why it cannot be used.
    """

    name: str
    target: str
    reason: str

    def __str__(self) -> str:
        return f"operation {self.name} ({self.target}): {self.reason}"


_specs: dict[str, OperationSpec] = {}
_problems: dict[str, OperationProblem] = {}


def register(spec: OperationSpec) -> None:
    """Make an operation known to this process; the same one twice is the same as once.

    Raises:
        UsageError: The specification contradicts itself, the name is taken, or no kind is left.
    """
    if _specs.get(spec.name) == spec:
        return
    _validate(spec)
    # Imported here: the emitter reads this module for every signature.
    from planguard.plan.compiling.emitter import Emitter

    if spec.spelling is None:
        kind = _free_kind(spec)
        emit = Emitter.operation
        REGISTERED_NAME[kind] = spec.name
    else:
        kind = COLLECTIVE_KIND[spec.spelling]
        emit = Emitter.collective
    title = spec.name.title().replace("_", "")
    cls: Any = defstruct(title, [], bases=(n.Collective,), tag=spec.name, frozen=True)
    _specs[spec.name] = spec
    OPERATIONS[spec.name] = _row(spec, kind)
    n.OP_CLASSES[spec.name] = cls
    COLLECTIVE_KIND[spec.name] = kind
    Emitter.HANDLERS[cls] = (emit, kind)


def unregister(name: str) -> None:
    """Forget an operation, for tests; plans that use it must not be checked any more.

    Raises:
        UsageError: It is not registered.
    """
    from planguard.plan.compiling.emitter import Emitter

    if name not in _specs:
        raise UsageError(f"no operation {shorten(name)!r} is registered", hint=_known())
    del _specs[name], Emitter.HANDLERS[n.OP_CLASSES.pop(name)]
    del OPERATIONS[name]
    kind = COLLECTIVE_KIND.pop(name)
    if kind in REGISTERED_NAME:
        del REGISTERED_NAME[kind]


def registered() -> tuple[OperationSpec, ...]:
    """Return the operations that are registered in this process, in order of registration."""
    return tuple(_specs.values())


def _row(spec: OperationSpec, kind: Kind) -> Operation:
    """Return the row of a registered operation; another spelling is what the built-in one is."""
    if spec.spelling is not None:
        built_in = OPERATIONS[spec.spelling]
        same = built_in.same or built_in.name
        return replace(built_in, name=spec.name, same=same, bytes_per_edge=spec.bytes_per_edge)
    return Operation(
        name=spec.name,
        family=Family.COLLECTIVE,
        kind=kind,
        degree=spec.degree,
        agree=spec.agree,
        bytes_per_edge=spec.bytes_per_edge,
    )


def row_of(kind: int) -> Operation:
    """Return the row of the operation that has one of the ``OPERATION_KINDS``."""
    return OPERATIONS[REGISTERED_NAME[kind]]


def rooted_kinds() -> tuple[Kind, ...]:
    """Return the kinds of the operations whose degree is ``root``."""
    return tuple(Kind(kind) for kind in REGISTERED_NAME if row_of(kind).degree == "root")


def used(programs: Iterable[Program]) -> tuple[str, ...]:
    """Return ``operation:NAME`` of every registered operation in some programs, sorted."""
    if not _specs:
        return ()
    classes: set[type] = set()
    for program in programs:
        classes.update(map(type, program.nodes))
    return tuple(f"operation:{name}" for name in sorted(_specs) if n.OP_CLASSES[name] in classes)


def find(name: str) -> type[n.Node] | None:
    """Return the record class of a registered operation, importing its plug-in if there is one."""
    if name in _specs:
        return n.OP_CLASSES[name]
    if name in BUILT_IN:
        return None
    for point in entry_points():
        if point.name == name:
            _load(point)
    return n.OP_CLASSES.get(name)


def entry_points() -> tuple[metadata.EntryPoint, ...]:
    """List the entry points of other distributions, by name, without importing them."""
    if os.environ.get("PLANGUARD_NO_PLUGINS", "") not in {"", "0"}:
        return ()
    from importlib import metadata  # slow, and most plans name operations of the format itself

    found = metadata.entry_points(group=GROUP)
    return tuple(sorted(found, key=lambda point: (point.name, point.value)))


def problems() -> tuple[OperationProblem, ...]:
    """Try every entry point and list those that cannot be used."""
    for point in entry_points():
        _load(point)
    return tuple(_problems.values())


def trouble_with(name: str) -> str:
    """Return why the plug-in of an operation cannot be used; empty if there is none."""
    return "; ".join(str(found) for found in _problems.values() if found.name == name)


def _load(point: metadata.EntryPoint) -> None:
    """Register the operation of an entry point; a failure of any kind becomes a problem."""
    place = f"{point.name}={point.value}"
    try:
        spec = point.load()
        if not isinstance(spec, OperationSpec):
            raise UsageError(f"{type(spec).__name__} is not an OperationSpec")
        if spec.name != point.name:
            raise UsageError(f"it calls itself {spec.name!r}")
        register(spec)
    except Exception as error:  # noqa: BLE001 - importing foreign code may raise anything
        reason = f"{type(error).__name__}: {error}"
        _problems[place] = OperationProblem(point.name, point.value, shorten(reason, 200))
    else:
        _problems.pop(place, None)


def _validate(spec: OperationSpec) -> None:
    def need(holds: object, message: str, hint: str) -> None:
        if not holds:
            raise UsageError(f"operation {shorten(str(spec.name))!r}: {message}", hint=hint)

    need(_NAME.fullmatch(str(spec.name)), "not a name", "use lower case letters, digits and _")
    need(spec.name not in n.OP_CLASSES, "the name is taken", "choose another name")
    need(spec.degree in ("all", "root"), f"degree {spec.degree!r} is unknown", "all or root")
    unknown = ", ".join(sorted(map(str, set(spec.agree) - set(FIELDS))))
    need(not unknown, f"agree names {unknown}", f"fields: {', '.join(FIELDS)}")
    rooted = spec.degree == "root" and spec.spelling is None
    need(not rooted or "root" in spec.agree, "members must agree on the root", "add it to agree")
    if spec.spelling is not None:
        built_in = spec.spelling in COLLECTIVES - {"barrier"}
        message = f"{spec.spelling!r} is no built-in collective that moves data"
        need(built_in, message, "for example all_gather")
        given = spec.degree != "all" or set(spec.agree) != set(FIELDS)
        need(not given, "another spelling waits and agrees like the original",
             "leave degree and agree out, or spelling")  # fmt: skip
    formula = spec.bytes_per_edge
    known = formula is None or callable(formula) or formula in FORMULAS
    need(known, "bytes_per_edge is no known formula", f"formulas: {', '.join(FORMULAS)}")


def _free_kind(spec: OperationSpec) -> Kind:
    kind = next((kind for kind in OPERATION_KINDS if kind not in REGISTERED_NAME), None)
    if kind is None:
        message = f"operation {spec.name!r}: {len(OPERATION_KINDS)} operations are registered"
        hint = f"that is all a process can hold; {_known()}"
        raise UsageError(message, hint=hint)
    return kind


def _known() -> str:
    return f"registered: {', '.join(_specs) or 'none'}"
